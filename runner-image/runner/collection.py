"""All files that match globs, on their way out."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from .lean import suppress
from .patterns import advance, compile_pattern, last_name
from .payloads import pack
from .protocol import MAX_DATA, Kind
from .refusals import Refused
from .workspace import READABLE, is_text, open_regular, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .patterns import Steps
    from .payloads import Fields
    from .transfers import Credit, Sent
    from .workspace import Workspace

WALK_ENTRIES = 65_536
"""Directory entries one collection looks at: four times the inodes of a default workspace."""

WALK_DEPTH = 64
"""Directories one collection goes down; each level holds a descriptor, and a box has 1,024."""

WALK_TURN = 256
"""Entries looked at before the loop gets its turn: well under a millisecond."""

SKIPPED_PATHS = 100
SKIPPED_CHARACTERS = 32 * 1024
"""What END lists of skipped files: JSON may need six bytes a character, and a reply has 256 KiB."""

BATCH_FILES = 64
"""Small files that are sent as one: a header and a turn for each would take longer than its bytes."""

BATCH_BYTES = MAX_DATA
"""What the files of a batch have together, and more than a small file has: one frame."""

BATCH_CHARACTERS = 16 * 1024
"""What their paths have together: far below the longest JSON, even where each character is an escape."""


class CollectLimits:
    """Ceilings of one collection."""

    def __init__(self, fields: Fields) -> None:
        self.files = fields.count("files")
        self.file_bytes = fields.count("file_bytes")
        self.total_bytes = fields.count("total_bytes")


class Batch:
    """Small files that are sent together, read side by side into one buffer.

    To read each into bytes of its own, and to join those, took twice as long as reading itself (measured).
    """

    def __init__(self) -> None:
        self.rows: list[tuple[str, int, int, int]] = []
        self._view = memoryview(bytearray(BATCH_BYTES))
        self._used = 0
        self._characters = BATCH_CHARACTERS

    @property
    def content(self) -> memoryview:
        """What the files have, one behind the other."""
        return self._view[: self._used]

    def takes(self, path: str, size: int) -> bool:
        """Tells whether there is room for one more; an empty batch has room for any small one."""
        rows = self.rows
        return not rows or (
            self._used + size <= BATCH_BYTES and len(path) <= self._characters and len(rows) < BATCH_FILES
        )

    def read(self, descriptor: int, path: str, status: os.stat_result, take: int) -> None:
        """Adds the first bytes of a file, of which there may be fewer than there were a moment before."""
        used = self._used
        count = os.readv(descriptor, [self._view[used : used + take]]) if take else 0
        size = status.st_size if count == take else count
        self.rows.append((path, size, status.st_mode & 0o777, count))
        self._used = used + count
        self._characters -= len(path)


class OpenFolder:
    """The directory of the last file that was opened: most files of a collection lie beside each other."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._path: str | None = None
        self._descriptor = -1

    def of(self, folder: str) -> int:
        """Returns the descriptor of a directory, which is this one's; raises Refused or OSError for none."""
        if folder != self._path:
            self.close()
            with self._workspace.directory(folder.split("/") if folder else ()) as directory:
                self._descriptor = os.dup(directory)
            self._path = folder
        return self._descriptor

    def open_file(self, path: str) -> tuple[int, os.stat_result]:
        """Opens a regular file for reading; raises Refused or OSError for anything else."""
        folder, _, name = path.rpartition("/")
        return open_regular(self.of(folder), name)

    def close(self) -> None:
        """Closes the directory."""
        if self._path is not None:
            self._path = None
            os.close(self._descriptor)


class Collection:
    """Finds the regular files that match, then sends them sorted by path."""

    def __init__(
        self, workspace: Workspace, patterns: Iterable[str], limits: CollectLimits, credit: Credit
    ) -> None:
        self._workspace = workspace
        self._patterns = {compile_pattern(pattern) for pattern in patterns}
        self._limits = limits
        self._small = min(BATCH_BYTES, limits.file_bytes)
        self._credit = credit
        self._entries = 0
        self._found: list[str] = []
        self._sent = 0
        self._bytes_left = limits.total_bytes
        self._limits_hit: set[str] = set()
        self._skipped: dict[str, str] = {}
        self._skipped_room = SKIPPED_CHARACTERS
        self._folder = OpenFolder(workspace)
        self._batch = Batch()

    def frames(self) -> Iterator[Sent | None]:
        """Yields FILES and DATA, many small files or one large one at a time, then END."""
        with self._workspace.directory(()) as root:
            yield from self._walk(root, "", self._patterns, 0)
        try:
            self._found.sort()  # which is the order of their bytes, as all of them are UTF-8
            for path in self._found:
                if not self._batched(path):
                    yield from self._send(path)
            yield from self._send_batch()
        finally:
            self._folder.close()
        end = {"files": self._sent, "limits_hit": sorted(self._limits_hit), "skipped": self._skipped}
        yield Kind.END, pack(end)

    def _skip(self, path: str, reason: str) -> None:
        text = shown(path)
        if len(self._skipped) < SKIPPED_PATHS and len(text) <= self._skipped_room:
            self._skipped[text] = reason
            self._skipped_room -= len(text)

    def _walk(self, directory: int, prefix: str, patterns: set[Steps], depth: int) -> Iterator[None]:
        below: list[tuple[str, set[Steps]]] = []
        matches = last_name(patterns)
        for name, mode in self._listing(directory, patterns):
            self._entries += 1
            if self._entries > WALK_ENTRIES:
                self._limits_hit.add("collected_files")
                return
            if not self._entries % WALK_TURN:
                yield None
            if stat.S_ISDIR(mode):
                below.append((name, advance(patterns, name) - {()}))
            elif matches(name):
                self._judge(prefix + name, mode)
        for name, ahead in below:
            if ahead:
                yield from self._descend(directory, prefix + name, ahead, depth + 1)

    def _listing(self, directory: int, patterns: set[Steps]) -> Iterator[tuple[str, int]]:
        """Yields names and file types: only the names asked for, where no pattern has a wildcard here."""
        heads = {steps[0] for steps in patterns}
        literal = [head for head in heads if isinstance(head, str)]
        if len(literal) < len(heads):
            yield from _scan(directory)
            return
        for name in literal:
            with suppress(OSError):
                yield name, os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode

    def _descend(self, directory: int, path: str, patterns: set[Steps], depth: int) -> Iterator[None]:
        if depth > WALK_DEPTH:
            self._limits_hit.add("collected_files")
            return
        try:
            below = self._workspace.enter(directory, os.path.basename(path))
        except (OSError, Refused):
            self._skip(path, "unreadable")
            return
        try:
            yield from self._walk(below, path + "/", patterns, depth)
        finally:
            os.close(below)

    def _judge(self, path: str, mode: int) -> None:
        if not is_text(path):
            self._skip(path, "name")
        elif mode == stat.S_IFREG or stat.S_ISREG(mode):
            self._found.append(path)
        else:
            self._skip(path, "link" if stat.S_ISLNK(mode) else "special")

    def _batched(self, path: str) -> bool:
        """Reads a small file into the batch, where both have room for it; all else is for `_send`.

        A thousand files come through here: each call of Python's that is left out is a twentieth of the time.
        """
        if self._sent >= self._limits.files:
            return False
        folder, _, name = path.rpartition("/")
        try:
            descriptor = os.open(name, READABLE, dir_fd=self._folder.of(folder))
        except (OSError, Refused):
            return False
        try:
            status = os.fstat(descriptor)
            size = status.st_size
            fits = stat.S_ISREG(status.st_mode) and size <= self._small and size <= self._bytes_left
            if not fits or not self._batch.takes(path, size):
                return False
            self._sent += 1
            self._bytes_left -= size
            self._batch.read(descriptor, path, status, size)
            return True
        finally:
            os.close(descriptor)

    def _send(self, path: str) -> Iterator[Sent | None]:
        if self._sent >= self._limits.files:
            self._leave(path, "collected_files")
            return
        try:
            descriptor, status = self._folder.open_file(path)
        except FileNotFoundError:  # gone since the walk, so it is no output
            return
        except (OSError, Refused):
            self._skip(path, "unreadable")
            return
        try:
            yield from self._send_open(path, descriptor, status)
        finally:
            os.close(descriptor)

    def _send_open(self, path: str, descriptor: int, status: os.stat_result) -> Iterator[Sent | None]:
        take = min(status.st_size, self._limits.file_bytes)
        if take > self._bytes_left:
            self._leave(path, "collected_bytes")
            return
        self._sent += 1
        self._bytes_left -= take
        if not self._batch.takes(path, take):
            yield from self._send_batch()
        if take <= BATCH_BYTES:
            self._batch.read(descriptor, path, status, take)
            return
        yield Kind.FILES, pack({"files": [(path, status.st_size, status.st_mode & 0o777, take)]})
        for data in self._credit.read(descriptor, take):
            yield (Kind.DATA, data) if data else None

    def _send_batch(self) -> Iterator[Sent | None]:
        batch, self._batch = self._batch, Batch()
        if batch.rows:
            yield Kind.FILES, pack({"files": batch.rows})
            for data in self._credit.share(batch.content):
                yield (Kind.DATA, data) if data else None
            yield None

    def _leave(self, path: str, limit: str) -> None:
        self._limits_hit.add(limit)
        self._skip(path, limit)


def _scan(directory: int) -> Iterator[tuple[str, int]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                yield entry.name, stat.S_IFREG
            elif entry.is_dir(follow_symlinks=False):
                yield entry.name, stat.S_IFDIR
            else:
                yield entry.name, stat.S_IFLNK if entry.is_symlink() else stat.S_IFIFO
