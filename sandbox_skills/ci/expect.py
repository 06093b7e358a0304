"""What a case may expect: the models of `expect` in a file of cases. What is not said is not looked at."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from sandbox_skills.ci.yaml_tree import typed
from sandbox_skills.engines.globs import Glob
from sandbox_skills.errors import RequestError
from sandbox_skills.workspace.patterns import expand_braces, parse_patterns

EndingName = Literal["exited", "signalled", "wall_time", "cpu_time", "memory", "output", "any"]
"""How a program ends: by itself, by a signal that no limit explains, stopped by the limit of that name, or whatever."""


class Strict(BaseModel):
    """A mapping that has no other keys than these; numbers without quotes may stand where text is meant."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=False)


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from error
    return text


def _glob(text: str) -> str:
    try:
        patterns = parse_patterns(expand_braces(text))
        for pattern in patterns:
            Glob(pattern)
    except RequestError as error:
        raise ValueError(error.message) from error
    if not patterns:
        raise ValueError("names no file")
    return text


def _json_path(text: str) -> str:
    if not text.startswith("$"):
        raise ValueError("is no JSONPath: it starts with $")
    return text


Texts = Annotated[
    tuple[str, ...], BeforeValidator(_listed, json_schema_input_type=str | list[str]), Field(min_length=1)
]
Regex = Annotated[str, AfterValidator(_regex)]
Regexes = Annotated[
    tuple[Regex, ...], BeforeValidator(_listed, json_schema_input_type=str | list[str]), Field(min_length=1)
]
GlobText = Annotated[str, Field(min_length=1), AfterValidator(_glob)]
AnyJson = Annotated[Any, BeforeValidator(typed)]
Count = Annotated[int, Field(ge=0)]


class Absent(Strict):
    """What a text must not be, hold or match."""

    equals: str | None = None
    contains: Texts | None = None
    regex: Regexes | None = None


class TextExpectation(Strict):
    """What a text must be. `regex` is searched for, `^` and `$` match at lines; `snapshot` names a kept text."""

    equals: str | None = None
    contains: Texts | None = None
    regex: Regexes | None = None
    absent: Absent | None = Field(default=None, alias="not")
    snapshot: str | None = Field(default=None, pattern=r"^[\w][\w.-]{0,99}$")

    @property
    def is_of_all(self) -> bool:
        """Whether it says something of the whole text, so that a part of it shows nothing."""
        return self.equals is not None or self.snapshot is not None or self.absent is not None

    @property
    def has_regex(self) -> bool:
        """Whether looking takes as long as an author's regular expression wants."""
        return bool(self.regex or (self.absent and self.absent.regex))


class JsonExpectation(Strict):
    """What a JSON text must be: equal, a superset of `subset`, or what each JSONPath finds.

    A path that finds one value is compared with that value, one that finds several with the list of them.
    """

    equals: AnyJson = None
    subset: AnyJson = None
    paths: dict[Annotated[str, AfterValidator(_json_path)], AnyJson] = Field(default_factory=dict[str, Any])


class ImageExpectation(Strict):
    """The size of an image in pixels."""

    width: Annotated[int, Field(ge=1)] | None = None
    height: Annotated[int, Field(ge=1)] | None = None


class Range(Strict):
    """A number of files, both ends included."""

    least: Count | None = Field(default=None, alias="min")
    most: Count | None = Field(default=None, alias="max")


def _range(value: object) -> object:
    return {"min": value, "max": value} if isinstance(value, (str, int)) else value


class FileExpectation(Strict):
    """What the files that a glob matches must be: how many, one at least by default, and each of them all the rest."""

    path: GlobText
    count: Annotated[Range, BeforeValidator(_range, json_schema_input_type=Count | Range)] = Range(min=1)
    content: TextExpectation | None = None
    json_value: JsonExpectation | None = Field(default=None, alias="json")
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    mime: str | None = Field(default=None, pattern=r"^[\w.+-]+/[\w.+-]+$")
    image: ImageExpectation | None = None


class BehaviourExpectation(Strict):
    """What a run may do beside its outputs: whether it tries the network, and where in its workspace it writes."""

    network: Literal["none", "attempted"] | None = None
    writes: tuple[GlobText, ...] | None = None


class Expect(Strict):
    """What a run must come to; exit code 0 where neither `exit` nor `ending` is given."""

    exit: Annotated[int, Field(ge=0, le=255)] | None = None
    ending: EndingName | None = None
    stdout: TextExpectation | None = None
    stderr: TextExpectation | None = None
    json_value: JsonExpectation | None = Field(default=None, alias="json")
    files: tuple[FileExpectation, ...] = ()
    no_other_files: bool = False
    max_seconds: Annotated[float, Field(gt=0)] | None = None
    behaviour: BehaviourExpectation | None = None

    @model_validator(mode="after")
    def _one_end(self) -> Expect:
        if self.exit is not None and self.ending not in {None, "exited"}:
            raise ValueError(f"a program that is ended by {self.ending} has no exit code: give one of them")
        return self

    @property
    def is_slow(self) -> bool:
        """Whether comparing may take any time: an author's regular expressions and JSONPaths do, and images."""
        if any(one.image for one in self.files):
            return True
        texts = (self.stdout, self.stderr, *(one.content for one in self.files))
        values = (self.json_value, *(one.json_value for one in self.files))
        return any(one and one.has_regex for one in texts) or any(one and one.paths for one in values)

    @property
    def snapshots(self) -> tuple[str, ...]:
        """The names of the snapshots that are compared with."""
        texts = (self.stdout, self.stderr, *(one.content for one in self.files))
        return tuple(one.snapshot for one in texts if one is not None and one.snapshot is not None)
