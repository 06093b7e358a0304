"""The directory of the skill store: names, locks, and copies that appear and vanish in one step.

    root/           0700, ours alone
      key           secret of the names below
      lock          held shared by stagers, exclusively while a copy is taken away
      used/NAME     the size of a copy; its mtime is the last use
      temporary/    what is being written or removed
      mounted/      0311: bind-mounted on /skills, cannot be listed
        NAME/       one copy, named by a keyed hash of tenant and digest
        MARKER      a file that proves in a box that the mount is this store

Tenants have copies of their own, so that nothing of one is seen by another. Boxes of one tenant that have the same
skill share its files, and could tell each other something by locks on them or by watching who opens them.

Processes may share a store. Everything here blocks and belongs in a worker thread.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import hmac
import os
import secrets
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.directories import make_private, remove_tree
from sandbox_skills.errors import SettingsError
from sandbox_skills.workspace.eviction import Copy
from sandbox_skills.workspace.skill_copy import EXECUTABLE, READ_ONLY, WRITABLE_ROOT

if TYPE_CHECKING:
    from collections.abc import Generator

LAYOUT = "1"
"""Part of every name: raise it when copies of the same skill are to look different."""

KEY_BYTES = 32
"""As long as the hash it keys."""

NAME_DIGITS = 40
"""Hex digits, so 160 bits of the keyed hash: none can be guessed, no two are the same."""

ORPHANED_SECONDS = 3600.0
"""A temporary copy older than this has no writer: the largest skill takes seconds."""

_PRIVATE_DIRECTORY = 0o700
_PRIVATE_FILE = 0o600
_SEARCH_ONLY = 0o311


class StoreDirectory:
    """What lies below `root`, which is made where it is missing and must belong to this user.

    Raises SettingsError where it cannot be used.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.mounted = self.root / "mounted"
        self._used = self.root / "used"
        self._temporary = self.root / "temporary"
        try:
            self._key = self._prepare()
            self._create(self.mounted / self.marker()[0], self._marker_content(), READ_ONLY)
        except OSError as error:
            raise SettingsError(f"the skill store {root} cannot be used: {error}") from error

    def _prepare(self) -> bytes:
        make_private(self.root)
        if self.root.stat().st_uid != os.geteuid():
            # Whoever owns the directory could swap what a box runs.
            raise SettingsError(
                f"the skill store {self.root} belongs to another user", hint="choose another place"
            )
        self.root.chmod(_PRIVATE_DIRECTORY)
        for directory in (self.mounted, self._used, self._temporary):
            directory.mkdir(mode=_PRIVATE_DIRECTORY, exist_ok=True)
        self.mounted.chmod(_SEARCH_ONLY)
        self._create(self.root / "key", secrets.token_bytes(KEY_BYTES), _PRIVATE_FILE)
        key = (self.root / "key").read_bytes()
        if len(key) != KEY_BYTES:
            raise SettingsError(
                f"the key of the skill store {self.root} is damaged", hint="remove the whole store"
            )
        return key

    def name(self, tenant: str, digest: str) -> str:
        """Returns the directory name of a tenant's copy of the skill with that digest."""
        return self._keyed(f"copy {LAYOUT}", tenant, digest)

    def marker(self) -> tuple[str, str]:
        """Returns the name of a file in the mount and the hex SHA-256 of its bytes."""
        return self._keyed("marker name"), hashlib.sha256(self._marker_content()).hexdigest()

    def _marker_content(self) -> bytes:
        return self._keyed("marker content").encode()

    def _keyed(self, *fields: str) -> str:
        message = b"".join(len(field).to_bytes(8, "big") + field for field in map(str.encode, fields))
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()[:NAME_DIGITS]

    def use(self, name: str, size: int, *, wait: bool = True) -> bool:
        """Marks a copy as used now; returns whether there is one. `wait` False raises OSError instead of waiting."""
        with self._locked(fcntl.LOCK_SH if wait else fcntl.LOCK_SH | fcntl.LOCK_NB):
            if not (self.mounted / name).is_dir():
                return False
            self._touch(name, size)
            return True

    @contextmanager
    def temporary(self) -> Generator[Path]:
        """Gives an empty directory for a copy and removes what is left of it afterwards."""
        path = Path(tempfile.mkdtemp(dir=self._temporary))
        try:
            yield path
        finally:
            remove_tree(path)

    def publish(self, temporary: Path, name: str, size: int) -> None:
        """Moves a finished copy to where boxes see it; one that is there already stays."""
        target = self.mounted / name
        with self._locked(fcntl.LOCK_SH):
            self._touch(name, size)
            try:
                temporary.rename(target)
            except OSError as error:
                if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:
                    raise
            target.chmod(EXECUTABLE)

    def copies(self) -> list[Copy]:
        """Returns every copy, as of now."""
        found: list[Copy] = []
        for record in self._used.iterdir():
            with suppress(FileNotFoundError):
                size = record.read_text(encoding="utf-8", errors="replace")
                found.append(Copy(record.name, int(size) if size.isdecimal() else 0, record.stat().st_mtime))
        return found

    def evict(self, copy: Copy) -> bool:
        """Removes a copy unless it was used again since it was listed; returns whether it is gone."""
        record, target = self._used / copy.name, self.mounted / copy.name
        # The lock ends first: to remove the files takes long, to move them does not.
        with self.temporary() as grave, self._locked(fcntl.LOCK_EX), suppress(FileNotFoundError):
            if record.stat().st_mtime != copy.used_at:
                return False
            record.unlink()
            target.chmod(WRITABLE_ROOT)
            target.rename(grave / copy.name)
        return True

    def remove_orphans(self) -> int:
        """Removes what writers that died have left; returns how many."""
        removed = 0
        for path in self._temporary.iterdir():
            with suppress(FileNotFoundError):
                if time.time() - path.lstat().st_mtime > ORPHANED_SECONDS:
                    remove_tree(path) if path.is_dir() else path.unlink()
                    removed += 1
        return removed

    def _touch(self, name: str, size: int) -> None:
        record = self._used / name
        self._create(record, str(size).encode(), _PRIVATE_FILE)
        os.utime(record)

    def _create(self, path: Path, data: bytes, mode: int) -> None:
        """Makes a file with all its bytes at once; one that exists stays."""
        if path.exists():
            return
        descriptor, temporary = tempfile.mkstemp(dir=self._temporary)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
                file.write(data)
                os.fchmod(descriptor, mode)
            with suppress(FileExistsError):
                os.link(temporary, path)
        finally:
            Path(temporary).unlink()

    @contextmanager
    def _locked(self, how: int) -> Generator[None]:
        descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE_FILE)
        try:
            fcntl.flock(descriptor, how)
            yield
        finally:
            os.close(descriptor)
