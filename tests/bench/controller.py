"""What the controller costs, beside bare HTTP and the `openai` SDK: `python -m tests.bench.controller`.

The scripted server is a process of its own; what is compared is measured in turns.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import time
import tracemalloc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import openai
from pydantic import BaseModel

from sandbox_skills.controller.client_options import ClientOptions
from sandbox_skills.controller.controller import Controller
from sandbox_skills.controller.openrouter import OpenRouterClient
from sandbox_skills.controller.options import ControllerOptions
from sandbox_skills.controller.own_tools import function_tool
from sandbox_skills.controller.request import ModelRequest
from sandbox_skills.toolsets.base import Conversation
from tests.bench.report import Bound, Row, as_markdown, missed
from tests.model_server import ModelServer, Raw, Say, call, rendered, text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.model_server import Asked

TURNS = 300
ROUNDS = 2
CONVERSATIONS = 200

MEGABYTES = 10
"""Of a streamed answer as it comes over the wire."""

PIECE = 40
"""Characters of a delta, a few tokens."""

WIRE_BYTES = 9.0
"""Bytes on the wire for each character: what stands around a delta, and the text said again at the end."""

SERVE = "--serve"


class Word(BaseModel):
    """What the one tool takes."""

    word: str = "a"


async def echo(given: Word) -> str:
    """Says a word again."""
    return given.word


def reply(asked: Asked) -> Raw | Say:
    """Answers by the address: a large answer, a call and then words, or words alone."""
    if "/large/" in asked.path:
        return LARGE[0]
    body = asked.body["input"]
    if "/tools/" in asked.path and not any(one.get("type") == "function_call_output" for one in body):
        return Say([call("echo", {"word": "a"})])
    return Say([text("Done.")])


LARGE: list[Raw] = []


def serve() -> None:
    """Serves until stdin ends."""
    size = int(MEGABYTES * 10**6 / WIRE_BYTES)
    said = Say([text("0123456789" * (size // 10))], pieces=size // PIECE)
    whole = b"".join(
        piece for piece in rendered(said, path="/responses", stream=True).pieces if isinstance(piece, bytes)
    )
    cut = 65_536
    LARGE.append(Raw([whole[at : at + cut] for at in range(0, len(whole), cut)]))
    with ModelServer() as server:
        server.default = reply
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        sys.stdin.read()


@contextmanager
def served() -> Iterator[str]:
    """Gives the base address of a server in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.controller", SERVE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


def client(address: str) -> OpenRouterClient:
    return OpenRouterClient(ClientOptions(base_url=address, api_key="k"))


async def added_per_turn(address: str) -> list[Row]:
    """Measures a turn of the controller over the same request by bare httpx."""
    body: dict[str, Any] = {"model": "m", "input": [{"role": "user", "content": "Hi."}], "stream": True}
    bare: list[tuple[float, float]] = []
    ours: list[tuple[float, float]] = []
    async with client(address) as mine, httpx.AsyncClient(trust_env=False) as http:
        made = Controller(mine, ControllerOptions("m"), tools=[function_tool(echo)])
        for _ in range(TURNS):
            start = _now()
            async with http.stream("POST", f"{address}/responses", json=body) as response:
                async for _chunk in response.aiter_bytes():
                    pass
            bare.append(_since(start))
            start = _now()
            await made.run("Hi.", Conversation("c", "t"))
            ours.append(_since(start))
    return [
        _beyond("a turn of the controller, beyond bare httpx", [a for a, _ in ours], [a for a, _ in bare]),
        _beyond("the processor time of that", [b for _, b in ours], [b for _, b in bare]),
    ]


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _since(start: tuple[float, float]) -> tuple[float, float]:
    """Returns milliseconds, of the clock and of this process."""
    now = _now()
    return (now[0] - start[0]) * 1000, (now[1] - start[1]) * 1000


def _beyond(name: str, ours: list[float], bare: list[float]) -> Row:
    added = tuple(a - b for a, b in zip(sorted(ours), sorted(bare), strict=True))
    bound = Bound("at most 3 ms", Row(name, added).p50, 3.0, at_most=True)
    return Row(name, added, bounds=(bound,))


async def large_answers(address: str) -> AsyncIterator[Row]:
    """Measures a streamed answer of 10 MB, beside the SDK, and what memory it takes."""
    request = ModelRequest("m", ({"role": "user", "content": "Hi."},))
    ours: list[float] = []
    theirs: list[float] = []
    async with (
        client(f"{address}/large") as mine,
        openai.AsyncOpenAI(base_url=f"{address}/large", api_key="k") as sdk,
    ):
        for _ in range(ROUNDS):
            start = time.perf_counter()
            await mine.ask(request, lambda _: None)
            ours.append(time.perf_counter() - start)
            start = time.perf_counter()
            async for _event in await sdk.responses.create(model="m", input="Hi.", stream=True):
                pass
            theirs.append(time.perf_counter() - start)
        gc.collect()
        tracemalloc.start()
        await mine.ask(request, lambda _: None)
        peak = tracemalloc.get_traced_memory()[1] / 10**6
        tracemalloc.stop()
    sdk_row = Row("the openai SDK reads a streamed answer of 10 MB", tuple(theirs), "s")
    row = Row("the controller's client reads it", tuple(ours), "s")
    ratio = sdk_row.p50 / row.p50
    yield sdk_row
    yield Row(
        row.name, row.samples, "s", (Bound("at least 0.5 of the SDK's speed", ratio, 0.5, at_most=False),)
    )
    bound = Bound("at most the size of the stream", peak / MEGABYTES, 1.0, at_most=True)
    yield Row("the most memory that takes", (peak,), "MB", (bound,))


async def many_conversations(address: str) -> Row:
    """Measures conversations of two turns and a call, all at once; any error ends the measurement."""
    async with client(f"{address}/tools") as mine:
        made = Controller(mine, ControllerOptions("m"), tools=[function_tool(echo)])
        start = time.perf_counter()
        runs = (made.run("Hi.", Conversation(f"c{n}", "t")) for n in range(CONVERSATIONS))
        results = await asyncio.gather(*runs)
        seconds = time.perf_counter() - start
    failed = sum(result.text != "Done." for result in results)
    bound = Bound("no error", float(failed), 0.0, at_most=True)
    return Row(
        f"{CONVERSATIONS} conversations at once, each of two turns and a call", (seconds,), "s", (bound,)
    )


async def rows() -> list[Row]:
    """Returns every row."""
    with served() as address:
        return [
            *await added_per_turn(address),
            *[row async for row in large_answers(address)],
            await many_conversations(address),
        ]


def main() -> int:
    """Prints the rows; returns 1 where a bound is missed."""
    if SERVE in sys.argv:
        serve()
        return 0
    measured = asyncio.run(rows())
    sys.stdout.write(as_markdown(measured, {}))
    return 1 if missed(measured) else 0


if __name__ == "__main__":
    sys.exit(main())
