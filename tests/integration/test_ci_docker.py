"""Test cases over real sandboxes: programs that hang, flood, fork and are killed, each told as that; the samples."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from tests.integration.relay import relay

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from tests.conftest import Program

pytestmark = [pytest.mark.docker, pytest.mark.slow]

ROOT = Path(__file__).parents[2]

UNRULY = """
    cases:
      - name: hangs
        run: sleep 60
        limits: {wall_seconds: 1}
      - name: floods
        run: yes
        limits: {output_bytes: 100000}
      - name: forks
        run: 'for n in $(seq 400); do sleep 5 & done; exit 3'
        limits: {wall_seconds: 20}
      - name: is killed
        run: kill -9 $$
      - name: takes all memory
        run: python3 -c 'x = bytearray(2 << 30)' && head -c 2G /dev/zero | tail
      - name: spins
        run: 'while :; do :; done'
        limits: {cpu_seconds: 1, wall_seconds: 60}
      - name: writes where it must not
        run: echo 1 > home/x; echo 2 > $WORK_DIR/y; echo 3 > $OUTPUT_DIR/z
        cwd: $WORKSPACE_DIR
        expect: {behaviour: {writes: [out/**]}}
      - name: behaves
        run: echo well
        expect: {stdout: {equals: "well\\n"}, no_other_files: true}
      - name: hangs as expected
        run: sleep 60
        limits: {wall_seconds: 1}
        expect: {ending: wall_time}
    """
TOLD = {
    "hangs": "stopped: out of time after 1 s (limits.wall_seconds)",
    "floods": "stopped: too much output after 100,000 bytes (limits.output_bytes)",
    "forks": "limits reached: pids",
    "is killed": "was ended by signal 9",
    "takes all memory": "memory",
    "spins": "stopped: out of processor time after 1 s (limits.cpu_seconds)",
    "writes where it must not": "it wrote home/x, which none of the places allowed has: out/**",
}


def results(done: CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["name"]: row for row in rows if "name" in row}


def write(folder: Path, cases: str, **scripts: str) -> Path:
    skill = folder / "skill"
    (skill / "tests").mkdir(parents=True)
    (skill / "scripts").mkdir()
    (skill / "SKILL.md").write_text("---\nname: skill\ndescription: d\n---\nBody\n", encoding="utf-8")
    (skill / "tests/cases.yaml").write_text(textwrap.dedent(cases), encoding="utf-8")
    for name, text in scripts.items():
        (skill / "scripts" / name.replace("_", ".")).write_text(text, encoding="utf-8")
    return skill


@pytest.mark.timeout(240)
def test_whatever_a_case_does_is_told_as_that_and_the_rest_is_unharmed(
    program: Program, tmp_path: Path
) -> None:
    skill = write(tmp_path, UNRULY)
    done = program.run(
        "test", str(skill), "--json", "-k", "skill::", "-j", "2", "--artifacts", str(tmp_path / "kept")
    )
    assert done.returncode == 1, done.stderr
    cases = {name: row for name, row in results(done).items() if not name.startswith("smoke")}
    failed = {name for name, row in cases.items() if row["status"] == "failed"}
    assert failed == set(TOLD)
    for name, words in TOLD.items():
        told = " ".join(failure["message"] for failure in cases[name]["failures"])
        assert words in told, told
    assert {cases[name]["status"] for name in ("behaves", "hangs as expected")} == {"passed"}
    assert (tmp_path / "kept/skill-floods/stdout").stat().st_size > 0


@pytest.mark.timeout(120)
def test_the_usual_checks_find_what_is_wrong_in_scripts(program: Program, tmp_path: Path) -> None:
    scripts = {
        "good_py": "import argparse\nargparse.ArgumentParser().parse_args()\n",
        "bad_py": "import argparse\nx = = 1\n",
        "bad_sh": "case $1 in --help) echo\n",
        "good_ts": "const x: number = 1;\nconsole.log(x, '--help');\n",
        "bad_ts": "const x: number = ;\n",
        "bad_mjs": "export default (\n",
        "net_py": "import argparse, urllib.request\nurllib.request.urlopen('http://example.org')\n",
    }
    skill = write(tmp_path, "cases: []\n", **scripts)
    done = program.run("test", str(skill), "--json")
    rows = results(done)
    assert done.returncode == 1
    syntax = "\n".join(rows["smoke: scripts can be read"]["failures"][1]["diff"])
    for name in ("bad.py", "bad.sh", "bad.ts", "bad.mjs"):
        assert f"+./scripts/{name}: " in syntax
    assert "good" not in syntax
    helps = {name: row["status"] for name, row in rows.items() if name.endswith("--help")}
    assert helps == {
        "smoke: scripts/bad.py --help": "failed",
        "smoke: scripts/bad.sh --help": "failed",
        "smoke: scripts/good.py --help": "passed",
        "smoke: scripts/good.ts --help": "passed",
        "smoke: scripts/net.py --help": "failed",
    }
    network = rows["smoke: scripts/net.py --help"]["failures"][0]["message"]
    assert "hint: network_disabled" in network


@pytest.mark.timeout(120)
def test_a_case_is_given_files_inputs_stdin_variables_and_tools(program: Program, tmp_path: Path) -> None:
    cases = """
        cases:
          - name: files
            run: cat inputs/a.txt work/inputs/b/c.txt $WORK_DIR/d/tests/cases.yaml
            files:
              inputs/a.txt: "inline\\n"
              inputs/b/c.txt: {path: tests/c.txt}
            inputs: [{from: tests, to: work/d/}]
            expect: {stdout: {contains: ["inline", "from the skill", "name: files"]}, behaviour: {writes: []}}
          - name: stdin and env
            run: cat; echo $LEVEL
            stdin: "given\\n"
            env: {LEVEL: 1.10}
            expect: {stdout: {equals: "given\\n1.10\\n"}}
          - name: tool
            tool: add
            arguments: {a: 1, b: 2.5}
            expect: {json: {equals: {sum: 3.5}}}
          - name: flaky
            run: 'test $(($(od -An -N1 -tu1 /dev/urandom) % 2)) = 0'
        """
    handler = "def handler(args):\n    return {'sum': args['a'] + args['b']}\n"
    skill = write(tmp_path, cases, add_py=handler)
    (skill / "tests/c.txt").write_text("from the skill\n", encoding="utf-8")
    number = {"type": "number", "description": "One of two."}
    tool = {
        "name": "add",
        "description": "Adds.",
        "script": "scripts/add.py",
        "parameters": {"a": number, "b": number},
    }
    (skill / "tools.json").write_text(json.dumps([tool]), encoding="utf-8")
    done = program.run("test", str(skill), "--json", "--repeat", "20", "-k", "skill::flaky", "-k", "::tool")
    rows = results(done)
    assert (done.returncode, rows["flaky"]["status"], rows["tool"]["status"]) == (1, "flaky", "passed")
    done = program.run("test", str(skill), "--json", "-k", "::files", "-k", "::stdin")
    assert [row["failures"] for row in results(done).values()] == [[], []]
    (skill / "tests/cases.yaml").write_text(
        "cases:\n- {name: a, tool: add, arguments: {a: x}}\n", encoding="utf-8"
    )
    done = program.run("test", str(skill))
    assert done.returncode == 2
    assert "cases.yaml:2: a: add: " in done.stderr


@pytest.mark.timeout(120)
def test_attempts_at_the_network_are_seen_whatever_makes_them(program: Program, tmp_path: Path) -> None:
    cases = """
        cases:
          - name: quiet
            matrix: {kind: [none, attempted]}
            run: python3 scripts/inside.py
            expect: {stdout: {contains: heard}, behaviour: {network: "{{kind}}"}}
          - name: loud
            matrix:
              - run: python3 -c 'import socket; socket.create_connection(("192.0.2.1", 80))' || true
              - run: node -e 'fetch("http://a.example/").catch(() => {})'
              - run: ": > /dev/tcp/192.0.2.1/80 || true"
              - run: "(setsid bash -c ': > /dev/udp/192.0.2.1/80' &); sleep 1"
            run: "{{run}}"
            expect: {behaviour: {network: none}}
          - name: hangs and tries
            run: ": > /dev/tcp/192.0.2.1/80; sleep 60"
            limits: {wall_seconds: 3}
            expect: {ending: wall_time, behaviour: {network: attempted}}
        """
    inside = (
        "import socket\nwith socket.create_server(('127.0.0.1', 0)) as one:\n"
        "    socket.create_connection(one.getsockname()).close()\n    print('heard', one.accept()[1][0])\n"
    )
    skill = write(tmp_path, cases, inside_py=inside)
    done = program.run("test", str(skill), "--json", "-k", "skill::")
    told = {
        name: [one["message"] for one in row["failures"]]
        for name, row in results(done).items()
        if not name.startswith("smoke")
    }
    tried = "no attempt at the network expected, but it tried "
    assert told.pop("quiet [kind=none]") == []
    assert told.pop("quiet [kind=attempted]") == ["an attempt at the network expected, but there was none"]
    assert told.pop("hangs and tries") == []
    assert sorted(told.values()) == [[f"{tried}192.0.2.1:80"]] * 3 + [[f"{tried}a.example"]]


@pytest.mark.timeout(240)
def test_the_samples_meet_their_cases(program: Program) -> None:
    done = program.run("test", str(ROOT / "skills"), "--json")
    bad = [row for row in results(done).values() if row["status"] != "passed"]
    assert (done.returncode, bad) == (0, []), done.stderr


@pytest.mark.timeout(60)
def test_without_a_daemon_it_is_125_with_the_fix(program: Program, tmp_path: Path) -> None:
    skill = write(tmp_path, "cases:\n- {name: a, run: x}\n")
    done = program.run("test", str(skill), DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert done.returncode == 125
    assert "hint: " in done.stderr


@pytest.mark.timeout(90)
def test_a_daemon_that_dies_halfway_is_125_and_what_had_run_is_in_the_reports(
    program: Program, tmp_path: Path
) -> None:
    cases = "".join(f"  - {{name: case {n}, run: echo {n}}}\n" for n in range(40))
    skill = write(tmp_path, f"cases:\n{cases}")
    report = tmp_path / "results.xml"
    with relay(tmp_path / "docker.sock") as way:
        process = program.start(
            "test", str(skill), "-k", "::case", "--json", "--junit", str(report),
            environ={"DOCKER_HOST": f"unix://{way.place}"},
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        with process:
            first = process.stdout.readline()
            way.cut()
            # Not by communicate, which knows nothing of lines that came together with the first.
            rest, told = process.stdout.read(), process.stderr.read()
    rows = [json.loads(line) for line in (first + rest).splitlines()]
    statuses = Counter(row["status"] for row in rows if "name" in row)
    assert process.returncode == 125, told
    assert rows[-1]["error"]["hint"]
    assert sum(statuses.values()) == 40
    assert statuses["passed"] >= 1
    assert min(statuses["error"], statuses["skipped"]) >= 1
    suite = ET.parse(report).getroot()
    assert (suite.get("tests"), suite.get("errors")) == ("40", str(statuses["error"]))
    assert program.run("gc").returncode == 0  # a box that was made when the daemon went away
