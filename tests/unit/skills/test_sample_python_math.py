"""The sample skill python-math, run as it is on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.skills.conftest import Script


@pytest.mark.parametrize(("n", "expected"), [("0", ""), ("1", "0\n"), ("7", "0\n1\n1\n2\n3\n5\n8\n")])
def test_fib_prints_that_many_numbers(script: Script, n: str, expected: str) -> None:
    done = script("python-math", "fib.py", n)
    assert (done.returncode, done.stdout) == (0, expected)


@pytest.mark.parametrize(
    ("numbers", "expected"), [("1 2 3.5", "6.5"), ("0.1 0.2", "0.3"), ("-5 3", "-2"), ("7", "7")]
)
def test_sum_is_exact(script: Script, numbers: str, expected: str) -> None:
    done = script("python-math", "sum.py", *numbers.split())
    assert (done.returncode, done.stdout) == (0, f"{expected}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("fib.py",),
        ("fib.py", "-1"),
        ("fib.py", "1001"),
        ("fib.py", "ten"),
        ("sum.py",),
        ("sum.py", "nan"),
        ("sum.py", "x"),
        ("sum.py", "1e99", "1e-99"),
    ],
)
def test_bad_input_is_said_on_stderr_with_exit_2(script: Script, arguments: tuple[str, ...]) -> None:
    done = script("python-math", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error:" in done.stderr
