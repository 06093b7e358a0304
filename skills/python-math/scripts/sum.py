#!/usr/bin/env python3
"""Prints the exact sum of decimal numbers: 0.1 and 0.2 are 0.3."""

from __future__ import annotations

import argparse
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation

DIGITS = 100
"""More than any amount of money or measurement has; a longer sum is refused, not rounded."""


def number(text: str) -> Decimal:
    """Returns a finite decimal; raises ValueError for anything else."""
    try:
        value = Decimal(text)
    except InvalidOperation as error:
        raise ValueError(text) from error
    if not value.is_finite():
        raise ValueError(text)
    return value


def exact_sum(values: list[Decimal]) -> Decimal:
    """Returns the sum; raises DecimalException where it has more than DIGITS digits."""
    context = Context(prec=DIGITS, traps=[Inexact])
    total = Decimal(0)
    for value in values:
        total = context.add(total, value)
    return total


def main() -> None:
    """Reads the arguments and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", metavar="NUMBER", type=number, nargs="+")
    try:
        print(exact_sum(parser.parse_args().numbers))
    except DecimalException:
        parser.error(f"the sum has more than {DIGITS} digits")


if __name__ == "__main__":
    main()
