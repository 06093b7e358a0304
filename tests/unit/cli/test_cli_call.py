"""`tools`, `prompt` and `call`: what a model is offered and told, and one call as it would make it."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.cli.kept_conversation import kept_conversation, sweep_conversations
from sandbox_skills.errors import SessionBusyError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Cli, MakeSkill

FAKE = ("--skills", "skills", "--engine", "fake")
SHELL = ("--toolset", "workspace")


@pytest.fixture(autouse=True)
def two_skills(make_skill: MakeSkill) -> None:
    make_skill("sample", scripts=("one.py",))
    make_skill("other")


def run_of(*argv: str) -> str:
    return json.dumps({"skill": "sample", "command": " ".join(argv)})


def test_a_tool_of_a_toolset_that_is_not_chosen_is_told_with_its_toolset(cli: Cli) -> None:
    done = cli("call", *FAKE, "skill_run", "--args", run_of("true"))
    assert done.code == 2
    assert "--toolset workspace" in done.err
    assert "toolset" not in cli("call", *FAKE, "nothing").err


@pytest.mark.parametrize("command", [("call", "use_skill"), ("tools",), ("prompt",)])
def test_where_no_skill_is_offered_the_reason_and_the_next_step_are_told(
    cli: Cli, home: Path, command: tuple[str, ...]
) -> None:
    found = cli(*command, "--engine", "fake")
    assert (
        "no skill is offered, though 2 skills are there: name a folder of skills with --skills DIR, or accept one"
        in found.err
    )
    assert "toolset" not in found.err
    (home / "empty").mkdir()
    assert "no skill is offered; name a folder" in cli(*command, "--engine", "fake", "--skills", "empty").err
    (home / "policy.yaml").write_text("policy: {skills: {sample: {allow: false}, other: {allow: false}}}\n")
    denied = cli(*command, *FAKE, "--config", "policy.yaml")
    assert "the settings, the policy or the skills themselves keep models from them" in denied.err


class TestSavedTools:
    CALL = ("call", *FAKE, "--toolset", "native", "define_tool", "--args")

    def definition(self, *, persistent: bool) -> str:
        return json.dumps(
            {"name": "add_one", "description": "d", "code": "return 1", "persistent": persistent}
        )

    def test_a_persistent_tool_is_saved_where_the_settings_say_and_is_offered_from_then_on(
        self, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tmp_path / "made/tools"
        monkeypatch.setenv("SANDBOX_SKILLS_TOOLS__SAVE_TO", str(folder))
        assert cli("tools", *FAKE, "--toolset", "native").code == 0
        assert not folder.exists()
        done = cli(*self.CALL, self.definition(persistent=True))
        assert (done.code, json.loads(done.out)["persistent"]) == (0, True)
        assert (folder / "add-one/SKILL.md").is_file()
        assert "add_one" in cli("tools", *FAKE, "--toolset", "native").out
        assert "add-one" in cli("list", *FAKE).out
        removal = ("remove_tool", "--args", '{"name": "add_one"}')
        assert cli("call", *FAKE, "--toolset", "native", *removal).code == 0
        assert "add_one" not in cli("tools", *FAKE, "--toolset", "native").out

    def test_without_such_a_folder_a_tool_ends_with_its_call(self, cli: Cli) -> None:
        done = cli(*self.CALL, self.definition(persistent=True))
        assert done.code == 2
        assert "Define it without persistent." in done.out
        assert cli(*self.CALL, self.definition(persistent=False)).code == 0
        assert "add_one" not in cli("tools", *FAKE, "--toolset", "native").out


class TestOffers:
    def test_tools_are_listed_and_printed_as_an_api_takes_them(self, cli: Cli) -> None:
        assert [line.split()[0] for line in cli("tools", *FAKE).out.splitlines()] == [
            "NAME",
            "load_skill",
            "use_skill",
        ]
        assert [tool["effect"] for tool in cli("tools", *FAKE, "--json").json] == ["read", "run"]
        chat = cli("tools", *FAKE, "--format", "chat").json
        assert [tool["function"]["name"] for tool in chat] == ["load_skill", "use_skill"]

    def test_toolsets_are_those_of_the_option_else_of_the_settings(
        self, cli: Cli, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert "skill_resource" in cli("tools", *FAKE, "--toolset", "resources").out
        monkeypatch.setenv("SANDBOX_SKILLS_TOOLS__TOOLSETS", "skill")
        assert [tool["name"] for tool in cli("tools", *FAKE, "--json").json] == ["skill"]

    @pytest.mark.parametrize(
        ("option", "told"),
        [(("--format", "x"), "responses, chat"), (("--toolset", "x"), "openrouter, workspace")],
    )
    def test_an_unknown_name_is_told_with_those_there_are(
        self, cli: Cli, option: tuple[str, ...], told: str
    ) -> None:
        done = cli("tools", *FAKE, *option)
        assert done.code == 2
        assert told in done.err

    def test_the_prompt_has_every_offered_skill_and_no_other(self, cli: Cli, home: Path) -> None:
        assert "### sample" in cli("prompt", *FAKE).out
        (home / "policy.yaml").write_text("policy: {skills: {other: {allow: false}}}\n")
        told = cli("prompt", *FAKE, "--config", "policy.yaml", "--json").json["prompt"]
        assert "sample" in told
        assert "other" not in told


class TestCall:
    def test_its_answer_is_what_a_model_reads(self, cli: Cli) -> None:
        done = cli("call", *FAKE, "load_skill", "--args", '{"skill": "sample"}')
        assert (done.code, done.out) == (0, "# sample\n")
        told = cli("call", *FAKE, "load_skill", "--args", '{"skill": "sample"}', "--json").json
        assert (told["status"], told["is_error"], told["code"]) == ("ok", False, "")

    @pytest.mark.parametrize(
        ("arguments", "code", "told"),
        [
            (("load_skill", "--args", '{"skill": "none"}'), 2, "none"),
            (("nothing",), 2, "load_skill, use_skill"),
            (("load_skill",), 2, "skill"),
            (("load_skill", "--args", "{x"), 2, "not JSON"),
            (("load_skill", "--args", "[1]"), 2, "object"),
        ],
    )
    def test_one_that_cannot_be_made_tells_the_next_step(
        self, cli: Cli, arguments: tuple[str, ...], code: int, told: str
    ) -> None:
        done = cli("call", *FAKE, *arguments)
        assert done.code == code
        assert told in done.out + done.err

    def test_a_program_that_failed_is_1(self, cli: Cli) -> None:
        assert cli("call", *FAKE, *SHELL, "workspace_exec", "--args", '{"command": "nope"}').code == 1

    def test_without_a_terminal_only_approve_allows_what_asks(self, cli: Cli, home: Path) -> None:
        (home / "s.yaml").write_text("policy: {tools: {load_skill: {needs_approval: always}}}\n")
        asked = ("call", *FAKE, "--config", "s.yaml", "load_skill", "--args", '{"skill": "sample"}')
        refused = cli(*asked, "--json")
        assert (refused.code, refused.json["code"]) == (2, "approval_needed")
        assert cli(*asked, "--approve").code == 0

    def test_a_granted_secret_is_shown_nowhere(
        self, cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("API_KEY", "sk-live-0123456789")
        (home / "s.yaml").write_text("policy: {skills: {sample: {secrets: [API_KEY]}}}\n")
        arguments = json.dumps({"skill": "sample", "command": "sk-live-0123456789"})
        cli(
            "call",
            *FAKE,
            "--config",
            "s.yaml",
            *SHELL,
            "skill_load",
            "--args",
            '{"skill": "sample"}',
            "--session",
            "s",
        )
        done = cli(
            "call", *FAKE, "--config", "s.yaml", *SHELL, "skill_run", "--args", arguments, "--session", "s"
        )
        records = (home.parent / "data" / "audit" / "runs.jsonl").read_text()
        assert '"event":"tool.response"' in records
        assert '"API_KEY":"[redacted]"' in records
        assert "sk-live-0123456789" not in done.out + done.err + records


class TestSession:
    def test_later_calls_go_on_with_the_state(self, cli: Cli, home: Path) -> None:
        load = ("call", *FAKE, *SHELL, "skill_load", "--args", '{"skill": "sample"}')
        listed = ("call", *FAKE, *SHELL, "skill_list_docs", "--args", '{"skill": "sample"}')
        assert cli(*load, "--session", "a").code == 0
        assert cli(*listed, "--session", "a").code == 0
        (folder,) = (home.parent / "data" / "conversations").iterdir()
        state = json.loads((folder / "state.json").read_text())
        assert any("sample" in key for key in state)
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    def test_a_state_that_is_none_is_told_with_its_place(self, cli: Cli, home: Path) -> None:
        call = ("call", *FAKE, "load_skill", "--args", '{"skill": "sample"}', "--session", "a")
        cli(*call)
        (folder,) = (home.parent / "data" / "conversations").iterdir()
        (folder / "state.json").write_text("[]")
        done = cli(*call)
        assert done.code == 2
        assert str(folder) in done.err.replace("\n", "")

    def test_one_process_at_a_time_has_it(self, tmp_path: Path) -> None:
        with (
            kept_conversation(tmp_path, "a"),
            kept_conversation(tmp_path, "b"),
            pytest.raises(SessionBusyError, match="'a'"),
            kept_conversation(tmp_path, "a"),
        ):
            pass
        with kept_conversation(tmp_path, "a"):
            pass

    def test_gc_removes_what_is_old_and_not_in_use(self, tmp_path: Path) -> None:
        for name in ("old", "used", "new"):
            with kept_conversation(tmp_path, name):
                pass
        folders = dict(zip(("new", "old", "used"), _by_name(tmp_path), strict=True))
        for name in ("old", "used"):
            os.utime(folders[name], (0, 0))
        lock = os.open(folders["used"] / "lock", os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert sweep_conversations(tmp_path, 60) == [folders["old"].name]
        os.close(lock)
        assert sweep_conversations(tmp_path / "none", 60) == []


def _by_name(data_dir: Path) -> list[Path]:
    import hashlib

    names = ("new", "old", "used")
    return [data_dir / "conversations" / hashlib.sha256(name.encode()).hexdigest()[:32] for name in names]
