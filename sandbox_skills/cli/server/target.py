"""Whether a command goes to a daemon, and which options have no meaning there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.errors import CommandError

if TYPE_CHECKING:
    from sandbox_skills.cli.options import GlobalOptions
    from sandbox_skills.client.options import ServerOptions
    from sandbox_skills.settings import Settings


def server_options(options: GlobalOptions, settings: Settings, asked: str | None) -> ServerOptions | None:
    """Returns how the daemon is reached, None where the command stays here.

    Raises CommandError for options that only this machine has: they would be passed over in silence.
    """
    there = settings.server.options(asked)
    if there is None:
        return None
    if options.skills:
        raise CommandError(
            f"--skills names folders of this machine, and {there.url} has its own",
            hint="`sandbox-skills skills upload FOLDER` sends a skill there",
        )
    if options.accept_no_isolation:
        raise CommandError(f"--accept-no-isolation is for this machine, not for {there.url}")
    return there
