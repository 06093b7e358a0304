"""What the runner is started with."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Options:
    """Where the box has its directories, and the socket to speak over, if it was given one."""

    def __init__(self, arguments: Sequence[str]) -> None:
        values = {"--workspace": "/workspace", "--skills": "/skills", "--channel": ""}
        for name, value in zip(arguments[::2], arguments[1::2], strict=False):
            if name not in values:
                raise SystemExit(f"runner: unknown option {name}")
            values[name] = value
        if len(arguments) % 2:
            raise SystemExit(f"runner: {arguments[-1]} needs a value")
        self.workspace = os.path.abspath(values["--workspace"])
        self.skills = os.path.abspath(values["--skills"])
        self.channel = values["--channel"]
