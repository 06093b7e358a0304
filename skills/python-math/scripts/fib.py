#!/usr/bin/env python3
"""Prints the first N Fibonacci numbers, one a line, starting 0, 1."""

from __future__ import annotations

import argparse
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 1000
"""About 100 KB of digits: more is not reading matter, and floods whoever reads the output."""


def fibonacci() -> Iterator[int]:
    """Yields the sequence without end."""
    a, b = 0, 1
    while True:
        yield a
        a, b = b, a + b


def count(text: str) -> int:
    """Returns how many numbers are asked for; raises ValueError outside 0 to MOST."""
    number = int(text)
    if not 0 <= number <= MOST:
        raise ValueError(text)
    return number


def main() -> None:
    """Reads the arguments and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n", metavar="N", type=count, help=f"how many numbers, 0 to {MOST}")
    for number in islice(fibonacci(), parser.parse_args().n):
        print(number)


if __name__ == "__main__":
    main()
