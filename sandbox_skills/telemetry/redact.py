"""What of a command may be written down: values of variables and options whose names speak of secrets may not. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sandbox_skills.spec import KIB

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

MAX_COMMAND = 16 * KIB
"""Characters kept of all words, or of all variables: an event is a line that people read."""

MIN_SECRET = 4
"""Characters of a value that is looked for in the command: a shorter one is part of too many words."""

# What stands around the word that speaks of a secret is bounded, so that a hostile command is read in a moment.
_WORD = rf"(?:{'|'.join(SECRET_WORDS)})[\w.-]{{0,64}}"
_VALUE = r"(?P<value>\"[^\"]*\"|'[^']*'|[^\s\"';&|]+)"
_OPTION = rf"--?[\w.-]{{0,64}}?{_WORD}"
_SECRET_OPTION = re.compile(_OPTION, re.IGNORECASE)
_PLAIN = re.compile(r"[^\s=:]*")
"""What none of the patterns fits, which is most words of most commands: each needs a space, `=` or `:` between two."""

_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?P<name>\b(?:Bearer|Basic)\s)(?P<value>[\w.~+/=-]{8,})",
        rf"(?P<name>{_WORD}[\"']?\s?[=:]\s?){_VALUE}",
        rf"(?P<name>(?<!\S){_OPTION}\s)(?!-){_VALUE}",
        r"(?P<name>://[^\s/:@]{0,64}:)(?P<value>[^\s/@]{1,256})(?=@)",
    )
)


def is_secret_name(name: str, secret_names: Collection[str] = ()) -> bool:
    """Tells whether the value of a variable or option of that name is not to be written down."""
    return name in secret_names or any(word in name.lower() for word in SECRET_WORDS) or name.endswith("_KEY")


def redacted_env(env: Mapping[str, str], secret_names: Collection[str] = ()) -> dict[str, str]:
    """Returns variables with the values of secret ones replaced, and others cut where they are long or many."""
    shown: dict[str, str] = {}
    room = MAX_COMMAND
    for name, value in env.items():
        secret = is_secret_name(name, secret_names)
        shown[name] = REDACTED if secret else _redacted(value, (), min(MAX_WORD, max(0, room)))
        room -= len(shown[name])
    return shown


def redacted_argv(
    argv: Sequence[str], env: Mapping[str, str] | None = None, secret_names: Collection[str] = ()
) -> tuple[str, ...]:
    """Returns a command with values of secret options and assignments replaced, and secret values of `env`."""
    given = (env or {}).items()
    secrets = [
        value for name, value in given if len(value) >= MIN_SECRET and is_secret_name(name, secret_names)
    ]
    words: list[str] = []
    room = MAX_COMMAND
    after_secret_option = False
    for word in argv[:MAX_WORDS]:
        if room <= 0:
            break
        hidden = after_secret_option and not word.startswith("-")
        words.append(REDACTED if hidden else _redacted(word, secrets, MAX_WORD))
        room -= len(words[-1])
        after_secret_option = _SECRET_OPTION.fullmatch(word[:MAX_WORD]) is not None
    left = len(argv) - len(words)
    return (*words, f"… {left} more words") if left > 0 else tuple(words)


def _redacted(text: str, secrets: Sequence[str], most: int) -> str:
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    if len(text) > most:
        text = f"{text[:most]}… {len(text) - most} more characters"
    if _PLAIN.fullmatch(text):
        return text
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\g<name>{REDACTED}", text)
    return text
