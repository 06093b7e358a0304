"""Handlers of tools, over every engine that runs programs: called through the shims that its boxes have."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

import pytest

from sandbox_skills.spec import Exited
from sandbox_skills.workspace.handlers import handler_request
from sandbox_skills.workspace.manager import WorkspaceManager
from tests.contract.engines import ALL

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.engines.base import Engine
    from sandbox_skills.spec import SandboxSpec
    from sandbox_skills.workspace.staging import SkillStore

pytestmark = pytest.mark.anyio

FILES = {
    "x.py": "def handler(args):\n    print('stray')\n    open('x', 'w').close()\n    return args\n",
    "x.sh": 'touch "$WORK_DIR/x"\nprintf %s "$1"\n',
}


@pytest.fixture(params=[name for name in ALL if name != "fake"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return cast("Engine", request.getfixturevalue(f"{request.param}_engine"))


@pytest.mark.parametrize("file", FILES)
async def test_a_handler_answers_and_works_in_its_directory(
    engine: Engine, spec: SandboxSpec, store: SkillStore, tmp_path: Path, file: str
) -> None:
    (tmp_path / "SKILL.md").write_text("---\nname: skill\ndescription: d\n---\n", encoding="utf-8")
    (tmp_path / file).write_text(FILES[file], encoding="utf-8")
    text = json.dumps({"a": 1, "__workDir": "/workspace/work"})
    manager = WorkspaceManager(engine, store, spec=spec)
    result = await manager.run(tmp_path, handler_request(file, text), tenant="t")
    assert result.outcome.ending == Exited(0), result.outcome
    answer = json.loads(result.outcome.stdout)
    assert answer["a"] == 1
    assert answer["__workDir"].endswith("/work")
