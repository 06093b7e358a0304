"""The shim of Python handlers, as the image has it, run by this Python: its result alone on stdout."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

SHIM = Path(__file__).parents[3] / "runner-image" / "handlers" / "python.py"

ARGUMENTS = {"a": 1, "text": "\N{SNOWMAN}\ud800", "__workDir": "/workspace/work"}

MAIN = """
import json, sys
if __name__ == "__main__":
    print(json.dumps(handler(json.loads(sys.argv[1]))))
"""


@dataclass(frozen=True)
class Answer:
    status: int
    stdout: str
    stderr: str

    @property
    def value(self) -> object:
        return json.loads(self.stdout)


@pytest.fixture
def called(tmp_path: Path) -> Callable[[str], Answer]:
    """Calls a handler of this source, as a box does."""

    def call(source: str) -> Answer:
        script = tmp_path / "scripts" / "tool.py"
        script.parent.mkdir()
        script.write_text(source, encoding="utf-8")
        text = json.dumps(ARGUMENTS)
        done = subprocess.run(
            [sys.executable, SHIM, script, text], input=text, capture_output=True, text=True, check=False
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    return call


def function(body: str) -> str:
    return f"def handler(args):\n    {body}\n"


@pytest.mark.parametrize("more", ["", MAIN])
def test_a_function_is_called_with_or_without_a_main_block(
    called: Callable[[str], Answer], more: str
) -> None:
    answer = called(function("return args") + more)
    assert (answer.status, answer.value, answer.stderr) == (0, ARGUMENTS, "")


@pytest.mark.parametrize(
    ("returned", "value"),
    [
        ("None", None),
        ("'text \\ud800 \\u2028'", "text \ud800 \u2028"),
        ("0.1", 0.1),
        ("[True, (1, 2), 10**400]", [True, [1, 2], 10**400]),
        ("{1: 'int', None: {}}", {"1": "int", "null": {}}),
        ("__import__('collections').OrderedDict(b=1, a=2)", {"b": 1, "a": 2}),
    ],
)
def test_the_result_may_be_any_json_value(
    called: Callable[[str], Answer], returned: str, value: object
) -> None:
    answer = called(function(f"return {returned}"))
    assert (answer.status, answer.value) == (0, value)


def test_an_asynchronous_handler_is_awaited(called: Callable[[str], Answer]) -> None:
    source = "import asyncio\nasync def handler(args):\n    await asyncio.sleep(0)\n    return args['a']\n"
    assert called(source).value == 1


@pytest.mark.parametrize(
    "source",
    [
        "handler = lambda args: args['a']",
        "from functools import partial\nhandler = partial(dict.get, key='a') and (lambda args: args['a'])",
        "class handler:\n    def __new__(cls, args):\n        return args['a']",
    ],
)
def test_a_handler_may_be_anything_that_can_be_called(called: Callable[[str], Answer], source: str) -> None:
    assert called(source).value == 1


def test_what_a_handler_prints_is_not_its_result(called: Callable[[str], Answer]) -> None:
    noise = (
        "print('{\"forged\": 1}'); __import__('os').system('echo child'); __import__('os').write(1, b'raw')"
    )
    answer = called(f"print('module')\n{function(noise + '; return 5')}")
    assert answer.value == 5
    assert {"module", '{"forged": 1}', "child"} <= set(answer.stderr.splitlines())


def test_a_handler_finds_itself_as_a_script_does(called: Callable[[str], Answer], tmp_path: Path) -> None:
    source = """
from __future__ import annotations
import dataclasses, json, pickle, sys
from pathlib import Path
@dataclasses.dataclass
class Row:
    x: int
def handler(args):
    row = pickle.loads(pickle.dumps(Row(1)))
    return [__file__, sys.argv[0], sys.path[0], json.loads(sys.argv[1])["a"], json.load(sys.stdin)["a"], row.x]
"""
    script = str(tmp_path / "scripts" / "tool.py")
    assert called(source).value == [script, script, str(Path(script).parent), 1, 1, 1]


def test_without_an_argument_they_come_on_standard_input(tmp_path: Path) -> None:
    script = tmp_path / "tool.py"
    script.write_text(
        "import json, sys\ndef handler(args): return [args, json.load(sys.stdin)]", encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, SHIM, script], input='{"a": 1}', capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [{"a": 1}, {"a": 1}]


def test_a_script_without_a_handler_is_a_program(called: Callable[[str], Answer]) -> None:
    source = """
import json, sys
def main():
    print(json.dumps([json.loads(sys.argv[1])["a"], json.load(sys.stdin)["a"], __name__]))
if __name__ == "__main__":
    main()
    sys.exit(3)
"""
    answer = called(source)
    assert (answer.status, answer.value) == (3, [1, 1, "__main__"])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise ValueError('no such city')", "ValueError: no such city"),
        ("raise Exception('plain')", "plain"),
        ("raise KeyError", "KeyError"),
        ("raise KeyboardInterrupt('now')", "KeyboardInterrupt: now"),
        ("return float('nan')", "ValueError: Out of range float values are not JSON compliant"),
        ("return [float('-inf')]", "ValueError: Out of range float values are not JSON compliant"),
        ("return {1}", "TypeError: the result holds a value of type set, which JSON cannot hold"),
        ("return b'x'", "TypeError: the result holds a value of type bytes, which JSON cannot hold"),
        ("return {(1, 2): 3}", "TypeError: keys must be str, int, float, bool or None, not tuple"),
        ("x = []; x.append(x); return x", "ValueError: Circular reference detected"),
        ("return 10**5000", "ValueError: Exceeds the limit (4300 digits) for integer string conversion"),
        ("x = 1\n    for _ in range(10**5): x = [x]\n    return x", "RecursionError: "),
        ("return handler(args)", "RecursionError: maximum recursion depth exceeded"),
    ],
)
def test_a_failure_is_told_in_its_last_line_alone(
    called: Callable[[str], Answer], body: str, message: str
) -> None:
    answer = called(function(body))
    assert answer.status == 1
    assert isinstance(answer.value, dict)
    assert str(answer.value["error"]).startswith(message)
    assert "Traceback" not in answer.stdout
    assert str(SHIM) not in answer.stderr


def test_the_traceback_is_on_stderr_and_begins_in_the_script(called: Callable[[str], Answer]) -> None:
    answer = called(function("return args['city']"))
    assert answer.value == {"error": "KeyError: 'city'"}
    first, place, *_ = answer.stderr.splitlines()
    assert first == "Traceback (most recent call last):"
    assert place.endswith('scripts/tool.py", line 2, in handler')


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def handler(args:\n", "SyntaxError: "),
        (
            "import missing_module\ndef handler(args): ...",
            "ModuleNotFoundError: No module named 'missing_module'",
        ),
        ("handler = None", "TypeError: the script defines no function handler(args)"),
        ("def handler(args): ...\ndel handler", "TypeError: the script defines no function handler(args)"),
    ],
)
def test_a_script_that_cannot_be_loaded_says_why(
    called: Callable[[str], Answer], source: str, message: str
) -> None:
    answer = called(source)
    assert answer.status == 1
    assert isinstance(answer.value, dict)
    assert str(answer.value["error"]).startswith(message)


def test_an_exception_that_cannot_be_shown_is_told_by_its_type(called: Callable[[str], Answer]) -> None:
    source = "class Bad(Exception):\n    def __str__(self): raise self\n" + function("raise Bad")
    answer = called(source)
    assert (answer.status, answer.value) == (1, {"error": "Bad"})


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("raise SystemExit", 0),
        ("__import__('sys').exit(3)", 3),
        ("__import__('os')._exit(0)", 0),
        ("__import__('sys').exit('told on stderr')", 1),
        ("__import__('os').closerange(3, 64)", 1),
    ],
)
def test_a_handler_that_ends_the_process_leaves_no_result(
    called: Callable[[str], Answer], body: str, status: int
) -> None:
    answer = called(function(body))
    assert (answer.status, answer.stdout) == (status, "")


def test_threads_do_not_keep_the_caller_waiting(called: Callable[[str], Answer]) -> None:
    source = "import threading, time\n" + function(
        "threading.Thread(target=time.sleep, args=(60,)).start(); return 1"
    )
    start = time.monotonic()
    answer = called(source)
    assert (answer.status, answer.value) == (0, 1)
    assert time.monotonic() - start < 10


def test_threads_and_exit_functions_may_finish_what_they_do(
    called: Callable[[str], Answer], tmp_path: Path
) -> None:
    source = f"""
import atexit, threading, time
from pathlib import Path
def late():
    time.sleep(0.1)
    Path({str(tmp_path / "thread")!r}).write_text("done")
def handler(args):
    threading.Thread(target=late).start()
    atexit.register(Path({str(tmp_path / "exit")!r}).write_text, "done")
    return 1
"""
    assert called(source).value == 1
    assert (tmp_path / "thread").read_text() == (tmp_path / "exit").read_text() == "done"


def test_the_shim_loads_nothing_that_a_bare_python_has_not(called: Callable[[str], Answer]) -> None:
    """What it imports is most of what it costs: json alone, by way of re and enum, doubles the start of Python."""
    bare = subprocess.run(
        [sys.executable, "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    answer = called(function("import sys; return sorted(sys.modules)"))
    assert isinstance(answer.value, list)
    assert set(answer.value) - set(bare.stdout.split()) <= {"_json", "__handler__"}
