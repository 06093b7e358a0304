"""The start of the server, and of each of its forks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .endings import leave, outcome
from .server import serve

if TYPE_CHECKING:
    from typing import Never


def main() -> Never:
    """Serves; in a fork runs the program."""
    order = serve(0)
    leave(outcome(order.program()), order.known)


if __name__ == "__main__":
    main()
