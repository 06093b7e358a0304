"""Skills as pages show them, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox_skills.catalog import SkillRoot, SkillSpec
from sandbox_skills.daemon.service.skills import SkillEntry
from sandbox_skills.daemon.truth.skills import SkillVersion
from sandbox_skills.daemon.ui.views.outcomes import Badge, Tone
from sandbox_skills.daemon.ui.views.skills import diagnostics_badge, skill_page, skill_row
from tests.unit.daemon.ui.records import NOW

WARNING = {
    "severity": "warning",
    "message": "long",
    "fix": "cut it",
    "code": "c",
    "path": "/var/lib/secret-place/SKILL.md",
    "line": 3,
}


def entry(name: str = "csv-report", diagnostics: list[dict[str, Any]] | None = None) -> SkillEntry:
    spec = SkillSpec(
        "csv-report", name, "Reads.", "/x/SKILL.md", "/x", root=SkillRoot("/x", scope="uploaded")
    )
    version = SkillVersion(
        name, "Reads.", 2, "ab" * 32, 2048, 3, NOW - 60, latest=True, diagnostics=diagnostics or []
    )
    return SkillEntry(spec, version)


@pytest.mark.parametrize(
    ("severities", "expected"),
    [
        ([], Badge("fine", Tone.GOOD)),
        (["note"], Badge("1 note", Tone.QUIET)),
        (["note", "warning", "warning"], Badge("2 warnings", Tone.WARN)),
        (["warning", "error"], Badge("1 error", Tone.BAD)),
    ],
)
def test_the_worst_counts(severities: list[str], expected: Badge) -> None:
    assert diagnostics_badge([{"severity": one} for one in severities]) == expected


def test_a_skill_is_found_by_any_name_that_an_author_may_write() -> None:
    assert skill_row(entry("../a/b?c"), NOW).path == "/skill?name=..%2Fa%2Fb%3Fc"


def test_a_page_tells_what_is_wrong_and_not_where_the_server_keeps_it() -> None:
    entry_ = entry(diagnostics=[WARNING])
    assert entry_.version is not None
    view = skill_page(entry_, [entry_.version], NOW)
    assert (view.diagnostics[0].where, view.diagnostics[0].fix) == ("SKILL.md:3", "cut it")
    assert view.versions[0].version == "2, latest"
    assert ("Size", "2.0 KiB in 3 files") in view.facts
    assert "secret-place" not in repr(view)


def test_a_skill_of_the_server_has_no_versions() -> None:
    spec = SkillSpec("a", "a", "", "/x/SKILL.md", "/x")
    row = skill_row(SkillEntry(spec, None), NOW)
    assert (row.source, row.version, row.changed) == ("server", "\N{EN DASH}", None)
