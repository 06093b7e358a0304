"""Runs of skills for conversations: allowed, granted, in the right workspace. Real sessions over the fake engine."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from sandbox_skills.catalog import Catalog, SkillRoot
from sandbox_skills.engines.fake import FakeEngine
from sandbox_skills.errors import (
    GrantConflictError,
    PolicyError,
    SkillChangedError,
    SkillNotFoundError,
    ToolCallError,
)
from sandbox_skills.policy import Policy, RunLimits
from sandbox_skills.spec import SandboxSpec
from sandbox_skills.toolsets.arguments import Arguments, read_arguments, schema_of
from sandbox_skills.toolsets.base import CallContext, Conversation, ToolCall
from sandbox_skills.toolsets.offered import OfferedSkills
from sandbox_skills.toolsets.skill_runs import SkillRuns, workspace_name
from sandbox_skills.workspace.choices import SessionPolicy
from sandbox_skills.workspace.manager import Argv, RunRequest, Script, Shell, WorkspaceManager
from sandbox_skills.workspace.sessions import SessionManager
from sandbox_skills.workspace.staging import SkillStore

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from sandbox_skills.workspace.result import RunResult

pytestmark = pytest.mark.anyio

SECRET = "sk-live-0123456789"
PRINT_KEY = RunRequest(Argv(("printenv", "KEY")))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("granted", "other", "hidden"):
        folder = tmp_path / "skills" / name
        folder.mkdir(parents=True)
        hides = "disable-model-invocation: true\n" if name == "hidden" else ""
        (folder / "SKILL.md").write_text(
            f"---\nname: {name}\ndescription: About {name}.\n{hides}---\nDo it.\n"
        )
        (folder / "run.sh").write_text("")
    return tmp_path / "skills"


@asynccontextmanager
async def running(
    root: Path, policy: dict[str, Any] | None = None, *, named: bool = True, idle_seconds: float = 900.0
) -> AsyncGenerator[SkillRuns]:
    store = SkillStore(root.parent / "store")
    manager = WorkspaceManager(FakeEngine(), store, spec=SandboxSpec(needs=frozenset()))
    skills = OfferedSkills(Catalog([SkillRoot(str(root), named=named)]))
    chosen = SessionPolicy(idle_seconds=idle_seconds)
    async with SessionManager(manager, policy=chosen, snapshots=root.parent / "snapshots") as kept:
        rules = Policy.of(policy or {})
        yield SkillRuns(skills, kept, policy=rules, secrets={"KEY": SECRET})


def context(talk: str = "c", tenant: str = "t") -> CallContext:
    return CallContext(Conversation(talk, tenant=tenant))


async def run(
    runs: SkillRuns, skill: str, request: RunRequest, where: CallContext | None = None
) -> RunResult:
    return await runs.run(await runs.find(skill), request, where or context(), tool="use_skill")


GRANT = {"skills": {"granted": {"secrets": ["KEY"], "env": {"MODE": "policy"}}}}


class TestGrants:
    async def test_a_granted_skill_has_its_secret_and_no_other_has_it(self, root: Path) -> None:
        async with running(root, GRANT) as runs:
            assert (await run(runs, "granted", PRINT_KEY)).outcome.stdout == b"[redacted]\n"
            assert not (await run(runs, "other", PRINT_KEY)).outcome.ok

    async def test_they_never_share_a_box_in_any_order(self, root: Path) -> None:
        async with running(root, GRANT) as runs:
            for skill in ("other", "granted", "other", "granted"):
                await run(runs, skill, RunRequest(Argv(("true",))))
            names = {info.id for info in runs.sessions.sessions(tenant="t")}
            assert names == {
                workspace_name(Conversation("c", "t")),
                workspace_name(Conversation("c", "t"), "granted"),
            }
            session = await runs.sessions.open(workspace_name(Conversation("c", "t"), "granted"), tenant="t")
            staged = await runs.stage(session, await runs.find("other"))
            with pytest.raises(GrantConflictError):
                await session.run(staged, RunRequest(Argv(("true",))))

    async def test_the_variables_of_the_policy_win(self, root: Path) -> None:
        async with running(root, GRANT) as runs:
            asked = RunRequest(Argv(("printenv", "MODE")), env={"MODE": "the model's"})
            assert (await run(runs, "granted", asked)).outcome.stdout == b"policy\n"

    async def test_a_secret_that_is_not_there_is_told(self, root: Path) -> None:
        async with running(root, {"default": {"secrets": ["OTHER_KEY"]}}) as runs:
            with pytest.raises(PolicyError, match="OTHER_KEY"):
                await run(runs, "other", PRINT_KEY)

    async def test_a_skill_that_nobody_vouches_for_gets_none(self, root: Path) -> None:
        async with running(root, {"default": {"secrets": ["KEY"]}}, named=False) as runs:
            spec = runs.skills.source.get("other")
            assert spec is not None
            assert not spec.trusted
            assert runs.granted(spec, PRINT_KEY, tenant="t", tool="x").grants == {}
            assert runs.granted(None, PRINT_KEY, tenant="t", tool="x").grants == {}

    async def test_one_that_a_tenant_uploaded_gets_it_for_its_content_and_not_for_its_name(
        self, root: Path
    ) -> None:
        digest = "0" * 64
        for rule, granted in ((GRANT, {}), ({"default": {"secrets": ["KEY"]}}, {})):
            async with running(root, rule) as runs:
                spec = replace(await runs.find("granted"), root=SkillRoot(str(root), scope="uploaded"))
                assert runs.granted(spec, PRINT_KEY, tenant="t", tool="x").grants == granted
        pinned = {"skills": {"granted": {"secrets": ["KEY"], "digest": digest}}}
        async with running(root, pinned) as runs:
            spec = replace(await runs.find("granted"), root=SkillRoot(str(root), scope="uploaded"))
            request = runs.granted(spec, PRINT_KEY, tenant="t", tool="x")
            assert (request.grants, request.digest) == ({"KEY": SECRET}, digest)

    async def test_no_value_is_in_a_representation(self, root: Path) -> None:
        async with running(root, GRANT) as runs:
            granted = runs.granted(await runs.find("granted"), PRINT_KEY, tenant="t", tool="x")
            assert granted.grants == {"KEY": SECRET}
            assert SECRET not in f"{granted!r}{runs!r}"


class TestCeilings:
    async def test_the_lowest_of_the_policy_s_the_tenant_s_and_the_caller_s_counts(self, root: Path) -> None:
        rules = {"default": {"limits": {"wall_seconds": 9, "cpu_seconds": 9, "stdout_bytes": 9}}}
        async with running(root, rules) as policed:
            runs = replace(policed, ceilings=RunLimits(wall_seconds=5, cpu_seconds=20))
            asked = RunLimits(wall_seconds=7, stdout_bytes=3)
            for spec in (None, await runs.find("other")):
                granted = runs.granted(spec, PRINT_KEY, tenant="t", tool="x", asked=asked)
                assert granted.ceilings == RunLimits(wall_seconds=5, cpu_seconds=9, stdout_bytes=3)


class TestPolicy:
    async def test_a_script_is_judged_by_its_path_and_a_command_by_its_programs(self, root: Path) -> None:
        rules = {"default": {"scripts": {"allow": ["run.sh"]}, "commands": {"allow": ["echo"]}}}
        async with running(root, rules) as runs:
            for fine in (Script("./run.sh"), Shell("echo a | echo b"), Argv(("echo", "$(x); y"))):
                runs.granted(await runs.find("other"), RunRequest(fine), tenant="t", tool="x")
            for wrong in (Script("other.sh"), Shell("echo $(x)"), Argv(("bash", "-c", "echo"))):
                with pytest.raises(PolicyError):
                    await run(runs, "other", RunRequest(wrong))

    async def test_names_of_judged_programs_mean_those_of_the_image(self, root: Path) -> None:
        async with running(root, {"default": {"commands": {"allow": ["printenv"]}}}) as runs:
            printed = (await run(runs, "other", RunRequest(Argv(("printenv", "PATH"))))).outcome.stdout
            assert printed == b"/usr/local/bin:/usr/bin:/bin\n"
            with pytest.raises(PolicyError, match="PATH"):
                await run(runs, "other", RunRequest(Argv(("printenv", "A")), env={"PATH": "/workspace/work"}))

    async def test_a_rule_for_other_content_runs_nothing(self, root: Path) -> None:
        async with running(root) as runs:
            digest = (await run(runs, "other", RunRequest(Argv(("true",))))).digest
            for named, fine in ((digest, True), ("0" * 64, False)):
                rules = Policy.of({"skills": {"other": {"digest": named}}})
                pinned = replace(runs, policy=rules)
                if fine:
                    await run(pinned, "other", RunRequest(Argv(("true",))))
                    continue
                with pytest.raises(SkillChangedError, match=digest):
                    await run(pinned, "other", RunRequest(Argv(("true",))))

    async def test_no_time_that_is_asked_for_is_above_the_policys(self, root: Path) -> None:
        async with running(root, {"default": {"limits": {"wall_seconds": 0.2}}}) as runs:
            result = await run(runs, "other", RunRequest(Argv(("sleep", "5")), timeout=60))
            assert not result.outcome.ok


class TestWorkspaces:
    async def test_one_that_expired_goes_on_with_its_files(self, root: Path) -> None:
        async with running(root, idle_seconds=0.2) as runs:
            await run(runs, "other", RunRequest(Argv(("tee", "/workspace/out/x")), stdin=b"kept"))
            name = workspace_name(Conversation("c", "t"))
            while runs.sessions.snapshot_of(name, tenant="t") is None:  # noqa: ASYNC110  # nobody tells of it
                await anyio.sleep(0.05)
            result = await run(runs, "other", RunRequest(Argv(("cat", "/workspace/out/x"))))
            assert result.outcome.stdout == b"kept"

    async def test_conversations_and_tenants_have_their_own(self, root: Path) -> None:
        async with running(root) as runs:
            await run(runs, "other", RunRequest(Argv(("tee", "/workspace/out/x")), stdin=b"mine"))
            look = RunRequest(Argv(("cat", "/workspace/out/x")))
            assert (await run(runs, "other", look)).outcome.ok
            for elsewhere in (context("d"), context("c", tenant="u")):
                assert not (await run(runs, "other", look, elsewhere)).outcome.ok


class TestOffered:
    def offered(self, root: Path, **options: Any) -> OfferedSkills:  # noqa: ANN401  # as OfferedSkills
        return OfferedSkills(Catalog([SkillRoot(str(root), named=options.pop("named", True))]), **options)

    def test_those_that_hide_or_were_only_found_are_not(self, root: Path) -> None:
        assert self.offered(root).names() == ("granted", "other")
        assert self.offered(root, named=False).names() == ()

    def test_those_that_are_chosen_and_not_excluded(self, root: Path) -> None:
        both = frozenset({"granted", "other"})
        assert self.offered(root, include=both, exclude=frozenset({"other"})).names() == ("granted",)
        assert self.offered(root, include=frozenset()).names() == ()
        assert self.offered(root, admits=lambda spec: spec.name == "other").names() == ("other",)

    @pytest.mark.parametrize("name", ["hidden", "grante", "nothing like it", "x" * 9_000, ""])
    def test_one_that_is_not_offered_is_as_one_that_is_not_there(self, root: Path, name: str) -> None:
        with pytest.raises(SkillNotFoundError) as caught:
            self.offered(root).require(name)
        assert "hidden" not in caught.value.hint
        assert len(str(caught.value)) < 250
        assert caught.value.near == (("granted",) if name == "grante" else ())

    def test_its_own_name_is_known_by_its_id_and_with_blanks(self, root: Path) -> None:
        skills = self.offered(root)
        assert [skills.canonical(name) for name in (" other ", "other", "none")] == ["other", "other", "none"]


class Asked(Arguments):
    city: str
    days: int | None = None


class TestArguments:
    def test_a_schema_has_neither_titles_nor_null(self) -> None:
        assert schema_of(Asked) == {
            "type": "object",
            "additionalProperties": False,
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        }

    def test_a_schema_is_the_callers_own_copy(self) -> None:
        schema_of(Asked)["properties"] = {}
        assert schema_of(Asked)["properties"]

    @pytest.mark.parametrize("arguments", [None, "text", [], 3, {}, {"city": 3}, {"city": "x", "more": 1}])
    def test_what_does_not_fit_is_told_with_the_parameters(self, arguments: object) -> None:
        with pytest.raises(ToolCallError) as caught:
            read_arguments(Asked, ToolCall("weather", arguments))
        assert caught.value.hint == "The parameters are: city, days."
        assert caught.value.violations

    def test_what_fits_is_read(self) -> None:
        assert read_arguments(Asked, ToolCall("weather", {"city": "Bonn", "days": 2})) == Asked(
            city="Bonn", days=2
        )
