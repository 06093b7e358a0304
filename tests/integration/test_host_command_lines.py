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


def saying_it() -> set[bytes]:
    """The command lines of the host's processes that have the value in them."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if SECRET.encode() in (line := path.read_bytes()):
                found.add(line)
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
    own = b""
    seen: set[bytes] = set()
    while process.poll() is None:
        own = own or Path(f"/proc/{process.pid}/cmdline").read_bytes()  # empty until it is the program
        seen |= saying_it()
        time.sleep(0.05)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    # A process that it starts has its line as well, until that is the program that it is to be.
    assert seen == ({own} if told else set())
