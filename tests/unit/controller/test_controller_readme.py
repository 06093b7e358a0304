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
    model.server.script(
        Say([call("population", {"name": "Oslo"}, "c1")]),
        Say([text("717,710.")]),
        Say([call("load_skill", {"skill": "weather"}, "c2")]),
        Say([text("Fine.")]),
    )
    (tmp_path / "skills").symlink_to(README.parent / "skills")
    environ = {
        "HOME": str(tmp_path),
        "SANDBOX_SKILLS_MODEL__BASE_URL": model.server.base_url,
        "SANDBOX_SKILLS_MODEL__NAME": "scripted/model",
        "SANDBOX_SKILLS_ENGINE": "fake",
    }
    command = [sys.executable, "-W", "error", "-c", found[1]]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    first, *events = done.stdout.splitlines()
    assert first == "completed 717,710. 2"
    assert model.server.bodies[1]["input"][-1]["output"] == "717710"
    assert {"tool_started", "tool_finished", "text"} < set(events)
    assert events[-1] == "done"
    assert model.server.asked[0].tools == ["population", "load_skill", "use_skill"]
    assert "weather" in model.server.bodies[0]["instructions"]
