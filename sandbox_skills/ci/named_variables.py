"""The environment variables that scripts name in their text. Pure.

Which of them a program really asks for is nowhere to be seen from outside: it reads its own memory. So this is what is
written, and a name that is put together at run time is not found.
"""

from __future__ import annotations

import re

_NAME = r"([A-Za-z_]\w{0,99})"

_PYTHON = re.compile(
    rf"(?:environb?(?:\.\w{{1,20}})?\s{{0,9}}[\[(]|getenvb?\s{{0,9}}\()\s{{0,9}}b?[\"']{_NAME}[\"']"
)
_NODE = re.compile(rf"\benv(?:\.get\(\s{{0,9}}|\[\s{{0,9}})[\"'`]{_NAME}[\"'`]|process\.env\??\.{_NAME}")
_NODE_TAKEN = re.compile(r"\{([^{}]{0,1000})\}\s{0,9}=\s{0,9}(?:process|Bun)\.env\b(?!\s{0,9}[.\[?])")
_NODE_NAME = re.compile(rf"(?:^|,)\s{{0,99}}{_NAME}")
_SHELL = re.compile(r"\$\{?!?#?([A-Z_][A-Z0-9_]{0,99})")
_ASSIGNED = re.compile(
    r"(?:^|[\s;&|(])(?:for\s{1,9})?([A-Z_][A-Z0-9_]{0,99})(?:=|\+=|\s{1,9}in\b)", re.MULTILINE
)
_READ = re.compile(r"\bread(?:\s{1,9}-\w{1,9})*((?:\s{1,9}[A-Z_]\w{0,99})+)")


def named_variables(kind: str, text: str) -> tuple[str, ...]:
    """Returns the names in a script, in the order of the text; `kind` is the interpreter that reads it."""
    if kind == "python3":
        found = _PYTHON.findall(text)
    elif kind in {"node", "types"}:
        found = [first or second for first, second in _NODE.findall(text) if first != "get"]
        found += [name for names in _NODE_TAKEN.findall(text) for name in _NODE_NAME.findall(names)]
    elif kind in {"bash", "sh"}:
        own = {*_ASSIGNED.findall(text), *(name for line in _READ.findall(text) for name in line.split())}
        found = [name for name in _SHELL.findall(text) if name not in own]
    else:
        found = []
    return tuple(dict.fromkeys(found))
