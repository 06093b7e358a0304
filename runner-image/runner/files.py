"""The files that are under way, by the refs of their requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .channel import OUTGOING_HIGH
from .collection import Collection, CollectLimits
from .payloads import Fields, pack
from .protocol import Kind
from .refusals import Refused
from .transfers import Credit, Transfer, Upload, download

if TYPE_CHECKING:
    from collections.abc import Callable

    from .channel import Channel
    from .workspace import Workspace


class Files:
    """Uploads, downloads and collections."""

    def __init__(self, workspace: Workspace, channel: Channel) -> None:
        self._workspace = workspace
        self._channel = channel
        self._uploads: dict[int, Upload] = {}
        self._transfers: dict[int, Transfer] = {}

    def __contains__(self, ref: int) -> bool:
        return ref in self._uploads or ref in self._transfers

    @property
    def ready(self) -> bool:
        """Whether one of those on their way out could go on."""
        return any(not transfer.starved for transfer in self._transfers.values())

    def cancel(self, ref: int) -> bool:
        """Ends what has that ref; returns whether there was anything."""
        upload = self._uploads.pop(ref, None)
        if upload:
            upload.abort()
        return bool(upload or self._transfers.pop(ref, None))

    def abort(self) -> None:
        """Leaves nothing of the uploads behind."""
        for upload in self._uploads.values():
            upload.abort()

    def put(self, ref: int, payload: bytes) -> None:
        """Begins a file on its way in."""
        fields = Fields(payload)
        self._uploads[ref] = Upload(self._workspace, fields.text("path"), fields.count("mode"))

    def chunk(self, ref: int, payload: bytes) -> None:
        """Adds to one."""
        upload = self._uploads.get(ref)
        if not upload:  # refused before: the host hears of it while it still sends
            return
        try:
            upload.write(payload)
        except Refused:
            del self._uploads[ref]
            upload.abort()
            raise

    def chunks_end(self, ref: int, _payload: bytes) -> None:
        """Gives one its name."""
        upload = self._uploads.pop(ref, None)
        if upload:
            upload.finish()
            self._channel.send(Kind.DONE, ref, pack({"size": upload.size}))

    def get(self, ref: int, payload: bytes) -> None:
        """Begins a file on its way out."""
        fields = Fields(payload)
        limit = fields.count("max_bytes")
        credit = Credit()
        frames = download(self._workspace.open_file(fields.text("path")), limit, credit)
        self._transfers[ref] = Transfer(frames, credit)

    def collect(self, ref: int, payload: bytes) -> None:
        """Begins a collection."""
        fields = Fields(payload)
        credit = Credit()
        collection = Collection(self._workspace, fields.texts("patterns"), CollectLimits(fields), credit)
        self._transfers[ref] = Transfer(collection.frames(), credit)

    def credit(self, ref: int, payload: bytes) -> None:
        """Lets one go on."""
        count = Fields(payload).count("bytes")
        transfer = self._transfers.get(ref)
        if transfer:
            transfer.grant(count)

    def pump(self, refuse: Callable[[int, Exception], None]) -> None:
        """Gives each of those on their way out its turn; `refuse` is told what went wrong."""
        for ref, transfer in list(self._transfers.items()):
            if transfer.starved or self._channel.queued > OUTGOING_HIGH:
                continue
            try:
                more = transfer.turn(self._channel, ref)
            except Exception as error:  # noqa: BLE001  no request may end the runner
                refuse(ref, error)
                more = False
            if not more:
                del self._transfers[ref]
