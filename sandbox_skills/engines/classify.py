"""How a run ended: from what the runner says and the bytes that were kept to an Outcome. Pure.

Counters and signals are facts. An exit code is the program's own choice, be it 137 as a shell says it of SIGKILL: it
is what the program ended with, and no more than a guess at a limit. So is a message in its output, which is looked for
where the program failed and no counter answers: a program can print whatever it likes.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from signal import SIGKILL, SIGXCPU, SIGXFSZ, Signals
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from sandbox_skills.engines.wire import plain
from sandbox_skills.errors import RunnerProtocolError, SandboxLostError
from sandbox_skills.spec import Ending, Exited, Limits, Outcome, Signalled, Stopped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.spec import LimitName

_NOTHING: frozenset[LimitName] = frozenset()
_SUCCESS, _MEMORY, _CPU_TIME = Exited(0), Stopped("memory"), Stopped("cpu_time")

RunnerStop = Literal["wall_time", "cpu_time", "memory", "output", "cancelled"]
"""Why the runner itself may end a run; memory is the kernel's doing, but for what that counts for nobody."""

RUNNER_STOPS: tuple[RunnerStop, ...] = get_args(RunnerStop)

MAX_COUNT = 2**63 - 1
"""The largest number a kernel counter holds."""

MAX_EXIT = 255
"""The last exit code there is."""

MAX_SIGNAL = 64
"""The last real-time signal of Linux."""

SHELL_SIGNAL = 128
"""A shell reports a child that died of signal n as exit code 128 + n."""

MESSAGES: Mapping[LimitName, re.Pattern[bytes]] = {
    "pids": re.compile(
        rb"Resource temporarily unavailable|can't start new thread|Cannot fork|spawn \S+ EAGAIN|fork: retry"
    ),
    "disk": re.compile(rb"No space left on device|ENOSPC"),
    "open_files": re.compile(rb"Too many open files|\bEMFILE\b"),
    "file_size": re.compile(rb"File too large|\bEFBIG\b|File size limit exceeded"),
}
"""What the C library, Python, Node and bash print for EAGAIN, ENOSPC, EMFILE and EFBIG."""


@dataclass(frozen=True, slots=True)
class Death:
    """What the daemon says of a dead box; `exit_code` None where it does not know."""

    oom: bool
    exit_code: int | None


class _Ended(NamedTuple):
    """An ENDED payload whose every value has the type and range it must have."""

    exit: int | None
    signal: int | None
    stopped: RunnerStop | None
    oom_kills: int | None
    pids_max: int | None
    disk_full: bool
    inodes_full: bool
    stdout_bytes: int
    stderr_bytes: int
    wall: float
    cpu: float
    max_rss: int
    clean: bool
    unprepared: str

    @property
    def ordinary(self) -> bool:
        """Whether it ended well and no counter tells of a limit: then there is nothing more to look at."""
        told = self.stopped or self.oom_kills or self.pids_max or self.disk_full or self.inodes_full
        return self.exit == 0 and not told

    def reports(self, number: Signals) -> bool:
        """Whether the root process ended with what a shell says of a last command that died of that signal."""
        return self.exit == SHELL_SIGNAL + number


def outcome(ended: Mapping[str, object], *, limits: Limits, stdout: bytes, stderr: bytes) -> Outcome:
    """Returns what a run did, from its ENDED payload and the output that the host kept of it.

    Raises RunnerProtocolError for a payload that the runner never sends. `sandbox_lives` is False where processes of
    the run could not be killed: such a box may not run anything else.
    """
    facts = _parse(ended)
    stdout, stderr = stdout[: limits.stdout_bytes], stderr[: limits.stderr_bytes]
    if facts.stdout_bytes < len(stdout) or facts.stderr_bytes < len(stderr):
        raise RunnerProtocolError("ENDED counts less output than was sent")
    ending: Ending
    if facts.ordinary and facts.stdout_bytes == len(stdout) and facts.stderr_bytes == len(stderr):
        ending, seen, guessed = _SUCCESS, _NOTHING, _NOTHING
    else:
        ending = _ending(facts, limits)
        seen = _counted(facts, ending) | _cut(facts, len(stdout), len(stderr))
        guessed = _guessed(facts, ending, limits, stdout, stderr) - seen
    return Outcome(
        ending=ending,
        limits_hit=seen | guessed,
        limits_guessed=guessed,
        stdout=at_character(stdout, cut=facts.stdout_bytes > len(stdout)),
        stderr=at_character(stderr, cut=facts.stderr_bytes > len(stderr)),
        stdout_truncated="stdout" in seen,
        stderr_truncated="stderr" in seen,
        stdout_bytes=facts.stdout_bytes,
        stderr_bytes=facts.stderr_bytes,
        wall_seconds=facts.wall,
        cpu_seconds=facts.cpu,
        max_rss=facts.max_rss,
        sandbox_lives=facts.clean,
        unprepared=facts.unprepared,
        found_nothing="empty" in ended and _flag(ended, "empty"),
    )


def box_died(
    death: Death, error: SandboxLostError, *, stdout: bytes, stderr: bytes, wall_seconds: float
) -> Outcome:
    """Returns the outcome of a run that took its whole box with it for want of memory.

    Any other death raises SandboxLostError with what is known, caused by `error`.
    """
    if not (death.oom and death.exit_code == SHELL_SIGNAL + SIGKILL):
        raise SandboxLostError(f"{error.message} ({_told(death)})", hint=error.hint) from error
    return Outcome(
        ending=Stopped("memory"),
        limits_hit=frozenset({"memory"}),
        stdout=at_character(stdout, cut=True),
        stderr=at_character(stderr, cut=True),
        stdout_bytes=len(stdout),
        stderr_bytes=len(stderr),
        wall_seconds=wall_seconds,
        sandbox_lives=False,
    )


def _told(death: Death) -> str:
    code = "unknown exit code" if death.exit_code is None else f"exit code {death.exit_code}"
    return f"{code}, a process was killed for memory" if death.oom else code


def _ending(facts: _Ended, limits: Limits) -> Ending:
    if facts.stopped:
        return Stopped(facts.stopped)
    if facts.oom_kills and facts.signal == SIGKILL:
        return Stopped("memory")
    if _out_of_cpu(facts, limits):
        return Stopped("cpu_time")
    if facts.signal is not None:
        return Signalled(facts.signal)
    assert facts.exit is not None
    return Exited(facts.exit)


def _out_of_cpu(facts: _Ended, limits: Limits) -> bool:
    # The kernel's own limit on the root process: SIGXCPU first, SIGKILL a moment later.
    if limits.cpu_seconds is None:
        return False
    return facts.signal == SIGXCPU or (facts.signal == SIGKILL and facts.cpu >= limits.cpu_seconds)


def _reports_out_of_cpu(facts: _Ended, limits: Limits) -> bool:
    spent = limits.cpu_seconds is not None and facts.cpu >= limits.cpu_seconds
    return spent and (facts.reports(SIGXCPU) or facts.reports(SIGKILL))


def _counted(facts: _Ended, ending: Ending) -> frozenset[LimitName]:
    """What a counter or a signal of the kernel shows."""
    hits: dict[LimitName, bool] = {
        "memory": bool(facts.oom_kills) or ending == _MEMORY,
        "cpu_time": ending == _CPU_TIME,
        "pids": bool(facts.pids_max),
        "file_size": facts.signal == SIGXFSZ,
    }
    return _true(hits)


def _cut(facts: _Ended, stdout: int, stderr: int) -> frozenset[LimitName]:
    hits: dict[LimitName, bool] = {
        "stdout": facts.stdout_bytes > stdout,
        "stderr": facts.stderr_bytes > stderr,
    }
    return _true(hits)


def _guessed(facts: _Ended, ending: Ending, limits: Limits, *output: bytes) -> frozenset[LimitName]:
    """What a full disk suggests, and for a program that failed also its messages and exit code."""
    full = _true({"disk": facts.disk_full, "inodes": facts.inodes_full})
    if ending == _SUCCESS:
        return full
    suggested: dict[LimitName, bool] = {
        "memory": facts.oom_kills is None and (ending == Signalled(SIGKILL) or facts.reports(SIGKILL)),
        "cpu_time": _reports_out_of_cpu(facts, limits),
        "file_size": facts.reports(SIGXFSZ),
    }
    return full | _true(suggested) | _messages(facts, b"\n".join(output), full=bool(full))


def _messages(facts: _Ended, output: bytes, *, full: bool) -> frozenset[LimitName]:
    # A counter that reads zero, or a file system that is seen to be full, knows better than a message.
    known: dict[LimitName, bool] = {"pids": facts.pids_max is not None, "disk": full}
    return _true({name: bool(pattern.search(output)) for name, pattern in MESSAGES.items()}) - _true(known)


def _true(hits: Mapping[LimitName, bool]) -> frozenset[LimitName]:
    return frozenset(name for name, hit in hits.items() if hit)


def at_character(data: bytes, *, cut: bool) -> bytes:
    """Returns `data` without the part of a UTF-8 character that a cut left at its end; binary data as it is."""
    if not cut:
        return data
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(data)
    except UnicodeDecodeError:
        return data
    partial = len(decoder.getstate()[0])
    return data[: len(data) - partial]


_USUAL_TYPES = (
    *(int, NoneType, NoneType, int, int, bool, bool),  # exit to inodes_full
    *(int, int, float, float, int, bool, NoneType),  # stdout_bytes to unprepared
)
"""Of what nearly every ENDED has, in the order of `_Ended`: looked at in one go, it takes half the time."""


def _usual(ended: Mapping[str, object]) -> _Ended | None:
    """Returns the facts of a program that exited, where each is what it usually is; None where one is not."""
    values: tuple[Any, ...] = tuple(map(ended.get, _Ended._fields))
    if tuple(map(type, values)) != _USUAL_TYPES:
        return None
    facts = _Ended._make((*values[:-1], ""))
    counts = (*values[3:5], *values[7:9], values[11])
    # NaN is in no range.
    in_time = 0 <= facts.wall <= MAX_COUNT and 0 <= facts.cpu <= MAX_COUNT
    counted = 0 <= values[0] <= MAX_EXIT and min(counts) >= 0 and max(counts) <= MAX_COUNT
    return facts if in_time and counted else None


def _parse(ended: Mapping[str, object]) -> _Ended:
    return _usual(ended) or _parsed(ended)


def _parsed(ended: Mapping[str, object]) -> _Ended:
    facts = _Ended(
        exit=_optional_count(ended, "exit", MAX_EXIT),
        signal=_optional_count(ended, "signal", MAX_SIGNAL),
        stopped=_stop(ended.get("stopped")),
        oom_kills=_optional_count(ended, "oom_kills"),
        pids_max=_optional_count(ended, "pids_max"),
        disk_full=_flag(ended, "disk_full"),
        inodes_full=_flag(ended, "inodes_full"),
        stdout_bytes=_count(ended, "stdout_bytes"),
        stderr_bytes=_count(ended, "stderr_bytes"),
        wall=_seconds(ended, "wall"),
        cpu=_seconds(ended, "cpu"),
        max_rss=_count(ended, "max_rss"),
        clean=_flag(ended, "clean"),
        unprepared=_text(ended, "unprepared"),
    )
    both = facts.exit is not None and facts.signal is not None
    neither = facts.exit is None and facts.signal is None
    if both or facts.signal == 0 or (neither and facts.stopped is None):
        raise RunnerProtocolError("ENDED has no single ending")
    return facts


def _wrong(name: str) -> RunnerProtocolError:
    return RunnerProtocolError(f"ENDED has no valid {name!r}")


def _stop(value: object) -> RunnerStop | None:
    if value is None:
        return None
    for reason in RUNNER_STOPS:
        if value == reason:
            return reason
    raise _wrong("stopped")


def _optional_count(ended: Mapping[str, object], name: str, most: int = MAX_COUNT) -> int | None:
    return None if ended.get(name) is None else _count(ended, name, most)


def _count(ended: Mapping[str, object], name: str, most: int = MAX_COUNT) -> int:
    value = ended.get(name)
    # JSON has no other integers, and a bool is none of them.
    if type(value) is not int or not 0 <= value <= most:
        raise _wrong(name)
    return value


def _seconds(ended: Mapping[str, object], name: str) -> float:
    value = ended.get(name)
    if type(value) is not float and type(value) is not int:
        raise _wrong(name)
    if not 0 <= value <= MAX_COUNT:  # NaN is not, nor is infinity
        raise _wrong(name)
    return float(value)


def _text(ended: Mapping[str, object], name: str) -> str:
    """Returns text of the box as something that can be printed; nothing for null."""
    value = ended.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong(name)
    return plain(value)


def _flag(ended: Mapping[str, object], name: str) -> bool:
    value = ended.get(name)
    if not isinstance(value, bool):
        raise _wrong(name)
    return value
