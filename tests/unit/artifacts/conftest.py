"""A store in a directory of its own, with a clock that tests move."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_skills.artifacts import LocalArtifactStore

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.artifacts import ArtifactStore


class Clock:
    """Seconds since the epoch, as a test says."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Disk:
    """What lies below a store's root."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def tenants(self) -> list[Path]:
        return list(self.root.glob("*"))

    def tenant(self) -> Path:
        """The one tenant's directory."""
        (found,) = self.tenants()
        return found

    def database(self) -> Path:
        return self.tenant() / "records.db"

    def contents(self) -> list[Path]:
        return list(self.root.glob("*/blobs/*"))

    def content(self) -> Path:
        (found,) = self.contents()
        return found

    def unfinished(self) -> list[Path]:
        return list(self.root.glob("*/temporary/*"))

    def everything(self) -> list[Path]:
        return [self.root, *self.root.rglob("*")]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


@pytest.fixture
def artifacts(root: Path, clock: Clock) -> ArtifactStore:
    return LocalArtifactStore(root, clock=clock)


@pytest.fixture
def disk(root: Path) -> Disk:
    return Disk(root)
