"""Text for a program that starts an editor: a script that stands in for one. Pure."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from sandbox_skills.errors import CommandError
from sandbox_skills.workspace.layout import WORK_DIR

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import PurePosixPath

VARIABLES = ("EDITOR", "VISUAL")
"""What programs look at for the editor to start."""

_DIRECTORY = WORK_DIR / ".editor"
TEXT_PATH = _DIRECTORY / "text"
SCRIPT_PATH = _DIRECTORY / "write"

_SCRIPT = f"""\
#!/bin/sh
# Writes the text that was given with this run into the file that an editor was to edit.
for file; do :; done
[ -n "$file" ] || {{ echo 'no file was named to edit' >&2; exit 2; }}
exec cat -- "${{0%/*}}/{TEXT_PATH.name}" > "$file"
"""

ENVIRONMENT: Mapping[str, str] = MappingProxyType(dict.fromkeys(VARIABLES, str(SCRIPT_PATH)))


def editor_files(text: str) -> tuple[tuple[PurePosixPath, bytes, int], ...]:
    """Returns path, content and mode of the files that make an editor which writes `text`."""
    return (TEXT_PATH, text.encode(), 0o644), (SCRIPT_PATH, _SCRIPT.encode(), 0o755)


def check_editor(text: str, env: Mapping[str, str]) -> None:
    """Raises CommandError where the caller names an editor of its own beside the text, or the text is not UTF-8."""
    if not text:
        return
    for name in VARIABLES:
        if name in env:
            raise CommandError(
                f"editor_text sets {name}, which env sets as well", hint=f"leave {name} out of env"
            )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CommandError("editor_text is not UTF-8") from error
