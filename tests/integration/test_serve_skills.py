"""Skills that are sent to `sandbox-skills serve`, run in real sandboxes, called as tools, and gone when deleted."""

from __future__ import annotations

import io
import signal
import socket
import time
import zipfile
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.serve_process import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Program
    from tests.serve_process import Served

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(180)]

TEXT = "---\nname: sums\ndescription: Adds numbers.\n---\nRun `scripts/add.py`.\n"
SCRIPT = "#!/usr/bin/env python3\nimport sys\nprint(sum(map(int, sys.argv[1:])))\n"
FILES = {"SKILL.md": TEXT, "scripts/add.py": SCRIPT}


@pytest.fixture
def server(program: Program) -> Iterator[Served]:
    with served(program) as server:
        yield server


def zipped(files: dict[str, str]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"sums/{name}", text)
    return held.getvalue()


def lying(program: Program) -> list[str]:
    return sorted(path.name for path in (program.data_dir / "tenant-skills").glob("*/*"))


def test_a_skill_that_was_sent_runs_in_its_version_and_as_a_tool(server: Served, program: Program) -> None:
    with server.client() as client:
        for words in ("first", "second"):
            sent = client.post("/v1/skills", files={"file": ("x.zip", zipped({**FILES, "version": words}))})
            assert sent.status_code == 201, sent.text
        outputs = [
            server.run(
                {
                    "skill": "sums",
                    "version": version,
                    "command": "cat version; echo; python3 scripts/add.py 1 2",
                }
            )
            for version in ("1", "latest")
        ]
        assert [run["result"]["stdout"] for run in outputs] == ["first\n3\n", "second\n3\n"]
        call: dict[str, Any] = {
            "type": "tool_use",
            "id": "t1",
            "name": "use_skill",
            "input": {"skill": "sums", "script": "scripts/add.py", "args": ["20", "22"]},
        }
        answer = client.post("/v1/tool-calls", json={"format": "anthropic", "call": call}).json()
        assert answer["result"]["is_error"] is False, answer
        assert "42" in answer["result"]["content"]
        assert client.delete("/v1/skills/sums").status_code == 204
        assert client.post("/v1/runs", json={"skill": "sums", "command": "true"}).status_code == 404
    assert lying(program) == []


def test_a_kill_in_the_middle_of_an_upload_leaves_nothing_for_the_next_start(program: Program) -> None:
    with served(program) as server:
        place = urlsplit(server.url)
        assert place.hostname is not None
        with server.client() as client:
            assert client.post("/v1/skills", files={"file": ("x.zip", zipped(FILES))}).status_code == 201
        (kept,) = lying(program)
        with socket.create_connection((place.hostname, place.port)) as connection:
            head = (
                f"POST /v1/skills HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {server.key}\r\n"
                "content-type: multipart/form-data; boundary=x\r\ncontent-length: 1000000\r\n\r\n"
            )
            part = '--x\r\ncontent-disposition: form-data; name="file"; filename="x.zip"\r\n\r\nPK'
            connection.sendall((head + part).encode())
            deadline = time.monotonic() + 30
            while len(lying(program)) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
    assert len(lying(program)) == 2
    # The database goes with `served`: of the contents none is known any more, and all are removed at the start.
    with served(program) as server, server.client() as client:
        assert client.get("/v1/skills/sums").status_code == 404
        assert lying(program) == []
    assert kept not in lying(program)


@pytest.mark.timeout(400)
def test_ten_thousand_files_are_taken_and_some_more_are_not(server: Served, program: Program) -> None:
    def form(number: int) -> list[tuple[str, tuple[str, str]]]:
        names = ["SKILL.md", *(f"f{one}" for one in range(number))]
        return [("files[]", (name, TEXT if name == "SKILL.md" else "")) for name in names]

    with server.client() as client:
        assert client.post("/v1/skills", files=form(9_998)).status_code == 201
        assert client.get("/healthz").status_code == 200
        assert client.post("/v1/skills", files=form(10_010)).status_code == 422
    assert len(lying(program)) == 1
