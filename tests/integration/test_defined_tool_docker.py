"""A tool that is defined at run time is staged like any skill, and its handler runs in the sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_skills.catalog import check_call, defined_tools, handler_input, read_definition
from sandbox_skills.spec import Exited
from sandbox_skills.workspace.manager import Argv, RunRequest, WorkspaceManager

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.engines.base import Engine
    from sandbox_skills.workspace.staging import SkillStore

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

CALL_JAVASCRIPT = """
const [script, input] = process.argv.slice(1);
const module = await import(`${process.cwd()}/${script}`);
console.log(JSON.stringify(await module.default(JSON.parse(input))));
"""

CODE = {
    "python": ("return {'sum': args['a'] + 1}", ("python3",)),
    "javascript": (
        "return { sum: args.a + 1 };",
        ("node", "--input-type=module", "--eval", CALL_JAVASCRIPT, "--"),
    ),
}


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("language", CODE)
async def test_a_defined_tool_answers_in_the_sandbox(
    docker_engine: Engine, store: SkillStore, tmp_path: Path, language: str, *, persistent: bool
) -> None:
    code, interpreter = CODE[language]
    parameters = {"a": {"type": "number", "description": "What is increased"}}
    asked = {"name": "add__one", "description": "Adds one.", "parameters": parameters}
    with defined_tools(tmp_path / "skills", temporary=tmp_path) as tools:
        made = tools.define(
            read_definition({**asked, "code": code, "language": language, "persistent": persistent})
        )
        check_call(made.tool, {"a": 1})
        assert made.tool.script is not None
        call = Argv((*interpreter, made.tool.script, handler_input({"a": 1}, "/workspace/work")))
        result = await WorkspaceManager(docker_engine, store).run(
            made.directory, RunRequest(call), tenant="t"
        )
    assert (result.outcome.ending, result.outcome.stderr) == (Exited(0), b"")
    assert result.outcome.stdout.replace(b" ", b"") == b'{"sum":2}\n'
    assert made.directory.exists() is persistent
