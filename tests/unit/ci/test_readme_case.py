"""The case of the README is one that can be read, and that skills/README.md tells every key of."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.ci.expect import (
    Absent,
    Expect,
    FileExpectation,
    ImageExpectation,
    JsonExpectation,
    TextExpectation,
)
from sandbox_skills.ci.suite import CaseLimits, CaseRows, FileSource, InputSource, SmokeChoice
from sandbox_skills.ci.suite_text import read_suite

if TYPE_CHECKING:
    from pydantic import BaseModel

ROOT = Path(__file__).parents[3]


def test_the_case_of_the_readme_can_be_read() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"<!-- example: test -->\n```yaml\n(.*?)```", text, re.DOTALL)
    assert block
    cases = [one.case for one in read_suite(block[1], "README").cases]
    assert [case.name for case in cases] == [
        "draws its inputs [title=Sales]",
        "draws its inputs [title=Costs]",
    ]


@pytest.mark.parametrize(
    "model",
    [
        *(CaseRows, CaseLimits, FileSource, InputSource, SmokeChoice),
        *(Expect, TextExpectation, Absent, JsonExpectation, FileExpectation, ImageExpectation),
    ],
)
def test_every_key_of_a_file_of_cases_is_told(model: type[BaseModel]) -> None:
    text = (ROOT / "skills/README.md").read_text(encoding="utf-8")
    section = text[text.index("`tests/*.yaml` holds") : text.index("Scripts that behave well")]
    keys = [field.alias or name for name, field in model.model_fields.items()]
    assert [key for key in keys if not re.search(rf"\b{key}\b", section)] == []
