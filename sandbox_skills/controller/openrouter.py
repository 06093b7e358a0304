"""The client of OpenRouter, or of any server with one of the two wires: httpx, retries, and nothing of the loop.

The key goes to the configured host alone: redirects are refused, and neither proxies nor netrc are taken from the
environment. An answer that broke off is asked for again from its beginning, and what had come of it is dropped.
"""

from __future__ import annotations

import json
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import anyio
import httpx

from sandbox_skills.controller.answers import read_answer
from sandbox_skills.controller.chat import ChatWire
from sandbox_skills.controller.client_options import ClientOptions
from sandbox_skills.controller.events import TurnRestarted
from sandbox_skills.controller.failures import failure_of
from sandbox_skills.controller.json_values import parsed
from sandbox_skills.controller.responses import ResponsesWire
from sandbox_skills.controller.retries import retrying
from sandbox_skills.errors import (
    ModelError,
    ModelRefusedError,
    ModelUnavailableError,
    SettingsError,
    StreamTruncatedError,
)
from sandbox_skills.spec import MIB

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable
    from typing import Self

    from sandbox_skills.controller.events import ModelDelta
    from sandbox_skills.controller.request import ModelRequest
    from sandbox_skills.controller.turn import Answer
    from sandbox_skills.controller.wire import Wire

    Listener = Callable[[ModelDelta | TurnRestarted], None]

MAX_ERROR = MIB
"""Bytes read of an error's body: an edge's page is a few KiB."""

DRAIN_SECONDS = 0.02
"""Less than a new connection with its encryption costs."""

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class OpenRouterClient:
    """Asks a model. Many requests may be under way at once; leaving the block ends the connections.

    Raises SettingsError for an address that no key may be sent to.
    """

    def __init__(self, options: ClientOptions | None = None) -> None:
        self._options = options or ClientOptions()
        _check_address(self._options)
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

        async for attempt in retrying(self._options.retry):
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
                    async with aclosing(cast("AsyncGenerator[bytes]", response.aiter_bytes())) as chunks:
                        answer = await read_answer(chunks, self._wire, hear)
                        await _drain(chunks)
                        return answer
        except ModelError as error:
            raise self._without_key(error) from error.__cause__
        except TimeoutError as error:
            text = f"the model took more than {options.answer_seconds:g} seconds"
            raise ModelUnavailableError(text, retryable=True) from error
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.DecodingError) as error:
            raise StreamTruncatedError(f"the answer broke off: {_why(error)}", retryable=True) from error
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _client(self) -> httpx.AsyncClient:
        if self._http is None:
            options = self._options
            self._http = httpx.AsyncClient(
                base_url=options.base_url.rstrip("/") + "/",
                headers=_headers(options),
                timeout=httpx.Timeout(options.idle_seconds, connect=options.connect_seconds, pool=None),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=32),
                follow_redirects=False,
                trust_env=False,
                # Where nothing is encrypted there is no certificate to check, and to load them takes 20 ms.
                verify=urlsplit(options.base_url).scheme != "http",
                proxy=options.proxy,
            )
        return self._http

    def _unreachable(self, error: httpx.HTTPError) -> ModelUnavailableError:
        host = urlsplit(self._options.base_url).netloc
        hint = "Check the network, and model.base_url."
        return ModelUnavailableError(f"{host} does not answer: {_why(error)}", hint=hint, retryable=True)

    def _without_key(self, error: ModelError) -> ModelError:
        """Returns the error without the key in it, should a server say it back."""
        key = self._options.api_key
        if key and key in f"{error.message}{error.provider}":
            error.message = error.message.replace(key, "[redacted]")
            error.provider = error.provider.replace(key, "[redacted]")
            error.args = (error.message,)
        return error


def _check_address(options: ClientOptions) -> None:
    address = urlsplit(options.base_url)
    if address.scheme not in {"http", "https"} or not address.hostname:
        raise SettingsError(f"model.base_url is no http(s) address: {options.base_url}")
    if address.scheme == "http" and options.api_key and address.hostname not in _LOOPBACK:
        raise SettingsError(
            "the key of the model would be sent over a connection that is not encrypted",
            hint="use https in model.base_url, or no model.api_key",
        )


def _headers(options: ClientOptions) -> dict[str, str]:
    headers = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream, application/json",
        "User-Agent": "sandbox-skills",
        "Authorization": f"Bearer {options.api_key}" if options.api_key else "",
        "HTTP-Referer": options.referer,
        "X-OpenRouter-Title": options.title,
    }
    return {name: value for name, value in headers.items() if value}


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Reads to the end, where that comes at once: only then the connection can be used again."""
    with anyio.move_on_after(DRAIN_SECONDS), suppress(httpx.HTTPError):
        async for _ in chunks:
            pass


async def _refusal(response: httpx.Response) -> ModelError:
    """Returns the error of an answer that is none."""
    if response.is_redirect:
        text = f"the server redirects to {response.headers.get('location', 'nowhere')[:200]}, which is not followed"
        return ModelRefusedError(
            text, hint="Set model.base_url to where it leads.", status=response.status_code
        )
    body = bytearray()
    async for data in response.aiter_bytes():
        body += data[: MAX_ERROR - len(body)]
        if len(body) >= MAX_ERROR:
            break
    return failure_of(response.status_code, response.headers, parsed(bytes(body)))


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
