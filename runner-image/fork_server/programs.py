"""The program of a fork, run as an interpreter runs it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType, ModuleType


def program_of(argv: Sequence[str]) -> Callable[[], None] | None:
    """Returns the program, ready to run as `__main__`; None for what only a fresh interpreter can run."""
    module = fresh_main()
    if argv[1] == "-m":
        import runpy  # noqa: PLC0415  imported long ago

        return lambda: runpy._run_module_as_main(argv[2])  # type: ignore[attr-defined]  # noqa: SLF001
    if argv[1] == "-c":
        return command(module, argv[2])
    return script(module, argv[1])


def fresh_main() -> ModuleType:
    """Returns a new `__main__`, as it is before anything has run."""
    from importlib.machinery import BuiltinImporter  # noqa: PLC0415  imported long ago

    module = type(sys)("__main__")
    module.__dict__.update(__loader__=BuiltinImporter, __builtins__=__builtins__, __annotations__={})
    sys.modules["__main__"] = module
    return module


def command(module: ModuleType, text: str) -> Callable[[], None]:
    """Returns the program that `-c` gives."""
    text.encode()  # raises for what was no UTF-8

    def run() -> None:
        import linecache  # noqa: PLC0415  imported long ago

        code = compile(f"{text}\n", "<string>", "exec", dont_inherit=True)
        register = getattr(
            linecache, "_register_code", None
        )  # Python 3.13 shows the lines of it in tracebacks
        if register:
            register(code, text, "<string>")
        exec(code, module.__dict__)  # noqa: S102  that is what this program is for

    return run


def script(module: ModuleType, path: str) -> Callable[[], None] | None:
    """Returns the program in a file, None for one in a folder or an archive; raises OSError."""
    import pkgutil  # noqa: PLC0415  imported long ago
    from importlib.machinery import SourceFileLoader, SourcelessFileLoader  # noqa: PLC0415  as above

    path = absolute(path)
    if pkgutil.get_importer(path) is not None or not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith(".py") and b"\0" in data:  # which it calls by another name
        return None
    kind = SourcelessFileLoader if path.endswith(".pyc") else SourceFileLoader
    module.__dict__.update(__file__=path, __cached__=None, __loader__=kind("__main__", path))

    def run() -> None:
        code = compiled(data) if path.endswith(".pyc") else compile(data, path, "exec", dont_inherit=True)
        try:
            exec(code, module.__dict__)  # noqa: S102  that is what this program is for
        finally:
            module.__dict__.pop("__file__", None)
            module.__dict__.pop("__cached__", None)

    return run


def absolute(path: str) -> str:
    """Returns the path as the interpreter spells it."""
    return path if path.startswith("/") else f"{os.getcwd()}/{path}"


def compiled(data: bytes) -> CodeType:
    """Returns what a file of bytecode holds; raises RuntimeError for one of another Python."""
    import marshal  # noqa: PLC0415  imported long ago
    from importlib.util import MAGIC_NUMBER  # noqa: PLC0415  as above

    if data[: len(MAGIC_NUMBER)] != MAGIC_NUMBER:
        raise RuntimeError("Bad magic number in .pyc file")
    code: CodeType = marshal.loads(data[16:])  # noqa: S302  as Python itself runs it
    return code
