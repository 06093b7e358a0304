"""Which containers of ours nobody owns any more. Blocking calls, and a decision that no clock can be set to change.

A container is its process's, for as long as that lives, and until its time is over.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sandbox_skills.engines.docker_client import translated, understood
from sandbox_skills.engines.docker_config import LABEL_EXPIRES, LABEL_INSTANCE, LABEL_MANAGED
from sandbox_skills.errors import EngineError
from sandbox_skills.spec import SandboxId

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import docker

MAX_TIME_DIGITS = 12
"""Of Unix time in seconds, with 20,000 years to spare: anyone may write a label, and a long number costs time."""

MEASURED_BOXES = 8
"""Of which the memory is looked at: each takes the daemon some milliseconds, and they are much alike."""

PS_ARGUMENTS = "-eo pid,etimes"
"""Asks the daemon's `ps` how long each process has lived, which it knows by its host's uptime."""


@dataclass(frozen=True, slots=True)
class Owned:
    """A container that some instance of this package made; its times are Unix time, None where it does not say."""

    id: SandboxId
    instance: str
    expires: int | None = None
    created: int | None = None
    running: bool = False


def owned(client: docker.APIClient) -> list[Owned]:
    """Returns every container that carries our label, whoever made it and whether it runs."""
    with translated("list containers"):
        rows = cast("Any", client).containers(all=True, filters={"label": f"{LABEL_MANAGED}=1"})
    with understood("a list of containers"):
        return [_owned(row) for row in rows]


def is_left(client: docker.APIClient, box: Owned, dead: Collection[str], now: float) -> bool:
    """Tells whether nobody owns a container, or its time is over. `dead` are instances, `now` is Unix time.

    A clock that jumped ends nothing that runs: that tells how long it really has.
    """
    if box.instance in dead:
        return True
    if box.expires is None or box.expires >= now:
        return False
    age = _age(client, box.id) if box.running else None
    return age is None or age >= box.expires - (box.created or 0)


def average_memory(client: docker.APIClient, boxes: Collection[Owned]) -> int | None:
    """Returns the bytes that a box which runs takes, by its control group; None where none runs, or no daemon tells."""
    taken: list[int] = []
    for box in [box for box in boxes if box.running][:MEASURED_BOXES]:
        with suppress(EngineError), translated("look at a container"), understood("what a container takes"):
            told = cast("Any", client).stats(box.id, stream=False, one_shot=True)
            taken.append(int(told["memory_stats"]["usage"]))
    return sum(taken) // len(taken) if taken else None


def _owned(row: Mapping[str, Any]) -> Owned:
    # A container that is being removed may have lost its name; its id names it as well.
    names: list[str] = row.get("Names") or [row["Id"]]
    labels: dict[str, str] = row.get("Labels") or {}
    created = row.get("Created")
    return Owned(
        id=SandboxId(names[0].lstrip("/")),
        instance=labels.get(LABEL_INSTANCE, ""),
        expires=_number(labels.get(LABEL_EXPIRES, "")),
        created=created if isinstance(created, int) else None,
        running=row.get("State") in {"running", "paused"},
    )


def _age(client: docker.APIClient, box: SandboxId) -> float | None:
    """Returns the seconds that the oldest process of a container has lived; None where the daemon does not tell."""
    try:
        with translated("ask what runs in a container"), understood("a list of processes"):
            rows = cast("Any", client).top(box, ps_args=PS_ARGUMENTS)["Processes"]
            return max((age for row in rows if (age := _number(row[-1])) is not None), default=None)
    except EngineError:
        return None


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= MAX_TIME_DIGITS else None
