"""What is told of a run: files that were cut, left or never there, in as few lines as there are reasons."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sandbox_skills.cli.report import SHOWN_NAMES, likely_pattern, report, unmatched_patterns
from sandbox_skills.spec import CollectLimits, Exited, Outcome, Signalled, Stopped
from sandbox_skills.workspace.hints import hints
from sandbox_skills.workspace.manager import RunResult
from sandbox_skills.workspace.outputs import CollectedFile

LIMITS = CollectLimits(files=10, file_bytes=100, total_bytes=500)
NOTHING = RunResult("1", "sample", "0" * 64, Outcome(Exited(0)))


def told(result: RunResult, *unmatched: str) -> list[str]:
    return list(report(result, LIMITS, unmatched))


def saved(path: str, size: int, *, truncated: bool = False) -> RunResult:
    file = CollectedFile(path, size, truncated, saved=Path("/host") / path)
    return replace(NOTHING, files=(file,))


def test_a_file_is_told_with_its_size() -> None:
    assert told(saved("out/a", 7)) == ["saved /host/out/a (7 bytes)"]
    assert told(saved("out/a", 1)) == ["saved /host/out/a (1 byte)"]


def test_a_file_that_was_cut_is_told_with_the_setting_that_cut_it() -> None:
    assert told(saved("out/a", 900, truncated=True)) == [
        "saved /host/out/a, 100 of 900 bytes (collect.file_bytes)"
    ]
    assert told(saved("out/a", 90, truncated=True)) == [
        "saved /host/out/a, not all of its 90 bytes: it shrank meanwhile"
    ]


def test_files_that_were_left_are_one_line_for_each_reason() -> None:
    many = {f"out/{number:02}": "collected_files" for number in range(40)}
    lines = told(replace(NOTHING, skipped={**many, "out/old": "exists", "out/x": "odd"}))
    assert lines == [
        "left 40 files, over the 10 of collect.files: out/00, out/01, out/02, out/03, out/04, …",
        "left 1 file, there already with other content; --force overwrites: out/old",
        "left 1 file, odd: out/x",
    ]
    assert lines[0].count("out/") == SHOWN_NAMES


def test_as_many_as_the_box_names_may_be_more() -> None:
    (line,) = told(replace(NOTHING, skipped={f"out/{number}": "link" for number in range(100)}))
    assert line.startswith("left at least 100 files, links are not followed: ")


def test_likely_reasons_of_a_failure_are_told_with_what_to_do_about_them() -> None:
    printed = b"ModuleNotFoundError: No module named 'requests'\nEOFError: EOF when reading a line\n"
    failed = Outcome(Exited(1), stderr=printed)
    module, asked = told(replace(NOTHING, outcome=failed, hints=hints(failed)))
    assert module.startswith("hint: module_missing: requests — This module or package is not in the sandbox")
    assert asked.startswith("hint: input_requested — The program asked for input")


def test_how_a_run_ended_is_told_last() -> None:
    ended = replace(NOTHING, outcome=Outcome(Stopped("wall_time")), limits_hit=frozenset({"disk", "stdout"}))
    assert told(ended, "out") == [
        "nothing matched 'out'; did you mean 'out/**'?",
        "limits hit: disk",
        "stopped: wall time",
    ]
    assert told(replace(NOTHING, outcome=Outcome(Signalled(11)))) == ["ended by signal 11"]


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("out", "out/**"),
        ("out/", "out/**"),
        ("out/reports", "out/reports/**"),
        ("/workspace/out", "/workspace/out/**"),
        ("$OUTPUT_DIR", "$OUTPUT_DIR/**"),
        ("work", "work/**"),
        ("reports", "out/reports/**"),
        ("*.txt", "out/*.txt"),
        ("fib.txt", "out/fib.txt"),
        ("out/*.txt", None),
        ("out/**", None),
        ("**", None),
    ],
)
def test_a_pattern_that_matched_nothing_gets_a_better_one_if_there_is_one(
    pattern: str, meant: str | None
) -> None:
    assert likely_pattern(pattern) == meant
    (line,) = told(NOTHING, pattern)
    assert line == f"nothing matched {pattern!r}" + (f"; did you mean {meant!r}?" if meant else "")


def test_patterns_that_matched_nothing_are_known_whatever_their_form() -> None:
    result = replace(saved("out/a.txt", 1), skipped={"work/link": "link"})
    matched = ("out/*", "$OUTPUT_DIR/*.txt", "/workspace/out/**", "{out,nowhere}/*", "work/*")
    assert unmatched_patterns(matched, result) == ()
    assert unmatched_patterns((*matched, "out", "$RUN_DIR/*", "out/*.md"), result) == (
        "out",
        "$RUN_DIR/*",
        "out/*.md",
    )


def test_where_not_every_file_was_looked_at_nothing_is_said_of_patterns() -> None:
    for outcome, hit in (
        (Outcome(Stopped("memory"), sandbox_lives=False), frozenset[str]()),
        (Outcome(Exited(0)), frozenset({"collected_files"})),
    ):
        assert unmatched_patterns(["out"], replace(NOTHING, outcome=outcome, limits_hit=hit)) == ()  # type: ignore[arg-type]
