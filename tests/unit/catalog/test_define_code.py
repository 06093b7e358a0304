"""Code of a model → a handler that runs as the Skill Tools specification has it, checked and not executed."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sandbox_skills.catalog.define_code import MAX_CODE, CodeError, handler_source

if TYPE_CHECKING:
    from pathlib import Path

MODULE = """import os

def helper(args):
    return args["a"]

def handler(args):
    return helper(args)
"""


def python(code: str) -> str:
    return handler_source("count_words", code, "python")


def handler_body(source: str) -> str:
    """The statements of the handler in a source, as Python sees them."""
    (function,) = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return ast.dump(ast.Module(function.body, []))


def run(tmp_path: Path, source: str, arguments: object, *, by_argv: bool) -> object:
    script = tmp_path / "handler.py"
    script.write_text(source)
    text = json.dumps(arguments)
    argv = [sys.executable, "-I", str(script), *([text] if by_argv else [])]
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_a_body_becomes_the_handler_of_a_module() -> None:
    assert python("words = args['text'].split()\n\nreturn len(words)") == (
        '"""Handler of the tool count_words, defined at run time."""\n\nimport json\nimport sys\n\n\n'
        "def handler(args):\n    words = args['text'].split()\n\n    return len(words)\n\n\n"
        'if __name__ == "__main__":\n'
        "    args = json.loads(sys.argv[1]) if len(sys.argv) > 1 else json.load(sys.stdin)\n"
        "    print(json.dumps(handler(args)))\n"
    )


@pytest.mark.parametrize("by_argv", [True, False])
@pytest.mark.parametrize("code", ["return args['a']", MODULE, "return json.loads(json.dumps(args))['a']"])
def test_a_handler_runs_as_a_script_with_its_arguments_in_argv_or_on_stdin(
    tmp_path: Path, code: str, *, by_argv: bool
) -> None:
    assert run(tmp_path, python(code), {"a": [1, "é"]}, by_argv=by_argv) == [1, "é"]


def test_a_whole_module_stays_as_it_is_and_gets_a_main() -> None:
    source = python(MODULE)
    assert source.startswith(MODULE)
    assert source.count("__main__") == 1
    assert python(source) == source


def test_a_body_may_have_a_function_of_the_same_name() -> None:
    source = python("def handler(x):\n    return x\nreturn handler(args)")
    assert "    def handler(x):\n        return x\n    return handler(args)\n" in source


@pytest.mark.parametrize(
    "code",
    [
        "text = '''a\n  b\n\n'''\nreturn text",
        "return '''\n''' + f'''{args}\n  x {args!r:>{5}}\n'''",
        "return 'a\\\nb'",
        "x = ('a'\n     'b')\nreturn x",
        "if args:\n\treturn b'''\n\t'''",
        "return (\n1,\n2)",
        "x = 1 + \\\n2\nreturn x",
        "return '\u2028\x0c'",
        "return [f'''\n{args['a']}''' for _ in '''\n''']",
    ],
)
def test_indentation_changes_no_text_in_the_code(code: str) -> None:
    assert handler_body(python(code)) == ast.dump(ast.parse(code))


TOKENS = st.sampled_from(
    [
        "'''",
        '"""',
        "'",
        "f'''",
        "{args}",
        "\\",
        "\n",
        "\n  ",
        "    ",
        "x",
        " = ",
        "(",
        ")",
        "if x:",
        "return ",
        "#",
    ]
)


@pytest.mark.filterwarnings("ignore")  # of the compiler, when the test itself reads doubtful escapes
@given(st.lists(TOKENS, max_size=12).map("".join) | st.text(alphabet=st.characters(), max_size=30))
@settings(max_examples=500, deadline=None)
def test_any_text_is_a_handler_with_just_that_body_or_an_error(code: str) -> None:
    unix = code.replace("\r\n", "\n").replace("\r", "\n")
    assume(not unix.lstrip("\n").startswith((" ", "\t")))
    try:
        source = python(code)
    except CodeError:
        return
    assert handler_body(source) == ast.dump(ast.parse(unix))


def test_a_doubtful_escape_is_no_error_even_where_warnings_are() -> None:
    assert r"    return '\d'" in python(r"return '\d'")


def test_code_that_is_indented_as_a_whole_is_taken() -> None:
    assert "\n    x = 1\n    return x\n" in python("\n    x = 1\n    return x\n")


def test_line_breaks_of_other_systems_are_taken() -> None:
    assert "\n    x = 1\n    return x\n" in python("x = 1\r\nreturn x\r")


@pytest.mark.parametrize(
    ("code", "line", "problem"),
    [
        ("x = 1\ny = = 2\n", 2, "invalid syntax"),
        ("x = 1\n\nreturn await x", 3, "'await' outside async function"),
        ("x = 1\nbreak", 2, "'break' outside loop"),
        ("if args:\n  x\n y", 3, "unindent does not match any outer indentation level"),
        (
            "\nfrom __future__ import annotations",
            2,
            "from __future__ imports must occur at the beginning of the file",
        ),
        ("def handler(args):\n  return 1\nx = (", 3, "'(' was never closed"),
        ("import os\nasync def handler(args): ...", 2, "has a handler that is async; write a plain function"),
    ],
)
def test_a_syntax_error_has_its_line_in_the_code_as_it_was_given(code: str, line: int, problem: str) -> None:
    with pytest.raises(CodeError) as caught:
        python(code)
    assert (caught.value.line, caught.value.problem) == (line, problem)


def test_a_column_counts_from_one_in_the_code_as_it_was_given() -> None:
    with pytest.raises(CodeError) as caught:
        python("pass; continue")
    assert caught.value.column == 7


@pytest.mark.parametrize(
    "code", ["", " \n\t", "# nothing", "\0", "x = '\ud800'", "x" * (MAX_CODE + 1), "é" * (MAX_CODE // 2 + 1)]
)
def test_what_is_no_code_or_too_much_is_refused(code: str) -> None:
    with pytest.raises(CodeError):
        python(code)


DEEP = {
    "sums": "1" + "+1" * 32_000,
    "signs": "-" * 60_000 + "1",
    "brackets": "(" * 60_000,
    "calls": "a" + "()" * 30_000,
    "else if": "if 1: pass\n" + "elif 1: pass\n" * 4_800,
    "tuples": "(1," * 15_000 + ")" * 15_000,
    "powers": "2" + "**2" * 20_000,
    "blocks": "".join(" " * n + "if 1:\n" for n in range(300)),
    "formats": "f'{" * 20_000,
    "handler": "def handler(args):\n return " + "a" + ".b" * 30_000,
}


@pytest.mark.parametrize("code", DEEP.values(), ids=DEEP)
def test_code_that_may_be_too_deep_for_the_compiler_is_taken_or_refused_soon(code: str) -> None:
    start = time.process_time()
    with suppress(CodeError):  # how deep is too deep differs between versions of Python
        python(code)
    assert time.process_time() - start < 5


def test_code_that_is_too_deep_for_every_compiler_is_refused() -> None:
    with pytest.raises(CodeError):
        python(DEEP["sums"])


def test_nothing_of_the_code_runs(tmp_path: Path) -> None:
    python(f"open({str(tmp_path / 'made')!r}, 'w')\nreturn 2 ** 2 ** 2")
    assert not list(tmp_path.iterdir())


def test_javascript_becomes_the_default_export_of_a_module_with_its_text_as_it_is() -> None:
    assert handler_source("count_words", "const t = `a\n  b`;\nreturn { t };\n\n", "javascript") == (
        "// Handler of the tool count_words, defined at run time.\n"
        "export default async function handler(args) {\nconst t = `a\n  b`;\nreturn { t };\n}\n"
    )


def test_a_whole_javascript_module_stays_as_it_is() -> None:
    code = "import fs from 'node:fs';\nexport default async function handler(args) { return fs.sep; }\n"
    assert handler_source("t", code, "javascript") == code


@pytest.mark.parametrize("code", ["", "x" * (MAX_CODE + 1)])
def test_javascript_has_the_same_limits(code: str) -> None:
    with pytest.raises(CodeError):
        handler_source("t", code, "javascript")
