"""What reads bytes of strangers on the host, each as a function that any bytes may be given to.

One returns, or it fails: with an exception that is no answer to bad input, or with an assertion about what it did.
"""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from sandbox_skills.engines.collecting import CollectRequest
from sandbox_skills.engines.requests import Answer, GetRequest, PutRequest, RunRequest
from sandbox_skills.engines.wire import HEADER, MAX_DATA, Decoder, Kind
from sandbox_skills.errors import RunnerProtocolError, SandboxSkillsError, SnapshotError, SourceError
from sandbox_skills.install.limits import FetchLimits
from sandbox_skills.install.unpack import unpack
from sandbox_skills.spec import KIB, CollectLimits, Limits
from sandbox_skills.workspace.choices import SnapshotLimits
from sandbox_skills.workspace.outputs import MemorySink
from sandbox_skills.workspace.snapshot_tar import plan_restore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sandbox_skills.engines.requests import Request

COLLECT = CollectLimits(files=10, file_bytes=KIB, total_bytes=4 * KIB)
SNAPSHOT = SnapshotLimits(files=10, bytes=10 * KIB)
RUN = Limits(wall_seconds=1, stdout_bytes=KIB, stderr_bytes=KIB)


def frames(data: bytes) -> None:
    """The stream from a box, in two pieces."""
    decoder = Decoder()
    with suppress(RunnerProtocolError):
        for piece in (data[: len(data) // 2], data[len(data) // 2 :]):
            for frame in decoder.feed(piece):
                assert len(frame.payload) <= MAX_DATA
                with suppress(RunnerProtocolError):
                    frame.json()
    assert decoder.pending <= len(data)


def replies(data: bytes) -> None:
    """The same stream as answers to each request there is."""
    asyncio.run(_answered(data))


async def _answered(data: bytes) -> None:
    sink = MemorySink()
    requests: list[Request[Any]] = [
        Answer(Kind.PONG),
        Answer(Kind.FACTS_REPLY),
        PutRequest(),
        RunRequest(RUN, None),
        GetRequest(KIB),
        CollectRequest(["out/**", "work/*"], COLLECT, sink),
    ]
    for request in requests:
        decoder = Decoder()
        with suppress(RunnerProtocolError):
            for frame in decoder.feed(data):
                request.take(frame)
                if request.done:
                    break
        if request.done:
            with suppress(SandboxSkillsError):
                request.answer()
    assert len(sink.files) <= COLLECT.files
    for file in sink.files:
        assert file.path.parts[0] in {"out", "work"}
        assert ".." not in file.path.parts
    assert sum(len(file.data or b"") for file in sink.files) <= COLLECT.total_bytes


def archives(data: bytes) -> None:
    """An archive of somebody's skills."""
    with TemporaryDirectory(prefix="fuzz-") as name:
        place = Path(name)
        target = place / "incoming" / "unpacked"
        target.mkdir(parents=True)
        (place / "archive").write_bytes(data)
        with suppress(SourceError):
            unpack(place / "archive", target, FetchLimits())
        outside = {
            path.relative_to(place).as_posix() for path in place.rglob("*") if target not in path.parents
        }
        # A compressed tar is unpacked in two steps, beside the target.
        assert outside - {"incoming/plain.tar"} == {"archive", "incoming", "incoming/unpacked"}, outside


def snapshots(data: bytes) -> None:
    """A tar that a session is to go on from."""
    with TemporaryDirectory(prefix="fuzz-") as name:
        path = Path(name, "any.tar")
        path.write_bytes(data)
        try:
            plan = plan_restore(path, SNAPSHOT)
        except SnapshotError:
            return
    for file in plan.files:
        assert file.target.parts[2] in {"work", "out"}
        assert ".." not in file.target.parts
        assert file.start + file.size <= len(data)


def _frame(kind: Kind, body: bytes | Mapping[str, Any]) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HEADER.pack(kind, 1, len(data)) + data


def _frames() -> list[bytes]:
    ended: dict[str, object] = dict.fromkeys(("signal", "stopped"))
    ended |= dict.fromkeys(("exit", "oom_kills", "pids_max", "stderr_bytes"), 0)
    ended |= {"disk_full": False, "inodes_full": False, "clean": True}
    ended |= {"stdout_bytes": 2, "wall": 0.1, "cpu": 0.1, "max_rss": 1}
    collected = [
        _frame(Kind.FILES, {"files": [["out/a", 2, 420, 2], ["out/b", 9, 420, 1]]}),
        _frame(Kind.DATA, b"abc"),
        _frame(Kind.END, {"files": 2, "limits_hit": ["collected_bytes"], "skipped": {"out/c": "fifo"}}),
    ]
    return [
        _frame(Kind.PONG, {}),
        _frame(Kind.STDOUT, b"hi") + _frame(Kind.ENDED, ended),
        _frame(Kind.STDIN_CREDIT, {"bytes": 1}) + _frame(Kind.STDIN_CLOSED, {}),
        b"".join(collected),
        _frame(Kind.DATA, b"abc") + _frame(Kind.END, {"size": 3, "truncated": False}),
        _frame(Kind.ERROR, {"code": "not_found", "message": "no such file"}),
        _frame(Kind.DONE, {"size": 0}) + _frame(Kind.FACTS_REPLY, {"facts": {"uid": 1}}),
    ]


def _archives() -> list[bytes]:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("skill/SKILL.md", "---\nname: skill\n---\n")
        archive.writestr("skill/scripts/a.py", "print(1)\n")
    return [packed.getvalue(), _tar("w", "skill/SKILL.md"), _tar("w:gz", "skill/SKILL.md"), _tar("w:xz", "a")]


def _tar(mode: str, *names: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:  # type: ignore[call-overload]
        for name in names:
            file = tarfile.TarInfo(name)
            file.size, file.pax_headers = 5, {"comment": "x"}
            archive.addfile(file, io.BytesIO(b"first"))
            link = tarfile.TarInfo(f"{name}.link")
            link.type, link.linkname = tarfile.SYMTYPE, name.rpartition("/")[2]
            archive.addfile(link)
    return packed.getvalue()


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], list[bytes]]]] = {
    "frames": (frames, _frames),
    "replies": (replies, _frames),
    "archives": (archives, _archives),
    "snapshots": (snapshots, lambda: [_tar("w", "out/a", "work/b")]),
}
"""By name: what is given bytes, and what it is given first."""
