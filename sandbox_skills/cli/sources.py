"""`add`, `update`, `remove` and `trust`: which skills of strangers there are, and which content of them counts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from sandbox_skills.catalog.pins import Changes, compare
from sandbox_skills.cli.event_loop import run_async
from sandbox_skills.cli.skills import find_skill
from sandbox_skills.cli.terminal import err, out, print_json, working
from sandbox_skills.cli.text import harmless_line
from sandbox_skills.errors import CommandError, SkillNotFoundError, SourceError
from sandbox_skills.install.source import parse_source
from sandbox_skills.settings import current_directory
from sandbox_skills.wiring import library, trust

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.cli.options import GlobalOptions
    from sandbox_skills.install.library import Fetched

SIGNS = {"added": "+", "changed": "~", "removed": "-"}
"""What stands before a path in a list of changes."""


def add(options: GlobalOptions, source: str, *, path: str) -> int:
    """Fetches a skill, checks it, pins it and puts it into the user's skills."""
    settings = options.settings()
    wanted = parse_source(source, path, base=current_directory())
    skills = library(settings)
    with skills.incoming() as incoming, working("fetching"):
        fetched = run_async(skills.fetch(wanted, incoming))
        place = skills.place(fetched)
    _say_findings(fetched)
    changes = compare({}, fetched.content.files)
    if options.as_json:
        print_json(_as_dict(fetched, place, changes))
    else:
        out.print(harmless_line(f"added {fetched.name}: {place}, digest {fetched.content.digest[:12]}"))
    return 0


def update(options: GlobalOptions, name: str, *, yes: bool) -> int:
    """Fetches an added skill again, shows what is different, and replaces it when that is accepted."""
    skills = library(options.settings())
    place, pin = skills.installed(name)
    if pin is None or not pin.source:
        raise SourceError(f"nothing says where {name!r} came from", hint="remove it and add it again")
    with skills.incoming() as incoming:
        with working("fetching"):
            fetched = run_async(skills.fetch(parse_source(pin.source, pin.path, base=place), incoming))
        # Against what lies there, not what was pinned: an edit by hand would be lost, too.
        changes = compare(skills.content(place).files, fetched.content.files)
        if changes and not options.as_json:
            _print_changes(changes)
        if changes and _accepted(f"replace {pin.name}?", options, yes=yes):
            skills.place(fetched, replacing=pin.name)
    _say_findings(fetched)
    if options.as_json:
        print_json(_as_dict(fetched, place, changes))
    else:
        out.print(harmless_line(f"{pin.name} is {'updated' if changes else 'up to date'}"))
    return 0


def remove(options: GlobalOptions, name: str) -> int:
    """Removes an added skill and its pin."""
    place = library(options.settings()).remove(name)
    if options.as_json:
        print_json({"name": name, "folder": str(place)})
    else:
        out.print(harmless_line(f"removed {place}"))
    return 0


def accept(options: GlobalOptions, name: str, *, revoke: bool) -> int:
    """Pins what a skill holds now, or drops its pin."""
    settings = options.settings()
    if revoke:
        if not trust(settings).forget(name):
            raise SkillNotFoundError(f"no skill {name!r} is pinned")
        if options.as_json:
            print_json({"name": name, "digest": None})
        else:
            out.print(harmless_line(f"{name} is not pinned any more"))
        return 0
    spec = find_skill(settings, name)
    accepted = trust(settings).accept(spec)
    if options.as_json:
        digest = {"digest": accepted.pin.digest, "changes": accepted.changes.as_dict()}
        print_json({"name": spec.name, "folder": spec.dir, **digest})
        return 0
    _print_changes(accepted.changes)
    out.print(harmless_line(f"trusted {spec.name}: {spec.dir}, digest {accepted.pin.digest[:12]}"))
    return 0


def _accepted(question: str, options: GlobalOptions, *, yes: bool) -> bool:
    """Whether the user wants it; raises CommandError where there is nobody to ask, or he does not."""
    if yes:
        return True
    if options.as_json or not sys.stdin.isatty():
        raise CommandError(
            "nothing was changed: there is nobody to ask", hint="accept the changes with --yes"
        )
    if not typer.confirm(question, err=True):
        raise CommandError("nothing was changed")
    return True


def _print_changes(changes: Changes) -> None:
    for label, paths in changes.as_dict().items():
        for path in paths:
            out.print(f"{SIGNS[label]} {harmless_line(path)}")


def _say_findings(fetched: Fetched) -> None:
    for found in fetched.diagnostics:
        err.print(harmless_line(f"{found.severity}: {found.code}: {found}"))
    for note in fetched.notes:
        err.print(harmless_line(f"note: {note}"))


def _as_dict(fetched: Fetched, place: Path, changes: Changes) -> dict[str, object]:
    return {
        "name": fetched.name,
        "folder": str(place),
        "digest": fetched.content.digest,
        "source": fetched.source.location,
        "path": fetched.source.path,
        "changes": changes.as_dict(),
        "warnings": [{"code": found.code, "message": str(found)} for found in fetched.diagnostics],
    }
