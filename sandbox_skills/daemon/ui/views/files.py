"""Files of a run and artifacts as pages show them. Pure: what is known of a file in, what is shown of it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from sandbox_skills.daemon.ui.views.formatting import size
from sandbox_skills.daemon.ui.views.log_text import page_line, page_text
from sandbox_skills.daemon.ui.views.preview import PREVIEW_BYTES, Preview, Table, preview_of, table_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from sandbox_skills.artifacts import Artifact

NOT_KEPT = "It is no text, and it was not kept: ask for save_as_artifacts to see and download it."
NO_PREVIEW = "It is no text and no picture: download it to look at it."
EMPTY = "It is empty."


@dataclass(frozen=True, slots=True)
class FileView:
    """One file. Of `address`, `text` and `table` the one is there that `preview` needs; else `why_not` says why."""

    name: str
    mime_type: str
    size: str
    preview: Preview
    address: str = ""
    download: str = ""
    text: str = ""
    table: Table | None = None
    cut: bool = False
    why_not: str = ""


def artifact_path(name: str, version: int, part: str = "") -> str:
    """Returns where the dashboard has an artifact; `part` is `/content` or `/download`, else its page.

    The name stands in the query: in a path, a browser would take some names for steps.
    """
    return f"/artifact{part}?{urlencode({'name': name, 'version': version})}"


def run_files(
    result: Mapping[str, Any], artifacts: Sequence[Artifact], *, prefix: str, base: str
) -> tuple[FileView, ...]:
    """Returns the files of a result; `artifacts` are those of its `artifact_files` that are still there.

    `prefix` is what the request put before their names.
    """
    kept = {one.name: one for one in artifacts}
    outputs = [
        _output_view(file, kept.pop(f"{prefix}{file.get('name', '')}", None), base)
        for file in _outputs(result)
    ]
    return (*outputs, *(artifact_view(one, None, base=base) for one in kept.values()))


def _outputs(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed: list[Mapping[str, Any]] = [*(result.get("output_files") or ())]
    primary = result.get("primary_output")
    if primary is not None and primary not in listed:
        listed.insert(0, primary)
    return listed


def _output_view(file: Mapping[str, Any], artifact: Artifact | None, base: str) -> FileView:
    text = str(file.get("content", ""))
    if artifact is not None:
        return artifact_view(artifact, text or None, base=base)
    mime_type, count = str(file.get("mime_type", "")), int(file.get("size_bytes", 0))
    view = FileView(page_line(str(file.get("name", ""))), page_line(mime_type), size(count), Preview.NONE)
    if not text:
        return _why_not(view, NOT_KEPT if count else EMPTY)
    return _with_text(view, text, mime_type, cut=bool(file.get("truncated")))


def artifact_view(artifact: Artifact, text: str | None, *, base: str) -> FileView:
    """Returns an artifact as shown; `text` is its beginning where that is known and it is text."""
    preview = preview_of(artifact.mime_type, artifact.size)
    view = FileView(
        page_line(artifact.name),
        page_line(artifact.mime_type),
        size(artifact.size),
        preview,
        address=base + artifact_path(artifact.name, artifact.version, "/content"),
        download=base + artifact_path(artifact.name, artifact.version, "/download"),
    )
    if preview in {Preview.PICTURE, Preview.FRAME}:
        return view
    if text is None or not artifact.size:
        return _why_not(view, NO_PREVIEW if artifact.size else EMPTY)
    return _with_text(view, text, artifact.mime_type, cut=len(text.encode(errors="replace")) < artifact.size)


def _with_text(view: FileView, text: str, mime_type: str, *, cut: bool) -> FileView:
    shown = text[:PREVIEW_BYTES]
    is_table = preview_of(mime_type, 0) is Preview.TABLE
    table = table_of(shown, tabs="tab-separated" in mime_type) if is_table else None
    return FileView(
        view.name,
        view.mime_type,
        view.size,
        Preview.TEXT if table is None else Preview.TABLE,
        download=view.download,
        text="" if table is not None else page_text(shown),
        table=table,
        cut=cut or len(shown) < len(text),
    )


def _why_not(view: FileView, why: str) -> FileView:
    return FileView(view.name, view.mime_type, view.size, Preview.NONE, download=view.download, why_not=why)
