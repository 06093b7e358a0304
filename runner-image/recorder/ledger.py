"""What is told of a run."""

from __future__ import annotations

ROWS = 200
"""Different things of one kind that are told, the first ones; what follows is counted."""

CHARACTERS = 12 * 1024
"""What the texts of one kind have together: five kinds as JSON are then below the longest reply."""

TEXT = 400
"""Longest text of one thing."""

KINDS = ("connect", "lookup", "program", "read", "write")


class Ledger:
    """What was seen, each different thing once with a count: the first ones of each kind, and how many more."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[tuple[str, str], int]] = {kind: {} for kind in KINDS}
        self._room: dict[str, int] = dict.fromkeys(KINDS, CHARACTERS)
        self._lost: dict[str, int] = dict.fromkeys(KINDS, 0)

    def add(self, kind: str, what: str, detail: str = "") -> None:
        """Counts one; an empty `what` is something that could not be read."""
        rows, row = self._rows[kind], (printable(what), printable(detail))
        if row in rows:
            rows[row] += 1
            return
        size = len("".join(row).encode("ascii", "backslashreplace"))
        if len(rows) >= ROWS or size > self._room[kind]:
            self._lost[kind] += 1
            return
        rows[row] = 1
        self._room[kind] -= size

    def told(self) -> dict[str, object]:
        """Returns all of it, as ENDED has it."""
        events = [[kind, *row, count] for kind, rows in self._rows.items() for row, count in rows.items()]
        return {"events": events, "lost": {kind: count for kind, count in self._lost.items() if count}}


def printable(text: str) -> str:
    """Returns a text that no terminal takes for a command, and that JSON makes at most twice as long as ASCII does."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[:TEXT]
    )[:TEXT]
