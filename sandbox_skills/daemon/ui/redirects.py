"""Where a browser is sent after signing in: a page of the dashboard and nowhere else. Pure."""

from __future__ import annotations

import re

_INSIDE = re.compile(r"/(?:[A-Za-z0-9._~%@:+-]+(?:/[A-Za-z0-9._~%@:+-]+)*/?)?(?:\?[A-Za-z0-9._~%@:+&=,-]*)?")
"""A path below the dashboard and a query. No empty parts: `//host` is another host to a browser."""

MAX_LENGTH = 2000


def inside(target: str) -> str:
    """Returns `target`, a path from the dashboard's root, or its first page where it leads anywhere else."""
    if len(target) > MAX_LENGTH or not _INSIDE.fullmatch(target):
        return "/"
    path = target.partition("?")[0]
    dots = any(part.replace("%2e", ".").replace("%2E", ".") in {".", ".."} for part in path.split("/"))
    return "/" if dots else target
