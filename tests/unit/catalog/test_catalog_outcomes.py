"""What a lenient load makes of each kind of file met in the wild."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_skills.catalog import parse_skill
from sandbox_skills.errors import SkillLoadError

if TYPE_CHECKING:
    from sandbox_skills.catalog import ParsedSkill

BODY = "\n# How\n\nDo it.\n"


def skill(*lines: str, body: str = BODY) -> str:
    return "\n".join(["---", *lines, "---"]) + body


def wide(text: str) -> str:
    """The full-width form, which NFKC folds back."""
    return "".join(chr(ord(char) + 0xFEE0) for char in text)


def load(contents: str | bytes, directory: str = "sums") -> ParsedSkill:
    return parse_skill(contents, f"/skills/{directory}/SKILL.md", mode="lenient")


def codes_of_failure(contents: str | bytes) -> set[str]:
    with pytest.raises(SkillLoadError) as caught:
        load(contents)
    return {getattr(violation, "code", "") for violation in caught.value.violations}


SILENT = {
    "plain": skill("name: sums", "description: Adds."),
    "byte order mark": b"\xef\xbb\xbf" + skill("name: sums", "description: Adds.").encode(),
    "windows line ends": skill("name: sums", "description: Adds.").replace("\n", "\r\n"),
    "spaces behind the fences": "---  \nname: sums\ndescription: Adds.\n---\t \nBody",
    "folded text": skill("name: sums", "description: >-", "  Ad", "  ds."),
    "a comment": skill("# mine", "name: sums # short", "description: Adds."),
    "a flow mapping": "---\n{name: sums, description: Adds.}\n---\nBody",
    "list of tools": skill("name: sums", "description: Adds.", "allowed-tools: [Read, 'Bash(ls:*)']"),
}


@pytest.mark.parametrize("contents", SILENT.values(), ids=SILENT)
def test_sound_files_load_without_a_word(contents: str | bytes) -> None:
    parsed = load(contents)
    assert parsed.warnings == ()
    assert (parsed.spec.name, parsed.spec.id) == ("sums", "sums")


KEPT_TEXT = {
    "colon and space": ("Use when: asked for sums", "Use when: asked for sums"),
    "two colons on lines": ("Use when: a\n  or when: b", "Use when: a or when: b"),
    "at sign": ("@input for views", "@input for views"),
    "bold": ("**Bold** text", "**Bold** text"),
    "star word": ("*important note", "*important note"),
    "ampersand": ("& more", "& more"),
    "backtick": ("`jq` wrapper", "`jq` wrapper"),
    "percent": ("%s formats", "%s formats"),
    "brackets": ("[file] [mode]", "[file] [mode]"),
    "text behind a quote": ('"A" of things', '"A" of things'),
    "unclosed quote": ('"Never ends', "Never ends"),
    "unclosed single quote": ("'Never ends", "Never ends"),
    "backslashes in quotes": (r'"C:\dir\new"', r"C:\dir\new"),
    "quote within quotes": ('"say "hi" now"', '"say "hi" now"'),
    "broken braces": ("{a} and {b}", "{a} and {b}"),
    "wrapped at the margin": ("First part\nsecond part", "First part second part"),
    "list marker": ("- item", "- item"),
    "hash kept": ("Use: C # sharp", "Use: C # sharp"),
    "broken block": ("|\n  one: 1\n bad", "one: 1\nbad"),
    "emoji as two escapes": (r'"sum \ud83d\ude00"', "sum \N{GRINNING FACE}"),
    "half an escape": (r'"sum \ud83d"', r"sum \ud83d"),
}


@pytest.mark.parametrize(("written", "text"), KEPT_TEXT.values(), ids=KEPT_TEXT)
def test_a_broken_description_keeps_its_text(written: str, text: str) -> None:
    parsed = load(skill("name: sums", f"description: {written}", "license: MIT"))
    assert parsed.spec.description == text
    assert parsed.spec.license == "MIT"
    assert parsed.warnings


def test_a_full_width_colon_counts_as_a_colon() -> None:
    assert load(skill("name: sums", "description\N{FULLWIDTH COLON}Adds.")).spec.description == "Adds."


def test_a_missing_space_after_the_colon_is_seen_for_the_two_needed_keys() -> None:
    assert load(skill("name:sums", "description:Adds.")).spec.description == "Adds."


@pytest.mark.parametrize(
    "broken", ['license: "MIT', "metadata:\n  a: b: c", 'metadata: {"a": ', "x: [a,\n  b"]
)
def test_another_broken_key_is_dropped_alone(broken: str) -> None:
    parsed = load(skill("name: sums", broken, "description: Adds."))
    assert (parsed.spec.name, parsed.spec.description) == ("sums", "Adds.")
    assert (parsed.spec.license, dict(parsed.spec.metadata), dict(parsed.spec.extra)) == (None, {}, {})
    assert [warning.code for warning in parsed.warnings] == ["value-dropped"]


def test_a_repair_names_the_key_and_its_place() -> None:
    (warning,) = load(skill("name: sums", "description: Use when: asked")).warnings
    assert (warning.field, warning.line, warning.column) == ("description", 3, 22)
    assert str(warning).startswith("description: is not YAML without quotes")
    assert warning.fix == "Put the value in quotes."


def test_text_above_the_first_key_is_said_to_be_dropped() -> None:
    parsed = load(skill("hello there", "name: sums", "description: Use: it"))
    assert [(w.code, w.line) for w in parsed.warnings] == [("value-dropped", 2), ("value-quoted", 4)]


def test_only_a_whole_line_of_dashes_closes_and_the_first_one_does() -> None:
    spec = load(skill("name: sums", "description: Adds.", body="\nA\n\n---\n\nB\n")).spec
    assert spec.body == "A\n\n---\n\nB"


@pytest.mark.parametrize("rest", ["", "\n\nText\n\n---\n\nMore: *text*"])
def test_a_heading_glued_to_the_closing_fence_starts_the_body(rest: str) -> None:
    parsed = load(f"---\nname: sums\ndescription: Adds.\n---# Title{rest}")
    assert parsed.spec.body == f"# Title{rest}"
    assert [(w.code, w.line) for w in parsed.warnings] == [("frontmatter-glued-fence", 4)]


def test_scalars_stay_the_text_that_was_written() -> None:
    spec = load(
        skill(
            "name: on", "description: 12:30", "metadata: {version: 1.10, day: 2026-13-45}", "license: 0x1F"
        ),
        "on",
    ).spec
    assert (spec.name, spec.description, spec.license) == ("on", "12:30", "0x1F")
    assert dict(spec.metadata) == {"version": "1.10", "day": "2026-13-45"}


def test_a_nested_name_never_wins() -> None:
    spec = load(
        skill("name: sums", "description: Adds.", "metadata:", "  name: other", "  description: no")
    ).spec
    assert (spec.name, spec.description) == ("sums", "Adds.")


@pytest.mark.parametrize("line", ["", "name:", "name: ~", "name: ''", 'name: "\\0"', "name: [a]"])
def test_without_a_name_the_directory_names_the_skill(line: str) -> None:
    assert load(skill(*filter(None, [line]), "description: Adds."), "My Sums").spec.name == "My Sums"


def test_a_name_is_never_an_id() -> None:
    spec = load(skill("name: ../../etc", "description: Adds."), "Evil_Dir").spec
    assert (spec.name, spec.id) == ("../../etc", "evil-dir")


@pytest.mark.parametrize(("directory", "id_"), [("数学", "数学"), ("Été 2", "été-2"), ("--a__b--", "a-b")])
def test_the_id_is_a_slug_of_the_directory(directory: str, id_: str) -> None:
    assert load(skill("name: x", "description: d"), directory).spec.id == id_


def test_a_directory_without_letters_has_an_id_of_its_own() -> None:
    ids = {load(skill("name: x", "description: d"), directory).spec.id for directory in ("___", "+++")}
    assert len(ids) == 2
    assert all(id_.startswith("skill-") for id_ in ids)


def test_unicode_names_load_and_are_normalised() -> None:
    parsed = load(skill(f"name: {wide('sums')}", "description: Adds."))
    assert (parsed.spec.name, parsed.warnings) == ("sums", ())


@pytest.mark.parametrize(
    ("written", "text"),
    [("[a, b]", "a, b"), ("\n  Use when: asked", "Use when: asked"), ("{a: [b]}", '{"a": ["b"]}')],
)
def test_a_description_that_is_not_text_is_written_out(written: str, text: str) -> None:
    assert load(skill("name: sums", f"description: {written}")).spec.description == text


@pytest.mark.parametrize(
    "line", ["", "description:", "description: null", "description: '  '", "description: []"]
)
def test_without_a_description_there_is_no_skill(line: str) -> None:
    assert codes_of_failure(skill("name: sums", *filter(None, [line]))) == {"description-missing"}


def test_metadata_keeps_what_was_written_beside_its_text_view() -> None:
    spec = load(skill("name: sums", "description: d", 'metadata: {a: {bins: ["jq"]}, b: 1}')).spec
    assert dict(spec.metadata) == {"a": '{"bins": ["jq"]}', "b": "1"}
    assert spec.metadata_raw == {"a": {"bins": ("jq",)}, "b": "1"}


@pytest.mark.parametrize("key", ["metadata", "x"])
def test_a_key_that_stands_twice_within_a_value_is_said(key: str) -> None:
    parsed = load(skill("name: sums", "description: d", f"{key}:", "  a: 1", "  b: {c: 1, c: 2}", "  a: 2"))
    assert [(w.code, w.message, w.line) for w in parsed.warnings if w.code == "key-duplicate"] == [
        ("key-duplicate", f"has a key twice; the last one counts: {key}.c", 5)
    ]


def test_metadata_that_is_a_list_is_kept_raw() -> None:
    spec = load(skill("name: sums", "description: d", "metadata: [a]")).spec
    assert (dict(spec.metadata), spec.metadata_raw) == ({}, ("a",))


def test_unknown_keys_are_kept() -> None:
    parsed = load(skill("name: sums", "description: d", "version: 1.0", "argument-hint: '[n]'"))
    assert dict(parsed.spec.extra) == {"version": "1.0", "argument-hint": "[n]"}
    assert parsed.warnings == ()
    assert [note.code for note in parsed.spec.diagnostics] == ["key-unknown"]


def test_a_list_of_tools_keeps_its_items_whole() -> None:
    spec = load(skill("name: sums", "description: d", "allowed-tools: ['Bash(a b)', Read It]")).spec
    assert spec.allowed_tool_tokens == ("Bash(a b)", "Read It")


@pytest.mark.parametrize("lines", [["- Bash(git: x)", "- Read"], ["[Bash(git: x), Read]"]])
def test_a_pattern_that_yaml_takes_for_a_mapping_stays_text_and_is_told(lines: list[str]) -> None:
    parsed = load(skill("name: sums", "description: d", "allowed-tools:", *(f"  {line}" for line in lines)))
    assert parsed.spec.allowed_tool_tokens == ("Bash(git: x)", "Read")
    assert parsed.spec.allowed_tools == "Bash(git: x) Read"
    (warning,) = parsed.warnings
    assert (warning.code, warning.field) == ("value-quoted", "allowed-tools")
    assert warning.message.endswith("taken as text: Bash(git: x)")


@pytest.mark.parametrize(
    "item", ["Read: x", "Bash(git: x", "{'Bash(git': x), b: c}", "{'Bash(git': [x)]}", "[Read]"]
)
def test_any_other_mapping_is_no_tool_and_allows_nothing(item: str) -> None:
    parsed = load(skill("name: sums", "description: d", "allowed-tools:", "  - Read", f"  - {item}"))
    assert (parsed.spec.allowed_tools, parsed.spec.allowed_tool_tokens) == (None, ())
    assert [warning.code for warning in parsed.warnings] == ["allowed-tools-not-text"]


def test_one_star_allows_as_written() -> None:
    assert load(skill("name: sums", "description: d", "allowed-tools: *")).spec.allowed_tool_tokens == ("*",)


REFUSED = {
    "alias bomb": ("a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]", {"yaml-anchor"}),
    "alias": ("a: *b", {"yaml-alias"}),
    "python tag": ("a: !!python/object/apply:os.system ['id']", {"yaml-tag"}),
    "plain tag": ("a: !x y", {"yaml-tag"}),
    "text tag": ("a: !!str y", {"yaml-tag"}),
    "anchor beside a broken line": ("a: &x y\nb: c: d", {"yaml-anchor"}),
    "deep flow": ("a: " + "[" * 21 + "]" * 21, {"yaml-too-deep"}),
    "endless flow": ("a: " + "[" * 60_000, {"yaml-too-deep"}),
    "endless lists": ("a:\n  " + "- " * 30_000 + "x", {"yaml-too-deep"}),
}


@pytest.mark.parametrize(("yaml", "codes"), REFUSED.values(), ids=REFUSED)
def test_yaml_that_reaches_beyond_text_is_refused(yaml: str, codes: set[str]) -> None:
    assert codes_of_failure(skill("name: sums", "description: d", yaml)) == codes


def test_twenty_levels_load() -> None:
    assert load(skill("name: sums", "description: d", "a: " + "[" * 19 + "]" * 19)).spec.name == "sums"


def test_the_two_halves_of_utf16_are_told() -> None:
    text = skill("name: sums", "description: d")
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        assert codes_of_failure(text.encode(encoding)) == {"file-utf16"}


def test_nothing_of_a_spec_can_be_changed() -> None:
    spec = load(skill("name: sums", "description: d", "metadata: {a: b}", "x: {y: [z]}")).spec
    with pytest.raises(AttributeError):
        spec.name = "other"  # type: ignore[misc]
    for mapping in (spec.metadata, spec.extra, spec.extra["x"]):
        with pytest.raises(TypeError):
            mapping["a"] = "c"  # type: ignore[index]
    assert hash(spec) == hash(
        load(skill("name: sums", "description: d", "metadata: {a: b}", "x: {y: [z]}")).spec
    )


@pytest.mark.parametrize("bad", [r'"a\x07b"', r'"a\0b"'])
def test_control_characters_that_an_escape_makes_are_removed(bad: str) -> None:
    parsed = load(skill("name: sums", f"description: {bad}"))
    assert parsed.spec.description == "ab"
    assert [warning.code for warning in parsed.warnings] == ["file-control-characters"]


def test_half_characters_in_a_string_are_replaced() -> None:
    parsed = load(skill("name: sums", "description: a\ud83db"))
    assert parsed.spec.description == "a\N{REPLACEMENT CHARACTER}b"
    assert [(warning.code, warning.line) for warning in parsed.warnings] == [("file-not-utf8", 3)]
