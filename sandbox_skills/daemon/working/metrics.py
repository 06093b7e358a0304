"""What is counted while the daemon lives, for Prometheus. No tenant and no id is a label: their number has no bound."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from sandbox_skills.daemon.dispatch.base import RunQueue
    from sandbox_skills.daemon.truth.run import Finished, Run
    from sandbox_skills.daemon.working.worker import Work

V = TypeVar("V")

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)
"""Seconds: a warm run takes some milliseconds, the longest that the settings allow a quarter of an hour."""

KNOWN_METHODS = frozenset({"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"})


class Metrics:
    """One registry for each daemon, so that two in one process do not share counts."""

    media_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._requests = Counter(
            "sandbox_skills_http_requests",
            "Answers",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._request_seconds = Histogram(
            "sandbox_skills_http_request_seconds",
            "Until the head of the answer",
            ("method", "route"),
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._runs = Counter(
            "sandbox_skills_runs_finished", "Runs that ended", ("outcome",), registry=self._registry
        )
        self._run_seconds = Histogram(
            "sandbox_skills_run_seconds",
            "From a run's turn to its end",
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._queued = Gauge("sandbox_skills_runs_queued", "Runs that wait", registry=self._registry)
        self._running = Gauge("sandbox_skills_runs_running", "Runs under way", registry=self._registry)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts an answer to a request of a route; an empty route is none of ours."""
        known = method if method in KNOWN_METHODS else "other"
        series = self._series.get((known, route, status))
        if series is None:  # to find one takes longer than to count
            told = (
                self._requests.labels(known, route, str(status)),
                self._request_seconds.labels(known, route),
            )
            series = self._series[known, route, status] = told
        count, duration = series
        count.inc()
        duration.observe(seconds)

    def counted(self, work: Work[V]) -> Work[V]:
        """Returns work whose runs are counted, by how they ended."""

        async def counting(run: Run, voice: V) -> Finished:
            began = time.perf_counter()
            kind = "failed"
            try:
                ended = await work(run, voice)
            except asyncio.CancelledError:
                kind = "cancelled"
                raise
            else:
                kind = str(ended.outcome["type"])
                return ended
            finally:
                self._runs.labels(kind).inc()
                self._run_seconds.observe(time.perf_counter() - began)

        return counting

    async def text(self, queue: RunQueue) -> bytes:
        """Returns everything in Prometheus' text form, with the queue as it is now."""
        depth = await queue.depth()
        self._queued.set(depth.queued)
        self._running.set(depth.running)
        return generate_latest(self._registry)
