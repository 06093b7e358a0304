"""The documents of a skill: its `.md` and `.txt` files, found and read without leaving it. Blocking."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.catalog.resources import MAX_RESOURCE, read_skill_resource
from sandbox_skills.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox_skills.catalog import SkillSpec
    from sandbox_skills.toolsets.workspace_tools.state import Docs

SUFFIXES = frozenset({".md", ".txt"})

SKILL_FILE = "skill.md"
"""No document, at any depth and in any case: it is loaded by itself."""

MAX_DOCS = 1_000
"""Documents that are listed: the largest skill that was found has about as many files."""

LEFT_OUT = "[left out: the documents before it are long enough; select it without them]"

MAX_DOCS_BYTES = 4 * MAX_RESOURCE
"""Of all documents of one skill together, in UTF-8: about 64,000 tokens, which already is a book."""

_MAX_SEEN = 10_000
"""Entries that are looked at: no skill with more files can be staged."""


def list_docs(spec: SkillSpec) -> tuple[str, ...]:
    """Returns the paths of a skill's documents, relative to it and sorted.

    Folders that are hidden or linked are left out, and links to what lies outside or nowhere.
    """
    root = Path(os.path.realpath(spec.dir))
    return tuple(sorted(islice(_docs(root), MAX_DOCS)))


def read_doc(spec: SkillSpec, path: str) -> str | None:
    """Returns a document's text, cut and saying so where it is too long; None where it is none that can be read."""
    if not _is_doc(path):
        return None
    try:
        page = read_skill_resource(spec, path)
    except RequestError:
        return None
    if page.text is None or page.next_offset is None:
        return page.text
    return f"{page.text}\n[cut: the first {MAX_RESOURCE} of {page.size} bytes are here]"


def selected_docs(spec: SkillSpec, docs: Docs) -> dict[str, str | None]:
    """Returns the documents that were selected with their texts, None for one that is not there; sorted by path.

    Where they are too long together, the last ones say that they are left out.
    """
    found: dict[str, str | None] = {}
    left = MAX_DOCS_BYTES
    for name in list_docs(spec) if docs.all else sorted(docs.names):
        text = read_doc(spec, name) if left > 0 else LEFT_OUT
        found[name] = text
        left -= len(text.encode()) if text is not None else 0
    return found


def _docs(root: Path) -> Iterator[str]:
    for path in islice(_files(root), _MAX_SEEN):
        relative = str(path.relative_to(root))
        inside = not path.is_symlink() or root in Path(os.path.realpath(path)).parents
        if _is_doc(relative) and inside and path.is_file():
            yield relative


def _files(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(files))


def _is_doc(path: str) -> bool:
    name = path.rpartition("/")[2].lower()
    return name != SKILL_FILE and os.path.splitext(name)[1] in SUFFIXES  # noqa: PTH122  # a name, and no path
