"""Every transaction that changes something, by name, and the points around it where a process may die."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Change(StrEnum):
    """What a transaction does. Each is all there or not at all, and a test kills the process around each."""

    TENANT_CREATE = "tenant.create"
    TENANT_UPDATE = "tenant.update"
    KEY_CREATE = "key.create"
    KEY_REVOKE = "key.revoke"
    KEY_USED = "key.used"
    RUN_SUBMIT = "run.submit"
    RUN_SUBMIT_AND_CLAIM = "run.submit_and_claim"
    RUN_CLAIM = "run.claim"
    RUN_RENEW = "run.renew"
    RUN_RELEASE = "run.release"
    RUN_CANCEL = "run.cancel"
    RUN_COMPLETE = "run.complete"
    RUN_ABANDON = "run.abandon"
    EVENT_APPEND = "event.append"
    SESSION_CREATE = "session.create"
    SESSION_UPDATE = "session.update"
    SESSION_PLACE = "session.place"
    SESSION_CLOSE = "session.close"
    SESSION_LOSE = "session.lose"
    SKILL_ADD = "skill.add"
    SKILL_DELETE = "skill.delete"
    AGENT_CREATE = "agent.create"
    AGENT_UPDATE = "agent.update"
    TOOL_CONVERSATION = "tool.conversation"
    NODE_HEARTBEAT = "node.heartbeat"
    NODE_DRAIN = "node.drain"
    NODE_LEAVE = "node.leave"
    AUDIT_APPEND = "audit.append"
    RETENTION = "retention"


class Boundary(StrEnum):
    """Where a process may die: as the transaction begins, with all written but not committed, and right after."""

    BEGIN = "begin"
    COMMIT = "commit"
    DONE = "done"


FaultHook = Callable[[Change, Boundary], None]
"""Called at every boundary of every change; a test's own may end the process there."""


def no_fault(change: Change, boundary: Boundary) -> None:
    """Does nothing: the hook of every daemon that is no test's."""
