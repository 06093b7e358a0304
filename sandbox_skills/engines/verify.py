"""Whether a box holds what its spec demands, seen from inside. Pure.

What is particular to a box is in its HELLO and checked every time. What an attempt must show is probed once for each
image, runtime, daemon start, profile and set of needs. The runner is trusted, yet its report is read as if it were not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.engines.docker_config import GVISOR
from sandbox_skills.engines.verify_table import (
    EVERY_BOX,
    EVERY_PROBE,
    GVISOR_BOX,
    GVISOR_PROBE,
    IDENTITY_PROBE,
    NATIVE_BOX,
    NATIVE_PROBE,
    USER_NAMESPACE_PROBE,
    Demand,
    Lost,
    Row,
    look_up,
    texts_in,
)
from sandbox_skills.errors import GuaranteeError, ImageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sandbox_skills.spec import SandboxSpec

__all__ = ["BUBBLEWRAP", "Lost", "check_box", "check_probe", "image_faults", "refuse", "refuse_probed"]

BUBBLEWRAP = "bubblewrap"
"""What stands for a runtime where a box is bubblewrap's."""


def check_box(facts: object, *, spec: SandboxSpec, uid: int, runtime: str) -> list[Lost]:
    """Returns which of `spec.needs` one box does not hold, from the facts in its HELLO."""
    own = GVISOR_BOX if runtime == GVISOR else NATIVE_BOX
    return _failed((*EVERY_BOX, *own), facts, Demand(spec, uid=uid))


def check_probe(reply: object, *, spec: SandboxSpec, runtime: str, marker: str | None) -> list[Lost]:
    """Returns which of `spec.needs` the probe could break; `marker` is the digest of the store's marker file.

    Holds for boxes of the same image, runtime, profile and needs until the daemon starts again.
    """
    own = GVISOR_PROBE if runtime == GVISOR else NATIVE_PROBE
    identity = USER_NAMESPACE_PROBE if runtime == BUBBLEWRAP else IDENTITY_PROBE
    return _failed((*EVERY_PROBE, *identity, *own), reply, Demand(spec, marker=marker))


def image_faults(reply: object) -> list[str]:
    """Returns what a user's own image lacks, from the same reply as `check_probe`."""
    wanted: dict[tuple[str, ...], str] = {
        ("interpreters", "python3"): "has no python3",
        ("interpreters", "node"): "has no node",
        ("interpreters", "bash"): "has no bash",
        ("passwd_name",): "names no user for the sandbox's uid in /etc/passwd",
    }
    faults = [fault for path, fault in wanted.items() if not texts_in([look_up(reply, path) or None])]
    if "127.0.0.1" not in texts_in(look_up(reply, ("localhost",))):
        faults.append("does not resolve localhost to 127.0.0.1")
    return faults


def refuse(lost: Sequence[Lost], *, hint: str) -> None:
    """Raises GuaranteeError where a box does not hold something; `hint` names the command that examines the engine."""
    if lost:
        raise GuaranteeError(
            "the sandbox does not hold what it must: "
            + "; ".join(f"{row.guarantee}: {row.reason}" for row in lost),
            hint=hint,
            lost=[str(row.guarantee) for row in lost],
        )


def refuse_probed(  # what an engine knows of one box
    reply: object, *, spec: SandboxSpec, runtime: str, marker: str | None, image: str | None, hint: str
) -> None:
    """Raises GuaranteeError where the probe broke a demand, and ImageError where a user's own `image` is unfit."""
    refuse(check_probe(reply, spec=spec, runtime=runtime, marker=marker), hint=hint)
    if image and (faults := image_faults(reply)):
        raise ImageError(f"the image {image} {', '.join(faults)}")


def _failed(rows: Iterable[Row], facts: object, demand: Demand) -> list[Lost]:
    found = (row.lost(facts, demand) for row in rows if row.guarantee in demand.spec.needs)
    return [lost for lost in found if lost is not None]
