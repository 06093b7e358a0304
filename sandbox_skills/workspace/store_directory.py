"""The directory of the skill store: names, locks, and copies that appear and vanish in one step.

    root/           0700, ours alone
      key           secret of the names below
      lock          held shared by stagers, exclusively while a copy is taken away
      used/NAME     the size of a copy, and the host's uptime at its last use; its mtime is the time of that: both are
                    exact to USE_SECONDS
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
import math
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sandbox_skills.directories import abandoned, make_private, owned_directory, sweep_owned
from sandbox_skills.errors import SettingsError
from sandbox_skills.uptime import uptime
from sandbox_skills.workspace.eviction import USE_SECONDS, Copy
from sandbox_skills.workspace.skill_copy import EXECUTABLE, READ_ONLY, WRITABLE_ROOT

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

LAYOUT = "1"
"""Part of every name: raise it when copies of the same skill are to look different."""

KEY_BYTES = 32
"""As long as the hash it keys."""

NAME_DIGITS = 40
"""Hex digits, so 160 bits of the keyed hash: none can be guessed, no two are the same."""

PREFIX = "copy-"
"""Begins the name of each directory in `temporary/`."""

REMEMBERED = 256
"""Copies of which a process knows when it said last that they are used."""

_TEMPORARY = "temporary"
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
        self._temporary = self.root / _TEMPORARY
        self._said: dict[str, tuple[float, int]] = {}
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

    def just_used(self, name: str) -> bool:
        """Whether a copy is there that this process has marked as used less than USE_SECONDS ago.

        That mark counts for this use too, as `eviction` knows: a lock and a write for each use cost more than all else
        about a skill that has not changed. Takes microseconds.
        """
        said, marked_ns = self._said.get(name, (-math.inf, 0))
        if uptime() - said >= USE_SECONDS:
            return False
        try:
            marked = os.lstat(f"{self._used}/{name}").st_mtime_ns == marked_ns
            return marked and stat.S_ISDIR(os.lstat(f"{self.mounted}/{name}").st_mode)
        except OSError:
            return False

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
        with owned_directory(self._temporary, PREFIX) as own:
            # In one of its own, which is no longer locked once boxes see it.
            path = own / "copy"
            path.mkdir(mode=_PRIVATE_DIRECTORY)
            yield path

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
                size, used = _parsed(record.read_text(encoding="utf-8", errors="replace"))
                found.append(Copy(record.name, size, record.stat().st_mtime, used))
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
        return len(sweep_owned(self._temporary, PREFIX))

    def _touch(self, name: str, size: int) -> None:
        # As long each time, so that whoever reads meanwhile finds one or the other. With every digit of the uptime:
        # one rounded up would lie ahead of now, which says that the host was started anew and the copy is not in use.
        line = f"{size:20d} {uptime()!r:>24}\n".encode()
        how = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        record = os.open(self._used / name, how, _PRIVATE_FILE)
        try:
            os.write(record, line)
            self._say(name, os.fstat(record).st_mtime_ns)
        finally:
            os.close(record)

    def _say(self, name: str, marked_ns: int) -> None:
        if len(self._said) >= REMEMBERED:
            self._said.clear()
        self._said[name] = (uptime(), marked_ns)

    def _create(self, path: Path, data: bytes, mode: int) -> None:
        """Makes a file with all its bytes at once; one that exists stays."""
        if path.exists():
            return
        with self.temporary() as folder:
            made = folder / path.name
            made.write_bytes(data)
            made.chmod(mode)
            with suppress(FileExistsError):
                os.link(made, path)

    @contextmanager
    def _locked(self, how: int) -> Generator[None]:
        descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE_FILE)
        try:
            fcntl.flock(descriptor, how)
            yield
        finally:
            os.close(descriptor)


def unfinished_copies(root: Path) -> list[str]:
    """Returns the names of what writers that died have left in the store at `root`, which need not be there."""
    return abandoned(root / _TEMPORARY, PREFIX)


def _parsed(line: str) -> tuple[int, float]:
    """Reads a record of a copy: its size and when it was last used, both 0 where it says none."""
    size, _, used = line.strip().partition(" ")
    try:
        return int(size), float(used)
    except ValueError:
        return 0, 0.0
