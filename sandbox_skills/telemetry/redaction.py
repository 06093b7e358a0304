"""Secret values taken out of what is shown: whole texts, streams in any pieces, results of tools, errors.

What a hostile program encodes by itself is not found: a secret is given only to a skill that is trusted. What is found
are accidents, in every form of `secret_forms`.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING, TypeVar, cast

from sandbox_skills.errors import SandboxSkillsError
from sandbox_skills.telemetry.redact import REDACTED
from sandbox_skills.telemetry.secret_forms import forms_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from contextlib import AbstractContextManager

T = TypeVar("T")

_MARK = REDACTED.encode()

_AS_THEY_ARE = nullcontext()
"""For errors that hold no secret: every run enters two of these."""

_HEAD = 8
"""Bytes by which the beginning of a form is looked for; no form is shorter."""


class Redaction:
    """Takes the values of secrets out of what is shown. Immutable; false where there is nothing to take out."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = frozenset(values)
        self._forms = forms_of(self._values)
        self._heads = frozenset(form[:_HEAD] for form in self._forms)
        self._longest = len(self._forms[0]) if self._forms else 0

    def __bool__(self) -> bool:
        return bool(self._forms)

    def adding(self, values: Iterable[str]) -> Redaction:
        """Returns one that takes out these values as well."""
        more = self._values.union(values)
        return self if more == self._values else Redaction(more)

    def data(self, data: bytes, *, cut: bool = False) -> bytes:
        """Returns the bytes without secrets; where they were `cut`, without the part of one at their end either."""
        if not self._forms:
            return data
        stream = StreamRedactor(self)
        shown = stream.feed(data)
        return shown if cut else shown + stream.end()

    def text(self, text: str, *, cut: bool = False) -> str:
        """Returns the text without secrets; `cut` as in `data`."""
        if not self._forms or not text:
            return text
        shown = self.data(text.encode(errors="surrogatepass"), cut=cut)
        return shown.decode(errors="surrogatepass")

    def value(self, value: T) -> T:
        """Returns a JSON value without secrets, names of members included."""
        return cast("T", self._plain(value)) if self._forms else value

    def error(self, error: SandboxSkillsError) -> None:
        """Takes secrets out of what an error tells; its kind and code stay."""
        error.message, error.hint = self.text(error.message), self.text(error.hint)
        error.args = tuple(self._plain(one) for one in error.args)

    def of_errors(self) -> AbstractContextManager[None]:
        """Takes secrets out of an error that leaves the block."""
        return self._of_errors() if self._forms else _AS_THEY_ARE

    @contextmanager
    def _of_errors(self) -> Generator[None]:
        try:
            yield
        except SandboxSkillsError as error:
            self.error(error)
            raise

    def holds(self, text: str) -> bool:
        """Tells whether a text holds a secret."""
        return self.text(text) != text

    def _plain(self, value: object) -> object:
        match value:
            case str():
                return self.text(value)
            case dict():
                members = cast("dict[object, object]", value)
                return {self._plain(name): self._plain(one) for name, one in members.items()}
            case list() | tuple():
                return [self._plain(one) for one in cast("Iterable[object]", value)]
            case _:
                return value

    def matches(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yields where secrets stand, from the left, of several that begin at one place the longest."""
        ahead = [(at, -len(form), form) for form in self._forms if (at := data.find(form)) >= 0]
        heapify(ahead)
        position = 0
        while ahead:
            start, length, form = ahead[0]
            if start >= position:
                position = start - length
                yield start, position
            at = data.find(form, position)
            if at >= 0:
                heapreplace(ahead, (at, length, form))
            else:
                heappop(ahead)

    def unfinished(self, data: bytes, start: int) -> int:
        """Returns where, at `start` or behind it, a secret may have begun that is not all there; else the end."""
        first = max(start, len(data) - self._longest + 1)
        places = {len(data) - count for count in range(1, _HEAD) if len(data) - count >= first}
        for head in self._heads:
            at = data.find(head, first)
            while at >= 0:
                places.add(at)
                at = data.find(head, at + 1)
        return next((at for at in sorted(places) if self._begins(data[at:])), len(data))

    def _begins(self, tail: bytes) -> bool:
        return any(len(form) > len(tail) and form.startswith(tail) for form in self._forms)


NOTHING = Redaction()
"""Takes out nothing."""


class StreamRedactor:
    """Takes secrets out of a stream that comes in pieces, as if it had come in one.

    What may be the beginning of a secret is held until it is known, which is less than the longest form has.
    """

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Returns what can be shown after the next piece, perhaps nothing."""
        data = self._held + data
        shown: list[bytes] = []
        position, unfinished = 0, self._redaction.unfinished(data, 0)
        for start, end in self._redaction.matches(data):
            # One that is whole gives way to one that began before it, or at the same place and may be longer.
            if start >= unfinished:
                break
            shown += (data[position:start], _MARK)
            position = end
            if position > unfinished:
                unfinished = self._redaction.unfinished(data, position)
        shown.append(data[position:unfinished])
        self._held = data[unfinished:]
        return b"".join(shown)

    def end(self) -> bytes:
        """Returns what was held, of which nothing more comes."""
        data, self._held = self._held, b""
        shown: list[bytes] = []
        position = 0
        for start, end in self._redaction.matches(data):
            shown += (data[position:start], _MARK)
            position = end
        return b"".join((*shown, data[position:]))
