"""Every page and what can be done on it, with the scope that it needs; None is for every key that may sign in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.daemon.access.scopes import Scope
from sandbox_skills.daemon.ui.pages import artifacts, overview, playground, runs, sessions, skills, tenants

if TYPE_CHECKING:
    from sandbox_skills.daemon.ui.visits import Answer

RUN, ADMIN = Scope.RUN, Scope.ADMIN

PAGES: tuple[tuple[str, Answer, Scope | None], ...] = (
    ("/", overview.overview, None),
    ("/runs", runs.runs, RUN),
    ("/runs/{run_id}", runs.run, RUN),
    ("/runs/{run_id}/stream", runs.stream, RUN),
    ("/skills", skills.skills, RUN),
    ("/skill", skills.skill, RUN),
    ("/sessions", sessions.sessions, RUN),
    ("/sessions/{session_id}", sessions.session, RUN),
    ("/sessions/{session_id}/file", sessions.file, RUN),
    ("/artifacts", artifacts.artifacts, RUN),
    ("/artifact", artifacts.artifact, RUN),
    ("/artifact/content", artifacts.content, RUN),
    ("/artifact/download", artifacts.download, RUN),
    ("/playground", playground.playground, RUN),
    ("/playground/{talk_id}", playground.talk, RUN),
    ("/playground/{talk_id}/stream", playground.stream, RUN),
    ("/tenants", tenants.tenants, ADMIN),
    ("/tenants/{tenant_id}", tenants.tenant, ADMIN),
    ("/audit", tenants.audit, ADMIN),
)

ACTIONS: tuple[tuple[str, Answer, Scope | None], ...] = (
    ("/runs/{run_id}/cancel", runs.cancel, RUN),
    ("/runs/{run_id}/rerun", runs.rerun, RUN),
    ("/skills", skills.upload, Scope.SKILLS_WRITE),
    ("/sessions/{session_id}/close", sessions.close, RUN),
    ("/playground", playground.begin, RUN),
    ("/playground/{talk_id}/speak", playground.speak, RUN),
    ("/playground/{talk_id}/approvals", playground.decide, RUN),
    ("/playground/{talk_id}/cancel", playground.cancel, RUN),
    ("/tenants", tenants.create, ADMIN),
    ("/tenants/{tenant_id}/switch", tenants.switch, ADMIN),
    ("/tenants/{tenant_id}/keys", tenants.create_key, ADMIN),
    ("/tenants/{tenant_id}/keys/{key_id}/revoke", tenants.revoke_key, ADMIN),
)
