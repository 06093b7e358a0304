"""Calls as no honest model makes them: whatever the arguments are, a tool answers with JSON, and goes on answering."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox_skills import create_skills_provider, load_settings
from sandbox_skills.wiring.tools import TOOLSETS

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.toolsets.blocking import BlockingSkillsProvider

DEEP: Any = json.loads("[" * 90 + "]" * 90)
ODD: Any = st.sampled_from(
    [
        DEEP,
        "x" * 70_000,
        "[" * 900 + "]" * 900,
        "{}" * 300_000,
        '{"skill": 1e999}',
        '{"skill": NaN}',
        "\x00",
        "\ud800",
        "\x1b[2J",
        "../../../etc/passwd",
        "/etc/passwd",
        "skill://greet/../../x",
        "-rf",
        "a\nb",
        "\N{RIGHT-TO-LEFT OVERRIDE}",
        10**400,
        -1,
        1e308,
        True,
        [],
        {},
        [{}],
        {"a": {"b": ["c"]}},
    ]
)
GOOD: Any = st.sampled_from(
    ["greet", "hello.py", "scripts/hello.py", "SKILL.md", "true", "out/a.txt", "replace"]
)
TEXTS = st.text(st.characters(), max_size=20)
VALUES: Any = (
    GOOD | ODD | st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
)
NESTED: Any = VALUES | st.lists(VALUES, max_size=3) | st.dictionaries(TEXTS, VALUES, max_size=3)


@pytest.fixture
def skills_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "skills/greet/scripts"
    folder.mkdir(parents=True)
    (folder / "hello.py").write_text("print('hello')\n", encoding="utf-8")
    declared = {"name": "say", "description": "Says.", "script": "scripts/hello.py"}
    declared["parameters"] = {"word": {"type": "string", "description": "A word"}}  # type: ignore[assignment]
    (folder.parent / "tools.json").write_text(json.dumps([declared]), encoding="utf-8")
    (folder.parent / "SKILL.md").write_text(
        "---\nname: greet\ndescription: Says hello.\n---\nRun hello.py.\n", encoding="utf-8"
    )
    return tmp_path / "skills"


def arguments_of(tool: dict[str, Any]) -> Any:  # noqa: ANN401  # a strategy
    """Arguments that have some of a tool's own names, and some that nobody has."""
    names = st.sampled_from([*tool["parameters"].get("properties", {}), "none such"])
    objects = st.dictionaries(names | TEXTS, NESTED, max_size=8)
    return objects | ODD | st.text(max_size=20) | objects.map(json.dumps)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("toolset", TOOLSETS)
def test_whatever_the_arguments_are_a_tool_answers(skills_dir: Path, tmp_path: Path, toolset: str) -> None:
    given_settings = load_settings({"data_dir": str(tmp_path / "data"), "engine": "fake"}, environ={})
    with create_skills_provider(
        skills_dir, settings=given_settings, toolsets=[toolset], timeout=1
    ) as provider:
        check_tools(provider)


def check_tools(provider: BlockingSkillsProvider) -> None:
    tools: list[Any] = provider.tools

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        tool = data.draw(st.sampled_from(tools))
        arguments = data.draw(arguments_of(tool))
        answer = provider.handle_tool_call(tool["name"], arguments)
        assert len(json.dumps(answer, allow_nan=False)) < 300_000
        json.dumps(answer, ensure_ascii=False).encode()

    check()
