"""Where things lie in a box, and the environment that tells a run so. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from sandbox_skills.errors import CommandError, PathEscapeError
from sandbox_skills.spec import KIB, MIB, WORKSPACE
from sandbox_skills.workspace.paths import box_path, name_fault, safe_file_name, shown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import PurePosixPath

SKILLS_DIR = WORKSPACE / "skills"
"""Links to staged skills by name, for convenience; the host never reads them back."""

WORK_DIR = WORKSPACE / "work"
INPUTS_DIR = WORK_DIR / "inputs"
VENV_DIR = WORK_DIR / ".venv"
RUNS_DIR = WORKSPACE / "runs"
OUTPUT_DIR = WORKSPACE / "out"
HOME_DIR = WORKSPACE / "home"

DIRECTORIES = (SKILLS_DIR, WORK_DIR, INPUTS_DIR, VENV_DIR, RUNS_DIR, OUTPUT_DIR, HOME_DIR)
"""What every run finds in its workspace. `python3 -m venv $WORK_DIR/.venv` fills the empty one, not through a link."""

SKILL_LINKS: Mapping[str, PurePosixPath] = MappingProxyType(
    {
        "out": OUTPUT_DIR,
        "work": WORK_DIR,
        "inputs": INPUTS_DIR,
        ".venv": VENV_DIR,
    }
)
"""Links in the root of a staged skill, which is read-only, to the workspace, which is not."""

WORKSPACE_VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        "WORKSPACE_DIR": str(WORKSPACE),
        "SKILLS_DIR": str(SKILLS_DIR),
        "WORK_DIR": str(WORK_DIR),
        "OUTPUT_DIR": str(OUTPUT_DIR),
    }
)
"""The variables with a value that is the same for every run; RUN_DIR is a run's own."""

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Programs of the image. No sbin: nothing there works without privileges."""

MAX_VARIABLE_BYTES = 128 * KIB - 1
"""Linux's MAX_ARG_STRLEN, which bounds one `NAME=value` and counts the closing NUL."""

MAX_ENVIRONMENT_BYTES = MIB
"""Linux takes about 2 MiB of arguments and environment together: each may have half."""

_VARIABLE = re.compile(r"^\$(?:(\w+)|\{(\w+)\})(?=/|$)", re.ASCII)


@lru_cache(maxsize=256)
def run_directory(run_id: str) -> str:
    """Returns the directory of a run's own; raises PathEscapeError where `run_id` is not one name."""
    if fault := name_fault(run_id):
        raise PathEscapeError(f"run id {shown(run_id)} {fault}")
    return f"{_RUNS}/{run_id}"


_RUNS = str(RUNS_DIR)


@lru_cache(maxsize=256)
def skill_link(name: str) -> PurePosixPath:
    """Returns where the workspace links to the skill of that name, whatever the name is."""
    return SKILLS_DIR / safe_file_name(name, default="skill")


def run_environment(
    staged: PurePosixPath | None, *, skill_name: str, run_id: str, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Returns the whole environment of a run; `extra` wins over what is set here.

    `staged` is the box path of the staged skill, None for a run without one. Raises PathEscapeError for a
    run id and CommandError for a variable that cannot be.
    """
    environment = {**_usual_environment(staged, skill_name), "RUN_DIR": run_directory(run_id)}
    if extra:
        environment |= extra
        check_environment(environment)
    return environment


# Each run of a skill has the same, which was a tenth of the host's own time for a warm one.
@lru_cache(maxsize=256)
def _usual_environment(staged: PurePosixPath | None, skill_name: str) -> Mapping[str, str]:
    environment = {
        **WORKSPACE_VARIABLES,
        "HOME": str(HOME_DIR),
        "TMPDIR": "/tmp",  # noqa: S108 - the box's own tmpfs
        "PATH": SYSTEM_PATH,
        "LANG": "C.UTF-8",
        "SHELL": "/bin/bash",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        # What a program printed before a limit ended it must not be lost in its buffer.
        "PYTHONUNBUFFERED": "1",
    }
    if staged is not None:
        environment |= _skill_environment(staged, skill_name)
    check_environment(environment)
    return MappingProxyType(environment)


def _skill_environment(staged: PurePosixPath, skill_name: str) -> dict[str, str]:
    return {
        "SKILL_NAME": skill_name,
        # A skill's environment beats the image's programs; its `bin` only adds to them.
        "PATH": f"{staged}/.venv/bin:{SYSTEM_PATH}:{staged}/bin",
        "VIRTUAL_ENV": f"{staged}/.venv",
        # `from scripts.x import y` is how skills name their own modules.
        "PYTHONPATH": str(staged),
    }


def check_environment(environment: Mapping[str, str]) -> None:
    """Raises CommandError where a program cannot be given `environment`; never shows a value."""
    total = 0
    for name, value in environment.items():
        if fault := _variable_fault(name, value):
            raise CommandError(f"environment variable {shown(name)} {fault}")
        total += len(name.encode()) + len(value.encode()) + 2
    if total > MAX_ENVIRONMENT_BYTES:
        raise CommandError(f"the environment has {total} bytes, more than {MAX_ENVIRONMENT_BYTES}")


def _variable_fault(name: str, value: str) -> str:
    if not name or "=" in name or "\0" in name:
        return "has a name that is empty or contains '=' or NUL"
    if "\0" in value:
        return "has a value with a NUL"
    try:
        size = len(name.encode()) + len(value.encode()) + 1
    except UnicodeEncodeError:
        return "is not UTF-8"
    return f"is longer than {MAX_VARIABLE_BYTES} bytes" if size > MAX_VARIABLE_BYTES else ""


def expand_variable(text: str, variables: Mapping[str, str]) -> str:
    """Returns `text` with a leading `$NAME` or `${NAME}` replaced where it is a known variable.

    The name must end at a slash or the end: `$OUTPUT_DIRX` is not `$OUTPUT_DIR`. Unknown names stay.
    """
    match = _VARIABLE.match(text)
    if match is None:
        return text
    value = variables.get(match[1] or match[2])
    return text if value is None else value + text[match.end() :]


def working_directory(
    text: str, *, skill: PurePosixPath | None = None, variables: Mapping[str, str] = WORKSPACE_VARIABLES
) -> PurePosixPath:
    """Returns the box path that a run's `cwd` names; blank is the skill's root, else the workspace.

    Relative is read from there. `$WORK_DIR/x` and the like are known from `variables`. `/` is the workspace,
    and `/work`, `/out`, `/runs`, `/skills` are taken as lying in it. Raises PathEscapeError for all else outside.
    """
    base = skill or WORKSPACE
    if not text.strip():
        return base
    path = expand_variable(text.strip(), variables)
    if path.startswith("/") and not _is_below(path, base):
        path = _from_workspace_root(path)
    return box_path(path, base=base)


def _from_workspace_root(path: str) -> str:
    first = path.lstrip("/").split("/", 1)[0]
    tops = {directory.name for directory in (WORK_DIR, OUTPUT_DIR, RUNS_DIR, SKILLS_DIR)}
    return f"{WORKSPACE}/{path.lstrip('/')}" if first in tops or not first else path


def _is_below(path: str, root: PurePosixPath) -> bool:
    return path == str(root) or path.startswith(f"{root}/")
