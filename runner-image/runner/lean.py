"""The standard library without what it costs: these modules stand on others that are enough.

pathlib, typing, dataclasses and socket together would add half to the start of every box. json, signal and enum, and re
before it is needed, took a quarter of it, and collections, functools, contextlib, ctypes and struct another (measured).
"""

from __future__ import annotations

import _ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import struct
    from collections import deque
    from contextlib import suppress
    from ctypes import CDLL, c_int, c_long
    from functools import partial

if not TYPE_CHECKING:
    import _signal as signal
    import _struct as struct
    from _collections import deque
    from _functools import partial

    class suppress:  # noqa: N801  the one of contextlib
        """Goes on behind the block when one of these errors ends it."""

        def __init__(self, *errors: type[BaseException]) -> None:
            self._errors = errors

        def __enter__(self) -> None:
            """Does nothing."""

        def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
            return kind is not None and issubclass(kind, self._errors)

    class c_int(_ctypes._SimpleCData):  # noqa: N801, SLF001  the one of ctypes, and so is the next
        """An int of C."""

        _type_ = "i"

    class c_long(_ctypes._SimpleCData):  # noqa: N801, SLF001
        """A long of C."""

        _type_ = "l"

    class Function(_ctypes.CFuncPtr):
        """A function of the C library that returns an int and keeps its errno for us."""

        _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
        _restype_ = c_int

    class CDLL:
        """A library, with its functions as attributes; the name None is this program with its C library."""

        def __init__(self, name: str | None, *, use_errno: bool) -> None:
            assert use_errno
            self._handle = _ctypes.dlopen(name, 0)  # where a Function looks for itself

        def __getattr__(self, name: str) -> Function:
            function = Function((name, self))
            setattr(self, name, function)
            return function


__all__ = ["CDLL", "c_int", "c_long", "deque", "partial", "signal", "struct", "suppress"]
