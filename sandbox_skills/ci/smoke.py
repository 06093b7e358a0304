"""The checks that every skill gets without a case; each can be switched off, with a reason."""

from __future__ import annotations

import re
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from sandbox_skills.catalog import ManifestOptions, Severity, load_manifest
from sandbox_skills.catalog.builtin_names import BUILTIN_TOOLS
from sandbox_skills.catalog.resources import open_skill_file
from sandbox_skills.ci.expect import BehaviourExpectation, Expect, TextExpectation
from sandbox_skills.ci.observed import Failure
from sandbox_skills.ci.references import missing_files
from sandbox_skills.ci.suite import Case, CaseLimits
from sandbox_skills.ci.syntax import MAX_SCRIPTS, SECONDS, kind_by_shebang, kind_of, syntax_command
from sandbox_skills.ci.trial import SMOKE, Looked, Sandboxed, Skipped, Trial
from sandbox_skills.errors import RequestError
from sandbox_skills.install.validate import validate
from sandbox_skills.workspace.interpreters import read_head
from sandbox_skills.workspace.manager import Script
from sandbox_skills.workspace.paths import open_root
from sandbox_skills.workspace.skill_tree import StageLimits, scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sandbox_skills.catalog import SkillSpec
    from sandbox_skills.ci.suite import CheckName, SmokeChoice
    from sandbox_skills.ci.trial import Work

HELP_SECONDS = 10.0
"""A script that takes longer to tell what it does is not usable."""

MAX_HELP = 50
"""Scripts of one skill whose `--help` is asked for, each in a sandbox of its own."""

_READ_BYTES = 256 * 1024
"""Of a script, to see whether it has a help: the parser is set up near the top."""

_HAS_HELP = re.compile(
    rb"--help|argparse|\bclick\b|\btyper\b|docopt|\bfire\.Fire|parseArgs|commander|yargs|Getopt::Long|optparse"
)
"""What a script has that knows `--help`: the option itself, or a library that adds it."""

_NO_SCRIPTS = frozenset({"node_modules", "tests", "test", "vendor"})
"""Folders whose files nobody starts by hand."""


def smoke_trials(spec: SkillSpec, choice: SmokeChoice) -> Iterator[Trial]:
    """Yields the usual checks of a skill that loads. Blocking: reads its scripts."""
    for check, name, work in _checks(spec):
        reason = choice.off.get(check)
        yield Trial(
            spec.name,
            Path(spec.dir).resolve(),
            f"{SMOKE}{name}",
            work if reason is None else Skipped(reason),
            spec.path,
        )


def broken_trial(folder: Path, file: str) -> Trial:
    """Returns the check that a folder fails whose SKILL.md does not load."""
    return Trial(folder.name, folder, f"{SMOKE}valid", Looked(partial(_faults, folder)), file)


def _checks(spec: SkillSpec) -> Iterator[tuple[CheckName, str, Work]]:
    yield "valid", "valid", Looked(partial(_faults, Path(spec.dir)))
    yield "tools", "tools load", Looked(partial(_tool_faults, spec))
    yield "references", "files that are named are there", Looked(partial(missing_files, spec))
    scripts = scripts_of(spec)
    if scripts:
        yield "syntax", "scripts can be read", _syntax(dict(islice(scripts.items(), MAX_SCRIPTS)))
    yield from _left_out("syntax", "other scripts can be read", len(scripts) - MAX_SCRIPTS, MAX_SCRIPTS)
    started = _started(scripts)
    helpful = [path for path in started[:MAX_SCRIPTS] if _has_help(spec, path)]
    for path in helpful[:MAX_HELP]:
        yield "help", f"{path} --help", _help(path)
    more = max(0, len(started) - MAX_SCRIPTS) + max(0, len(helpful) - MAX_HELP)
    yield from _left_out("help", "other scripts --help", more, MAX_HELP)
    for path in started[:MAX_HELP]:
        yield "network", f"{path} starts without the network", _quiet(path)
    yield from _left_out(
        "network", "other scripts start without the network", len(started) - MAX_HELP, MAX_HELP
    )


def _left_out(check: CheckName, name: str, more: int, most: int) -> Iterator[tuple[CheckName, str, Work]]:
    """Yields what says that scripts were too many for a check, where they are."""
    if more > 0:
        yield check, name, Skipped(f"{more} more than the {most} scripts of a skill that are tried")


def _faults(folder: Path) -> tuple[Failure, ...]:
    try:
        report = validate([folder])
    except RequestError as error:
        return (Failure("valid", error.message),)
    return tuple(
        Failure(
            "valid",
            f"{Path(found.path).name}:{found.diagnostic.line or 1}: {found.diagnostic}. {found.diagnostic.fix}",
        )
        for found in report.findings
        if found.diagnostic.severity is Severity.ERROR
    )


def _tool_faults(spec: SkillSpec) -> tuple[Failure, ...]:
    manifest = load_manifest(spec, ManifestOptions(reserved=BUILTIN_TOOLS))
    return tuple(
        Failure("tools", f"tools.json:{found.line or 1}: {found}. {found.fix}")
        for found in manifest.diagnostics
        if found.severity is Severity.ERROR
    )


def scripts_of(spec: SkillSpec) -> dict[PurePosixPath, str]:
    """Returns all scripts of a skill with the language of each, by its ending or the first line of what has none.

    None where the skill cannot be staged, which `valid` tells. Blocking: reads first lines.
    """
    try:
        with open_root(Path(spec.dir).resolve()) as root_fd:
            entries = scan(root_fd, StageLimits()).entries
    except (RequestError, OSError):
        return {}
    files = [entry.path for entry in entries if entry.kind == "file"]
    kinds = ((path, _kind(spec, path)) for path in files if not _NO_SCRIPTS.intersection(path.parts))
    return {path: kind for path, kind in kinds if kind}


def _kind(spec: SkillSpec, path: PurePosixPath) -> str:
    if path.suffix:
        return kind_of(path)
    try:
        return kind_by_shebang(read_head(Path(spec.dir).resolve(), str(path)))
    except (RequestError, OSError):
        return ""


def _syntax(scripts: Mapping[PurePosixPath, str]) -> Sandboxed:
    # The difference to nothing is one line for each script that cannot be read.
    expected = Expect(exit=0, stderr=TextExpectation(equals=""))
    case = Case(name="syntax", run="-", limits=CaseLimits(wall_seconds=SECONDS), expect=expected)
    return Sandboxed(case, syntax_command(scripts))


def _help(path: PurePosixPath) -> Sandboxed:
    limits = CaseLimits(wall_seconds=HELP_SECONDS)
    case = Case(name="help", script=str(path), args=("--help",), limits=limits, expect=Expect(exit=0))
    return Sandboxed(case, Script(str(path), ("--help",)))


def _quiet(path: PurePosixPath) -> Sandboxed:
    """How it ends is another check's: a script without a help may refuse the option, or wait for something."""
    limits = CaseLimits(wall_seconds=HELP_SECONDS)
    expected = Expect(ending="any", behaviour=BehaviourExpectation(network="none"))
    case = Case(name="network", script=str(path), args=("--help",), limits=limits, expect=expected)
    return Sandboxed(case, Script(str(path), ("--help",)))


def started_scripts(spec: SkillSpec) -> list[PurePosixPath]:
    """Returns the scripts that are meant to be started, by where they lie. Blocking."""
    return _started(scripts_of(spec))


def _started(scripts: Iterable[PurePosixPath]) -> list[PurePosixPath]:
    return [path for path in scripts if len(path.parts) == 1 or path.parts[0] == "scripts"]


def _has_help(spec: SkillSpec, path: PurePosixPath) -> bool:
    """Whether a script knows `--help`, as far as its text shows."""
    try:
        with open(open_skill_file(spec.dir, str(path)), "rb") as file:  # noqa: PTH123  # a descriptor
            return _HAS_HELP.search(file.read(_READ_BYTES)) is not None
    except (RequestError, OSError):
        return False
