"""Outcomes made up for comparisons, and expectations as a file of cases has them."""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import TYPE_CHECKING, Any

from sandbox_skills.ci.compare import compare
from sandbox_skills.ci.observed import Behaviour, Failure, Observed
from sandbox_skills.ci.suite_text import read_suite
from sandbox_skills.spec import Exited, Limits, Outcome
from sandbox_skills.workspace.outputs import CollectedFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.ci.expect import Expect
    from sandbox_skills.spec import Ending, LimitName


def expect(text: str) -> Expect:
    """Returns what `expect: TEXT` of a case says."""
    (placed,) = read_suite(f"cases:\n- {{name: a, run: x, expect: {text}}}", "t.yaml").cases
    return placed.case.expect


def seen(
    ending: Ending | int = 0,
    stdout: str = "",
    stderr: str = "",
    files: Mapping[str, bytes] | None = None,
    **more: Any,  # noqa: ANN401  # of Outcome
) -> Observed:
    """Returns what a run has shown."""
    hit: frozenset[LimitName] = more.pop("limits_hit", frozenset())
    hints: tuple[str, ...] = more.pop("hints", ())
    behaviour: Behaviour = more.pop("behaviour", Behaviour())
    end = Exited(ending) if isinstance(ending, int) else ending
    outcome = Outcome(end, stdout=stdout.encode(), stderr=stderr.encode(), limits_hit=hit, **more)
    collected = tuple(
        CollectedFile(path, len(data), truncated=False, data=data) for path, data in (files or {}).items()
    )
    return Observed(outcome, Limits(), collected, limits_hit=hit, hints=hints, behaviour=behaviour)


def failures(
    text: str, what: Observed, snapshots: Mapping[str, str | None] | None = None
) -> tuple[Failure, ...]:
    """Returns what of `expect: TEXT` does not hold."""
    return compare(expect(text), what, snapshots or {})


def png(width: int, height: int) -> bytes:
    """Returns an image of that size, as small as they are."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\0" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def sha256(data: bytes) -> str:
    """Returns the digest as a file of cases has it."""
    return hashlib.sha256(data).hexdigest()
