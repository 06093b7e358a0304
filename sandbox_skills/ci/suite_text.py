"""The text of a file of cases → its cases, or every violation with its line. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from sandbox_skills.ci.matrix import MatrixError, expand
from sandbox_skills.ci.suite import Case, SmokeChoice, Suite
from sandbox_skills.ci.yaml_tree import TreeError, read_tree
from sandbox_skills.errors import SuiteError, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic_core import ErrorDetails

    from sandbox_skills.ci.yaml_tree import Path, PlacedTree, Tree

MAX_VIOLATIONS = 50
"""More would not be read; those of one cause come in rows."""

MAX_CASES = 10_000
"""Cases of one file, rows of matrices counted: more than an hour of a small machine."""

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class PlacedCase:
    """A case, and the file and line it comes from."""

    case: Case
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class ReadSuite:
    """What one file says."""

    cases: tuple[PlacedCase, ...] = ()
    smoke: SmokeChoice = field(default_factory=SmokeChoice)


def read_suite(text: str, file: str) -> ReadSuite:
    """Returns the cases of a file, every matrix expanded; raises SuiteError with every violation.

    `file` is what the errors call it.
    """
    try:
        placed = read_tree(text)
    except TreeError as error:
        raise SuiteError(file, [error.violation], hint=_HINT) from error
    return _Reading(placed, file).suite()


_HINT = "`sandbox-skills test --schema` prints what a file of cases may say"


class _Reading:
    def __init__(self, placed: PlacedTree, file: str) -> None:
        self._placed = placed
        self._file = file
        self._violations: dict[Violation, None] = {}

    def suite(self) -> ReadSuite:
        top = self._top()
        smoke = self._model(SmokeChoice, top.get("smoke", {}), ("smoke",))
        cases = tuple(islice(self._cases(top.get("cases", [])), MAX_CASES + 1))
        if len(cases) > MAX_CASES:
            self._say(f"are more than {MAX_CASES:,}", ("cases",))
        self._check_names(cases)
        if self._violations:
            raise SuiteError(self._file, list(islice(self._violations, MAX_VIOLATIONS)), hint=_HINT)
        return ReadSuite(cases, smoke or SmokeChoice())

    def _top(self) -> Mapping[str, Tree]:
        value = self._placed.value
        if not isinstance(value, dict):
            self._say(
                "is no mapping with a list of cases" if value else "is empty: write a list of cases", ()
            )
            return {}
        for key in value:
            if key not in Suite.model_fields:
                self._say(_unknown(key, Suite), (key,))
        return value

    def _cases(self, value: Tree) -> Iterator[PlacedCase]:
        if not isinstance(value, list):
            self._say("is no list", ("cases",))
            return
        for index, one in enumerate(value):
            at: Path = ("cases", index)
            if not isinstance(one, dict):
                self._say("is no mapping: write name, run and expect", at)
                continue
            line, _ = self._placed.place(at)
            for row in self._rows(one, at):
                if (case := self._model(Case, row, at)) is not None:
                    yield PlacedCase(case, self._file, line)

    def _rows(self, case: Mapping[str, Tree], at: Path) -> list[dict[str, Tree]]:
        try:
            return expand(case)
        except MatrixError as error:
            self._say(str(error), (*at, *error.at))
            return []

    def _model(self, model: type[Model], value: Tree, at: Path) -> Model | None:
        try:
            return model.model_validate(value)
        except ValidationError as error:
            for found in error.errors(include_url=False):
                self._say(_message(found, model), (*at, *found["loc"]))
            return None

    def _check_names(self, cases: tuple[PlacedCase, ...]) -> None:
        seen: dict[str, int] = {}
        for one in cases:
            if one.case.name in seen:
                told = f"the name {one.case.name!r} is taken by the case in line {seen[one.case.name]}"
                self._violations[Violation("cases", told, one.line)] = None
            seen.setdefault(one.case.name, one.line)

    def _say(self, message: str, at: Path) -> None:
        field = ".".join(str(key) for key in at) or "the file"
        self._violations[Violation(field, message, *self._placed.place(at))] = None


def _message(found: ErrorDetails, model: type[BaseModel]) -> str:
    """Returns what is wrong in words for whoever wrote the file."""
    if found["type"] == "extra_forbidden":
        return _unknown(str(found["loc"][-1]), _model_at(model, found["loc"][:-1]))
    if found["type"] == "missing":
        return "is missing"
    if found["type"] in {"model_type", "model_attributes_type", "dict_type"}:
        return "is no mapping: write key: value lines below it"
    if found["type"] == "tuple_type":
        return "is no list"
    message = found["msg"].removeprefix("Value error, ")
    given = found["input"]
    return f"{message[0].lower()}{message[1:]}{f' (got {str(given)!r})' if isinstance(given, str) else ''}"


def _unknown(key: str, model: type[BaseModel]) -> str:
    known = [field.alias or name for name, field in model.model_fields.items()]
    near = get_close_matches(key, known, n=1)
    if near:
        return f"is no key that is known; did you mean {near[0]}?"
    return f"is no key that is known; there are {', '.join(known)}"


def _model_at(model: type[BaseModel], at: Path) -> type[BaseModel]:
    """Returns the model of the mapping that a place leads to, the nearest that is one."""
    for key in at:
        fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
        model = next(_models(fields[str(key)]), model) if str(key) in fields else model
    return model


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)
