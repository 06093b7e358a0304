"""`artifacts list`, `get` and `rm`: what they print, write and refuse."""

from __future__ import annotations

import asyncio
import inspect
import os
import pty
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Protocol

import pytest
import typer

from sandbox_skills.artifacts import Artifact, ArtifactMetadata, LocalArtifactStore
from sandbox_skills.cli.artifact_commands import artifacts as group
from sandbox_skills.spec import LOCAL_TENANT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Cli

COMMANDS = {info.name or "": info.callback for info in group.registered_commands}


class Save(Protocol):
    """Keeps one artifact of the local tenant, or of another."""

    def __call__(self, name: str, data: bytes = b"", *, tenant: str = LOCAL_TENANT) -> Artifact: ...


@pytest.fixture
def save(home: Path, tmp_path: Path) -> Save:
    store = LocalArtifactStore(tmp_path / "data" / "artifacts")

    def keep(name: str, data: bytes = b"", *, tenant: str = LOCAL_TENANT) -> Artifact:
        said = ArtifactMetadata("text/csv", run_id="r1")
        return asyncio.run(store.save(name, data, said, tenant=tenant))

    return keep


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_has_a_sentence_of_help_and_json(name: str, cli: Cli) -> None:
    function = COMMANDS[name]
    assert function is not None
    hints = inspect.get_annotations(function, eval_str=True)
    for parameter, hint in hints.items():
        if parameter != "return" and hint is not typer.Context:
            text = hint.__metadata__[0].help
            assert text[0].isalpha(), parameter
            assert text.endswith("."), parameter
    assert "--json" in cli("artifacts", name, "--help").out
    assert str(inspect.getdoc(function)) in cli("artifacts", "--help").out


def test_without_artifacts_the_list_is_empty_and_nothing_is_made(cli: Cli, tmp_path: Path) -> None:
    done = cli("artifacts", "list")
    assert (done.code, done.out, done.err) == (0, "", "no artifacts found\n")
    assert cli("artifacts", "list", "--json").json == []
    assert not (tmp_path / "data" / "artifacts").exists()


def test_the_list_has_the_latest_or_all_of_the_users_own(cli: Cli, save: Save) -> None:
    save("out/a.csv", b"1")
    latest = save("out/a.csv", b"12")
    save("other")
    save("secret", tenant="somebody")
    done = cli("artifacts", "list")
    assert done.code == 0
    assert [line.split()[-1] for line in done.out.splitlines()] == ["NAME", "other", "out/a.csv"]
    assert cli("artifacts", "list", "out/", "--json").json == [latest.as_dict()]
    every = cli("artifacts", "list", "--all", "--json").json
    assert [one["ref"] for one in every] == [
        "artifact://other@0",
        "artifact://out/a.csv@0",
        "artifact://out/a.csv@1",
    ]


def test_a_list_longer_than_a_page_is_whole(cli: Cli, save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox_skills.cli.artifacts.MAX_PAGE", 2)
    for name in "abcde":
        save(name)
    assert [one["name"] for one in cli("artifacts", "list", "--json").json] == list("abcde")


def test_a_name_cannot_steer_the_terminal(cli: Cli, save: Save) -> None:
    save("a\u202eb\u2028c")
    out = cli("artifacts", "list").out
    assert "\\u202e" in out
    assert "\u2028" not in out


def test_bytes_go_to_a_pipe_as_they_are(cli: Cli, save: Save, home: Path) -> None:
    save("x", b"\x1b[31m\xff\n")
    code = "from sandbox_skills.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "artifacts", "get", "x"], check=False, capture_output=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"\x1b[31m\xff\n", b"")


def test_bytes_never_go_to_a_terminal_nor_between_json(cli: Cli, save: Save, home: Path) -> None:
    save("x", b"\x1b[31m")
    ours, theirs = pty.openpty()
    code = "from sandbox_skills.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "artifacts", "get", "x"],
        check=False,
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2
    assert b"-o" in done.stderr
    told = cli("artifacts", "get", "x", "--json")
    assert (told.code, told.json["error"]["code"]) == (2, "request_invalid")


def test_get_writes_the_latest_or_the_version_that_was_named(cli: Cli, save: Save, home: Path) -> None:
    save("x", b"old")
    latest = save("x", b"new")
    done = cli("artifacts", "get", "x", "-o", "latest", "--json")
    assert (done.code, done.json) == (0, {**latest.as_dict(), "saved": "latest"})
    assert cli("artifacts", "get", "x", "--version", "0", "-o", "first").err.startswith(
        "saved first (3 bytes"
    )
    assert cli("artifacts", "get", "artifact://x@0", "-o", "referred").code == 0
    assert cli("artifacts", "get", "artifact://x", "-o", "plain").code == 0
    names = ("latest", "first", "referred", "plain")
    assert [(home / name).read_bytes() for name in names] == [b"new", b"old", b"old", b"new"]
    assert sorted(path.name for path in home.iterdir()) == sorted(names)
    umask = os.umask(0o22)
    os.umask(umask)
    assert stat.S_IMODE((home / "latest").stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("there", ["file", "link", "dangling", "directory"])
def test_what_is_there_stays_without_force(cli: Cli, save: Save, home: Path, there: str) -> None:
    save("x", b"new")
    target = home / there
    (home / "precious").write_bytes(b"precious")
    match there:
        case "file":
            target.write_bytes(b"mine")
        case "link":
            target.symlink_to("precious")
        case "dangling":
            target.symlink_to("nowhere")
        case _:
            target.mkdir()
    before = {path: (path.lstat().st_mode, path.lstat().st_ino) for path in home.iterdir()}
    done = cli("artifacts", "get", "x", "-o", there)
    assert done.code == 2
    assert "--force" in done.err
    assert {path: (path.lstat().st_mode, path.lstat().st_ino) for path in home.iterdir()} == before
    done = cli("artifacts", "get", "x", "-o", there, "--force")
    assert (home / "precious").read_bytes() == b"precious"
    assert not (home / "nowhere").exists()
    if there == "directory":
        assert done.code == 2
        assert set(home.iterdir()) == set(before)
        return
    assert done.code == 0
    assert not target.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_file_that_appears_meanwhile_stays(
    cli: Cli, save: Save, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save("x", b"new")
    (home / "y").write_bytes(b"mine")
    monkeypatch.setattr("os.path.lexists", lambda path: False)
    done = cli("artifacts", "get", "x", "-o", "y")
    assert done.code == 2
    assert [(path.name, path.read_bytes()) for path in home.iterdir()] == [("y", b"mine")]


@pytest.mark.parametrize("output", ["missing/x", "/dev/null/x", ".", "/"])
def test_a_place_that_cannot_be_written_is_told(cli: Cli, save: Save, home: Path, output: str) -> None:
    save("x", b"new")
    done = cli("artifacts", "get", "x", "-o", output)
    assert done.code == 2
    assert "cannot be written" in done.err
    assert not list(home.iterdir())


def test_a_damaged_artifact_leaves_no_file(cli: Cli, save: Save, home: Path, tmp_path: Path) -> None:
    save("x", b"new")
    (blob,) = (tmp_path / "data" / "artifacts").glob("*/blobs/*")
    blob.chmod(0o600)
    blob.write_bytes(b"bad")
    done = cli("artifacts", "get", "x", "-o", "x", "--json")
    assert (done.code, done.json["error"]["code"]) == (125, "artifact_store_unusable")
    assert not list(home.iterdir())


def test_rm_takes_one_version_or_all_as_it_was_told(cli: Cli, save: Save) -> None:
    for data in (b"1", b"22", b"333"):
        save("x", data)
    assert cli("artifacts", "rm", "x", "--version", "1").out == "1 removed (2 bytes)\n"
    assert [one["version"] for one in cli("artifacts", "rm", "artifact://x@0", "--json").json] == [0]
    assert [one["version"] for one in cli("artifacts", "rm", "x", "--all", "--json").json] == [2]
    assert cli("artifacts", "list", "--json").json == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["rm", "x"], "request_invalid"),
        (["rm", "x", "--all", "--version", "0"], "request_invalid"),
        (["rm", "artifact://x@0", "--all"], "request_invalid"),
        (["get", "artifact://x@0", "--version", "0", "-o", "f"], "request_invalid"),
        (["get", "x", "--version", "7", "-o", "f"], "artifact_not_found"),
        (["get", "y", "-o", "f"], "artifact_not_found"),
        (["get", "../x", "-o", "f"], "path_escape"),
        (["get", "artifact://@3", "-o", "f"], "artifact_name_invalid"),
        (["get", "x", "--version", "-1", "-o", "f"], "usage"),
    ],
)
def test_what_cannot_be_meant_is_an_error_and_changes_nothing(
    cli: Cli, save: Save, home: Path, arguments: list[str], code: str
) -> None:
    save("x", b"1")
    done = cli("artifacts", *arguments, "--json")
    assert (done.code, done.json["error"]["code"]) == (2, code)
    assert len(cli("artifacts", "list", "--all", "--json").json) == 1
    assert not list(home.iterdir())


@pytest.mark.parametrize("command", [("get", "-o", "f"), ("rm", "--all")])
@pytest.mark.parametrize(
    ("name", "more"), [("y", ""), ("x@0", "--version 0, or as artifact://x@0"), ("@3", "--version 3")]
)
def test_what_is_not_there_is_told_with_where_to_look(
    cli: Cli, save: Save, command: tuple[str, ...], name: str, more: str
) -> None:
    save("x", b"1")
    verb, *options = command
    done = cli("artifacts", verb, name, *options, "--json")
    assert done.json["error"]["code"] == "artifact_not_found"
    hint = done.json["error"]["hint"]
    assert hint.startswith("sandbox-skills artifacts list --all tells what is there")
    assert more in hint
