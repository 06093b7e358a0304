"""What a run was granted is seen nowhere: not in its output, kept or live, nor in files, names, errors and records."""

from __future__ import annotations

import base64
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pytest

from sandbox_skills.artifacts import LocalArtifactStore
from sandbox_skills.engines.fake import FakeEngine
from sandbox_skills.errors import CommandError, SandboxSkillsError
from sandbox_skills.spec import WORKSPACE, Limits, SandboxSpec, TerminalSize
from sandbox_skills.telemetry import REDACTED, Redaction
from sandbox_skills.workspace.manager import Argv, RunRequest, Services, WorkspaceManager
from sandbox_skills.workspace.output_spec import OutputRequest
from sandbox_skills.workspace.staging import SkillStore

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.engines.fake_programs import Running
    from sandbox_skills.telemetry import AuditEvent
    from sandbox_skills.workspace.interactive import Poll
    from sandbox_skills.workspace.result import RunResult

pytestmark = pytest.mark.anyio

SECRET = "sk-live-0123456789/abc"
GRANTS = {"KEY": SECRET}


class Audit:
    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


async def _say(run: Running) -> int:
    """Prints its standard input a byte at a time, on the stream that is named."""
    stream: Literal["stdout", "stderr"] = "stderr" if run.command.argv[1:] == ("err",) else "stdout"
    while data := await run.input.read():
        for one in data:
            run.write(bytes([one]), stream)
    return 0


async def _name(run: Running) -> int:
    """Writes a file whose name is the secret, and one with the secret in it."""
    key = run.command.env["KEY"].replace("/", "-")
    run.files[(WORKSPACE / "out" / f"{key}.txt").relative_to(WORKSPACE)] = b"x"
    run.files[(WORKSPACE / "out" / "a.txt").relative_to(WORKSPACE)] = f"key={key}\n".encode()
    return 0


async def _miss(run: Running) -> int:
    run.write(f"cat: {run.command.env['KEY']}: No such file or directory\n".encode(), "stderr")
    return 1


@pytest.fixture
def audit() -> Audit:
    return Audit()


@pytest.fixture
def manager(tmp_path: Path, audit: Audit) -> WorkspaceManager:
    return WorkspaceManager(
        FakeEngine({"say": _say, "name": _name, "miss": _miss}),
        SkillStore(tmp_path / "store"),
        spec=SandboxSpec(needs=frozenset()),
        services=Services(LocalArtifactStore(tmp_path / "artifacts"), audit),
    )


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    (tmp_path / "skill").mkdir()
    (tmp_path / "skill" / "SKILL.md").write_text("x")
    return tmp_path / "skill"


def asked(*argv: str, text: str = "", **more: Any) -> RunRequest:  # noqa: ANN401  # as RunRequest
    return replace(RunRequest(Argv(argv), grants=GRANTS, stdin=text.encode()), **more)


@pytest.mark.parametrize("stream", ["out", "err"])
async def test_output_is_redacted_kept_and_live_however_it_comes(
    manager: WorkspaceManager, skill: Path, stream: str
) -> None:
    text = f"a {SECRET}, {base64.b64encode(SECRET.encode()).decode()} {SECRET[:5]}"
    heard = {"stdout": b"", "stderr": b""}

    def listen(name: Literal["stdout", "stderr"], data: bytes, /) -> None:
        heard[name] += data

    result = await manager.run(skill, asked("say", stream, text=text), tenant="t", on_output=listen)
    kept = {"stdout": result.outcome.stdout, "stderr": result.outcome.stderr}
    shown = kept[f"std{stream}"].decode()
    assert shown.startswith(f"a {REDACTED}, {REDACTED}")
    assert shown.endswith(f" {SECRET[:5]}")
    assert heard == kept
    assert len(text) == result.outcome.stdout_bytes + result.outcome.stderr_bytes


@pytest.mark.parametrize("size", range(1, 40))
async def test_a_head_that_was_cut_never_ends_in_a_part_of_a_secret(
    manager: WorkspaceManager, skill: Path, size: int
) -> None:
    request = asked("say", text=f"key: {SECRET}!", limits=Limits(stdout_bytes=size))
    result = await manager.run(skill, request, tenant="t")
    assert result.outcome.stdout.decode() in f"key: {REDACTED}!"
    assert "sk" not in result.outcome.stdout.decode()


async def test_a_program_that_is_talked_to_shows_none(manager: WorkspaceManager, skill: Path) -> None:
    async with manager.session(tenant="t") as session:
        staged = await session.stage(skill)
        program = await session.start_program(staged, asked("cat"), tty=TerminalSize())
        await program.write(f"key: {SECRET}", submit=True)
        shown = ""
        while REDACTED not in shown:
            shown += (await program.poll()).text
        await program.write("\x04")
        while (poll := await program.poll()).result is None:
            shown += poll.text
        assert SECRET not in shown + poll.text
        assert_shows_none(poll)


def assert_shows_none(poll: Poll[RunResult]) -> None:
    assert poll.outcome is not None
    assert poll.result is not None
    for outcome in (poll.outcome, poll.result.outcome):
        assert SECRET.encode() not in outcome.stdout
        assert REDACTED.encode() in outcome.stdout


async def test_a_file_is_told_without_it_and_saved_as_it_is(manager: WorkspaceManager, skill: Path) -> None:
    secret = SECRET.replace("/", "-")
    wanted = OutputRequest(("out/*",), save_as_artifacts=True)
    request = asked("name", wanted=wanted, grants={"KEY": secret})
    result = await manager.run(skill, request, tenant="t")
    assert result.report is not None
    assert result.report.primary_output is not None
    assert [(one.name, one.content) for one in result.report.output_files] == [
        ("out/a.txt", f"key={REDACTED}\n")
    ]
    assert result.report.primary_output.content == f"key={REDACTED}\n"
    assert result.skipped == {f"out/{REDACTED}.txt": "secret"}
    assert result.files[0].data == f"key={secret}\n".encode()
    assert secret not in str(result.as_dict())
    assert [artifact.name for artifact in result.report.artifacts] == ["out/a.txt"]


async def test_a_hint_has_none(manager: WorkspaceManager, skill: Path) -> None:
    result = await manager.run(skill, asked("miss"), tenant="t")
    assert [(hint.kind, hint.subject) for hint in result.hints] == [("file_missing", REDACTED)]


async def test_what_another_run_left_is_not_shown_by_one_that_was_granted_nothing(
    tmp_path: Path, skill: Path
) -> None:
    manager = WorkspaceManager(
        FakeEngine(),
        SkillStore(tmp_path / "store"),
        spec=SandboxSpec(needs=frozenset()),
        services=Services(redaction=Redaction([SECRET])),
    )
    result = await manager.run(skill, RunRequest(Argv(("echo", SECRET))), tenant="t")
    assert result.outcome.stdout == f"{REDACTED}\n".encode()


class TestRecords:
    async def test_an_event_has_none_in_any_form(
        self, manager: WorkspaceManager, audit: Audit, skill: Path
    ) -> None:
        encoded = base64.b64encode(SECRET.encode()).decode()
        request = asked("echo", SECRET, encoded, env={"URL": f"x?k={SECRET}"}, cwd=f"work/{SECRET}")
        await manager.run(skill, request, tenant="t")
        for broken in (Argv(("x\0", SECRET)), Argv(())):
            with pytest.raises(CommandError):
                await manager.run(skill, replace(request, invocation=broken), tenant="t")
        assert [event.status for event in audit.events] == ["ended", "refused", "refused"]
        assert SECRET not in str(audit.events)
        assert encoded[:-2] not in str(audit.events)

    async def test_neither_an_error_nor_a_log_has_any(
        self, manager: WorkspaceManager, skill: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        blocked = tmp_path / SECRET.replace("/", "-")
        blocked.write_text("a file")
        secret = blocked.name
        request = replace(asked("name", grants={"KEY": secret}), outputs=("out/*",), out_dir=blocked / "x")
        with caplog.at_level(logging.DEBUG), pytest.raises(SandboxSkillsError) as caught:
            async with manager.session(tenant="t") as session:
                await session.run(await session.stage(skill), request)
        assert secret not in caplog.text
        assert secret not in f"{caught.value} {caught.value.message} {caught.value.hint}"
