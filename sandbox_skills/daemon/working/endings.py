"""How a run ended, in the one vocabulary: what it came to, or what kept it from that. Pure."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sandbox_skills.daemon.truth.run import Finished, sandbox_failed
from sandbox_skills.errors import RequestError, SandboxSkillsError
from sandbox_skills.spec import ending_dict

if TYPE_CHECKING:
    from sandbox_skills.spec import Ending
    from sandbox_skills.workspace.result import RunResult

logger = logging.getLogger(__name__)


def finished(result: RunResult) -> Finished:
    """Returns how a run ended whose program was run."""
    told = result.as_dict()
    for name in ("ending", "limits_hit", "files"):
        told.pop(name, None)
    return Finished(outcome_of(result.outcome.ending), told, tuple(sorted(result.limits_hit)))


def outcome_of(ending: Ending) -> dict[str, object]:
    """Returns an ending as the API spells it."""
    spelled = ending_dict(ending)
    return {"type": spelled.pop("kind"), **spelled}


def cancelled() -> Finished:
    """Returns how a run ended that was cancelled."""
    return Finished({"type": "stopped", "reason": "cancelled"})


def interrupted() -> Finished:
    """Returns how a leg of a conversation ended that the server could not wait for: the next server goes on with it."""
    return sandbox_failed(
        "draining",
        "the server ended while the model was at work",
        reason="restarted",
        hint="resume the run: nothing that the model has done is lost",
    )


def failed(error: Exception) -> Finished:
    """Returns how a run ended that could not be run, or whose sandbox failed."""
    match error:
        case RequestError():
            told = {"code": error.code, "message": error.message, "hint": error.hint}
            return Finished({"type": "rejected", **told})
        case SandboxSkillsError():
            return sandbox_failed(error.code, error.message, reason="", hint=error.hint)
        case _:
            logger.error("a run failed by a fault of ours", exc_info=error)
            return sandbox_failed("internal", "this is a fault of sandbox-skills", reason="")
