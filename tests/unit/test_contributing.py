"""CONTRIBUTING tells where everything is."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_layer_has_its_line_in_the_table() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract, *_ = project["tool"]["importlinter"]["contracts"]
    layers = [name for layer in contract["layers"] for name in layer.split(" | ")]
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    missing = [name for name in layers if f"`{name}/`" not in text and f"`{name}.py`" not in text]
    assert missing == []
