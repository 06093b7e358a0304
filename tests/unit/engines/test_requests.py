"""What one request takes from the box, frame by frame."""

from __future__ import annotations

import asyncio
import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.engines.collecting import CollectRequest, safe_relative
from sandbox_skills.engines.requests import CREDIT_STEP, GetRequest, PutRequest, RunRequest, refusal
from sandbox_skills.engines.wire import ERROR_CODES, INITIAL_CREDIT, MAX_DATA, Frame, Kind, plain
from sandbox_skills.errors import (
    EngineError,
    InputError,
    PathEscapeError,
    PatternError,
    RecorderError,
    RequestError,
    RunnerProtocolError,
    SandboxSkillsError,
    WorkspaceFullError,
)
from sandbox_skills.spec import Collection, CollectLimits, Exited, FoundFile, Limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.engines.requests import Request

pytestmark = pytest.mark.anyio


class Sink:
    """Keeps what it is given; raises where it is told to."""

    blocking = False

    def __init__(self, raises_on: str = "") -> None:
        self.files: list[tuple[FoundFile, bytearray]] = []
        self.ended = 0
        self.calls = 0
        self._raises_on = raises_on

    def _called(self, name: str) -> None:
        self.calls += 1
        if name == self._raises_on:
            raise TimeoutError("the sink's own")

    def begin(self, file: FoundFile) -> None:
        self._called("begin")
        self.files.append((file, bytearray()))

    def write(self, data: bytes) -> None:
        self._called("write")
        self.files[-1][1].extend(data)

    def end(self) -> None:
        self._called("end")
        self.ended += 1


class Sent:
    """What a request sent of its own accord."""

    def __init__(self, request: Request[Any]) -> None:
        self.frames: list[tuple[Kind, Any]] = []
        request.send = lambda kind, body=b"", /: self.frames.append((kind, body))

    def of(self, kind: Kind) -> list[Any]:
        return [body for sent, body in self.frames if sent is kind]


def frame(kind: Kind, body: bytes | Mapping[str, Any] = b"") -> Frame:
    return Frame(kind, 1, body if isinstance(body, bytes) else json.dumps(body).encode())


def take(request: Request[Any], *frames: Frame) -> None:
    for one in frames:
        request.take(one)


def file(path: object, length: int = 0, **changes: object) -> Frame:
    row = {"path": path, "size": length, "mode": 0o644, "take": length, **changes}
    return frame(Kind.FILES, {"files": [list(row.values())]})


class WholeSink(Sink):
    """Takes a file that is all there in one call."""

    def __init__(self) -> None:
        super().__init__()
        self.whole_files: list[tuple[str, bytes]] = []

    def whole(self, file: FoundFile, data: bytes) -> None:
        self.whole_files.append((str(file.path), data))


DATA = frame(Kind.DATA, b"abc")
END = frame(Kind.END, {"files": 0, "limits_hit": [], "skipped": {}})


class TestRefusals:
    @pytest.mark.parametrize(
        ("code", "error"),
        [
            ("not_found", InputError),
            ("not_a_file", InputError),
            ("not_permitted", PathEscapeError),
            ("no_space", WorkspaceFullError),
            ("no_inodes", WorkspaceFullError),
            ("bad_request", RequestError),
            ("no_recorder", RecorderError),
            ("failed", EngineError),
        ],
    )
    async def test_each_code_has_its_error(self, code: str, error: type[SandboxSkillsError]) -> None:
        assert type(refusal(frame(Kind.ERROR, {"code": code, "message": "why"}))) is error

    async def test_every_code_is_known(self) -> None:
        for code in ERROR_CODES:
            assert isinstance(refusal(frame(Kind.ERROR, {"code": code, "message": ""})), SandboxSkillsError)

    @pytest.mark.parametrize(
        "body",
        [
            {"code": "SystemExit", "message": "x"},
            {"code": ["failed"], "message": "x"},
            {"code": None, "message": "x"},
            {"message": "x"},
            {"code": "failed"},
            {"code": "failed", "message": 1},
        ],
    )
    async def test_an_error_that_no_runner_sends_is_a_breach(self, body: dict[str, object]) -> None:
        with pytest.raises(RunnerProtocolError):
            refusal(frame(Kind.ERROR, body))

    async def test_its_text_is_cut_and_steers_no_terminal(self) -> None:
        body = {"code": "failed", "message": "\x1b[2J\r\n\udc80" + "x" * 1000}
        message = refusal(frame(Kind.ERROR, body)).message
        assert message.startswith("\\x1b[2J\\r\\n\\udc80xxx")
        assert len(message) < 520

    @given(st.text(st.characters(codec=None)))
    async def test_quoted_text_can_always_be_printed(self, text: str) -> None:
        assert plain(text).isprintable()
        plain(text).encode()


class TestPut:
    async def test_the_size_is_what_was_sent(self) -> None:
        request = PutRequest()
        request.sent, request.complete = 3, True
        take(request, frame(Kind.DONE, {"size": 3}))
        assert request.answer() == 3

    @pytest.mark.parametrize("size", [2, 4, None, "3", [], True])
    async def test_another_size_is_a_breach(self, size: object) -> None:
        request = PutRequest()
        request.sent, request.complete = 3, True
        with pytest.raises(RunnerProtocolError):
            take(request, frame(Kind.DONE, {"size": size}))

    async def test_an_answer_before_the_last_byte_is_a_breach(self) -> None:
        request = PutRequest()
        request.sent = 3
        with pytest.raises(RunnerProtocolError):
            take(request, frame(Kind.DONE, {"size": 3}))


def ended(**changes: object) -> Frame:
    body = {
        "exit": 0,
        "signal": None,
        "stopped": None,
        "oom_kills": 0,
        "pids_max": 0,
        "disk_full": False,
        "inodes_full": False,
        "stdout_bytes": 0,
        "stderr_bytes": 0,
        "wall": 0.1,
        "cpu": 0.1,
        "max_rss": 1,
        "clean": True,
        "unprepared": None,
    }
    return frame(Kind.ENDED, {**body, **changes})


class TestRun:
    async def test_heads_are_kept_up_to_their_limits(self) -> None:
        request = RunRequest(Limits(stdout_bytes=4, stderr_bytes=2), None)
        out, err = frame(Kind.STDOUT, b"abc"), frame(Kind.STDERR, b"xyz")
        take(request, out, out, err, ended(stdout_bytes=6, stderr_bytes=3))
        outcome = request.answer()
        assert (outcome.ending, outcome.stdout, outcome.stderr) == (Exited(0), b"abca", b"xy")
        assert outcome.limits_hit == {"stdout", "stderr"}

    @pytest.mark.parametrize("stream", [False, True])
    async def test_more_output_than_the_limits_allow_is_a_breach(self, *, stream: bool) -> None:
        limits = Limits(stdout_bytes=1000, stderr_bytes=1000, output_bytes=2000)
        request = RunRequest(limits, (lambda *_: None) if stream else None)
        take(request, frame(Kind.STDOUT, bytes(MAX_DATA)), frame(Kind.STDOUT, bytes(2000)))
        with pytest.raises(RunnerProtocolError, match="more output"):
            take(request, frame(Kind.STDERR, b"x"))
        assert len(request.kept("stdout")) == 1000

    @pytest.mark.parametrize("kind", [Kind.DATA, Kind.FILES, Kind.PONG, Kind.DONE, Kind.END, Kind.HELLO])
    async def test_frames_of_other_requests_are_a_breach(self, kind: Kind) -> None:
        with pytest.raises(RunnerProtocolError):
            take(RunRequest(Limits(), None), frame(kind, {}))

    async def test_an_ending_that_cannot_be_is_a_breach(self) -> None:
        with pytest.raises(RunnerProtocolError):
            take(RunRequest(Limits(), None), ended(exit="0"))

    async def test_a_sink_that_raises_is_called_once_and_its_error_ends_the_run(self) -> None:
        calls: list[bytes] = []

        def sink(stream: str, data: bytes, /) -> None:
            calls.append(data)
            raise TimeoutError("the sink's own")

        request = RunRequest(Limits(), sink)
        sent = Sent(request)
        take(request, frame(Kind.STDOUT, b"a"), frame(Kind.STDOUT, b"b"))
        assert (calls, len(sent.of(Kind.KILL))) == ([b"a"], 1)
        assert not request.done
        take(request, ended(exit=None, stopped="cancelled", stdout_bytes=2))
        with pytest.raises(TimeoutError, match="the sink's own"):
            request.answer()


class TestGet:
    async def test_credit_is_granted_as_chunks_are_read(self) -> None:
        request = GetRequest(3 * CREDIT_STEP)
        sent = Sent(request)
        chunk = frame(Kind.DATA, bytes(CREDIT_STEP // 4))
        take(request, *[chunk] * 6)
        for _ in range(3):
            request.next()
        assert sent.of(Kind.CREDIT) == []
        request.next()
        assert sent.of(Kind.CREDIT) == [{"bytes": CREDIT_STEP}]

    async def test_more_than_was_asked_for_is_a_breach(self) -> None:
        request = GetRequest(5)
        take(request, DATA)
        with pytest.raises(RunnerProtocolError):
            take(request, DATA)

    async def test_more_than_there_is_credit_for_is_a_breach(self) -> None:
        request = GetRequest(1 << 40)
        take(request, *[frame(Kind.DATA, bytes(MAX_DATA))] * (INITIAL_CREDIT // MAX_DATA))
        with pytest.raises(RunnerProtocolError):
            take(request, frame(Kind.DATA, b"x"))

    async def test_chunks_come_before_the_error_that_ended_it(self) -> None:
        request = GetRequest(10)
        take(request, DATA, frame(Kind.ERROR, {"code": "failed", "message": "disk"}))
        await request.arrived()
        request.check()
        assert request.next() == b"abc"
        with pytest.raises(EngineError, match="disk"):
            request.next()


class TestCollect:
    def request(
        self, *patterns: str, sink: Sink | None = None, limits: CollectLimits | None = None
    ) -> CollectRequest:
        return CollectRequest(patterns or ("**",), limits or CollectLimits(), sink or Sink())

    async def test_files_go_to_the_sink_whole_and_in_order(self) -> None:
        sink = Sink()
        request = self.request(sink=sink)
        take(request, file("a"), file("b", 6), DATA, DATA, file("c/d", 3), DATA, END)
        assert [(str(found.path), bytes(data)) for found, data in sink.files] == [
            ("a", b""),
            ("b", b"abcabc"),
            ("c/d", b"abc"),
        ]
        assert sink.ended == 3
        assert [str(found.path) for found in request.answer().files] == ["a", "b", "c/d"]

    async def test_a_sink_that_takes_whole_files_is_given_those_that_came_in_one_piece(self) -> None:
        sink = WholeSink()
        request = self.request(sink=sink)
        take(request, file("a"), file("b", 6), DATA, DATA, file("c/d", 3), DATA, END)
        assert sink.whole_files == [("a", b""), ("c/d", b"abc")]
        assert [(str(found.path), bytes(data)) for found, data in sink.files] == [("b", b"abcabc")]
        assert [str(found.path) for found in request.answer().files] == ["a", "b", "c/d"]

    @pytest.mark.parametrize(
        "path",
        [
            "",
            "/etc/passwd",
            "..",
            "../x",
            "a/../b",
            "a//b",
            "a/",
            "./a",
            "a\0b",
            "x" * 256,
            "x/" * 2100 + "x",
            "x/" * 80 + "x",
            "\udc80",
            "\ud800x",
            None,
            1,
            ["a"],
            {"a": 1},
        ],
    )
    async def test_a_path_that_cannot_be_is_a_breach(self, path: object) -> None:
        sink = Sink()
        with pytest.raises(RunnerProtocolError):
            take(self.request(sink=sink), file(path))
        assert sink.calls == 0

    async def test_a_file_that_no_pattern_asked_for_is_a_breach(self) -> None:
        sink = Sink()
        with pytest.raises(RunnerProtocolError, match="no pattern"):
            take(self.request("out/*.txt", sink=sink), file("out/.bashrc"))
        assert sink.calls == 0

    @pytest.mark.parametrize("names", [("a", "a"), ("b", "a"), ("a", "b", "a"), ("a/b", "a")])
    async def test_files_twice_or_out_of_order_are_a_breach(self, names: tuple[str, ...]) -> None:
        with pytest.raises(RunnerProtocolError, match="out of order"):
            take(self.request(), *(file(name) for name in names))

    async def test_a_file_below_another_file_is_a_breach(self) -> None:
        with pytest.raises(RunnerProtocolError, match="below another"):
            take(self.request(), file("a"), file("a-b"), file("a/b/c"))

    @pytest.mark.parametrize(
        ("names", "breach"),
        [
            (("b", "a"), "out of order"),
            (("a", "a"), "out of order"),
            (("a", "a-b", "a/b"), "below another"),
            (("out/a", "out/b", "x/a"), "no pattern"),
            (("out/a", "out/../b"), "leaves its place"),
            (("out/a", "out/b", "out/c", "out/d"), "more files or bytes"),
        ],
    )
    async def test_files_that_are_announced_together_are_each_looked_at(
        self, names: tuple[str, ...], breach: str
    ) -> None:
        sink = Sink()
        request = self.request("a*", "a/*", "b", "out/*", sink=sink, limits=CollectLimits(files=3))
        with pytest.raises(RunnerProtocolError, match=breach):
            take(request, frame(Kind.FILES, {"files": [[name, 0, 0, 0] for name in names]}))
        assert sink.calls == 0

    @given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=4))
    async def test_what_is_announced_together_counts_together(self, sizes: list[tuple[int, int]]) -> None:
        limits = CollectLimits(file_bytes=7, total_bytes=20)
        rows = [[f"{at}", size, 0, sent] for at, (size, sent) in enumerate(sizes)]
        fits = all(sent <= min(size, 7) for size, sent in sizes) and sum(sent for _, sent in sizes) <= 20
        request = self.request(limits=limits)
        if fits:
            take(request, frame(Kind.FILES, {"files": rows}))
        else:
            with pytest.raises(RunnerProtocolError, match="more files or bytes"):
                take(request, frame(Kind.FILES, {"files": rows}))

    @pytest.mark.parametrize(
        "changes",
        [
            {"size": -1, "take": 0},
            {"size": 1.5},
            {"size": True},
            {"size": 2**63},
            {"size": None},
            {"take": 4, "size": 3},
            {"take": -1},
            {"take": "3"},
            {"mode": None},
            {"mode": -1},
        ],
    )
    async def test_numbers_that_cannot_be_are_a_breach(self, changes: dict[str, object]) -> None:
        with pytest.raises(RunnerProtocolError):
            take(self.request(), file("a", 3, **changes))

    async def test_bytes_of_many_files_are_parted_as_announced(self) -> None:
        sink = Sink()
        request = self.request(sink=sink)
        rows = [["a", 2, 0, 2], ["b", 0, 0, 0], ["c", 3, 0, 3], ["d", 0, 0, 0]]
        take(
            request,
            frame(Kind.FILES, {"files": rows}),
            frame(Kind.DATA, b"1"),
            frame(Kind.DATA, b"2345"),
            END,
        )
        assert [bytes(data) for _, data in sink.files] == [b"12", b"", b"345", b""]
        assert sink.ended == 4
        assert len(request.answer().files) == 4

    async def test_files_that_were_announced_and_not_sent_are_a_breach(self) -> None:
        for last in (END, file("z")):
            request = self.request()
            take(request, frame(Kind.FILES, {"files": [["a", 2, 0, 2], ["b", 1, 0, 1]]}))
            with pytest.raises(RunnerProtocolError, match="did not send"):
                take(request, last)

    @pytest.mark.parametrize(
        "rows", [None, {}, [], [None], [[]], [["a", 1, 0]], [["a", 1, 0, 1, 1]], ["abcd"], [4]]
    )
    async def test_rows_that_tell_of_no_file_are_a_breach(self, rows: object) -> None:
        with pytest.raises(RunnerProtocolError):
            take(self.request(), frame(Kind.FILES, {"files": rows}))

    @given(st.lists(st.binary(max_size=5), min_size=1, max_size=20), st.integers(1, 9))
    async def test_however_the_bytes_are_cut_each_file_has_its_own(
        self, contents: list[bytes], cut: int
    ) -> None:
        sink = Sink()
        request = self.request(sink=sink)
        rows = [[f"{index:03}", len(content), 0, len(content)] for index, content in enumerate(contents)]
        data = b"".join(contents)
        pieces = [frame(Kind.DATA, data[at : at + cut]) for at in range(0, len(data), cut)]
        take(request, frame(Kind.FILES, {"files": rows}), *pieces, END)
        assert [bytes(content) for _, content in sink.files] == contents

    async def test_a_sink_that_is_slow_holds_no_more_than_there_is_credit_for(self) -> None:
        sink = Sink()
        sink.blocking = True
        size = 3 * INITIAL_CREDIT
        request = self.request(sink=sink, limits=CollectLimits(file_bytes=size, total_bytes=size))
        sent = Sent(request)
        take(request, file("a", size), *[frame(Kind.DATA, bytes(MAX_DATA))] * (INITIAL_CREDIT // MAX_DATA))
        assert (sent.frames, sink.calls) == ([], 0)
        assert await request.carried_out()
        assert sum(body["bytes"] for body in sent.of(Kind.CREDIT)) == INITIAL_CREDIT
        take(request, *[frame(Kind.DATA, bytes(MAX_DATA))] * (INITIAL_CREDIT // MAX_DATA - 1))
        with pytest.raises(RunnerProtocolError, match="credit"):
            take(request, *[frame(Kind.DATA, bytes(MAX_DATA - 1))] * 2)

    async def test_modes_lose_what_has_no_place_in_them(self) -> None:
        request = self.request()
        take(request, file("a", mode=0o106755), END)
        assert request.answer().files[0].mode == 0o755

    async def test_data_without_a_file_is_a_breach(self) -> None:
        with pytest.raises(RunnerProtocolError):
            take(self.request(), DATA)

    async def test_more_data_than_announced_is_a_breach(self) -> None:
        with pytest.raises(RunnerProtocolError):
            take(self.request(), file("a", 5), DATA, DATA)

    @pytest.mark.parametrize(
        ("limits", "names"),
        [
            (CollectLimits(files=1), ("a", "b")),
            (CollectLimits(file_bytes=2), ("a",)),
            (CollectLimits(total_bytes=5), ("a", "b")),
        ],
    )
    async def test_more_than_the_limits_is_a_breach(
        self, limits: CollectLimits, names: tuple[str, ...]
    ) -> None:
        frames = [one for name in names for one in (file(name, 3), DATA)]
        with pytest.raises(RunnerProtocolError, match="more files or bytes"):
            take(self.request(limits=limits), *frames)

    async def test_a_cut_file_is_said_to_be(self) -> None:
        request = self.request(limits=CollectLimits(file_bytes=3))
        take(request, file("a", 9, take=3), DATA, END)
        collection = request.answer()
        assert collection.files == (FoundFile("a", 9, 0o644, truncated=True),)
        assert collection.limits_hit == {"collected_bytes"}

    async def test_a_file_that_shrank_is_said_to_be_cut(self) -> None:
        request = self.request()
        take(request, file("a", 9), DATA, file("b"), END)
        collection = request.answer()
        assert [found.truncated for found in collection.files] == [True, False]
        assert collection.limits_hit == frozenset()

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"limits_hit": []},
            {"limits_hit": {}, "skipped": {}},
            {"limits_hit": [], "skipped": []},
            {"limits_hit": [], "skipped": {"a": 1}},
        ],
    )
    async def test_an_end_that_cannot_be_is_a_breach(self, body: dict[str, object]) -> None:
        with pytest.raises(RunnerProtocolError):
            take(self.request(), frame(Kind.END, body))

    async def test_what_the_end_tells_is_closed_short_and_printable(self) -> None:
        request = self.request()
        skipped = {f"\x1b{index}": "x" * 1000 for index in range(150)}
        hit = ["collected_files", "made_up", ["x"], None]
        take(request, frame(Kind.END, {"limits_hit": hit, "skipped": skipped}))
        collection = request.answer()
        assert collection.limits_hit == {"collected_files"}
        assert len(collection.skipped) == 100
        assert all(path.isprintable() and len(reason) == 200 for path, reason in collection.skipped.items())

    @pytest.mark.parametrize("method", ["begin", "write", "end"])
    async def test_a_sink_that_raises_ends_the_collection_with_its_error(self, method: str) -> None:
        sink = Sink(raises_on=method)
        request = self.request(sink=sink)
        sent = Sent(request)
        take(request, file("a", 3), DATA, file("b", 3), DATA)
        calls = sink.calls
        assert len(sent.of(Kind.KILL)) == 1
        take(request, frame(Kind.ERROR, {"code": "failed", "message": "cancelled"}))
        with pytest.raises(TimeoutError, match="the sink's own"):
            request.answer()
        assert sink.calls == calls

    async def test_a_pattern_that_cannot_be_read_never_leaves_the_host(self) -> None:
        with pytest.raises(PatternError):
            self.request("[b-a]")

    @given(st.text(st.characters(codec=None), max_size=30))
    async def test_a_path_that_passes_is_one_that_can_be_written(self, text: str) -> None:
        try:
            name = safe_relative(text)
        except RunnerProtocolError:
            return
        path = PurePosixPath(name)
        assert str(path) == name == text
        assert not path.is_absolute()
        assert ".." not in path.parts


async def test_a_request_ends_once() -> None:
    request = GetRequest(1)
    request.fail(EngineError("first"))
    request.fail(EngineError("second"))
    take(request, frame(Kind.END, {}))
    with pytest.raises(EngineError, match="first"):
        request.answer()


async def test_waiting_for_the_end_of_a_request_does_not_end_it() -> None:
    request = CollectRequest(["*"], CollectLimits(), Sink())
    waiter = asyncio.ensure_future(request.settled(60))
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    take(request, END)
    assert request.answer() == Collection()
    assert await request.settled(0)


async def test_a_wait_for_an_end_that_does_not_come_is_over_in_time() -> None:
    request = CollectRequest(["*"], CollectLimits(), Sink())
    assert not await request.settled(0.01)
    assert not request.done
