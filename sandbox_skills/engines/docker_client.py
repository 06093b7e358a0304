"""The Docker daemon: where it listens, how we speak to it, what its refusals mean."""

from __future__ import annotations

import re
import ssl
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

import docker
import docker.constants
import docker.errors
import requests
import requests.exceptions
import urllib3.exceptions
from docker.tls import TLSConfig
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from sandbox_skills.engines.attach import DaemonAddress
from sandbox_skills.errors import EngineError, EngineUnavailableError, SandboxLostError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

T = TypeVar("T")

DEFAULT_HOST = "unix:///var/run/docker.sock"

REQUEST_SECONDS = 60.0
"""Longest wait for one answer of the daemon; a loaded one took 12 s to start a container."""

CONNECT_ATTEMPTS = 3
"""A daemon that is being restarted by its supervisor is back within about a second."""

PLAIN_PORT, TLS_PORT = 2375, 2376
"""Where a daemon listens on TCP by custom."""

MAX_REASON = 300
"""Longest text of a daemon that our messages quote: a proxy may answer with a whole page."""

DAEMON_ERRORS = (
    docker.errors.DockerException,
    requests.exceptions.RequestException,
    docker.errors.StreamParseError,
    urllib3.exceptions.HTTPError,
    OSError,
)
"""What docker-py lets through; streams of the daemon raise urllib3's own, or are no JSON."""

POOL_SIZE = 32
"""Connections kept to the daemon: as many as worker threads that may ask at once."""

NO_DAEMON_HINT = (
    "start Docker, or name its address in DOCKER_HOST; in a checkout, `make docker` installs and starts one"
)
NO_PERMISSION_HINT = "run as root, or as a member of the group that owns the socket (often `docker`)"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Certificate files for a daemon on TCP; `verify` False checks no server name, as Docker's `--tls` does."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    verify: bool = True


@dataclass(frozen=True, slots=True)
class DockerConnection:
    """Where the daemon is: `unix://PATH` or `tcp://HOST:PORT`."""

    host: str = DEFAULT_HOST
    tls: TlsFiles | None = None


def address(connection: DockerConnection) -> DaemonAddress:
    """Returns the address for a raw connection; raises EngineUnavailableError for a transport we lack."""
    try:
        url = urlsplit(connection.host)
        port = url.port
    except ValueError:
        raise _no_transport(connection) from None
    if url.scheme == "unix" and not url.netloc and url.path:
        return DaemonAddress(path=url.path)
    if url.scheme in {"tcp", "http", "https"} and url.hostname:
        tls = _ssl_context(connection.tls) if connection.tls is not None else None
        return DaemonAddress(host=url.hostname, port=port or (TLS_PORT if tls else PLAIN_PORT), tls=tls)
    raise _no_transport(connection)


def _no_transport(connection: DockerConnection) -> EngineUnavailableError:
    return EngineUnavailableError(
        f"cannot speak to a Docker daemon at {connection.host!r}",
        hint="use unix:///PATH or tcp://HOST:PORT; forward an ssh:// daemon's socket with `ssh -L`",
    )


def connect(connection: DockerConnection, *, timeout_seconds: float = REQUEST_SECONDS) -> docker.APIClient:
    """Returns a client of a daemon that answers. Blocks; raises EngineUnavailableError with the fix.

    `timeout_seconds` is the longest wait for one answer, not for the whole of a stream.
    """
    address(connection)
    timeout = max(1, round(timeout_seconds))
    with translated(f"reach the Docker daemon at {connection.host}"):
        return unless_answered(lambda: _client(connection, _api_version(connection, timeout), timeout))


def unless_answered(call: Callable[[], T]) -> T:
    """Makes a call of the daemon again while no daemon answers it: only for what has no effect twice."""
    retrying = Retrying(
        retry=retry_if_exception_type(requests.exceptions.ConnectionError),
        stop=stop_after_attempt(CONNECT_ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.1, max=1.0),
        reraise=True,
    )
    return retrying(call)


def _api_version(connection: DockerConnection, timeout: int) -> str:
    """Returns the version the daemon speaks. docker-py's own "auto" would ask through a proxy of the environment."""
    client = _client(connection, docker.constants.MINIMUM_DOCKER_API_VERSION, timeout)
    try:
        answer: object = cast("Any", client).version(api_version=False)
    finally:
        client.close()
    version = cast("dict[str, object]", answer).get("ApiVersion") if isinstance(answer, dict) else None
    if not isinstance(version, str) or not re.fullmatch(r"\d+\.\d+", version):
        raise docker.errors.DockerException("what answers there is no Docker daemon")
    return version


def _client(connection: DockerConnection, version: str, timeout: int) -> docker.APIClient:
    client = docker.APIClient(
        base_url=connection.host,
        tls=_tls_config(connection.tls) if connection.tls is not None else False,
        version=version,
        timeout=timeout,
        max_pool_size=POOL_SIZE,
    )
    # A proxy named in the environment is for the world, not for a daemon that may run code as root.
    client.trust_env = False
    client.hooks["response"].append(_check_refusal)
    return client


def _check_refusal(answer: requests.Response, **_options: object) -> None:
    """Raises APIError for a refusal without words; docker-py takes it that JSON has a message, and fails of it."""
    if answer.status_code < HTTPStatus.BAD_REQUEST:
        return
    try:
        body: object = answer.json()
    except ValueError:
        return  # is read as a text then
    if not (isinstance(body, dict) and isinstance(cast("dict[str, object]", body).get("message"), str)):
        words = f"it answers {answer.status_code} and does not say why"
        raise docker.errors.APIError(words, response=answer, explanation=words)


@contextmanager
def translated(action: str, *, lost: bool = False) -> Generator[None]:
    """Turns docker-py's and requests' exceptions into ours, once, with the cause kept.

    `lost` says that a sandbox existed already: a daemon that is gone then is a SandboxLostError.
    """
    gone = SandboxLostError if lost else EngineUnavailableError
    try:
        yield
    except docker.errors.APIError as error:
        raise EngineError(f"cannot {action}: {str(error.explanation or error)[:MAX_REASON]}") from error
    except DAEMON_ERRORS as error:
        reason, hint = _told(error)
        raise gone(f"cannot {action}: {reason}", hint=hint) from error


@contextmanager
def understood(what: str) -> Generator[None]:
    """While an answer is read: one of another shape than Docker's raises EngineError, which says that it is not `what`.

    Whatever listens at the address decides what it answers; a proxy may say `null`.
    """
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise EngineError(f"the Docker daemon's answer is not {what}", hint=NO_DAEMON_HINT) from error


def _told(error: BaseException) -> tuple[str, str]:
    """Returns the reason and the fix, from whichever cause of the error says most."""
    causes = list(_causes(error))
    if any(isinstance(cause, PermissionError) for cause in causes):
        return "permission denied on its socket", NO_PERMISSION_HINT
    if any(isinstance(cause, FileNotFoundError | ConnectionRefusedError) for cause in causes):
        return "no daemon listens there", NO_DAEMON_HINT
    return str(error)[:MAX_REASON], NO_DAEMON_HINT


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _tls_config(files: TlsFiles) -> TLSConfig:
    pair = (str(files.cert), str(files.key)) if files.cert and files.key else None
    return TLSConfig(client_cert=pair, ca_cert=str(files.ca) if files.ca else None, verify=files.verify)


def _ssl_context(files: TlsFiles) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=files.ca)
        if files.cert and files.key:
            context.load_cert_chain(files.cert, files.key)
    except OSError as error:
        raise EngineUnavailableError(
            f"the TLS files for the Docker daemon cannot be used: {error}", hint="look at DOCKER_CERT_PATH"
        ) from error
    if not files.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
