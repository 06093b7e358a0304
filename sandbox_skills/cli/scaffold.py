"""`new`: a skill to start from."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from sandbox_skills.catalog.scaffold import Language, scaffold
from sandbox_skills.cli.skills import near
from sandbox_skills.cli.terminal import err, out, print_json
from sandbox_skills.errors import CommandError, InputError
from sandbox_skills.settings import current_directory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.cli.options import GlobalOptions


def new(options: GlobalOptions, name: str, *, language: str, tool: bool, parent: Path) -> int:
    """Makes the folder of a new skill below `parent`; what is there is never touched."""
    if language not in get_args(Language):
        raise CommandError(f"--lang {language} is none of {', '.join(get_args(Language))}")
    made = scaffold(name, language=cast("Language", language), tool=tool)
    folder = current_directory() / parent / name
    try:
        _write(folder, made.files)
    except OSError as error:
        raise InputError(f"{folder} cannot be made: {error.strerror}") from error
    if options.as_json:
        print_json({"name": name, "folder": str(folder), "files": sorted(made.files)})
        return 0
    for path in sorted(made.files):
        out.print(near(str(folder / path)))
    place, root = (shlex.quote(near(str(path))) for path in (folder, folder.parent))
    err.print(f"next: edit {place}/SKILL.md and its script, then")
    err.print(f"  sandbox-skills validate --strict {place}")
    err.print(f"  sandbox-skills test {place}")
    err.print(f"  sandbox-skills run --skills {root} {name} -- {made.call}")
    return 0


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Writes all files or none: the folder gets its name when it is whole."""
    if folder.exists() or folder.is_symlink():
        raise InputError(f"{folder} is there already")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        for path, text in files.items():
            file = temporary / path
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
            file.chmod(0o755 if path.startswith("scripts/") else 0o644)
        temporary.chmod(0o755)
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
