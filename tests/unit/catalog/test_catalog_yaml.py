"""The corner of YAML that is read, the same with either of PyYAML's readers."""

from __future__ import annotations

import pytest
import yaml

from sandbox_skills.catalog import Rule, yaml_values
from sandbox_skills.catalog.yaml_values import Entry, RefusedYamlError, YamlError, read_entries


@pytest.fixture(params=["CBaseLoader", "BaseLoader"], autouse=True)
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_values, "_LOADER", getattr(yaml, request.param))


def test_entries_know_their_places_and_which_are_null() -> None:
    assert read_entries("a: 1\nb:\n  c: [d, ~]\ne: ~\nf: '~'\n") == [
        Entry("a", "1", 0, 3),
        Entry("b", {"c": ("d", "~")}, 2, 2),
        Entry("e", "~", 3, 3, null=True),
        Entry("f", "~", 4, 3),
    ]


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n"])
def test_nothing_has_no_entries(text: str) -> None:
    assert read_entries(text) == []


def test_duplicates_are_kept_for_the_caller_to_judge() -> None:
    assert [entry.value for entry in read_entries("a: 1\na: 2")] == ["1", "2"]


def test_merge_keys_mean_nothing() -> None:
    assert read_entries("<<: {a: b}")[0].key == "<<"


@pytest.mark.parametrize(
    ("text", "line"),
    [("a: b: c", 0), ("a: 'b", 0), ("a: b\n...\n---\nc: d", 2), ("a: b\n? [x]\n: y", 1), ("a: \x07", 0)],
)
def test_what_is_not_one_mapping_of_texts_is_an_error_with_its_line(text: str, line: int) -> None:
    with pytest.raises(YamlError) as caught:
        read_entries(text)
    assert (caught.value.rule, caught.value.line) == (Rule.YAML_INVALID, line)
    assert caught.value.problem
    assert "\n" not in caught.value.problem


def test_half_a_character_is_an_error() -> None:
    with pytest.raises(YamlError):
        read_entries(r'a: "\ud83d"')


@pytest.mark.parametrize("text", ["- a", "just text", "[a, b]", "'a'"])
def test_what_is_no_mapping_is_told_apart(text: str) -> None:
    with pytest.raises(YamlError) as caught:
        read_entries(text)
    assert caught.value.rule is Rule.YAML_NOT_MAPPING


@pytest.mark.parametrize(
    ("text", "rule", "place"),
    [
        ("a: *b", Rule.YAML_ALIAS, (0, 3)),
        ("a: &b c", Rule.YAML_ANCHOR, (0, 3)),
        ("a: [&b [x]]", Rule.YAML_ANCHOR, (0, 4)),
        ("a: !b c", Rule.YAML_TAG, (0, 3)),
        ("a:\n  !!map {b: c}", Rule.YAML_TAG, (1, 2)),
        ("!x a: b", Rule.YAML_TAG, (0, 0)),
        ("--- !x\na: b", Rule.YAML_TAG, (0, 4)),
        ("a: " + "[" * 20 + "]" * 20, Rule.YAML_TOO_DEEP, (0, 22)),
    ],
)
def test_more_than_text_is_refused_with_its_place(text: str, rule: Rule, place: tuple[int, int]) -> None:
    with pytest.raises(RefusedYamlError) as caught:
        read_entries(text)
    assert caught.value.rule is rule
    assert (caught.value.line, caught.value.column) == place


def test_depth_beyond_the_readers_own_limit_is_refused_too() -> None:
    with pytest.raises(RefusedYamlError) as caught:
        read_entries("a: " + "[" * 30_000)
    assert caught.value.rule is Rule.YAML_TOO_DEEP


@pytest.mark.parametrize("text", ["a: *b c", "a: [*b", "a: &b c\nd: e: f"])
def test_a_slip_is_a_slip_before_it_is_a_refusal(text: str) -> None:
    with pytest.raises(YamlError) as caught:
        read_entries(text)
    assert not isinstance(caught.value, RefusedYamlError)
