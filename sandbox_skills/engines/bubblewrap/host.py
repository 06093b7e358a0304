"""What this host has for bubblewrap's boxes: the program itself, who we are, and where limits can be set. Blocking."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from sandbox_skills.engines.bubblewrap.arguments import MASKED_DIRECTORIES, MASKED_FILES
from sandbox_skills.engines.bubblewrap.cgroup import hierarchies
from sandbox_skills.engines.bubblewrap.order import Host
from sandbox_skills.errors import EngineUnavailableError

NAME = "bwrap"

INSTALL_HINT = "apt-get install --yes bubblewrap"

LEAST = (0, 4)
"""The first with --as-pid-1 and --unshare-cgroup as they are used here; 0.8 is what is tested."""

VERSION_SECONDS = 10.0
"""It takes a millisecond; a program that hangs is not bubblewrap."""


def look(program: Path | None) -> Host:
    """Returns what boxes are made with here; `program` None is the bubblewrap that PATH has.

    Raises EngineUnavailableError with the fix where there is none that can serve.
    """
    path = _located(program)
    version = _version(path)
    if version < LEAST:
        wanted = ".".join(map(str, LEAST))
        raise EngineUnavailableError(
            f"{path} is version {'.'.join(map(str, version))}, and {wanted} is needed", hint=INSTALL_HINT
        )
    return Host(
        program=path,
        version=version,
        machine=os.uname().machine,
        uid=os.geteuid(),
        gid=os.getegid(),
        cpus=os.cpu_count() or 1,
        hierarchies=hierarchies(),
        masked=frozenset(name for name in (*MASKED_DIRECTORIES, *MASKED_FILES) if Path(name).exists()),
    )


def _located(program: Path | None) -> Path:
    found = shutil.which(program or NAME)
    if found is None:
        what = f"{program} is not there or cannot be executed" if program else "bubblewrap is not installed"
        raise EngineUnavailableError(what, hint=INSTALL_HINT)
    return Path(found).resolve()


def _version(path: Path) -> tuple[int, ...]:
    try:
        answer = subprocess.run(
            [path, "--version"], capture_output=True, text=True, check=True, timeout=VERSION_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineUnavailableError(f"{path} does not run: {error}", hint=INSTALL_HINT) from error
    number = re.fullmatch(r"bubblewrap (\d{1,4}(?:\.\d{1,4})*)\s*", answer.stdout)
    if number is None:
        raise EngineUnavailableError(f"{path} is not bubblewrap", hint=INSTALL_HINT)
    return tuple(map(int, number[1].split(".")))
