"""What a route does with a plain request, as a list of steps: nothing is looked for while it is answered.

The framework asks of every request again what each parameter is and where it comes from, through a dozen layers, which
takes longer than an answer from memory. A request that is not as it should be still goes the framework's own way, which
says what is wrong with it, so that there is one form of every refusal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl

from fastapi.routing import serialize_response
from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from fastapi._compat import ModelField
    from starlette.types import Receive, Scope

Place = Literal["path", "query", "header"]
"""Where a word stands in a request."""

JSON = b"application/json"


class NotPlainError(Exception):
    """The request is not what the plan is for; nothing was done for it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came; of several headers of one name the first, by its name in small letters.

    `body` is what was read of it, None where the route reads none, or reads it by itself.
    """

    scope: Scope
    receive: Receive
    headers: Mapping[bytes, bytes]
    path: Mapping[str, str]
    body: bytes | None


class _Request(Request):
    """A request as functions are given it, whose body may have been read before."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked.scope, asked.receive)
        self._asked = asked

    async def body(self) -> bytes:
        return await super().body() if self._asked.body is None else self._asked.body


class _Head(Response):
    """What functions put their headers and their status into."""

    raw_headers: list[tuple[bytes, bytes]]

    def __init__(self) -> None:
        self.raw_headers = []
        self.status_code = 0


class _Json(Response):
    """An answer that is bytes already."""

    def __init__(self, content: bytes, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        length = str(len(content)).encode()
        self.body = content
        self.status_code = status
        self.background = None
        self.raw_headers = [(b"content-length", length), (b"content-type", JSON), *headers]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One word of a request."""

    place: Place
    name: str
    field: ModelField
    default: object
    required: bool

    def of(self, asked: Asked, query: Mapping[str, str]) -> object:
        """Returns its value; raises NotPlainError for one that is missing or wrong."""
        found = self._word(asked, query)
        value, errors = (self.default, self.required) if found is None else self.field.validate(found)
        if errors:
            raise NotPlainError
        return value

    def _word(self, asked: Asked, query: Mapping[str, str]) -> str | None:
        match self.place:
            case "path":
                return asked.path.get(self.name)
            case "query":
                return query.get(self.name)
            case "header":
                found = asked.headers.get(self.name.encode())
                return None if found is None else found.decode("latin-1")


@dataclass(frozen=True, slots=True)
class Step:
    """A function, and at which places among what is known its arguments are."""

    function: Callable[..., Awaitable[Any]]
    takes: tuple[tuple[str, int], ...]


REQUEST, HEAD, BODY, FIRST = range(4)
"""Places among what is known. From the last one on come the parameters, then what the functions returned."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a route does with a request; the last step is its endpoint."""

    parameters: tuple[Parameter, ...]
    steps: tuple[Step, ...]
    sent: TypeAdapter[Any] | None
    answered: ModelField
    told: Any
    status: int

    async def answer(self, asked: Asked) -> Response:
        """Returns the answer; raises what its functions do, and NotPlainError before it calls any."""
        head, query = _Head(), _query(asked.scope)
        known: list[Any] = [_Request(asked), head, self._body(asked)]
        known += [parameter.of(asked, query) for parameter in self.parameters]
        for step in self.steps:
            known.append(await step.function(**{name: known[at] for name, at in step.takes}))
        told = known[-1]
        if isinstance(told, Response):
            return told
        return _Json(await self._content(told), head.status_code or self.status, head.raw_headers)

    def _body(self, asked: Asked) -> object:
        if self.sent is None:
            return None
        if not asked.body or asked.headers.get(b"content-type") != JSON:
            raise NotPlainError
        try:
            return self.sent.validate_json(asked.body)
        except ValidationError as error:
            raise NotPlainError from error

    async def _content(self, told: object) -> bytes:
        if type(told) is self.told:
            return self.answered.serialize_json(told)  # what is of this type was checked when it was made
        content: bytes = await serialize_response(field=self.answered, response_content=told, dump_json=True)
        return content


def _query(scope: Scope) -> Mapping[str, str]:
    """Returns what stands behind the question mark; of several words of one name the last."""
    text: bytes = scope["query_string"]
    return dict(parse_qsl(text.decode("latin-1"), keep_blank_values=True)) if text else {}
