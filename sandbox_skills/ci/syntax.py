"""Whether every script of a skill can be read by its interpreter: asked in a sandbox, as compilers run code, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.workspace.interpreters import EXTENSIONS, shebang_program
from sandbox_skills.workspace.manager import Argv

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import PurePosixPath

MAX_SCRIPTS = 300
"""Scripts of one skill that are looked at: at 40 ms each they take as long as a person waits."""

SECONDS = 120.0
"""For all scripts of a skill."""

DRIVER = """
import subprocess, sys

STRIP = "const m = require('node:module'), f = require('node:fs');" \
    "m.stripTypeScriptTypes(f.readFileSync(process.argv[1], 'utf8'))"
CHECKS = {
    "bash": ["bash", "-n"],
    "sh": ["sh", "-n"],
    "node": ["node", "--check"],
    "types": ["node", "--no-warnings", "-e", STRIP],
    "perl": ["perl", "-c"],
}


def fault(kind, path):
    if kind == "python3":
        try:
            with open(path, "rb") as file:
                compile(file.read(), path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            return f"line {getattr(error, 'lineno', None)}: {error}"
        return ""
    done = subprocess.run([*CHECKS[kind], path], stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
    if done.returncode == 0:
        return ""
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return next((line for line in lines if "rror" in line), lines[0] if lines else "cannot be read")


faults = {path: fault(kind, path) for kind, path in zip(sys.argv[1::2], sys.argv[2::2])}
for path, text in faults.items():
    if text:
        print(f"{path}: {text[:300]}", file=sys.stderr)
sys.exit(any(faults.values()))
"""
"""Reads each script as its language does; nothing of the skill is imported by it, as `-I` keeps its folder out."""

_TYPED = frozenset({".ts", ".mts", ".cts"})
_UNREAD = frozenset({".pyz"})
_READ = frozenset({"python3", "bash", "sh", "node", "perl"})


def kind_of(path: PurePosixPath) -> str:
    """Returns how the driver calls a script's language by its ending, "" for none that it can read."""
    suffix = path.suffix.lower()
    if suffix in _UNREAD:
        return ""
    return "types" if suffix in _TYPED else EXTENSIONS.get(suffix, "")


def kind_by_shebang(head: bytes) -> str:
    """Returns the same for a script without an ending, by its first line."""
    program = shebang_program(head) or ""
    return program if program in _READ else ""


def syntax_command(scripts: Mapping[PurePosixPath, str]) -> Argv:
    """Returns the command that ends with 0 where every script can be read, and tells the others on stderr."""
    words = [word for path, kind in scripts.items() for word in (kind, f"./{path}")]
    return Argv(("python3", "-I", "-c", DRIVER, *words))
