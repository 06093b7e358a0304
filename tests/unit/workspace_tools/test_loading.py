"""Skills and documents in a conversation: what is loaded, for how long, and where it stands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.errors import SettingsError
from sandbox_skills.toolsets.base import Conversation, ToolCall
from sandbox_skills.toolsets.workspace_tools.options import WorkspaceToolsOptions
from sandbox_skills.toolsets.workspace_tools.state import COMPACTED, SUMMARISED, LoadedSkills

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from sandbox_skills.catalog.manifest_json import JsonObject
    from tests.unit.workspace_tools.conftest import World

    OpenWorld = Callable[..., AbstractAsyncContextManager[World]]

pytestmark = pytest.mark.anyio

USER: JsonObject = {"role": "user", "content": "hello"}
SYSTEM: JsonObject = {"role": "system", "content": "You help."}


def chat(tool: str, skill: str, result: str, call_id: str = "1") -> list[JsonObject]:
    """A call and its result as chat completions have them."""
    arguments = json.dumps({"skill": skill})
    function: JsonObject = {"name": tool, "arguments": arguments}
    return [
        {"role": "assistant", "tool_calls": [{"id": call_id, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": call_id, "content": result},
    ]


def responses(tool: str, skill: str, result: str, call_id: str = "1") -> list[JsonObject]:
    """A call and its result as the Responses API has them."""
    arguments = json.dumps({"skill": skill})
    return [
        {"type": "function_call", "call_id": call_id, "name": tool, "arguments": arguments},
        {"type": "function_call_output", "call_id": call_id, "output": result},
    ]


def text_of(world: World, items: list[JsonObject] | None = None) -> str:
    """Returns the system message of a request with nothing but a user's words."""
    (first, *_) = world.toolset.rewritten(items or [SYSTEM, USER], world.conversation)
    assert isinstance(first["content"], str)
    return first["content"]


class TestState:
    async def test_a_load_is_told_in_one_word_and_kept_under_the_keys_of_the_design(
        self, world: World
    ) -> None:
        result = await world.call("skill_load", skill="csv-tools", docs=["USAGE.md"])
        assert result.content == "loaded: csv-tools"
        assert world.conversation.state == {
            "temp:skill:loaded:csv-tools": "1",
            "temp:skill:docs:csv-tools": '["USAGE.md"]',
            "temp:skill:loaded_order": '["csv-tools"]',
        }
        await world.call("skill_load", skill="csv-tools", include_all_docs=True)
        assert world.conversation.state["temp:skill:docs:csv-tools"] == "*"

    async def test_a_named_agent_has_keys_of_its_own(self, world: World) -> None:
        state: dict[str, str] = {}
        one, other = Conversation("c", "t", "a/b", state), Conversation("c", "t", "a", state)
        await world.call("skill_load", one, skill="csv-tools")
        assert set(state) == {
            "temp:skill:loaded_by_agent:a%2Fb/csv-tools",
            "temp:skill:loaded_order_by_agent:a%2Fb",
        }
        refused = await world.call("skill_run", other, skill="csv-tools", command="true")
        assert refused.code == "skill_not_loaded"
        assert world.toolset.rewritten([USER], other) == [USER]
        assert (await world.call("skill_run", one, skill="csv-tools", command="cwd")).status == "ok"

    async def test_a_load_without_docs_leaves_an_earlier_selection(self, world: World) -> None:
        await world.call("skill_select_docs", skill="csv-tools", docs=["USAGE.md"])
        await world.call("skill_load", skill="csv-tools", docs=[])
        assert "[Doc] USAGE.md" in text_of(world)

    async def test_documents_are_selected_added_and_cleared(self, world: World) -> None:
        async def select(**arguments: object) -> dict[str, object]:
            return await world.told("skill_select_docs", skill="csv-tools", **arguments)

        both = ["USAGE.md", "docs/joins.txt"]
        assert await select(docs=both[:1]) == {
            "skill": "csv-tools",
            "selected_docs": both[:1],
            "mode": "replace",
        }
        assert await select(docs=both[1:], mode=" ADD ") == {
            "skill": "csv-tools",
            "selected_docs": both,
            "mode": "add",
        }
        assert (await select(docs=both[1:], mode="nonsense"))["selected_docs"] == both[1:]
        everything = {"skill": "csv-tools", "include_all_docs": True, "mode": "replace"}
        assert await select(include_all_docs=True) == everything
        assert await select(docs=both[:1]) == everything
        assert await select(mode="clear") == {"skill": "csv-tools", "selected_docs": [], "mode": "clear"}
        assert world.conversation.state["temp:skill:docs:csv-tools"] == "[]"

    async def test_loads_at_the_same_time_all_count(self, world: World) -> None:
        names = ["weather", "csv-tools", "pdf-tools"]
        calls = [ToolCall("skill_load", {"skill": name}, name) for name in names]
        await world.toolbox.call_all(calls, world.conversation)
        assert set(json.loads(world.conversation.state["temp:skill:loaded_order"])) == set(names)
        assert text_of(world).count("[Loaded]") == 3

    async def test_of_too_many_the_last_touched_stay(self, open_world: OpenWorld) -> None:
        async with open_world(max_loaded=2) as world:
            for name in ("csv-tools", "pdf-tools"):
                await world.call("skill_load", skill=name)
            await world.call("skill_select_docs", skill="csv-tools", mode="clear")
            result = await world.call("skill_load", skill="weather")
            assert result.state_delta["temp:skill:loaded:pdf-tools"] == ""
            assert "[Loaded] csv-tools" in text_of(world)
            assert "[Loaded] weather" in text_of(world)
            assert "[Loaded] pdf-tools" not in text_of(world)

    def test_a_state_that_somebody_has_edited_is_read_as_far_as_it_goes(self) -> None:
        state = {
            "temp:skill:loaded:b": "1",
            "temp:skill:loaded:a": "1",
            "temp:skill:loaded:c": "",
            "temp:skill:docs:a": "{]",
            "temp:skill:loaded_order": '["b", 1, null]',
        }
        loaded = LoadedSkills(state, limit=1)
        assert loaded.loaded() == ("a", "b")
        assert loaded.shown() == ("b",)
        assert loaded.docs("a").names == ()

    @pytest.mark.parametrize("name", ["max_loaded", "overview_limit", "output_bytes", "artifact_bytes"])
    def test_numbers_that_make_no_sense_are_refused(self, name: str) -> None:
        with pytest.raises(SettingsError, match=name):
            WorkspaceToolsOptions(**{name: 0})  # type: ignore[arg-type]  # one of its numbers


class TestLifetimes:
    async def test_a_turn_ends_with_the_users_next_message(self, world: World) -> None:
        await world.call("skill_load", skill="csv-tools", docs=["USAGE.md"])
        world.toolbox.request_made(world.conversation)
        assert "[Loaded] csv-tools" in text_of(world)
        world.toolbox.run_started(world.conversation)
        assert world.conversation.state == {}
        assert text_of(world) == "You help."

    async def test_once_is_one_request_and_the_skill_may_be_run_in_that_turn(
        self, open_world: OpenWorld
    ) -> None:
        async with open_world(lifetime="once") as world:
            await world.call("skill_load", skill="csv-tools")
            assert "[Loaded] csv-tools" in text_of(world)
            world.toolbox.request_made(world.conversation)
            assert text_of(world) == "You help."
            assert (await world.call("skill_run", skill="csv-tools", command="cwd")).status == "ok"
            await world.call("skill_select_docs", skill="csv-tools", docs=["USAGE.md"])
            assert "[Doc] USAGE.md" in text_of(world)
            world.toolbox.run_started(world.conversation)
            assert "not loaded" in await world.error("skill_run", skill="csv-tools", command="cwd")

    async def test_a_session_keeps_it_and_so_does_a_saved_state(self, open_world: OpenWorld) -> None:
        async with open_world(lifetime="session") as world:
            await world.call("skill_load", skill="csv-tools")
            world.toolbox.run_started(world.conversation)
            world.toolbox.request_made(world.conversation)
            saved = json.loads(json.dumps(world.conversation.state))
            world.conversation = Conversation("c", "t", state=saved)
            assert "[Loaded] csv-tools" in text_of(world)


class TestTheSystemPrompt:
    async def test_what_is_loaded_stands_at_its_end_by_name(self, world: World) -> None:
        await world.call("skill_load", skill="weather")
        await world.call("skill_load", skill="csv-tools", docs=["docs/joins.txt", "gone.md"])
        assert text_of(world) == (
            "You help.\n\n[Loaded] csv-tools\n\nThe body of csv-tools.\n\nDocs loaded: docs/joins.txt\n\n"
            "Docs that are not there: gone.md\n\n[Doc] docs/joins.txt\n\nHow to join.\n\n"
            "[Loaded] weather\n\nThe body of weather."
        )

    @pytest.mark.parametrize("kind", ["text", "input_text"])
    async def test_a_message_in_parts_gets_one_more(self, world: World, kind: str) -> None:
        await world.call("skill_load", skill="weather")
        parts: JsonObject = {"role": "developer", "content": [{"type": kind, "text": "You help."}]}
        first, *_ = world.toolset.rewritten([parts, USER], world.conversation)
        added = {"type": kind, "text": "[Loaded] weather\n\nThe body of weather."}
        assert first == {"role": "developer", "content": [{"type": kind, "text": "You help."}, added]}
        assert parts["content"] == [{"type": kind, "text": "You help."}]

    async def test_where_there_is_none_one_is_put_first(self, world: World) -> None:
        assert world.toolset.rewritten([USER], world.conversation) == [USER]
        await world.call("skill_load", skill="weather")
        first, *rest = world.toolset.rewritten([USER], world.conversation)
        assert first == {"role": "system", "content": "[Loaded] weather\n\nThe body of weather."}
        assert rest == [USER]

    async def test_placeholders_become_paths_of_the_box(self, world: World, skills: Path) -> None:
        path = skills / "weather" / "SKILL.md"
        path.write_text(path.read_text() + "Run {baseDir}/x.py\n")
        await world.call("skill_load", skill="weather")
        assert text_of(world).endswith("Run /workspace/skills/weather/x.py")

    async def test_a_skill_that_is_gone_says_so(self, world: World, skills: Path) -> None:
        await world.call("skill_load", skill="weather")
        (skills / "weather" / "SKILL.md").unlink()
        assert "[Loaded] weather\n\nIt cannot be read any more: no skill is named" in text_of(world)

    async def test_a_changed_skill_is_read_anew(self, world: World, skills: Path) -> None:
        await world.call("skill_load", skill="weather")
        path = skills / "weather" / "SKILL.md"
        path.write_text(path.read_text() + "Changed.\n")
        assert text_of(world).endswith("The body of weather.\nChanged.")


@pytest.mark.parametrize("shape", [chat, responses])
class TestToolResults:
    async def test_only_the_last_result_of_a_skill_is_expanded(
        self, open_world: OpenWorld, shape: Callable[..., list[JsonObject]]
    ) -> None:
        async with open_world(place="tool_result") as world:
            await world.call("skill_load", skill="weather")
            selected = await world.call("skill_select_docs", skill="csv-tools", docs=["USAGE.md"])
            await world.call("skill_load", skill="csv-tools")
            items = [
                SYSTEM,
                USER,
                *shape("skill_load", "weather", "loaded: weather", "1"),
                *shape("skill_load", "weather", "loaded: weather", "2"),
                *shape("skill_load", "csv-tools", "loaded: csv-tools", "3"),
                *shape("skill_select_docs", "csv-tools", selected.text, "4"),
                *shape("skill_select_docs", "csv-tools", "Error: no.", "5"),
                *shape("other_tool", "weather", "loaded: weather", "6"),
            ]
            out = world.toolset.rewritten(items, world.conversation)
            assert [place for place, item in enumerate(out) if item != items[place]] == [5, 9]
            weather, csv = (str(out[place].get("content", out[place].get("output"))) for place in (5, 9))
            assert weather == "[Loaded] weather\n\nThe body of weather."
            assert csv.startswith("[Loaded] csv-tools\n\nThe body of csv-tools.\n\nDocs loaded: USAGE.md")

    async def test_without_a_result_there_is_a_message_unless_the_history_was_summarised(
        self, open_world: OpenWorld, shape: Callable[..., list[JsonObject]]
    ) -> None:
        async with open_world(place="tool_result") as world:
            await world.call("skill_load", skill="weather")
            added: JsonObject = {"role": "system", "content": "[Loaded] weather\n\nThe body of weather."}
            items = [SYSTEM, USER, *shape("skill_load", "weather", "Error: no.")]
            assert world.toolset.rewritten(items, world.conversation) == [SYSTEM, added, *items[1:]]
            world.conversation.state[SUMMARISED] = "1"
            assert world.toolset.rewritten(items, world.conversation) == items
            world.conversation.state[COMPACTED] = "1"
            assert world.toolset.rewritten(items, world.conversation) == [SYSTEM, added, *items[1:]]


class TestReplies:
    async def test_the_result_has_the_text_once(self, open_world: OpenWorld, skills: Path) -> None:
        async with open_world(place="reply") as world:
            first = await world.call("skill_load", skill="weather")
            assert first.content == "loaded: weather\n\n[Loaded] weather\n\nThe body of weather."
            again = await world.call("skill_load", skill="weather")
            assert again.text.startswith("loaded: weather\n\nThe instructions of weather are unchanged")
            changed = skills / "weather" / "SKILL.md"
            changed.write_text(changed.read_text() + "Changed.\n")
            assert (await world.call("skill_load", skill="weather")).text.endswith("Changed.")
            more = await world.call("skill_load", skill="csv-tools", docs=["USAGE.md"])
            assert "How to use it." in more.text
            told = await world.told("skill_select_docs", skill="csv-tools", docs=["docs/joins.txt"])
            assert "How to join." in told["text"]
            assert world.toolset.rewritten([USER], world.conversation) == [USER]


class TestDocuments:
    async def test_they_are_text_files_by_path_and_no_skill_file(self, world: World, skills: Path) -> None:
        folder = skills / "csv-tools"
        (folder / "docs" / "Skill.MD").write_text("x")
        (folder / "docs" / "UPPER.TXT").write_text("x")
        (folder / ".git").mkdir()
        (folder / ".git" / "notes.md").write_text("x")
        (folder / "outside.md").symlink_to("/etc/hostname")
        (folder / "dangling.md").symlink_to("nowhere")
        (folder / "folder.md").mkdir()
        result = await world.call("skill_list_docs", skill="csv-tools")
        assert result.content == ["USAGE.md", "docs/UPPER.TXT", "docs/joins.txt"]
        assert (await world.call("skill_list_docs", skill="weather")).content == []

    @pytest.mark.parametrize(
        "path",
        ["../weather/SKILL.md", "/etc/hostname", "outside.md", "run.py", "SKILL.md", "", "a\0.md", "docs"],
    )
    async def test_nothing_else_enters_the_prompt(self, world: World, skills: Path, path: str) -> None:
        (skills / "csv-tools" / "outside.md").symlink_to("/etc/hostname")
        await world.call("skill_load", skill="csv-tools", docs=[path])
        assert "[Doc]" not in text_of(world)
        assert "Docs that are not there" in text_of(world)

    async def test_a_long_one_is_cut_and_that_is_said(self, world: World, skills: Path) -> None:
        (skills / "weather" / "long.md").write_text("x" * 100_000)
        await world.call("skill_load", skill="weather", include_all_docs=True)
        assert text_of(world).endswith("x\n[cut: the first 65536 of 100000 bytes are here]")

    async def test_all_of_them_together_are_bounded(self, world: World, skills: Path) -> None:
        for number in range(6):
            (skills / "weather" / f"{number}.md").write_text("x" * 65_000)
        await world.call("skill_load", skill="weather", include_all_docs=True)
        assert text_of(world).count("[Doc]") == 6
        assert text_of(world).endswith(
            "[Doc] 5.md\n\n[left out: the documents before it are long enough; select it without them]"
        )
        assert len(text_of(world)) < 330_000

    async def test_what_is_no_text_is_not_there(self, world: World, skills: Path) -> None:
        (skills / "weather" / "odd.md").write_bytes(b"\xff\xfe")
        await world.call("skill_load", skill="weather", docs=["odd.md"])
        assert "Docs that are not there: odd.md" in text_of(world)
