"""A route that was laid out answers each request just as the framework does."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI, Form, Header, Query, Request, Response, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel, Field

from sandbox_skills.daemon.api.body_limits import BodyLimits
from sandbox_skills.daemon.api.front import Front
from sandbox_skills.daemon.api.laid_out import PlannedRoutes
from sandbox_skills.daemon.api.problems import install_problems
from sandbox_skills.daemon.working.metrics import Metrics
from tests.daemon_host import opened_host

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import ASGIApp


class Order(BaseModel):
    """What is sent."""

    name: str = Field(min_length=1)
    count: int = 1


class Told(BaseModel):
    """What is answered."""

    who: str
    what: Any


_BEARER = HTTPBearer(auto_error=False)


async def _seen(request: Request) -> list[str]:
    return [request.method]


async def _who(
    seen: Annotated[list[str], Depends(_seen)],
    bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)],
) -> str:
    seen.append("who")
    return "nobody" if bearer is None else bearer.credentials


@cache
def _app(*, laid_out: bool) -> ASGIApp:
    app, router = FastAPI(), APIRouter(prefix="/things")

    @router.post("/{place}", status_code=202)
    async def put(
        order: Order,
        place: int,
        seen: Annotated[list[str], Depends(_seen)],
        who: Annotated[str, Depends(_who)],
        response: Response,
        wait: Annotated[float, Query(ge=0, le=60)] = 0,
        key: Annotated[str | None, Header(alias="Idempotency-Key", min_length=2)] = None,
    ) -> Told:
        response.headers["X-Place"] = str(place)
        if wait > 1:
            response.status_code = 200
        return Told(who=who, what=[order, wait, key, seen])

    @router.get("/{place}")
    async def get(place: str, kind: Annotated[Literal["a", "b"] | None, Query()] = None) -> Told:
        return Told(who=place, what=kind)

    @router.get("/{place}/all")
    async def tagged(place: str, tags: Annotated[list[str] | None, Query()] = None) -> Told:
        return Told(who=place, what=tags)

    @router.put("/{place}")
    async def form(place: str, text: Annotated[str, Form()]) -> Told:
        return Told(who=place, what=text)

    app.include_router(router)
    install_problems(app)
    planned = PlannedRoutes(router.routes if laid_out else [])
    limits = BodyLimits(plain=MOST, upload=MOST, file=MOST)
    return Front(app, app, planned, limits, Metrics())


MOST = 200_000

Ask = tuple[str, str, dict[str, str], bytes]


def _answers(*asked: Ask) -> list[list[tuple[int, dict[str, str], bytes]]]:
    """Returns what either way answers to each request."""
    return [asyncio.run(_answered(_app(laid_out=way), asked)) for way in (False, True)]


async def _answered(app: ASGIApp, asked: tuple[Ask, ...]) -> list[tuple[int, dict[str, str], bytes]]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        answers = [
            await client.request(method, path, headers={**headers, "X-Request-ID": "one"}, content=content)
            for method, path, headers, content in asked
        ]
    return [(one.status_code, dict(one.headers), one.content) for one in answers]


JSON = {"Content-Type": "application/json"}
GOOD: Ask = ("POST", "/things/3?wait=2", {**JSON, "Authorization": "Bearer me"}, b'{"name": "x"}')


POST, PATH, BEARER, NAMED = GOOD
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
CASES: dict[str, Ask] = {
    "plain": GOOD,
    "a place that is none": (POST, "/things/no", BEARER, NAMED),
    "nothing asked": (POST, "/things/3", BEARER, NAMED),
    "a parameter that is none": (POST, "/things/no?wait=nan", BEARER, b"{}"),
    "one parameter twice": (POST, "/things/3?wait=1&wait=2", BEARER, NAMED),
    "nobody": (POST, PATH, JSON, NAMED),
    "a header that is too short": (POST, PATH, {**JSON, "Idempotency-Key": "k"}, NAMED),
    "a header": (POST, PATH, {**JSON, "Idempotency-Key": "key"}, NAMED),
    "another spelling of JSON": (POST, PATH, {"Content-Type": "application/json; charset=utf-8"}, NAMED),
    "no JSON": (POST, PATH, {"Content-Type": "text/plain"}, NAMED),
    "no type": (POST, PATH, {}, NAMED),
    "no body": (POST, PATH, BEARER, b""),
    "null": (POST, PATH, BEARER, b"null"),
    "half of a body": (POST, PATH, BEARER, b"{"),
    "no text": (POST, PATH, BEARER, b"\xff"),
    "a body against the rules": (POST, PATH, BEARER, b'{"name": ""}'),
    "a name twice": (POST, PATH, BEARER, b'{"name": "x", "count": "2", "count": "3"}'),
    "too deep": (POST, PATH, BEARER, b"[" * 100_000),
    "a list": ("GET", "/things/here/all?tags=a&tags=b", {}, b""),
    "a word that is none": ("GET", "/things/here?kind=c", {}, b""),
    "a word": ("GET", "/things/here?kind=b", {}, b""),
    "a form": ("PUT", "/things/here", FORM, b"text=a"),
    "no such method": ("DELETE", "/things/here", {}, b""),
}


@pytest.mark.parametrize("case", CASES)
def test_it_answers_as_the_framework_does(case: str) -> None:
    usual, laid_out = _answers(CASES[case])
    assert laid_out == usual


WORDS = st.sampled_from(["", "0", "1.5", "-1", "61", "a", "b", "true", "1e1", " 2", "%00"])


@given(
    place=WORDS.filter(bool),
    query=st.dictionaries(st.sampled_from(["wait", "kind", "other"]), WORDS),
    body=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda below: (
            st.lists(below, max_size=2) | st.dictionaries(st.sampled_from(["name", "count"]), below)
        ),
    ),
)
def test_whatever_is_sent(place: str, query: dict[str, str], body: object) -> None:
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    content = httpx.Request("POST", "http://test", json=body).content
    usual, laid_out = _answers(("POST", f"/things/{place}?{asked}", JSON, content))
    assert laid_out == usual


def test_what_is_plain_does_not_go_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    async def solve(**_: object) -> None:
        raise AssertionError("looked for")

    monkeypatch.setattr("fastapi.routing.solve_dependencies", solve)
    ((status, _, _),) = asyncio.run(_answered(_app(laid_out=True), (GOOD,)))
    assert status == 200


async def _spans(tmp_path: Path, exporter: InMemorySpanExporter) -> list[str]:
    async with opened_host(tmp_path) as host, host.client() as client:
        assert (await client.get("/healthz")).status_code == 200
    return [span.name for span in exporter.get_finished_spans()]


def test_whoever_records_spans_has_those_of_requests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    assert "GET /healthz" in asyncio.run(_spans(tmp_path, exporter))
