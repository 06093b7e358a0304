"""The program over real sandboxes: exit codes, output, files, secrets, and what each command says of the daemon."""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.engines.docker_config import LABEL_EXPIRES, LABEL_MANAGED
from sandbox_skills.engines.image import image_tag

if TYPE_CHECKING:
    from collections.abc import Iterator

    import docker

    from tests.conftest import Program

pytestmark = pytest.mark.docker

RUN = ("run", "python-math")

EAT_MEMORY = "python3 -c 'b = bytearray(900 << 20); b[:] = b\"x\" * len(b)'"
FILL_DISK = "for i in 1 2 3; do head -c 100M /dev/zero > work/$i || exit 1; done"


def result_of(done: subprocess.CompletedProcess[str]) -> Any:  # noqa: ANN401  # whatever the command prints
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("no-such-program", 127),
        ("exec ./SKILL.md", 126),
        ("kill -9 $$", 137),
        ("kill -11 $$", 139),
    ],
)
def test_the_exit_code_is_the_programs(program: Program, text: str, code: int) -> None:
    assert program.run(*RUN, "--command", text).returncode == code


def test_a_program_that_is_not_there_or_no_program_says_so(program: Program) -> None:
    missing = program.run(*RUN, "--", "no-such-program")
    assert missing.returncode == 127
    assert "no-such-program" in missing.stderr
    assert program.run(*RUN, "--", "./SKILL.md").returncode == 126


@pytest.mark.parametrize(
    ("text", "options", "code", "told"),
    [
        ("sleep 20", ("--timeout", "0.5"), 124, "stopped: wall time"),
        (EAT_MEMORY, (), 137, "stopped: memory"),
        ("yes", (), 141, "stopped: output"),
    ],
)
def test_a_run_that_hits_a_limit_is_stopped_and_told(
    program: Program, text: str, options: tuple[str, ...], code: int, told: str
) -> None:
    done = program.run(*RUN, *options, "--command", text, SANDBOX_SKILLS_RUN__OUTPUT_BYTES="1MiB")
    assert done.returncode == code
    assert told in done.stderr.splitlines()


def test_a_full_disk_is_told_beside_the_programs_own_code(program: Program) -> None:
    done = program.run(*RUN, "--command", FILL_DISK)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "limits hit: disk" in done.stderr
    result = result_of(program.run(*RUN, "--json", "--command", FILL_DISK))
    assert "disk" in result["limits_hit"]
    assert result["ending"] == {"kind": "exited", "code": 1}


def test_inputs_that_need_more_room_than_their_bytes_fail_the_sandbox(
    program: Program, tmp_path: Path
) -> None:
    (tmp_path / "many").mkdir()
    for number in range(400):
        (tmp_path / "many" / str(number)).write_text("a page each", encoding="utf-8")
    environ = {"SANDBOX_SKILLS_SANDBOX__WORKSPACE_BYTES": "1MiB"}
    done = program.run(*RUN, "--input", "many", "--json", "--", "true", **environ)
    assert done.returncode == 125
    assert json.loads(done.stdout)["error"]["code"] == "workspace_full"


def test_output_arrives_while_the_program_runs(program: Program) -> None:
    process = program.start(*RUN, "--command", "echo one; echo two >&2; sleep 60; echo three")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"one\n"
    assert process.stderr.readline() == b"two\n"
    assert process.poll() is None
    process.terminate()
    process.communicate(timeout=15)
    assert process.returncode == 143


def test_a_pipe_gets_every_byte(program: Program) -> None:
    script = "import sys, random; sys.stdout.buffer.write(random.Random(7).randbytes(10 << 20))"
    process = program.start(*RUN, "--", "python3", "-c", script)
    out, complaint = process.communicate(timeout=20)
    check = "import random, hashlib; print(hashlib.sha256(random.Random(7).randbytes(10 << 20)).hexdigest())"
    expected = program.run(*RUN, "--", "python3", "-c", check).stdout.strip()
    assert (process.returncode, complaint) == (0, b"")
    assert len(out) == 10 << 20
    assert hashlib.sha256(out).hexdigest() == expected


def test_a_result_in_json_has_the_output(program: Program) -> None:
    result = result_of(program.run(*RUN, "--json", "--command", "echo out; echo err >&2; printf '\\377'"))
    assert (result["stdout"], result["stderr"]) == ("out\n\\xff", "err\n")
    assert result["skill"] == "python-math"


def test_a_program_has_no_input(program: Program) -> None:
    process = program.start(*RUN, "--", "cat", stdin=subprocess.PIPE)
    out, _ = process.communicate(b"not yours", timeout=15)
    assert (process.returncode, out) == (0, b"")


ODD_NAMES = (" ", "-rf", "a b", "café", "line\nbreak", "\x1b[31mred", "'\"$(id)", ":smile: [bold]")


def test_files_with_odd_names_are_saved_and_told_on_one_line_each(program: Program) -> None:
    script = "import sys, pathlib; [pathlib.Path('out', n).write_text(n) for n in sys.argv[1:]]"
    options = ("--output", "out/**", "--out-dir", "results")
    done = program.run(*RUN, *options, "--", "python3", "-c", script, *ODD_NAMES)
    assert done.returncode == 0
    folder = program.cwd / "results" / "out"
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == dict(
        zip(ODD_NAMES, ODD_NAMES, strict=True)
    )
    assert len(done.stderr.splitlines()) == len(ODD_NAMES)
    assert "\x1b" not in done.stderr
    assert "[bold]" in done.stderr


def test_no_file_no_directory(program: Program) -> None:
    done = program.run(*RUN, "--output", "out/*", "--out-dir", "results", "--", "true")
    assert (done.returncode, done.stderr) == (0, "nothing matched 'out/*'\n")
    assert list(program.cwd.iterdir()) == []


def test_files_of_a_program_that_failed_are_saved_too(program: Program) -> None:
    done = program.run(*RUN, "--output", "out/*", "--command", "echo x > out/x; exit 9")
    assert done.returncode == 9
    assert (program.cwd / "out/x").read_text(encoding="utf-8") == "x\n"


def test_what_was_cut_or_left_is_told_with_its_setting(program: Program) -> None:
    text = "head -c 3000 /dev/zero > out/big; touch out/a out/b out/c; ln -s a out/link"
    limits = {"SANDBOX_SKILLS_COLLECT__FILE_BYTES": "1000", "SANDBOX_SKILLS_COLLECT__FILES": "3"}
    done = program.run(*RUN, "--out-dir", "results", "--command", text, **limits)
    assert done.returncode == 0
    assert done.stderr.splitlines()[2:] == [
        f"saved {program.cwd}/results/out/big, 1000 of 3000 bytes (collect.file_bytes)",
        "left 1 file, links are not followed: out/link",
        "left 1 file, over the 3 of collect.files: out/c",
        "limits hit: collected_bytes, collected_files",
    ]


def test_variables_come_from_files_then_options(program: Program, tmp_path: Path) -> None:
    (tmp_path / "a.env").write_text("A=file\nB='in file'\n", encoding="utf-8")
    options = ("--env-file", "a.env", "--env", "A=option", "--env", "MINE")
    done = program.run(*RUN, *options, "--command", 'echo "$A|$B|$MINE|$NOT_MINE"', MINE="1", NOT_MINE="2")
    assert done.stdout == "option|in file|1|\n"


def test_a_secret_stands_in_no_argument_list_and_not_in_the_container(
    program: Program, daemon: docker.APIClient
) -> None:
    secret = secrets.token_hex(16)
    process = program.start(
        *RUN, "--env", "TOKEN", "--command", "echo ready; sleep 60", environ={"TOKEN": secret}
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    boxes = daemon.containers(filters={"label": f"{LABEL_MANAGED}=1"})
    assert boxes
    assert secret not in json.dumps([daemon.inspect_container(box["Id"]) for box in boxes])
    assert secret.encode() not in b"".join(argument_lists())
    process.terminate()
    process.communicate(timeout=15)


def argument_lists() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes()
        except OSError:  # the process has ended
            continue


def test_a_directory_to_run_in_is_known_by_name_and_variable(program: Program) -> None:
    assert program.run(*RUN, "--cwd", "scripts", "--", "ls").stdout == "fib.py\nsum.py\n"
    assert program.run(*RUN, "--cwd", "$WORK_DIR", "--", "pwd").stdout == "/workspace/work\n"


def test_a_script_is_run_with_its_interpreter(program: Program) -> None:
    done = program.run(*RUN, "--script", "scripts/fib.py", "--", "3")
    assert (done.returncode, done.stdout) == (0, "0\n1\n1\n")


def test_an_image_that_nobody_has_is_told(program: Program) -> None:
    done = program.run(
        *RUN, "--json", "--", "true", SANDBOX_SKILLS_IMAGE__NAME="sandbox-skills-test:nobody-has-this"
    )
    assert done.returncode == 125
    assert json.loads(done.stdout)["error"]["code"] == "image_unfit"


def test_an_image_of_another_version_is_refused_with_the_reason(
    program: Program, daemon: docker.APIClient
) -> None:
    name = "sandbox-skills-test:old-protocol"
    recipe = f"FROM {image_tag('slim')}\nLABEL sandbox-skills.protocol=0\n".encode()
    for event in daemon.build(fileobj=io.BytesIO(recipe), tag=name, rm=True, decode=True):
        assert "error" not in event, event
    try:
        done = program.run(*RUN, "--", "true", SANDBOX_SKILLS_IMAGE__NAME=name)
        status = program.run("image", "status", SANDBOX_SKILLS_IMAGE__NAME=name)
        doctor = program.run("doctor", SANDBOX_SKILLS_IMAGE__NAME=name)
    finally:
        daemon.remove_image(name, force=True)
    assert done.returncode == 125
    assert "its runner speaks protocol 0" in done.stderr
    assert "hint: " in done.stderr
    assert status.returncode == 1
    assert status.stdout.startswith(f"{name}, your own (image.name): unfit, ")
    assert "its runner speaks protocol 0" in status.stderr
    assert f"your own image {name} (image.name) cannot serve: its runner speaks protocol 0" in doctor.stdout


def test_image_status_speaks_of_the_users_own_image_unless_asked_for_ours(program: Program) -> None:
    missing = {"SANDBOX_SKILLS_IMAGE__NAME": "sandbox-skills-test:nobody-has-this"}
    done = program.run("image", "status", **missing)
    assert done.returncode == 1
    assert done.stdout == "sandbox-skills-test:nobody-has-this, your own (image.name): missing\n"
    assert program.run("image", "status", "--target", "slim", **missing).returncode == 0
    ours = {"SANDBOX_SKILLS_IMAGE__NAME": image_tag("slim")}
    result = result_of(program.run("image", "status", "--json", **ours))
    assert (result["state"], result["reasons"]) == ("present", [])


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("SANDBOX__CPUS", "4096", "sandbox.cpus is more than the daemon's host has"),
        ("SANDBOX__MEMORY", "1MiB", "sandbox.memory is 1048576, and a sandbox needs 67108864 or more"),
        ("DOCKER__RUNTIME", "no-such-runtime", "the daemon has no runtime no-such-runtime"),
    ],
)
def test_a_setting_that_the_host_cannot_meet_is_named(
    program: Program, setting: str, value: str, told: str
) -> None:
    done = program.run(*RUN, "--json", "--", "true", **{f"SANDBOX_SKILLS_{setting}": value})
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert (error["code"], told in error["message"]) == ("settings_invalid", True), error


def test_image_status_tells_what_there_is(program: Program) -> None:
    done = program.run("image", "status")
    assert done.returncode == 0
    assert done.stdout.startswith(f"{image_tag('slim')}: present, ")
    result = result_of(program.run("image", "status", "--json"))
    assert (result["state"], result["tag"]) == ("present", image_tag("slim"))
    full = program.run("image", "status", "--target", "full", "--json")
    assert (full.returncode == 0) == (result_of(full)["state"] == "present")


def test_image_build_of_what_is_there_does_nothing(program: Program) -> None:
    result = result_of(program.run("image", "build", "--json"))
    assert result["cached"]
    assert program.run("image", "build").stdout == f"{image_tag('slim')} is there\n"


def test_doctor_says_the_same_in_text_and_json(program: Program) -> None:
    text = program.run("doctor")
    result = result_of(program.run("doctor", "--json"))
    assert text.returncode == 0
    assert result["state"] in {"ok", "warning", "lost"}
    lines = [line for line in text.stdout.splitlines() if not line.startswith(" ")]
    assert [line.split(":")[0].split(maxsplit=1) for line in lines] == [
        [check["state"], check["name"]] for check in result["checks"]
    ]


def test_gc_removes_what_is_ours_and_over(program: Program, daemon: docker.APIClient) -> None:
    def make(kind: str, labels: dict[str, str]) -> str:
        name = f"{kind}-{secrets.token_hex(8)}"
        daemon.create_container(image_tag("slim"), name=name, labels=labels)
        return name

    past, future = str(int(time.time()) - 60), str(int(time.time()) + 600)
    over = make("sandbox", {LABEL_MANAGED: "1", LABEL_EXPIRES: past})
    strangers = [
        make("sandbox", {LABEL_MANAGED: "1", LABEL_EXPIRES: future}),
        make("other", {}),
        make("other", {LABEL_EXPIRES: past}),
    ]
    try:
        result = result_of(program.run("gc", "--json"))
        assert over in result["sandboxes"]
        assert not set(strangers) & set(result["sandboxes"])
        for name in strangers:
            daemon.inspect_container(name)
    finally:
        for name in strangers:
            daemon.remove_container(name, force=True)
    assert program.run("gc").stdout.splitlines()[0] == "sandboxes: 0 removed"


def test_demo_as_json_has_what_was_allowed_and_what_was_blocked(program: Program) -> None:
    result = result_of(program.run("demo", "--json"))
    assert result["files"] == {"out/fib.txt": "0\n1\n1\n2\n3\n5\n8\n13\n21\n34\n"}
    assert [row["blocked"] for row in result["attempts"]] == [True, True]
    assert os.listdir(program.cwd) == []  # noqa: PTH208  # no Path is needed
