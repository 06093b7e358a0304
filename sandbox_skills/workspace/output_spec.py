"""Which files a run is to give back and what becomes of them: both styles of asking, one plan. Pure.

`output_files` is a list of patterns; `outputs` is a manifest with limits of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, model_validator

from sandbox_skills.errors import PathEscapeError
from sandbox_skills.spec import CollectLimits
from sandbox_skills.workspace.layout import WORKSPACE_VARIABLES
from sandbox_skills.workspace.patterns import parse_patterns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import PurePosixPath

UNASKED_PATTERNS = ("out/**",)
"""What is collected, and not listed, where nothing was asked for."""

UNASKED_FILES = 20
"""Files looked at for a primary output that nobody asked for: a run that makes more has no one answer."""

KEPT_IN_WORKSPACE = (
    "the output files are in the workspace only, and end with it; none was saved as an artifact"
)
"""The warning that goes with files that were collected and not asked to be saved."""


class OutputSpec(BaseModel, json_schema_extra={"examples": [{"globs": ["out/**"], "save": True}]}):
    """The `outputs` manifest. A limit that is absent, null or not positive is the default.

    Keys are taken in snake_case (`max_files`) and as Go spells them (`MaxFiles`); snake_case wins.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    globs: tuple[str, ...] = ()
    inline: bool = False
    save: bool = False
    name_template: str = ""
    max_files: int = 0
    max_file_bytes: int = 0
    max_total_bytes: int = 0

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        given = {key: item for key, item in cast("dict[object, object]", value).items() if item is not None}
        known = {name.replace("_", ""): name for name in cls.model_fields}
        respelt = {known.get(_folded(key), key): item for key, item in given.items()}
        return respelt | {name: given[name] for name in known.values() if name in given}

    def limits(self, ceiling: CollectLimits) -> CollectLimits:
        """Returns the limits of the collection, none of them above `ceiling`, which is the default too."""
        return CollectLimits(
            files=_capped(self.max_files, ceiling.files),
            file_bytes=_capped(self.max_file_bytes, ceiling.file_bytes),
            total_bytes=_capped(self.max_total_bytes, ceiling.total_bytes),
        )


def _folded(key: object) -> str:
    return str(key).replace("_", "").lower()


def _capped(asked: int, ceiling: int) -> int:
    return min(asked, ceiling) if asked > 0 else ceiling


@dataclass(frozen=True, slots=True)
class OutputPlan:
    """What to collect and what to do with it.

    `listed` is False where nobody asked: the files then only serve to find the primary output. `inline` is whether
    text goes into the reply, `save` whether files become artifacts, named by `name_prefix` and their path.
    """

    patterns: tuple[str, ...]
    limits: CollectLimits
    listed: bool = True
    inline: bool = False
    save: bool = False
    name_prefix: str = ""
    warnings: tuple[str, ...] = ()

    def artifact_name(self, path: PurePosixPath) -> str:
        """Returns the name of the artifact that the file at `path` in the workspace becomes."""
        return f"{self.name_prefix}{path}"


@dataclass(frozen=True, slots=True)
class OutputRequest:
    """What a caller asks for, in the words of `skill_run`. `omit_inline` keeps all content out of the reply."""

    output_files: Sequence[str] = ()
    outputs: OutputSpec | None = None
    save_as_artifacts: bool = False
    artifact_prefix: str = ""
    omit_inline: bool = False


def plan_outputs(
    request: OutputRequest,
    *,
    ceiling: CollectLimits | None = None,
    variables: Mapping[str, str] = WORKSPACE_VARIABLES,
) -> OutputPlan:
    """Returns what to collect: by `output_files` where one is not blank, else by `outputs`, else what lies in out/.

    No limit is above `ceiling`. `variables` may stand before a pattern; a run's own RUN_DIR must be added by the
    caller. A pattern that leaves the workspace names no file there, and is a warning. Raises PatternError.
    """
    ceiling = ceiling or CollectLimits()
    if any(text.strip() for text in request.output_files):
        return _plan_files(request, _inside(request.output_files, variables), ceiling)
    if request.outputs is not None:
        return _plan_manifest(request, request.outputs, _inside(request.outputs.globs, variables), ceiling)
    return OutputPlan(
        UNASKED_PATTERNS,
        CollectLimits(min(UNASKED_FILES, ceiling.files), ceiling.file_bytes, ceiling.total_bytes),
        listed=False,
        inline=not request.omit_inline,
        warnings=_ignored(request, "save_as_artifacts", "artifact_prefix", reason="output_files is empty"),
    )


class _Inside(NamedTuple):
    """The patterns of the workspace, and warnings of those that leave it."""

    patterns: tuple[str, ...]
    left: tuple[str, ...]


def _inside(texts: Sequence[str], variables: Mapping[str, str]) -> _Inside:
    patterns: dict[str, None] = {}
    left: list[str] = []
    for text in texts:
        try:
            patterns |= dict.fromkeys(parse_patterns([text], variables=variables))
        except PathEscapeError as error:
            left.append(f"{error.message}: no file is taken from there")
    return _Inside(tuple(patterns), tuple(left))


def _plan_files(request: OutputRequest, asked: _Inside, ceiling: CollectLimits) -> OutputPlan:
    return OutputPlan(
        asked.patterns,
        ceiling,
        inline=not request.omit_inline,
        save=request.save_as_artifacts,
        name_prefix=request.artifact_prefix,
        warnings=(
            *_ignored(request, "outputs", reason="output_files is given"),
            *asked.left,
            *_without_patterns(asked.patterns, "output_files"),
        ),
    )


def _plan_manifest(
    request: OutputRequest, outputs: OutputSpec, asked: _Inside, ceiling: CollectLimits
) -> OutputPlan:
    ignored = _ignored(
        request, "save_as_artifacts", "artifact_prefix", reason="outputs has its own save and name_template"
    )
    return OutputPlan(
        asked.patterns,
        outputs.limits(ceiling),
        inline=outputs.inline and not request.omit_inline,
        save=outputs.save,
        name_prefix=outputs.name_template,
        warnings=(*ignored, *asked.left, *_without_patterns(asked.patterns, "outputs.globs")),
    )


def _without_patterns(patterns: tuple[str, ...], field: str) -> tuple[str, ...]:
    return () if patterns else (f"{field} names no file",)


def _ignored(request: OutputRequest, *fields: str, reason: str) -> tuple[str, ...]:
    given = {
        "outputs": request.outputs is not None,
        "save_as_artifacts": request.save_as_artifacts,
        "artifact_prefix": bool(request.artifact_prefix),
    }
    return tuple(f"{field} is ignored: {reason}" for field in fields if given[field])
