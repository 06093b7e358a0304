"""The life of one container, as blocking calls: created, started, looked at after its death, removed."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

import docker
import docker.errors
import requests.exceptions

from sandbox_skills.engines.classify import Death
from sandbox_skills.engines.docker_client import translated, unless_answered
from sandbox_skills.errors import EngineError, ImageError, SandboxLostError, SandboxSkillsError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

REMOVE_SECONDS = 10.0
"""How long a removal may take; seen at most 2 s with eight at once. What takes longer is left to the next reap."""

REMOVE_POLL_SECONDS = 0.005

EVENTS_SECONDS = 2.0
"""How long the daemon may take to tell of a death: the channel ends first, its event came within 0.3 s."""

OOM_NANOSECONDS = 5_000_000_000
"""A runner that the kernel killed for memory is buried within a second, and the notice of it comes about then."""

_CPU_RANGE = re.compile(r"Range of CPUs is from \S+ to (\d+(?:\.\d+)?)", re.IGNORECASE)
_LEAST_MEMORY = re.compile(r"Minimum memory limit allowed is (\w+)", re.IGNORECASE)
"""How a daemon refuses a limit (moby, daemon_unix.go): it has no code for it."""

NOT_FOUND = 404
CONFLICT = 409
"""HTTP status for a name in use, and for a container whose removal has begun."""


def create(client: docker.APIClient, sandbox_id: str, body: Mapping[str, Any]) -> None:
    """Creates the container named `sandbox_id`. Retried while the daemon does not answer: nothing runs yet.

    Raises SettingsError for a limit that the daemon's host cannot give.
    """
    try:
        with translated("create a container"):
            unless_answered(lambda: _create(client, sandbox_id, body))
    except EngineError as error:
        if isinstance(error.__cause__, docker.errors.ImageNotFound):
            raise ImageError("the runner image is gone", hint="sandbox-skills image build") from error
        if found := _CPU_RANGE.search(error.message):
            raise SettingsError(
                f"sandbox.cpus is more than the daemon's host has: {found[1]}",
                hint=f"set sandbox.cpus to {found[1]} or less",
            ) from error
        if found := _LEAST_MEMORY.search(error.message):
            raise SettingsError(f"sandbox.memory is less than the daemon takes: {found[1]}") from error
        raise


def _create(client: docker.APIClient, sandbox_id: str, body: Mapping[str, Any]) -> None:
    def once() -> None:
        client.create_container_from_config(dict(body), name=sandbox_id)  # type: ignore[no-untyped-call]  # the stubs

    try:
        once()
    except docker.errors.APIError as error:
        # The name is random: it is ours from a try whose answer was lost.
        if error.status_code != CONFLICT:
            raise
        client.remove_container(sandbox_id, force=True, v=True)
        once()


def may_exist(error: SandboxSkillsError) -> bool:
    """Tells whether a container may be there, or come to be, although `create` raised that error.

    It may, unless the daemon refused: an answer that was lost or late says nothing, nor does a proxy's of the 500s.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, docker.errors.APIError):
            return not cause.is_client_error()
        cause = cause.__cause__
    return True


def start(client: docker.APIClient, sandbox_id: str) -> None:
    """Starts the container; raises EngineError with the daemon's reason."""
    with translated("start a container", lost=True):
        client.start(sandbox_id)


def remove(client: docker.APIClient, sandbox_id: str, seconds: float = REMOVE_SECONDS) -> bool:
    """Ends and removes the container and its anonymous volumes; returns once it is gone, or raises.

    Returns whether there was one. Takes up to about `seconds`.
    """
    deadline = time.monotonic() + seconds
    found = False
    with translated("remove a container", lost=True):
        while (left := deadline - time.monotonic()) > 0:
            if not _delete(client, sandbox_id, left):
                return found
            found = True
            time.sleep(REMOVE_POLL_SECONDS)
    raise SandboxLostError(
        f"container {sandbox_id} was not removed in {seconds:g} s", hint="sandbox-skills gc"
    )


def _delete(client: docker.APIClient, sandbox_id: str, seconds: float) -> bool:
    """Asks for a removal; returns whether there was anything to remove. docker-py's own has no time-out of one call."""
    answer = client.delete(
        f"{client.base_url}/v{client.api_version}/containers/{sandbox_id}",
        params={"force": "true", "v": "true"},
        timeout=seconds,
    )
    if answer.status_code == CONFLICT:  # it removes itself
        return True
    try:
        answer.raise_for_status()
    except requests.exceptions.HTTPError as error:
        if answer.status_code == NOT_FOUND:
            return False
        docker.errors.create_api_error_from_http_exception(error)
    return True


def post_mortem(client: docker.APIClient, sandbox_id: str) -> Death:
    """Returns why a container died, from the daemon's events: an auto-removed one cannot be inspected.

    Blocks for up to EVENTS_SECONDS, as long as the death may still be told.
    """
    try:
        with translated("read the daemon's events", lost=True):
            return _death(_events(client, sandbox_id))
    except (EngineError, AttributeError, TypeError, ValueError):
        # Nothing is known then, which is an answer: the box is lost, and nobody can say of what.
        return Death(oom=False, exit_code=None)


def _events(client: docker.APIClient, sandbox_id: str) -> Iterator[Mapping[str, Any]]:
    """Yields what the daemon has to tell of a container, until it says nothing for EVENTS_SECONDS.

    From its first event on, as it keeps the last 256 alone, and with no time of ours in the question: its clock may
    differ, and both may jump. docker-py's own `events` would wait for ever.
    """
    answer = client.get(
        f"{client.base_url}/v{client.api_version}/events",
        params={
            "since": "1",
            "filters": json.dumps({"container": [sandbox_id], "event": ["oom", "die"]}),
        },
        timeout=EVENTS_SECONDS,
        stream=True,
    )
    with answer:
        for line in answer.iter_lines():
            yield json.loads(line)


def _death(events: Iterable[Mapping[str, Any]]) -> Death:
    """Returns what the events say; pure. A process that was killed for memory long before is not why the box died."""
    killed_at = -OOM_NANOSECONDS
    for event in events:
        at = int(event.get("timeNano", 0))
        if event.get("Action") == "oom":
            killed_at = at
        elif event.get("Action") == "die":
            code = str(event.get("Actor", {}).get("Attributes", {}).get("exitCode", ""))
            oom = at - killed_at < OOM_NANOSECONDS
            return Death(oom=oom, exit_code=int(code) if code.isdecimal() else None)
    return Death(oom=False, exit_code=None)
