"""Hints: why a run failed, read from what it printed. Advice beside the untouched output, never believed. Pure.

A program can print whatever it likes, so nothing but a text to show depends on a hint; the advice itself has no
word from the box.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from difflib import get_close_matches
from ipaddress import ip_address
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from sandbox_skills.spec import KIB, Exited
from sandbox_skills.workspace.hint_rules import RULES, HintKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sandbox_skills.spec import Ending, Outcome

STDERR_SCANNED = 48 * KIB
STDOUT_SCANNED = 16 * KIB
"""Ends of the output that are looked at: errors stand last. Some programs print theirs on stdout."""

MAX_HINTS = 5
"""More would bury the one that matters; the last ones are nearest to the end of the run."""

MAX_SUBJECT = 200
"""Characters of a subject: a long path fits, a flood does not."""

_MATCHES = 10
"""Of one rule, the last ones: twice what can become hints, since most lines repeat others."""

_TERMINAL_SEQUENCE = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_LINE_END = re.compile(r"\r\n?")
_PLAIN_QUOTES = {0x2018: "'", 0x2019: "'"}
"""Tools quote names as the locale has it: the rules know one way."""

_WINDOWS_LINE_END = "\\r"
"""How env and shells print the carriage return that a script with Windows line ends puts behind a name."""

_LIKENESS = 0.75
"""Of names, as difflib counts it: `python` and `python3` are alike, `sudo` and `su` are not."""

_ADVICE: Mapping[HintKind, str] = MappingProxyType(
    {
        "module_missing": "This module or package is not in the sandbox, and nothing can be installed from a network."
        " Use the standard library or what is installed, or ship the module with the skill.",
        "network_disabled": "The sandbox has no network. Give the data as an input, or ship it with the skill;"
        " trying again does not help.",
        "command_missing": "This program is not in the sandbox and cannot be installed. Use one that is.",
        "interpreter_missing": "The program that the script's first line names is not in the sandbox."
        " Run the script with one that is.",
        "file_missing": "This path does not exist in the sandbox. Look at the working directory; inputs lie in"
        " $WORK_DIR/inputs.",
        "readonly": "This place is read-only. Write results to $OUTPUT_DIR, other files to $WORK_DIR or $TMPDIR.",
        "permission": "The run has no rights here, and no root. Write below $OUTPUT_DIR or $WORK_DIR; run a script"
        " that is not executable with its interpreter.",
        "no_space": "A file system of the sandbox is full. Write less, or remove files that are no longer needed.",
        "syntax_error": "The interpreter cannot read this line.",
        "input_requested": "The program asked for input, and there is none. Give all its input as stdin or as"
        " arguments.",
    }
)
_WINDOWS_ADVICE = " The script has Windows line ends: turn them into Unix ones."


@dataclass(frozen=True, slots=True)
class Hint:
    """A likely reason of a failure. `subject` is the box's word, on one line; it is empty where none was told."""

    kind: HintKind
    subject: str
    advice: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}" if self.subject else self.kind

    def as_dict(self) -> dict[str, str]:
        """Returns the hint for JSON."""
        return {"kind": self.kind, "subject": self.subject, "advice": self.advice}


class _Taken(NamedTuple):
    """Text that a rule has matched."""

    start: int
    end: int
    kind: HintKind
    subject: str


def hints(outcome: Outcome, *, tools_known: Collection[str] = ()) -> tuple[Hint, ...]:
    """Returns likely reasons why a run failed, at most MAX_HINTS, as it printed them; none for one that did not fail.

    `tools_known` are the programs of the image: a missing one is told which of them has nearly its name.
    """
    if outcome.ok:
        return ()
    texts = (outcome.stderr[-STDERR_SCANNED:], outcome.stdout[-STDOUT_SCANNED:])
    found = [pair for text in texts for pair in _findings(_lines(text), outcome.ending)]
    hosts_told = any(kind == "network_disabled" and subject for kind, subject in found)
    kept = [pair for pair in found if not (hosts_told and pair == ("network_disabled", ""))]
    last_first = islice(dict.fromkeys(reversed(kept)), MAX_HINTS)
    return tuple(_hint(kind, subject, tools_known) for kind, subject in reversed(list(last_first)))


def _lines(data: bytes) -> str:
    text = data.decode(errors="replace").translate(_PLAIN_QUOTES)
    return _LINE_END.sub("\n", _TERMINAL_SEQUENCE.sub("", text))


def _findings(text: str, ending: Ending) -> list[tuple[HintKind, str]]:
    """Returns kinds and subjects in the order of the text; of what two rules match, the first rule's."""
    taken: list[_Taken] = []
    for rule in RULES:
        if rule.code is None or ending == Exited(rule.code):
            matches = deque(rule.pattern.finditer(text), maxlen=_MATCHES)
            taken += [
                _Taken(*match.span(), rule.kind, _subject(match)) for match in matches if _free(match, taken)
            ]
    return [(one.kind, one.subject) for one in sorted(taken) if _is_told(one.kind, one.subject)]


def _free(match: re.Match[str], taken: list[_Taken]) -> bool:
    return all(match.end() <= other.start or other.end <= match.start() for other in taken)


def _subject(match: re.Match[str]) -> str:
    text = ":".join(match.groups())
    return "".join(character for character in text if character.isprintable())[:MAX_SUBJECT].strip()


def _is_told(kind: HintKind, subject: str) -> bool:
    # A program that cannot reach itself has another fault: the sandbox has a loopback interface.
    return kind != "network_disabled" or not _is_loopback(subject)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _hint(kind: HintKind, subject: str, tools_known: Collection[str]) -> Hint:
    name = subject.removesuffix(_WINDOWS_LINE_END)
    advice = _ADVICE[kind]
    if name != subject:
        advice += _WINDOWS_ADVICE
    elif kind in {"command_missing", "interpreter_missing"} and (near := _near(name, tools_known)):
        advice += f" There is {' and '.join(near)}."
    return Hint(kind, name, advice)


def _near(name: str, tools_known: Collection[str]) -> list[str]:
    return get_close_matches(name.rpartition("/")[2], tools_known, n=2, cutoff=_LIKENESS)
