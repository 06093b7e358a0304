"""The runner image's files as bubblewrap's root file system: exported through a container that never runs. Blocking."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any, cast

from sandbox_skills.engines import image
from sandbox_skills.engines.bubblewrap import rootfs
from sandbox_skills.engines.docker_client import translated
from sandbox_skills.engines.docker_config import LABEL_EXPIRES, LABEL_MANAGED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import docker

EXPORT_SECONDS = 600
"""After which `gc` takes the container for abandoned: an export takes seconds."""


def provide(
    client: docker.APIClient, folder: Path, wanted: rootfs.Wanted, *, fresh: bool = False
) -> rootfs.RootFileSystem:
    """Makes sure that `folder` has the files of the image that is meant, which the daemon must have.

    Raises ImageError where it has not, or where the disk fails, and EngineUnavailableError.
    """
    ref = image.resolve(client, wanted.image, wanted.target)
    identity = ref.id if ref.user_image else wanted.name
    return rootfs.make(folder, wanted, identity, lambda root: export(client, ref.id, root), fresh=fresh)


def export(client: docker.APIClient, image_id: str, root: Path) -> None:
    """Unpacks an image into an empty directory. Raises ImageError, EngineError."""
    name = f"sandbox-skills-export-{secrets.token_hex(8)}"
    labels = {LABEL_MANAGED: "1", LABEL_EXPIRES: str(int(time.time()) + EXPORT_SECONDS)}
    api: Any = cast("Any", client)  # its stubs leave these untyped
    with translated("export the runner image"):
        body = {"Image": image_id, "Entrypoint": ["none"], "Labels": labels, "NetworkDisabled": True}
        api.create_container_from_config(body, name=name)
        try:
            rootfs.unpack(_Stream(api.export(name)), root)
        finally:
            api.remove_container(name, force=True, v=True)


class _Stream:
    """Chunks as a file that is read from start to end."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = b""

    def read(self, size: int, /) -> bytes:
        """Returns `size` bytes, fewer only at the end."""
        parts: list[bytes] = []
        while size > 0 and (self._left or self._next()):
            parts.append(self._left[:size])
            self._left = self._left[size:]
            size -= len(parts[-1])
        return b"".join(parts)

    def _next(self) -> bool:
        self._left = next(self._chunks, b"")
        return bool(self._left)
