"""How a script that holds a tool's handler is called: through the shim of its language, its result alone on stdout.

`runner-image/handlers/` has the shims. Any other language reads the arguments itself and prints the result. Pure.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from sandbox_skills.spec import HANDLERS, KIB
from sandbox_skills.workspace.interpreters import script_argv
from sandbox_skills.workspace.layout import WORK_DIR
from sandbox_skills.workspace.paths import relative_inside
from sandbox_skills.workspace.request import Handler, RunRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import PurePosixPath

MAX_ARGUMENT_BYTES = 100 * KIB
"""The longest input that is an argument too. Linux takes less than 128 KiB in one; near that, stdin is enough."""

_PYTHON = ("python3", str(HANDLERS / "python.pyc"))
_JAVASCRIPT = ("sh", str(HANDLERS / "javascript.sh"))

SHIMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {".py": _PYTHON, **dict.fromkeys((".js", ".mjs", ".cjs", ".ts", ".mts", ".cts"), _JAVASCRIPT)}
)
"""By the extension of a script; a handler in another language needs none."""


def handler_request(script: str, text: str, *, timeout: float = 0.0) -> RunRequest:
    """Returns the run that calls the handler in `script`, a path in the skill, with `text`, the JSON it reads.

    The text comes on standard input, and as the only argument where it is short. The working directory is the one
    that the text names as the agent's.
    """
    data = text.encode()
    arguments = (text,) if len(data) <= MAX_ARGUMENT_BYTES else ()
    return RunRequest(Handler(script, arguments), cwd=str(WORK_DIR), stdin=data, timeout=timeout)


def handler_argv(root: PurePosixPath, script: str, args: Sequence[str], head: bytes) -> tuple[str, ...]:
    """Returns the argument list that calls the handler in `script`; raises as `script_argv` does."""
    path = relative_inside(script)
    shim = SHIMS.get(path.suffix.lower())
    return script_argv(root, script, args, head) if shim is None else (*shim, str(root / path), *args)
