"""The socket of the server: what keeps it from being had is told, and nothing else is told as that."""

from __future__ import annotations

import errno

import pytest

from sandbox_skills.daemon.serve import listening
from sandbox_skills.errors import SettingsError


def test_an_address_that_is_taken_is_told() -> None:
    with listening("127.0.0.1", 0) as first, pytest.raises(SettingsError, match="cannot be served"):
        listening("127.0.0.1", first.getsockname()[1]).__enter__()


@pytest.mark.parametrize("host", ["no-such-host.invalid", "192.0.2.1"])
def test_an_address_that_is_not_ours_is_told(host: str) -> None:
    with pytest.raises(SettingsError, match="cannot be served"), listening(host, 0):
        pass


def test_what_fails_while_it_listens_is_no_fault_of_the_address() -> None:
    with pytest.raises(OSError, match="Read-only"), listening("127.0.0.1", 0):
        raise OSError(errno.EROFS, "Read-only file system")
