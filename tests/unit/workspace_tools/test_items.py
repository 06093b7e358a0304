"""What is put into a model request, whatever a caller's history looks like."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.toolsets.workspace_tools.items import in_results, in_system
from sandbox_skills.toolsets.workspace_tools.state import LoadedSkills

WORDS = st.sampled_from(
    [
        *(
            "role",
            "system",
            "tool",
            "type",
            "function_call",
            "function_call_output",
            "call_id",
            "tool_call_id",
        ),
        *("skill_load", "skill_select_docs", "loaded: a", '{"skill": "a"}', "[" * 2000, "content", "output"),
        *("tool_calls", "function", "id", "name", "a", "b", "text", ""),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=6,
)
ITEMS: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.dictionaries(WORDS, VALUES, max_size=5), max_size=5
)


@given(ITEMS)
def test_no_history_is_too_odd_and_none_is_changed(items: list[dict[str, Any]]) -> None:
    before = copy.deepcopy(items)
    texts = {"a": "A", "b": "B"}
    for out in (in_system(items, "A"), in_results(items, texts)):
        assert len(out) - len(items) in {0, 1}
    assert len(in_results(items, texts, fallback=False)) == len(items)
    assert in_system(items, "") == items
    assert items == before


NAMES = st.text(max_size=5)
STEPS = st.lists(st.tuples(st.sampled_from(["load", "select", "clear", "used"]), NAMES, NAMES), max_size=12)


@given(STEPS, st.integers(1, 3), st.sampled_from(["", "x", "a/b", "a"]))
def test_no_more_than_the_limit_is_loaded_and_the_last_touched_is(
    steps: list[tuple[str, str, str]], limit: int, agent: str
) -> None:
    other = LoadedSkills({}, "other").loading("kept", ["doc"], all_docs=False)
    loaded = LoadedSkills(other, agent, limit)
    for step, name, doc in steps:
        if step == "load":
            loaded = loaded.after(loaded.loading(name, [doc], all_docs=False))
            assert loaded.loaded()[-1] == name
            assert loaded.docs(name).names == (doc,) or loaded.docs(name).all
        elif step == "used":
            loaded = loaded.after(loaded.used())
            assert loaded.shown() == ()
        else:
            mode: Any = "add" if step == "select" else "clear"
            chosen, delta = loaded.selecting(name, [doc], all_docs=False, mode=mode)
            loaded = loaded.after(delta)
            assert loaded.docs(name) == chosen
        assert len(loaded.loaded()) <= limit
    gone = loaded.after(loaded.dropped())
    assert gone.loaded() == ()
    assert {key: value for key, value in gone.state.items() if value} == other
