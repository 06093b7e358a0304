"""The caller's environment, env files, and the Docker Engine that they name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from docker.context.config import get_context_id
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.engines.docker_client import DEFAULT_HOST, DockerConnection, TlsFiles
from sandbox_skills.errors import InputError, SettingsError
from sandbox_skills.settings import DockerSettings, caller_environment, docker_connection, read_env_file
from sandbox_skills.settings.docker_connection import docker_variables

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def docker_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A docker configuration directory of its own, so that no context of the user is seen."""
    for variable in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


def make_context(docker_config: Path, name: str, host: str) -> None:
    meta = docker_config / "contexts" / "meta" / get_context_id(name)
    meta.mkdir(parents=True)
    document = {"Name": name, "Metadata": {}, "Endpoints": {"docker": {"Host": host}}}
    (meta / "meta.json").write_text(json.dumps(document))


def make_certificates(directory: Path) -> TlsFiles:
    files = TlsFiles(directory / "ca.pem", directory / "cert.pem", directory / "key.pem")
    for file in (files.ca, files.cert, files.key):
        assert file is not None
        file.touch()
    return files


def test_named_variables_are_copied() -> None:
    assert caller_environment(["A", "B"], {"A": "1", "B": "", "C": "3"}) == {"A": "1", "B": ""}


def test_variable_that_is_not_set_is_an_input_error() -> None:
    with pytest.raises(InputError, match="X, Y"):
        caller_environment(["A", "X", "Y"], {"A": "1"})


def test_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOR_THIS_TEST", "here")
    assert caller_environment(["FOR_THIS_TEST"]) == {"FOR_THIS_TEST": "here"}


def test_env_file_is_read_without_expansion(tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.write_text("# first\nexport A=1\nB='x # y'\nC=\"two\\nlines\"\nD=${A}$(id)\n\nE=\n")
    assert read_env_file(path) == {"A": "1", "B": "x # y", "C": "two\nlines", "D": "${A}$(id)", "E": ""}


@pytest.mark.parametrize("line", ["NAME", "=value", "A='open"])
def test_bad_line_of_an_env_file_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "env"
    path.write_text(f"A=1\n{line}\n")
    with pytest.raises(InputError, match=r"env:2: "):
        read_env_file(path)


def test_env_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_env_file(tmp_path / "missing")


@given(st.text(max_size=60))
def test_any_env_file_gives_text_or_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, content: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.env"
    path.write_bytes(content.encode("utf-8", "surrogatepass"))
    try:
        values = read_env_file(path)
    except InputError:
        return
    assert all(isinstance(text, str) for item in values.items() for text in item)


def test_host_of_the_settings_comes_first(docker_config: Path) -> None:
    docker = DockerSettings(host="tcp://one:1")
    assert docker_connection(docker, {"DOCKER_HOST": "tcp://two:2"}) == DockerConnection("tcp://one:1")


def test_host_of_the_environment_comes_before_contexts(docker_config: Path) -> None:
    environ = {"DOCKER_HOST": "tcp://two:2", "DOCKER_CONTEXT": "absent"}
    assert docker_connection(DockerSettings(), environ) == DockerConnection("tcp://two:2")


def test_context_of_the_settings_beats_the_host_of_the_environment(docker_config: Path) -> None:
    make_context(docker_config, "far", "tcp://far:3")
    found = docker_connection(DockerSettings(context="far"), {"DOCKER_HOST": "tcp://two:2"})
    assert found == DockerConnection("tcp://far:3")


def test_current_context_is_followed(docker_config: Path) -> None:
    make_context(docker_config, "far", "tcp://far:3")
    (docker_config / "config.json").write_text('{"currentContext": "far"}')
    assert docker_connection(DockerSettings(), {}) == DockerConnection("tcp://far:3")


def test_local_socket_is_the_default(docker_config: Path) -> None:
    assert docker_connection(DockerSettings(), {}) == DockerConnection(DEFAULT_HOST)


def test_environment_given_empty_hides_that_of_the_process(
    docker_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://process:1")
    assert docker_connection(DockerSettings(), {}) == DockerConnection(DEFAULT_HOST)


@pytest.mark.parametrize("document", ["{", '{"Name": "far"}'])
def test_absent_or_broken_context_is_a_settings_error(docker_config: Path, document: str) -> None:
    with pytest.raises(SettingsError, match="does not exist"):
        docker_connection(DockerSettings(context="far"), {})
    make_context(docker_config, "far", "")
    next(docker_config.glob("contexts/meta/*/meta.json")).write_text(document)
    with pytest.raises(SettingsError):
        docker_connection(DockerSettings(context="far"), {})


def test_certificates_are_taken_from_the_environment(docker_config: Path) -> None:
    files = make_certificates(docker_config)
    environ = {"DOCKER_HOST": "tcp://h:1", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(docker_config)}
    assert docker_connection(DockerSettings(), environ) == DockerConnection("tcp://h:1", files)


def test_certificates_that_are_not_there_are_a_settings_error(docker_config: Path) -> None:
    with pytest.raises(SettingsError):
        docker_connection(DockerSettings(host="tcp://h:1", cert_path=docker_config / "none"), {})


@pytest.mark.parametrize(("setting", "expected"), [(None, "1"), (True, "1"), (False, None)])
def test_setting_decides_over_the_variable_whether_certificates_are_checked(
    setting: bool | None,  # noqa: FBT001  # parametrize passes by keyword
    expected: str | None,
) -> None:
    variables = docker_variables(DockerSettings(tls_verify=setting), {"DOCKER_TLS_VERIFY": "1"})
    assert variables.get("DOCKER_TLS_VERIFY") == expected
