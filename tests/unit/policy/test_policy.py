"""What the policy says of a call: the rule that counts, and that a denial holds whoever's it is."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from pydantic import ValidationError

from sandbox_skills.policy import Commands, Decision, Manner, Policy, decide, secrets_of
from sandbox_skills.policy.programs import LAUNCHERS


def says(policy: dict[str, Any], *, tenant: str = "t", **call: Any) -> Decision:  # noqa: ANN401  # as `decide`
    return decide(Policy.of(policy), tenant=tenant, **call)


def reason(policy: dict[str, Any], **call: Any) -> str:  # noqa: ANN401
    decision = says(policy, **call)
    assert decision.allowed is (not decision.reason)
    return decision.reason


def commands(**lists: list[str]) -> dict[str, Any]:
    return {"skills": {"s": {"commands": lists}}}


def test_without_a_word_everything_is_allowed_and_nothing_granted() -> None:
    assert says({}, skill="s", command="cat $(id) > x") == Decision()


class TestRules:
    POLICY: ClassVar[dict[str, Any]] = {
        "default": {"allow": False},
        "skills": {"a": {"env": {"X": "1"}, "secrets": ["KEY"]}, "b": {"allow": False}},
        "tenants": {
            "own": {"skills": {"a": {"env": {"X": "2"}}, "b": {}}},
            "free": {"default": {"needs_approval": "always"}},
        },
    }

    def test_a_skill_without_a_rule_has_the_default(self) -> None:
        assert reason(self.POLICY, skill="c") == "the policy does not allow the skill c"
        assert says(self.POLICY, skill="a").secrets == ("KEY",)

    def test_the_rule_of_a_tenant_counts_whole(self) -> None:
        decision = says(self.POLICY, tenant="own", skill="a")
        assert (decision.env, decision.secrets) == ({"X": "2"}, ())
        assert says(self.POLICY, tenant="free", skill="c").approval == "always"
        assert reason(self.POLICY, tenant="other", skill="c")

    def test_what_a_rule_for_the_name_denies_stays_denied(self) -> None:
        for tenant in ("t", "own", "free"):
            assert reason(self.POLICY, tenant=tenant, skill="b") == "the policy does not allow the skill b"

    def test_denied_scripts_and_commands_stay_denied_for_a_tenant(self) -> None:
        policy: dict[str, Any] = {
            "skills": {"s": {"scripts": {"deny": ["scripts/x.py"]}, "commands": {"deny": ["curl"]}}},
            "tenants": {"t": {"skills": {"s": {"commands": {}}}}},
        }
        assert reason(policy, skill="s", script="scripts/x.py")
        assert reason(policy, skill="s", command="/usr/bin/CURL x")
        assert not reason(policy, skill="s", command="wc x")
        policy["tenants"]["t"]["skills"]["s"] = {}
        # It has no word on commands, and some scripts are denied: a shell could run those.
        assert "no commands" in reason(policy, skill="s", command="wc x")

    def test_every_rule_of_a_tool_holds(self) -> None:
        policy = {
            "tools": {"run": {"needs_approval": "first_use"}, "no": {"allow": False}},
            "tenants": {
                "t": {"tools": {"run": {"needs_approval": "always"}, "no": {}, "other": {"allow": False}}}
            },
        }
        assert says(policy, tool="run").approval == "always"
        assert says(policy, tenant="u", tool="run").approval == "first_use"
        assert reason(policy, tool="no") == "the policy does not allow the tool no"
        assert reason(policy, tool="other")
        assert not reason(policy, tenant="u", tool="other")

    def test_of_two_approvals_the_stricter_counts(self) -> None:
        policy = {"default": {"needs_approval": "first_use"}, "tools": {"run": {"needs_approval": "never"}}}
        assert says(policy, tool="run", skill="s").approval == "first_use"
        assert says(policy, tool="run").approval == "never"

    def test_what_runs_without_a_skill_is_judged_by_the_default_and_granted_nothing(self) -> None:
        policy = {"default": {"commands": {"allow": ["wc"]}, "secrets": ["KEY"], "env": {"A": "b"}}}
        decision = says(policy, tool="workspace_exec", command="wc x")
        assert (decision.allowed, decision.secrets, decision.env) == (True, (), {})
        assert reason(policy, command="ls")
        assert (
            reason({"default": {"allow": False}}, command="ls")
            == "the policy does not allow commands outside a skill"
        )
        assert not reason({"default": {"allow": False}}, tool="skill_list_docs")

    def test_the_names_of_all_granted_secrets_are_known(self) -> None:
        policy = {
            "default": {"secrets": ["A"]},
            "skills": {"s": {"secrets": ["B"]}},
            "tenants": {"t": {"default": {"secrets": ["C"]}, "skills": {"s": {"secrets": ["D", "A"]}}}},
        }
        assert secrets_of(Policy.of(policy)) == {"A", "B", "C", "D"}


class TestScripts:
    LIMITED: ClassVar[dict[str, Any]] = {
        "skills": {"s": {"scripts": {"allow": ["scripts/*"], "deny": ["*/no.py"]}}}
    }

    @pytest.mark.parametrize("script", ["scripts/a.py", "./scripts//a.py", "x/../scripts/a.py"])
    def test_one_on_the_list_may_run(self, script: str) -> None:
        assert not reason(self.LIMITED, skill="s", script=script)

    @pytest.mark.parametrize(
        "script", ["a.py", "scripts/no.py", "scripts/x/../no.py", "scripts/../a.py", "/scripts/a"]
    )
    def test_another_may_not_whatever_its_detours(self, script: str) -> None:
        told = reason(self.LIMITED, skill="s", script=script)
        assert (
            told == f"the policy does not allow the script {script!r} of the skill s; allowed are scripts/*"
        )

    def test_where_scripts_are_limited_no_command_runs_unless_commands_are_named(self) -> None:
        assert (
            reason(self.LIMITED, skill="s", command="ls")
            == "the policy allows scripts of the skill s, and no commands"
        )
        both = {"skills": {"s": {**self.LIMITED["skills"]["s"], "commands": {"allow": ["ls"]}}}}
        assert not reason(both, skill="s", command="ls")

    def test_what_may_run_cannot_be_changed_or_led_elsewhere(self) -> None:
        call = {"skill": "s", "script": "scripts/a.py"}
        assert "can be changed" in reason(self.LIMITED, **call, manner=Manner(writable=True))
        assert "PYTHONPATH" in reason(self.LIMITED, **call, manner=Manner(env=("A", "PYTHONPATH")))
        assert not reason(self.LIMITED, **call, manner=Manner(env=("CITY", "lower_1"), cwd="out"))


class TestCommands:
    @pytest.mark.parametrize("command", ["echo ok", "echo a b | wc -w", "echo '$(id)' && echo \"x;y\""])
    def test_every_program_on_the_list_may_run(self, command: str) -> None:
        decision = says(commands(allow=["echo", "wc"]), skill="s", command=command)
        assert decision.allowed
        assert decision.judged

    @pytest.mark.parametrize(
        "command",
        [
            *("ls", "echo ok; ls", "echo x | curl y", "echo $(ls)", "echo `ls`", "sh -c echo", "echo x > y"),
            *("(echo x)", "A=b echo x", "./echo x", "/tmp/evil/echo x", "ECHO x", "'echo ' x", "echo\nls"),
            *("env echo", "xargs echo", "command echo", "eval echo", "echo x & ls", "echo x |& ls"),
        ],
    )
    def test_nothing_else_may(self, command: str) -> None:
        assert reason(commands(allow=["echo", "wc"]), skill="s", command=command)

    def test_a_path_on_the_list_is_that_path_from_the_usual_directory(self) -> None:
        policy = commands(allow=["bin/x", "./y", "/usr/bin/wc"])
        for command in ("bin/x 1", "./bin/x 1", "./y", "/usr/bin/wc -l"):
            assert not reason(policy, skill="s", command=command)
        for command in ("x 1", "y", "wc -l", "work/bin/x", "../s/bin/x"):
            assert reason(policy, skill="s", command=command)
        elsewhere = Manner(cwd="$WORK_DIR")
        assert "leave cwd out" in reason(policy, skill="s", command="bin/x", manner=elsewhere)
        assert not reason(policy, skill="s", command="/usr/bin/wc -l", manner=elsewhere)

    @pytest.mark.parametrize(
        "command", ["curl x", "/usr/bin/curl x", "./bin/CURL x", "ls | Curl", "bin/x", "./bin/x", "x"]
    )
    def test_a_denied_name_is_denied_wherever_it_lies(self, command: str) -> None:
        assert reason(commands(deny=["curl", "bin/x"]), skill="s", command=command)

    def test_a_denial_beats_the_list(self) -> None:
        assert reason(commands(allow=["echo"], deny=["echo"]), skill="s", command="echo x")

    @pytest.mark.parametrize("launcher", sorted(LAUNCHERS))
    def test_launchers_are_never_admitted_and_cannot_be_allowed(self, launcher: str) -> None:
        assert not Commands().admits(launcher)
        assert not Commands().admits(f"/bin/{launcher.upper()}")
        with pytest.raises(ValidationError, match="never allowed"):
            Commands(allow=(f"/usr/bin/{launcher}",))

    @pytest.mark.parametrize(
        "name",
        [
            "PATH",
            "BASH_ENV",
            "ENV",
            "IFS",
            "LD_PRELOAD",
            "BASH_FUNC_wc%%",
            "a-b",
            "LC_ALL",
            "NODE_OPTIONS",
            "é",
            "",
        ],
    )
    def test_a_call_cannot_set_what_steers_it(self, name: str) -> None:
        manner = Manner(env=("CITY", name))
        assert "does not let a call set" in reason(
            commands(allow=["wc"]), skill="s", command="wc", manner=manner
        )
        assert not reason({}, skill="s", command="wc", manner=manner)

    def test_a_refusal_tells_what_is_allowed(self) -> None:
        assert reason(commands(allow=["echo", "wc"]), skill="s", command="ls") == (
            "the policy does not allow the program 'ls'; allowed are echo, wc"
        )

    def test_a_strangers_words_are_repeated_in_part(self) -> None:
        assert len(reason(commands(allow=["wc"]), skill="s", command="x" * 9_000)) < 200
        assert len(reason({"default": {"allow": False}}, skill="x" * 9_000)) < 200


@pytest.mark.parametrize(
    "policy",
    [
        {"skills": {"s": {"script": {}}}},
        {"skills": {"s": {"needs_approval": "sometimes"}}},
        {"skills": {"s": {"network": "all"}}},
        {"skills": {"s": {"digest": "abc"}}},
        {"skills": {"s": {"limits": {"wall_seconds": 0}}}},
        {"default": {"commands": {"allow": ["bash"]}}},
        {"default": {"commands": {"allow": [""]}}},
        {"rules": {}},
    ],
)
def test_a_word_that_means_nothing_is_an_error(policy: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Policy.of(policy)
