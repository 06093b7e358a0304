"""Plans of routes, read out of what the framework knows of them; and which of them a request is for."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from fastapi import params
from fastapi.datastructures import DefaultPlaceholder
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from sandbox_skills.daemon.api.plans import BODY, FIRST, HEAD, REQUEST, Parameter, Plan, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from fastapi._compat import ModelField
    from fastapi.dependencies.models import Dependant
    from starlette.routing import BaseRoute

    from sandbox_skills.daemon.api.plans import Place


@dataclass(frozen=True, slots=True)
class Found:
    """The route that a request is for, its plan, and the parameters in the path."""

    route: APIRoute
    plan: Plan
    path: Mapping[str, str]


class PlannedRoutes:
    """Finds the plan for a request: where the path has no parameters at once, else by the routes' order."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._exact: dict[tuple[str, str], Found | None] = {}
        self._below: dict[str, list[_Below]] = {}
        for route in routes:
            if isinstance(route, APIRoute):
                self._add(route)

    def find(self, method: str, path: str) -> Found | None:
        """Returns the first route that such a request is for; None where there is none, or it has no plan."""
        try:
            return self._exact[method, path]
        except KeyError:
            return self._first_below(method, path)

    def _first_below(self, method: str, path: str) -> Found | None:
        for one in self._below.get(method, ()):
            if path.startswith(one.start) and (match := one.route.path_regex.match(path)):
                return None if one.plan is None else Found(one.route, one.plan, match.groupdict())
        return None

    def _add(self, route: APIRoute) -> None:
        plan, start = plan_of(route), route.path.partition("{")[0]
        for method in route.methods or ():
            below = self._below.setdefault(method, [])
            if start != route.path:
                below.append(_Below(start, route, plan))
            elif not any(one.route.path_regex.match(start) for one in below):
                self._exact.setdefault((method, start), None if plan is None else Found(route, plan, {}))


@dataclass(frozen=True, slots=True)
class _Below:
    """A route with parameters in its path, and what that begins with."""

    start: str
    route: APIRoute
    plan: Plan | None


def plan_of(route: APIRoute) -> Plan | None:
    """Returns the plan of a route, None where it has more to it than plans know. Pure."""
    body, answered = route.body_field, route.response_field
    if answered is None or not isinstance(route.response_class, DefaultPlaceholder):
        return None  # what no model tells, or not as plain JSON
    if [one.name for one in route.dependant.body_params] != ([] if body is None else [body.name]):
        return None  # several parts in one object
    if body is not None and (isinstance(body.field_info, params.Form) or body.field_info.metadata):
        return None  # rules beyond those of its model
    functions = _in_order(route.dependant)
    if any(_has_more(one, is_endpoint=one is route.dependant) for one in functions):
        return None
    parameters, steps = _laid_out(functions)
    form: Any = None if body is None else body.field_info.annotation
    sent = None if form is None else TypeAdapter[Any](form)
    return Plan(parameters, steps, sent, answered, answered.field_info.annotation, route.status_code or 200)


def _in_order(endpoint: Dependant) -> list[Dependant]:
    """Returns an endpoint and every function that it needs, once each and behind those that it needs itself."""
    found: dict[Callable[..., Any] | None, Dependant] = {}

    def add(one: Dependant) -> None:
        for need in one.dependencies:
            add(need)
        found.setdefault(one.call, one)

    add(endpoint)
    return list(found.values())


def _laid_out(functions: list[Dependant]) -> tuple[tuple[Parameter, ...], tuple[Step, ...]]:
    """Returns the parameters of all functions, and how each is called."""
    words = [(one, *word) for one in functions for word in _words(one)]
    places = {one.call: FIRST + len(words) + at for at, one in enumerate(functions)}
    steps: list[Step] = []
    for one in functions:
        assert one.call is not None
        takes = {need.name: places[need.call] for need in one.dependencies if need.name is not None}
        takes |= {word.name: FIRST + at for at, (owner, _, word) in enumerate(words) if owner is one}
        takes |= dict.fromkeys(
            filter(None, (one.request_param_name, one.http_connection_param_name)), REQUEST
        )
        takes |= dict.fromkeys(filter(None, (one.response_param_name,)), HEAD)
        takes |= {word.name: BODY for word in one.body_params}
        steps.append(Step(one.call, tuple(takes.items())))
    return tuple(_parameter(place, word) for _, place, word in words), tuple(steps)


def _words(dependant: Dependant) -> Iterator[tuple[Place, ModelField]]:
    """Yields the parameters that a function takes from the request, and where they stand there."""
    for word in dependant.path_params:
        yield "path", word
    for word in dependant.query_params:
        yield "query", word
    for word in dependant.header_params:
        yield "header", word


def _parameter(place: Place, word: ModelField) -> Parameter:
    name = word.alias.lower() if place == "header" else word.alias
    required = word.field_info.is_required()
    return Parameter(place, name, word, None if required else word.default, required)


def _has_more(dependant: Dependant, *, is_endpoint: bool) -> bool:
    """Tells whether a function is none that plans know, or takes what they do not."""
    return bool(
        dependant.cookie_params
        or dependant.websocket_param_name
        or dependant.background_tasks_param_name
        or dependant.security_scopes_param_name
        or dependant.own_oauth_scopes
        or dependant.concurrency
        or not dependant.use_cache
        or (dependant.body_params and not is_endpoint)
        or not _is_coroutine(dependant.call)
        or not all(_is_word(one.field_info.annotation) for _, one in _words(dependant))
    )


_WORDS: frozenset[object] = frozenset({str, int, float, bool, NoneType})


def _is_word(annotation: object) -> bool:
    """Tells whether a type is that of one word: no list, and no model of several parameters."""
    origin = get_origin(annotation)
    if origin in {Union, UnionType}:
        return all(map(_is_word, get_args(annotation)))
    return origin is Literal or annotation in _WORDS


def _is_coroutine(function: Callable[..., Any] | None) -> bool:
    called = function if inspect.isroutine(function) else type(function).__call__
    return inspect.iscoroutinefunction(called)
