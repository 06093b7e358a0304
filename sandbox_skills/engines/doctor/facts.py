"""What a Docker daemon said of itself, read without belief. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

LOOPBACK = re.compile(r"localhost|127\.\d+\.\d+\.\d+|::1")

TYPES: Mapping[str, type] = {
    "Architecture": str,
    "CgroupDriver": str,
    "CgroupVersion": str,
    "DefaultRuntime": str,
    "DockerRootDir": str,
    "Driver": str,
    "KernelVersion": str,
    "OSType": str,
    "OperatingSystem": str,
    "Runtimes": dict,
    "SecurityOptions": list,
    "ServerVersion": str,
    "SystemTime": str,
    "ApiVersion": str,
    "Components": list,
}
"""What is read of an answer, and as what. A value of another type is taken for missing."""


@dataclass(frozen=True, slots=True)
class Daemon:
    """A daemon's `info` and `version` (see `known`), the address it was asked at, and this host's kernel."""

    info: Mapping[str, Any]
    version: Mapping[str, Any] = field(default_factory=dict[str, Any])
    address: str = "unix:///var/run/docker.sock"
    tls: bool = False
    kernel: str = ""

    @property
    def podman(self) -> bool:
        """Whether it is Podman behind Docker's interface."""
        components: list[object] = self.version.get("Components", [])
        return any(known(part).get("Name") == "Podman Engine" for part in components)

    @property
    def desktop(self) -> bool:
        """Whether it is Docker Desktop, which keeps its daemon in a virtual machine."""
        return self.text("OperatingSystem") == "Docker Desktop"

    @property
    def rootless(self) -> bool:
        """Whether the daemon itself runs without root."""
        return self.security("rootless") is not None

    @property
    def remote(self) -> bool:
        """Whether the address is another host's, as far as it shows."""
        url = urlsplit(self.address)
        return url.scheme != "unix" and not LOOPBACK.fullmatch(url.hostname or "")

    @property
    def same_kernel(self) -> bool:
        """Whether the daemon runs on this host's kernel, so that its paths are most likely ours."""
        return not self.remote and self.text("KernelVersion", self.kernel) == self.kernel

    def text(self, name: str, missing: str = "unknown") -> str:
        """Returns a text of `info`."""
        return str(self.info.get(name) or missing)

    def security(self, name: str) -> str | None:
        """Returns what SecurityOptions say of `name`: its profile, empty without one, None where not named."""
        for option in self.info.get("SecurityOptions", ()):
            # Each reads like `name=seccomp,profile=builtin`.
            first, _, rest = str(option).partition(",")
            if first == f"name={name}":
                return rest.removeprefix("profile=")
        return None


def known(answer: object) -> dict[str, Any]:
    """Returns an answer of a daemon without what is not of the type that the Engine API documents."""
    if not isinstance(answer, dict):
        return {}
    fields = cast("dict[str, object]", answer)
    return {name: value for name, value in fields.items() if isinstance(value, TYPES.get(name, object))}
