"""What `--env` hands on is on no process's command line, but for what the user wrote on their own."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Program

SECRET = "canary-secret-8d1f7e"

ENGINES = [
    pytest.param("docker", marks=pytest.mark.docker),
    pytest.param("bubblewrap", marks=[pytest.mark.bubblewrap, pytest.mark.root]),
]


def saying_it() -> set[str]:
    """The processes of the host that have the value on their command line."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if SECRET.encode() in path.read_bytes():
                found.add(path.parent.name)
    return found


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("given", "told"), [("TOLD", False), (f"TOLD={SECRET}", True)], ids=["NAME", "K=V"])
def test_a_name_tells_nothing_and_a_value_stands_in_the_users_own_line_alone(
    engine: str, given: str, program: Program, request: pytest.FixtureRequest, *, told: bool
) -> None:
    trees = program.data_dir / "rootfs"
    if engine == "bubblewrap" and not trees.exists():
        trees.symlink_to(request.getfixturevalue("root_file_systems"))
    ask = ("--", "sh", "-c", "sleep 1.5; test -n $TOLD")
    process = program.start(
        "run", "python-math", "--engine", engine, "--env", given, *ask, environ={"TOLD": SECRET}
    )
    seen: set[str] = set()
    while process.poll() is None:
        seen |= saying_it()
        time.sleep(0.05)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert seen == ({str(process.pid)} if told else set())
