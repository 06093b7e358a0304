from __future__ import annotations

import asyncio
import os
import signal
import threading
import time

import pytest

from sandbox_skills.cli import event_loop, signals
from sandbox_skills.cli import main as program
from sandbox_skills.cli.event_loop import run_async
from sandbox_skills.cli.signals import (
    ENDING,
    StoppedBySignalError,
    leave_at_next_signal,
    signals_handled,
    stop,
)
from sandbox_skills.cli.streams import within


def soon(number: int) -> threading.Timer:
    """Sends this process a signal; to be called where that is handled, as another than this would be ended by it."""
    timer = threading.Timer(0.05, os.kill, (os.getpid(), number))
    timer.start()
    return timer


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_cancels_the_command_which_cleans_up(number: int) -> None:
    cleaned: list[bool] = []

    async def work() -> None:
        timer = soon(number)
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            timer.join()
            cleaned.append(True)

    with pytest.raises(StoppedBySignalError) as caught:
        run_async(work())
    assert caught.value.number == number
    assert cleaned == [True]


def test_a_command_that_ends_by_itself_returns_its_result() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    assert run_async(work()) == 7


def test_a_cancel_from_within_is_no_signal() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_async(work())


def test_a_signal_ends_code_that_only_waits() -> None:
    timers: list[threading.Timer] = []

    def wait() -> None:
        timers.append(soon(signal.SIGTERM))
        time.sleep(60)

    with signals_handled(stop):
        with pytest.raises(StoppedBySignalError):
            wait()
        timers[0].join()


def test_handlers_are_as_they_were_afterwards() -> None:
    before = [signal.getsignal(number) for number in ENDING]
    run_async(asyncio.sleep(0))
    assert [signal.getsignal(number) for number in ENDING] == before


def test_a_signal_that_is_ignored_stays_so() -> None:
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_handled(stop):
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, old)


@pytest.mark.parametrize("number", ENDING)
def test_a_second_signal_that_is_no_echo_ends_the_process_with_its_code(
    number: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(signals, "ECHO_SECONDS", 60.0)
    with signals_handled(stop):
        leave_at_next_signal()
        os.kill(os.getpid(), number)
        assert codes == []
        monkeypatch.setattr(signals, "ECHO_SECONDS", 0.0)
        os.kill(os.getpid(), number)
    assert codes == [128 + number]
    assert "`sandbox-skills gc`" in capfd.readouterr().err


NOTICE = "waiting for the Docker daemon"


def test_a_command_that_waits_long_for_its_end_says_for_what(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(event_loop, "NOTICE_SECONDS", 0.05)

    told: list[str] = []

    async def work() -> None:
        timer = soon(signal.SIGINT)
        try:
            await asyncio.sleep(60)
        finally:
            timer.join()
            async with asyncio.timeout(15):
                while NOTICE not in "".join(told):  # another thread says it
                    await asyncio.sleep(0.01)
                    told.append(capfd.readouterr().err)

    with pytest.raises(StoppedBySignalError):
        run_async(work())


def test_what_telling_needs_is_loaded_before_its_time_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def counted(_seconds: float, _work: object) -> bool:
        order.append("counted")
        return True

    monkeypatch.setattr(program, "import_module", order.append)
    monkeypatch.setattr(program, "within", counted)
    assert program._tell_if_read(StoppedBySignalError(signal.SIGINT), as_json=False) == 130
    assert order == ["sandbox_skills.cli.terminal", "counted"]


def test_work_that_blocks_is_left_behind() -> None:
    release = threading.Event()
    assert not within(0.05, release.wait)
    release.set()
    assert within(5, lambda: None)


def test_a_second_signal_does_not_disturb_the_end() -> None:
    with signals_handled(stop):
        with pytest.raises(StoppedBySignalError):
            os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
