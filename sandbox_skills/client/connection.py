"""Requests to a daemon, their errors and when they are made again. The key goes to the configured host alone.

A request is made again only where that does no harm: it reads, it sets or removes, or it has an Idempotency-Key.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import httpx

from sandbox_skills.client.errors import ServerAnswerError, ServerRefusedError, ServerUnavailableError
from sandbox_skills.client.json_values import MAX_SHOWN, object_in, text_at
from sandbox_skills.client.problems import error_of
from sandbox_skills.outgoing.address import check_address, without_key
from sandbox_skills.outgoing.connection import keyed_client, read_at_most, why
from sandbox_skills.outgoing.retries import retry_after_seconds, retrying
from sandbox_skills.spec import MIB

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping
    from typing import IO

    from sandbox_skills.client.json_values import JsonObject
    from sandbox_skills.client.options import ServerOptions
    from sandbox_skills.errors import SandboxSkillsError

MAX_ANSWER = 256 * MIB
"""Bytes of one JSON answer: far above a run's result with all its outputs, so that no server fills our memory."""

IDEMPOTENCY_KEY = "Idempotency-Key"

_REPEATABLE = frozenset({"GET", "HEAD", "PUT", "DELETE"})
"""Methods that do no more when they are done twice (RFC 9110, 9.2.2)."""

_PASSING = frozenset({502, 503, 504})
"""What a server, or one before it, answers while it cannot do its work."""

_TOO_MANY = 429
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `content` makes its body, anew for each attempt; `files` are a form's, by the names of their fields.

    `seconds` is how long the server may take before it answers.
    """

    method: str
    path: str
    query: Mapping[str, str | int | bool] = field(default_factory=dict[str, "str | int | bool"])
    json: object = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content: Callable[[], bytes | AsyncIterable[bytes]] | None = None
    files: Mapping[str, tuple[str, IO[bytes], str]] | None = None
    seconds: float = 0.0

    @property
    def repeatable(self) -> bool:
        """Whether it does no harm to make it twice."""
        return self.method in _REPEATABLE or IDEMPOTENCY_KEY in self.headers


class FailedError(Exception):
    """An attempt failed with `error`; `passing` is whether the next may succeed, `asked` after how many seconds.

    `status` is the HTTP status, None where there was no answer.
    """

    def __init__(
        self,
        error: SandboxSkillsError,
        *,
        passing: bool,
        status: int | None = None,
        asked: float | None = None,
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.passing = passing
        self.status = status
        self.asked = asked


class Connection:
    """The way to one daemon. Many requests may be under way at once."""

    def __init__(self, options: ServerOptions) -> None:
        check_address(options.url, key=options.api_key, setting="server.url", whose="server")
        self.options = options
        self._http: httpx.AsyncClient | None = None

    async def aclose(self) -> None:
        """Ends the connections."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def json(self, request: Request) -> JsonObject:
        """Returns the object that the server answers, an empty one for an answer without a body.

        Raises the error that the server tells, ServerUnavailableError where it does not answer within the budget.
        """
        attempts = 0
        repeated = retrying(self.options.retry, retryable=_may_pass(request), asked=_asked)
        try:
            async for attempt in repeated:
                with attempt:
                    attempts += 1
                    return await self._once(request, again=attempts > 1)
        except FailedError as failed:
            raise failed.error from failed.__cause__
        raise AssertionError("the last attempt raises its error")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[httpx.Response]:
        """Gives a successful answer whose body is not read yet; one attempt. Raises FailedError, in the block too."""
        try:
            async with self._client().stream(
                request.method,
                request.path,
                params=dict(request.query),
                json=request.json,
                content=None if request.content is None else request.content(),
                files=request.files,
                headers=dict(request.headers),
                timeout=self._timeout(request.seconds),
            ) as response:
                if not response.is_success:
                    raise await self._refusal(response)
                yield response
        except httpx.HTTPError as error:
            raise FailedError(self._unreachable(error), passing=True) from error

    async def _once(self, request: Request, *, again: bool) -> JsonObject:
        try:
            async with self.stream(request) as response:
                body = await read_at_most(response, MAX_ANSWER + 1)
        except FailedError as failed:
            # What the first attempt removed before its answer was lost is not there for the second.
            if again and request.method == "DELETE" and failed.status == _NOT_FOUND:
                return {}
            raise
        return self._object(body)

    def _object(self, body: bytes) -> JsonObject:
        if len(body) > MAX_ANSWER:
            raise ServerAnswerError(f"the server's answer is longer than {MAX_ANSWER // MIB} MiB")
        found = object_in(body) if body else {}
        if found is None:
            shown = body[:MAX_SHOWN].decode("utf-8", "replace")
            raise ServerAnswerError(
                f"the server's answer is no JSON object: {shown}",
                hint="is server.url the address of a daemon?",
            )
        return found

    async def _refusal(self, response: httpx.Response) -> FailedError:
        status = response.status_code
        if response.is_redirect:
            where = response.headers.get("location", "nowhere")[:MAX_SHOWN]
            text = f"the server redirects to {where}, which is not followed"
            refused = ServerRefusedError(text, hint="Set server.url to where it leads.", status=status)
            return FailedError(refused, passing=False, status=status)
        body = await read_at_most(response, MIB)
        error = error_of(status, body, response.headers.get("x-request-id", ""))
        asked = retry_after_seconds(response.headers.get("retry-after", ""))
        # What does pass by waiting our server tells with a time; something before it may have nothing to say.
        ours = bool(text_at(object_in(body) or {}, "code"))
        passing = status in _PASSING | {_TOO_MANY} if asked is not None else status in _PASSING and not ours
        return FailedError(self._without_key(error), passing=passing, status=status, asked=asked)

    def _client(self) -> httpx.AsyncClient:
        if self._http is None:
            options = self.options
            self._http = keyed_client(
                options.url,
                {
                    "Accept": "application/json, application/problem+json",
                    "Authorization": f"Bearer {options.api_key}" if options.api_key else "",
                },
                connect_seconds=options.connect_seconds,
                idle_seconds=options.idle_seconds,
                proxy=options.proxy,
            )
        return self._http

    def _timeout(self, seconds: float) -> httpx.Timeout:
        options = self.options
        return httpx.Timeout(options.idle_seconds + seconds, connect=options.connect_seconds, pool=None)

    def _unreachable(self, error: httpx.HTTPError) -> ServerUnavailableError:
        host = urlsplit(self.options.url).netloc
        hint = "Is `sandbox-skills serve` running there? See server.url."
        return ServerUnavailableError(f"{host} does not answer: {why(error)}", hint=hint)

    def _without_key(self, error: SandboxSkillsError) -> SandboxSkillsError:
        """Returns the error without the key in it, should a server say it back."""
        key = self.options.api_key
        error.message, error.hint = without_key(error.message, key), without_key(error.hint, key)
        error.args = (error.message,)
        return error


def path_of(*parts: str) -> str:
    """Returns a path of the API; what a part has that means something in an address is escaped, `/` too."""
    return "/".join(["v1", *(_escaped(part) for part in parts)])


def _escaped(part: str) -> str:
    # Dots alone would be taken for steps of the path.
    return part.replace(".", "%2E") if part in {".", ".."} else quote(part, safe="")


def _may_pass(request: Request) -> Callable[[BaseException], bool]:
    return lambda error: isinstance(error, FailedError) and error.passing and request.repeatable


def _asked(error: BaseException | None) -> float | None:
    return error.asked if isinstance(error, FailedError) else None
