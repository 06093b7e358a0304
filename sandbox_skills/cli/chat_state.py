"""A conversation in a file: read when `chat` begins, written whenever it changes, whole at any time."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

from anyio import to_thread

from sandbox_skills.catalog.regular_file import read_regular
from sandbox_skills.controller.state import RunState
from sandbox_skills.errors import ConversationError, OutputError
from sandbox_skills.spec import LOCAL_TENANT, MIB

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

MAX_BYTES = 64 * MIB
"""Of one conversation: far more than any model takes."""

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read_state(path: Path | None) -> RunState | None:
    """Returns the conversation in a file, None where there is none yet; raises ConversationError."""
    if path is None or not os.path.lexists(path):
        return None
    try:
        text = read_regular(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        raise ConversationError(f"{path}: cannot be read: {error}") from error
    try:
        state = RunState.loads(text)
    except ConversationError as error:
        raise ConversationError(f"{path}: {error.message}", hint="Name another file.") from error
    if state.conversation.tenant != LOCAL_TENANT:
        raise ConversationError(f"{path}: a conversation of another tenant", hint="Name another file.")
    return state


def state_writer(path: Path) -> Callable[[RunState], Awaitable[None]]:
    """Returns what writes a conversation to a file that its owner alone can read; raises OutputError."""

    async def save(state: RunState) -> None:
        text = state.dumps().encode()
        await to_thread.run_sync(_replace, path, text)

    return save


def _replace(path: Path, data: bytes) -> None:
    partial = path.parent / f".{secrets.token_hex(8)}.partial"
    try:
        with os.fdopen(os.open(partial, _NEW_FILE, 0o600), "wb") as file:
            file.write(data)
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise OutputError(f"--state {path} cannot be written: {error.strerror}") from error
