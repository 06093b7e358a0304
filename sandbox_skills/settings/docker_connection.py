"""Which Docker Engine is meant: settings, `DOCKER_*` variables and contexts, as docker-py reads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from sandbox_skills.errors import SettingsError
from sandbox_skills.settings.environment import process_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from docker.context import Context
    from docker.tls import TLSConfig

    from sandbox_skills.engines.docker_client import DockerConnection, TlsFiles
    from sandbox_skills.settings.model import DockerSettings


def docker_connection(docker: DockerSettings, environ: Mapping[str, str] | None = None) -> DockerConnection:
    """Returns the Docker Engine that the settings, `DOCKER_*` variables or the current context name.

    Contexts are read by docker-py, from the `DOCKER_CONFIG` of this process. Raises SettingsError for a
    context that does not exist or certificates that are not there.
    """
    # docker-py takes 80 ms to import; a command that needs no Docker should not pay that.
    from docker.context import ContextAPI  # noqa: PLC0415
    from docker.utils import kwargs_from_env  # noqa: PLC0415

    from sandbox_skills.engines.docker_client import DEFAULT_HOST, DockerConnection  # noqa: PLC0415

    variables = docker_variables(docker, process_environment(environ))
    try:
        tls = kwargs_from_env(variables).get("tls")
        if host := variables["DOCKER_HOST"]:
            return DockerConnection(host, _tls_files(tls))
        context = cast("Context | None", ContextAPI.get_context(variables.get("DOCKER_CONTEXT")))
    except Exception as error:  # docker-py raises a bare Exception for a broken context file
        raise SettingsError(f"the Docker connection is not usable: {error}") from error
    if context is None:
        raise SettingsError("the chosen Docker context does not exist", hint="docker context ls")
    return DockerConnection(context.Host or DEFAULT_HOST, _tls_files(tls or context.TLSConfig))


def docker_variables(docker: DockerSettings, variables: Mapping[str, str]) -> dict[str, str]:
    """Returns `DOCKER_*` with the settings laid over. A context in the settings beats a host in the environment."""
    host = docker.host or ("" if docker.context else variables.get("DOCKER_HOST", ""))
    verify = variables.get("DOCKER_TLS_VERIFY") if docker.tls_verify is None else "1" * docker.tls_verify
    chosen = {
        "DOCKER_CONTEXT": docker.context or variables.get("DOCKER_CONTEXT"),
        "DOCKER_CERT_PATH": str(docker.cert_path) if docker.cert_path else variables.get("DOCKER_CERT_PATH"),
        "DOCKER_TLS_VERIFY": verify,
    }
    # The host is always there, if empty: docker-py takes an empty mapping for its own environment.
    return {"DOCKER_HOST": host} | {name: value for name, value in chosen.items() if value}


def _tls_files(tls: TLSConfig | None) -> TlsFiles | None:
    from sandbox_skills.engines.docker_client import TlsFiles  # noqa: PLC0415

    if tls is None:
        return None
    cert, key = (Path(name) for name in tls.cert) if tls.cert else (None, None)
    return TlsFiles(Path(tls.ca_cert) if tls.ca_cert else None, cert, key, verify=bool(tls.verify))
