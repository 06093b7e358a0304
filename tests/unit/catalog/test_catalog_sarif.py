"""SARIF 2.1.0: the properties that the format demands, whatever the finding."""

from __future__ import annotations

import json
import os
from urllib.parse import unquote_to_bytes, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sandbox_skills.catalog import Rule, Severity
from sandbox_skills.catalog.diagnostics import diagnostic
from sandbox_skills.catalog.sarif import sarif_log

FINDINGS = st.builds(
    lambda rule, detail, line, column: diagnostic(rule, detail, line=line, column=column if line else None),
    st.sampled_from(Rule),
    st.text(max_size=20),
    st.none() | st.integers(1, 10**6),
    st.none() | st.integers(1, 10**6),
)
NAMES = st.binary(min_size=1, max_size=20).filter(lambda name: not set(name) & set(b"/\0")).map(os.fsdecode)
"""Whatever a file may be called."""


@given(NAMES.filter(lambda name: name not in {".", ".."}), FINDINGS)
@example("..a", diagnostic(Rule.FILE_EMPTY))
@example("a:b", diagnostic(Rule.FILE_EMPTY))
@example("caf\udce9", diagnostic(Rule.FILE_EMPTY))
def test_every_result_has_what_the_format_demands(name: str, finding: object) -> None:
    log = json.loads(json.dumps(sarif_log([(f"/base/{name}", finding)], version="1.2.3", base="/base")))  # type: ignore[list-item]
    assert set(log) == {"$schema", "version", "runs"}
    (run,) = log["runs"]
    (result,) = run["results"]
    rule = run["tool"]["driver"]["rules"][result["ruleIndex"]]
    assert rule["id"] == result["ruleId"]
    assert result["level"] in {"error", "warning", "note", "none"}
    assert result["message"]["text"]
    place = result["locations"][0]["physicalLocation"]
    uri = urlsplit(place["artifactLocation"]["uri"])
    assert (uri.scheme, uri.netloc, unquote_to_bytes(uri.path)) == ("", "", os.fsencode(name))
    assert all(value >= 1 for value in place.get("region", {}).values())


def test_each_rule_is_described_once() -> None:
    log = sarif_log([], version="1", base="/")
    rules = log["runs"][0]["tool"]["driver"]["rules"]  # type: ignore[index]
    assert [rule["id"] for rule in rules] == [rule.code for rule in Rule]
    assert {rule["defaultConfiguration"]["level"] for rule in rules} <= {level.value for level in Severity}
    assert all(rule["shortDescription"]["text"] and rule["help"]["text"] for rule in rules)


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("/other/a b", "file:///other/a%20b"),
        ("/other/caf\udce9", "file:///other/caf%E9"),
        ("/base", "."),
        ("/", "file:///"),
        ("/base/..a/b", "..a/b"),
    ],
)
def test_a_path_elsewhere_is_an_absolute_address(path: str, uri: str) -> None:
    log = sarif_log([(path, diagnostic(Rule.FILE_EMPTY))], version="1", base="/base")
    place = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]  # type: ignore[index]
    assert place["artifactLocation"]["uri"] == uri


def test_a_finding_keeps_its_fingerprint_when_its_line_moves() -> None:
    def fingerprint(line: int) -> object:
        log = sarif_log([("/base/a", diagnostic(Rule.NAME_LENGTH, line=line))], version="1", base="/base")
        return log["runs"][0]["results"][0]["partialFingerprints"]  # type: ignore[index]

    assert fingerprint(2) == fingerprint(3)
