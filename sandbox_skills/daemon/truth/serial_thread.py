"""A thread that does one thing after another for event loops.

The way there and back takes half as long as with an executor, which has a lock, a second future and their callbacks in
between.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class SerialThread:
    """Does functions in the order in which they were asked for, until it is closed."""

    def __init__(self, name: str) -> None:
        self._asked: SimpleQueue[tuple[asyncio.Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._is_closed = False
        self._is_working = False
        self._thread.start()

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing to do and may be asked, as far as can be told from another thread."""
        return not self._is_closed and not self._is_working and self._asked.empty()

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Returns what will be its result, or what it raises.

        A cancel ends the wait, and the function is not begun if it was not yet. Raises RuntimeError once it is closed.
        """
        if self._is_closed:
            raise RuntimeError(f"the thread {self._thread.name} is closed")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._asked.put((future, function))
        return future

    def close(self) -> None:
        """Waits until all that was asked for is done."""
        self._is_closed = True
        self._asked.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (asked := self._asked.get()) is not None:
            self._is_working = True
            _do(*asked)
            del asked  # what it holds ends with it, not with the next one
            self._is_working = False


def _do(future: asyncio.Future[T], function: Callable[[], T]) -> None:
    if future.cancelled():
        return
    try:
        result = function()
    except BaseException as error:  # noqa: BLE001  # whoever waits is to know, whatever it is
        _later(future, _failed, error)
    else:
        _later(future, _done, result)


def _later(
    future: asyncio.Future[Any], tell: Callable[[asyncio.Future[Any], Any], None], what: object
) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        future.get_loop().call_soon_threadsafe(tell, future, what)


def _done(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _failed(future: asyncio.Future[T], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
