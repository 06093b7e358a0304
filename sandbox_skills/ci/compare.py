"""A case's expectations against what was observed: every failure, in the order of the file of cases. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sandbox_skills.ci.files import check_files, globs
from sandbox_skills.ci.json_values import check_json
from sandbox_skills.ci.observed import Failure
from sandbox_skills.ci.texts import MAX_EXCERPT, check_text, quoted
from sandbox_skills.spec import Exited, Signalled, Stopped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sandbox_skills.ci.expect import BehaviourExpectation, Expect
    from sandbox_skills.ci.observed import Behaviour, Observed


def compare(expected: Expect, seen: Observed, snapshots: Mapping[str, str | None]) -> tuple[Failure, ...]:
    """Returns every expectation that does not hold."""
    return tuple(_failures(expected, seen, snapshots))


def _failures(expected: Expect, seen: Observed, snapshots: Mapping[str, str | None]) -> Iterator[Failure]:
    yield from _check_ending(expected, seen)
    outcome = seen.outcome
    streams = (
        ("stdout", expected.stdout, outcome.stdout, outcome.stdout_truncated),
        ("stderr", expected.stderr, outcome.stderr, outcome.stderr_truncated),
    )
    for name, wanted, data, truncated in streams:
        if wanted is not None:
            failures = tuple(check_text(name, wanted, data.decode(errors="backslashreplace"), snapshots))
            # What a text must not have may be in what was cut.
            if truncated and (failures or wanted.is_of_all):
                yield _cut(name, data)
            yield from failures
    if expected.json_value is not None:
        if outcome.stdout_truncated and expected.stdout is None:
            yield _cut("stdout", outcome.stdout)
        yield from check_json("stdout", expected.json_value, outcome.stdout.decode(errors="replace"))
    yield from check_files(expected, seen, snapshots)
    if expected.max_seconds is not None and outcome.wall_seconds > expected.max_seconds:
        told = f"it took {outcome.wall_seconds:.2f} s, more than {expected.max_seconds:g}"
        yield Failure("max_seconds", told)
    if expected.behaviour is not None:
        yield from _check_behaviour(expected.behaviour, seen.behaviour)


def _cut(name: str, data: bytes) -> Failure:
    return Failure(name, f"{name} was cut after {len(data):,} bytes (limits.{name}_bytes)")


def _check_ending(expected: Expect, seen: Observed) -> Iterator[Failure]:
    ending = seen.outcome.ending
    name = "exited" if isinstance(ending, Exited) else _name(ending)
    if expected.ending == "any":
        return
    if expected.ending is not None and expected.ending != name:
        yield Failure("ending", f"{_words(expected.ending)} expected, but it {ended(seen)}{_why(seen)}")
        return
    code = expected.exit if expected.exit is not None or expected.ending is not None else 0
    if code is not None and ending != Exited(code):
        yield Failure("exit", f"exit code {code} expected, but it {ended(seen)}{_why(seen)}")


def ended(seen: Observed) -> str:
    """Returns how a program ended, as the end of a sentence, with the limits that it reached."""
    ending, told = seen.outcome.ending, _ended(seen)
    told_already = ending.reason if isinstance(ending, Stopped) else ""
    hit = sorted(name for name in seen.limits_hit if name != told_already)
    return f"{told}; limits reached: {', '.join(hit)}" if hit else told


def _ended(seen: Observed) -> str:
    match seen.outcome.ending:
        case Exited(code):
            return f"ended with {code}"
        case Signalled(number):
            return f"was ended by signal {number}"
        case Stopped(reason):
            return f"was stopped: {_words(reason)}{_limit(reason, seen)}"


def _name(ending: Signalled | Stopped) -> str:
    return ending.reason if isinstance(ending, Stopped) else "signalled"


def _words(name: str) -> str:
    words = {
        "exited": "an end by itself",
        "signalled": "an end by a signal",
        "wall_time": "out of time",
        "cpu_time": "out of processor time",
        "memory": "out of memory",
        "output": "too much output",
    }
    return words.get(name, name)


def _limit(reason: str, seen: Observed) -> str:
    values = {
        "wall_time": f" after {seen.limits.wall_seconds:g} s (limits.wall_seconds)",
        "cpu_time": f" after {seen.limits.cpu_seconds or 0:g} s (limits.cpu_seconds)",
        "output": f" after {seen.limits.output_bytes:,} bytes (limits.output_bytes)",
    }
    return values.get(reason, "")


def _why(seen: Observed) -> str:
    """Returns what the program said last, and likely reasons."""
    outcome = seen.outcome
    said = (outcome.stderr or outcome.stdout).decode(errors="backslashreplace").strip()
    stream = "stderr" if outcome.stderr else "stdout"
    tail = f"; {stream} ends with {quoted(said[-MAX_EXCERPT:])}" if said else "; it printed nothing"
    return tail + "".join(f"; hint: {hint}" for hint in seen.hints)


def _check_network(
    expected: Literal["none", "attempted"], tried: tuple[str, ...] | None
) -> Iterator[Failure]:
    if tried is None:
        told = "what it tried is not known: the record was lost with the sandbox"
    elif expected == "none" and tried:
        told = f"no attempt at the network expected, but it tried {', '.join(tried)}"
    elif expected == "attempted" and not tried:
        told = "an attempt at the network expected, but there was none"
    else:
        return
    yield Failure("behaviour.network", told)


def _check_behaviour(expected: BehaviourExpectation, seen: Behaviour) -> Iterator[Failure]:
    if expected.network is not None:
        yield from _check_network(expected.network, seen.network)
    if expected.writes is None or seen.writes is None:
        return
    if not seen.complete:
        yield Failure(
            "behaviour.writes", "not every file of the workspace could be looked at (collect in the settings)"
        )
    allowed = [glob for text in expected.writes for glob in globs(text)]
    for path in seen.writes:
        if not any(glob.matches(path) for glob in allowed):
            told = ", ".join(expected.writes) or "none"
            yield Failure(
                "behaviour.writes", f"it wrote {path}, which none of the places allowed has: {told}"
            )
