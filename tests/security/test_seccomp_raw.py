"""The profile in a real box: each call that must be refused is made, and its honest twin must work."""

from __future__ import annotations

import json
import platform
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.engines.box import ENVIRONMENT
from sandbox_skills.spec import Command, Exited, SandboxSpec

if TYPE_CHECKING:
    from tests.security.conftest import Tried

pytestmark = [pytest.mark.anyio]

PROBE = Path(__file__).with_name("seccomp_probe.py").read_text(encoding="utf-8")

ALLOWED_SOCKETS = {"unix", "tcp", "udp", "tcp6", "udp6", "tcp nonblocking", "netlink route"}

THREADS_AND_PROCESSES = """
import asyncio, concurrent.futures, multiprocessing, socket, subprocess
with concurrent.futures.ThreadPoolExecutor(20) as pool:
    assert list(pool.map(abs, [-1] * 100)) == [1] * 100
with multiprocessing.Pool(2) as pool:
    assert pool.map(abs, [-1, -2]) == [1, 2]
assert subprocess.run(["bash", "-c", "echo a | cat"], capture_output=True).stdout == b"a\\n"
async def main():
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    assert await reader.read() == b""
    writer.close()
    server.close()
    child = await asyncio.create_subprocess_exec("true")
    assert await child.wait() == 0
asyncio.run(main())
assert socket.if_nameindex() == [(1, "lo")]
"""

WORKERS_AND_SOCKETS = """
const {Worker} = require("worker_threads"), net = require("net"), {execSync} = require("child_process");
const worker = new Worker("require('worker_threads').parentPort.postMessage(42)", {eval: true});
worker.on("message", (value) => {
  if (value !== 42 || String(execSync("echo a")) !== "a\\n") process.exit(1);
  const server = net.createServer((socket) => socket.end("x")).listen(0, "127.0.0.1", () => {
    net.connect(server.address().port, "127.0.0.1").on("data", () => { console.log("done"); server.close(); });
  });
});
"""

TOOLS = """
set -e
cd /workspace/work
git init -q repo && cd repo && echo a > a && git add a
git -c user.name=x -c user.email=x@example.org commit -qm x
test "$(git log --oneline | wc -l)" = 1
test "$(echo '{"a":1}' | jq .a)" = 1
tar cf ../repo.tar . && mkdir ../copy && tar xpf ../repo.tar -C ../copy
mkfifo pipe && cp -a pipe pipe2 && chmod -R u+w .
nice -n 5 timeout 5 setsid true
sqlite3 data.db 'create table t(a); insert into t values(1); select * from t'
seq 1000 | sort -R | sort -n | tail -1
"""


async def run(tried: Tried, *argv: str) -> str:
    async with tried.engine.open(SandboxSpec(needs=tried.needs)) as sandbox:
        outcome = await sandbox.run(Command(argv, env=ENVIRONMENT))
    assert outcome.ending == Exited(0), outcome
    return outcome.stdout.decode()


@pytest.fixture(scope="module")
async def answers(tried: Tried) -> dict[str, Any]:
    """What the probe said, once for all tests of this file."""
    found: dict[str, Any] = json.loads(await run(tried, "python3", "-c", PROBE))
    return found


async def test_calls_that_no_skill_needs_are_refused(answers: dict[str, Any]) -> None:
    wrong = {name: answer for name, answer in answers["plain"].items() if answer not in {"EPERM", "absent"}}
    assert not wrong


async def test_no_namespace_of_any_kind_can_be_made(answers: dict[str, Any]) -> None:
    assert set(answers["unshare"].values()) == {"EPERM"}
    assert set(answers["clone"].values()) == {"EPERM"}
    assert answers["clone3"] == "ENOSYS"


async def test_only_local_tcp_and_udp_sockets_and_the_interface_list_exist(answers: dict[str, Any]) -> None:
    allowed = {name for name, answer in answers["socket"].items() if answer == "ok"}
    refused = {answer for name, answer in answers["socket"].items() if name not in ALLOWED_SOCKETS}
    assert (allowed, refused) == (ALLOWED_SOCKETS, {"EPERM"})
    # Let through, the call fails only for want of a place for the two descriptors.
    assert answers["socketpair"] == {"tipc": "EPERM", "unix": "EFAULT"}


async def test_memory_protection_cannot_be_weakened(answers: dict[str, Any]) -> None:
    assert answers["personality"] == {"query": "ok", "no aslr": "EPERM", "read implies exec": "EPERM"}


async def test_only_requests_that_put_input_into_a_terminal_are_refused(answers: dict[str, Any]) -> None:
    assert answers["ioctl"] == {"wrongly allowed": [], "wrongly refused": []}


async def test_a_program_cannot_tune_the_runner(answers: dict[str, Any]) -> None:
    assert set(answers["tune the runner"].values()) == {"EPERM"}
    assert set(answers["tune the runner with a high bit"].values()) == {"EPERM"}
    assert (answers["priority of a group"], answers["priority of a user"]) == ("EPERM", "EPERM")


async def test_a_program_can_tune_itself(answers: dict[str, Any]) -> None:
    assert "EPERM" not in answers["tune itself"].values()


async def test_a_program_cannot_have_its_core_piped_to_one_of_the_host(answers: dict[str, Any]) -> None:
    lowering = {name for name, answer in answers["cores"].items() if answer == "EPERM"}
    assert lowering == {name for name in answers["cores"] if name.startswith(("setrlimit", "prlimit64"))}
    assert {answers["cores"][name] for name in answers["cores"].keys() - lowering} == {"ok"}


async def test_foreign_abis_kill_the_caller(answers: dict[str, Any]) -> None:
    foreign = {"native": 0, "x86": signal.SIGSYS, "x32": signal.SIGSYS}
    assert answers["abis"] == (foreign if platform.machine() == "x86_64" else {})


async def test_python_threads_processes_and_loopback_sockets_work(tried: Tried) -> None:
    await run(tried, "python3", "-c", THREADS_AND_PROCESSES)


async def test_node_workers_children_and_loopback_sockets_work(tried: Tried) -> None:
    assert await run(tried, "node", "-e", WORKERS_AND_SOCKETS) == "done\n"


async def test_the_command_line_tools_work(tried: Tried) -> None:
    assert (await run(tried, "bash", "-c", TOOLS)).split() == ["1", "1000"]
