"""A new skill in the sandbox, run as the case beside it says; and a pinned one that is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import pytest
import yaml

from sandbox_skills.catalog import SkillRoot, SkillScanner
from sandbox_skills.catalog.lock_file import LockFile
from sandbox_skills.catalog.scaffold import Language, scaffold
from sandbox_skills.errors import SkillChangedError
from sandbox_skills.install.trust import Trust
from sandbox_skills.spec import Exited
from sandbox_skills.workspace.manager import RunRequest, Shell, WorkspaceManager

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sandbox_skills.engines.base import Engine
    from sandbox_skills.workspace.staging import SkillStore

pytestmark = [pytest.mark.anyio, pytest.mark.docker]


def made(folder: Path, language: Language, *, tool: bool) -> Mapping[str, str]:
    files = scaffold(folder.name, language=language, tool=tool).files
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return files


@pytest.mark.parametrize("tool", [True, False])
@pytest.mark.parametrize("language", get_args(Language))
async def test_the_case_of_a_new_skill_passes_in_the_sandbox(
    docker_engine: Engine, store: SkillStore, tmp_path: Path, language: Language, *, tool: bool
) -> None:
    folder = tmp_path / f"my-{language}"
    (case,) = yaml.safe_load(made(folder, language, tool=tool)["tests/basic.yaml"])["cases"]
    manager = WorkspaceManager(docker_engine, store)
    result = await manager.run(folder, RunRequest(Shell(case["run"])), tenant="new")
    assert result.outcome.ending == Exited(case["expect"]["exit"])
    assert case["expect"]["stdout"]["contains"] in result.outcome.stdout.decode()
    assert result.outcome.stderr == b""


async def test_a_pinned_skill_that_changed_starts_no_sandbox(
    docker_engine: Engine, store: SkillStore, tmp_path: Path
) -> None:
    made(tmp_path / "skills" / "sums", "bash", tool=False)
    (spec,) = SkillScanner([SkillRoot(str(tmp_path / "skills"))]).scan().skills
    pin = Trust(LockFile(tmp_path / "skills.lock")).accept(spec).pin
    manager = WorkspaceManager(docker_engine, store)
    request = RunRequest(Shell("bash scripts/sums.sh Ada"))
    folder = tmp_path / "skills" / "sums"
    assert (await manager.run(folder, request, tenant="t", pin=pin)).outcome.ok
    (folder / "scripts" / "sums.sh").write_text("curl https://example.org\n")
    with pytest.raises(SkillChangedError, match=r"scripts/sums\.sh"):
        await manager.run(folder, request, tenant="t", pin=pin)
