"""Which of the trials are run: by name, by shard, by what changed in Git."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sandbox_skills.errors import InputError
from sandbox_skills.settings import outside_of_git_hooks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_skills.ci.discovery import FoundSkill
    from sandbox_skills.ci.trial import Trial

T = TypeVar("T")

GIT_SECONDS = 60.0
"""A repository of hundreds of skills answers in a moment; one that waits for a password never does."""


def chosen(trials: Sequence[Trial], words: Sequence[str]) -> list[Trial]:
    """Returns the trials whose `skill::name` holds any of the words, whatever the case; all for no words. Pure."""
    wanted = [word.casefold() for word in words]
    return [one for one in trials if not wanted or any(word in one.id.casefold() for word in wanted)]


def parse_shard(text: str) -> tuple[int, int]:
    """Reads `2/5`: the second of five parts. Raises InputError. Pure."""
    match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text, re.ASCII)
    part, parts = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= part <= parts:
        raise InputError(f"--shard {text}: give the part and how many there are, as in 2/5")
    return part, parts


def shard(items: Sequence[T], part: int, parts: int) -> list[T]:
    """Returns every `parts`-th item from the `part`-th on: together the parts are all, each item once. Pure."""
    return list(items[part - 1 :: parts])


def changed_skills(skills: Sequence[FoundSkill], revision: str) -> list[FoundSkill]:
    """Returns the skills that have a file which differs from a revision, new ones that Git does not know too.

    Raises InputError where Git cannot tell. Blocking.
    """
    if revision.startswith("-"):
        raise InputError(f"--changed-since {revision}: that is no revision")
    changed: dict[Path, set[Path]] = {}
    kept: list[FoundSkill] = []
    for one in skills:
        folder = Path(os.path.realpath(one.folder))
        top = Path(_git(folder, "rev-parse", "--show-toplevel").removesuffix("\n"))
        if top not in changed:
            changed[top] = _changed(top, revision)
        if any(path == folder or folder in path.parents for path in changed[top]):
            kept.append(one)
    return kept


def _changed(top: Path, revision: str) -> set[Path]:
    names = _git(top, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", revision, "--")
    names += _git(top, "ls-files", "--others", "--exclude-standard", "-z")
    return {top / name for name in names.split("\0") if name}


def _git(folder: Path, *words: str) -> str:
    # Of a stranger's repository no setting may start a program: neither a file system monitor nor a hook.
    safe = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *safe, *words],  # noqa: S607  # the user's own git
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_SECONDS,
            # In a hook Git names the repository of the commit, and would take each folder for the top of it.
            env=outside_of_git_hooks(),
            check=False,
        )
    except FileNotFoundError as error:
        raise InputError("--changed-since needs git, which is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise InputError(f"--changed-since: git did not answer within {GIT_SECONDS:g} s") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise InputError(
            f"--changed-since: git says: {said}", hint="name a revision of the skills' repository"
        )
    return os.fsdecode(done.stdout)
