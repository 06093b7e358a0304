from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.engines.classify import Death, box_died, outcome
from sandbox_skills.errors import RunnerProtocolError, SandboxLostError
from sandbox_skills.spec import Exited, LimitName, Limits, Outcome, Signalled, Stopped

ENDED: dict[str, object] = {
    "exit": 0, "signal": None, "stopped": None, "oom_kills": 0, "pids_max": 0, "disk_full": False,
    "inodes_full": False, "stdout_bytes": 0, "stderr_bytes": 0, "wall": 1.5, "cpu": 0.5, "max_rss": 4096, "clean": True,
}  # fmt: skip

LIMITS = Limits()

NO_SPACE = b"cp: error writing 'x': No space left on device\n"


def ended(*, limits: Limits = LIMITS, stdout: bytes = b"", stderr: bytes = b"", **changes: object) -> Outcome:
    facts = ENDED | {"stdout_bytes": len(stdout), "stderr_bytes": len(stderr)} | changes
    return outcome(facts, limits=limits, stdout=stdout, stderr=stderr)


def failed(message: bytes, **changes: object) -> Outcome:
    facts: dict[str, Any] = {"exit": 1, **changes}
    return ended(stderr=message, **facts)


def test_a_program_that_ends_well_has_hit_nothing() -> None:
    result = ended(stdout=b"hi\n")
    assert result == Outcome(
        ending=Exited(0), stdout=b"hi\n", stdout_bytes=3, wall_seconds=1.5, cpu_seconds=0.5, max_rss=4096
    )
    assert result.ok


@pytest.mark.parametrize("code", [0, 1, 126, 127, 255])
def test_an_exit_code_is_kept(code: int) -> None:
    assert ended(exit=code).ending == Exited(code)


@pytest.mark.parametrize("number", [6, 11, 15])
def test_a_signal_that_no_limit_explains_is_told(number: int) -> None:
    assert ended(exit=None, signal=number).ending == Signalled(number)


@pytest.mark.parametrize("reason", ["wall_time", "cpu_time", "memory", "output", "cancelled"])
def test_what_the_runner_stopped_is_stopped(reason: str) -> None:
    result = ended(exit=None, signal=9, stopped=reason)
    assert result.ending == Stopped(reason)  # type: ignore[arg-type]  # parametrized
    assert result.limits_hit == {reason} & {"cpu_time", "memory"}


def test_a_stop_before_anything_ended_needs_no_exit_code() -> None:
    assert ended(exit=None, stopped="wall_time").ending == Stopped("wall_time")


def test_a_root_killed_for_memory_is_stopped_for_memory() -> None:
    result = ended(exit=None, signal=9, oom_kills=1)
    assert result.ending == Stopped("memory")
    assert result.limits_hit == {"memory"}
    assert not result.limits_guessed
    assert result.sandbox_lives


def test_a_child_killed_for_memory_is_told_beside_the_ending_of_the_survivor() -> None:
    result = ended(exit=1, oom_kills=2)
    assert (result.ending, result.limits_hit) == (Exited(1), frozenset({"memory"}))


def test_an_exit_code_is_the_programs_own_choice_whoever_was_killed_for_memory_before() -> None:
    result = ended(exit=137, oom_kills=1)
    assert (result.ending, result.limits_hit) == (Exited(137), frozenset({"memory"}))


@pytest.mark.parametrize("how", [{"exit": None, "signal": 9}, {"exit": 137}])
def test_a_kill_without_an_out_of_memory_is_only_a_kill(how: dict[str, Any]) -> None:
    result = ended(**how, oom_kills=0)
    assert result.ending == (Signalled(9) if "signal" in how else Exited(137))
    assert not result.limits_hit


@pytest.mark.parametrize("how", [{"exit": None, "signal": 9}, {"exit": 137}])
def test_a_kill_where_no_counter_is_readable_is_guessed_to_be_for_memory(how: dict[str, Any]) -> None:
    result = ended(**how, oom_kills=None)
    assert result.ending == (Signalled(9) if "signal" in how else Exited(137))
    assert result.limits_hit == result.limits_guessed == {"memory"}


@pytest.mark.parametrize("how", [{"signal": 24}, {"signal": 9, "cpu": 2.0}])
def test_the_kernels_cpu_limit_stops_for_cpu_time(how: dict[str, Any]) -> None:
    result = ended(**how, exit=None, limits=Limits(cpu_seconds=2.0))
    assert (result.ending, result.limits_hit) == (Stopped("cpu_time"), frozenset({"cpu_time"}))


@pytest.mark.parametrize("code", [137, 152])
def test_an_exit_code_after_all_cpu_time_was_spent_is_a_guess(code: int) -> None:
    result = ended(exit=code, cpu=2.0, limits=Limits(cpu_seconds=2.0))
    assert result.ending == Exited(code)
    assert result.limits_hit == result.limits_guessed == {"cpu_time"}


@pytest.mark.parametrize("how", [{"exit": None, "signal": 24}, {"exit": 152}])
def test_without_a_cpu_limit_its_signal_means_nothing(how: dict[str, Any]) -> None:
    assert ended(**how).ending == (Signalled(24) if "signal" in how else Exited(152))


def test_exit_152_of_a_program_that_used_little_cpu_is_an_exit_code() -> None:
    result = ended(exit=152, cpu=0.1, limits=Limits(cpu_seconds=2.0))
    assert (result.ending, result.limits_hit) == (Exited(152), frozenset())


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        (b"bash: fork: retry: Resource temporarily unavailable", "pids"),
        (b"RuntimeError: can't start new thread", "pids"),
        (b"Error: spawn node EAGAIN", "pids"),
        (NO_SPACE, "disk"),
        (b"OSError: [Errno 28] No space left on device", "disk"),
        (b"Error: ENOSPC: no space left on device, write", "disk"),
        (b"OSError: [Errno 24] Too many open files: 'x'", "open_files"),
        (b"Error: EMFILE: too many open files, open 'x'", "open_files"),
        (b"OSError: [Errno 27] File too large", "file_size"),
        (b"File size limit exceeded", "file_size"),
    ],
)
class TestMessages:
    def test_of_a_program_that_failed_are_a_guess(self, message: bytes, limit: LimitName) -> None:
        result = failed(message, pids_max=None)
        assert result.limits_hit == result.limits_guessed == {limit}

    def test_on_standard_output_count_too(self, message: bytes, limit: LimitName) -> None:
        assert ended(stdout=message, exit=1, pids_max=None).limits_guessed == {limit}

    def test_of_a_program_that_ended_well_are_not_believed(self, message: bytes, limit: LimitName) -> None:
        assert limit not in ended(stderr=message, pids_max=None).limits_hit

    def test_never_change_the_ending(self, message: bytes, limit: LimitName) -> None:
        assert failed(message, pids_max=None).ending == Exited(1), limit


def test_a_pids_counter_is_a_fact() -> None:
    result = ended(exit=1, pids_max=3)
    assert result.limits_hit == {"pids"}
    assert not result.limits_guessed


def test_a_pids_counter_of_zero_knows_better_than_a_message() -> None:
    assert not failed(b"Resource temporarily unavailable", pids_max=0).limits_hit


@pytest.mark.parametrize("limit", ["disk", "inodes"])
def test_a_full_file_system_is_a_guess_that_says_which_limit(limit: str) -> None:
    result = failed(NO_SPACE, **{f"{limit}_full": True})
    assert result.limits_hit == result.limits_guessed == {limit}


def test_a_program_that_filled_the_disk_and_ended_well_is_told_so() -> None:
    assert ended(disk_full=True).limits_hit == {"disk"}


def test_the_file_size_signal_is_a_fact_and_its_exit_code_a_guess() -> None:
    fact, guess = ended(exit=None, signal=25), ended(exit=153)
    assert fact.ending == Signalled(25)
    assert (fact.limits_hit, fact.limits_guessed) == (frozenset({"file_size"}), frozenset())
    assert guess.limits_hit == guess.limits_guessed == {"file_size"}


def test_output_beyond_what_is_kept_is_said_to_be_cut() -> None:
    result = ended(stdout=b"abc", stdout_bytes=10, stderr=b"de", stderr_bytes=11)
    assert (result.stdout_truncated, result.stderr_truncated) == (True, True)
    assert (result.stdout_bytes, result.stderr_bytes) == (10, 11)
    assert result.limits_hit == {"stdout", "stderr"}
    assert not result.limits_guessed


def test_the_host_keeps_no_more_than_the_limit_whatever_was_sent() -> None:
    result = ended(stdout=b"x" * 100, limits=Limits(stdout_bytes=10))
    assert (result.stdout, result.stdout_truncated, result.stdout_bytes) == (b"x" * 10, True, 100)


@given(st.text(min_size=1), st.data())
def test_text_is_cut_at_a_character(text: str, data: st.DataObject) -> None:
    whole = text.encode("utf-8", "surrogatepass").decode("utf-8", "ignore").encode() or b"x"
    kept = whole[: data.draw(st.integers(0, len(whole)))]
    result = ended(stdout=kept, stdout_bytes=len(whole) + 1)
    assert whole.startswith(result.stdout)
    result.stdout.decode()
    assert len(kept) - len(result.stdout) < 4


def test_text_that_was_not_cut_is_kept_even_where_it_ends_within_a_character() -> None:
    assert ended(stdout="é".encode()[:1]).stdout == b"\xc3"


@pytest.mark.parametrize("data", [b"\xff\xfe\x00\xc3", b"\x89PNG\r\n\xe2\x82"])
def test_binary_output_is_cut_where_it_was_cut(data: bytes) -> None:
    assert ended(stdout=data, stdout_bytes=1000).stdout == data


def test_a_box_with_processes_that_would_not_die_is_given_up() -> None:
    assert not ended(clean=False).sandbox_lives


@pytest.mark.parametrize("name", [name for name in ENDED if name not in {"exit", "signal"}])
@pytest.mark.parametrize("value", ["x", -1, [], {}, 1e400, True, 2**70])
def test_a_value_that_the_runner_never_sends_breaks_the_protocol(name: str, value: object) -> None:
    if isinstance(value, bool) and isinstance(ENDED[name], bool):
        return
    with pytest.raises(RunnerProtocolError, match=name):
        outcome(ENDED | {name: value}, limits=Limits(), stdout=b"", stderr=b"")


@pytest.mark.parametrize("empty", [True, False])
def test_a_directory_that_was_looked_into_holds_nothing_or_something(*, empty: bool) -> None:
    assert ended(empty=empty).found_nothing is empty
    assert not ended().found_nothing


@pytest.mark.parametrize("value", [None, 1, "yes", []])
def test_what_a_directory_holds_is_told_by_a_word_that_cannot_be_mistaken(value: object) -> None:
    with pytest.raises(RunnerProtocolError, match="empty"):
        ended(empty=value)


counts = st.integers(-1, 3) | st.integers(2**63 - 2, 2**63)
seconds = st.sampled_from([0.0, 1.0, 1e30, -1.0, float("nan"), float("inf")])


@given(
    st.fixed_dictionaries(
        {
            "exit": st.sampled_from([-1, 0, 1, 255, 256]),
            "cpu": seconds,
            **dict.fromkeys(("oom_kills", "pids_max", "max_rss", "stdout_bytes", "stderr_bytes"), counts),
            **dict.fromkeys(("disk_full", "inodes_full", "clean"), st.booleans()),
        }
    )
)
def test_what_is_looked_at_in_one_go_means_the_same_value_by_value(body: dict[str, Any]) -> None:
    def told(**wall: float) -> Outcome | str:
        try:
            return outcome(ENDED | body | wall, limits=Limits(), stdout=b"", stderr=b"")
        except RunnerProtocolError as error:
            return error.message

    assert told(wall=1.0) == told(wall=1)  # JSON's integer, which is not what usually comes


@pytest.mark.parametrize(
    "how",
    [{"exit": None}, {"exit": 1, "signal": 9}, {"exit": 256}, {"exit": None, "signal": 65}, {"signal": 0}],
)
def test_an_ending_must_be_one(how: dict[str, Any]) -> None:
    with pytest.raises(RunnerProtocolError):
        ended(**how)


def test_a_count_below_what_was_sent_breaks_the_protocol() -> None:
    with pytest.raises(RunnerProtocolError, match="less output"):
        ended(stdout=b"abc", stdout_bytes=2)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from(sorted(ENDED)), JSON))
def test_any_payload_gives_an_outcome_or_breaks_the_protocol(changes: dict[str, object]) -> None:
    try:
        result = outcome(ENDED | changes, limits=Limits(), stdout=b"", stderr=b"")
    except RunnerProtocolError:
        return
    assert result.limits_guessed <= result.limits_hit


LOST = SandboxLostError("the channel closed", hint="try again")


def test_a_box_killed_for_memory_is_an_outcome_of_the_run() -> None:
    result = box_died(
        Death(oom=True, exit_code=137), LOST, stdout="aé".encode()[:2], stderr=b"", wall_seconds=2.0
    )
    assert result == Outcome(
        ending=Stopped("memory"),
        limits_hit=frozenset({"memory"}),
        stdout=b"a",
        stdout_bytes=2,
        wall_seconds=2.0,
        sandbox_lives=False,
    )


@pytest.mark.parametrize(
    ("death", "told"),
    [
        (Death(oom=False, exit_code=137), "exit code 137"),
        (Death(oom=True, exit_code=0), "killed for memory"),
        (Death(oom=False, exit_code=None), "unknown exit code"),
        (Death(oom=True, exit_code=None), "unknown exit code"),
    ],
)
def test_any_other_death_is_a_lost_sandbox_with_what_is_known(death: Death, told: str) -> None:
    with pytest.raises(SandboxLostError, match=told) as caught:
        box_died(death, LOST, stdout=b"", stderr=b"", wall_seconds=1.0)
    assert caught.value.__cause__ is LOST
    assert caught.value.hint == "try again"
