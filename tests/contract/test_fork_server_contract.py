"""A program as a fork of an interpreter that is up, beside a fresh one: what `fork_server.py` does not list is equal.

Each program below is run both ways in one box, and tells what it finds.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest

from sandbox_skills.spec import WORKSPACE, Command, Exited, Limits, SandboxSpec, Signalled, Stopped
from sandbox_skills.workspace.handlers import handler_request
from sandbox_skills.workspace.layout import run_environment
from sandbox_skills.workspace.manager import RunRules, WorkspaceManager
from tests.contract.engines import BOXES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path, PurePosixPath

    from sandbox_skills.engines.base import Engine, Sandbox
    from sandbox_skills.spec import Outcome
    from sandbox_skills.workspace.staging import SkillStore

pytestmark = pytest.mark.anyio

ENV = run_environment(None, skill_name="", run_id="r")
PROCESSES = "import os; print(sum(name.isdigit() for name in os.listdir('/proc')))"
WITH_SPARE = b"4\n"
"""The runner, the server, its spare, and the program that looks."""

FORKED = "import sys; print('argparse' in sys.modules)"


class Box:
    """A sandbox whose fork server is up."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    async def run(
        self,
        *argv: str,
        fork: bool = True,
        stdin: bytes | None = None,
        env: Mapping[str, str] = ENV,
        cwd: PurePosixPath = WORKSPACE,
    ) -> Outcome:
        command = Command(argv, env=env, fork=fork, stdin=stdin, cwd=cwd)
        return await self.sandbox.run(command, limits=Limits(wall_seconds=10))

    async def ready(self) -> None:
        """Returns when a fork waits for its program."""
        await self.run("python3", "-c", "pass")
        async with asyncio.timeout(15):
            while (await self.run("python3", "-c", PROCESSES, fork=False)).stdout != WITH_SPARE:
                await self.run("python3", "-c", "pass")
                await asyncio.sleep(0.05)

    async def write(self, files: Mapping[str, str]) -> None:
        async def once(data: bytes) -> AsyncIterator[bytes]:
            yield data

        for name, text in files.items():
            await self.sandbox.put(WORKSPACE / name, once(text.encode()))


@pytest.fixture(scope="module", params=BOXES)
def engine(request: pytest.FixtureRequest) -> Engine:
    return cast("Engine", request.getfixturevalue(f"{request.param}_engine"))


@pytest.fixture(scope="module")
async def box(anyio_backend: object, engine: Engine) -> AsyncIterator[Box]:
    async with engine.open(SandboxSpec()) as sandbox:
        yield Box(sandbox)


@dataclass(frozen=True)
class Program:
    """What is run, and what it finds."""

    argv: tuple[str, ...]
    stdin: bytes | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: PurePosixPath = WORKSPACE


def code(text: str, *args: str, **options: object) -> Program:
    return Program(("python3", "-c", text, *args), **options)  # type: ignore[arg-type]


def script(text: str, *args: str, **options: object) -> Program:
    files = {"work/s.py": text, **cast("dict[str, str]", options.pop("files", {}))}
    return Program(("python3", "work/s.py", *args), files=files, **options)  # type: ignore[arg-type]


MAIN = """
import sys, json
print(json.dumps({n: repr(v).split(' at 0x')[0] for n, v in sorted(globals().items())}, indent=0))
print(sys.modules['__main__'].__dict__ is globals(), sys.argv, sys.orig_argv, sys.path)
"""
STREAMS = """
import sys
for s in (sys.stdin, sys.stdout, sys.stderr):
    b = s.buffer
    raw = getattr(b, 'raw', b)
    print(type(b), type(raw), s.name, s.mode, s.encoding, s.errors, s.newlines, s.line_buffering, s.write_through,
          s.isatty(), s.seekable(), s.readable(), s.writable(), s.fileno(), raw.closefd, raw.mode, b.name, raw.name)
print(sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__)
print(repr(sys.stdin.read()))
"""
PROCESS = """
import os, resource, signal, sys
me = os.getpid()
print(os.getsid(0) == me, os.getpgid(0) == me, os.getppid(), oct(os.umask(0)), os.getcwd(), os.nice(0))
print([(n, resource.getrlimit(getattr(resource, n))) for n in dir(resource) if n.startswith('RLIMIT_')])
print([signal.getsignal(n) for n in range(1, 65) if n not in (32, 33)], signal.pthread_sigmask(signal.SIG_BLOCK, []))
print([line for line in open('/proc/self/status') if line.startswith(('Sig', 'Shd', 'Cap', 'NoNew', 'Seccomp:', 'Name',
       'Uid', 'Gid', 'Groups', 'Threads', 'Umask', 'TracerPid'))])
print(os.stat('/proc/self').st_uid == os.getuid(), open('/proc/self/oom_score_adj').read(), os.sched_getaffinity(0))
print(open('/proc/self/comm').read(), os.readlink('/proc/self/exe'), os.listdir('/proc/self/task') == [str(me)])
"""
FILES = """
import os
def target(name):
    try:
        return os.readlink(f'/proc/self/fd/{name}').split(':')[0]
    except OSError:
        return 'the listing itself'
print([(name, target(name), os.get_inheritable(int(name))) for name in os.listdir('/proc/self/fd') if int(name) < 3])
print(len(os.listdir('/proc/self/fd')))
"""
END = """
import atexit, threading, time, sys
class Told:
    def __init__(self, name): self.name = name
    def __del__(self): print('end of', self.name, flush=True)
first, _private = Told('first'), Told('private')
loop = [Told('loop')]; loop.append(loop)
kept = open('/workspace/work/kept.txt', 'w'); kept.write('kept')
atexit.register(print, 'registered first'); atexit.register(print, 'registered last')
threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()
print('main', end='')
sys.stdout.flush()
"""
OWN_HOOK = "import sys\nsys.excepthook = lambda kind, error, trace: print('hook', kind, error, trace.tb_lineno)\n1/0\n"
BAD_HOOK = "import sys\ndef hook(*_): raise ValueError('of the hook')\nsys.excepthook = hook\n1/0\n"
DEEP = """
def f(n):
    if n: f(n - 1)
    try:
        {}['x']
    except KeyError as error:
        raise RuntimeError('text') from error
f(3)
"""
POOL = """
import multiprocessing
def square(n): return n * n
if __name__ == '__main__':
    with multiprocessing.get_context('KIND').Pool(2) as pool:
        print(pool.map(square, range(4)))
"""
STATE = """
import sys, gc, locale, warnings, threading, os, time
print(sys.flags, sys.warnoptions, sys._xoptions, sys.executable, sys.prefix, sys.base_prefix, sys.exec_prefix)
print(sys.getrecursionlimit(), sys.getswitchinterval(), gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.garbage)
print(sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())
print(locale.getlocale(), locale.setlocale(locale.LC_ALL))
print(warnings.filters, threading.active_count(), threading.enumerate(), threading.main_thread().name)
print(threading.get_native_id() == os.getpid(), sys.gettrace(), sys.getprofile(), sys.excepthook, sys.displayhook)
print(sys.meta_path, sys.path_hooks, sys.dont_write_bytecode, sys.pycache_prefix, hasattr(sys, 'last_exc'))
print(os.environ, os.environb[b'PATH'], time.tzname, sys.platlibdir, hasattr(sys, 'ps1'))
"""
DAEMON = """
import threading, time, sys
def forever():
    while True: time.sleep(0.01); len(str(time))
threading.Thread(target=forever, daemon=True).start()
print('done')
sys.exit(9)
"""

EXITS = ("", "0", "3", "'told'", "256", "-1", "True", "2**70", "(1, 2)")

PROGRAMS = {
    "main, by -c": code(MAIN, "a", "-b", ""),
    "main, by a path": script(MAIN, "a", "--", "c"),
    "main, by a module": Program(("python3", "-m", "work.s", "x"), files={"work/s.py": MAIN}),
    "main, by an absolute path": Program(
        ("python3", "/workspace/work/s.py"), files={"work/s.py": MAIN}, cwd=WORKSPACE / "out"
    ),
    "main, by a path with dots": Program(("python3", "./work/../work/s.py"), files={"work/s.py": MAIN}),
    "main, by a package": Program(
        ("python3", "-m", "pack"), files={"lib/pack/__main__.py": MAIN}, env={"PYTHONPATH": "lib"}
    ),
    "paths of PYTHONPATH": code(MAIN, env={"PYTHONPATH": "/workspace/lib:work::/usr/lib/python3.13:work"}),
    "another name for the interpreter": Program(("/usr/bin/python3", "-c", MAIN)),
    "a module of Python's own": Program(("python3", "-m", "json.tool"), stdin=b'{"a": [1, 2]}'),
    "streams without an input": script(STREAMS),
    "streams with an input": script(STREAMS, stdin="one\r\ntwo\xe9".encode()),
    "the process": script(PROCESS),
    "open files": script(FILES, stdin=b""),
    "the interpreter's state": script(STATE),
    "the environment of children": code("import subprocess; subprocess.run(['env'])", env={"A": "ä", "TZ": "UTC"}),
    "the time zone": code("import time; print(time.tzname, time.localtime(0).tm_hour)", env={"TZ": "Asia/Tokyo"}),
    "signals of children": code("import subprocess; subprocess.run(['grep', 'Sig', '/proc/self/status'])"),
    "the end, by a path": script(END),
    "the end, by -c": code(END),
    "what the end has written": code("print(open('/workspace/work/kept.txt').read())"),
    "a thread that nobody waits for": script(DAEMON),
    "a pipe that nobody reads": code("import os, sys; r, w = os.pipe(); os.close(r); os.write(w, b'x')"),
    "a closed stdout": code("import sys; print('x'); sys.stdout.close()"),
    "a full stdout": code("import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 1); print('x')"),
    "asyncio": code("import asyncio; print(asyncio.run(asyncio.sleep(0.01, 'slept')))"),
    "children by fork": script(POOL.replace("KIND", "fork")),
    "children by spawn": script(POOL.replace("KIND", "spawn")),
    "pickling of its own class": script("import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))))"),
    "a warning": script("import warnings\nwarnings.warn('w')\nwarnings.warn('d', DeprecationWarning)\nx = 1 is 1\n"),
    "source in another encoding": script("# coding: latin-1\nprint(len('ä'))\n"),
    "annotations": script("print(__annotations__)\nx: int = 1\nprint(__annotations__)"),
    **{f"exit {text}": code(f"import sys; print('x'); sys.exit({text})") for text in EXITS},
    "exit by os._exit": code("import os; os._exit(5)"),
    "exit by a signal": code("import os, signal; os.kill(os.getpid(), signal.SIGTERM)"),
    "exit by abort": code("import os; os.abort()"),
    "exit in an exit handler": code("import atexit, sys; atexit.register(lambda: sys.exit(4))"),
    "an error in an exit handler": code("import atexit; atexit.register(lambda: 1/0)"),
    "an interrupt": script("raise KeyboardInterrupt('now')"),
    "an error, by -c": code("def f():\n  return {}[1]\nf()"),
    "an error, by a path": script(DEEP),
    "an error, by a module": Program(("python3", "-m", "work.s"), files={"work/s.py": DEEP}),
    "errors in a group": script("raise ExceptionGroup('g', [ValueError(1), OSError(2, 'x')])"),
    "an error with a note": script("e = ValueError('v'); e.add_note('note'); raise e"),
    "an error of syntax, by a path": script("x = 1\ndef f(:\n"),
    "an error of syntax, by -c": code("x = = 1"),
    "an error of syntax in an import": script("import broken", files={"work/broken.py": "x = (\n"}),
    "too deep a recursion": script("def f(): f()\ntry:\n  f()\nexcept RecursionError as e: print(e)"),
    "a hook of its own": script(OWN_HOOK),
    "a hook that fails": script(BAD_HOOK),
    "no such script": Program(("python3", "work/none.py")),
    "no such module": Program(("python3", "-m", "none.such")),
    "a folder as a script": Program(("python3", "work"), files={"work/__main__.py": MAIN}),
    "a folder without a program": Program(("python3", "out")),
    "a shell's own name": Program(("python3", "-c", "import os; print(os.environ['HOME'])"), env={"HOME": "/tmp"}),
    "an empty command": code(""),
    "NUL in a script": script("print(1)\0"),
    "a script that shadows": script("import json; print(json.mine)", files={"work/json.py": "mine = 1"}),
    "a folder that shadows": code(
        "import csv; print(csv.mine)", files={"lib/csv/__init__.py": "mine = 1"}, env={"PYTHONPATH": "/workspace/lib"}
    ),
    "a folder of data by a known name": code(
        "import html; print(html.__file__)", files={"lib/html/x.txt": ""}, env={"PYTHONPATH": "/workspace/lib"}
    ),
    "a site of its own": code(
        "pass", files={"lib/sitecustomize.py": "print('site')"}, env={"PYTHONPATH": "/workspace/lib"}
    ),
    "a seed of hashes": code("print(hash('a'))", env={"PYTHONHASHSEED": "3"}),
    "options before": Program(("python3", "-O", "-c", "import sys; assert 0; print(sys.flags)")),
    "options by a variable": code("import sys; assert 0; print(sys.flags)", env={"PYTHONOPTIMIZE": "1"}),
    "a buffered stdout": code("import sys; print(sys.stdout.write_through)", env={"PYTHONUNBUFFERED": ""}),
    "another locale": code("import sys; print(sys.stdout.encoding)", env={"LC_ALL": "POSIX"}),
    "a program from stdin": Program(("python3",), stdin=b"print(__name__)"),
    "a program from stdin, by a dash": Program(("python3", "-", "a"), stdin=b"import sys; print(sys.argv)"),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
async def test_it_finds_what_a_fresh_one_finds(box: Box, name: str) -> None:
    program = PROGRAMS[name]
    env = {**ENV, **program.env}
    await box.run("bash", "-c", "rm -rf lib work/* && mkdir -p work out lib/pack", fork=False)
    await box.write(program.files)
    found = []
    for fork in (False, True):
        if fork:
            await box.ready()
        outcome = await box.run(*program.argv, fork=fork, stdin=program.stdin, env=env, cwd=program.cwd)
        printed = [
            re.sub(rb"0x[0-9a-f]{8,}|started \d+", b"", text) for text in (outcome.stdout, outcome.stderr)
        ]
        found.append((outcome.ending, *(text.decode() for text in printed)))
    assert found[1] == found[0]


async def test_it_is_a_fork(box: Box) -> None:
    await box.ready()
    assert (await box.run("python3", "-c", FORKED)).stdout == b"True\n"
    assert (await box.run("python3", "-c", FORKED, fork=False)).stdout == b"False\n"


async def test_a_handler_of_a_session_is_a_fork(
    engine: Engine, store: SkillStore, tmp_path: Path, anyio_backend: object
) -> None:
    (tmp_path / "SKILL.md").write_text("---\nname: skill\ndescription: d\n---\n", encoding="utf-8")
    handler = "def handler(args):\n    import sys\n    print('stray')\n    return [args, 'argparse' in sys.modules]\n"
    (tmp_path / "x.py").write_text(handler, encoding="utf-8")
    manager = WorkspaceManager(engine, store, rules=RunRules(fork_python=True))
    async with manager.session(tenant="t") as session, asyncio.timeout(15):
        staged = await session.stage(tmp_path)
        forked = False
        while not forked:
            result = await session.run(staged, handler_request("x.py", '{"a": 1}'))
            assert result.outcome.ending == Exited(0), result.outcome
            assert result.outcome.stderr == b"stray\n"
            answer, forked = json.loads(result.outcome.stdout)
            assert answer == {"a": 1}


async def test_a_handler_finds_its_own_module_of_a_known_name(
    engine: Engine, store: SkillStore, tmp_path: Path, anyio_backend: object
) -> None:
    (tmp_path / "SKILL.md").write_text("---\nname: skill\ndescription: d\n---\n", encoding="utf-8")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "csv.py").write_text("mine = 1\n", encoding="utf-8")
    handler = "import csv\ndef handler(args):\n    return csv.mine\n"
    (tmp_path / "scripts" / "x.py").write_text(handler, encoding="utf-8")
    manager = WorkspaceManager(engine, store, rules=RunRules(fork_python=True))
    async with manager.session(tenant="t") as session:
        staged = await session.stage(tmp_path)
        for _ in range(3):
            result = await session.run(staged, handler_request("scripts/x.py", "{}"))
            assert (result.outcome.ending, result.outcome.stdout) == (Exited(0), b"1"), result.outcome
            await Box(session.sandbox).ready()


async def test_what_is_random_differs(box: Box) -> None:
    text = "import random, uuid, os, tempfile; print(random.random(), uuid.uuid4(), os.urandom(4), tempfile.mktemp())"
    seen = set()
    for _ in range(3):
        await box.ready()
        seen.add((await box.run("python3", "-c", text)).stdout)
    assert len(seen) == 3


async def test_it_is_stopped_by_its_limit(box: Box) -> None:
    await box.ready()
    command = Command(("python3", "-c", "import time; time.sleep(60)"), env=ENV, fork=True)
    outcome = await box.sandbox.run(command, limits=Limits(wall_seconds=0.3))
    assert outcome.ending == Stopped("wall_time")
    await box.ready()
    assert (await box.run("python3", "-c", FORKED)).stdout == b"True\n"


async def test_it_is_charged_what_it_uses(box: Box) -> None:
    await box.ready()
    outcome = await box.run("python3", "-c", "import time\nwhile time.process_time() < 0.5: pass")
    assert 0.4 < outcome.cpu_seconds < 1.5
    assert (await box.run("python3", "-c", "pass")).cpu_seconds < 0.3


HOSTILE = {
    "leaves a process": "import os, time\nif not os.fork():\n  os.setsid()\n  os.fork()\n  time.sleep(60)",
    "ends the server": (
        # The end of one may be that of another, sooner than this comes to it.
        "import contextlib, os\nfor p in others:\n  with contextlib.suppress(ProcessLookupError):\n    os.kill(p, 9)"
    ),
    "stops the server": "import os, signal\n[os.kill(p, signal.SIGSTOP) for p in others]",
    "ends all it can": "import os, signal\nos.kill(-1, 9)",
}
OTHERS = "import os\nothers = [int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) not in (1, os.getpid())]\n"


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("fork", [False, True], ids=["fresh", "forked"])
async def test_what_a_program_does_to_the_server_no_other_run_feels(box: Box, what: str, fork: bool) -> None:  # noqa: FBT001
    await box.ready()
    outcome = await box.run("python3", "-c", OTHERS + HOSTILE[what], fork=fork)
    assert outcome.ending in {Exited(0), Signalled(9)}
    assert outcome.sandbox_lives
    outcome = await box.run("python3", "-c", "print(6 * 7)")
    assert (outcome.ending, outcome.stdout) == (Exited(0), b"42\n")
    await box.ready()
    assert (await box.run("python3", "-c", FORKED)).stdout == b"True\n"


REACH = """
import errno, os
def tried(path, flags):
    try:
        os.close(os.open(path, flags))
    except OSError as error:
        return errno.errorcode[error.errno]
    return 'open'
for p in others:
    print([tried(f'/proc/{p}/{name}', os.O_RDWR) for name in ('mem', 'fd/0', 'oom_score_adj')],
          [tried(f'/proc/{p}/{name}', os.O_RDONLY) for name in ('environ', 'maps', 'fd', 'auxv', 'cwd')])
"""


@pytest.mark.parametrize("fork", [False, True], ids=["fresh", "forked"])
async def test_no_program_reaches_the_server_or_its_spare(box: Box, fork: bool) -> None:  # noqa: FBT001
    await box.ready()
    outcome = await box.run("python3", "-c", OTHERS + REACH, fork=fork)
    lines = outcome.stdout.decode().splitlines()
    assert len(lines) == (1 if fork else 2)
    assert set(lines) == {"['EACCES', 'EACCES', 'EACCES'] ['EACCES', 'EACCES', 'EACCES', 'EACCES', 'EACCES']"}
