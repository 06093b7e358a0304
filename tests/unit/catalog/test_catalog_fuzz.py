"""Whatever the bytes: a spec or a SkillLoadError, soon."""

from __future__ import annotations

import time
import unicodedata
from itertools import starmap

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sandbox_skills.catalog import SkillSpec, parse_allowed_tools, parse_skill, yaml_values
from sandbox_skills.catalog.frontmatter import MAX_FILE
from sandbox_skills.catalog.text import one_line, slug
from sandbox_skills.errors import SkillLoadError

PATH = "/skills/sums/SKILL.md"

# Pieces that steer the search to where the parser has to decide.
PIECES = st.sampled_from([
    "---\n", "---", "\n", "\r\n", "name: sums\n", "description: d\n", "description: ", ": ", "- ", "[", "]", "{", "}",
    "&a ", "*a", "!x ", "'", '"', "|\n", ">-\n", "  ", "\t", "#", "%", "@", "\\ud83d\\ude00", "\\x", "\0", "\x85",
    "\u2028", "\ufeff", "\N{FULLWIDTH COLON}", "é", "<<: ", "? ", "...\n", "metadata:\n", "allowed-tools: ", "a: b\n",
])  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=4), max_size=40).map("".join)
FILES = st.binary() | TEXTS.map(lambda text: ("---\n" + text + "\n---\n").encode(errors="surrogatepass"))


def load(contents: str | bytes, path: str = PATH) -> SkillSpec | None:
    try:
        return parse_skill(contents, path, mode="lenient").spec
    except SkillLoadError as error:
        if not error.violations:
            raise AssertionError("an error without a violation") from error
        return None


@given(FILES)
@example("---\nname: \ud7fc\ndescription: d\n---".encode())
@settings(max_examples=500, deadline=None)
def test_any_bytes_give_a_spec_or_a_load_error(contents: bytes) -> None:
    spec = load(contents)
    if spec is not None:
        assert spec.description.strip()
        # Not `isprintable`: a character that is younger than this Python is the author's business.
        assert not {"Cc", "Cf", "Cs", "Zl", "Zp"} & set(map(unicodedata.category, spec.name))
        assert "\0" not in spec.description + spec.body


@given(st.text(alphabet=st.characters(), max_size=200), st.text(alphabet=st.characters(), max_size=40))
@settings(deadline=None)
def test_any_text_and_any_path_do_too(contents: str, path: str) -> None:
    load(contents, path)
    spec = load(f"---\nname: sums\ndescription: d\n---\n{contents}", path)
    assert spec is None or spec.id


@given(TEXTS)
@settings(max_examples=300, deadline=None)
def test_strict_loads_nothing_that_lenient_does_not(text: str) -> None:
    contents = f"---\nname: sums\ndescription: {text}\n---\n"
    try:
        strict = parse_skill(contents, PATH).spec
    except SkillLoadError:
        return
    lenient = load(contents)
    assert lenient is not None
    assert strict == lenient


@given(TEXTS)
@settings(max_examples=200, deadline=None)
def test_the_slow_yaml_reader_never_raises_anything_else_either(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_values, "_LOADER", yaml.BaseLoader)
        load(f"---\nname: sums\ndescription: {text}\n---\n")


@given(st.dictionaries(st.from_regex(r"[a-z][a-z-]{0,8}", fullmatch=True), st.text(max_size=20), max_size=6))
@settings(deadline=None)
def test_both_yaml_readers_agree_on_what_yaml_writes(values: dict[str, str]) -> None:
    written = yaml.safe_dump(values) if values else ""
    fast = yaml_values.read_entries(written)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_values, "_LOADER", yaml.BaseLoader)
        assert yaml_values.read_entries(written) == fast
    assert {entry.key: entry.value for entry in fast} == values


HOSTILE = {
    "brackets": "[" * 65_000,
    "braces": "{a: " * 16_000,
    "dashes": "- " * 30_000,
    "questions": "? " * 30_000,
    "broken keys": "a: b: c\n" * 8_000,
    "few keys, long lines": ("k: x: " + "y" * 600 + "\n") * 100,
    "quotes": "'" * 65_000,
    "spaces": " " * 65_000,
    "line breaks": "\n" * 65_000,
    "fences": "---x\n" * 13_000,
    "indents": "\n".join(" " * n + "a:" for n in range(350)),
    "flow list": "a: [" + "x," * 32_000 + "]",
    "surrogates": "a: " + "\\ud83d\\ude00" * 5_000,
    "colons": ":" * 65_000,
    "combining marks in the name": "name: a" + "\u0316\u0301" * 32_000,
    "anchors": "a: [" + "&a x, " * 10_000 + "]",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_frontmatter_is_done_with_in_two_seconds(text: str) -> None:
    start = time.process_time()
    load(f"---\nname: sums\ndescription: d\n{text}\n---\nBody")
    assert time.process_time() - start < 2


@pytest.mark.parametrize("unit", ["---\n", "--- \t", "---x\n", "\n---", "\r", "\ufeff", "a\n", " "])
def test_four_megabytes_of_anything_are_done_with_in_two_seconds(unit: str) -> None:
    start = time.process_time()
    load(("---\n" + unit * (MAX_FILE // len(unit.encode())))[: MAX_FILE // len(unit.encode())])
    assert time.process_time() - start < 2


@given(st.text(alphabet=st.characters()), st.integers(min_value=1, max_value=80))
def test_one_line_is_one_printable_line_within_its_limit(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert not set(line) & set("\n\r\t\0\x1b\u2028\u202e\u200b")


@given(st.text(alphabet=st.characters()))
def test_a_slug_is_lowercase_words_joined_by_single_hyphens(text: str) -> None:
    made = slug(text)
    assert len(made) <= 64
    assert not made.startswith("-")
    assert not made.endswith("-")
    assert "--" not in made
    assert all(char.isalnum() or char == "-" for char in made)


TOOL = st.tuples(
    st.from_regex(r"[A-Za-z_*]{1,8}", fullmatch=True), st.from_regex(r"[a-z*: ,]{0,8}", fullmatch=True)
)


@given(
    st.lists(TOOL | TOOL.map(lambda tool: (tool[0], None))), st.sampled_from([" ", ",", ", ", " ,\t", "\n"])
)
def test_tools_joined_by_any_separator_come_apart_again(
    tools: list[tuple[str, str | None]], separator: str
) -> None:
    tokens = list(starmap(lambda name, args: name if args is None else f"{name}({args})", tools))
    assert list(parse_allowed_tools(separator.join(tokens))) == tokens
