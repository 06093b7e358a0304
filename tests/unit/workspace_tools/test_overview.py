"""The overview of skills: short, escaped, the fitting ones first where not all fit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.catalog import SkillSpec
from sandbox_skills.toolsets.overview import rank, render_hint, render_overview
from tests.token_counts import published_descriptions, ratio

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from tests.unit.workspace_tools.conftest import World

    OpenWorld = Callable[..., AbstractAsyncContextManager[World]]

TEXT = st.text(alphabet=st.characters(codec="utf-8", exclude_characters=""), max_size=60)


def skill(name: str, description: str = "Does things.") -> SkillSpec:
    return SkillSpec(name.lower(), name, description, "/x/SKILL.md", "/x")


FIVE = [
    skill("b", "Joins tables."),
    skill("a"),
    skill("e"),
    skill("d", "Reads invoices."),
    skill("invoice-pdf"),
]


def test_each_skill_is_one_line_by_name() -> None:
    assert render_overview(FIVE[:2]) == "Skills:\n- a: Does things.\n- b: Joins tables."
    assert render_overview([]) == ""


def test_beyond_the_cap_there_are_names_only_and_that_is_said() -> None:
    assert render_overview(FIVE, limit=2) == (
        "Skills (2 of 5 with what they are for):\n- a: Does things.\n- b: Joins tables.\n"
        "By name only: d, e, invoice-pdf"
    )
    assert render_overview(FIVE, limit=5) == render_overview(FIVE)


def test_what_fits_the_request_comes_before_the_cap_and_only_then_counts() -> None:
    query = "Please read these invoices and the PDF of an invoice"
    told = render_overview(FIVE, query=query, limit=2)
    assert re.findall(r"^- ([\w-]+):", told, re.MULTILINE) == ["invoice-pdf", "d"]
    assert told.endswith("By name only: a, b, e")
    assert render_overview(FIVE, query=query) == render_overview(FIVE)


def test_names_count_three_times_what_descriptions_do_and_equal_ones_stay() -> None:
    skills = [skill("x", "tables"), skill("tables"), skill("y", "tables"), skill("z")]
    assert [one.name for one in rank(skills, "the tables")] == ["tables", "x", "y", "z"]
    assert rank(skills, "the to of") == skills


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("fill the pdf of an invoice", True),
        ("invoice", False),
        ("read this", False),
        ("", False),
    ],
)
def test_a_skill_that_clearly_fits_is_named(query: str, *, named: bool) -> None:
    hint = render_hint(FIVE, query)
    assert hint == ("The skill invoice-pdf seems to fit this request: load it first." if named else "")


def test_no_skill_is_named_where_another_fits_half_as_well() -> None:
    both = [skill("pdf-forms", "Fills forms."), skill("pdf-reader", "Reads forms.")]
    assert render_hint(both, "fill the pdf forms please") == ""
    assert render_hint([], "fill the pdf forms please") == ""


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=6), st.integers(1, 6), TEXT)
def test_no_name_or_description_makes_a_line_of_its_own_or_markup(
    texts: list[tuple[str, str]], limit: int, query: str
) -> None:
    skills = [skill(f"n{name}", description) for name, description in texts]
    lines = render_overview(skills, query=query, limit=limit).split("\n")
    told = min(limit, len(skills))
    assert len(lines) == 1 + told + (len(skills) > limit)
    assert all(line.startswith("- n") for line in lines[1 : 1 + told])
    assert not set("<>") & set("".join(lines) + render_hint(skills, query))


def test_fifty_skills_cost_little_more_than_what_they_say() -> None:
    skills = [skill(f"skill-{n}", text) for n, text in enumerate(published_descriptions(50))]
    parts = [part for one in skills for part in (one.name, one.description)]
    assert ratio(render_overview(skills), parts) <= 1.1


class TestThePrompt:
    async def told(self, world: World, query: str = "") -> str:
        return world.toolset.prompt(world.conversation, query=query)

    @pytest.mark.anyio
    async def test_it_is_the_overview_then_how_to_use_the_tools_then_a_hint(self, world: World) -> None:
        overview, said, hint = (await self.told(world, "join csv tables with tools")).split("\n\n")
        assert overview.startswith("Skills:\n- csv-tools: Reads and joins CSV tables.\n- pdf-tools:")
        assert said.startswith("Using skills:\n- ")
        assert "csv-tools" in hint
        assert "The body of" not in overview + said

    @pytest.mark.anyio
    async def test_it_speaks_of_no_tool_that_is_not_offered(self, open_world: OpenWorld) -> None:
        chosen: list[dict[str, object]] = [
            {},
            {"profile": "knowledge_only"},
            {"allowed": {"skill_load"}},
            {"allowed": {"skill_run"}},
            {"allowed": {"workspace_exec"}},
            {"saves": False},
        ]
        for options in chosen:
            async with open_world(**options) as world:
                offered = {tool.name for tool in world.toolset.tools()}
                named = set(re.findall(r"\b(?:skill|workspace)_\w+", await self.told(world)))
                assert named <= offered, options

    @pytest.mark.anyio
    async def test_the_operators_own_words_stand_in_its_place(self, open_world: OpenWorld) -> None:
        async with open_world(guidance="Be brief.") as world:
            assert (await self.told(world)).endswith("\n\nBe brief.")
        async with open_world(guidance="") as world:
            assert (await self.told(world)).endswith("of a city.")
