"""Why a box did not come up: bubblewrap's last words as an error with the next step. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.errors import EngineError, EngineUnavailableError

if TYPE_CHECKING:
    from sandbox_skills.engines.bubblewrap.launch import Gone
    from sandbox_skills.errors import SandboxLostError

NO_NAMESPACES = (
    "creating new namespace failed",
    "no permissions to create",
    "setting up uid map",
    "unshare",
)
"""How bubblewrap 0.4 to 0.11 and the launcher begin to say that this host lets us make no namespaces."""

NAMESPACES_HINT = (
    "allow user namespaces: sysctl user.max_user_namespaces (not 0), kernel.unprivileged_userns_clone=1, "
    "kernel.apparmor_restrict_unprivileged_userns=0; inside a container they are the container's to allow"
)

DOCTOR_HINT = "sandbox-skills doctor --engine bubblewrap"

WORDS_SHOWN = 300
"""Characters of the last words that are told: a traceback's end says what it is about."""


def explained(gone: Gone, error: SandboxLostError) -> EngineError:
    """Returns what to raise for a box that ended before its runner's first word."""
    words = gone.words.strip()[-WORDS_SHOWN:]
    if not words:
        return error
    if any(sign in words.lower() for sign in NO_NAMESPACES):
        return EngineUnavailableError(f"no namespaces can be made here: {words}", hint=NAMESPACES_HINT)
    return EngineError(f"bubblewrap did not bring up a sandbox: {words}", hint=DOCTOR_HINT)
