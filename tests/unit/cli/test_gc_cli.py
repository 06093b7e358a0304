"""`gc` without Docker: what it does with artifacts and leftovers of this host."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from sandbox_skills.artifacts import LocalArtifactStore
from sandbox_skills.spec import LOCAL_TENANT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Cli

YEARS = 10 * 365 * 86_400


def store(tmp_path: Path, *, age: float = 0) -> LocalArtifactStore:
    return LocalArtifactStore(tmp_path / "data" / "artifacts", clock=lambda: time.time() - age)


async def save(tmp_path: Path) -> None:
    await store(tmp_path, age=YEARS).save("old.txt", b"old", tenant=LOCAL_TENANT)
    await store(tmp_path).save("new.txt", b"new", tenant=LOCAL_TENANT)
    await store(tmp_path, age=YEARS).save("theirs.txt", b"old", tenant="somebody else")


async def names(tmp_path: Path, tenant: str) -> list[str]:
    return [artifact.name for artifact in (await store(tmp_path).list(tenant=tenant)).artifacts]


def test_artifacts_that_are_too_old_go_and_others_stay(cli: Cli, tmp_path: Path) -> None:
    asyncio.run(save(tmp_path))
    done = cli("--engine", "fake", "gc", "--json")
    assert (done.code, done.json["artifacts"]) == (0, ["artifact://old.txt@0"])
    assert asyncio.run(names(tmp_path, LOCAL_TENANT)) == ["new.txt"]
    assert asyncio.run(names(tmp_path, "somebody else")) == ["theirs.txt"]


def test_what_killed_tests_of_skills_left_goes(cli: Cli, tmp_path: Path) -> None:
    left = tmp_path / "data/tests/cases-abc"
    left.mkdir(parents=True)
    (left / "0").write_text("inline", encoding="utf-8")
    assert cli("--engine", "fake", "gc", "--json").json["cases"] == ["cases-abc"]
    assert not left.exists()
