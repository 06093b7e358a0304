"""Settings become live objects here, and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.lazy_names import lazy_names

if TYPE_CHECKING:
    from sandbox_skills.wiring.live import (
        Live,
        artifact_store,
        audit_file,
        controller,
        docker_client,
        doctor_options,
        engine,
        model_client,
        opened,
        root_build,
        run_rules,
        sandbox_spec,
        server_client,
        services,
        store_root,
    )
    from sandbox_skills.wiring.skills import catalog, catalog_of, library, trust

_HOMES = {
    "live": (
        "Live",
        "artifact_store",
        "audit_file",
        "controller",
        "docker_client",
        "doctor_options",
        "engine",
        "model_client",
        "opened",
        "root_build",
        "run_rules",
        "sandbox_spec",
        "server_client",
        "services",
        "store_root",
    ),
    "skills": ("catalog", "catalog_of", "library", "trust"),
}

__all__ = [
    "Live",
    "artifact_store",
    "audit_file",
    "catalog",
    "catalog_of",
    "controller",
    "docker_client",
    "doctor_options",
    "engine",
    "library",
    "model_client",
    "opened",
    "root_build",
    "run_rules",
    "sandbox_spec",
    "server_client",
    "services",
    "store_root",
    "trust",
]

__getattr__ = lazy_names(__name__, _HOMES)
