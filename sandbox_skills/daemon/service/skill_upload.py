"""What a client sent becomes one skill that was checked, or an error that says why not. Blocking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.catalog.skill_file import FILENAME
from sandbox_skills.errors import SourceError
from sandbox_skills.install.received import assemble
from sandbox_skills.install.taking import locate, take
from sandbox_skills.install.unpack import unpack
from sandbox_skills.workspace.skill_copy import EXECUTABLE, READ_ONLY

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.install.limits import FetchLimits
    from sandbox_skills.install.received import ReceivedFile
    from sandbox_skills.install.taking import Taken


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
    return take(found, target, limits.unpacked, modes=(READ_ONLY, EXECUTABLE), told_as=FILENAME)
