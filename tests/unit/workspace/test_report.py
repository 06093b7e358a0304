"""What is told of collected files: where they are looked at."""

from __future__ import annotations

import threading

import pytest

from sandbox_skills.spec import CollectLimits
from sandbox_skills.telemetry import Redaction
from sandbox_skills.workspace.output_spec import OutputPlan
from sandbox_skills.workspace.outputs import CollectedFile
from sandbox_skills.workspace.report import THREAD_BYTES, reported

pytestmark = pytest.mark.anyio


class Watching(Redaction):
    """Notes which thread shows texts."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()

    def text(self, text: str, *, cut: bool = False) -> str:
        self.threads.add(threading.get_ident())
        return super().text(text, cut=cut)


@pytest.mark.parametrize("large", [False, True])
async def test_many_bytes_are_looked_at_off_the_event_loop(*, large: bool) -> None:
    data = b"x" * (THREAD_BYTES // 2 if large else 10)
    files = [CollectedFile(f"out/{name}.txt", len(data), truncated=False, data=data) for name in "ab"]
    watching = Watching()
    report = await reported(files, OutputPlan(("out/*",), CollectLimits()), redaction=watching)
    assert (threading.get_ident() in watching.threads) is not large
    assert len(watching.threads) == 1
    assert [file.mime_type for file in report.output_files] == ["text/plain", "text/plain"]
