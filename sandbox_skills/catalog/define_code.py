"""The code of a tool that is defined at run time → the source of its handler. Pure; runs nothing.

Python is checked for syntax by the Python that runs this program: newer syntax than its own is refused.
JavaScript is only wrapped.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from typing import Literal

Language = Literal["python", "javascript"]

EXTENSIONS: dict[Language, str] = {"python": ".py", "javascript": ".js"}
"""By which the runtime knows how to call a handler."""

MAX_CODE = 64 * 1024
"""Bytes: about 20,000 tokens, more than a model writes in one answer."""

_INDENT = "    "

_TEXTS = frozenset({"Constant", "JoinedStr", "TemplateStr"})
"""Nodes that may be one text of several lines; the last came with Python 3.14."""

_PYTHON_START = '''"""Handler of the tool {name}, defined at run time."""

import json
import sys


def handler(args):
'''

# As the Skill Tools specification has it: it runs as a script too, with the arguments in argv or on stdin.
_PYTHON_MAIN = """

if __name__ == "__main__":
{imports}    args = json.loads(sys.argv[1]) if len(sys.argv) > 1 else json.load(sys.stdin)
    print(json.dumps(handler(args)))
"""

_IMPORTS = "    import json\n    import sys\n\n"

_JAVASCRIPT = """// Handler of the tool {name}, defined at run time.
export default async function handler(args) {{
{code}
}}
"""

_JAVASCRIPT_MODULE = re.compile(r"^[ \t]*export[ \t]+default\b", re.MULTILINE)


class CodeError(Exception):
    """The code cannot be a handler. Line and column count from 1 in the code as it was given."""

    def __init__(self, problem: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.column = column


def handler_source(name: str, code: str, language: Language) -> str:
    """Returns the source of a handler from the body of its function, or from a whole module that has it.

    Whole is Python that defines `handler` and returns nothing outside of a function, and JavaScript with an
    `export default`. Raises CodeError.
    """
    if not code.strip():
        raise CodeError("is blank")
    if len(code.encode(errors="replace")) > MAX_CODE:
        raise CodeError(f"is longer than {MAX_CODE:,} bytes")
    code = code.replace("\r\n", "\n").replace("\r", "\n").rstrip(" \t\n") + "\n"
    return _python(name, code) if language == "python" else _javascript(name, code)


def _javascript(name: str, code: str) -> str:
    if _JAVASCRIPT_MODULE.search(code):
        return code
    return _JAVASCRIPT.format(name=name, code=code.rstrip())


def _python(name: str, code: str) -> str:
    if code.lstrip("\n")[0] in " \t":
        code = textwrap.dedent(code)
    tree = _checked(code, ast.PyCF_ONLY_AST)
    assert isinstance(tree, ast.Module)
    if not tree.body:
        raise CodeError("holds no statement")
    if _is_module(tree, code):
        return code if _has_main(tree) else code + _PYTHON_MAIN.format(imports=_IMPORTS)
    start = _PYTHON_START.format(name=name)
    source = start + _indented(tree, code) + _PYTHON_MAIN.format(imports="")
    _checked(source, 0, lines_above=start.count("\n"), indent=len(_INDENT))
    return source


def _is_module(tree: ast.Module, code: str) -> bool:
    """Whether the code defines `handler` itself, rather than being the body of it."""
    handlers = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    handlers = [node for node in handlers if node.name == "handler"]
    if not handlers:
        return False
    try:
        _checked(code, 0)
    except CodeError:
        return False  # a body may return, and may have a function of that name
    if isinstance(handlers[-1], ast.AsyncFunctionDef):
        raise CodeError("has a handler that is async; write a plain function", handlers[-1].lineno)
    return True


def _has_main(tree: ast.Module) -> bool:
    tests = [node.test for node in tree.body if isinstance(node, ast.If)]
    return any(
        isinstance(node, ast.Name) and node.id == "__name__" for test in tests for node in ast.walk(test)
    )


def _indented(tree: ast.Module, code: str) -> str:
    """Returns the code one level deeper, the inside of texts of several lines as it is."""
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and type(node).__name__ in _TEXTS:
            inside.update(range(node.lineno + 1, (node.end_lineno or node.lineno) + 1))
    lines = code.split("\n")
    return "\n".join(
        line if number in inside or not line.strip() else _INDENT + line
        for number, line in enumerate(lines, start=1)
    )


def _checked(source: str, flags: int, *, lines_above: int = 0, indent: int = 0) -> object:
    """Compiles without running; raises CodeError with the place in the code as it was given."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a doubtful escape is the author's business, and no error
            return compile(source, "<code>", "exec", flags, dont_inherit=True)
    except SyntaxError as error:
        line = None if error.lineno is None else max(1, error.lineno - lines_above)
        column = None if error.offset is None else max(1, error.offset - indent)
        raise CodeError(error.msg, line, column) from error
    except (ValueError, RecursionError, MemoryError) as error:
        # A NUL or half a character; nesting beyond what the compiler takes, for which it has two words.
        raise CodeError("is nested too deep, or holds characters that are none") from error
