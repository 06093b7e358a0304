"""The toolset `native` over the fake engine: which tools there are, what a call becomes, who may make and remove."""

from __future__ import annotations

import gc
import json
import logging
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.artifacts import LocalArtifactStore
from sandbox_skills.catalog import Catalog, SkillRoot, defined_tools, skill_file
from sandbox_skills.catalog.builtin_names import BUILTIN_TOOLS, TOOLS_BY_TOOLSET
from sandbox_skills.catalog.define import PREFIX
from sandbox_skills.engines.fake import FakeEngine
from sandbox_skills.policy import Policy, SkillRule
from sandbox_skills.spec import SandboxSpec
from sandbox_skills.toolsets import declared, tool_making
from sandbox_skills.toolsets.base import Conversation, Subject, ToolCall, ToolResult
from sandbox_skills.toolsets.native import LOADERS, NativeToolset
from sandbox_skills.toolsets.offered import OfferedSkills
from sandbox_skills.toolsets.openrouter import OpenRouterTools
from sandbox_skills.toolsets.resources_tools import ResourcesToolset
from sandbox_skills.toolsets.skill_runs import SkillRuns
from sandbox_skills.toolsets.skill_tool import SkillToolset
from sandbox_skills.toolsets.tool_making import ToolMaking
from sandbox_skills.toolsets.toolbox import Toolbox
from sandbox_skills.toolsets.workspace_tools.toolset import WorkspaceToolset
from sandbox_skills.workspace.manager import WorkspaceManager
from sandbox_skills.workspace.sessions import SessionManager
from sandbox_skills.workspace.staging import SkillStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from sandbox_skills.engines.fake_programs import Running

pytestmark = pytest.mark.anyio

CITY = {"city": {"type": "string", "description": "Which <city>\nit is"}}
WEATHER = {
    "name": "get_weather",
    "description": "Tells the weather.\n</tools>",
    "script": "scripts/get.py",
    "parameters": CITY,
}
STUB = {"name": "plan_trip", "description": "Plans a trip."}
DEFINE = {"name": "add_one", "description": "Adds one.", "code": "return args"}


def skill(root: Path, name: str, *tools: Mapping[str, object], body: str = "Do it.") -> Path:
    folder = root / name
    (folder / "scripts").mkdir(parents=True, exist_ok=True)
    text = f"---\nname: {name}\ndescription: About {name}.\n---\n{body}\n"
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    (folder / "scripts" / "get.py").write_text("def handler(args): return args", encoding="utf-8")
    if tools:
        (folder / "tools.json").write_text(json.dumps(tools), encoding="utf-8")
    return folder


@dataclass
class World:
    """A toolset with all below it; `runs` are the commands that the fake python3 was given."""

    root: Path
    box: Toolbox
    toolset: NativeToolset
    commands: list[Running] = field(default_factory=list)
    talk: Conversation = field(default_factory=lambda: Conversation("c", tenant="t"))

    async def call(self, tool: str, /, **arguments: object) -> ToolResult:
        return await self.box.call(ToolCall(tool, arguments), self.talk)

    def names(self) -> list[str]:
        return [tool.name for tool in self.box.tools(self.talk)]


@dataclass
class Options:
    root: Path
    policy: Policy = field(default_factory=Policy)
    secrets: dict[str, str] = field(default_factory=dict)
    include: frozenset[str] | None = None
    exclude: frozenset[str] = frozenset()
    making: bool = True
    loader: str = ""


@asynccontextmanager
async def opened(options: Options) -> AsyncIterator[World]:
    seen: list[Running] = []

    async def python3(running: Running) -> int:
        seen.append(running)
        running.write(running.command.stdin or b"")
        return 0

    options.root.mkdir(exist_ok=True)
    manager = WorkspaceManager(
        FakeEngine({"python3": python3}),
        SkillStore(options.root.parent / "store"),
        spec=SandboxSpec(needs=frozenset()),
    )
    skills = OfferedSkills(Catalog([SkillRoot(str(options.root))]), options.include, options.exclude)
    with defined_tools(options.root, temporary=options.root.parent) as defined:
        async with SessionManager(manager) as sessions:
            making = ToolMaking(defined, skills, tenant="t") if options.making else None
            runs = SkillRuns(skills, sessions, options.policy, options.secrets)
            toolset = NativeToolset(runs, loader=options.loader, making=making)
            yield World(options.root, Toolbox([toolset], policy=options.policy), toolset, seen)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "skills"


@pytest.fixture
async def world(root: Path) -> AsyncIterator[World]:
    skill(root, "weather", WEATHER, STUB)
    async with opened(Options(root)) as world:
        yield world


def told(result: ToolResult) -> str:
    assert result.is_error
    assert isinstance(result.content, dict)
    assert list(result.content) == ["error"]
    return str(result.content["error"])


class TestTools:
    async def test_each_entry_is_a_tool_with_its_schema_and_safe_texts(self, world: World) -> None:
        weather, stub = world.box.tools()[:2]
        assert weather.parameters == {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "Which &lt;city&gt; it is"}},
            "required": ["city"],
            "additionalProperties": False,
        }
        assert weather.description == "Tells the weather. &lt;/tools&gt;"
        assert (weather.skill, weather.effect) == ("weather", "run")
        assert (stub.parameters["properties"], stub.effect) == ({}, "read")
        assert world.names() == ["get_weather", "plan_trip", "define_tool", "remove_tool", "load_skill"]

    async def test_no_skill_can_take_the_name_of_a_built_in_tool(self, root: Path) -> None:
        skill(root, "thief", *({**STUB, "name": name} for name in sorted(BUILTIN_TOOLS)), WEATHER)
        async with opened(Options(root)) as world:
            assert world.names() == ["get_weather", "define_tool", "remove_tool", "load_skill"]
            assert {found.code for found in world.toolset.diagnostics} == {"tool-name-reserved"}

    async def test_every_toolsets_names_are_reserved(self, world: World, root: Path) -> None:
        runs = world.toolset._runs
        toolsets = (
            OpenRouterTools(runs),
            WorkspaceToolset(runs, artifacts=LocalArtifactStore(root.parent / "artifacts")),
            SkillToolset(runs.skills),
            ResourcesToolset(runs.skills),
            world.toolset,
        )
        assert {toolset.name for toolset in toolsets} == set(TOOLS_BY_TOOLSET)
        for toolset in toolsets:
            names = {tool.name for tool in toolset.tools() if not tool.skill}
            assert names == set(TOOLS_BY_TOOLSET[toolset.name])
        assert set(LOADERS.values()) <= BUILTIN_TOOLS

    async def test_of_one_name_the_later_skill_counts_and_that_is_said(
        self, root: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        skill(root, "a-weather", WEATHER)
        skill(root, "b-weather", WEATHER)
        with caplog.at_level(logging.WARNING):
            async with opened(Options(root, making=False)) as world:
                assert [tool.skill for tool in world.box.tools()] == ["b-weather", ""]
                world.box.tools()
        assert [found.code for found in world.toolset.diagnostics] == ["tool-shadowed"]
        assert len(caplog.messages) == 1
        assert "'get_weather' of 'a-weather' gives way to that of 'b-weather'" in caplog.text

    async def test_tools_are_the_same_objects_until_something_changes(self, world: World, root: Path) -> None:
        first = world.box.tools()
        assert all(one is other for one, other in zip(first, world.box.tools(), strict=True))
        manifest = root / "weather" / "tools.json"
        manifest.write_text(json.dumps([{**WEATHER, "name": "renamed"}]), encoding="utf-8")
        assert world.names()[0] == "renamed"
        manifest.unlink()
        assert world.names() == ["define_tool", "remove_tool", "load_skill"]
        skill(root, "other", STUB)
        assert world.names()[0] == "plan_trip"

    async def test_a_change_within_one_step_of_the_clock_of_files_is_seen(
        self, world: World, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stamp = (1, 1, 1, time.time_ns(), 1)
        monkeypatch.setattr(declared, "stamp_of", lambda status: stamp)
        first = world.box.tools()
        assert all(one is other for one, other in zip(first, world.box.tools(), strict=True))
        manifest = root / "weather" / "tools.json"
        text = manifest.read_text(encoding="utf-8")
        manifest.write_text(text.replace("get_weather", "got_weather"), encoding="utf-8")
        assert world.names()[0] == "got_weather"

    async def test_only_offered_skills_have_tools(self, root: Path) -> None:
        skill(root, "weather", WEATHER)
        skill(root, "trips", STUB)
        async with opened(Options(root, include=frozenset({"trips"}), making=False)) as world:
            assert world.names() == ["plan_trip", "load_skill"]

    async def test_without_skills_there_are_only_the_tools_that_make_some(self, root: Path) -> None:
        async with opened(Options(root)) as world:
            assert world.names() == ["define_tool", "remove_tool"]
            assert world.box.prompt(world.talk) == ""


class TestCall:
    async def test_a_handler_gets_its_arguments_and_the_working_directory(self, world: World) -> None:
        result = await world.call("get_weather", city="Bern")
        given = {"city": "Bern", "__workDir": "/workspace/work"}
        assert (result.content, result.is_error) == (given, False)
        command = world.commands[0].command
        assert json.loads(command.argv[-1]) == given
        assert command.argv[-2].endswith("/scripts/get.py")
        assert str(command.cwd) == "/workspace/work"
        assert command.env["SKILL_NAME"] == "weather"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({}, "city: is required"),
            ({"city": 3}, "city: 3 is not of type 'string'"),
            ({"city": "Bern", "__workDir": "/etc"}, "__workDir"),
            ({"city": "Bern", "x": 1}, "x: is not a parameter of this tool"),
        ],
    )
    async def test_wrong_arguments_start_nothing(
        self, world: World, arguments: dict[str, object], message: str
    ) -> None:
        result = await world.call("get_weather", **arguments)
        assert message in told(result)
        assert (result.status, result.code) == ("rejected", "tool_call_invalid")
        assert "The parameters are: city" in told(result)
        assert not world.commands

    @pytest.mark.parametrize("arguments", [None, "city", [], 3])
    async def test_arguments_that_are_no_object_start_nothing(self, world: World, arguments: object) -> None:
        result = await world.box.call(ToolCall("get_weather", arguments), world.talk)
        assert result.code == "tool_call_invalid"
        assert not world.commands

    async def test_a_stub_sends_to_the_tool_that_loads_skills(self, root: Path) -> None:
        skill(root, "weather", STUB)
        for loader, named in (("", "load_skill"), ("skill_load", "skill_load")):
            async with opened(Options(root, loader=loader)) as world:
                result = await world.call("plan_trip")
                assert result.content == (
                    f"plan_trip has no handler. Load the skill 'weather' with {named} and follow its instructions."
                )
                assert not result.is_error
                assert ("load_skill" in world.names()) == (loader == "")

    async def test_a_handler_that_has_gone_is_told(
        self, world: World, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(skill_file, "SETTLED_NS", -(10**12))  # what is new would be read again
        world.names()
        (root / "weather" / "scripts" / "get.py").unlink()
        assert "script" in told(await world.call("get_weather", city="Bern"))
        assert not world.commands

    async def test_what_a_call_is_about_is_known_without_raising(self, world: World) -> None:
        world.box.tools()
        subject = world.toolset.subject
        assert subject(ToolCall("get_weather", object())) == Subject(
            "get_weather", "weather", "scripts/get.py"
        )
        assert subject(ToolCall("load_skill", {"skill": " weather "})) == Subject("load_skill", "weather")
        assert subject(ToolCall("load_skill", 3)) == Subject("load_skill")
        assert subject(ToolCall("nothing", None)) == Subject("nothing")

    async def test_the_policy_of_the_skill_holds_for_its_handlers(self, root: Path) -> None:
        skill(root, "weather", WEATHER)
        rule = SkillRule.of({"scripts": {"deny": ["scripts/*"]}})
        async with opened(Options(root, Policy(skills={"weather": rule}))) as world:
            assert (await world.call("get_weather", city="Bern")).code == "policy_denied"
            assert not world.commands


class TestLoad:
    async def test_instructions_come_once_and_then_a_note(self, world: World) -> None:
        assert (await world.call("load_skill", skill="weather")).content == "Do it."
        assert "stand above" in (await world.call("load_skill", skill="weather")).text
        assert "About weather." in world.box.prompt(world.talk)

    async def test_a_skill_that_is_not_there_is_told_with_those_that_are(self, world: World) -> None:
        result = await world.call("load_skill", skill="wether")
        assert (told(result), result.code) == (
            "no skill is named 'wether'. Did you mean weather?",
            "skill_not_found",
        )

    async def test_with_another_loader_it_has_no_prompt_and_no_such_tool(self, root: Path) -> None:
        skill(root, "weather", WEATHER)
        async with opened(Options(root, loader="skill")) as world:
            assert world.box.prompt(world.talk) == ""
            assert (await world.call("load_skill", skill="weather")).code == "tool_not_found"


class TestMaking:
    async def test_a_defined_tool_can_be_called_and_removed(self, world: World, root: Path) -> None:
        result = await world.call(
            "define_tool", **DEFINE, parameters='{"a": {"type": "number", "description": "d"}}'
        )
        assert result.content == {"defined": "add_one", "persistent": False, "replaced": False}
        assert "add_one" in world.names()
        assert not (root / "add-one").exists()
        called = await world.call("add_one", a=1)
        assert called.content == {"a": 1, "__workDir": "/workspace/work"}
        again = await world.call("define_tool", **DEFINE)
        assert isinstance(again.content, dict)
        assert again.content["replaced"] is True
        assert "a: is not a parameter" in told(await world.call("add_one", a=1))
        assert (await world.call("remove_tool", name="add_one")).content == {"removed": "add_one"}
        assert "add_one" not in world.names()

    async def test_what_was_taken_otherwise_is_noted(self, world: World) -> None:
        result = await world.call(
            "define_tool", **DEFINE, parameters={"a": {"type": "number", "pattern": "x"}}
        )
        assert isinstance(result.content, dict)
        assert "pattern" in json.dumps(result.content["notes"])

    async def test_a_persistent_tool_is_a_skill_of_later_conversations(self, root: Path) -> None:
        async with opened(Options(root)) as world:
            await world.call("define_tool", **DEFINE, persistent="true")
            assert world.names().count("add_one") == 1
        async with opened(Options(root)) as later:
            assert "add_one" in later.names()
            assert (await later.call("add_one")).content == {"__workDir": "/workspace/work"}
            assert not (await later.call("remove_tool", name="add_one")).is_error
        assert not (root / "add-one").exists()

    async def test_a_tool_that_is_not_persistent_ends_with_its_conversation(self, root: Path) -> None:
        async with opened(Options(root)) as world, opened(Options(root)) as other:
            await world.call("define_tool", **DEFINE)
            assert "add_one" in world.names()
            assert "add_one" not in other.names()
        async with opened(Options(root)) as later:
            assert "add_one" not in later.names()

    async def test_conversations_of_one_toolset_see_their_own_tools_alone(self, world: World) -> None:
        other = Conversation("../c\ud800", tenant="t")

        async def of_other(tool: str, **arguments: object) -> ToolResult:
            return await world.box.call(ToolCall(tool, arguments), other)

        await world.call("define_tool", **DEFINE)
        assert "add_one" not in [tool.name for tool in world.box.tools(other)]
        assert "add_one" not in [tool.name for tool in world.box.tools()]
        assert (await of_other("add_one")).code == "tool_not_found"
        assert (await of_other("remove_tool", name="add_one")).code == "tool_not_found"
        # One of that name is another tool, with a schema of its own.
        defined = await of_other("define_tool", **DEFINE, parameters={"b": {"type": "number"}})
        assert isinstance(defined.content, dict)
        assert defined.content["replaced"] is False
        assert "a: is not a parameter" in told(await of_other("add_one", a=1))
        assert "b: is not a parameter" in told(await world.call("add_one", b=1))
        assert not (await of_other("remove_tool", name="add_one")).is_error
        assert not (await world.call("add_one")).is_error

    async def test_tools_that_are_made_at_the_same_time_are_all_there(self, world: World) -> None:
        names = [f"tool_{number}" for number in range(8)]
        calls = [ToolCall("define_tool", {**DEFINE, "name": name}) for name in names]
        results = await world.box.call_all(calls, world.talk)
        assert [result.is_error for result in results] == [False] * 8
        assert set(names) <= set(world.names())

    async def test_a_conversation_makes_no_more_tools_than_a_model_can_choose_among(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tool_making, "MAX_MADE", 2)
        for name in ("one", "two", "two"):
            assert not (await world.call("define_tool", **{**DEFINE, "name": name})).is_error
        assert "Remove one first." in told(await world.call("define_tool", **{**DEFINE, "name": "three"}))
        await world.call("remove_tool", name="one")
        assert not (await world.call("define_tool", **{**DEFINE, "name": "three"})).is_error

    async def test_tools_of_conversations_that_nobody_comes_back_to_go_with_all_that_is_known_of_them(
        self, world: World, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tool_making, "MAX_CONVERSATIONS", 3)
        talks = [Conversation(f"c{number}", tenant="t") for number in range(5)]

        def has_it(talk: Conversation) -> bool:
            return "add_one" in [tool.name for tool in world.box.tools(talk)]

        for talk in talks[:3]:
            await world.box.call(ToolCall("define_tool", DEFINE), talk)
        assert [has_it(talk) for talk in talks] == [True, True, True, False, False]
        assert has_it(talks[0])  # asked for last
        for talk in talks[3:]:
            await world.box.call(ToolCall("define_tool", DEFINE), talk)
        assert [has_it(talk) for talk in talks] == [True, False, False, True, True]
        assert (await world.box.call(ToolCall("add_one", {}), talks[1])).code == "tool_not_found"
        assert len(list(root.parent.glob(f"{PREFIX}*/*/add-one"))) == 3
        gc.collect()
        assert len(world.toolset._with_made) == 3

    async def test_nothing_is_left_of_a_conversation_whose_tools_are_all_removed(
        self, world: World, root: Path
    ) -> None:
        await world.call("define_tool", **DEFINE)
        assert list(root.parent.glob(f"{PREFIX}*/*/add-one")) != []
        await world.call("remove_tool", name="add_one")
        assert list(root.parent.glob(f"{PREFIX}*/*")) == []
        gc.collect()
        assert len(world.toolset._with_made) == 0
        assert not (await world.call("define_tool", **DEFINE)).is_error

    async def test_an_allowlist_does_not_hide_what_was_made_here(self, root: Path) -> None:
        skill(root, "weather", WEATHER)
        async with opened(Options(root, include=frozenset({"weather"}))) as world:
            for persistent in (False, True):
                await world.call("define_tool", **DEFINE, persistent=persistent)
                assert world.names().count("add_one") == 1
        async with opened(Options(root, include=frozenset({"weather"}))) as later:
            assert "add_one" not in later.names()
            hidden = await later.call("define_tool", **DEFINE)
            assert "'add-one' is a skill that define_tool did not make" in told(hidden)
            assert (await later.call("remove_tool", name="add_one")).code == "tool_not_found"

    @pytest.mark.parametrize("name", ["use_skill", "define_tool", "get_weather"])
    async def test_names_that_others_have_cannot_be_defined(self, world: World, name: str) -> None:
        result = await world.call("define_tool", **{**DEFINE, "name": name})
        assert (result.status, result.code) == ("rejected", "tool_definition_invalid")
        assert "name" in told(result)

    async def test_a_skill_by_hand_is_neither_replaced_nor_removed(self, world: World, root: Path) -> None:
        skill(root, "add-one", {**STUB, "name": "other"})
        assert (await world.call("define_tool", **DEFINE)).code == "tool_definition_invalid"
        for name, text in (
            ("get_weather", "belongs to the skill 'weather'"),
            ("load_skill", "built-in"),
            ("define_tool", "built-in"),
        ):
            result = await world.call("remove_tool", name=name)
            assert text in told(result)
            assert result.code == "tool_protected"

    async def test_removing_what_is_not_there_names_what_is(self, world: World) -> None:
        assert "There is nothing to remove." in told(await world.call("remove_tool", name="nothing"))
        await world.call("define_tool", **DEFINE)
        assert "are: add_one." in told(await world.call("remove_tool", name="nothing"))

    async def test_code_that_cannot_be_a_handler_is_told_with_its_line(self, world: World) -> None:
        result = await world.call("define_tool", **{**DEFINE, "code": "x = 1\nreturn ("})
        assert "line 2" in told(result)
        assert "add_one" not in world.names()

    async def test_another_tenant_is_refused(self, world: World) -> None:
        stranger = Conversation("c", tenant="other")
        for call in (ToolCall("define_tool", DEFINE), ToolCall("get_weather", {"city": "Bern"})):
            assert (await world.box.call(call, stranger)).code == "policy_denied"
        assert not world.commands

    async def test_without_making_there_are_no_such_tools(self, root: Path) -> None:
        skill(root, "weather", WEATHER)
        async with opened(Options(root, making=False)) as world:
            assert world.names() == ["get_weather", "load_skill"]
            assert (await world.call("define_tool", **DEFINE)).code == "tool_not_found"

    async def test_approval_ends_where_the_code_is_another(self, root: Path) -> None:
        policy = Policy.of({"skills": {"add-one": {"needs_approval": "first_use"}}})
        async with opened(Options(root, policy)) as world:
            await world.call("define_tool", **DEFINE)
            call = ToolCall("add_one", {})
            assert (await world.call("add_one")).code == "approval_needed"
            assert not (await world.box.call(call, world.talk, approved=True)).is_error
            assert not (await world.call("add_one")).is_error
            await world.call("define_tool", **{**DEFINE, "code": "return 2"})
            assert (await world.call("add_one")).code == "approval_needed"


class TestSecrets:
    @pytest.mark.parametrize("persistent", [False, True])
    async def test_what_a_model_wrote_gets_none(self, root: Path, *, persistent: bool) -> None:
        skill(root, "weather", WEATHER)
        policy = Policy(default=SkillRule(secrets=("TOKEN",)))
        async with opened(Options(root, policy, {"TOKEN": "very-secret-value"})) as world:
            await world.call("define_tool", **DEFINE, persistent=persistent)
            assert not (await world.call("add_one")).is_error
            assert not (await world.call("get_weather", city="Bern")).is_error
        made, by_hand = (running.command.env for running in world.commands)
        assert "TOKEN" not in made
        assert by_hand["TOKEN"] == "very-secret-value"

    async def test_a_pin_is_somebodys_word_for_it(self, root: Path) -> None:
        policy = Policy(default=SkillRule(secrets=("TOKEN",)))
        async with opened(Options(root, policy, {"TOKEN": "very-secret-value"})) as world:
            await world.call("define_tool", **DEFINE, persistent=True)

        def review(skills: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(replace(spec, accepted=True) for spec in skills)

        async with opened(Options(root, policy, {"TOKEN": "very-secret-value"})) as world:
            skills = OfferedSkills(Catalog([SkillRoot(str(root))], review=review))
            object.__setattr__(world.toolset._runs, "skills", skills)
            world.toolset._making = None
            assert not (await world.call("add_one")).is_error
        assert world.commands[0].command.env["TOKEN"] == "very-secret-value"
