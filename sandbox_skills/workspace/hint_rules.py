"""What failing programs print, as patterns: each gives the kind of a hint and its subject. Pure.

The texts were taken from real programs without a network (tests/unit/workspace/test_hints.py has them). Every
repetition has a bound, so that no text makes a search slow. Typographic quotes are plain ones by then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

HintKind = Literal[
    "module_missing",
    "network_disabled",
    "command_missing",
    "interpreter_missing",
    "file_missing",
    "readonly",
    "permission",
    "no_space",
    "syntax_error",
    "input_requested",
]


@dataclass(frozen=True, slots=True)
class HintRule:
    """A pattern whose groups, joined by colons, are the subject.

    It holds for runs that exited with `code`, for all where that is None.
    """

    kind: HintKind
    pattern: re.Pattern[str]
    code: int | None = None


NOT_FOUND = 127
"""What shells, env and our runner exit with for a command that is not there."""

_HOST = r"([\w.:-]{1,200}?)"
_MODULE = r"([\w.@/+-]{1,200})"
_COMMAND = r"([^\s:']{1,200})"
_QUOTED = r"'([^'\n]{1,200})'"
# Some tools quote names, some do not.
_NAME = r"'?([^\n:']{1,200})'?"
_VERB = r"(?:(?:cannot|can't|couldn't|could not|failed to|unable to)(?: [a-z]{1,20}){1,3} )?"
_PLACE = rf"(?:^|: ){_VERB}{_NAME}(?: to '[^\n']{{1,200}}')?"
_ERROR_SUFFIX = r"(?: at \S{1,200} line \d{1,9}\.)?$"
_ENOENT = r"No such file or directory"
_NO_NAME = r"(?:Temporary failure in name resolution|Name or service not known|no such host)"


def _rules(kind: HintKind, *patterns: str, code: int | None = None) -> tuple[HintRule, ...]:
    return tuple(HintRule(kind, re.compile(pattern, re.MULTILINE), code) for pattern in patterns)


RULES: tuple[HintRule, ...] = (
    *_rules(
        "module_missing",
        rf"No module named '?{_MODULE}",
        r"Cannot find (?:module|package) '((?![./])[^'\n]{1,200})'",
        rf"ImportError: {_MODULE}: cannot open shared object file",
        r"you may need to install the ([\w:]{1,200}) module",
        rf"cannot load such file -- {_MODULE}",
        r"there is no package called '([\w.]{1,200})'",
        rf"^ERROR: No matching distribution found for {_MODULE}",
    ),
    *_rules(
        "network_disabled",
        rf"[Cc]ould not resolve host(?:name)?:? {_HOST}(?::|\s|$)",
        # Bundlers say the same of a module: without a dot at least, it is no host of the internet.
        r"(?:Could not resolve|Temporary failure resolving) '([\w-]{1,63}(?:\.[\w-]{1,63}){1,8})'$",
        rf"unable to resolve host address '{_HOST}'",
        rf"Failed to resolve '{_HOST}'",
        rf"\(host='{_HOST}', port=\d{{1,9}}\): (?:Failed to|Max retries)",
        rf"Cannot connect to host {_HOST}:\d{{1,9}} ",
        rf"getaddrinfo (?:ENOTFOUND|EAI_AGAIN) {_HOST}(?:\s|$)",
        rf"connect (?:ENETUNREACH|EHOSTUNREACH) {_HOST}:\d{{1,9}}(?:\s|$)",
        rf"Failed to connect to {_HOST} port \d",
        rf"\bdial (?:tcp|udp)\d?: lookup {_HOST}(?: on [\w.:]{{1,60}})?: ",
        rf"Bad hostname '{_HOST}(?::\d{{1,9}})?'",
        rf"(?:^|: ){_HOST}: {_NO_NAME}$",
        rf"/dev/tcp/{_HOST}/\w{{1,20}}: ",
        rf"{_NO_NAME}|Network is unreachable",
    ),
    *_rules(
        "interpreter_missing",
        rf"^(?:/usr/bin/)?env: '?{_COMMAND}'?: {_ENOENT}$",
        rf": ([^\s:]{{1,200}}): bad interpreter: {_ENOENT}$",
        r"(?:^|: )([^\n:]{1,200}): cannot execute: required file not found$",
    ),
    *_rules(
        "command_missing",
        rf"(?:^|: )(?:\$')?{_COMMAND}'?: command not found$",
        rf"^zsh:(?:\d{{1,9}}:)? command not found: {_COMMAND}$",
        rf"^[^\n:]{{1,200}}: \d{{1,9}}: {_COMMAND}: not found$",
        rf"^[\w/.-]{{0,200}}sh: (?:line \d{{1,9}}: )?{_COMMAND}: not found$",
        rf"failed to (?:run command|execute) '?{_COMMAND}'?: {_ENOENT}$",
        rf"^(?:xargs|nohup|nice|time|exec): {_COMMAND}: {_ENOENT}$",
        rf"in _execute_child\n(?:[^\n]{{0,200}}\n){{1,2}}FileNotFoundError: \[Errno 2\] {_ENOENT}: {_QUOTED}",
        r"Error: spawn(?:Sync)? ([^\n]{1,200}) ENOENT",
    ),
    # A shell says the same of a file to read and of a program to run: its exit code tells them apart.
    *_rules("command_missing", rf"^[^\n:]{{1,200}}: line \d{{1,9}}: {_NAME}: {_ENOENT}$", code=NOT_FOUND),
    *_rules(
        "syntax_error",
        r'File "([^"\n]{1,200})", line (\d{1,9})\n(?:[^\n]{0,400}\n){1,3}(?:Syntax|Indentation|Tab)Error: ',
        r"^(?:file://)?(/[^\n:]{1,200}):(\d{1,9})\n(?:[^\n]{0,400}\n){1,4}SyntaxError: ",
        r"^(?:\w{0,20}: )?([^\n: ]{1,200}): (?:line )?(\d{1,9}): [Ss]yntax error",
        r"(?:^|: )(-c): line (\d{1,9}): syntax error",
        r"syntax error at (\S{1,200}) line (\d{1,9}),",
    ),
    *_rules(
        "readonly",
        rf"Read-only file system: {_QUOTED}",
        rf"EROFS: read-only file system, \w{{1,20}} {_QUOTED}",
        rf"{_PLACE}: Read-only file system{_ERROR_SUFFIX}",
    ),
    *_rules("no_space", r"No space left on device|ENOSPC: no space left|Disk quota exceeded"),
    *_rules(
        "permission",
        rf"(?:Permission denied|Operation not permitted): {_QUOTED}",
        rf"(?:EACCES|EPERM): [a-z ]{{1,40}}, \w{{1,20}} {_QUOTED}",
        r"[Cc]ould not open lock file ([^\n ]{1,200}) - open \(13: Permission denied\)",
        rf"(?:^|: )(?:changing ownership of )?{_VERB}{_NAME}: "
        rf"(?:Permission denied|Operation not permitted){_ERROR_SUFFIX}",
        r"^mount: ([^\n:]{1,200}): must be superuser",
    ),
    *_rules(
        "file_missing",
        rf"{_ENOENT}: {_QUOTED}",
        rf"can't open file {_QUOTED}: \[Errno 2\]",
        rf"ENOENT: no such file or directory, \w{{1,20}} {_QUOTED}",
        r"Cannot find module '([./][^'\n]{1,200})'",
        r'Can\'t open perl script "([^"\n]{1,200})": No such file',
        rf"(?:^|: ){_VERB}{_NAME}: (?:Cannot \w{{1,20}}: )?{_ENOENT}{_ERROR_SUFFIX}",
        rf"{_PLACE}: Directory nonexistent$",
    ),
    *_rules(
        "input_requested",
        r"^EOFError: EOF when reading a line",
        r"in _raw_input\n[^\n]{0,200}\nEOFError",
        r"ERR_USE_AFTER_CLOSE\]?: readline was closed",
    ),
)
"""In the order they are asked: what one has taken of the text, none below it takes again."""
