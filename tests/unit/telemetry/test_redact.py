"""What may be written down of a command."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.telemetry import redact
from sandbox_skills.telemetry.redact import (
    MAX_COMMAND,
    MAX_WORD,
    MAX_WORDS,
    REDACTED,
    SECRET_WORDS,
    redacted_argv,
    redacted_env,
)


@pytest.mark.parametrize(
    "name",
    [
        *("TOKEN", "GITHUB_TOKEN", "client_secret", "DB_PASSWORD", "PGPASSWORD", "API_KEY", "OPENAI_API_KEY"),
        *("AWS_SECRET_ACCESS_KEY", "X_AUTH", "COOKIE", "SENTRY_DSN", "PASSPHRASE", "DEPLOY_KEY"),
    ],
)
def test_variables_with_names_of_secrets_lose_their_values(name: str) -> None:
    assert redacted_env({name: "s3cret", "LANG": "C"}) == {name: REDACTED, "LANG": "C"}


def test_variables_that_were_granted_lose_theirs_whatever_their_name() -> None:
    assert redacted_env({"PLAIN": "x"}, {"PLAIN"}) == {"PLAIN": REDACTED}


@pytest.mark.parametrize(
    "words",
    [
        ("curl", "-H", "Authorization: Bearer s3cret-s3cret"),
        ("tool", "--token", "s3cret-s3cret"),
        ("tool", "--token=s3cret-s3cret"),
        ("tool", "-password", "s3cret-s3cret"),
        ("bash", "-c", "export API_KEY=s3cret-s3cret; tool"),
        ("bash", "-c", "API_KEY='s3cret s3cret' tool"),
        ("bash", "-c", 'tool --client-secret "s3cret-s3cret" x'),
        ("bash", "-c", "curl https://user:s3cret-s3cret@example.org/x"),
        ("bash", "-c", '{"password": "s3cret-s3cret"}'),
        ("bash", "-c", "echo hidden-value"),
    ],
)
def test_secrets_in_a_command_are_replaced_and_the_rest_stays(words: tuple[str, ...]) -> None:
    shown = redacted_argv(words, {"MY_TOKEN": "hidden-value"})
    assert "s3cret" not in " ".join(shown)
    assert "hidden-value" not in " ".join(shown)
    assert REDACTED in " ".join(shown)
    assert (shown[0], len(shown)) == (words[0], len(words))


@pytest.mark.parametrize(
    "words",
    [
        ("python3", "scripts/fib.py", "10"),
        ("bash", "-c", 'for f in out/*; do wc -l "$f"; done > out/n.txt'),
        ("tool", "--token", "--verbose"),
        ("tool", "a=b", "key: value", "https://example.org:80/x"),
    ],
)
def test_a_command_without_secrets_is_shown_as_it_is(words: tuple[str, ...]) -> None:
    assert redacted_argv(words) == words


def test_long_commands_are_cut_and_that_is_said() -> None:
    (word,) = redacted_argv(["x" * (MAX_WORD + 5)])
    assert word.endswith("… 5 more characters")
    assert redacted_argv(["x"] * (MAX_WORDS + 2))[-1] == "… 2 more words"


@given(
    st.lists(st.text(max_size=200), max_size=8), st.dictionaries(st.text(max_size=20), st.text(max_size=50))
)
def test_any_command_can_be_shown(words: list[str], env: dict[str, str]) -> None:
    assert len(redacted_argv(words, env)) == len(words)
    assert redacted_env(env).keys() == env.keys()


pieces = st.sampled_from([*SECRET_WORDS, "Bearer", "--", "://", "@", "=", " ", '"', "a.b-c_1", "x" * 9])


@given(st.lists(pieces, max_size=6).map("".join) | st.text())
def test_what_is_shown_without_a_closer_look_has_nothing_that_would_be_found(word: str) -> None:
    if redact._PLAIN.fullmatch(word):
        assert not any(pattern.search(word) for pattern in redact._PATTERNS)


@given(st.text(alphabet="abcdefghijklmnop0123456789-_", min_size=8, max_size=40))
def test_a_granted_value_is_never_shown(secret: str) -> None:
    words = ("bash", "-c", f"tool {secret}x; echo '{secret}'", secret)
    assert secret not in " ".join(redacted_argv(words, {"V": secret}, {"V"})).replace(REDACTED, " ")


@pytest.mark.parametrize(
    "word",
    [
        "token" * 800,
        "--" + "secret-" * 500,
        "a://" * 1000,
        "auth" * 1000 + "=",
        "pwd:" * 1000,
        "--auth " * 600,
    ],
)
def test_a_hostile_command_is_read_in_a_moment(word: str) -> None:
    started = time.process_time()
    shown = redacted_argv([word] * MAX_WORDS)
    redacted_env({f"V{number}": word for number in range(MAX_WORDS)})
    assert time.process_time() - started < 0.5  # 20 ms on a quiet machine
    assert sum(map(len, shown)) < MAX_COMMAND + 2 * MAX_WORD
