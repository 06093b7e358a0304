"""Where tests have temporary files: what is left behind is looked for there, and others on this host have theirs."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.conftest import Program

WHERE = "import tempfile; print(tempfile.gettempdir())"


def test_this_run_and_its_programs_have_a_folder_of_their_own(
    temporary: Path, program: Program, tmp_path_factory: pytest.TempPathFactory
) -> None:
    inherited = subprocess.run([sys.executable, "-c", WHERE], capture_output=True, text=True, check=True)
    given = subprocess.run(
        [sys.executable, "-c", WHERE], env=program.environ(), capture_output=True, text=True, check=True
    )
    assert {tempfile.gettempdir(), inherited.stdout.strip(), given.stdout.strip()} == {str(temporary)}
    assert not tmp_path_factory.getbasetemp().is_relative_to(temporary), "pytest keeps its own"
    assert temporary.stat().st_mode & 0o7777 == 0o1777
