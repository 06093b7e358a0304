"""The table of codes: each can happen, each happens where it should, none is said twice."""

from __future__ import annotations

import re

import pytest

from sandbox_skills.catalog import Diagnostic, ParseOptions, Rule, Severity, check_skill

GOOD = ("name: sums", "description: Adds.")


def skill(*lines: str, body: str = "Body") -> str:
    return "\n".join(["---", *lines, "---", body])


BY_CODE: dict[str, str | bytes] = {
    "file-too-large": b"x" * (4 * 1024 * 1024 + 1),
    "file-empty": b" \n",
    "file-utf16": skill(*GOOD).encode("utf-16"),
    "file-link-as-text": b"../common/sums/SKILL.md\n",
    "file-not-utf8": skill("name: sums", "description: caf@").encode().replace(b"@", b"\xe9"),
    "file-control-characters": skill("name: sums", "description: a\x07b"),
    "frontmatter-heading-first": "# Sums\n\nText",
    "frontmatter-in-code-block": "```yaml\n" + skill(*GOOD) + "\n```",
    "frontmatter-missing": "Just text here.",
    "frontmatter-unclosed": "---\nname: sums\ndescription: d\n\n# Title",
    "frontmatter-too-large": "---\n" + "a: b\n" * 20_000 + "---\n",
    "frontmatter-leading-blank": "\n\n" + skill(*GOOD),
    "frontmatter-glued-fence": "---\nname: sums\ndescription: d\n---# Title",
    "yaml-invalid": skill(*GOOD, *(f"k{n}: a: b" for n in range(300))),
    "yaml-not-mapping": skill("- a", "- b"),
    "yaml-alias": skill(*GOOD, "a: *b"),
    "yaml-anchor": skill(*GOOD, "a: &b c"),
    "yaml-tag": skill(*GOOD, "a: !b c"),
    "yaml-too-deep": skill(*GOOD, "a: " + "[" * 30 + "]" * 30),
    "key-duplicate": skill(*GOOD, "name: sums"),
    "key-unknown": skill(*GOOD, "color: red"),
    "value-quoted": skill("name: sums", "description: Use: it"),
    "value-recovered": skill("name: sums", 'description: "Adds'),
    "value-dropped": skill(*GOOD, 'license: "MIT'),
    "value-surrogate-escapes": skill("name: sums", r'description: "\ud83d\ude00"'),
    "name-missing": skill("description: d"),
    "name-not-text": skill("name: [a]", "description: d"),
    "name-length": skill(f"name: {'a' * 65}", "description: d"),
    "name-characters": skill("name: My Sums", "description: d"),
    "name-not-ascii": skill("name: été", "description: d"),
    "name-hyphens": skill("name: a--b", "description: d"),
    "name-mismatch": skill("name: other", "description: d"),
    "description-missing": skill("name: sums"),
    "description-not-text": skill("name: sums", "description: [a]"),
    "description-length": skill("name: sums", f"description: {'w' * 1025}"),
    "description-multiline": skill("name: sums", "description: |", "  a", "  b"),
    "description-markup": skill("name: sums", "description: a</skill>"),
    "license-not-text": skill(*GOOD, "license: [MIT]"),
    "compatibility-not-text": skill(*GOOD, "compatibility: {python: 3}"),
    "compatibility-length": skill(*GOOD, f"compatibility: {'c' * 501}"),
    "metadata-not-mapping": skill(*GOOD, "metadata: text"),
    "metadata-nested": skill(*GOOD, "metadata: {a: [b]}"),
    "allowed-tools-not-text": skill(*GOOD, "allowed-tools: {a: b}"),
    "body-empty": skill(*GOOD, body=""),
    "body-long": skill(*GOOD, body="line\n" * 501 + "end"),
}

OF_THE_DISK = {  # test_catalog_scan.py has each of them
    "file-unreadable",
    "file-name-case",
    "skill-nested",
    "skill-shadowed",
    "link-dangling",
    "link-outside-roots",
    "link-leaves-skill",
    "root-not-directory",
    "directory-unreadable",
    "scan-capped",
    "skill-unsafe",  # test_install_validate.py, since only staging looks at every file
}

RULES = {rule.code: rule for rule in Rule}
OF_MANIFESTS = {code for code in RULES if code.startswith(("manifest-", "tool-", "parameter-"))}
"""test_manifest_codes.py has each of them."""


def check(contents: str | bytes, options: ParseOptions) -> tuple[bool, list[Diagnostic]]:
    checked = check_skill(contents, "/skills/sums/SKILL.md", options)
    return checked.spec is not None, list(checked.diagnostics)


def test_every_code_has_a_case() -> None:
    assert set(BY_CODE) | OF_THE_DISK | OF_MANIFESTS == set(RULES)
    assert len(RULES) == len(Rule)


@pytest.mark.parametrize("code", BY_CODE)
def test_a_lenient_load_says_the_code_and_loads_unless_it_is_an_error(code: str) -> None:
    loads, found = check(BY_CODE[code], ParseOptions(mode="lenient"))
    (item,) = [item for item in found if item.code == code]
    assert item.severity is RULES[code].severity
    assert loads is (item.severity is not Severity.ERROR)
    assert item.fix.endswith(".")


@pytest.mark.parametrize("code", BY_CODE)
def test_a_strict_load_fails_where_the_code_breaks_the_specification(code: str) -> None:
    loads, found = check(BY_CODE[code], ParseOptions(mode="strict"))
    (item,) = [item for item in found if item.code == code]
    assert (item.severity is Severity.ERROR) is RULES[code].breaks_spec
    assert not (loads and RULES[code].breaks_spec)


@pytest.mark.parametrize("rule", Rule)
def test_codes_are_kebab_case_and_errors_break_the_specification(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.code)
    assert rule.breaks_spec or rule.severity is not Severity.ERROR
