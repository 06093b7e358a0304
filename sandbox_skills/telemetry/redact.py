"""What of a command may be written down: values of variables and options whose names speak of secrets may not. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

REDACTED = "[redacted]"

SECRET_WORDS = (
    "token",
    "secret",
    "passw",
    "pwd",
    "passphrase",
    "credential",
    "auth",
    "apikey",
    "api_key",
    "api-key",
    "access_key",
    "access-key",
    "private_key",
    "private-key",
    "signing_key",
    "session_key",
    "cookie",
    "bearer",
    "dsn",
)
"""Parts of names whose values are secret more often than not. A name too many costs a word in a record."""

MAX_WORD = 4096
"""Characters kept of one word: most shell lines whole, and a program pasted as an argument by its beginning."""

MAX_WORDS = 256
"""Words kept of one command; `make` with every file of a tree has more, and they tell nothing."""

MIN_SECRET = 4
"""Characters of a value that is looked for in the command: a shorter one is part of too many words."""

_NAME = rf"[\w.-]*(?:{'|'.join(SECRET_WORDS)})[\w.-]*"
_ASSIGNED = re.compile(
    rf"(?P<name>(?<![\w.-]){_NAME}\s?[=:]\s?)(?P<value>\"[^\"]*\"|'[^']*'|[^\s\"';&|]+)", re.IGNORECASE
)
_OPTION = re.compile(rf"--?{_NAME}", re.IGNORECASE)
_OPTION_IN_TEXT = re.compile(
    rf"(?P<name>(?<!\S)--?{_NAME}\s+)(?P<value>\"[^\"]*\"|'[^']*'|[^\s\"';&|-][^\s\"';&|]*)", re.IGNORECASE
)
_SCHEME = re.compile(r"\b(?P<name>Bearer|Basic)\s+(?P<value>[\w.~+/=-]{8,})", re.IGNORECASE)
_LOGIN = re.compile(r"(?P<name>\b[a-z][a-z0-9+.-]{0,20}://[^\s/:@]*:)(?P<value>[^\s/@]+)(?=@)", re.IGNORECASE)


def is_secret_name(name: str, secret_names: Collection[str] = ()) -> bool:
    """Tells whether the value of a variable or option of that name is not to be written down."""
    return name in secret_names or any(word in name.lower() for word in SECRET_WORDS) or name.endswith("_KEY")


def redacted_env(env: Mapping[str, str], secret_names: Collection[str] = ()) -> dict[str, str]:
    """Returns variables with the values of secret ones replaced, and long ones cut."""
    return {
        name: REDACTED if is_secret_name(name, secret_names) else _redacted_text(_cut(value), ())
        for name, value in env.items()
    }


def redacted_argv(
    argv: Sequence[str], env: Mapping[str, str] | None = None, secret_names: Collection[str] = ()
) -> tuple[str, ...]:
    """Returns a command with values of secret options and assignments replaced, and secret values of `env`."""
    given = (env or {}).items()
    secrets = [
        value for name, value in given if len(value) >= MIN_SECRET and is_secret_name(name, secret_names)
    ]
    words: list[str] = []
    after_secret_option = False
    for word in argv[:MAX_WORDS]:
        hidden = after_secret_option and not word.startswith("-")
        words.append(REDACTED if hidden else _redacted_text(_cut(word), secrets))
        after_secret_option = _OPTION.fullmatch(word) is not None
    left = len(argv) - MAX_WORDS
    return (*words, f"… {left} more words") if left > 0 else tuple(words)


def _redacted_text(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    for pattern in (_SCHEME, _ASSIGNED, _OPTION_IN_TEXT, _LOGIN):
        text = pattern.sub(
            rf"\g<name>{REDACTED}" if pattern is not _SCHEME else rf"\g<name> {REDACTED}", text
        )
    return text


def _cut(text: str) -> str:
    return text if len(text) <= MAX_WORD else f"{text[:MAX_WORD]}… {len(text) - MAX_WORD} more characters"
