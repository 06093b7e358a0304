"""The life of one container, as blocking calls: created, started, looked at after its death, removed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import docker
import docker.errors
import requests.exceptions
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from sandbox_skills.engines.classify import Death
from sandbox_skills.engines.docker_client import CONNECT_ATTEMPTS, translated
from sandbox_skills.errors import EngineError, ImageError, SandboxLostError

if TYPE_CHECKING:
    from collections.abc import Mapping

REMOVE_SECONDS = 30.0
"""How long a container that is being removed may take; seen at most 2 s with eight at once."""

REMOVE_POLL_SECONDS = 0.02

CONFLICT = 409
"""HTTP status for a name in use, and for a container whose removal has begun."""


def create(client: docker.APIClient, sandbox_id: str, body: Mapping[str, Any]) -> None:
    """Creates the container named `sandbox_id`. Retried while the daemon does not answer: nothing runs yet."""

    def once() -> None:
        try:
            _create(client, sandbox_id, body)
        except docker.errors.APIError as error:
            # The name is random: it is ours from a try whose answer was lost.
            if error.status_code != CONFLICT:
                raise
            client.remove_container(sandbox_id, force=True, v=True)
            _create(client, sandbox_id, body)

    try:
        with translated("create a container"):
            Retrying(
                retry=retry_if_exception_type(requests.exceptions.ConnectionError),
                stop=stop_after_attempt(CONNECT_ATTEMPTS),
                wait=wait_random_exponential(multiplier=0.1, max=1.0),
                reraise=True,
            )(once)
    except EngineError as error:
        if isinstance(error.__cause__, docker.errors.ImageNotFound):
            raise ImageError("the runner image is gone", hint="sandbox-skills image build") from error
        raise


def _create(client: docker.APIClient, sandbox_id: str, body: Mapping[str, Any]) -> None:
    client.create_container_from_config(dict(body), name=sandbox_id)  # type: ignore[no-untyped-call]  # in the stubs


def start(client: docker.APIClient, sandbox_id: str) -> None:
    """Starts the container; raises EngineError with the daemon's reason."""
    with translated("start a container", lost=True):
        client.start(sandbox_id)


def remove(client: docker.APIClient, sandbox_id: str) -> None:
    """Ends and removes the container and its anonymous volumes; returns once it is gone, or raises."""
    with translated("remove a container", lost=True):
        try:
            client.remove_container(sandbox_id, force=True, v=True)
        except docker.errors.NotFound:
            return
        except docker.errors.APIError as error:
            if error.status_code != CONFLICT:
                raise
        _await_gone(client, sandbox_id)


def _await_gone(client: docker.APIClient, sandbox_id: str) -> None:
    deadline = time.monotonic() + REMOVE_SECONDS
    while time.monotonic() < deadline:
        try:
            client.inspect_container(sandbox_id)
        except docker.errors.NotFound:
            return
        time.sleep(REMOVE_POLL_SECONDS)
    raise SandboxLostError(
        f"container {sandbox_id} was not removed in {REMOVE_SECONDS:g} s", hint="sandbox-skills gc"
    )


def post_mortem(client: docker.APIClient, sandbox_id: str, since: float) -> Death:
    """Returns why a container died, from the daemon's events: an auto-removed one cannot be inspected."""
    try:
        with translated("read the daemon's events", lost=True):
            events = client.events(
                since=int(since),
                until=int(time.time()) + 1,
                filters={"container": [sandbox_id], "event": ["oom", "die"]},
                decode=True,
            )
            seen = [(event.get("Action"), event.get("Actor", {}).get("Attributes", {})) for event in events]
    except (EngineError, AttributeError):
        return Death(oom=False, exit_code=None)
    codes = [attributes.get("exitCode", "") for action, attributes in seen if action == "die"]
    code = int(codes[-1]) if codes and codes[-1].isdigit() else None
    return Death(oom=any(action == "oom" for action, _ in seen), exit_code=code)
