"""The sample skill csv-chart, run as it is on the host."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.dom import minidom

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.skills.conftest import Script


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    folder = tmp_path / "inputs"
    folder.mkdir()
    return folder


def test_every_numeric_column_is_drawn_and_summarised(script: Script, inputs: Path, tmp_path: Path) -> None:
    (inputs / "a.csv").write_text("month,sales,note,returns\nJan,120,x,4\nFeb,135,y,-20\n")
    (inputs / "b.csv").write_text("\ufeffday,<v>\nMon,1\n\nTue,2\nWed,6\n", encoding="utf-8")
    done = script("csv-chart", "chart.py", "--title", "A & B", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert [(c["file"], c["column"], c["min"], c["max"]) for c in summary["columns"]] == [
        ("a.csv", "sales", 120, 135),
        ("a.csv", "returns", -20, 4),
        ("b.csv", "<v>", 1, 6),
    ]
    assert summary["columns"][2] | {"count": 3, "mean": 3, "sum": 9} == summary["columns"][2]
    assert summary["skipped"] == ["a.csv: note"]
    chart = minidom.parse(str(tmp_path / "out" / "chart.svg"))
    assert len(chart.getElementsByTagName("polyline")) == 3
    assert "A &amp; B" in chart.toxml()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a,b\n1\n", "t.csv:2: 1 cells"),
        ("a,b,b\n1,2,3\n", "t.csv:1: two columns"),
        ("a,b\n1,nan\n", "no numeric column"),
        ("a,b\n1,inf\n", "no numeric column"),
        ("a,b\n", "no numeric column"),
        ("", "no numeric column"),
    ],
)
def test_bad_table_is_said_with_exit_2_and_leaves_nothing(
    script: Script, inputs: Path, tmp_path: Path, content: str, words: str
) -> None:
    (inputs / "t.csv").write_text(content)
    done = script("csv-chart", "chart.py", cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "out").exists()


def test_file_that_is_no_text_is_named(script: Script, inputs: Path, tmp_path: Path) -> None:
    (inputs / "t.csv").write_bytes(b"\xff\xfe\x00")
    done = script("csv-chart", "chart.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "t.csv" in done.stderr


def test_no_table_is_said_with_exit_2(script: Script, tmp_path: Path) -> None:
    done = script("csv-chart", "chart.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "inputs/*.csv" in done.stderr
