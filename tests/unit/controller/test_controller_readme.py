"""The README's example of a model with a tool of one's own does what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.model_server import Say, call, text

if TYPE_CHECKING:
    from tests.unit.controller.conftest import Model

README = Path(__file__).parents[3] / "README.md"


def test_the_example_works(model: Model, tmp_path: Path) -> None:
    found = re.search(
        r"<!-- example: tools-controller -->\n```python\n(.*?)```",
        README.read_text(encoding="utf-8"),
        re.DOTALL,
    )
    assert found
    model.server.script(Say([call("population", {"name": "Oslo"}, "c1")]), Say([text("717,710.")]))
    environ = {
        "HOME": str(tmp_path),
        "SANDBOX_SKILLS_MODEL__BASE_URL": model.server.base_url,
        "SANDBOX_SKILLS_MODEL__NAME": "scripted/model",
    }
    command = [sys.executable, "-W", "error", "-c", found[1]]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("completed 717,710. 2\n", "")
    assert model.server.bodies[1]["input"][-1]["output"] == "717710"
