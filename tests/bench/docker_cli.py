"""What a user types: the commands of Docker's own client, each a process, on the image and the engine of the bench."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from tests.bench.report import Row
from tests.bench.scenarios import timed
from tests.docker_host import connection

if TYPE_CHECKING:
    from sandbox_skills.engines.docker_client import TlsFiles

MISSING = "no program `docker` is on the path"


def exec_true(container: str) -> float | None:
    """Returns the milliseconds of `true` in a container that runs; None where there is no client."""
    return _took("exec", container, "true")


def run_true(image: str) -> float | None:
    """Returns the milliseconds of `true` in a container of its own; None where there is no client."""
    return _took("run", "--rm", "--network", "none", "--entrypoint", "true", image)


def _took(*arguments: str) -> float | None:
    program = shutil.which("docker")
    if program is None:
        return None
    engine = connection()
    argv = [program, "--host", engine.host, *_tls(engine.tls), *arguments]
    return timed(lambda: subprocess.run(argv, check=True))


def _tls(files: TlsFiles | None) -> list[str]:
    if files is None:
        return []
    named = {"--tlscacert": files.ca, "--tlscert": files.cert, "--tlskey": files.key}
    given = [word for option, path in named.items() if path for word in (option, str(path))]
    return ["--tlsverify" if files.verify else "--tls", *given]


def row(name: str, samples: list[float | None]) -> Row:
    """Returns the row of such commands, which says why where there are no samples."""
    taken = tuple(sample for sample in samples if sample is not None)
    return Row(name, taken, missing="" if taken else MISSING)
