"""A file of test cases, `tests/*.yaml` of a skill: its schema. Each case runs in a sandbox of its own."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from sandbox_skills.ci.expect import AnyJson, Expect, Strict
from sandbox_skills.spec import Guarantee  # noqa: TC001  # pydantic reads it

CheckName = Literal["valid", "syntax", "help", "tools", "references", "network"]
"""The checks that every skill gets without a case."""

Reason = Annotated[str, Field(min_length=3)]
Seconds = Annotated[float, Field(gt=0)]
Bytes = Annotated[int, Field(ge=0)]
Row = dict[str, AnyJson]


class FileSource(Strict):
    """A file for a run: its text, or a file of the skill by its path from the skill's folder."""

    content: str | None = None
    path: str | None = None

    @model_validator(mode="after")
    def _one(self) -> FileSource:
        if (self.content is None) == (self.path is None):
            raise ValueError("give either content or path")
        return self


def _file_source(value: object) -> object:
    return {"content": value} if isinstance(value, str) else value


TextOrFile = Annotated[FileSource, BeforeValidator(_file_source, json_schema_input_type=str | FileSource)]


class InputSource(Strict):
    """A file or folder of the skill, or a reference such as artifact://name@1, and where it goes."""

    source: str = Field(alias="from", min_length=1)
    to: str = ""


class CaseLimits(Strict):
    """Limits of one case, each below what the settings allow."""

    wall_seconds: Seconds | None = None
    cpu_seconds: Seconds | None = None
    stdout_bytes: Bytes | None = None
    stderr_bytes: Bytes | None = None
    output_bytes: Bytes | None = None


class EngineNeeds(Strict):
    """What the engine must enforce for a case to mean anything; elsewhere it is skipped, and that is said."""

    needs: tuple[Guarantee, ...] = ()


class Case(Strict):
    """One run and what must come of it: a command line, a script with arguments, or a tool with arguments."""

    name: str = Field(min_length=1, max_length=200)
    run: str | None = Field(default=None, min_length=1)
    script: str | None = Field(default=None, min_length=1)
    args: tuple[str, ...] = ()
    tool: str | None = Field(default=None, min_length=1)
    arguments: dict[str, AnyJson] = Field(default_factory=dict[str, Any])
    stdin: str | None = None
    env: dict[str, str] = Field(default_factory=dict[str, str])
    cwd: str = ""
    files: dict[str, TextOrFile] = Field(default_factory=dict[str, FileSource])
    inputs: tuple[InputSource, ...] = ()
    limits: CaseLimits = CaseLimits()
    engine: EngineNeeds = EngineNeeds()
    expect: Expect = Expect()
    skip: Reason | None = None

    @model_validator(mode="after")
    def _one_command(self) -> Case:
        given = [word for word in ("run", "script", "tool") if getattr(self, word) is not None]
        if len(given) != 1:
            told = f", not {' and '.join(given)}" if given else ""
            raise ValueError(f"give one of run, script and tool{told}")
        for word, needed in (("args", "script"), ("arguments", "tool")):
            if getattr(self, word) and given != [needed]:
                raise ValueError(f"{word} belongs to {needed}, and this case has {given[0]}")
        if given == ["tool"] and self.stdin is not None:
            raise ValueError("a tool reads its arguments from standard input: leave stdin out")
        return self


class CaseRows(Case):
    """A case, or with `matrix` one for each row: a list of rows, or of each name its values, of which all combine.

    `{{name}}` in any text of the case stands for the row's value.
    """

    matrix: list[Row] | dict[str, list[AnyJson]] | None = None


class SmokeChoice(Strict):
    """Which of the usual checks a skill goes without, and why."""

    off: dict[CheckName, Reason] = Field(default_factory=dict[CheckName, Reason])


class Suite(Strict):
    """A whole file."""

    cases: tuple[CaseRows, ...] = ()
    smoke: SmokeChoice = SmokeChoice()
