"""skills/README.md lists every diagnostic."""

from __future__ import annotations

from pathlib import Path

from sandbox_skills.catalog import Rule

README = Path(__file__).parents[3] / "skills" / "README.md"


def table() -> str:
    rows = ["| Code | Lenient | Strict | Meaning | Fix |", "|---|---|---|---|---|"]
    for rule in Rule:
        strict = rule.severity_in("strict").value
        summary = f"{rule.field} {rule.summary}".replace("|", "\\|")
        rows.append(
            f"| `{rule.code}` | {rule.severity.value} | {strict} | {summary} | {rule.fix.replace('|', chr(92) + '|')} |"
        )
    return "\n".join(rows)


def test_the_table_of_codes_is_that_of_the_rules() -> None:
    assert table() in README.read_text(encoding="utf-8"), f"skills/README.md needs this table:\n\n{table()}\n"
