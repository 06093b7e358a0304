"""A run's events as they come; where the connection is lost they go on after the last one that came."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from sandbox_skills.client.connection import FailedError, Request
from sandbox_skills.client.errors import ServerAnswerError, ServerUnavailableError
from sandbox_skills.client.json_values import number_at, object_in, text_at
from sandbox_skills.client.values import Event
from sandbox_skills.outgoing.connection import chunks_of
from sandbox_skills.outgoing.sse import SseDecoder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sandbox_skills.client.connection import Connection


NONE_YET = -1
"""Below the number of every event."""

LAST = "finished"
"""The kind of the last event, of a run and of each leg of a conversation."""


@dataclass(slots=True)
class _Progress:
    """The last event that came, and whether it was the last of all."""

    seq: int
    ended: bool = False


async def follow(
    connection: Connection, path: str, *, after: int | None = None, legs: bool = False
) -> AsyncGenerator[Event]:
    """Yields the events after number `after`, None for all, up to `finished`; with `legs` up to the last of those.

    Attempts are counted from the last event that came. Raises the server's error, as where events that were asked for
    are kept no longer; a lost connection ends no run.
    """
    progress, attempt, policy = _Progress(NONE_YET if after is None else after), 0, connection.options.retry
    while True:
        before = progress.seq
        failed = None
        try:
            async with aclosing(_stream(connection, path, progress, legs=legs)) as events:
                async for event in events:
                    yield event
        except FailedError as error:
            failed = error
        # Of several legs the server alone knows the last: it ends the stream behind it.
        if progress.ended and (failed is None or not legs):
            return
        attempt = 1 if progress.seq > before else attempt + 1
        failed = failed or FailedError(ServerUnavailableError("the events broke off"), passing=True)
        if not failed.passing or attempt >= policy.attempts:
            raise failed.error from failed.__cause__
        await anyio.sleep(policy.wait(attempt, failed.asked))


async def _stream(
    connection: Connection, path: str, progress: _Progress, *, legs: bool
) -> AsyncGenerator[Event]:
    headers = {"Accept": "text/event-stream"}
    if progress.seq != NONE_YET:
        headers["Last-Event-ID"] = str(progress.seq)
    decoder = SseDecoder(ServerAnswerError)
    async with (
        connection.stream(Request("GET", path, headers=headers)) as response,
        chunks_of(response) as chunks,
    ):
        async for chunk in chunks:
            for event in map(_event, decoder.feed(chunk)):
                if event.seq > progress.seq:
                    progress.seq, progress.ended = event.seq, event.type == LAST
                    yield event
                if progress.ended and not legs:
                    return


def _event(data: bytes) -> Event:
    value = object_in(data) or {}
    seq, kind = number_at(value, "seq"), text_at(value, "type")
    if seq is None or not kind:
        raise ServerAnswerError(f"the server sends an event that is none: {data[:200]!r}")
    return Event(seq, kind, value)
