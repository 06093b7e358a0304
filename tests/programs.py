"""The programs of the image as every box has them, in a folder that is there while the tests run."""

from __future__ import annotations

import atexit
import tempfile
from pathlib import Path

from sandbox_skills.engines.image_source import read_sources

_FOLDER = tempfile.TemporaryDirectory(prefix="programs-of-sandbox-skills-")
atexit.register(_FOLDER.cleanup)
read_sources("slim").install(Path(_FOLDER.name))

RUNNER = Path(_FOLDER.name) / "runner.py"
RECORDER = RUNNER.with_name("recorder.py")
FORK_SERVER = RUNNER.with_name("fork_server.py")
