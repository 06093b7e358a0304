"""What the fake engine has beyond the contract that every engine keeps."""

from __future__ import annotations

import asyncio
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.fake import FakeEngine, FakeSandbox
from sandbox_skills.errors import CommandError, PatternError, SandboxLostError
from sandbox_skills.spec import CollectLimits, Command, Exited, Guarantee, SandboxSpec

if TYPE_CHECKING:
    from sandbox_skills.engines.fake_programs import Running
    from sandbox_skills.spec import FoundFile

pytestmark = pytest.mark.anyio

SPEC = SandboxSpec(needs=frozenset())


class Sink:
    blocking = False

    def begin(self, file: FoundFile, /) -> None: ...
    def write(self, data: bytes, /) -> None: ...
    def end(self) -> None: ...


async def test_it_claims_nothing_and_says_why() -> None:
    engine = FakeEngine()
    assert engine.guarantees == frozenset()
    assert (await engine.probe()).lost.keys() == {str(name) for name in Guarantee}


async def test_a_program_can_be_given() -> None:
    async def answer(run: Running) -> int:
        run.write(b"42")
        run.files[PurePosixPath("out/answer")] = b"42"
        return 3

    async with FakeEngine({"answer": answer}).open(SPEC) as sandbox:
        outcome = await sandbox.run(Command(("/usr/bin/answer",)))
        assert (outcome.ending, outcome.stdout) == (Exited(3), b"42")
        collection = await sandbox.collect(["out/*"], CollectLimits(), Sink())
        assert [str(file.path) for file in collection.files] == ["out/answer"]


async def test_a_program_that_raises_is_a_fault_of_the_test() -> None:
    async def broken(run: Running) -> int:
        raise LookupError("in the program")

    async with FakeEngine({"broken": broken}).open(SPEC) as sandbox:
        with pytest.raises(LookupError, match="in the program"):
            await sandbox.run(Command(("broken",)))


async def test_open_boxes_are_listed_until_they_are_left() -> None:
    engine = FakeEngine()
    async with engine.open(SPEC) as one, engine.open(SPEC) as two:
        assert set(engine.open_sandboxes) == {one.id, two.id}
    assert engine.open_sandboxes == {}


async def test_a_box_lost_in_the_middle_of_a_run_is_lost() -> None:
    engine = FakeEngine()
    async with engine.open(SPEC) as sandbox:
        assert isinstance(sandbox, FakeSandbox)
        task = asyncio.ensure_future(sandbox.run(Command(("sleep", "60"))))
        await asyncio.sleep(0.01)
        sandbox.lose()
        with pytest.raises(SandboxLostError):
            await task
        with pytest.raises(SandboxLostError):
            await sandbox.ping()


async def test_it_refuses_what_the_real_one_refuses() -> None:
    async with FakeEngine().open(SPEC) as sandbox:
        with pytest.raises(CommandError):
            await sandbox.run(Command(("a\0",)))
        with pytest.raises(PatternError):
            await sandbox.collect(["[b-a]"], CollectLimits(), Sink())
