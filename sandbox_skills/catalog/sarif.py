"""Findings as SARIF 2.1.0, which code-review tools show beside the lines they are about. Pure."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING
from urllib.parse import quote

from sandbox_skills.catalog.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sandbox_skills.catalog.diagnostics import Diagnostic

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
"""Only names the format; nothing is fetched from there."""

_RULES = list(Rule)
_INDEX = {rule.code: index for index, rule in enumerate(_RULES)}


def sarif_log(findings: Iterable[tuple[str, Diagnostic]], *, version: str, base: str) -> dict[str, object]:
    """Returns a log of one run. Paths are written relative to the absolute directory `base`, if below it."""
    driver = {
        "name": "sandbox-skills",
        "version": version,
        "semanticVersion": version,
        "rules": [_rule(rule) for rule in _RULES],
    }
    results = [_result(_uri(path, base), item) for path, item in findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, object]:
    return {
        "id": rule.code,
        "shortDescription": {"text": f"{rule.field}: {rule.summary}"},
        "help": {"text": rule.fix},
        "defaultConfiguration": {"level": rule.severity.value},
    }


def _result(uri: str, item: Diagnostic) -> dict[str, object]:
    place: dict[str, object] = {"artifactLocation": {"uri": uri}}
    if item.line is not None:
        column = {} if item.column is None else {"startColumn": item.column}
        place["region"] = {"startLine": item.line, **column}
    # Without the line, so that an edit above a finding does not make it a new one.
    identity = hashlib.sha256(f"{uri}\0{item.code}\0{item.field}\0{item.message}".encode()).hexdigest()
    return {
        "ruleId": item.code,
        "ruleIndex": _INDEX[item.code],
        "level": item.severity.value,
        "message": {"text": f"{item}. {item.fix}"},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"skillFinding/v1": identity},
    }


def _uri(path: str, base: str) -> str:
    relative = os.path.relpath(path, base)
    outside = relative.split("/", 1)[0] == ".."
    # A name that is not UTF-8 keeps its bytes.
    return ("file://" if outside else "") + quote(os.fsencode(path if outside else relative))
