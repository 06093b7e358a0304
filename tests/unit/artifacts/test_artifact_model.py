"""The local store against a model of plain dictionaries."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sandbox_skills.artifacts import ArtifactQuota, LocalArtifactStore, RetentionPolicy
from sandbox_skills.errors import ArtifactNotFoundError, QuotaError

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

T = TypeVar("T")

QUOTA = ArtifactQuota(count=6, bytes=20)
TENANTS = st.sampled_from(["t", "u"])
NAMES = st.sampled_from(["a", "a/b", "a@0", "user:a"])
VERSIONS = st.none() | st.integers(0, 4)
CONTENTS = st.sampled_from([b"", b"1", b"22", b"a longer one", b"x" * 21])
LIMITS = st.none() | st.integers(0, 10)

Kept = dict[tuple[str, int], tuple[bytes, float]]
"""By name and version: content and when it was saved."""


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="artifacts-model-"))
        self.now = 0.0
        self.store = LocalArtifactStore(self.directory / "store", quota=QUOTA, clock=lambda: self.now)
        self.kept: defaultdict[str, Kept] = defaultdict(dict)
        self.next: defaultdict[tuple[str, str], int] = defaultdict(int)

    def teardown(self) -> None:
        shutil.rmtree(self.directory)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        self.now += 1
        return asyncio.run(work)

    @rule(tenant=TENANTS, name=NAMES, content=CONTENTS)
    def save(self, tenant: str, name: str, content: bytes) -> None:
        kept = self.kept[tenant]
        if (
            len(kept) == QUOTA.count
            or sum(len(data) for data, _ in kept.values()) + len(content) > QUOTA.bytes
        ):
            with pytest.raises(QuotaError):
                self.do(self.store.save(name, content, tenant=tenant))
            return
        version = self.next[tenant, name]
        assert self.do(self.store.save(name, content, tenant=tenant)).version == version
        self.next[tenant, name] += 1
        kept[name, version] = content, self.now

    @rule(tenant=TENANTS, name=NAMES, version=VERSIONS)
    def get(self, tenant: str, name: str, version: int | None) -> None:
        known = [number for title, number in self.kept[tenant] if title == name and version in {None, number}]
        if not known:
            with pytest.raises(ArtifactNotFoundError):
                self.do(self.store.get(name, version, max_bytes=100, tenant=tenant))
            return
        artifact, data = self.do(self.store.get(name, version, max_bytes=100, tenant=tenant))
        assert artifact.version == max(known)
        assert (data, artifact.created) == self.kept[tenant][name, max(known)]

    @rule(tenant=TENANTS, name=NAMES, version=VERSIONS)
    def delete(self, tenant: str, name: str, version: int | None) -> None:
        kept = self.kept[tenant]
        known = {key for key in kept if key[0] == name and version in {None, key[1]}}
        if not known:
            with pytest.raises(ArtifactNotFoundError):
                self.do(self.store.delete(name, version, tenant=tenant))
            return
        removed = self.do(self.store.delete(name, version, tenant=tenant))
        assert {(one.name, one.version) for one in removed.artifacts} == known
        for key in known:
            del kept[key]

    @rule(tenant=TENANTS, age=LIMITS, count=LIMITS)
    def retain(self, tenant: str, age: int | None, count: int | None) -> None:
        kept = self.kept[tenant]
        removed = self.do(self.store.retain(RetentionPolicy(max_age=age, max_count=count), tenant=tenant))
        assert removed.leftovers == 0
        for one in removed.artifacts:
            del kept[one.name, one.version]
        assert age is None or all(self.now - created <= age for _, created in kept.values())
        assert count is None or len(kept) <= max(count, len({name for name, _ in kept}))

    @rule(tenant=TENANTS, prefix=st.sampled_from(["", "a", "a/", "u", "z"]))
    def list_latest(self, tenant: str, prefix: str) -> None:
        page = self.do(self.store.list(prefix, tenant=tenant))
        latest = {name: number for name, number in sorted(self.kept[tenant]) if name.startswith(prefix)}
        assert [(one.name, one.version) for one in page.artifacts] == sorted(latest.items())

    @invariant()
    def everything_is_as_the_model_says(self) -> None:
        for tenant, kept in self.kept.items():
            page = self.do(self.store.list(all_versions=True, tenant=tenant))
            assert [(one.name, one.version) for one in page.artifacts] == sorted(kept)
            usage = self.do(self.store.usage(tenant=tenant))
            distinct = {data for data, _ in kept.values()}
            assert usage.stored_bytes == sum(map(len, distinct))
            assert usage.bytes == sum(len(data) for data, _ in kept.values())


StoreMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestStoreIsAsItsModel = pytest.mark.slow(pytest.mark.timeout(120)(StoreMachine.TestCase))
