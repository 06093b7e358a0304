"""What a text costs beside its parts, whichever tokenizer a model has: none can be had without a network.

Tokenizers of today split a text into words, numbers, runs of punctuation and of space, and then those into pieces
that they know. So the coarsest there could be has one token for each of the first, and the finest one for each byte.
Layout, which is short and common, weighs most for the coarsest; what is escaped weighs most for the finest.
"""

from __future__ import annotations

import itertools
import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_WORDS = re.compile(r" ?[^\W\d_]+| ?\d{1,3}| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


_WORDS_TOLD = "Reads tables of several kinds, checks what is in them and draws it."
_MEDIAN = (0.5, 189.0)
_LONG = (0.99, 795.0)


def by_words(text: str) -> int:
    """The fewest tokens that a text can have."""
    return len(_WORDS.findall(text))


def by_bytes(text: str) -> int:
    """The most tokens that a text can have."""
    return len(text.encode())


def ratio(text: str, parts: Collection[str]) -> float:
    """Returns how many times the tokens of its parts a text has, for the tokenizer of the two that it suits worse."""
    return max(count(text) / sum(map(count, parts)) for count in (by_words, by_bytes))


def published_descriptions(count: int) -> list[str]:
    """Returns descriptions as long as those of skills that people have published.

    Half of them have less than 189 characters, one in a hundred more than 795.
    """
    words = itertools.cycle(_WORDS_TOLD.split(" "))
    return [_sentence(words, _length((number + 0.5) / count)) for number in range(count)]


def _length(rank: float) -> float:
    """Returns the length at a rank, between a shortest of 60 and the two that were counted."""
    if rank < _MEDIAN[0]:
        return 60 + rank / _MEDIAN[0] * (_MEDIAN[1] - 60)
    beyond = (rank - _MEDIAN[0]) / (_LONG[0] - _MEDIAN[0])
    return _MEDIAN[1] * math.pow(_LONG[1] / _MEDIAN[1], beyond)


def _sentence(words: Iterator[str], length: float) -> str:
    text = next(words)
    while len(text) < length:
        text += f" {next(words)}"
    return text
