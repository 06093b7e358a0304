"""rich, as this program uses it."""

from __future__ import annotations

from rich.console import Console

from sandbox_skills.cli.streams import OutputClosedError


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise OutputClosedError


def console(*, stderr: bool) -> Console:
    """Returns a stream that shows text as it is: nothing in it is markup, an emoji's name or worth a colour."""
    return _Console(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=True)
