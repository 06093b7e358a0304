"""What the first bytes of a binary file prove about its type. Pure.

The libraries that do this were tried: `filetype` takes "BMW" for a bitmap, `puremagic` (as far as it supports
Python 3.11) every zip for a Word document. A short table of certain signatures errs less.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

OOXML = "application/vnd.openxmlformats-officedocument."
DOCX = OOXML + "wordprocessingml.document"
XLSX = OOXML + "spreadsheetml.sheet"
PPTX = OOXML + "presentationml.presentation"

_SIGNATURES: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), media_type)
    for pattern, media_type in (
        (rb"\x89PNG\r\n\x1a\n", "image/png"),
        (rb"\xff\xd8\xff", "image/jpeg"),
        (rb"GIF8[79]a", "image/gif"),
        (rb"RIFF....WEBP", "image/webp"),
        (rb"BM.{4}\0\0\0\0", "image/bmp"),
        (rb"II\*\0|MM\0\*", "image/tiff"),
        (rb"\x00\x00\x01\x00[^\x00]", "image/x-icon"),
        (rb"....ftypavi[fs]", "image/avif"),
        (rb"....ftyp(?:hei[cx]|mif1)", "image/heic"),
        (rb"....ftypM4A ", "audio/mp4"),
        (rb"....ftypqt  ", "video/quicktime"),
        (rb"....ftyp", "video/mp4"),
        (rb"\x1aE\xdf\xa3.{0,60}webm", "video/webm"),
        (rb"\x1aE\xdf\xa3", "video/x-matroska"),
        (rb"RIFF....WAVE", "audio/wav"),
        (rb"RIFF....AVI ", "video/x-msvideo"),
        (rb"ID3[\x02-\x04]\x00|\xff[\xf2\xf3\xfa\xfb]", "audio/mpeg"),
        (rb"fLaC", "audio/flac"),
        (rb"OggS", "audio/ogg"),
        (rb"%PDF-", "application/pdf"),
        (rb"%!PS", "application/postscript"),
        (rb"\{\\rtf", "application/rtf"),
        (rb"\x1f\x8b\x08", "application/gzip"),
        (rb"\xfd7zXZ\0", "application/x-xz"),
        (rb"BZh[1-9]1AY&SY", "application/x-bzip2"),
        (rb"\x28\xb5\x2f\xfd", "application/zstd"),
        (rb"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
        (rb".{257}ustar", "application/x-tar"),
        (rb"SQLite format 3\0", "application/vnd.sqlite3"),
        (rb"PAR1", "application/vnd.apache.parquet"),
        (rb"ARROW1\0\0", "application/vnd.apache.arrow.file"),
        (rb"\x89HDF\r\n\x1a\n", "application/x-hdf5"),
        (rb"\x93NUMPY", "application/x-npy"),
        (rb"wOFF", "font/woff"),
        (rb"wOF2", "font/woff2"),
        (rb"\x00\x01\x00\x00\x00", "font/ttf"),
        (rb"OTTO", "font/otf"),
        (rb"\0asm", "application/wasm"),
        (rb"\x7fELF", "application/x-executable"),
        (rb"MZ.{60}\0\0", "application/vnd.microsoft.portable-executable"),
        (rb"[\xce\xcf]\xfa\xed\xfe", "application/x-mach-binary"),
    )
)
"""The first that matches counts: a container's kinds stand before the container."""

SIGNED_TYPES = frozenset(media_type for _, media_type in _SIGNATURES) | {
    *("application/zip", DOCX, XLSX, PPTX, "application/epub+zip"),
    *("application/vnd.oasis.opendocument.text", "application/vnd.oasis.opendocument.spreadsheet"),
}
"""Types that a file has only where its bytes say so; its name cannot."""

CERTAIN_IN_TEXT = frozenset({"application/pdf", "application/postscript", "application/rtf"})
"""Types with a signature whose files may be text throughout. The other signatures may begin a sentence."""

_ZIP = re.compile(rb"PK(?:\x03\x04|\x05\x06)")
_ZIP_ENTRY = re.compile(rb"PK\x03\x04.{22}(..)..", re.DOTALL)
_OOXML_SUFFIXES = {".docx": DOCX, ".xlsx": XLSX, ".pptx": PPTX}
_OOXML_FOLDERS = {"word": DOCX, "xl": XLSX, "ppt": PPTX}
_OOXML_MARKS = ("[Content_Types].xml", "_rels/", "docProps/")
_OOXML_ENTRIES = (*_OOXML_MARKS, "word/", "xl/", "ppt/")
_DECLARED = re.compile(rb"mimetype(application/(?:epub\+zip|vnd\.oasis\.opendocument\.[a-z]{4,20}))")


def signature_type(head: bytes, suffix: str) -> str | None:
    """Returns the type that the bytes at a file's start prove, None where they prove none.

    `suffix` (`.docx`) helps only where the start of a zip shows an office document, but not all of it.
    """
    if _ZIP.match(head):
        return _zip_type(head, suffix)
    return next((media_type for pattern, media_type in _SIGNATURES if pattern.match(head)), None)


def _zip_type(head: bytes, suffix: str) -> str:
    # EPUB and OpenDocument store their type as the first entry, uncompressed, so that it can be read in place.
    if declared := _DECLARED.match(head, 30):
        return declared[1].decode()
    names = list(_entry_names(head))
    # A zip that has an office document inside shows that one's entries too, but not as its first.
    if not names or not names[0].startswith(_OOXML_ENTRIES):
        return "application/zip"
    named = _OOXML_SUFFIXES.get(suffix)
    kind = next((_OOXML_FOLDERS[top] for name in names if (top := _top(name)) in _OOXML_FOLDERS), named)
    marked = any(name.startswith(_OOXML_MARKS) for name in names)
    return kind if kind and (marked or kind == named) else "application/zip"


def _top(name: str) -> str:
    return name.partition("/")[0]


def _entry_names(head: bytes) -> Iterator[str]:
    for match in _ZIP_ENTRY.finditer(head):
        length = int.from_bytes(match[1], "little")
        yield head[match.end() : match.end() + length].decode(errors="replace")
