"""Finds skills below roots: deterministic, bounded, and quick when little has changed. Blocking."""

from __future__ import annotations

import os
import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.catalog.diagnostics import Rule, diagnostic
from sandbox_skills.catalog.listing import Listing, ScanIndex
from sandbox_skills.catalog.parse import ParseOptions, load_error
from sandbox_skills.catalog.registry import settle
from sandbox_skills.catalog.skill import SkillRoot, SkillSpec
from sandbox_skills.catalog.skill_file import FILENAME, os_reason, unreadable
from sandbox_skills.catalog.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sandbox_skills.catalog.diagnostics import Diagnostic, Mode
    from sandbox_skills.catalog.registry import Precedence, Shadowed

SKIP_PREFIXES = (".", "_", "node_modules")
"""Directories that hold no skills of their own: version control, caches, dependencies."""

MAX_DIRECTORIES = 20_000
"""Room for 10,000 skills in groups; a root that is a whole home directory ends here and is told so."""

_MAX_NESTED = 64
"""Directories of one skill that are searched for skills inside it: 99 % of skills have 42 files or fewer."""


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """How a scan works. A root is depth 0; a directory deeper than `max_depth` is not entered."""

    filename: str = FILENAME
    max_depth: int = 3
    skip_prefixes: Sequence[str] = SKIP_PREFIXES
    mode: Mode = "strict"
    precedence: Precedence = "first"
    max_directories: int = MAX_DIRECTORIES


@dataclass(frozen=True, slots=True)
class Issue:
    """What a scan has to say of a path that gave no skill, or a shadowed one."""

    path: str
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class ScanResult:
    """`skills` in the order of roots and paths, one a name; `shadowed` lost to another of the same name."""

    skills: tuple[SkillSpec, ...]
    shadowed: tuple[Shadowed, ...]
    issues: tuple[Issue, ...]
    directories: int


def scan_skill_dirs(
    roots: Iterable[str | os.PathLike[str]],
    *,
    filename: str = FILENAME,
    max_depth: int = 3,
    skip_prefixes: Sequence[str] = SKIP_PREFIXES,
    mode: Mode = "strict",
    on_issue: Callable[[str, tuple[Diagnostic, ...]], None] | None = None,
) -> tuple[SkillSpec, ...]:
    """Returns the skills below `roots`, the first of each name. Absent roots are skipped.

    Strict raises SkillLoadError at the first file that does not load; lenient tells `on_issue` and goes on.
    """
    options = ScanOptions(filename, max_depth, skip_prefixes, mode)
    result = SkillScanner([SkillRoot(os.fspath(root)) for root in roots], options).scan()
    if on_issue is not None:
        for issue in result.issues:
            on_issue(issue.path, issue.diagnostics)
    return result.skills


class SkillScanner:
    """Scans the same roots again and again; only what changed since the last scan is read.

    Holds the specs it found, without bodies. Safe to call from several threads, one scan at a time.
    """

    def __init__(self, roots: Sequence[SkillRoot], options: ScanOptions | None = None) -> None:
        self._roots = tuple(roots)
        self._options = options or ScanOptions()
        self._index = self._new_index()
        self._lock = threading.Lock()
        self._last: tuple[tuple[str | None, ...], ScanResult] | None = None

    def _new_index(self) -> ScanIndex:
        parse = ParseOptions(mode=self._options.mode, filename=self._options.filename, keep_body=False)
        return ScanIndex(parse, tuple(self._options.skip_prefixes))

    def scan(self, *, fresh: bool = False) -> ScanResult:
        """Returns what is there now, the very same result where nothing has changed.

        `fresh` reads everything again, whatever its stamps say. In strict mode raises SkillLoadError at the first
        bad file.
        """
        with self._lock:
            if fresh:
                self._index, self._last = self._new_index(), None
            places = tuple(_place(root) for root in self._roots)
            if self._last is None or self._last[0] != places or not self._index.unchanged():
                self._last = None
                return self._walk(places)
            return self._last[1]

    def _walk(self, places: tuple[str | None, ...]) -> ScanResult:
        walk = _Walk(self._options, self._index, tuple(place for place in places if place))
        for root, place in zip(self._roots, places, strict=True):
            walk.root(root, place)
        self._index.turn()
        winners, shadowed = settle(walk.skills, self._options.precedence)
        issues = (*walk.issues, *map(_shadow_issue, shadowed))
        result = ScanResult(winners, shadowed, issues, walk.entered)
        self._last = None if walk.volatile else (places, result)
        return result


def _place(root: SkillRoot) -> str | None:
    """Returns where a root really is, None where it is no directory."""
    real = os.path.realpath(root.path)
    return real if Path(real).is_dir() else None


def _shadow_issue(shadowed: Shadowed) -> Issue:
    detail = f"{shadowed.spec.name!r} is loaded from {printable(shadowed.winner.dir)}"
    return Issue(shadowed.spec.path, (diagnostic(Rule.SKILL_SHADOWED, detail),))


@dataclass(slots=True)
class _Walk:
    """One scan. Real directories come before links to them, so that a link gives no second entry.

    `volatile` says that something was met whose change no directory's stamp would show.
    """

    options: ScanOptions
    index: ScanIndex
    allowed: tuple[str, ...]
    skills: list[SkillSpec] = field(default_factory=list[SkillSpec])
    issues: list[Issue] = field(default_factory=list[Issue])
    entered: int = 0
    capped: bool = False
    volatile: bool = False
    _seen: set[tuple[int, ...]] = field(default_factory=set[tuple[int, ...]])

    def root(self, root: SkillRoot, place: str | None) -> None:
        if place is None:
            if os.path.lexists(root.path):
                self._say(root.path, Rule.ROOT_NOT_DIRECTORY)
            return
        links = deque(self._tree(place, 0, root))
        while links:
            self.volatile = True
            link, depth = links.popleft()
            target = self._target(link, root)
            if target is not None:
                links.extend(self._tree(target, depth, root))

    def _tree(self, start: str, start_depth: int, root: SkillRoot) -> Iterator[tuple[str, int]]:
        """Walks real directories depth first in name order; yields the links met, with their depth."""
        stack = [(start, start_depth)]
        while stack and not self.capped:
            path, depth = stack.pop()
            listing = self._enter(path)
            if listing is None:
                continue
            if listing.skill is not None:
                self._skill(path, listing, root)
            elif depth < self.options.max_depth:
                stack.extend((f"{path}/{name}", depth + 1) for name in reversed(listing.directories))
                yield from ((f"{path}/{name}", depth + 1) for name in listing.links)

    def _enter(self, path: str) -> Listing | None:
        """Returns the listing of a directory that was not entered before and is within the limit."""
        listing = self._list(path)
        if listing is None or listing.identity in self._seen:
            return None
        if self.entered >= self.options.max_directories:
            self.capped = True
            self._say(path, Rule.SCAN_CAPPED, f"the limit is {self.options.max_directories:,}")
            return None
        self._seen.add(listing.identity)
        self.entered += 1
        return listing

    def _list(self, path: str) -> Listing | None:
        try:
            return self.index.listing(path)
        except OSError as error:
            self.volatile = True
            self._say(path, Rule.DIRECTORY_UNREADABLE, os_reason(error))
            return None

    def _target(self, link: str, root: SkillRoot) -> str | None:
        """Returns the real directory behind a link, if it may be followed."""
        real = os.path.realpath(link)
        if not Path(real).exists():
            self._say(link, Rule.LINK_DANGLING)
            return None
        if not Path(real).is_dir():
            return None
        if root.trust_links or any(_inside(real, allowed) for allowed in self.allowed):
            return real
        self._say(link, Rule.LINK_OUTSIDE_ROOTS)
        return None

    def _skill(self, path: str, listing: Listing, root: SkillRoot) -> None:
        file = f"{path}/{listing.skill}"
        source = self._linked(file, path, root) if listing.skill_is_link else file
        if source is not None:
            self._load(file, source, root)
        if self.options.mode == "lenient" and listing.directories:
            self._report_nested(path, listing)

    def _linked(self, file: str, directory: str, root: SkillRoot) -> str | None:
        """Returns the real file behind a linked skill file, if it may be read."""
        self.volatile = True
        real = os.path.realpath(file)
        if not Path(real).exists():
            rule = Rule.LINK_DANGLING
        elif root.trust_links or _inside(real, directory):
            return real
        else:
            rule = Rule.LINK_LEAVES_SKILL
        if self.options.mode == "strict":
            raise load_error(file, (diagnostic(rule, mode="strict"),))
        self._say(file, rule)
        return None

    def _load(self, file: str, source: str, root: SkillRoot) -> None:
        try:
            checked = self.index.skill(file, source, root)
        except OSError as error:
            self.volatile = True
            if self.options.mode == "strict":
                raise unreadable(file, error) from error
            self._say(file, Rule.FILE_UNREADABLE, os_reason(error))
            return
        if checked.spec is not None:
            self.skills.append(checked.spec)
        elif self.options.mode == "strict":
            raise load_error(file, checked.diagnostics)
        else:
            self.issues.append(Issue(file, checked.diagnostics))

    def _report_nested(self, outer: str, listing: Listing) -> None:
        stack = [f"{outer}/{name}" for name in reversed(listing.directories)]
        for _ in range(_MAX_NESTED):
            if not stack:
                return
            path = stack.pop()
            inner = self._list(path)
            if inner is None:
                continue
            if inner.skill is not None:
                self._say(
                    f"{path}/{inner.skill}", Rule.SKILL_NESTED, f"the outer skill is {printable(outer)}"
                )
            stack.extend(f"{path}/{name}" for name in reversed(inner.directories))

    def _say(self, path: str, rule: Rule, detail: str = "") -> None:
        self.issues.append(Issue(path, (diagnostic(rule, detail),)))


def _inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")
