"""The skills that settings name: found, read, and pinned. Imports no more than `list` needs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.catalog.catalog import LENIENT, Catalog
from sandbox_skills.catalog.lock_file import LockFile
from sandbox_skills.catalog.roots import default_roots, search_order
from sandbox_skills.catalog.skill import SkillRoot
from sandbox_skills.settings import current_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sandbox_skills.catalog.skill import SkillSpec
    from sandbox_skills.install.library import Library
    from sandbox_skills.install.trust import Trust
    from sandbox_skills.settings import Settings

    Review = Callable[[tuple[SkillSpec, ...]], tuple[SkillSpec, ...]]


def catalog(settings: Settings) -> Catalog:
    """Returns the skills of the roots that the user named, of saved tools, and those he added; else also of the usual
    places.

    The user's own usual places count where the settings say so. Skills of those places are only found. Of added ones
    only the pins are his word, so it changes nothing to name their folder.
    """
    chosen, installed = settings.skills, settings.installed_skills()
    saved = settings.tools.save_to
    mine = chosen.roots if saved is None or saved in chosen.roots else (*chosen.roots, saved)
    home = Path.home() if chosen.user_scope else None
    usual = default_roots(current_directory(), home=home)
    roots = search_order(
        [SkillRoot(str(root)) for root in mine if root.resolve() != installed.resolve()],
        SkillRoot(str(installed), named=False, scope="installed"),
        [root for root in usual if root.scope == "user" or not chosen.roots],
        precedence=chosen.precedence,
    )
    return catalog_of(settings, roots)


def catalog_of(settings: Settings, roots: Sequence[SkillRoot]) -> Catalog:
    """Returns the skills of these roots, read and pinned as the settings say."""
    chosen = settings.skills
    options = replace(LENIENT, precedence=chosen.precedence, max_directories=chosen.max_directories)
    return Catalog(roots, options, review=_review(settings))


def _review(settings: Settings) -> Review:
    """Returns what tells which skills are what was pinned; it has nothing to look at while there is no pin."""
    lock = LockFile(settings.lock_file())
    trusted = cache(partial(trust, settings, lock))

    def review(skills: tuple[SkillSpec, ...]) -> tuple[SkillSpec, ...]:
        return trusted().review(skills) if lock.pins() else skills

    return review


def trust(settings: Settings, lock: LockFile | None = None) -> Trust:
    """Returns what the user has accepted."""
    from sandbox_skills.install.trust import Trust  # noqa: PLC0415  # most users pin nothing

    return Trust(lock or LockFile(settings.lock_file()))


def library(settings: Settings) -> Library:
    """Returns the skills that the user added."""
    from sandbox_skills.install.library import Library  # noqa: PLC0415  # httpx is slow to import

    return Library(settings.installed_skills(), trust(settings))
