"""The overview of skills that every prompt has: one line each, the most fitting first where not all fit. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sandbox_skills.catalog.render import render_skill_line, render_skill_name, render_summary_line
from sandbox_skills.spec import KIB

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sandbox_skills.catalog import SkillSpec

MAX_CATALOG = 64 * KIB
"""Characters that tell what skills are for: some 16,000 tokens, 300 skills of the usual length."""

NAME_SCORE, DESCRIPTION_SCORE = 3, 1
"""What a word of the user's counts that a skill has in its name, and in its description."""

HINT_SCORE, HINT_LEAD = 4, 2
"""A skill is worth naming where a word of its name and one more fit, and no other fits half as well."""

SHORTEST_WORD = 3
"""Letters of a word that says anything."""

STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        and any are but can could did does for from get give had has have her him his how into its just let make may
        not now off our out please shall she should some than that the their them then there these they this those
        too use using want was were what when where which who why will with would you your
        """,
    )
)
"""Words of every request, which tell no skill from another."""

MAX_QUERY = 4_000
"""Characters of a request that are looked at: its first page."""

_WORD = re.compile(r"[^\W_]+")


def render_overview(skills: Sequence[SkillSpec], *, query: str = "", limit: int | None = None) -> str:
    """Returns the overview of skills, by name; "" where there is none.

    Beyond `limit` skills only names are told, and then those come first that fit the `query`. Without a cut the text
    stays the same for every query, so that a provider's cache of prompts holds.
    """
    ordered = sorted(skills, key=lambda spec: (spec.name, spec.id))
    if not ordered:
        return ""
    if limit is None or len(ordered) <= limit:
        return "\n".join(["Skills:", *map(render_summary_line, ordered)])
    ranked = rank(ordered, query)
    told, rest = ranked[:limit], sorted(ranked[limit:], key=lambda spec: (spec.name, spec.id))
    header = f"Skills ({len(told)} of {len(ordered)} with what they are for):"
    tail = f"By name only: {', '.join(map(render_skill_name, rest))}"
    return "\n".join([header, *map(render_summary_line, told), tail])


def render_block(skills: Sequence[SkillSpec], *, query: str = "", budget: int = MAX_CATALOG) -> str:
    """Returns the block of a prompt that lists skills, as `catalog.render_skills_block`, within a budget."""
    if not skills:
        return ""
    told, others = within_budget(skills, render_skill_line, query=query, budget=budget)
    tail = [f"- More skills, by name only: {others}"] if others else []
    return "\n".join(["## Available skills", "", *told, *tail])


def within_budget(
    skills: Sequence[SkillSpec],
    tell: Callable[[SkillSpec], str],
    *,
    query: str = "",
    budget: int = MAX_CATALOG,
) -> tuple[list[str], str]:
    """Returns what is told of skills, in their order, and "".

    Where that has more than `budget` characters: of as many as it has room for, those first that fit the `query`,
    and the names of the others.
    """
    texts = {spec.id: tell(spec) for spec in skills}
    if sum(map(len, texts.values())) <= budget:
        return list(texts.values()), ""
    told: list[str] = []
    others: list[str] = []
    for spec in rank(skills, query):
        text = texts[spec.id]
        budget -= len(text)
        if budget >= 0:
            told.append(text)
        else:
            others.append(render_skill_name(spec))
    return told, ", ".join(others)


def render_hint(skills: Sequence[SkillSpec], query: str) -> str:
    """Returns a sentence that names the one skill which clearly fits the query, "" where none does."""
    words = _words(query[:MAX_QUERY])
    scored = sorted(((_score(spec, words), spec.name, spec) for spec in skills), key=lambda row: -row[0])
    if not scored or scored[0][0] < HINT_SCORE:
        return ""
    if len(scored) > 1 and scored[0][0] < HINT_LEAD * scored[1][0]:
        return ""
    return f"The skill {render_skill_name(scored[0][2])} seems to fit this request: load it first."


def rank(skills: Sequence[SkillSpec], query: str) -> list[SkillSpec]:
    """Returns the skills, those first that share words with the query; equal ones stay as they were."""
    words = _words(query[:MAX_QUERY])
    return sorted(skills, key=lambda spec: -_score(spec, words))


def _score(spec: SkillSpec, words: frozenset[str]) -> int:
    if not words:
        return 0
    name, description = _words(spec.name), _words(spec.description)
    return NAME_SCORE * len(words & name) + DESCRIPTION_SCORE * len(words & description)


def _words(text: str) -> frozenset[str]:
    found = (match[0] for match in _WORD.finditer(text.casefold()))
    return frozenset(word for word in found if len(word) >= SHORTEST_WORD and word not in STOP_WORDS)
