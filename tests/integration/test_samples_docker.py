"""Each sample skill, run in a box as its SKILL.md says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from sandbox_skills.bundled import bundled
from sandbox_skills.spec import Exited
from sandbox_skills.workspace.inputs import Input
from sandbox_skills.workspace.manager import Argv, RunRequest, Script, Shell, WorkspaceManager

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.engines.base import Engine
    from sandbox_skills.workspace.manager import RunResult
    from sandbox_skills.workspace.staging import SkillStore

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

NOTES = "One fish, two fish.\nRed fish, blue fish.\n"

REPORT = """\
# Report on notes.txt

- Lines: 2
- Words: 8
- Different words: 5
- Characters: 41

## Most frequent words

| Word | Count |
|---|---:|
| fish | 4 |
| blue | 1 |
| one | 1 |
| red | 1 |
| two | 1 |
"""

SVG = "{http://www.w3.org/2000/svg}"


class Samples:
    """Runs a sample by its name, in a box of its own."""

    def __init__(self, manager: WorkspaceManager) -> None:
        self._manager = manager

    async def run(self, skill: str, request: RunRequest) -> RunResult:
        return await self._manager.run(bundled("skills") / skill, request, tenant="samples")


@pytest.fixture
def samples(docker_engine: Engine, store: SkillStore) -> Samples:
    return Samples(WorkspaceManager(docker_engine, store))


def told(result: RunResult) -> tuple[object, str, str]:
    outcome = result.outcome
    return outcome.ending, outcome.stdout.decode(), outcome.stderr.decode()


async def test_python_math_prints_fibonacci_numbers(samples: Samples) -> None:
    result = await samples.run("python-math", RunRequest(Argv(("python3", "scripts/fib.py", "10"))))
    assert told(result) == (Exited(0), "0\n1\n1\n2\n3\n5\n8\n13\n21\n34\n", "")


async def test_python_math_keeps_what_is_written_to_out(samples: Samples, tmp_path: Path) -> None:
    command = Shell("python3 scripts/fib.py 10 > out/fib.txt")
    result = await samples.run("python-math", RunRequest(command, outputs=("out/**",), out_dir=tmp_path))
    assert told(result) == (Exited(0), "", "")
    assert (tmp_path / "out/fib.txt").read_text() == "0\n1\n1\n2\n3\n5\n8\n13\n21\n34\n"


async def test_python_math_adds_exactly(samples: Samples) -> None:
    result = await samples.run("python-math", RunRequest(Script("scripts/sum.py", ("0.1", "0.2"))))
    assert told(result) == (Exited(0), "0.3\n", "")


async def test_text_report_counts_the_words_of_an_input(samples: Samples, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(NOTES)
    request = RunRequest(
        Argv(("node", "scripts/report.mjs", "inputs/notes.txt")),
        inputs=(Input(tmp_path / "notes.txt"),),
        outputs=("out/report.md",),
    )
    result = await samples.run("text-report", request)
    assert told(result) == (Exited(0), "/workspace/out/report.md\n", "")
    assert [file.data for file in result.files] == [REPORT.encode()]


async def test_csv_chart_draws_and_sums_up_its_inputs(samples: Samples, tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("month,sales,returns,note\nJan,120,4,x\nFeb,135,2,y\n")
    (tmp_path / "costs.csv").write_text("month,costs\nJan,50\nFeb,70.5\n")
    request = RunRequest(
        Argv(("python3", "scripts/chart.py")),
        inputs=(Input(tmp_path / "sales.csv"), Input(tmp_path / "costs.csv")),
        outputs=("out/*",),
        out_dir=tmp_path,
    )
    result = await samples.run("csv-chart", request)
    expected = "3 columns of 2 files: /workspace/out/chart.svg, /workspace/out/summary.json\n"
    assert told(result) == (Exited(0), expected, "")
    assert json.loads((tmp_path / "out/summary.json").read_text()) == {
        "columns": [
            row("costs.csv", "costs", low=50, high=70.5, total=120.5),
            row("sales.csv", "sales", low=120, high=135, total=255),
            row("sales.csv", "returns", low=2, high=4, total=6),
        ],
        "skipped": ["sales.csv: note"],
    }
    chart = ET.parse(tmp_path / "out/chart.svg").getroot()
    assert chart.tag == f"{SVG}svg"
    assert len(list(chart.iter(f"{SVG}polyline"))) == 3


def row(file: str, column: str, *, low: float, high: float, total: float) -> dict[str, object]:
    return {
        "file": file,
        "column": column,
        "count": 2,
        "min": low,
        "max": high,
        "mean": total / 2,
        "sum": total,
    }


@pytest.mark.parametrize(
    ("language", "greeting"), [("fr", "Bonjour, Ada!"), ("en", "Hello, Ada!"), ("de", "Hallo, Ada!")]
)
async def test_hello_ts_greets(samples: Samples, language: str, greeting: str) -> None:
    request = RunRequest(Argv(("node", "scripts/hello.ts", "Ada", "--language", language)))
    assert told(await samples.run("hello-ts", request)) == (Exited(0), f"{greeting}\n", "")


async def test_weather_reads_what_it_ships(samples: Samples) -> None:
    result = await samples.run("weather", RunRequest(Script("scripts/weather.py", ("Cairo", "--month", "7"))))
    assert told(result) == (Exited(0), "Cairo, Jul: 22 °C to 35 °C, 0 mm of rain\n", "")


async def test_team_chat_keeps_what_was_sent(samples: Samples) -> None:
    chat = "node team-chat.mjs"
    command = (
        f"{chat} channels list && {chat} send 'Hello  World' --channel=1002 && {chat} read --channel=1002"
    )
    expected = "1001\t#general\n1002\t#dev\n1003\t#random\nsent to #dev\n1\tHello World\n"
    assert told(await samples.run("team-chat", RunRequest(Shell(command)))) == (Exited(0), expected, "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "see --help"),
        (("send", "x"), "--channel=ID is missing"),
        (("send", "x", "--channel=7"), 'no channel "7"; there are 1001 (#general), 1002 (#dev)'),
        (("send", " ", "--channel=1001"), "the message is empty"),
        (("send", "x" * 2001, "--channel=1001"), "more than 2000 characters"),
        (("read", "--channel=1001", "--limit=0"), "--limit must be 1 to 1000"),
        (("channels", "--fly"), "Unknown option '--fly'"),
    ],
    ids=["nothing", "no channel", "unknown channel", "blank", "long", "limit", "option"],
)
async def test_team_chat_says_what_it_cannot_use(
    samples: Samples, arguments: tuple[str, ...], words: str
) -> None:
    result = await samples.run("team-chat", RunRequest(Script("team-chat.mjs", arguments)))
    assert (result.outcome.ending, result.outcome.stdout) == (Exited(2), b"")
    assert words in result.outcome.stderr.decode()


async def test_escape_artist_escapes_nothing(samples: Samples) -> None:
    result = await samples.run("escape-artist", RunRequest(Argv(("python3", "scripts/escape.py"))))
    report = json.loads(result.outcome.stdout)
    assert (report["escaped"], result.outcome.ending) == ([], Exited(0))
    assert len(report["attempts"]) > 10
    for attempt in report["attempts"]:
        assert attempt["blocked"] is True, attempt
        assert attempt["enforced_by"], attempt
