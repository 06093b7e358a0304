"""What base.py promises, over every engine."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

import pytest

from sandbox_skills.errors import (
    CommandError,
    EngineError,
    GuaranteeError,
    InputError,
    PathEscapeError,
    SandboxLostError,
    WorkspaceFullError,
)
from sandbox_skills.spec import (
    MIB,
    WORKSPACE,
    CollectLimits,
    Command,
    Exited,
    Guarantee,
    Limits,
    SandboxSpec,
    Signalled,
    Stopped,
)
from sandbox_skills.workspace.outputs import MemorySink
from tests.contract.engines import LIMITED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sandbox_skills.engines.base import Engine, Sandbox

pytestmark = pytest.mark.anyio

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


def command(*argv: str, stdin: bytes | None = None, env: dict[str, str] | None = None) -> Command:
    return Command(argv, env={**ENV, **(env or {})}, stdin=stdin)


async def once(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def stored(sandbox: Sandbox, name: str, data: bytes = b"data") -> None:
    await sandbox.put(PurePosixPath(name), once(data))


class TestRun:
    async def test_a_directory_that_is_looked_into_is_told_to_hold_nothing(self, sandbox: Sandbox) -> None:
        async def found_nothing(look_into: PurePosixPath | None) -> bool:
            return (await sandbox.run(replace(command("true"), look_into=look_into))).found_nothing

        assert await found_nothing(WORKSPACE / "mine")
        await stored(sandbox, "mine/a")
        assert not await found_nothing(WORKSPACE / "mine")
        assert not await found_nothing(None)

    @pytest.mark.parametrize("code", [0, 1, 3, 127, 255])
    async def test_an_exit_code_is_an_ending(self, sandbox: Sandbox, code: int) -> None:
        outcome = await sandbox.run(command("sh", "-c", f"exit {code}"))
        assert outcome.ending == Exited(code)
        assert outcome.ok == (code == 0)

    async def test_a_signal_of_its_own_is_an_ending(self, sandbox: Sandbox) -> None:
        assert (await sandbox.run(command("sh", "-c", "kill -15 $$"))).ending == Signalled(15)

    async def test_a_program_that_is_not_there_exits_127_and_says_so(self, sandbox: Sandbox) -> None:
        outcome = await sandbox.run(command("no-such-program"))
        assert outcome.ending == Exited(127)
        assert b"no-such-program" in outcome.stderr

    async def test_output_comes_back_whole(self, sandbox: Sandbox) -> None:
        outcome = await sandbox.run(command("echo", "grüße", "\N{SNOWMAN}"))
        assert outcome.stdout == "grüße \N{SNOWMAN}\n".encode()
        assert (outcome.stdout_bytes, outcome.stdout_truncated, outcome.stderr) == (12, False, b"")

    async def test_stdin_is_given_and_closed(self, sandbox: Sandbox) -> None:
        data = bytes(range(256)) * 4096
        outcome = await sandbox.run(command("cat", stdin=data))
        assert outcome.stdout == data

    async def test_no_stdin_is_an_empty_one(self, sandbox: Sandbox) -> None:
        outcome = await sandbox.run(command("cat"), limits=Limits(wall_seconds=5))
        assert (outcome.ending, outcome.stdout) == (Exited(0), b"")

    async def test_the_environment_is_what_was_given(self, sandbox: Sandbox) -> None:
        outcome = await sandbox.run(command("printenv", "ANSWER", env={"ANSWER": "42 \N{SNOWMAN}"}))
        assert outcome.stdout == "42 \N{SNOWMAN}\n".encode()

    async def test_output_over_its_cap_is_cut_and_counted(self, sandbox: Sandbox) -> None:
        data = b"x" * 5000
        outcome = await sandbox.run(command("cat", stdin=data), limits=Limits(stdout_bytes=1000))
        assert outcome.ending == Exited(0)
        assert (outcome.stdout, outcome.stdout_truncated, outcome.stdout_bytes) == (data[:1000], True, 5000)
        assert outcome.limits_hit == {"stdout"}

    async def test_output_without_end_stops_the_run(self, sandbox: Sandbox) -> None:
        outcome = await sandbox.run(command("yes"), limits=Limits(output_bytes=4 * MIB, stdout_bytes=1000))
        assert outcome.ending == Stopped("output")
        assert len(outcome.stdout) == 1000

    async def test_time_over_stops_the_run_and_the_next_one_works(self, sandbox: Sandbox) -> None:
        async with asyncio.timeout(15):
            outcome = await sandbox.run(command("sleep", "60"), limits=Limits(wall_seconds=0.3))
        assert outcome.ending == Stopped("wall_time")
        assert (await sandbox.run(command("true"))).ok

    async def test_live_output_is_the_same_bytes(self, sandbox: Sandbox) -> None:
        live: list[tuple[str, bytes]] = []

        def sink(stream: Literal["stdout", "stderr"], data: bytes, /) -> None:
            live.append((stream, data))

        data = b"line\n" * 100_000
        outcome = await sandbox.run(
            command("cat", stdin=data), limits=Limits(stdout_bytes=10), on_output=sink
        )
        assert b"".join(part for stream, part in live if stream == "stdout") == data
        assert (outcome.stdout, outcome.stdout_bytes) == (data[:10], len(data))

    async def test_a_cancel_ends_the_run_and_keeps_the_box(self, sandbox: Sandbox) -> None:
        task = asyncio.ensure_future(sandbox.run(command("sleep", "60")))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sandbox.alive
        assert (await sandbox.run(command("true"))).ok

    async def test_a_second_run_at_once_is_refused(self, sandbox: Sandbox) -> None:
        async with sandbox.start(command("cat")) as first:
            with pytest.raises(EngineError, match="runs another command"):
                await sandbox.run(command("true"))
            first.close_stdin()
            assert (await first.wait()).ok

    @pytest.mark.parametrize("argv", [(), ("",)])
    async def test_an_empty_command_is_refused(self, sandbox: Sandbox, argv: tuple[str, ...]) -> None:
        with pytest.raises(CommandError):
            await sandbox.run(Command(argv))
        assert (await sandbox.run(command("true"))).ok


class TestFiles:
    @pytest.mark.parametrize("size", [0, 1, 256 * 1024, 3 * MIB + 1])
    async def test_what_is_put_is_got(self, sandbox: Sandbox, size: int) -> None:
        data = (bytes(range(256)) * (size // 256 + 1))[:size]
        assert await sandbox.put(PurePosixPath("work/a b/\N{SNOWMAN}.bin"), once(data)) == size
        async with sandbox.get(PurePosixPath("work/a b/\N{SNOWMAN}.bin"), max_bytes=10 * MIB) as chunks:
            assert b"".join([chunk async for chunk in chunks]) == data

    async def test_no_more_is_got_than_asked_for(self, sandbox: Sandbox) -> None:
        await stored(sandbox, "work/a", b"abcdef")
        async with sandbox.get(PurePosixPath("work/a"), max_bytes=3) as chunks:
            assert b"".join([chunk async for chunk in chunks]) == b"abc"

    async def test_a_program_sees_what_was_put(self, sandbox: Sandbox) -> None:
        await stored(sandbox, "work/in.txt", b"hello")
        outcome = await sandbox.run(command("cat", str(WORKSPACE / "work/in.txt")))
        assert outcome.stdout == b"hello"

    async def test_a_file_that_is_not_there_is_an_input_error(self, sandbox: Sandbox) -> None:
        with pytest.raises(InputError):
            async with sandbox.get(PurePosixPath("work/nothing"), max_bytes=1):
                pytest.fail("there is no such file")

    @pytest.mark.parametrize("path", ["../x", "work/../../x", "/etc/x"])
    async def test_a_path_that_leaves_is_refused(self, sandbox: Sandbox, path: str) -> None:
        with pytest.raises(PathEscapeError):
            await sandbox.put(PurePosixPath(path), once(b"x"))

    @pytest.mark.parametrize("engine", LIMITED, indirect=True)
    async def test_a_file_that_does_not_fit_is_refused_and_leaves_nothing(
        self, engine: Engine, spec: SandboxSpec
    ) -> None:
        async def endless() -> AsyncIterator[bytes]:
            for _ in range(300):
                yield bytes(MIB)

        async with engine.open(spec) as sandbox:
            with pytest.raises(WorkspaceFullError):
                await sandbox.put(PurePosixPath("work/big"), endless())
            sink = MemorySink()
            await sandbox.collect(["work/**"], CollectLimits(), sink)
            assert sink.files == []


class TestCollect:
    async def collected(
        self, sandbox: Sandbox, *patterns: str, limits: CollectLimits | None = None
    ) -> tuple[dict[str, bytes], frozenset[str]]:
        sink = MemorySink()
        result = await sandbox.collect(patterns, limits or CollectLimits(), sink)
        assert [file.path for file in result.files] == [file.path for file in sink.files]
        return {str(file.path): file.data or b"" for file in sink.files}, result.limits_hit

    async def test_patterns_choose_files(self, sandbox: Sandbox) -> None:
        for name in ("out/a.txt", "out/b.csv", "out/.hidden", "out/deep/er/c.txt", "work/d.txt"):
            await stored(sandbox, name, name.encode())
        for pattern, expected in {
            "out/*.txt": ["out/a.txt"],
            "out/*": ["out/.hidden", "out/a.txt", "out/b.csv"],
            "out/**": ["out/.hidden", "out/a.txt", "out/b.csv", "out/deep/er/c.txt"],
            "**/*.txt": ["out/a.txt", "out/deep/er/c.txt", "work/d.txt"],
            "out/[!a].csv": ["out/b.csv"],
            "out/**/c.txt": ["out/deep/er/c.txt"],
            "out/?.txt": ["out/a.txt"],
            "nothing/*": [],
        }.items():
            files, hit = await self.collected(sandbox, pattern)
            assert (list(files), hit) == (expected, frozenset()), pattern
            assert all(data == name.encode() for name, data in files.items())

    async def test_patterns_that_overlap_give_each_file_once(self, sandbox: Sandbox) -> None:
        await stored(sandbox, "out/a.txt")
        files, _ = await self.collected(sandbox, "out/*", "out/**", "out/a.txt")
        assert list(files) == ["out/a.txt"]

    async def test_no_pattern_collects_nothing(self, sandbox: Sandbox) -> None:
        assert await self.collected(sandbox) == ({}, frozenset())

    async def test_more_files_than_the_limit_are_said(self, sandbox: Sandbox) -> None:
        for index in range(5):
            await stored(sandbox, f"out/{index}")
        files, hit = await self.collected(sandbox, "out/*", limits=CollectLimits(files=3))
        assert (len(files), hit) == (3, frozenset({"collected_files"}))

    async def test_a_file_over_the_limit_is_cut_and_said(self, sandbox: Sandbox) -> None:
        await stored(sandbox, "out/a", b"abcdef")
        sink = MemorySink()
        result = await sandbox.collect(["out/*"], CollectLimits(file_bytes=4), sink)
        assert (sink.files[0].data, sink.files[0].truncated, sink.files[0].size) == (b"abcd", True, 6)
        assert result.limits_hit == {"collected_bytes"}

    async def test_a_file_that_the_total_does_not_hold_is_left_out(self, sandbox: Sandbox) -> None:
        for name in "abc":
            await stored(sandbox, f"out/{name}", b"xxxx")
        files, hit = await self.collected(sandbox, "out/*", limits=CollectLimits(total_bytes=6))
        assert (sum(map(len, files.values())), hit) == (4, frozenset({"collected_bytes"}))


class TestLifetime:
    async def test_a_box_that_was_left_is_lost(self, engine: Engine, spec: SandboxSpec) -> None:
        async with engine.open(spec) as sandbox:
            assert await sandbox.ping() >= 0
        assert not sandbox.alive
        with pytest.raises(SandboxLostError):
            await sandbox.run(command("true"))

    async def test_two_boxes_share_nothing(self, engine: Engine, spec: SandboxSpec) -> None:
        async with engine.open(spec) as one, engine.open(spec) as two:
            assert one.id != two.id
            await stored(one, "out/secret")
            sink = MemorySink()
            await two.collect(["**"], CollectLimits(), sink)
            assert sink.files == []

    async def test_a_demand_that_cannot_be_met_starts_nothing(self, engine: Engine) -> None:
        with pytest.raises(GuaranteeError) as caught:
            async with engine.open(SandboxSpec(needs=frozenset({Guarantee.KERNEL_BOUNDARY}))):
                pytest.fail("no runc has a kernel boundary")
        assert caught.value.lost == ("kernel_boundary",)
