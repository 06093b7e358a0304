from __future__ import annotations

import pytest

from sandbox_skills.engines.bubblewrap.faults import explained
from sandbox_skills.engines.bubblewrap.launch import Gone
from sandbox_skills.errors import EngineError, EngineUnavailableError, SandboxLostError

LOST = SandboxLostError("sandbox x was lost")


@pytest.mark.parametrize(
    "words",
    [
        "bwrap: Creating new namespace failed: Operation not permitted",
        "bwrap: No permissions to create new namespace, likely because the kernel does not allow it",
        "bwrap: setting up uid map: Permission denied",
        "[Errno 1] Operation not permitted: 'unshare'",
    ],
)
def test_a_host_that_allows_no_namespaces_is_told_with_the_fix(words: str) -> None:
    error = explained(Gone(code=1, words=words), LOST)
    assert isinstance(error, EngineUnavailableError)
    assert words in error.message
    assert "user.max_user_namespaces" in error.hint


def test_other_last_words_are_told_as_they_are() -> None:
    error = explained(Gone(code=1, words="bwrap: Can't mkdir /x\n"), LOST)
    assert type(error) is EngineError
    assert error.message.endswith("bwrap: Can't mkdir /x")


def test_of_a_traceback_its_end_is_told() -> None:
    error = explained(Gone(code=1, words="x" * 4000 + "\nValueError: y"), LOST)
    assert error.message.endswith("ValueError: y")
    assert len(error.message) < 400


def test_without_a_word_the_box_is_lost() -> None:
    assert explained(Gone(known=False), LOST) is LOST
