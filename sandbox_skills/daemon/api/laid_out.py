"""Routes whose way from a request to the endpoint is laid out once, not looked for with each request.

The framework asks of every request again what each parameter is and where it comes from, which takes longer than an
answer from memory. A request that is not as it should be still goes the framework's own way, which says what is wrong
with it, so that there is one form of every refusal.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from fastapi import APIRouter, Response, params
from fastapi.datastructures import DefaultPlaceholder
from fastapi.routing import APIRoute, serialize_response
from starlette.exceptions import HTTPException
from starlette.routing import Match

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from fastapi import Request
    from fastapi._compat import ModelField
    from fastapi.dependencies.models import Dependant
    from starlette.types import Scope

    Handler = Callable[[Request], Awaitable[Response]]
    Solved = dict[Callable[..., Any], object]

JSON = "application/json"


class LaidOutRoute(APIRoute):
    """A route that reads a plain request by a plan; one that takes a form, or is a stream, has none."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        usual, plan = super().get_route_handler(), _plan(self)
        if plan is None:
            return usual

        async def handle(request: Request) -> Response:
            try:
                return await plan.answer(request)
            except _NotPlainError:
                return await usual(request)

        return handle


class LaidOutRouter(APIRouter):
    """A router of such routes, which looks for none in a path that is not below its own."""

    def __init__(self, prefix: str = "", tags: Sequence[str] = ()) -> None:
        super().__init__(prefix=prefix, tags=list(tags), route_class=LaidOutRoute)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if not scope["path"].startswith(self.prefix):
            return Match.NONE, {}
        return super().matches(scope)


class _NotPlainError(Exception):
    """The request is not what the plan is for."""


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter that the request has by a name; `place` is the attribute of the request that has it."""

    name: str
    place: str
    alias: str
    field: ModelField

    def of(self, request: Request) -> object:
        """Returns its value; raises _NotPlainError for one that is missing or wrong."""
        found = getattr(request, self.place).get(self.alias)
        if found is not None:
            return _valid(self.field, found)
        if self.field.field_info.is_required():
            raise _NotPlainError
        return self.field.default


@dataclass(frozen=True, slots=True)
class _Call:
    """A function, and where its arguments come from: other functions, the request, the answer's head."""

    function: Callable[..., Any]
    needs: tuple[tuple[str | None, _Call], ...]
    parameters: tuple[_Parameter, ...]
    requests: tuple[str, ...]
    response: str | None

    async def arguments(self, request: Request, response: Response, solved: Solved) -> dict[str, Any]:
        """Returns its arguments; each function is called once for a request. Raises what they do, _NotPlainError."""
        given: dict[str, Any] = {}
        for name, need in self.needs:
            if need.function not in solved:
                solved[need.function] = await need.function(**await need.arguments(request, response, solved))
            if name is not None:
                given[name] = solved[need.function]
        for parameter in self.parameters:
            given[parameter.name] = parameter.of(request)
        for name in self.requests:
            given[name] = request
        if self.response is not None:
            given[self.response] = response
        return given


@dataclass(frozen=True, slots=True)
class _Plan:
    """All that a route does with a request."""

    call: _Call
    body: ModelField | None
    answered: ModelField
    status: int | None

    async def answer(self, request: Request) -> Response:
        """Returns the answer; raises what the endpoint does, _NotPlainError."""
        sent = None if self.body is None else await _json(request)
        head = Response()
        del head.headers["content-length"]
        head.status_code = 0
        given = await self.call.arguments(request, head, {})
        if self.body is not None:
            given[self.body.name] = _valid(self.body, sent)
        told = await self.call.function(**given)
        return told if isinstance(told, Response) else await self._response(told, head)

    async def _response(self, told: object, head: Response) -> Response:
        content = await serialize_response(field=self.answered, response_content=told, dump_json=True)
        status = head.status_code or self.status or 200
        response = Response(content, status, media_type=JSON)
        response.raw_headers.extend(head.raw_headers)
        return response


def _valid(field: ModelField, value: object) -> object:
    valid, errors = field.validate(value)
    if errors:
        raise _NotPlainError
    return valid


async def _json(request: Request) -> object:
    """Returns the body; what went wrong the framework finds again, as a body is read once and kept."""
    if request.headers.get("content-type") != JSON:
        raise _NotPlainError
    try:
        return await request.json()
    except HTTPException:
        raise
    except Exception as error:
        raise _NotPlainError from error


def _plan(route: APIRoute) -> _Plan | None:
    """Returns the plan of a route, None where it has more to it than plans know."""
    call, body, answered = _laid_out(route.dependant), route.body_field, route.response_field
    if call is None or answered is None or not isinstance(route.response_class, DefaultPlaceholder):
        return None
    if [one.name for one in route.dependant.body_params] != ([] if body is None else [body.name]):
        return None  # several parts in one object, or what a dependency reads
    if body is not None and isinstance(body.field_info, params.Form):
        return None
    return _Plan(call, body, answered, route.status_code)


def _laid_out(dependant: Dependant, *, below: bool = False) -> _Call | None:
    """Returns how a function is called, None where it takes what plans do not know, or is no coroutine."""
    function = dependant.call
    needs = [(one.name, _laid_out(one, below=True)) for one in dependant.dependencies]
    parameters = [one for place in _PLACES for one in _parameters(dependant, *place)]
    if function is None or not _is_coroutine(function) or _has_more(dependant, below=below):
        return None
    if any(need is None for _, need in needs) or None in parameters:
        return None
    requests = (dependant.request_param_name, dependant.http_connection_param_name)
    return _Call(
        function,
        tuple((name, need) for name, need in needs if need is not None),
        tuple(one for one in parameters if one is not None),
        tuple(name for name in requests if name is not None),
        dependant.response_param_name,
    )


_PLACES = (
    ("path_params", "path_params"),
    ("query_params", "query_params"),
    ("header_params", "headers"),
)
"""What a function's parameters are called by the framework, and where a request has their values."""


def _parameters(dependant: Dependant, kind: str, place: str) -> Iterator[_Parameter | None]:
    """Yields the parameters that come from one place, None for one that is more than one word."""
    fields: list[ModelField] = getattr(dependant, kind)
    for field in fields:
        is_word = _is_word(field.field_info.annotation)
        yield _Parameter(field.name, place, field.alias, field) if is_word else None


_WORDS: frozenset[object] = frozenset({str, int, float, bool, NoneType})


def _is_word(annotation: object) -> bool:
    """Tells whether a type is that of one word: no list, and no model of several parameters."""
    origin = get_origin(annotation)
    if origin in {Union, UnionType}:
        return all(map(_is_word, get_args(annotation)))
    return origin is Literal or annotation in _WORDS


def _has_more(dependant: Dependant, *, below: bool) -> bool:
    """Tells whether a function takes anything that plans do not know; `below` is for one that others need."""
    return bool(
        dependant.cookie_params
        or dependant.websocket_param_name
        or dependant.background_tasks_param_name
        or dependant.security_scopes_param_name
        or dependant.own_oauth_scopes
        or dependant.concurrency
        or not dependant.use_cache
        or (below and dependant.body_params)
    )


def _is_coroutine(function: Callable[..., Any]) -> bool:
    called = function if inspect.isroutine(function) else type(function).__call__
    return inspect.iscoroutinefunction(called)
