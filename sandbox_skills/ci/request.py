"""A case → what the workspace manager is asked for. Inline files lie in a temporary folder while it runs."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from sandbox_skills.spec import WORKSPACE
from sandbox_skills.workspace.input_refs import InputRef, target_path
from sandbox_skills.workspace.inputs import Input
from sandbox_skills.workspace.layout import WORK_DIR
from sandbox_skills.workspace.manager import RunRequest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from sandbox_skills.ci.suite import Case, CaseLimits
    from sandbox_skills.ci.trial import Sandboxed, Trial
    from sandbox_skills.recording import Recorded
    from sandbox_skills.spec import Limits

EVERY_OUTPUT = "out/**"
EVERYTHING = "**"
"""All files of the workspace, to see what a run wrote; links are never followed."""


@contextmanager
def run_request(trial: Trial, work: Sandboxed, *, limits: Limits, place: Path) -> Generator[RunRequest]:
    """Gives the request of a case; `limits` are the usual ones, `place` is where its inline files lie."""
    case = work.case
    stdin = work.stdin if case.stdin is None else case.stdin.encode()
    with tempfile.TemporaryDirectory(dir=place) as folder:
        inputs = (*_files(case, trial.folder, Path(folder)), *_inputs(case, trial.folder))
        yield RunRequest(
            work.invocation,
            skill_name=trial.skill,
            cwd=case.cwd or (str(WORK_DIR) if case.tool else ""),
            env=case.env,
            stdin=stdin,
            inputs=inputs,
            outputs=_patterns(case),
            limits=case_limits(case.limits, limits),
            record=_recorded(case),
        )


def case_limits(asked: CaseLimits, usual: Limits) -> Limits:
    """Returns the usual limits with those that a case has of its own. Pure."""
    return replace(usual, **asked.model_dump(exclude_none=True))


def given_files(case: Case, skill: Path) -> dict[str, bytes | None]:
    """Returns the files that a case brings, by their paths in the workspace; None is content that nobody knows here."""
    inline = {
        _in_workspace(to, PurePosixPath(to).name): None if one.content is None else one.content.encode()
        for to, one in case.files.items()
    }
    from_skill = {
        _in_workspace(one.to, PurePosixPath(one.source).name or skill.name): None for one in case.inputs
    }
    return {**from_skill, **inline}


def _in_workspace(to: str, name: str) -> str:
    return str(target_path(to, name).relative_to(WORKSPACE))


def _recorded(case: Case) -> frozenset[Recorded]:
    behaviour = case.expect.behaviour
    return frozenset({"network"} if behaviour is not None and behaviour.network is not None else ())


def _patterns(case: Case) -> tuple[str, ...]:
    behaviour = case.expect.behaviour
    if behaviour is not None and behaviour.writes is not None:
        return (EVERYTHING,)
    return (EVERY_OUTPUT, *(one.path for one in case.expect.files))


def _files(case: Case, skill: Path, folder: Path) -> Iterator[Input | InputRef]:
    for index, (to, one) in enumerate(case.files.items()):
        if one.content is None:
            yield _of_skill(skill, one.path or "", to)
            continue
        file = folder / str(index)
        file.write_text(one.content, encoding="utf-8", newline="")
        yield Input(file, f"{to}{PurePosixPath(to).name}" if to.endswith("/") else to)


def _inputs(case: Case, skill: Path) -> Iterator[InputRef]:
    for one in case.inputs:
        if "://" in one.source:
            yield InputRef(one.source, one.to)
        else:
            yield _of_skill(skill, one.source, one.to)


def _of_skill(skill: Path, path: str, to: str) -> InputRef:
    # From the staged copy: there no link leads out of the skill, and nothing changes meanwhile.
    return InputRef(f"skill://{skill.name}/{path}", to)
