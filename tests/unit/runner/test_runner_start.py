"""What a box pays for before its first word: the modules that the runner loads."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.programs import RUNNER
from tests.unit.runner.conftest import SYSTEM_PYTHON

LOADED = """
import sys
before = set(sys.modules)
source = open(sys.argv[1], encoding="utf-8").read()
exec(compile(source, sys.argv[1], "exec"), {"__name__": "runner", "__file__": sys.argv[1]})
fresh = {name: module for name, module in sys.modules.items() if name not in before}
written = [name for name, module in fresh.items() if getattr(module, "__file__", "x.so").endswith(".py")]
import json
print(json.dumps(sorted(written)))
"""

NEEDED = {"__future__", "_collections_abc", "genericpath", "os", "os.path", "posixpath", "stat"}
"""What is written in Python of what `os` stands on: each further file costs every start up to two milliseconds."""


@pytest.mark.parametrize("python", [sys.executable, SYSTEM_PYTHON])
def test_the_runner_loads_os_and_nothing_else_that_is_written_in_python(python: str) -> None:
    done = subprocess.run(
        [python, "-I", "-S", "-B", "-c", LOADED, str(RUNNER)], capture_output=True, text=True, check=True
    )
    assert set(json.loads(done.stdout)) <= NEEDED
