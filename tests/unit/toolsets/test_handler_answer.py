"""What a run of a handler comes to, whatever the box says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.spec import Ending, Exited, Outcome, Signalled, Stopped
from sandbox_skills.toolsets.handler_answer import MAX_DEPTH, MAX_RESULT, handler_answer
from sandbox_skills.workspace.hints import hints
from sandbox_skills.workspace.result import RunResult

if TYPE_CHECKING:
    from sandbox_skills.spec import StopReason
    from sandbox_skills.toolsets.base import ToolResult

DONE = Exited(0)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)  # fmt: skip


def answer(
    stdout: str | bytes = "", stderr: str = "", ending: Ending = DONE, *, cut: bool = False
) -> ToolResult:
    data = stdout if isinstance(stdout, bytes) else stdout.encode()
    outcome = Outcome(
        ending,
        stdout=data,
        stdout_bytes=len(data) + cut,
        stdout_truncated=cut,
        stderr=stderr.encode(),
        wall_seconds=30.01,
    )
    return handler_answer(RunResult("r", "s", "d", outcome, hints=hints(outcome)))


def error(result: ToolResult) -> str:
    assert result.is_error
    assert result.status == "ok"
    assert isinstance(result.content, dict)
    assert list(result.content) == ["error"]
    return str(result.content["error"])


class TestResult:
    @given(JSON)
    def test_any_json_value_comes_back(self, value: object) -> None:
        result = answer(json.dumps(value))
        assert (result.content, result.is_error, result.code) == (value, False, "")

    def test_a_returned_error_is_the_handlers_word_and_no_failure_of_it(self) -> None:
        result = answer('{"error": "no such city"}')
        assert (result.content, result.is_error) == ({"error": "no such city"}, False)

    @pytest.mark.parametrize("stray", ["Loading…\n", '{"progress": 1}\n', "[1]\n\n", "{\n", "\ufeff"])
    @pytest.mark.parametrize("indent", [None, 2])
    def test_the_last_value_counts_where_a_script_prints_more(self, stray: str, indent: int | None) -> None:
        assert answer(stray + json.dumps({"a": [1, {"b": 2}]}, indent=indent) + "\n\n").content == {
            "a": [1, {"b": 2}]
        }

    def test_half_a_character_becomes_one_that_can_be_sent(self) -> None:
        result = answer('{"a\\ud800": "\\udfff", "whole": "\\ud83d\\ude00"}')
        assert result.content == {"a\ufffd": "\ufffd", "whole": "\N{GRINNING FACE}"}
        result.text.encode()

    def test_a_deep_value_is_taken_and_a_bottomless_one_is_told(self) -> None:
        assert not answer("[" * MAX_DEPTH + "]" * MAX_DEPTH).is_error
        deep = answer("[" * 20_000 + "]" * 20_000)
        assert (error(deep)[:50], deep.code) == (
            "the result is no JSON (the limit is 128 levels): [",
            "result_invalid",
        )

    @pytest.mark.parametrize("text", ["NaN", "[1, Infinity]", '{"a": -Infinity}', "1e999", "9" * 5000])
    def test_numbers_that_json_does_not_have_are_told(self, text: str) -> None:
        assert error(answer(text)).startswith("the result is no JSON (")

    @pytest.mark.parametrize("text", ["hello", "{'a': 1}", "<b>\n</b>", '{"a": 1} trailing', "\x00\x1b[31m"])
    def test_what_is_no_json_is_told_with_its_beginning(self, text: str) -> None:
        told = error(answer(text))
        assert told.startswith("the result is no JSON (")
        assert told.isprintable()

    def test_bytes_that_are_no_text_are_told(self) -> None:
        assert error(answer(b"\xff\xfe")).startswith("the result is no JSON")

    @pytest.mark.parametrize("text", ["", " \n"])
    def test_a_handler_that_ended_without_a_result_is_told(self, text: str) -> None:
        assert error(answer(text)) == "the handler ended without a result"

    def test_a_huge_result_is_told_with_its_size_and_the_way_out(self) -> None:
        exact = json.dumps("x" * (MAX_RESULT - 2))
        assert not answer(exact).is_error
        assert "65,537 bytes, more than 65,536" in error(answer(exact + " "))
        assert "below __workDir" in error(answer("[1]", cut=True))


class TestFailure:
    def test_the_handlers_own_message_counts(self) -> None:
        result = answer('{"error": " ValueError: no "}', "noise", Exited(1))
        assert (error(result), result.code) == ("ValueError: no", "execution_failed")

    @pytest.mark.parametrize(
        "stdout", ["", "text", "[1]", '{"error": 3}', '{"error": " "}', '{"failed": "x"}']
    )
    def test_else_the_last_line_of_its_stderr(self, stdout: str) -> None:
        trace = "Traceback (most recent call last):\n  File x\nKeyError: 'city'\n\n"
        assert error(answer(stdout, trace, Exited(3))) == "KeyError: 'city'"

    def test_else_its_exit_status(self) -> None:
        assert error(answer("", "\n", Exited(3))) == "the handler ended with exit status 3"

    def test_a_signal_is_named(self) -> None:
        assert error(answer('{"a": 1}', "", Signalled(11))) == "the handler was ended by signal 11"

    @pytest.mark.parametrize(
        ("reason", "code"),
        [
            ("wall_time", "execution_timeout"),
            ("cpu_time", "execution_timeout"),
            ("memory", "execution_failed"),
            ("output", "execution_failed"),
            ("cancelled", "execution_failed"),
        ],
    )
    def test_a_handler_that_was_stopped_has_no_result_whatever_it_printed(
        self, reason: StopReason, code: str
    ) -> None:
        result = answer('{"a": 1}', "", Stopped(reason))
        assert error(result).startswith("the handler was stopped: ")
        assert result.code == code

    def test_the_time_that_it_had_is_told(self) -> None:
        assert error(answer("", "", Stopped("wall_time"))) == (
            "the handler was stopped: it took longer than the 30 s that it may."
        )

    def test_advice_follows_a_failure_that_is_known(self) -> None:
        line = "ModuleNotFoundError: No module named 'pandas'"
        told = error(answer(json.dumps({"error": line}), line, Exited(1)))
        assert told.startswith(f"{line} This module or package is not in the sandbox")

    def test_a_long_message_is_cut_and_a_broken_one_can_be_sent(self) -> None:
        told = error(answer(json.dumps({"error": "\ud800" + "x" * 10_000}), "", Exited(1)))
        assert (told[:2], told[-1], len(told)) == ("\ufffdx", "…", 2000)
