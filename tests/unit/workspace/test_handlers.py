"""How a handler is called: which shim, which arguments, and where."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

import pytest

from sandbox_skills.engines.fake import FakeEngine
from sandbox_skills.errors import CommandError, PathEscapeError, ScriptNotFoundError
from sandbox_skills.spec import HANDLERS, SandboxSpec
from sandbox_skills.workspace.handlers import (
    MAX_ARGUMENT_BYTES,
    SHIMS,
    handler_argv,
    handler_request,
)
from sandbox_skills.workspace.interpreters import EXTENSIONS
from sandbox_skills.workspace.manager import Argv, RunRequest, WorkspaceManager
from sandbox_skills.workspace.staging import SkillStore

pytestmark = pytest.mark.anyio

ROOT = PurePosixPath("/skills/abc")
IMAGE = Path(__file__).parents[3] / "runner-image" / "handlers"
TEXT = '{"a": 1}'


@pytest.mark.parametrize(
    ("script", "argv"),
    [
        ("scripts/x.py", ("python3", "/opt/sandbox-skills/handlers/python.pyc")),
        ("scripts/X.PY", ("python3", "/opt/sandbox-skills/handlers/python.pyc")),
        ("scripts/x.js", ("sh", "/opt/sandbox-skills/handlers/javascript.sh")),
        ("scripts/x.mts", ("sh", "/opt/sandbox-skills/handlers/javascript.sh")),
        ("scripts/x.sh", ("bash",)),
        ("x.pl", ("perl",)),
    ],
)
def test_the_extension_chooses_the_shim(script: str, argv: tuple[str, ...]) -> None:
    assert handler_argv(ROOT, script, (TEXT,), b"") == (*argv, f"{ROOT}/{script}", TEXT)


def test_a_shebang_speaks_for_a_handler_without_a_known_extension() -> None:
    assert handler_argv(ROOT, "scripts/x", (), b"#!/usr/bin/env bash\n") == ("bash", "/skills/abc/scripts/x")


def test_what_nothing_can_run_or_lies_outside_is_refused() -> None:
    with pytest.raises(CommandError):
        handler_argv(ROOT, "scripts/x.rb", (), b"")
    for script in ("../x.py", "/etc/x.js"):
        with pytest.raises(PathEscapeError):
            handler_argv(ROOT, script, (), b"")


def test_every_python_and_node_script_has_a_shim_and_the_image_has_each() -> None:
    assert set(SHIMS) == {name for name, program in EXTENSIONS.items() if program == "node"} | {".py"}
    named = {Path(shim[-1]).relative_to(HANDLERS) for shim in SHIMS.values()}
    assert named == {Path("python.pyc"), Path("javascript.sh")}
    sources = {path.name for path in IMAGE.iterdir() if path.is_file()}
    assert sources == {"python.py", "javascript.sh", "javascript.cjs"}
    assert '"${0%/*}/javascript.cjs"' in (IMAGE / "javascript.sh").read_text()


@pytest.mark.parametrize(("more", "given"), [(0, True), (1, False)])
def test_a_long_input_is_no_argument(more: int, *, given: bool) -> None:
    text = "x" * (MAX_ARGUMENT_BYTES + more)
    request = handler_request("x.py", text)
    assert request.stdin == text.encode()
    assert getattr(request.invocation, "args", None) == ((text,) if given else ())


async def test_a_handler_runs_in_the_agents_directory(tmp_path: Path) -> None:
    skill = tmp_path / "skill"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: skill\ndescription: d\n---\n")
    (skill / "scripts" / "x.sh").write_text("cat")
    spec = SandboxSpec(needs=frozenset())
    manager = WorkspaceManager(FakeEngine(), SkillStore(tmp_path / "store"), spec=spec)
    staged = await manager.stage(skill, tenant="t")
    ready = await manager.prepare(staged, handler_request("scripts/x.sh", TEXT, timeout=7), tenant="t")
    assert ready.command.argv == ("bash", f"{staged.box_path}/scripts/x.sh", TEXT)
    assert ready.command.cwd == PurePosixPath(ready.command.env["WORK_DIR"])
    assert json.loads(ready.command.stdin or b"") == {"a": 1}
    assert ready.limits.wall_seconds == 7
    with pytest.raises(ScriptNotFoundError, match=r"no script .*y\.sh"):
        await manager.prepare(staged, handler_request("scripts/y.sh", TEXT), tenant="t")
    plain = await manager.prepare(staged, RunRequest(Argv(("true",))), tenant="t")
    assert plain.command.cwd == plain.root
