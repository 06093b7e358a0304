"""Inputs as a model names them: four schemes, and where what they name goes in the workspace. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from sandbox_skills.artifacts.names import parse_ref
from sandbox_skills.errors import InputError, PathEscapeError
from sandbox_skills.spec import WORKSPACE
from sandbox_skills.workspace.layout import (
    DIRECTORIES,
    INPUTS_DIR,
    SKILLS_DIR,
    WORKSPACE_VARIABLES,
    expand_variable,
)
from sandbox_skills.workspace.paths import box_path, relative_inside, safe_file_name, shown

Mode = Literal["copy", "link"]

_INPUTS_LINK = WORKSPACE / "inputs"
"""What a skill calls its inputs: a link in its folder, so `inputs/x` means the same wherever it is said."""

_SCHEMES = "artifact://name[@version], host:///path, workspace://path or skill://name/path"


@dataclass(frozen=True, slots=True)
class InputRef:
    """Something to be put into the workspace: `artifact://name[@version]`, `host:///path`, `workspace://path`,
    `skill://name/path`.

    `to` is where, default `work/inputs/<its name>`. `link` saves the copy where the source lies in the box, and is
    a copy elsewhere. `pin` keeps a session to the version of an artifact that it was given first at that place.
    """

    source: str
    to: str = ""
    mode: Mode = "copy"
    pin: bool = False


@dataclass(frozen=True, slots=True)
class ArtifactSource:
    """A kept output; no version is the latest."""

    name: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class HostSource:
    """An absolute path of the host, which the settings must allow."""

    path: PurePosixPath


@dataclass(frozen=True, slots=True)
class WorkspaceSource:
    """A box path of a file or folder that lies in the workspace already."""

    path: PurePosixPath


@dataclass(frozen=True, slots=True)
class SkillSource:
    """A file or folder of a staged skill, `.` for all of it."""

    skill: str
    path: PurePosixPath


Source = ArtifactSource | HostSource | WorkspaceSource | SkillSource


def parse_source(text: str) -> Source:
    """Returns what an input's source names.

    Raises InputError for no scheme of ours, ArtifactNameError and PathEscapeError.
    """
    scheme, found, rest = text.strip().partition("://")
    if found and not rest.strip("/"):
        raise InputError(f"input {shown(text)} names nothing", hint=f"give {_SCHEMES}")
    match scheme if found else "":
        case "artifact":
            return ArtifactSource(*parse_ref(text.strip()))
        case "host":
            return HostSource(_host_path(rest))
        case "workspace":
            return WorkspaceSource(_below_workspace(rest))
        case "skill":
            skill, _, path = rest.partition("/")
            return SkillSource(skill, relative_inside(path or "."))
        case _:
            raise InputError(f"input {shown(text)} has no scheme that is known", hint=f"give {_SCHEMES}")


def _host_path(text: str) -> PurePosixPath:
    if not text.startswith("/"):
        raise InputError(
            f"host path {shown(text)} is not absolute", hint="write three slashes: host:///data/x.csv"
        )
    return PurePosixPath("/") / relative_inside(text.lstrip("/"))


def _below_workspace(text: str) -> PurePosixPath:
    if text.startswith("/"):
        raise PathEscapeError(
            f"path {shown(text)} is absolute",
            hint="give it relative to the workspace, as in workspace://out/x",
        )
    return through_inputs_link(box_path(text))


def source_name(source: Source) -> str:
    """Returns what a source is called at the place it comes from; never empty."""
    match source:
        case ArtifactSource(name):
            return safe_file_name(name, default="artifact")
        case HostSource(path) | WorkspaceSource(path):
            return safe_file_name(path.name, default="input")
        case SkillSource(skill, path):
            return safe_file_name(path.name or skill, default="skill")


def through_inputs_link(path: PurePosixPath) -> PurePosixPath:
    """Returns the box path that `inputs/…` means; others are themselves."""
    return INPUTS_DIR / path.relative_to(_INPUTS_LINK) if path.is_relative_to(_INPUTS_LINK) else path


def target_path(to: str, name: str) -> PurePosixPath:
    """Returns the box path where an input called `name` goes. Raises PathEscapeError, and InputError below the
    links to skills.

    Blank is `inputs/`. `inputs/x` is `work/inputs/x`. A trailing slash, or a directory that every workspace has,
    keeps the name.
    """
    text = expand_variable(to.strip(), WORKSPACE_VARIABLES)
    path = INPUTS_DIR if text in {"", ".", "./"} else through_inputs_link(box_path(text))
    if path in {WORKSPACE, *DIRECTORIES} or text.endswith("/"):
        path /= name
    if path.is_relative_to(SKILLS_DIR):
        raise InputError(
            f"input target {shown(to)} lies below {SKILLS_DIR}, which is for skills",
            hint="leave it out, or name a path below work/",
        )
    return path
