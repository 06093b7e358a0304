"""The client of OpenRouter, or of any server with one of the two wires: httpx, retries, and nothing of the loop.

The key goes to the configured host alone: redirects are refused, and neither proxies nor netrc are taken from the
environment. An answer that broke off is asked for again from its beginning, and what had come of it is dropped.
"""

from __future__ import annotations

import json
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import httpx

from sandbox_skills.catalog.text import one_line
from sandbox_skills.controller.answers import read_answer
from sandbox_skills.controller.body import bounded
from sandbox_skills.controller.chat import ChatWire
from sandbox_skills.controller.client_options import ClientOptions
from sandbox_skills.controller.events import TurnRestarted
from sandbox_skills.controller.failures import failure_of
from sandbox_skills.controller.json_values import parsed
from sandbox_skills.controller.responses import ResponsesWire
from sandbox_skills.errors import (
    ModelAnswerError,
    ModelError,
    ModelRefusedError,
    ModelUnavailableError,
    StreamTruncatedError,
)
from sandbox_skills.outgoing.address import check_address, without_key
from sandbox_skills.outgoing.connection import chunks_of, keyed_client, read_at_most, why
from sandbox_skills.outgoing.retries import retrying
from sandbox_skills.spec import MIB

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import Self

    from sandbox_skills.controller.events import ModelDelta
    from sandbox_skills.controller.request import ModelRequest
    from sandbox_skills.controller.turn import Answer
    from sandbox_skills.controller.wire import Wire

    Listener = Callable[[ModelDelta | TurnRestarted], None]

MAX_ERROR = MIB
"""Bytes read of an error's body: an edge's page is a few KiB."""

ERROR_SECONDS = 10.0
"""How long the body of an error is waited for; its status says the most."""

DRAIN_SECONDS = 0.02
"""Less than a new connection with its encryption costs."""


class OpenRouterClient:
    """Asks a model. Many requests may be under way at once; leaving the block ends the connections.

    Raises SettingsError for an address that no key may be sent to.
    """

    def __init__(self, options: ClientOptions | None = None) -> None:
        self._options = options or ClientOptions()
        options = self._options
        check_address(options.base_url, key=options.api_key, setting="model.base_url", whose="model")
        self._wire: Wire = ChatWire() if self._options.wire == "chat" else ResponsesWire()
        self._http: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the connections."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def ask(self, request: ModelRequest, listener: Listener | None = None) -> Answer:
        """Returns the model's answer; `listener` hears of it as it comes, on the event loop.

        Raises ModelError: for what cannot succeed at once, for what may when the policy's budget is used up.
        A cancel closes the connection.
        """
        shown = False

        def hear(delta: ModelDelta) -> None:
            nonlocal shown
            shown = True
            if listener is not None:
                listener(delta)

        async for attempt in retrying(self._options.retry, retryable=_may_pass, asked=_asked):
            with attempt:
                try:
                    return await self._once(request, hear)
                except ModelError as error:
                    if shown and error.retryable and listener is not None:
                        listener(TurnRestarted(error.message))
                        shown = False
                    raise
        raise AssertionError("the last attempt raises its error")

    async def _once(self, request: ModelRequest, hear: Callable[[ModelDelta], None]) -> Answer:
        options = self._options
        body = json.dumps(self._wire.body(request, stream=options.stream), separators=(",", ":")).encode()
        try:
            with anyio.fail_after(options.answer_seconds):
                async with self._client().stream("POST", self._wire.path, content=body) as response:
                    if not response.is_success:
                        raise await _refusal(response)
                    async with chunks_of(response) as chunks, aclosing(bounded(chunks)) as pieces:
                        answer = await read_answer(pieces, self._wire, hear)
                        await _drain(pieces)
                        return answer
        except ModelError as error:
            raise self._without_key(error) from error.__cause__
        except TimeoutError as error:
            text = f"the model took more than {options.answer_seconds:g} seconds"
            raise ModelUnavailableError(text, retryable=True) from error
        except httpx.DecodingError as error:
            raise ModelAnswerError(f"the answer cannot be unpacked: {why(error)}") from error
        except (httpx.RemoteProtocolError, httpx.ReadError) as error:
            raise StreamTruncatedError(f"the answer broke off: {why(error)}", retryable=True) from error
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _client(self) -> httpx.AsyncClient:
        if self._http is None:
            options = self._options
            self._http = keyed_client(
                options.base_url,
                _headers(options),
                connect_seconds=options.connect_seconds,
                idle_seconds=options.idle_seconds,
                proxy=options.proxy,
            )
        return self._http

    def _unreachable(self, error: httpx.HTTPError) -> ModelUnavailableError:
        host = urlsplit(self._options.base_url).netloc
        hint = "Check the network, and model.base_url."
        return ModelUnavailableError(f"{host} does not answer: {why(error)}", hint=hint, retryable=True)

    def _without_key(self, error: ModelError) -> ModelError:
        """Returns the error without the key in it, should a server say it back."""
        key = self._options.api_key
        error.message, error.provider = without_key(error.message, key), without_key(error.provider, key)
        error.args = (error.message,)
        return error


def _headers(options: ClientOptions) -> dict[str, str]:
    return {
        "Content-Type": "application/json",
        "Accept": "text/event-stream, application/json",
        "Authorization": f"Bearer {options.api_key}" if options.api_key else "",
        "HTTP-Referer": options.referer,
        "X-OpenRouter-Title": options.title,
    }


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Reads to the end, where that comes at once: only then the connection can be used again."""
    with anyio.move_on_after(DRAIN_SECONDS), suppress(httpx.HTTPError):
        async for _ in chunks:
            pass


async def _refusal(response: httpx.Response) -> ModelError:
    """Returns the error of an answer that is none."""
    if response.is_redirect:
        place = one_line(response.headers.get("location", "nowhere"), 200)
        text = f"the server redirects to {place}, which is not followed"
        return ModelRefusedError(
            text, hint="Set model.base_url to where it leads.", status=response.status_code
        )
    body = b""
    with anyio.move_on_after(ERROR_SECONDS):
        body = await read_at_most(response, MAX_ERROR)
    return failure_of(response.status_code, response.headers, parsed(body))


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, ModelError) and error.retryable


def _asked(error: BaseException | None) -> float | None:
    return error.retry_after if isinstance(error, ModelError) else None
