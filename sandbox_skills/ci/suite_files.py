"""The files of cases in a skill's `tests/`, read without leaving the skill. Blocking."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.catalog.resources import open_skill_file
from sandbox_skills.ci.suite import SmokeChoice
from sandbox_skills.ci.suite_text import read_suite
from sandbox_skills.ci.yaml_tree import MAX_CHARACTERS
from sandbox_skills.errors import RequestError, SuiteError, Violation

if TYPE_CHECKING:
    from sandbox_skills.catalog import SkillSpec
    from sandbox_skills.ci.suite_text import PlacedCase, ReadSuite

FOLDER = "tests"
ENDINGS = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class SkillSuite:
    """All that a skill's files say; `smoke` has the checks that any of them switches off."""

    cases: tuple[PlacedCase, ...] = ()
    smoke: SmokeChoice = field(default_factory=SmokeChoice)


def read_skill_suite(spec: SkillSpec) -> SkillSuite:
    """Returns the cases of a skill in the order of files and lines; raises SuiteError for the first bad file."""
    names = _names(Path(spec.dir, FOLDER))
    suites = [read_suite(_text(spec.dir, name), f"{spec.dir}/{FOLDER}/{name}") for name in names]
    cases = tuple(case for suite in suites for case in suite.cases)
    _check_names(cases)
    return SkillSuite(cases, _choice(suites))


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir() if entry.suffix in ENDINGS and entry.is_file())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise SuiteError(str(folder), [Violation("", f"cannot be listed: {error.strerror}")]) from error


def _text(directory: str, name: str) -> str:
    path = f"{FOLDER}/{name}"
    try:
        with os.fdopen(open_skill_file(directory, path), "rb") as file:
            # A character has four bytes at most; what is longer is refused as too long when it is read.
            return file.read(4 * MAX_CHARACTERS + 4).decode("utf-8-sig")
    except RequestError as error:
        raise SuiteError(f"{directory}/{path}", [Violation("", error.message)]) from error
    except UnicodeDecodeError as error:
        raise SuiteError(f"{directory}/{path}", [Violation("", "is not UTF-8")]) from error


def _check_names(cases: tuple[PlacedCase, ...]) -> None:
    """Refuses a name that two files of a skill have: reports and `-k` could not tell them apart."""
    seen: dict[str, PlacedCase] = {}
    for one in cases:
        if (first := seen.setdefault(one.case.name, one)) is not one:
            told = f"the name {one.case.name!r} is taken in {Path(first.file).name}, line {first.line}"
            raise SuiteError(one.file, [Violation("cases", told, one.line)])


def _choice(suites: list[ReadSuite]) -> SmokeChoice:
    chosen = SmokeChoice()
    for suite in suites:
        chosen.off.update(suite.smoke.off)
    return chosen
