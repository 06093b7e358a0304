"""Skills that were staged before and have not changed: told by the status of their files alone, in microseconds."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from sandbox_skills.workspace import skill_digest
from sandbox_skills.workspace.skill_tree import status_stamp

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.workspace.skill_tree import SkillTree

T = TypeVar("T")

QUICK_SECONDS = 0.001
"""What a look may take to be worth doing on the event loop: a visit to a thread costs half of it."""

Stamps = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class _Known(Generic[T]):
    value: T
    stamps: Stamps


class StagedBefore(Generic[T]):
    """What was made of each skill folder, as long as neither it nor anything in it changes; safe for threads.

    A folder on a slow disk, or with many files, is not kept: a look at it belongs in a thread.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Path, str], _Known[T]] = OrderedDict()
        self._lock = threading.Lock()

    def look(self, skill_dir: Path, tenant: str) -> T | None:
        """Returns what was kept, None where there is nothing or something has changed."""
        with self._lock:
            known = self._known.get((skill_dir, tenant))
        return known.value if known is not None and _same(known.stamps) else None

    def keep(
        self, skill_dir: Path, tenant: str, root: os.stat_result, tree: SkillTree, scanned_ns: int, value: T
    ) -> None:
        """Keeps `value` for the folder whose status was `root` before the scan at `scanned_ns` that saw `tree`."""
        stamps = _stamps(skill_dir, root, tree)
        # A folder too: what changed just before the scan may change again under the same time.
        settled = max(stamp[-1] for _, stamp in stamps) + skill_digest.SETTLED_NS < scanned_ns
        if not settled or not _quick(stamps):
            return
        with self._lock:
            self._known[skill_dir, tenant] = _Known(value, stamps)
            self._known.move_to_end((skill_dir, tenant))
            while len(self._known) > skill_digest.REMEMBERED:
                self._known.popitem(last=False)


def _stamps(skill_dir: Path, root: os.stat_result, tree: SkillTree) -> Stamps:
    # Links have none: their folder's changes when one is replaced.
    below = ((f"{skill_dir}/{entry.path}", entry.stamp) for entry in tree.entries if entry.stamp)
    return ((str(skill_dir), status_stamp(root)), *below)


def _same(stamps: Stamps) -> bool:
    try:
        return all(status_stamp(os.lstat(path)) == stamp for path, stamp in stamps)
    except OSError:
        return False


def _quick(stamps: Stamps) -> bool:
    started = time.perf_counter()
    return _same(stamps) and time.perf_counter() - started < QUICK_SECONDS
