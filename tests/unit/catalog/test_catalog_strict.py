"""The rules of the specification, which strict mode enforces."""

from __future__ import annotations

import pytest

from sandbox_skills.catalog import Diagnostic, parse_skill, parse_skill_file
from sandbox_skills.errors import SkillLoadError

PATH = "/skills/sums/SKILL.md"


def text(*lines: str) -> str:
    return "\n".join(["---", *lines, "---", "Body"])


def violations(contents: str, path: str = PATH) -> list[Diagnostic]:
    with pytest.raises(SkillLoadError) as caught:
        parse_skill(contents, path)
    return [item for item in caught.value.violations if isinstance(item, Diagnostic)]


def codes(contents: str) -> list[str]:
    return [item.code for item in violations(contents)]


def test_every_field_of_a_sound_skill_is_read() -> None:
    spec = parse_skill_file(
        text(
            "name: sums",
            "description: Adds numbers.",
            "license: MIT",
            "compatibility: Python 3.12",
            "metadata: {author: me}",
            "allowed-tools: Read Bash(git:*)",
            "color: red",
        ),
        PATH,
    )
    assert (spec.id, spec.name, spec.description) == ("sums", "sums", "Adds numbers.")
    assert (spec.license, spec.compatibility) == ("MIT", "Python 3.12")
    assert (dict(spec.metadata), dict(spec.extra)) == ({"author": "me"}, {"color": "red"})
    assert (spec.allowed_tools, spec.allowed_tool_tokens) == ("Read Bash(git:*)", ("Read", "Bash(git:*)"))
    assert (spec.body, spec.body_chars, spec.path, spec.dir) == ("Body", 4, PATH, "/skills/sums")
    assert (spec.digest, spec.root, spec.trusted) == (None, None, True)


def test_every_violation_is_raised_at_once() -> None:
    found = violations(text("name: -My--Sums", f"description: {'w' * 1025}", f"compatibility: {'c' * 501}"))
    assert [item.code for item in found] == [
        "name-characters",
        "name-hyphens",
        "name-mismatch",
        "description-length",
        "compatibility-length",
    ]
    assert [item.line for item in found] == [2, 2, 2, 3, 4]


def test_the_message_joins_field_and_message() -> None:
    with pytest.raises(SkillLoadError, match=r"^name: is longer .*; description: is missing or blank\n"):
        parse_skill(text(f"name: {'a' * 65}"), PATH, skip_parent_dir_check=True)


def test_the_error_names_the_file_and_the_first_fix() -> None:
    with pytest.raises(SkillLoadError) as caught:
        parse_skill("# Sums", PATH)
    assert caught.value.path == PATH
    assert caught.value.hint.startswith("Put a block between two --- lines")


@pytest.mark.parametrize("name", ["a", "a" * 64, "a-1-b", "9"])
def test_names_of_the_specification_pass(name: str) -> None:
    assert parse_skill_file(text(f"name: {name}", "description: d"), f"/s/{name}/SKILL.md").name == name


@pytest.mark.parametrize(
    "name",
    [
        "A",
        "a_b",
        "a b",
        "-a",
        "a-",
        "a--b",
        "été",
        "\N{FULLWIDTH LATIN SMALL LETTER S}ums",
        "'a '",
        "a" * 65,
        "../a",
        '"a\\tb"',
        '"a\\0"',
    ],
)
def test_other_names_do_not(name: str) -> None:
    with pytest.raises(SkillLoadError):
        parse_skill(text(f"name: {name}", "description: d"), PATH, skip_parent_dir_check=True)


def test_the_directory_check_can_be_skipped() -> None:
    contents = text("name: other", "description: d")
    assert codes(contents) == ["name-mismatch"]
    assert parse_skill(contents, PATH, skip_parent_dir_check=True).spec.name == "other"


@pytest.mark.parametrize("path", ["SKILL.md", "/SKILL.md"])
def test_without_a_directory_there_is_nothing_to_compare(path: str) -> None:
    assert parse_skill_file(text("name: other", "description: d"), path).id == "other"


def test_longest_texts_of_the_specification_pass() -> None:
    spec = parse_skill_file(
        text("name: sums", f"description: {'d' * 1024}", f"compatibility: {'c' * 500}"), PATH
    )
    assert (len(spec.description), len(spec.compatibility or "")) == (1024, 500)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("metadata: {a: [b]}", "metadata-nested"),
        ("metadata: text", "metadata-not-mapping"),
        ("allowed-tools: {a: b}", "allowed-tools-not-text"),
        ("allowed-tools: [[a]]", "allowed-tools-not-text"),
        ("allowed-tools: ['Bash(git': x)]", "value-quoted"),
        ("license: [MIT]", "license-not-text"),
        ("compatibility: [a]", "compatibility-not-text"),
        ("extra: a: b", "value-quoted"),
        ("name: sums", "key-duplicate"),
    ],
)
def test_what_lenient_mode_forgives_is_a_violation(line: str, code: str) -> None:
    assert codes(text("name: sums", "description: d", line)) == [code]


def test_warnings_that_break_no_rule_do_not_stop_a_strict_load() -> None:
    parsed = parse_skill("---\nname: sums\ndescription: |\n  a <b>\n  c\n---\n", PATH)
    assert [item.code for item in parsed.warnings] == [
        "body-empty",
        "description-multiline",
        "description-markup",
    ]
