"""What calls of one name leave for the next process: the state of their conversation, the files of its workspace.

Not kept are interactive programs, and the workspaces that skills with secrets have of their own.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from sandbox_skills.directories import make_private
from sandbox_skills.errors import SandboxSkillsError, SessionBusyError, SnapshotError
from sandbox_skills.toolsets.skill_runs import workspace_name
from sandbox_skills.workspace.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from sandbox_skills.toolsets.base import Conversation
    from sandbox_skills.workspace.sessions import SessionManager

_FOLDER = "conversations"

_STATE = TypeAdapter(dict[str, str])


class KeptConversation:
    """The folder of one conversation, which this process has to itself. Made by `kept_conversation`."""

    def __init__(self, folder: Path) -> None:
        self._state = folder / "state.json"
        self._files = folder / "workspace.tar"

    def restore(self, conversation: Conversation, sessions: SessionManager) -> None:
        """Gives a conversation its state back, and its workspace's files to whatever call needs them first.

        Raises SnapshotError for a state that cannot be read. Blocking.
        """
        with suppress(FileNotFoundError):
            try:
                conversation.state.update(_STATE.validate_json(self._state.read_bytes()))
            except ValidationError as error:
                raise SnapshotError(
                    f"{self._state} is not the state of a session", hint=f"remove {self._state.parent}"
                ) from error
        if self._files.exists():
            # The manager removes its own when the files are in a sandbox; ours stays until there are newer ones.
            lent = self._files.with_suffix(".lent")
            lent.unlink(missing_ok=True)
            os.link(self._files, lent)
            snapshot = Snapshot(lent, conversation.tenant, files=0, bytes=0)
            sessions.adopt(workspace_name(conversation), snapshot, tenant=conversation.tenant)

    async def keep(self, conversation: Conversation, sessions: SessionManager) -> str:
        """Writes down the state, and the files where a call used them; returns what could not be kept, else ""."""
        name, tenant = workspace_name(conversation), conversation.tenant
        partial = self._state.with_suffix(".new")
        partial.unlink(missing_ok=True)
        partial.touch(mode=0o600)
        partial.write_text(json.dumps(conversation.state), encoding="utf-8")
        partial.replace(self._state)
        if name not in {info.id for info in sessions.sessions(tenant=tenant)}:
            return ""
        try:
            session = await sessions.open(name, tenant=tenant)
            snapshot = await session.snapshot(self._files)
        except SandboxSkillsError as error:
            return f"the files of this call are not kept: {error.message}"
        left = ", ".join(list(snapshot.skipped)[:3])
        return f"not all files are kept, such as {left}" if left else ""


@contextmanager
def kept_conversation(data_dir: Path, session: str) -> Generator[KeptConversation]:
    """Gives what is kept of a conversation to one process at a time; raises SessionBusyError for another one."""
    folder = data_dir / _FOLDER / hashlib.sha256(session.encode(errors="surrogatepass")).hexdigest()[:32]
    make_private(folder.parent)
    make_private(folder)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.utime(folder)
        yield KeptConversation(folder)
    except BlockingIOError as error:
        raise SessionBusyError(
            f"another call of session {session!r} is under way", hint="wait until it has ended"
        ) from error
    finally:
        os.close(lock)


def sweep_conversations(data_dir: Path, max_age: float) -> list[str]:
    """Removes what was not used for `max_age` seconds and is not in use; returns the names of the folders. Blocking."""
    root = data_dir / _FOLDER
    folders = sorted(root.iterdir()) if root.is_dir() else []
    due = time.time() - max_age
    return [folder.name for folder in folders if folder.stat().st_mtime < due and _removed(folder)]


def _removed(folder: Path) -> bool:
    try:
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True
