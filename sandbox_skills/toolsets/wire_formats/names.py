"""Names of tools as every provider takes them, and back. Pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox_skills.catalog.tool_spec import MAX_TOOL_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_VALID = re.compile(rf"[a-zA-Z_][a-zA-Z0-9_-]{{0,{MAX_TOOL_NAME - 1}}}")
"""OpenAI, Anthropic and OpenRouter take `[a-zA-Z0-9_-]{1,64}`; Gemini wants a letter or an underscore first."""

_OTHERS = re.compile(r"[^a-zA-Z0-9_-]+")

_SHORTEST_HASH = 8
"""Hex digits behind a spelled name: two of a hundred names share them once in a million sets."""


@dataclass(frozen=True, slots=True)
class ToolNames:
    """A set of names, each with a spelling of its own: itself where providers take it, else readable and hashed.

    The spelling of a name does not depend on the order of the set.
    """

    spelled: Mapping[str, str] = field(default_factory=dict[str, str])
    own: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, names: Iterable[str]) -> ToolNames:
        """Returns the spellings of these names."""
        known = set(names)
        own = {name: name for name in known if _VALID.fullmatch(name)}
        for name in sorted(known - own.keys()):
            own[_spelling(name, own)] = name
        return cls({name: spelling for spelling, name in own.items()}, own)

    def spell(self, name: str) -> str:
        """Returns how providers are told of a name; one that is not in the set is spelled as if it were alone."""
        if name in self.spelled or _VALID.fullmatch(name):
            return self.spelled.get(name, name)
        return _spelling(name, self.own)

    def read(self, spelling: str) -> str:
        """Returns the name that a provider means; what no name is spelled like stays as it is."""
        return self.own.get(spelling, spelling)


def _spelling(name: str, taken: Mapping[str, str]) -> str:
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    stem = _OTHERS.sub("_", name)
    stem = stem if _VALID.match(stem) else f"_{stem}"
    for length in range(_SHORTEST_HASH, MAX_TOOL_NAME - 1):
        spelling = f"{stem[: MAX_TOOL_NAME - length - 1]}_{digest[:length]}"
        if spelling not in taken:
            return spelling
    raise AssertionError(name)  # each length is another spelling: as many names would have to aim at this one
