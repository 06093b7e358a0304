"""Files that travel with the package: an installed wheel has them in `_data`, a checkout beside the package."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def bundled(name: str) -> Path:
    """Returns where `runner-image`, `config` or `skills`, or a path below one, lies. It need not exist."""
    installed = _PACKAGE / "_data"
    return (installed if installed.is_dir() else _PACKAGE.parent) / name
