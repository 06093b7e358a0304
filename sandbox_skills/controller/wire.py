"""What a wire is: how a request is spelled, and how its answer is read, whole or as it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.controller.events import ModelDelta
    from sandbox_skills.controller.request import ModelRequest
    from sandbox_skills.controller.turn import Answer


class Accumulator(Protocol):
    """One answer put together from its stream. Unknown events are passed over, whatever they are."""

    @property
    def started(self) -> bool:
        """Whether anything of the answer itself has come."""
        ...

    @property
    def closing(self) -> bool:
        """Whether all but figures has come, for which nobody should wait long."""
        ...

    @property
    def answer(self) -> Answer | None:
        """The answer, once it is whole: nothing that comes after it counts."""
        ...

    def feed(self, event: JsonObject) -> ModelDelta | None:
        """Takes one event; returns what of it people may see. Raises ModelError for one that tells of a failure."""
        ...

    def end(self) -> Answer:
        """Says that nothing more comes; raises StreamTruncatedError where something is missing."""
        ...


class Wire(Protocol):
    """One API. Pure."""

    @property
    def path(self) -> str:
        """Where below the base address requests go."""
        ...

    def body(self, request: ModelRequest, *, stream: bool) -> JsonObject:
        """Returns the body of a request; nothing in it is null."""
        ...

    def answer(self, body: JsonObject) -> Answer:
        """Reads a whole answer; raises ModelError."""
        ...

    def accumulator(self) -> Accumulator:
        """Returns what reads one streamed answer."""
        ...
