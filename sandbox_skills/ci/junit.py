"""Results as JUnit XML: one test suite for each skill, as Jenkins and its like read it. Pure."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET  # written, never read

from sandbox_skills.ci.messages import failure_lines, headline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sandbox_skills.ci.results import TrialReport, TrialResult

MAX_OUTPUT = 16 * 1024
"""Characters of a stream in the report, its end: readers of such files hold all of them in memory."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot have, in no spelling: its production 2."""


def junit_xml(report: TrialReport) -> bytes:
    """Returns the report as XML in UTF-8. Cases that passed carry no output."""
    root = ET.Element("testsuites", {"name": "sandbox-skills", **_counts(report.results, report.seconds)})
    for folder, group in groupby(report.results, key=lambda one: one.trial.folder):
        results = list(group)
        about = {"name": _fit(results[0].trial.skill), "package": _fit(str(folder)), **_counts(results)}
        suite = ET.SubElement(root, "testsuite", about)
        suite.set("skipped", str(sum(one.status == "skipped" for one in results)))
        for one in results:
            _add_case(suite, one)
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _counts(results: Iterable[TrialResult], seconds: float | None = None) -> dict[str, str]:
    every = list(results)
    took = sum(one.seconds for one in every) if seconds is None else seconds
    return {
        "tests": str(len(every)),
        "failures": str(sum(one.status in {"failed", "flaky"} for one in every)),
        "errors": str(sum(one.status == "error" for one in every)),
        "time": f"{took:.3f}",
    }


def _add_case(suite: ET.Element, result: TrialResult) -> None:
    trial = result.trial
    case = ET.SubElement(
        suite, "testcase", classname=_fit(trial.skill), name=_fit(trial.name), time=f"{result.seconds:.3f}"
    )
    if result.status == "skipped":
        ET.SubElement(case, "skipped", message=_fit(result.reason))
    elif result.status == "error":
        ET.SubElement(case, "error", type="sandbox", message=_fit(result.reason))
    elif result.status != "passed":
        kind = "flaky" if result.status == "flaky" else result.failures[0].expectation
        told = ET.SubElement(case, "failure", type=_fit(kind), message=_fit(headline(result)))
        told.text = _fit("\n".join(failure_lines(result)))
        _add_output(case, result)


def _add_output(case: ET.Element, result: TrialResult) -> None:
    if result.seen is None:
        return
    outcome = result.seen.outcome
    for name, data in (("system-out", outcome.stdout), ("system-err", outcome.stderr)):
        if data:
            ET.SubElement(case, name).text = _fit(data.decode(errors="backslashreplace")[-MAX_OUTPUT:])


def _fit(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
