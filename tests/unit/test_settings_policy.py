"""The operator's policy and secrets: read from his files alone, faults told with their place."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from sandbox_skills.errors import SettingsError
from sandbox_skills.policy import Commands, Policy, decide, secrets_of
from sandbox_skills.settings import Settings, load_settings, secret_values
from sandbox_skills.settings.policy_section import SecretsSettings

EXAMPLE = Path(__file__).parents[2] / "config" / "policy.yaml"
VALUE = "0123456789"


@pytest.fixture(autouse=True)
def _home_without_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "settings.yaml"


@pytest.fixture
def policy(tmp_path: Path, config: Path) -> Path:
    config.write_text("policy: {file: rules.yaml}\n")
    return tmp_path / "rules.yaml"


def fault(config: Path) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(config=config, environ={})
    return str(caught.value)


class TestPolicy:
    def test_without_one_it_allows_all(self) -> None:
        assert Settings().policy.rules() == Policy()

    def test_a_section_and_a_file_of_its_own_are_the_same(self, config: Path, policy: Path) -> None:
        rules = "skills: {s: {commands: {allow: [wc]}, limits: {wall_seconds: 3}}}\n"
        policy.write_text(rules)
        from_file = load_settings(config=config, environ={}).policy.rules()
        config.write_text(f"policy:\n  {rules}")
        assert load_settings(config=config, environ={}).policy.rules() == from_file
        assert from_file.skills["s"].commands == Commands(allow=("wc",))

    def test_the_file_can_be_named_by_a_variable(self, policy: Path, config: Path) -> None:
        policy.write_text("default: {allow: false}\n")
        config.write_text("")
        environ = {"SANDBOX_SKILLS_POLICY__FILE": str(policy)}
        assert not load_settings(config=config, environ=environ).policy.default.allow

    def test_none_is_read_from_the_current_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "config").mkdir()
        for name in ("policy.yaml", "config/policy.yaml"):
            (tmp_path / name).write_text("default: {secrets: [A]}\n")
        monkeypatch.chdir(tmp_path)
        assert load_settings(environ={}).policy.rules() == Policy()

    def test_the_example_is_a_policy_with_every_word_there_is(self, config: Path) -> None:
        config.write_text(f"policy: {{file: {EXAMPLE}}}\n")
        rules = load_settings(config=config, environ={}).policy.rules()
        decision = decide(rules, tenant="t", skill="weather", command="cat x | jq . | wc -l")
        assert (decision.allowed, decision.secrets) == (True, ("WEATHER_API_KEY",))
        assert not decide(rules, tenant="guest", skill="other").allowed
        used = EXAMPLE.read_text()
        for kind in (Policy, type(rules.skills["weather"]), type(decision.limits)):
            assert [one.name for one in fields(kind) if f"{one.name}:" not in used] == []

    @pytest.mark.parametrize(
        ("rules", "where"),
        [
            (
                "skills:\n  s:\n    scripts:\n      allow: [a]\n      denied: [b]\n",
                ":5: policy.skills.s.scripts.denied: is not known here",
            ),
            ("skills:\n  s:\n    needs_approval: maybe\n", ":3: policy.skills.s.needs_approval: "),
            (
                "default:\n  commands:\n    allow:\n      - wc\n      - sh\n",
                ":3: policy.default.commands.allow: ",
            ),
            ("skills:\n  s:\n    secrets:\n      - fine\n      - ../x\n", ":5: policy.skills.s.secrets.1: "),
            ("tenants:\n  t:\n    skills:\n      s: 3\n", ":4: policy.tenants.t.skills.s: "),
            ("skills:\n  s: {}\n  s: {}\n", ":3: the name s is given twice"),
            ("skills:\n  s:\n    env: {A: 1, A: 2}\n", ":3: the name s.env.A is given twice"),
            ("skill: {}\n", ":1: unknown setting policy.skill; did you mean policy.skills"),
            ("rules: [\n", ": not YAML"),
            ("- a\n", ":1: settings must be a mapping"),
            ("file: x\n", ":1: policy.file is given twice"),
        ],
    )
    def test_a_fault_is_told_with_its_line(self, config: Path, policy: Path, rules: str, where: str) -> None:
        policy.write_text(rules)
        told = fault(config)
        assert told.startswith(f"{policy}:")
        assert where in told

    def test_so_it_is_in_a_section(self, config: Path) -> None:
        config.write_text("engine: fake\npolicy:\n  skills:\n    s:\n      network: all\n")
        assert fault(config).startswith(
            f"{config}:5: policy.skills.s.network: Input should be 'none' (got 'all')"
        )

    def test_a_file_and_a_section_of_the_same_are_a_fault(self, config: Path, policy: Path) -> None:
        config.write_text("policy:\n  file: rules.yaml\n  skills: {}\n")
        policy.write_text("tools: {}\nskills: {}\n")
        assert fault(config) == f"{policy}:2: policy.skills is given twice: {config}:3 has it, too"

    def test_a_file_that_is_not_there_is_a_fault(self, config: Path, policy: Path) -> None:
        assert fault(config).startswith(f"{config}:1: the policy {policy} cannot be read: ")

    def test_toolsets_are_a_list_in_a_file_and_words_in_a_variable(self, config: Path) -> None:
        config.write_text("tools: {toolsets: [workspace, native]}\n")
        assert load_settings(config=config, environ={}).tools.toolsets == ("workspace", "native")
        environ = {"SANDBOX_SKILLS_TOOLS__TOOLSETS": "skill, resources"}
        assert load_settings(config=config, environ=environ).tools.toolsets == ("skill", "resources")


class TestSecrets:
    def test_they_come_from_the_environment_and_files_win(self, tmp_path: Path) -> None:
        environ = {"A": f"a{VALUE}", "B": f"b{VALUE}", "C": f"c{VALUE}", "UNASKED": VALUE}
        file = tmp_path / "secrets.env"
        file.write_text(f"B='file {VALUE}'\nC=file{VALUE}\n")
        folder = tmp_path / "secrets"
        folder.mkdir()
        (folder / "C").write_text(f"folder {VALUE}\n")
        for path in (file, folder / "C"):
            path.chmod(0o600)
        values = secret_values(SecretsSettings(file=file, folder=folder), ("A", "B", "C", "D"), environ)
        assert values == {"A": f"a{VALUE}", "B": f"file {VALUE}", "C": f"folder {VALUE}"}

    def test_where_none_is_granted_no_file_is_looked_at(self, tmp_path: Path) -> None:
        assert secret_values(SecretsSettings(file=tmp_path / "none"), (), {"A": VALUE}) == {}

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620])
    def test_a_file_that_others_can_read_is_refused(self, tmp_path: Path, mode: int) -> None:
        (tmp_path / "A").write_text(VALUE)
        (tmp_path / "A").chmod(mode)
        for where in (SecretsSettings(file=tmp_path / "A"), SecretsSettings(folder=tmp_path)):
            with pytest.raises(SettingsError, match="others can read it") as caught:
                secret_values(where, ("A",), {})
            assert caught.value.hint == f"chmod 600 {tmp_path / 'A'}"

    @pytest.mark.parametrize("value", ["short", "1234567", "      1234567      "])
    def test_a_value_too_short_to_be_redacted_is_refused_and_not_shown(self, value: str) -> None:
        with pytest.raises(SettingsError, match="the secret A has less than 8 characters") as caught:
            secret_values(SecretsSettings(), ("A",), {"A": value})
        assert value not in f"{caught.value}{caught.value.hint}"

    def test_what_is_no_file_is_a_fault_and_shows_nothing(self, tmp_path: Path) -> None:
        bad = tmp_path / "bad"
        bad.write_text(f"A {VALUE}\n")
        bad.chmod(0o600)
        (tmp_path / "A").mkdir()
        for where in (
            SecretsSettings(file=bad),
            SecretsSettings(file=tmp_path / "none"),
            SecretsSettings(folder=tmp_path),
        ):
            with pytest.raises(SettingsError, match=str(tmp_path)) as caught:
                secret_values(where, ("A",), {})
            assert VALUE not in f"{caught.value}{caught.value.hint}"

    def test_names_of_the_policy_are_names_of_variables(self) -> None:
        assert secrets_of(Policy.of({"default": {"secrets": ["A_1"]}})) == {"A_1"}
        for name in ("../x", "a/b", "", "1A", "A B"):
            with pytest.raises(ValueError, match="pattern"):
                Policy.of({"default": {"secrets": [name]}})
