"""A form with files, written to disk while it comes: no more of it is in memory than the piece in hand. Blocking."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from sandbox_skills.daemon.errors import BodyError
from sandbox_skills.install.received import ReceivedFile

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO, Self

    from python_multipart.multipart import MultipartCallbacks

PARTS_HINT = "send a zip as `file`, or each file of a folder as `files[]` with its path as the name"

_ENCODING = "utf-8"


class FormFiles:
    """Takes a form's bytes and keeps its files in the empty directory `folder`, by field and in their order.

    A part without a file name is passed over. To be entered; raises BodyError for what is no such form.
    """

    def __init__(self, boundary: bytes, folder: Path, *, max_parts: int) -> None:
        self.files: dict[str, list[ReceivedFile]] = {}
        self._folder = folder
        self._max_parts = max_parts
        self._parts = 0
        self._ended = False
        self._header = (bytearray(), bytearray())
        self._disposition = b""
        self._file: BinaryIO | None = None
        self._stack = ExitStack()
        self._parser = _parser(boundary, self._callbacks())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def write(self, data: bytes) -> None:
        """Takes the next bytes."""
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise BodyError(f"the form cannot be read: {error}", hint=PARTS_HINT) from error

    def end(self) -> None:
        """Says that no more bytes come."""
        if not self._ended:
            raise BodyError("the form has no end", hint=PARTS_HINT)

    def _callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._part_begin,
            "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_finished,
            "on_part_data": self._part_data,
            "on_part_end": self._stack_closed,
            "on_end": self._end,
        }

    def _part_begin(self) -> None:
        self._parts += 1
        if self._parts > self._max_parts:
            raise BodyError(f"the form has more than {self._max_parts} parts", hint=PARTS_HINT)
        self._disposition = b""

    def _header_end(self) -> None:
        name, value = (bytes(part) for part in self._header)
        for part in self._header:
            part.clear()
        if name.lower() == b"content-disposition":
            self._disposition = value

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        name = options.get(b"filename")
        if name is None:
            return
        path = self._folder / f"part-{self._parts}"
        self._file = self._stack.enter_context(path.open("xb"))
        field = _text(options.get(b"name", b""))
        self.files.setdefault(field, []).append(ReceivedFile(_text(name), path))

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._file is not None:
            self._file.write(data[start:end])

    def _stack_closed(self) -> None:
        self._stack.close()
        self._file = None

    def _end(self) -> None:
        self._ended = True


def boundary_of(content_type: str) -> bytes:
    """Returns what parts a form with files; raises BodyError for a body that is none. Pure."""
    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise BodyError("the body is no form with files", hint=PARTS_HINT)
    return boundary


def _parser(boundary: bytes, callbacks: MultipartCallbacks) -> MultipartParser:
    try:
        return MultipartParser(boundary, callbacks)
    except FormParserError as error:
        raise BodyError(f"the form cannot be read: {error}", hint=PARTS_HINT) from error


def _text(raw: bytes) -> str:
    try:
        return raw.decode(_ENCODING)
    except UnicodeDecodeError as error:
        raise BodyError("a name in the form is not UTF-8", hint=PARTS_HINT) from error
