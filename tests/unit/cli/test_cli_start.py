"""Garbage is collected seldom while a command is imported, and as usual while it works."""

from __future__ import annotations

import gc
import subprocess
import sys

PROGRAM = """
import gc
import sandbox_skills.cli.main as cli
from sandbox_skills.cli.event_loop import run_async
from sandbox_skills.cli.start import main

async def look():
    return gc.get_threshold(), gc.get_freeze_count() > 0

def command():
    before = gc.get_threshold()[0], gc.get_freeze_count()
    print(before, run_async(look()))

cli.main = command
main()
"""


def test_garbage_is_collected_as_usual_once_a_command_works() -> None:
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    usual = gc.get_threshold()
    assert told == f"(200000, 0) ({usual}, True)\n"
