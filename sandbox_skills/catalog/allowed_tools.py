"""`allowed-tools` as written in the wild: spaces, commas, and both inside parentheses. Pure."""

from __future__ import annotations


def parse_allowed_tools(raw: str | None) -> tuple[str, ...]:
    """Returns the tools in a string separated by spaces or commas; a pattern in parentheses stays whole.

    A parenthesis that is never closed reaches to the end, so that a broken pattern allows nothing by accident.
    """
    tokens: list[str] = []
    start, depth = -1, 0
    for index, char in enumerate(raw or ""):
        if depth == 0 and (char == "," or char.isspace()):
            if start >= 0:
                tokens.append((raw or "")[start:index])
            start = -1
            continue
        start = index if start < 0 else start
        depth = max(0, depth + (char == "(") - (char == ")"))
    if start >= 0:
        tokens.append((raw or "")[start:])
    return tuple(tokens)
