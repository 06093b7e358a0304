"""What a conversation has loaded: plain text under plain keys, each agent's own. Pure.

A call reads the state and returns what changes; nothing here changes it. For a conversation without an agent's name
the keys are those of the design: `temp:skill:loaded:NAME`, `temp:skill:docs:NAME`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, cast
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Mode = Literal["add", "replace", "clear"]

ARTIFACTS = "temp:skill:artifacts"
"""What the last call has saved: `{tool_call_id, artifacts: [{name, version, ref}]}`."""

SUMMARISED = "temp:conversation:summarised"
COMPACTED = "temp:conversation:compacted"
"""What whoever shortens a history says of it: earlier turns were summarised; results of tools were taken out."""

LOADED = "1"
SHOWN = "shown"
"""Loaded, and to stand in the prompt; or loaded, and has stood there. Either way it may be run."""

ALL_DOCS = "*"


@dataclass(frozen=True, slots=True)
class Docs:
    """The documents that were selected of a skill: some of them, or whatever there is."""

    names: tuple[str, ...] = ()
    all: bool = False


@dataclass(frozen=True, slots=True)
class LoadedSkills:
    """What one agent has loaded, as a conversation's state tells it. `limit` is how many it may have, None any."""

    state: Mapping[str, str]
    agent: str = ""
    limit: int | None = None

    def may_run(self, name: str) -> bool:
        """Tells whether this skill was loaded."""
        return bool(self.state.get(self._loaded(name)))

    def loaded(self) -> tuple[str, ...]:
        """Returns every skill that was loaded, oldest touch first."""
        return self._touched(self._names())

    def shown(self) -> tuple[str, ...]:
        """Returns the skills that stand in the prompt, by name; of too many the last touched."""
        touched = self._touched(name for name in self._names() if self.state[self._loaded(name)] == LOADED)
        return tuple(sorted(touched if self.limit is None else touched[-self.limit :]))

    def docs(self, name: str) -> Docs:
        """Returns the documents that were selected of a skill."""
        text = self.state.get(self._docs(name), "")
        return Docs(all=True) if text == ALL_DOCS else Docs(_texts(text))

    def loading(self, name: str, docs: Sequence[str] | None, *, all_docs: bool) -> dict[str, str]:
        """Returns what changes when a skill is loaded; without docs an earlier selection stays."""
        delta = {self._loaded(name): LOADED}
        if all_docs or docs:
            delta[self._docs(name)] = _spelt(Docs(tuple(docs or ()), all=all_docs))
        return delta | self._touching(name, delta)

    def selecting(
        self, name: str, docs: Sequence[str], *, all_docs: bool, mode: Mode
    ) -> tuple[Docs, dict[str, str]]:
        """Returns the selection that comes of a call, and what changes. All documents stay until they are cleared."""
        now = self.docs(name)
        if mode == "clear":
            chosen = Docs()
        elif all_docs or now.all:
            chosen = Docs(all=True)
        else:
            before = now.names if mode == "add" else ()
            chosen = Docs(tuple(dict.fromkeys((*before, *docs))))
        delta = {self._docs(name): _spelt(chosen)}
        if self.state.get(self._loaded(name)):
            delta[self._loaded(name)] = LOADED
        return chosen, delta | self._touching(name, delta)

    def after(self, delta: Mapping[str, str]) -> LoadedSkills:
        """Returns what is loaded once this has changed."""
        return replace(self, state={**self.state, **delta})

    def dropped(self) -> dict[str, str]:
        """Returns what changes when all that this agent has loaded goes."""
        prefixes = (self._loaded(""), self._docs(""))
        return {key: "" for key in self.state if key.startswith(prefixes) or key == self._order}

    def used(self) -> dict[str, str]:
        """Returns what changes when what is loaded has stood in one request."""
        return {self._loaded(name): SHOWN for name in self.shown()}

    def _names(self) -> list[str]:
        prefix = self._loaded("")
        return [
            key.removeprefix(prefix) for key, value in self.state.items() if key.startswith(prefix) and value
        ]

    def _touched(self, names: Iterable[str]) -> tuple[str, ...]:
        place = {name: number for number, name in enumerate(self._touches())}
        return tuple(sorted(names, key=lambda name: (place.get(name, -1), name)))

    def _touches(self) -> tuple[str, ...]:
        return _texts(self.state.get(self._order, ""))

    def _touching(self, name: str, delta: Mapping[str, str]) -> dict[str, str]:
        """Returns the order with `name` as its newest; of the skills that are too many, the oldest go."""
        order = [*(one for one in self._touches() if one != name), name]
        loaded = self.after({**delta, self._order: json.dumps(order)}).loaded()
        gone = loaded[: -self.limit] if self.limit is not None else ()
        left = [one for one in order if one not in gone]
        return {self._order: json.dumps(left), **{key: "" for one in gone for key in self._keys(one)}}

    def _keys(self, name: str) -> tuple[str, str]:
        return self._loaded(name), self._docs(name)

    def _loaded(self, name: str) -> str:
        return self._key("loaded", name)

    def _docs(self, name: str) -> str:
        return self._key("docs", name)

    def _key(self, kind: str, name: str) -> str:
        if not self.agent:
            return f"temp:skill:{kind}:{name}"
        return f"temp:skill:{kind}_by_agent:{quote(self.agent, safe='')}/{name}"

    @property
    def _order(self) -> str:
        if not self.agent:
            return "temp:skill:loaded_order"
        return f"temp:skill:loaded_order_by_agent:{quote(self.agent, safe='')}"


def _spelt(docs: Docs) -> str:
    return ALL_DOCS if docs.all else json.dumps(docs.names)


def _texts(text: str) -> tuple[str, ...]:
    """Returns the texts of a JSON list; a caller may give back a state that somebody has edited."""
    try:
        found: object = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return ()
    rows = cast("list[object]", found) if isinstance(found, list) else []
    return tuple(row for row in rows if isinstance(row, str))
