"""What a client sent becomes one skill that was checked, or an error that says why not. Blocking."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.catalog.diagnostics import Diagnostic, Rule, diagnostic
from sandbox_skills.catalog.skill_file import FILENAME
from sandbox_skills.errors import SkillLoadError, SkillUnsafeError, SourceError
from sandbox_skills.install.received import assemble
from sandbox_skills.install.taking import locate, take
from sandbox_skills.install.unpack import unpack
from sandbox_skills.install.validate import Finding, Report, validate
from sandbox_skills.workspace.paths import name_fault, shown
from sandbox_skills.workspace.skill_copy import EXECUTABLE, READ_ONLY

if TYPE_CHECKING:
    from sandbox_skills.catalog.rules import Mode
    from sandbox_skills.install.limits import FetchLimits
    from sandbox_skills.install.received import ReceivedFile
    from sandbox_skills.install.taking import Taken


MAX_NAME = 128
"""Characters of a skill's name: twice what the specification allows, so that a list of names can be read."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A skill as it came: one archive, or the files of a folder."""

    archive: Path | None = None
    files: tuple[ReceivedFile, ...] = ()


def taken_from(upload: Upload, incoming: Path, limits: FetchLimits) -> Taken:
    """Returns the one skill that an upload holds, copied within the directory `incoming`. Nothing of it is run.

    Raises SourceError for an archive or a name that is refused and for anything but one skill, SkillLoadError for one
    that does not load, SkillUnsafeError for one that cannot be staged.
    """
    unpacked, target = incoming / "unpacked", incoming / "taken"
    unpacked.mkdir()
    target.mkdir()
    if upload.archive is not None:
        unpack(upload.archive, unpacked, limits)
    elif upload.files:
        assemble(upload.files, unpacked, limits.unpacked)
    else:
        raise SourceError(
            "nothing was sent", hint="send a zip as `file`, or each file of a folder as `files[]`"
        )
    found = locate(unpacked, choosing="send one of them")
    taken = take(found, target, limits.unpacked, modes=(READ_ONLY, EXECUTABLE), told_as=FILENAME)
    _check_name(taken.spec.name)
    return taken


def _check_name(name: str) -> None:
    """Refuses a name that no address can have as one of its parts: the skill would be kept, and never be found."""
    fault = name_fault(name)
    if len(name) > MAX_NAME:
        fault = f"is longer than {MAX_NAME} characters"
    if fault:
        raise SourceError(
            f"the name of the skill, {shown(name)}, {fault}",
            hint="a name has small letters, digits and hyphens",
        )


def report_on(taken: Taken, *, mode: Mode = "lenient") -> Report:
    """Returns what is wrong with a skill that was taken, its tools and files included, by paths in its folder."""
    report = validate([taken.folder], mode=mode)
    found = (replace(one, path=_inside(one.path, taken.folder)) for one in report.findings)
    return replace(report, findings=tuple(found))


def judged(upload: Upload, incoming: Path, limits: FetchLimits, *, mode: Mode) -> Report:
    """Returns what is wrong with the skill that an upload holds, also with one that cannot be kept.

    Raises SourceError where it does not come to one skill.
    """
    try:
        return report_on(taken_from(upload, incoming, limits), mode=mode)
    except SkillLoadError as error:
        found = [one for one in error.violations if isinstance(one, Diagnostic)]
    except SkillUnsafeError as error:
        found = [diagnostic(Rule.SKILL_UNSAFE, error.message, mode=mode)]
    return Report(1, tuple(Finding(FILENAME, one) for one in found))


def _inside(path: str, folder: Path) -> str:
    return str(Path(path).relative_to(folder)) if Path(path).is_relative_to(folder) else FILENAME
