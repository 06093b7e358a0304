"""What the catalog knows of one skill."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from sandbox_skills.catalog.skill_file import read_body

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.catalog.diagnostics import Diagnostic
    from sandbox_skills.catalog.yaml_values import Value

_TRUE = frozenset({"true", "yes", "on", "1"})
_EMPTY: Mapping[str, str] = MappingProxyType({})


def _nothing() -> Mapping[str, str]:
    return _EMPTY


@dataclass(frozen=True, slots=True)
class SkillRoot:
    """A directory that is scanned for skills.

    `named` says that the user named it. A root that was only found, such as one in a cloned repository, is
    nobody's word: its skills can be listed and run, but enter no prompt and get no secret. Nor is the folder of the
    added skills, `installed`: pins say which of those count. What a tenant sent, `uploaded`, is that tenant's word
    alone: it gets a secret only where the operator names its very content. `trust_links` lets a SKILL.md be a link
    to a file outside its skill.
    """

    path: str
    named: bool = True
    scope: Literal["named", "project", "user", "installed", "uploaded"] = "named"
    trust_links: bool = False


@dataclass(frozen=True, slots=True)
class SkillSpec:
    """One skill that loaded. Immutable.

    `name` is the author's word, not safe as a path; `id` is a slug of the directory. `allowed_tools` is the raw
    text, `allowed_tool_tokens` what it allows. `metadata` has text only; where the author wrote more,
    `metadata_raw` has all of it. `extra` holds the keys that the specification does not name. `root` is
    None outside a scan. `accepted` is None where no pin of the user's holds for it, else whether this is the content
    that he pinned. `digest` is that of the content where a pin holds and it can be staged, None otherwise: a scan
    does not read the scripts.
    """

    id: str
    name: str
    description: str
    path: str
    dir: str
    license: str | None = None
    compatibility: str | None = None
    metadata: Mapping[str, str] = field(default_factory=_nothing, hash=False)
    metadata_raw: Value | None = field(default=None, hash=False, repr=False)
    allowed_tools: str | None = None
    allowed_tool_tokens: tuple[str, ...] = ()
    extra: Mapping[str, Value] = field(default_factory=_nothing, hash=False)
    diagnostics: tuple[Diagnostic, ...] = ()
    body_chars: int = 0
    digest: str | None = None
    root: SkillRoot | None = None
    accepted: bool | None = None
    held_body: str | None = field(default=None, repr=False, compare=False)

    @property
    def body(self) -> str:
        """The Markdown after the frontmatter; read from `path` each time where a scan did not keep it.

        Raises SkillLoadError where the file has gone or lost its frontmatter since.
        """
        return read_body(self.path) if self.held_body is None else self.held_body

    @property
    def trusted(self) -> bool:
        """Whether the user's word covers it: the pins that hold for it, else its root. False: no prompt, no secrets."""
        return self.accepted if self.accepted is not None else self.root is None or self.root.named

    @property
    def uploaded(self) -> bool:
        """Whether a tenant of a daemon sent it: the operator may never have seen it."""
        return self.root is not None and self.root.scope == "uploaded"

    @property
    def model_invocable(self) -> bool:
        """Whether a model may be told of it: not with `disable-model-invocation: true`."""
        value = self.extra.get("disable-model-invocation")
        return not (isinstance(value, str) and value.strip().lower() in _TRUE)


@dataclass(frozen=True, slots=True)
class ParsedSkill:
    """A skill and the warnings it loaded with; notes are only in `spec.diagnostics`."""

    spec: SkillSpec
    warnings: tuple[Diagnostic, ...]


def plain(value: Value) -> object:
    """Returns a frontmatter value as dicts and lists, for `json`."""
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return {key: plain(item) for key, item in value.items()}
