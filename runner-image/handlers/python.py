"""Calls a tool's handler in Python: `python.pyc SCRIPT [ARGUMENTS]`, with the JSON of the arguments on stdin as well.

All that comes on stdout is the JSON of the result, or {"error": message} and exit status 1. The handler finds stderr
where stdout was, so that nothing it prints can be taken for its result. A script without a `handler` is a program: it
runs as one, and what it prints is its result.

Neither trusts the other: whatever a handler does to this process, it forges no result but its own.
"""

import io
import os
import sys

# Annotations are quoted where they must be: `__future__` is one more file to load, a hundredth of a call.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType

LINGER_SECONDS = 1.0
"""How long threads may go on when the result is there: time to write a file, none to keep the caller waiting."""


def main() -> int:
    """Answers the call; returns the exit status."""
    results = os.dup(1)
    os.dup2(2, 1)
    del sys.argv[0]
    script = sys.argv[0]
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(script)  # noqa: PTH120 — pathlib takes as long to load as all of this
    answer, status = "", 0
    try:
        code = load(script)
        program = None if defines_handler(code) else code
        if program is None:
            answer = encoded(call(code, script))
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 — whatever a handler raises is its failure
        program, answer, status = None, failure(error), 1
    if program is not None:
        os.dup2(results, 1)
        execute(program, script, "__main__")
        return 0
    with open(results, "wb") as stdout:  # noqa: PTH123 — a descriptor
        stdout.write(answer.encode())
    end_threads(status)
    return status


def load(script: str) -> "CodeType":
    """Returns the code of a script."""
    with open(script, "rb") as file:  # noqa: PTH123 — as above
        return compile(file.read(), script, "exec", dont_inherit=True)


def defines_handler(code: "CodeType") -> bool:
    """Whether a script binds the name `handler` at its top level: by a definition, an import or an assignment."""
    return "handler" in code.co_names


def execute(code: "CodeType", script: str, name: str) -> "ModuleType":
    """Runs a script as the module `name`, where its own classes find it."""
    module = type(sys)(name)
    module.__file__ = script
    sys.modules[name] = module
    exec(code, module.__dict__)  # noqa: S102 — that is what this program is for
    return module


def call(code: "CodeType", script: str) -> object:
    """Returns what the handler returns; stdin is left to the script, which may read the arguments there as well."""
    if len(sys.argv) > 1:
        text = sys.argv[1]
    else:
        text = sys.stdin.read()
        sys.stdin = io.StringIO(text)
    handler = getattr(execute(code, script, "__handler__"), "handler", None)
    if not callable(handler):
        raise TypeError("the script defines no function handler(args)")
    result = handler(decoded(text))
    return awaited(result) if hasattr(result, "__await__") else result


def awaited(result: object) -> object:
    """Returns what an asynchronous handler comes to."""
    import asyncio  # noqa: PLC0415 — most handlers do without its 60 ms

    async def value() -> object:
        return await result  # type: ignore[misc]  # it has __await__  # pyright: ignore[reportGeneralTypeIssues]

    return asyncio.run(value())


# The module json loads re and enum, which takes as long again as Python takes to start. Its C parts need neither.


def decoded(text: str) -> object:
    """Returns the value of a JSON text of the host's."""
    try:
        from _json import make_scanner  # noqa: PLC0415 — missing in other Pythons than CPython
    except ImportError:
        import json  # noqa: PLC0415

        return json.loads(text)

    class Context:
        strict = True
        object_hook = None
        object_pairs_hook = None
        parse_float = float
        parse_int = int
        parse_constant = float

    value: object = make_scanner(Context)(text, 0)[0]  # type: ignore[arg-type]  # it wants these attributes
    return value


def encoded(value: object) -> str:
    """Returns the JSON of a result, in ASCII; raises TypeError or ValueError for what JSON cannot hold."""
    try:
        from _json import encode_basestring_ascii, make_encoder  # noqa: PLC0415 — as above
    except ImportError:
        import json  # noqa: PLC0415

        return json.dumps(value, allow_nan=False)
    return "".join(
        make_encoder({}, refuse, encode_basestring_ascii, None, ": ", ", ", False, False, False)(value, 0)
    )


def refuse(value: object) -> object:
    """Raises what a result deserves that holds `value`."""
    raise TypeError(f"the result holds a value of type {type(value).__name__}, which JSON cannot hold")


def failure(error: BaseException) -> str:
    """Returns what is told of a failure: the last line of its traceback, which goes to stderr as a whole."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == main.__code__.co_filename:
        trace = trace.tb_next
    try:
        sys.__excepthook__(type(error), error.with_traceback(trace), trace)
        message = str(error)
    except Exception:  # noqa: BLE001 — an exception may fail to tell of itself
        message = ""
    name = type(error).__name__
    if not message:
        return encoded({"error": name})
    return encoded({"error": message if type(error) is Exception else f"{name}: {message}"})


def end_threads(status: int) -> None:
    """Sees to it that the end of this process does not wait for threads for longer than LINGER_SECONDS."""
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        watch = threading.Timer(LINGER_SECONDS, os._exit, (status,))
        watch.daemon = True
        watch.start()


if __name__ == "__main__":
    sys.exit(main())
