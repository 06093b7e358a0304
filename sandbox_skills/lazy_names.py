"""Names of a package that lie in its modules and are imported when first used: importing the package costs nothing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def lazy_names(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """Returns a `__getattr__` for the package, whose modules (the keys) hold these names.

    Type checkers read the same names from imports under TYPE_CHECKING; a test compares the two.
    """
    home_of = {name: home for home, those in names.items() for name in those}

    def getattribute(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home_of[name]}"), name)

    return getattribute
