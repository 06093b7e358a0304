"""Settings: precedence, faults with their place, and the documented defaults."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sandbox_skills.artifacts import ArtifactQuota, RetentionPolicy
from sandbox_skills.controller.client_options import ClientOptions
from sandbox_skills.controller.options import ControllerOptions
from sandbox_skills.controller.request import NamedTool
from sandbox_skills.errors import SettingsError
from sandbox_skills.settings import Settings, load_settings, setting_names, user_config_file
from sandbox_skills.settings.daemon_section import DaemonSettings
from sandbox_skills.settings.model import PATHS
from sandbox_skills.settings.section import Section
from sandbox_skills.spec import CollectLimits, Limits, SandboxLimits
from sandbox_skills.workspace.choices import InputLimits, SessionPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

EXAMPLE = Path(__file__).parents[2] / "config" / "settings.yaml"


@pytest.fixture(autouse=True)
def _home_without_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "settings.yaml"


def fault(config: Path | None = None, environ: Mapping[str, str] | None = None, **overrides: object) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(overrides, config=config, environ=environ or {})
    return str(caught.value)


def test_defaults_are_those_of_spec() -> None:
    settings = load_settings(environ={})
    assert settings.sandbox_limits() == SandboxLimits()
    assert settings.run_limits() == Limits()
    assert settings.collect_limits() == CollectLimits()
    assert settings.artifact_quota() == ArtifactQuota()
    assert settings.input_limits() == InputLimits()
    assert settings.session_policy() == SessionPolicy()


def test_artifacts_are_retained_as_the_settings_say(config: Path) -> None:
    config.write_text("artifacts: {max_age_days: 0.5, max_count: 3, max_bytes: 1KiB}\n")
    settings = load_settings(config=config, environ={})
    assert settings.artifact_retention() == RetentionPolicy(43_200, 3, 1024)
    assert settings.artifact_quota() == ArtifactQuota(3, 1024)
    config.write_text("artifacts: {max_age_days: null}\n")
    assert load_settings(config=config, environ={}).artifact_retention().max_age is None


@pytest.mark.parametrize(
    ("section", "values"), [("sandbox", SandboxLimits), ("run", Limits), ("collect", CollectLimits)]
)
def test_every_limit_is_a_setting(section: str, values: type) -> None:
    assert {f"{section}.{field.name}" for field in fields(values)} <= set(setting_names())


def test_example_file_has_the_defaults() -> None:
    assert load_settings(config=EXAMPLE, environ={}) == Settings()


def test_example_file_has_every_setting_with_a_comment() -> None:
    documented: set[str] = set()
    section, commented = "", False
    for line in EXAMPLE.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if not line.startswith(" "):
            section = ""
        if text.endswith(":"):
            section = f"{text[:-1]}."
        elif ":" in text and not text.startswith("#") and (commented or "#" in text):
            documented.add(section + text.split(":")[0])
        commented = text.startswith("#")
    assert documented == set(setting_names())


def test_the_example_of_a_servers_settings_is_one_that_loads() -> None:
    example = EXAMPLE.with_name("daemon.yaml")
    settings = load_settings(config=example, environ={})
    assert settings.daemon.host != DaemonSettings().host


def test_every_path_is_resolved_against_its_file() -> None:
    def paths(kind: type[Section], prefix: str = "") -> set[str]:
        found: set[str] = set()
        for one in fields(kind):
            inner = paths(type(one.default), f"{one.name}.") if isinstance(one.default, Section) else set()
            found |= inner or ({prefix + one.name} if "Path" in str(one.type) else set())
        return found

    assert paths(Settings) == PATHS


@pytest.mark.parametrize("text", ["nonsense: {}\n", "run: {}\nnonsense: {}\n", "run: {nonsense: {}}\n"])
def test_an_unknown_name_is_a_fault_even_with_nothing_in_it(config: Path, text: str) -> None:
    config.write_text(text)
    assert "unknown setting" in fault(config)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Settings().engine = "fake"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del Settings().engine


def test_building_settings_reads_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE", "fake")
    assert Settings().engine == "docker"


def test_nothing_is_read_from_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("settings.yaml", ".env", "config/settings.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("engine: fake\n")
    monkeypatch.chdir(tmp_path)
    assert load_settings(environ={}).engine == "docker"


def test_command_line_beats_environment_beats_file(config: Path) -> None:
    config.write_text("run: {wall_seconds: 1, cpu_seconds: 1, stdout_bytes: 1}\n")
    environ = {"SANDBOX_SKILLS_RUN__WALL_SECONDS": "2", "SANDBOX_SKILLS_RUN__CPU_SECONDS": "2"}
    run = load_settings({"run.wall_seconds": 3}, config=config, environ=environ).run
    assert (run.wall_seconds, run.cpu_seconds, run.stdout_bytes) == (3, 2, 1)
    assert run.stderr_bytes == Limits().stderr_bytes


def test_option_that_is_none_is_not_given() -> None:
    assert load_settings({"engine": None}, environ={"SANDBOX_SKILLS_ENGINE": "fake"}).engine == "fake"


def test_empty_variable_is_not_given() -> None:
    assert load_settings(environ={"SANDBOX_SKILLS_ENGINE": "", "SKILLS_ROOT": ""}) == Settings()


def test_user_file_is_read_and_named_files_come_first(config: Path, tmp_path: Path) -> None:
    user_config_file().parent.mkdir(parents=True)
    user_config_file().write_text("pool: {size: 1}\n")
    config.write_text("pool: {size: 2}\n")
    option = tmp_path / "other.yaml"
    option.write_text("pool: {size: 3}\n")
    environ = {"SANDBOX_SKILLS_CONFIG": str(config)}
    assert load_settings(environ={}).pool.size == 1
    assert load_settings(environ=environ).pool.size == 2
    assert load_settings(config=option, environ=environ).pool.size == 3


def test_named_file_must_exist(tmp_path: Path) -> None:
    missing = tmp_path / "missing.yaml"
    assert str(missing) in fault(missing)
    assert str(missing) in fault(environ={"SANDBOX_SKILLS_CONFIG": str(missing)})


@pytest.mark.parametrize("content", ["", "# only a comment\n", "null\n", "run:\nsandbox: {}\n"])
def test_file_without_values_changes_nothing(config: Path, content: str) -> None:
    config.write_text(content)
    assert load_settings(config=config, environ={}) == Settings()


def test_sizes_are_numbers_or_text(config: Path) -> None:
    config.write_text("sandbox: {memory: 1GiB, tmp_bytes: 4096}\n")
    sandbox = load_settings(config=config, environ={}).sandbox
    assert (sandbox.memory, sandbox.tmp_bytes) == (1024**3, 4096)


def test_values_keep_their_text_whatever_yaml_makes_of_it(config: Path) -> None:
    config.write_text("image: {name: 1.10}\ndocker: {runtime: on}\n")
    settings = load_settings(config=config, environ={})
    assert (settings.image.name, settings.docker.runtime) == ("1.10", "on")


def test_roots_of_a_file_start_from_its_folder(config: Path, tmp_path: Path) -> None:
    config.write_text("skills: {roots: [mine, /abs, ~/home]}\n")
    roots = load_settings(config=config, environ={}).skills.roots
    assert roots == (tmp_path / "mine", Path("/abs"), tmp_path / "home" / "home")


def test_skills_root_is_added_to_the_roots_below_the_command_line(config: Path) -> None:
    config.write_text("skills: {roots: [/file]}\n")
    extra = {"SKILLS_ROOT": "/extra"}
    several = extra | {"SANDBOX_SKILLS_SKILLS__ROOTS": "/a:/b"}
    assert load_settings(environ=extra).skills.roots == (Path("/extra"),)
    assert load_settings(config=config, environ=extra).skills.roots == (Path("/file"), Path("/extra"))
    assert load_settings(environ=several).skills.roots == (Path("/a"), Path("/b"), Path("/extra"))
    option = {"skills.roots": [Path("/option")]}
    assert load_settings(option, environ=several).skills.roots == (Path("/option"),)


def test_data_dir_is_taken_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings(environ={"SANDBOX_SKILLS_DATA_DIR": "data"}).data_dir == tmp_path / "data"


FOLDERS = st.sampled_from(
    ["", "x", "/x/../y", "~", "~nobody-has-this-name", "a\0b", "/a\0b", "caf\u00e9", "\udcff"]
)


@given(
    st.fixed_dictionaries({}, optional={
        "data_dir": FOLDERS | FOLDERS.map(Path) | st.lists(FOLDERS, max_size=1) | st.integers(),
        "skills.roots": FOLDERS | st.lists(FOLDERS | FOLDERS.map(Path) | st.none(), max_size=3).map(tuple),
    }),
    FOLDERS,
)  # fmt: skip
def test_folders_alone_are_taken_as_they_are_beside_other_settings(
    folders: dict[str, object], extra_root: str
) -> None:
    def taken(**more: object) -> object:
        try:
            settings = load_settings(folders | more, environ={"SKILLS_ROOT": extra_root})
        except SettingsError as error:
            return str(error)
        return settings.data_dir, settings.skills, settings.skills.given, settings.given - more.keys()

    assert taken() == taken(engine="docker")


@pytest.mark.parametrize("variable", ["SKILLS_ROOT", "SANDBOX_SKILLS_CONFIG", "SANDBOX_SKILLS_POLICY__FILE"])
def test_a_path_in_the_home_of_nobody_is_a_fault_with_its_place(variable: str) -> None:
    told = fault(environ={variable: "~nobody-has-this-name/x"})
    assert told.startswith(f"{variable}: ~nobody-has-this-name/x: ")


def test_paths_given_in_code_must_be_absolute() -> None:
    with pytest.raises(ValidationError):
        Settings(data_dir=Path("here"))


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ("run:\n  wal_seconds: 1\n", 2, "run.wall_seconds"),
        ("engine: dokcer\n", 1, "'docker', 'bubblewrap', 'local' or 'fake'"),
        ("\nrun: 5\n", 2, "section"),
        ("engine:\n  name: x\n", 2, "unknown setting engine.name"),
        ("pool:\n  size: 65\n", 2, "less than or equal to 64"),
        ("sandbox:\n  cpus: .inf\n", 2, "sandbox.cpus"),
        ("sandbox:\n  memory: -1\n", 2, "sandbox.memory"),
        ("sandbox:\n  memory: lots\n", 2, "got 'lots'"),
        ("sandbox:\n  pids: null\n", 2, "sandbox.pids"),
        ("run:\n  wall_seconds: 901\n", 2, "wall_ceiling_seconds"),
        ("skills:\n  roots: [[]]\n", 2, "skills.roots"),
        ("skills:\n  roots: ['']\n", 2, "absolute"),
        ("data_dir: ~nobody-of-that-name/x\n", 1, "nobody-of-that-name"),
        ("pool: {size: 1}\npool: {size: 2}\n", 2, "twice"),
        ("- engine\n", 1, "mapping"),
        ("? [a]\n: b\n", 1, "plain text"),
        ("engine: [\n", 2, "not YAML"),
        ("a: &a 1\nb: *a\n", 2, "aliases"),
        ("a: 1\n---\nb: 2\n", 2, "not YAML"),
    ],
)
def test_fault_in_a_file_names_file_and_line(config: Path, content: str, line: int, words: str) -> None:
    config.write_text(content)
    message = fault(config)
    assert message.startswith(f"{config}:{line}: ")
    assert words in message


def test_every_fault_is_told(config: Path) -> None:
    config.write_text("engine: x\npool:\n  size: many\n")
    assert [line.split(": ")[0] for line in fault(config).splitlines()] == [f"{config}:1", f"{config}:3"]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a: \x00", b"[" * 5000, b"#" * (1024 * 1024 + 1)])
def test_file_that_is_no_settings_file_is_a_fault(config: Path, content: bytes) -> None:
    config.write_bytes(content)
    assert str(config) in fault(config)


@given(st.text(max_size=80) | st.binary(max_size=80))
def test_any_file_gives_settings_or_a_settings_error(
    tmp_path_factory: pytest.TempPathFactory, content: str | bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    try:
        load_settings(config=path, environ={})
    except SettingsError as error:
        assert str(path) in str(error)  # noqa: PT017  # both ways are right


def test_unknown_variable_is_a_fault_with_near_matches() -> None:
    message = fault(environ={"SANDBOX_SKILLS_RUN__WALL_SECOND": "1"})
    assert message.startswith("SANDBOX_SKILLS_RUN__WALL_SECOND: ")
    assert "SANDBOX_SKILLS_RUN__WALL_SECONDS" in message


def test_bad_variable_is_named() -> None:
    assert fault(environ={"SANDBOX_SKILLS_POOL__SIZE": "x"}).startswith("SANDBOX_SKILLS_POOL__SIZE: ")


def test_bad_option_is_named() -> None:
    assert fault(engine="podman").startswith("command line: engine: ")


def test_the_usual_key_counts_for_openrouter_alone() -> None:
    environ = {"OPENROUTER_API_KEY": "sk-usual"}
    assert load_settings(environ=environ).model.client_options().api_key == "sk-usual"
    elsewhere = {**environ, "SANDBOX_SKILLS_MODEL__BASE_URL": "https://models.example/v1"}
    assert load_settings(environ=elsewhere).model.client_options().api_key == ""
    own = {**environ, "SANDBOX_SKILLS_MODEL__API_KEY": "sk-own"}
    assert load_settings(environ=own).model.client_options().api_key == "sk-own"


def test_the_key_is_shown_nowhere(config: Path) -> None:
    config.write_text("model: {api_key: [sk-secret]}\n")
    assert "sk-secret" not in fault(config)
    settings = load_settings({"model.api_key": "sk-secret"}, environ={})
    assert "sk-secret" not in f"{settings!r} {settings.model.client_options()!r} {asdict(settings)}"


def test_what_is_asked_of_a_model_is_as_the_settings_say(config: Path) -> None:
    given = {
        "model.name": "a/b",
        "model.provider": '{"order": ["x"]}',
        "model.tool_choice": "look",
        "model.max_cost": 0.5,
        "model.base_url": "http://127.0.0.1:1/v1",
    }
    options = load_settings(given, environ={}).model.controller_options(instructions="Be brief.")
    assert options == ControllerOptions(
        "a/b",
        instructions="Be brief.",
        provider={"order": ["x"]},
        tool_choice=NamedTool("look"),
        max_cost=0.5,
        sticky=False,
    )
    assert options.provider == {"order": ["x"]}
    default = load_settings({"model.name": "a/b"}, environ={}).model
    assert default.controller_options() == ControllerOptions("a/b")
    assert default.client_options() == ClientOptions()
    config.write_text("model: {provider: order}\n")
    assert f"{config}:1: model.provider: Value error, must be a JSON object" in fault(config)


@pytest.mark.parametrize("name", sorted(Settings.sections()))
def test_the_defaults_of_a_section_are_values_that_it_admits(name: str) -> None:
    usual = getattr(Settings(), name)
    assert type(usual)() == usual
    assert type(usual).of(asdict(usual)) == usual
