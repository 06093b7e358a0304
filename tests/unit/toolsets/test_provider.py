"""The provider as a caller's own loop uses it, wired over the fake engine."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills import create_skills_provider, load_settings
from sandbox_skills.errors import SettingsError, SkillNotFoundError
from sandbox_skills.spec import KIB
from sandbox_skills.toolsets.provider import PARALLEL_CALLS
from sandbox_skills.wiring.tools import TOOLSETS, _for_provider
from tests.token_counts import published_descriptions, ratio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sandbox_skills import SkillsProvider
    from sandbox_skills.settings import Settings
    from sandbox_skills.toolsets.blocking import OpeningProvider

pytestmark = pytest.mark.anyio


def add_skill(root: Path, name: str, text: str = "Do it.") -> None:
    """A skill whose scripts are run by programs that the fake box has."""
    (root / name).mkdir(parents=True, exist_ok=True)
    (root / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: About {name}.\n---\n{text}\n")
    (root / name / "run.sh").write_text("")


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    for name in ("alpha", "beta"):
        add_skill(tmp_path / "skills", name)
    return tmp_path / "skills"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    given: dict[str, object] = {"data_dir": str(tmp_path / "data"), "engine": "fake"}
    return load_settings(given, environ={})


def created(skills: Path, settings: Settings, **options: Any) -> OpeningProvider:  # noqa: ANN401  # as the function
    return create_skills_provider(skills, settings=settings, **options)


@pytest.fixture
async def provider(skills: Path, settings: Settings) -> AsyncIterator[SkillsProvider]:
    async with created(skills, settings) as made:
        yield made


class TestWhatItOffers:
    async def test_everything_that_a_loop_needs(self, provider: SkillsProvider) -> None:
        assert provider.skill_names == ("alpha", "beta")
        assert provider.system_prompt.startswith("## Available Skills\n")
        assert provider.system_prompt.endswith("### beta\nAbout beta.")
        assert [tool["name"] for tool in provider.tools] == ["load_skill", "use_skill"]
        assert provider.tools == provider.tools_for("responses")
        assert "input_schema" in provider.tools_for("anthropic")[0]

    async def test_changes_of_the_skills_are_seen_at_once(
        self, provider: SkillsProvider, skills: Path
    ) -> None:
        assert "gamma" not in provider.skill_names
        add_skill(skills, "gamma", "New.")
        assert provider.skill_names == ("alpha", "beta", "gamma")
        assert "### gamma" in provider.system_prompt
        assert "gamma" in json.dumps(provider.tools)
        assert await provider.handle_tool_call("load_skill", {"skill": "gamma"}) == "New."

    async def test_include_and_exclude_choose_skills(self, skills: Path, settings: Settings) -> None:
        async with created(skills, settings, include=["beta", "alpha"], exclude=["alpha"]) as provider:
            assert provider.skill_names == ("beta",)
            told: Any = await provider.handle_tool_call("load_skill", {"skill": "alpha"})
            assert told["error"].startswith("SkillNotFound: ")

    async def test_of_several_directories_the_first_wins(
        self, skills: Path, settings: Settings, tmp_path: Path
    ) -> None:
        add_skill(tmp_path / "more", "alpha", "Other.")
        add_skill(tmp_path / "more", "gamma")
        dirs: list[str | Path] = [str(skills), tmp_path / "more"]
        async with create_skills_provider(dirs, settings=settings) as provider:
            assert sorted(provider.skill_names) == ["alpha", "beta", "gamma"]
            assert await provider.handle_tool_call("load_skill", {"skill": "alpha"}) == "Do it."

    @pytest.mark.parametrize("name", TOOLSETS)
    async def test_every_toolset_can_be_chosen(self, skills: Path, settings: Settings, name: str) -> None:
        async with created(skills, settings, toolsets=[name]) as provider:
            assert provider.tools

    @pytest.mark.parametrize("name", [name for name in TOOLSETS if name != "workspace"])
    async def test_fifty_skills_cost_little_more_than_their_names_and_descriptions(
        self, tmp_path: Path, settings: Settings, name: str
    ) -> None:
        told = {f"skill-{n:02}": text for n, text in enumerate(published_descriptions(50))}
        for folder, description in told.items():
            (tmp_path / "fifty" / folder).mkdir(parents=True)
            head = f"---\nname: {folder}\ndescription: {description}\n---\n"
            (tmp_path / "fifty" / folder / "SKILL.md").write_text(f"{head}Body.\n")
        async with created(tmp_path / "fifty", settings, toolsets=[name]) as provider:
            catalog = provider.system_prompt or str(provider.tools[0]["description"])
        assert all(description in catalog for description in told.values())
        assert ratio(catalog, [*told, *told.values()]) <= 1.1

    @pytest.mark.parametrize("name", [name for name in TOOLSETS if name != "workspace"])
    async def test_beyond_the_budget_skills_are_told_by_name_only(
        self, tmp_path: Path, settings: Settings, name: str
    ) -> None:
        for number in range(300):
            folder = tmp_path / f"many/skill-{number:03}"
            folder.mkdir(parents=True)
            head = f"---\nname: {folder.name}\ndescription: {'Reads tables. ' * 30}\n---\n"
            (folder / "SKILL.md").write_text(head + "Body.\n")
        async with created(tmp_path / "many", settings, toolsets=[name]) as provider:
            told = provider.system_prompt or str(provider.tools[0]["description"])
            assert len(told) < 72 * KIB
            assert all(f"skill-{number:03}" in told for number in range(300))
            assert 100 < told.count("Reads tables.") // 30 < 200

    async def test_several_toolsets_are_offered_at_once(self, skills: Path, settings: Settings) -> None:
        async with created(skills, settings, toolsets=["openrouter", "native", "workspace"]) as provider:
            names = [str(tool["name"]) for tool in provider.tools]
        assert names[:2] == ["load_skill", "use_skill"]
        assert {"define_tool", "skill_run"} <= set(names)
        assert len(names) == len(set(names))

    async def test_a_defined_tool_is_saved_only_where_the_caller_says(
        self, skills: Path, settings: Settings
    ) -> None:
        call = {"name": "add_one", "description": "d", "code": "return 1", "persistent": "true"}
        async with created(skills, settings, toolsets=["native"]) as provider:
            told: Any = await provider.handle_tool_call("define_tool", call)
            assert "Define it without persistent." in told["error"]
        async with created(skills, settings, toolsets=["native"], save_tools_to=skills) as provider:
            assert await provider.handle_tool_call("define_tool", call) == {
                "defined": "add_one",
                "persistent": True,
                "replaced": False,
            }
        async with created(skills, settings, toolsets=["native"]) as provider:
            assert "add_one" in [tool["name"] for tool in provider.tools]

    def test_tools_are_saved_among_the_skills_or_nowhere(
        self, skills: Path, settings: Settings, tmp_path: Path
    ) -> None:
        with pytest.raises(SettingsError, match="is not among the directories of skills"):
            created(skills, settings, toolsets=["native"], save_tools_to=tmp_path)

    async def test_two_with_a_tool_of_one_name_are_an_error(self, skills: Path, settings: Settings) -> None:
        both = created(skills, settings, toolsets=["workspace", "resources"])
        with pytest.raises(SettingsError, match="workspace and resources both have a tool skill_load"):
            async with both:
                pass


class TestAnswers:
    async def test_arguments_are_an_object_or_its_json(self, provider: SkillsProvider) -> None:
        for args in ({"skill": "alpha"}, '{"skill": "alpha"}'):
            assert await provider.for_conversation().handle_tool_call("load_skill", args) == "Do it."
        told: Any = await provider.handle_tool_call("load_skill", None)
        assert told["error"].startswith("InvalidArgs: load_skill: skill: Field required")

    async def test_a_foreign_tool_is_none_or_an_error(self, provider: SkillsProvider) -> None:
        assert await provider.maybe_handle_tool_call("get_time", {}) is None
        assert await provider.maybe_handle_tool_call("load_skill", {"skill": "beta"}) == "Do it."
        told: Any = await provider.handle_tool_call("get_time", {})
        assert told["error"].startswith("UnknownTool: ")

    async def test_many_calls_are_answered_in_their_order(self, provider: SkillsProvider) -> None:
        names = ["alpha", "nobody", "beta", "none"]
        calls = [
            {
                "type": "function_call",
                "call_id": str(n),
                "name": "load_skill",
                "arguments": f'{{"skill": "{name}"}}',
            }
            for n, name in enumerate(names)
        ]
        items = await provider.handle_tool_calls([{"type": "reasoning"}, *calls])
        assert [item["call_id"] for item in items] == ["0", "1", "2", "3"]
        assert [str(item["output"])[:6] for item in items] == ["Do it.", '{"succ', "Do it.", '{"succ']
        blocks = [{"type": "tool_use", "id": "x", "name": "load_skill", "input": {"skill": "beta"}}]
        assert await provider.for_conversation().handle_tool_calls(blocks, "anthropic") == [
            {"type": "tool_result", "tool_use_id": "x", "content": "Do it.", "is_error": False}
        ]

    async def test_more_calls_than_run_at_once_wait_and_all_are_answered(
        self, provider: SkillsProvider
    ) -> None:
        call = {"skill": "alpha", "script": "run.sh"}
        many = [provider.handle_tool_call("use_skill", call) for _ in range(3 * PARALLEL_CALLS)]
        told: list[Any] = await asyncio.gather(*many)
        assert {one["exitCode"] for one in told} == {127}, "the fake box has no bash"

    async def test_sdk_tools_are_functions_with_typed_arguments(self, provider: SkillsProvider) -> None:
        load, use = provider.sdk_tools
        assert (load.name, use.name) == ("load_skill", "use_skill")
        assert [tool.input_model.model_json_schema() for tool in (load, use)] == [
            tool["parameters"] for tool in provider.tools
        ]
        model = load.input_model.model_validate({"skill": "alpha"})
        assert await load.execute(model) == "Do it."
        assert await load.execute({"skill": "beta"}) == "Do it."
        told: Any = await use.execute(skill="alpha", script="run.sh")
        assert told["exitCode"] == 127

    async def test_each_conversation_has_a_workspace_of_its_own(self, provider: SkillsProvider) -> None:
        other = provider.for_conversation()
        named = provider.for_conversation("chat-7", agent="writer")
        ids = {one.conversation.id for one in (provider, other, named)}
        assert len(ids) == 3
        assert (named.conversation.id, named.conversation.agent) == ("chat-7", "writer")
        assert {one.conversation.tenant for one in (provider, other, named)} == {"local"}

    async def test_a_tool_that_was_made_is_its_conversations_alone(
        self, skills: Path, settings: Settings
    ) -> None:
        call = {"name": "add_one", "description": "d", "code": "return 1"}
        async with created(skills, settings, toolsets=["native"]) as provider:
            mine, other = provider.for_conversation("a"), provider.for_conversation("b")
            await mine.handle_tool_call("define_tool", call)
            assert "add_one" in [tool["name"] for tool in mine.tools]
            assert "add_one" in [tool.name for tool in mine.sdk_tools]
            for stranger in (other, provider):
                assert "add_one" not in [tool["name"] for tool in stranger.tools]
                assert await stranger.maybe_handle_tool_call("add_one", {}) is None
            # A server makes the provider of a chat anew for each request.
            assert "add_one" in [tool["name"] for tool in provider.for_conversation("a").tools]


class TestPolicy:
    async def test_a_call_waits_for_a_person_where_the_policy_says_so(
        self, skills: Path, tmp_path: Path
    ) -> None:
        rules = {"alpha": {"needs_approval": "always"}, "beta": {"scripts": {"deny": ["run.sh"]}}}
        given: dict[str, object] = {
            "data_dir": str(tmp_path / "data"),
            "engine": "fake",
            "policy.skills": rules,
        }
        async with created(skills, load_settings(given, environ={})) as provider:
            call = {"skill": "alpha", "script": "run.sh"}
            assert provider.needs_approval("use_skill", call)
            assert not provider.needs_approval("use_skill", {**call, "skill": "beta"})
            told: Any = await provider.handle_tool_call("use_skill", call)
            assert (
                told["error"]
                == "ScriptNotAllowed: use_skill needs the user's approval, and has none. Ask the user."
            )
            told = await provider.handle_tool_call("use_skill", call, approved=True)
            assert told["exitCode"] == 127, "the fake box has no bash"
            told = await provider.handle_tool_call("use_skill", {**call, "skill": "beta"})
            assert told["error"].startswith("ScriptNotAllowed: the policy")


class TestBlocking:
    def test_it_answers_what_the_other_does(self, skills: Path, settings: Settings) -> None:
        threads = set(threading.enumerate())
        with created(skills, settings, tenant="acme") as provider:
            assert provider.skill_names == ("alpha", "beta")
            assert provider.system_prompt.startswith("## Available Skills\n")
            assert provider.tools == provider.tools_for("responses")
            assert provider.handle_tool_call("load_skill", {"skill": "alpha"}) == "Do it."
            again = provider.handle_tool_call("load_skill", {"skill": "alpha"})
            assert str(again).startswith("The instructions of alpha are unchanged")
            assert provider.maybe_handle_tool_call("get_time", {}) is None
            assert not provider.needs_approval("load_skill", {"skill": "alpha"})
            call = {"type": "tool_use", "id": "x", "name": "load_skill", "input": {"skill": "beta"}}
            assert provider.handle_tool_calls([call], "anthropic")[0]["content"] == "Do it."
            assert provider.sdk_tools[0].execute(skill="alpha") == "Do it.", "whoever asks again after a note"
            assert provider.for_conversation("c").conversation.id == "c"
            assert provider.conversation.tenant == "acme"
        deadline = time.monotonic() + 5
        while left := {one for one in threading.enumerate() if one.name == "skills"} - threads:
            assert time.monotonic() < deadline, left
            time.sleep(0.01)

    def test_an_error_on_the_way_in_leaves_no_thread(self, skills: Path, settings: Settings) -> None:
        (skills.parent / "data").write_text("in the way")
        with pytest.raises(Exception), created(skills, settings):  # noqa: B017, PT011  # whatever it is
            pass
        assert "skills" not in {one.name for one in threading.enumerate()}


class TestBadOptions:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"toolsets": ["nobody"]}, "no toolset is named 'nobody'"),
            ({"toolsets": []}, "no toolset is chosen"),
            ({"toolsets": ["openrouter", "openrouter"]}, "chosen twice"),
            ({"timeout": -1}, "timeout is -1"),
            ({"max_output": 0}, "max_output is 0"),
            ({"cwd": "/home"}, "cwd: "),
            ({"engine": "podman"}, "engine"),
        ],
    )
    async def test_are_an_error(
        self, skills: Path, settings: Settings, options: dict[str, Any], words: str
    ) -> None:
        with pytest.raises(SettingsError, match=words):
            async with created(skills, settings, **options):
                pass

    def test_a_directory_must_be_one(self, tmp_path: Path, settings: Settings) -> None:
        with pytest.raises(SettingsError, match="is not a directory of skills"):
            created(tmp_path / "nothing", settings)

    def test_an_included_skill_must_be_there(self, skills: Path, settings: Settings) -> None:
        with pytest.raises(SkillNotFoundError) as caught:
            created(skills, settings, include=["alfa"])
        assert caught.value.near == ("alpha",)


class TestSettings:
    def test_what_the_user_says_of_sessions_and_boxes_stays(self, tmp_path: Path) -> None:
        own: dict[str, object] = {"pool.size": 0, "session.concurrency": "serialise", "run.wall_seconds": 7}
        kept = _for_provider(load_settings(own, environ={}), None)
        assert (kept.pool.size, kept.session.concurrency, kept.session.concurrent_runs) == (0, "serialise", 1)
        assert kept.run.wall_seconds == 7

    def test_else_a_box_waits_and_calls_run_beside_each_other(self) -> None:
        chosen = _for_provider(load_settings({"session.idle_seconds": 5}, environ={}), "fake")
        assert (chosen.engine, chosen.pool.size, chosen.session.idle_seconds) == ("fake", 1, 5)
        assert (chosen.session.concurrency, chosen.session.concurrent_runs) == ("parallel", PARALLEL_CALLS)
