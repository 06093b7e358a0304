"""`serve` before it serves: what is missing, and an address that others reach while nobody has a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_skills.cli import serve as command
from sandbox_skills.cli.options import GlobalOptions
from sandbox_skills.cli.serve import ServeOptions, serve
from sandbox_skills.daemon.serve import listening
from sandbox_skills.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GlobalOptions:
    monkeypatch.setenv("SANDBOX_SKILLS_DATA_DIR", str(tmp_path / "data"))
    return GlobalOptions(engine="fake")


def test_what_is_not_installed_is_named_with_the_way_to_it(
    options: GlobalOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "NEEDED", ("fastapi", "nothing_of_that_name"))
    with pytest.raises(SettingsError, match="not installed: nothing_of_that_name") as caught:
        serve(options, ServeOptions())
    assert caught.value.hint == "pip install 'sandbox-skills[serve]'"


def test_another_address_is_refused_while_nobody_has_a_key(options: GlobalOptions) -> None:
    with pytest.raises(SettingsError, match=r"nobody has a key yet, and others reach 0\.0\.0\.0") as caught:
        serve(options, ServeOptions(host="0.0.0.0", port=0))
    assert "127.0.0.1" in caught.value.hint


def test_an_address_that_is_taken_is_told(options: GlobalOptions) -> None:
    with listening("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        with pytest.raises(SettingsError, match=f"127.0.0.1:{port} cannot be served") as caught:
            serve(options, ServeOptions(port=port))
    assert "--port" in caught.value.hint
