"""What a loaded skill adds to a prompt: its instructions, then the documents that were selected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.catalog.render import render_skill_name
from sandbox_skills.catalog.text import one_line
from sandbox_skills.errors import RequestError
from sandbox_skills.toolsets.bodies import body_of
from sandbox_skills.toolsets.workspace_tools.docs import selected_docs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sandbox_skills.catalog import SkillSpec
    from sandbox_skills.toolsets.offered import OfferedSkills
    from sandbox_skills.toolsets.workspace_tools.state import Docs, LoadedSkills

_MAX_PATH = 256
"""Characters of a document's path that are shown."""


def loaded_texts(skills: OfferedSkills, loaded: LoadedSkills) -> dict[str, str]:
    """Returns the text of each skill that stands in the prompt, by name. Blocking.

    One that is gone or cannot be read any more says so in its place.
    """
    return {name: _text_of(skills, name, loaded.docs(name)) for name in loaded.shown()}


def skill_text(spec: SkillSpec, docs: Docs) -> str:
    """Returns what a skill adds with the documents that were selected; raises SkillLoadError. Blocking."""
    return loaded_text(render_skill_name(spec), body_of(spec), selected_docs(spec, docs))


def loaded_text(name: str, body: str, docs: Mapping[str, str | None]) -> str:
    """Returns what a skill adds. `docs` maps paths to texts, None for a document that is not there. Pure."""
    parts = [f"[Loaded] {name}", body.strip()]
    there = {path: text for path, text in docs.items() if text is not None}
    missing = [path for path, text in docs.items() if text is None]
    if there:
        parts.append(f"Docs loaded: {_listed(there)}")
    if missing:
        parts.append(f"Docs that are not there: {_listed(missing)}")
    parts += [f"[Doc] {one_line(path, _MAX_PATH)}\n\n{text.strip()}" for path, text in there.items()]
    return "\n\n".join(part for part in parts if part)


def _text_of(skills: OfferedSkills, name: str, docs: Docs) -> str:
    try:
        return skill_text(skills.require(name), docs)
    except RequestError as error:
        return f"[Loaded] {one_line(name, _MAX_PATH)}\n\nIt cannot be read any more: {error.message}"


def _listed(paths: Iterable[str]) -> str:
    return ", ".join(one_line(path, _MAX_PATH) for path in paths)
