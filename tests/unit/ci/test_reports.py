"""Reports: what they hold, that others read them, and that no text of a skill breaks them."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import junitparser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.ci.junit import junit_xml
from sandbox_skills.ci.kept import check_folder, keep
from sandbox_skills.ci.markdown import escaped, markdown
from sandbox_skills.ci.observed import Failure
from sandbox_skills.ci.results import TrialReport, TrialResult
from sandbox_skills.ci.trial import Skipped, Trial
from sandbox_skills.errors import OutputError
from tests.unit.ci.observing import seen

if TYPE_CHECKING:
    from sandbox_skills.ci.results import Status

JENKINS: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "testcase": (
        {"name"},
        {"classname", "time", "group"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "failure": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
    "skipped": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
    "system-err": (set(), set(), set()),
}
"""Of each element the attributes it must have, those it may have, and its children.

What Jenkins' xUnit plugin asks for in junit-10.xsd, but for what a rerun adds, which we write none of.
"""

JENKINS_TIME = re.compile(r"(\d{1,3}(,\d{3})*|\d*)(\.\d*)?")
"""What that schema takes for the time of a suite, no more than it: thousands may have commas."""


def result(skill: str, name: str, status: Status, *, reason: str = "", message: str = "why") -> TrialResult:
    trial = Trial(skill, Path("skills", skill), name, Skipped("x"), f"skills/{skill}/tests/a.yaml", 3)
    bad = status in {"failed", "flaky"}
    failures = (Failure("exit", message, ("-a", "+b")),) if bad else ()
    attempts: tuple[Status, ...] = ("passed", "failed") if status == "flaky" else (status,)
    what = seen(1, stdout="out\x1b[31m", stderr="err", files={"out/a.txt": b"x"}) if bad else None
    return TrialResult(trial, status, failures, reason, 0.25, what, attempts)


REPORT = TrialReport(
    (
        result("a", "one", "passed"),
        result("a", "two <&>", "failed"),
        result("b", "three", "flaky"),
        result("b", "four", "error", reason="the box went away (sandbox_lost)"),
        result("b", "five", "skipped", reason="needs a display"),
    ),
    seconds=1.5,
)


def check_jenkins(element: ET.Element) -> None:
    needed, allowed, children = JENKINS[element.tag]
    assert needed <= set(element.keys()) <= needed | allowed
    assert JENKINS_TIME.fullmatch(element.get("time", ""))
    assert not children or not (element.text or "").strip(), element.tag
    for child in element:
        assert child.tag in children, (element.tag, child.tag)
        check_jenkins(child)


class TestJunit:
    def test_it_is_what_jenkins_admits(self) -> None:
        check_jenkins(ET.fromstring(junit_xml(REPORT)))

    def test_another_reader_finds_every_result(self) -> None:
        read = junitparser.JUnitXml.fromstring(junit_xml(REPORT))
        assert (read.tests, read.failures, read.errors) == (5, 2, 1)
        suites = list(read)
        assert [(one.name, one.tests, one.failures, one.errors, one.skipped) for one in suites] == [
            ("a", 2, 1, 0, 0),
            ("b", 3, 1, 1, 1),
        ]
        cases = [case for suite in suites for case in suite]
        assert [(case.classname, case.name) for case in cases] == [
            ("a", "one"), ("a", "two <&>"), ("b", "three"), ("b", "four"), ("b", "five"),
        ]  # fmt: skip
        kinds = [[type(one).__name__ for one in case.result] for case in cases]
        assert kinds == [[], ["Failure"], ["Failure"], ["Error"], ["Skipped"]]
        assert cases[1].result[0].message == "why"
        assert cases[1].result[0].text == "at skills/a/tests/a.yaml:3\nexit: why\n  -a\n  +b"
        assert cases[2].result[0].message == "failed in 1 of 2 runs: why"
        assert (cases[1].system_out, cases[1].system_err) == ("out\N{REPLACEMENT CHARACTER}[31m", "err")

    @given(st.text())
    def test_no_text_of_a_skill_breaks_it(self, text: str) -> None:
        report = TrialReport((result(text, text or "a", "failed", message=text),))
        ET.fromstring(junit_xml(report))


class TestMarkdown:
    def test_it_has_a_table_and_what_did_not_pass(self) -> None:
        lines = markdown(REPORT).splitlines()
        assert "2 skills: 1 passed, 1 failed, 1 flaky, 1 error, 1 skipped, in 1.5 s" in lines
        assert "| a | 1 | 1 | 0 | 0 | 0 | 0.5 |" in lines
        assert "| b | 0 | 0 | 1 | 1 | 1 | 0.8 |" in lines
        assert "<details><summary>a::two &lt;&amp;&gt;: why</summary>" in lines
        assert "exit: why" in lines
        assert "the box went away (sandbox_lost)" in lines

    @given(st.text())
    def test_no_text_of_a_skill_becomes_markup(self, text: str) -> None:
        shown = escaped(text)
        assert "\n" not in shown
        assert not re.search(r"(?<!\\)[|`<>\[\]]", shown)
        page = markdown(TrialReport((result("a", "b", "failed", message=f"{text}\n````\n<img>"),)))
        assert page.count("\n````") == 2


class TestKept:
    def test_what_failed_cases_left_is_there_each_in_its_place(self, tmp_path: Path) -> None:
        results = [
            result("a", "two", "failed"),
            result("a", "two", "failed"),
            result("../b", "x/../y", "failed"),
        ]
        places = keep(tmp_path / "kept", results)
        assert [place.name for place in places] == ["a-two", "a-two_2", "..-b-x-..-y"]
        assert {path.relative_to(places[0]).as_posix() for path in places[0].rglob("*") if path.is_file()} == {
            "result.json", "stdout", "stderr", "files/out/a.txt",
        }  # fmt: skip
        assert json.loads((places[0] / "result.json").read_text())["failures"][0]["message"] == "why"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["kept"]

    def test_a_sandbox_that_failed_left_its_result_alone(self, tmp_path: Path) -> None:
        (place,) = keep(tmp_path, [result("a", "b", "error", reason="lost")])
        assert [path.name for path in place.iterdir()] == ["result.json"]

    def test_a_folder_that_cannot_be_is_refused_before_and_after(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("", encoding="utf-8")
        for work in (check_folder, lambda folder: keep(folder, [result("a", "b", "failed")])):
            with pytest.raises(OutputError):
                work(tmp_path / "file/kept")

    def test_no_link_below_it_is_followed(self, tmp_path: Path) -> None:
        (tmp_path / "kept").mkdir()
        (tmp_path / "kept/a-b").symlink_to(tmp_path)
        with pytest.raises(OutputError, match="cannot be kept there"):
            keep(tmp_path / "kept", [result("a", "b", "failed")])
        assert not (tmp_path / "stdout").exists()


def test_the_one_spelling_for_json_is_json() -> None:
    row = json.loads(json.dumps(REPORT.results[1].as_dict()))
    assert row["status"] == "failed"
    assert row["failures"] == [{"expectation": "exit", "message": "why", "diff": ["-a", "+b"]}]
    assert PurePosixPath(row["folder"]).name == "a"
