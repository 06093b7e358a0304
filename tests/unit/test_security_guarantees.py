"""The table of guarantees in SECURITY.md is what the engines say themselves."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from sandbox_skills.engines import docker_config
from sandbox_skills.engines.bubblewrap import order
from sandbox_skills.engines.bubblewrap.cgroup import CONTROLLERS, Hierarchy
from sandbox_skills.engines.local import LocalEngine, LocalEngineOptions
from sandbox_skills.spec import Guarantee

SECURITY = Path(__file__).parents[2] / "SECURITY.md"

INFO = {
    "OSType": "linux",
    "Architecture": "x86_64",
    "CgroupDriver": "systemd",
    "MemoryLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
    "SecurityOptions": ["name=seccomp,profile=default"],
}
"""A Docker Engine that lacks nothing; AppArmor is the host's to have."""

ROOT = order.Host(
    program=Path("/usr/bin/bwrap"),
    version=(0, 8),
    machine="x86_64",
    uid=0,
    gid=0,
    cpus=2,
    hierarchies=(Hierarchy(2, tuple(CONTROLLERS), Path("/sys/fs/cgroup")),),
)

CONDITIONAL = {Guarantee.APPARMOR: {"Docker": "where the host has it"}}


def columns() -> dict[str, frozenset[Guarantee]]:
    options = docker_config.DockerOptions(instance="", seccomp="")
    return {
        "Docker": docker_config.guarantees(options, INFO),
        "Docker with gVisor": docker_config.guarantees(replace(options, runtime="runsc"), INFO),
        "bubblewrap as root": order.guarantees(ROOT),
        "bubblewrap as a user": order.guarantees(replace(ROOT, uid=1000, hierarchies=())),
        "local": LocalEngine(LocalEngineOptions(Path())).guarantees,
    }


def table() -> str:
    found = columns()
    lines = [f"| guarantee | {' | '.join(found)} |", f"|---|{':---:|' * len(found)}"]
    for guarantee in Guarantee:
        told = CONDITIONAL.get(guarantee, {})
        cells = ("yes" if guarantee in has else told.get(name, "no") for name, has in found.items())
        lines.append(f"| `{guarantee}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def test_the_table_of_guarantees_is_what_engines_say() -> None:
    match = re.search(
        r"<!-- guarantees -->\n(.*?)\n<!-- /guarantees -->", SECURITY.read_text(encoding="utf-8"), re.DOTALL
    )
    assert match is not None
    assert match[1] == table()
