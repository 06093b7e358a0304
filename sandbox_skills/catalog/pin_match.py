"""Which pins hold for a skill. Pure.

A stranger writes the name of a skill, and often that of its folder. So a pin holds for whatever goes by a word that
the user might call the pinned skill by, and for whatever lies where it lies: a new name is no way out of it.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeAlias

from sandbox_skills.catalog.parse import skill_id
from sandbox_skills.catalog.text import nfkc

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from sandbox_skills.catalog.pins import Pin

Place: TypeAlias = str | tuple[int, int]
"""A folder by its path, or by its device and inode, which links and other spellings of the path share."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a skill goes by: its own name, the id of its folder, where that lies, and what it was asked for as."""

    name: str
    id: str
    places: Collection[Place]
    asked: str = ""


class PinIndex:
    """Pins by word and by place. Each comes with the places of its folder."""

    def __init__(self, pins: Iterable[tuple[Pin, Collection[Place]]]) -> None:
        self._by_name: defaultdict[str, list[Pin]] = defaultdict(list)
        self._by_id: defaultdict[str, list[Pin]] = defaultdict(list)
        self._by_place: defaultdict[Place, list[Pin]] = defaultdict(list)
        for pin, places in pins:
            self._by_name[fold(pin.name)].append(pin)
            self._by_id[folder_id(pin)].append(pin)
            for place in places:
                self._by_place[place].append(pin)

    def holding(self, claim: Claim) -> tuple[Pin, ...]:
        """Returns the pins whose content the skill must have, all of them; none where nothing is pinned.

        What the user accepted in that folder under that name is his last word on it. Else every pin counts that
        has its place, or that its name, its id or what it was asked for as could mean.
        """
        name, asked = fold(claim.name), fold(claim.asked)
        here = [pin for place in claim.places for pin in self._by_place.get(place, ())]
        exact = [pin for pin in here if fold(pin.name) == name]
        if exact:
            return tuple(dict.fromkeys(exact))
        named = [pin for word in (name, claim.id, asked) for pin in self._by_name.get(word, ())]
        # Not by the id alone: many a folder is called `skill`.
        called = [pin for word in (name, asked) if word for pin in self._by_id.get(word, ())]
        return tuple(dict.fromkeys([*here, *named, *called]))


def pins_called(pins: Iterable[Pin], word: str) -> tuple[Pin, ...]:
    """Returns the pins that `word` means: those of that name, else those whose folder has that id."""
    pins, word = tuple(pins), fold(word)
    return tuple(pin for pin in pins if fold(pin.name) == word) or tuple(
        pin for pin in pins if pin.folder and folder_id(pin) == word
    )


def fold(word: str) -> str:
    """Returns a word as names are compared: what Unicode takes for the same, or differs only in case, is the same."""
    # Its rule for compatibility caseless matching; once is not enough for some Greek and for ligatures.
    canonical = unicodedata.normalize("NFD", word).casefold()
    return nfkc(nfkc(canonical).casefold())


def folder_id(pin: Pin) -> str:
    """Returns the id that the catalog gives to a skill in the folder of the pin; "" where that is unknown."""
    return skill_id(PurePath(pin.folder).name) if pin.folder else ""
