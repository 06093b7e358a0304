"""The section `server`: which daemon commands go to, and with which key."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sandbox_skills.client.options import ServerOptions
from sandbox_skills.errors import SettingsError
from sandbox_skills.outgoing.address import same_origin
from sandbox_skills.settings.section import Section

if TYPE_CHECKING:
    from sandbox_skills.settings.kinds import Seconds, SecretStr

_SERVER = ServerOptions()


class ServerSettings(Section):
    """As `client.ServerOptions`; no `url` is this machine, without a daemon. The key is for the host of `url` alone."""

    url: str | None = None
    api_key: SecretStr | None = None
    proxy: str | None = None
    connect_seconds: Seconds = _SERVER.connect_seconds
    idle_seconds: Seconds = _SERVER.idle_seconds
    retry_seconds: Seconds = _SERVER.retry.seconds

    def options(self, asked: str | None = None) -> ServerOptions | None:
        """Returns how the daemon is reached that a command goes to, None for none.

        `asked` is the command line's own word: an address, "" for this machine, None for `url`. Raises SettingsError
        for another host than the key is for.
        """
        url = self.url if asked is None else asked
        if not url:
            return None
        key = self.api_key.get_secret_value() if self.api_key is not None else ""
        if key and self.url and not same_origin(self.url, url):
            raise SettingsError(
                f"server.api_key is for {self.url}, and is not sent to {url}",
                hint="name both in one place: SANDBOX_SKILLS_SERVER__URL and SANDBOX_SKILLS_SERVER__API_KEY",
            )
        return ServerOptions(
            url=url,
            api_key=key,
            connect_seconds=self.connect_seconds,
            idle_seconds=self.idle_seconds,
            retry=replace(_SERVER.retry, seconds=self.retry_seconds),
            proxy=self.proxy,
        )
