"""The seccomp profile that engines apply: found, minified and named by its digest."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import TYPE_CHECKING, Any

from sandbox_skills.bundled import bundled
from sandbox_skills.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path


def profile_path() -> Path:
    """Returns the profile's file: of the installed package, else of the repository."""
    return bundled("config/seccomp.json")


@cache
def seccomp_profile() -> str:
    """Returns the profile as compact JSON without its comments; raises SettingsError without one."""
    path = profile_path()
    try:
        profile = json.loads(path.read_bytes(), object_hook=_without_comment)
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"the seccomp profile {path} cannot be read: {error}", hint="reinstall sandbox-skills"
        ) from error
    return json.dumps(profile, separators=(",", ":"), sort_keys=True)


def profile_digest() -> str:
    """Returns the SHA-256 of the profile in hexadecimal: what a run record and a check's cache name it by."""
    return hashlib.sha256(seccomp_profile().encode()).hexdigest()


def _without_comment(rule: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in rule.items() if name != "comment"}
