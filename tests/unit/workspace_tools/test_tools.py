"""Which tools are offered, and what a model is told of them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, cast

import pytest
from jsonschema import Draft202012Validator

from sandbox_skills.errors import (
    EngineError,
    SandboxLostError,
    SettingsError,
    SkillNotFoundError,
    ToolCallError,
    Violation,
)
from sandbox_skills.toolsets.base import ToolCall
from sandbox_skills.toolsets.workspace_tools.definitions import MAX_ENUM, tools_for
from sandbox_skills.toolsets.workspace_tools.names import ALL, KNOWLEDGE, NEEDS, chosen_tools

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from tests.unit.workspace_tools.conftest import World

    OpenWorld = Callable[..., AbstractAsyncContextManager[World]]

pytestmark = pytest.mark.anyio


class TestChoice:
    def test_the_profiles_are_all_and_those_that_start_nothing(self) -> None:
        assert chosen_tools("full", None, saves=True) == ALL
        assert chosen_tools("full", None, saves=False) == ALL[:-1]
        assert chosen_tools("knowledge_only", None, saves=True) == KNOWLEDGE

    def test_a_list_of_names_stands_in_place_of_the_profile(self) -> None:
        allowed = {"skill_run", "skill_load"}
        assert chosen_tools("knowledge_only", allowed, saves=False) == ("skill_load", "skill_run")

    @pytest.mark.parametrize(("name", "needed"), NEEDS.items())
    def test_a_tool_without_the_one_it_needs_is_refused(self, name: str, needed: str) -> None:
        with pytest.raises(SettingsError, match=f"{name} is of no use without {needed}"):
            chosen_tools("full", {name}, saves=True)

    @pytest.mark.parametrize(
        ("profile", "allowed", "match"),
        [
            ("", None, "no profile ''"),
            ("everything", None, "no profile 'everything'"),
            ("full", set(), "empty"),
            ("full", {"skill_fly"}, "no workspace tool 'skill_fly'"),
            ("full", {"workspace_save_artifact"}, "artifact store"),
        ],
    )
    def test_what_is_no_choice_is_refused(self, profile: str, allowed: set[str] | None, match: str) -> None:
        with pytest.raises(SettingsError, match=match):
            chosen_tools(profile, allowed, saves=False)

    async def test_a_tool_that_is_not_offered_is_none(self, open_world: OpenWorld) -> None:
        async with open_world(profile="knowledge_only") as world:
            assert [tool.name for tool in world.toolset.tools()] == list(KNOWLEDGE)
            assert "no tool is named 'skill_run'" in await world.error("skill_run", skill="x", command="y")


class TestDefinitions:
    async def test_every_schema_is_one_and_names_the_skills(self, world: World) -> None:
        for tool in world.toolset.tools():
            Draft202012Validator.check_schema(tool.parameters)
            if tool.result is not None:
                Draft202012Validator.check_schema(tool.result)
            properties = cast("dict[str, Any]", tool.parameters["properties"])
            if "skill" in properties:
                assert properties["skill"]["enum"] == ["csv-tools", "pdf-tools", "weather"]
            assert all("description" in one for one in properties.values()), tool.name

    async def test_they_are_made_anew_only_when_the_skills_change(self, world: World, skills: Path) -> None:
        before = world.toolset.tools()
        assert world.toolset.tools() is before
        shutil.rmtree(skills / "weather")
        assert world.toolset.tools() is not before
        for name in ("csv-tools", "pdf-tools"):
            shutil.rmtree(skills / name)
        assert world.toolset.tools() == ()
        assert world.toolset.prompt(world.conversation) == ""

    @pytest.mark.parametrize(
        ("count", "listed"), [(0, False), (1, True), (MAX_ENUM, True), (MAX_ENUM + 1, False)]
    )
    def test_too_many_names_are_not_listed(self, count: int, *, listed: bool) -> None:
        (tool,) = tools_for({"skill_load"}, [f"s{number}" for number in range(count)])
        assert ("enum" in cast("dict[str, Any]", tool.parameters["properties"])["skill"]) is listed


class TestCalls:
    async def test_what_a_call_is_about_is_known_whatever_its_arguments_are(self, world: World) -> None:
        call = ToolCall("skill_run", {"skill": "x", "command": "ls", 3: 4})
        assert world.toolset.subject(call).skill == "x"
        assert world.toolset.subject(call).command == "ls"
        odd: list[object] = [None, "text", ["list"], {"skill": 1, "command": {}}, 7]
        for arguments in odd:
            subject = world.toolset.subject(ToolCall("skill_run", arguments))
            assert (subject.tool, subject.skill, subject.command) == ("skill_run", "", "")

    @pytest.mark.parametrize("tool", [name for name in ALL if name != "workspace_save_artifact"])
    @pytest.mark.parametrize(
        "arguments", [{}, {"nonsense": 1}, {"skill": "", "command": "", "session_id": None}]
    )
    async def test_bad_arguments_are_told_with_what_there_is(
        self, world: World, tool: str, arguments: dict[str, object]
    ) -> None:
        text = await world.error(tool, **arguments)
        assert text.startswith(f"Error: {tool}: ")
        assert "The parameters are: " in text

    async def test_an_unknown_skill_is_told_with_near_names(self, world: World) -> None:
        for tool in ("skill_load", "skill_list_docs", "skill_select_docs"):
            text = await world.error(tool, skill="csv-tool")
            assert text == "Error: no skill is named 'csv-tool'. Did you mean csv-tools?"

    async def test_null_is_as_if_left_out_and_a_number_is_its_text(self, world: World) -> None:
        await world.call("skill_load", skill="csv-tools", docs=None, include_all_docs=None)
        told = await world.told(
            "skill_run", skill="csv-tools", command="cwd", env={"N": 1}, timeout="5", outputs=None
        )
        assert told["exit_code"] == 0

    async def test_a_sandbox_that_failed_tells_nothing_of_the_host(self, world: World) -> None:
        error = EngineError("the skill store /home/somebody/data cannot be written")
        told = world.toolset.refused(ToolCall("skill_run", {}), error).text
        assert told.startswith("Error: the sandbox failed (engine_error)")
        assert "/home" not in told
        assert "sandbox_lost" in world.toolset.refused(ToolCall("x", {}), SandboxLostError("gone")).text

    async def test_a_refusal_ends_with_the_next_step(self, world: World) -> None:
        error = SkillNotFoundError("no skill is named 'x'", hint="look at the list")
        assert world.toolset.refused(ToolCall("x", {}), error).text == (
            "Error: no skill is named 'x'. Look at the list"
        )
        invalid = ToolCallError("x", [Violation("a", "b")])
        assert world.toolset.refused(ToolCall("x", {}), invalid).text == "Error: x: a: b"
