"""What is said of a run once it is over: what was saved, what was not and why, how it ended. Pure."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from sandbox_skills.cli.text import counted
from sandbox_skills.engines.collecting import COLLECTION_LIMITS, MAX_SKIPPED
from sandbox_skills.engines.globs import Glob
from sandbox_skills.spec import WORKSPACE, Exited, Signalled, Stopped
from sandbox_skills.workspace.layout import DIRECTORIES, WORKSPACE_VARIABLES, run_directory
from sandbox_skills.workspace.patterns import parse_patterns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sandbox_skills.spec import CollectLimits
    from sandbox_skills.workspace.manager import RunResult
    from sandbox_skills.workspace.outputs import CollectedFile

EVERY_OUTPUT = "out/**"
"""What a directory for outputs alone asks for."""

PLACES = frozenset({"**", *(str(known.relative_to(WORKSPACE)) for known in DIRECTORIES)})
"""Patterns of one name that lie where they are meant."""

SHOWN_NAMES = 5
"""Files that one line names: enough to see what kind they are."""


def report(result: RunResult, limits: CollectLimits, unmatched: Sequence[str]) -> Iterator[str]:
    """Yields what is to be said after a run that was shown live; `unmatched` are patterns that matched nothing."""
    for file in result.files:
        yield _saved(file, limits)
    yield from _left(result.skipped, limits)
    for pattern in unmatched:
        meant = likely_pattern(pattern)
        yield f"nothing matched {pattern!r}" + (f"; did you mean {meant!r}?" if meant else "")
    yield from result.notes
    # What was printed was shown whole, however little of it was kept.
    hit = sorted(result.limits_hit - {"stdout", "stderr"})
    if hit:
        guessed = result.outcome.limits_guessed
        yield f"limits hit: {', '.join(f'{name} (a guess)' if name in guessed else name for name in hit)}"
    for hint in result.hints:
        yield f"hint: {hint} — {hint.advice}"
    match result.outcome.ending:
        case Stopped(reason):
            yield f"stopped: {reason.replace('_', ' ')}"
        case Signalled(signal):
            yield f"ended by signal {signal}"
        case Exited():
            pass


def unmatched_patterns(patterns: Sequence[str], result: RunResult) -> tuple[str, ...]:
    """Returns the patterns that no file of the workspace matched; none where not every file was looked at."""
    if not result.outcome.sandbox_lives or result.limits_hit.intersection(COLLECTION_LIMITS):
        return ()
    paths = (*(str(file.path) for file in result.files), *result.skipped)
    variables = {**WORKSPACE_VARIABLES, "RUN_DIR": run_directory(result.run_id)}
    globs = {pattern: parse_patterns([pattern], variables=variables) for pattern in patterns}
    return tuple(
        pattern
        for pattern, parts in globs.items()
        if not any(Glob(part).matches(path) for part in parts for path in paths)
    )


def likely_pattern(pattern: str) -> str | None:
    """Returns what was probably meant by a pattern that matched nothing: all of a folder, or a place in `out`."""
    path = PurePosixPath(pattern)
    is_place = path.name in PLACES or path.name.startswith("$")
    if len(path.parts) == 1 and not is_place:
        path = "out" / path
    if not any(sign in path.name for sign in "*?[."):
        path /= "**"
    return None if str(path) == pattern else str(path)


def _saved(file: CollectedFile, limits: CollectLimits) -> str:
    if not file.truncated:
        return f"saved {file.saved} ({counted(file.size, 'byte')})"
    if file.size > limits.file_bytes:
        return f"saved {file.saved}, {limits.file_bytes} of {file.size} bytes (collect.file_bytes)"
    return f"saved {file.saved}, not all of its {file.size} bytes: it shrank meanwhile"


def _left(skipped: Mapping[str, str], limits: CollectLimits) -> Iterator[str]:
    """Yields one line for each reason, however many files it has."""
    why = {
        "collected_files": f"over the {limits.files} of collect.files",
        "collected_bytes": f"over the {limits.total_bytes} bytes of collect.total_bytes",
        "exists": "there already with other content; --force overwrites",
        "git": "in a .git, where nothing is ever saved",
        "link": "links are not followed",
        "special": "no regular files",
        "unreadable": "not to be read",
        "name": "with a name that this host cannot have",
    }
    # The box names no more than that.
    least = "at least " if len(skipped) >= MAX_SKIPPED else ""
    for reason in dict.fromkeys(skipped.values()):
        paths = [path for path, its in skipped.items() if its == reason]
        more = ", …" if len(paths) > SHOWN_NAMES else ""
        names = ", ".join(paths[:SHOWN_NAMES]) + more
        yield f"left {least}{counted(len(paths), 'file')}, {why.get(reason, reason)}: {names}"
