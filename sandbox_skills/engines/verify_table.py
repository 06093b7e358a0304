"""What must hold inside a box, as a table by runtime: what is looked at, and what is accepted. Pure.

The values come from the box. What is missing or of another type is not accepted, and never an exception.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from sandbox_skills.engines.box import CORE_LIMIT, SHM, SHM_INODES, TMP, TMP_INODES
from sandbox_skills.spec import SKILLS, WORKSPACE, Guarantee

if TYPE_CHECKING:
    from sandbox_skills.spec import SandboxSpec

PAGE = 64 * 1024
"""The largest page size of the supported architectures: limits are rounded to whole pages."""

LARGEST = 2**64
"""No number that the kernel gives is larger; one beyond it could overflow a division here."""

UNREACHABLE = {"ENETUNREACH", "EHOSTUNREACH", "ENETDOWN", "EADDRNOTAVAIL", "EAFNOSUPPORT"}
"""What connect says at once where there is no network; a timeout would mean that packets leave."""

REFUSED = {"EPERM"}
"""What our profile answers, so that anything else shows another profile or none."""

ABSENT = {
    "EPERM",
    "EACCES",
    "ENOSYS",
    "ENODEV",
    "EINVAL",
    "EAFNOSUPPORT",
    "ESOCKTNOSUPPORT",
    "EPROTONOSUPPORT",
}
"""How gVisor refuses what it does not have."""

GVISOR_KERNELS = ("gvisor", "Sun Jan 10 15:06:54 PST 2016")
"""gVisor names itself in /proc/version since 2025; before, it always claimed this build time."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A guarantee that does not hold, with what was seen."""

    guarantee: Guarantee
    reason: str


@dataclass(frozen=True, slots=True)
class Demand:
    """What a row compares with; `marker` None where there is no store to recognise."""

    spec: SandboxSpec
    uid: int = -1
    marker: str | None = None


Accepts = Callable[[object, Demand], bool]


@dataclass(frozen=True, slots=True)
class Row:
    """`path` is where to look, `accepts` what holds, `wanted` the same in words."""

    guarantee: Guarantee
    path: tuple[str, ...]
    accepts: Accepts
    wanted: str

    def lost(self, facts: object, demand: Demand) -> Lost | None:
        """Returns what this row misses in `facts`, None where it holds."""
        value = look_up(facts, self.path)
        if self.accepts(value, demand):
            return None
        return Lost(self.guarantee, f"{' '.join(self.path)} is {_shown(value)}, not {self.wanted}")


Rows = tuple[Row, ...]


def look_up(facts: object, path: tuple[str, ...]) -> object:
    """Returns what `path` leads to in nested objects, None where it leads nowhere."""
    for name in path:
        if not isinstance(facts, dict):
            return None
        facts = cast("dict[object, object]", facts).get(name)
    return facts


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _shown(value: object) -> str:
    # Abbreviated: the box decides how long and how deep it is.
    return "unknown" if value is None else reprlib.repr(value)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if -LARGEST <= value <= LARGEST else None


def texts_in(value: object) -> list[str]:
    """Returns the strings of a list, none of anything else."""
    return [item for item in _items(value) if isinstance(item, str)]


# What a row may accept. Equality alone would take True for 1.


def _equals(wanted: float | str | list[str]) -> Accepts:
    return lambda value, _: type(value) is type(wanted) and value == wanted


def _one_of(wanted: Iterable[str]) -> Accepts:
    allowed = frozenset(wanted)
    return lambda value, _: isinstance(value, str) and value in allowed


def _if_visible(accepts: Accepts) -> Accepts:
    return lambda value, demand: value is None or accepts(value, demand)


def _at_most(limit: Callable[[SandboxSpec], float], rounding: int = PAGE) -> Accepts:
    """Accepts a limit that is set, and no higher than demanded but for rounding to pages."""

    def accepts(value: object, demand: Demand) -> bool:
        number = _number(value)
        return number is not None and 0 < number <= limit(demand.spec) + rounding

    return accepts


def _both_at_most(limit: Callable[[SandboxSpec], int]) -> Accepts:
    def accepts(value: object, demand: Demand) -> bool:
        match [_number(item) for item in _items(value)]:
            case [float() | int() as soft, float() | int() as hard]:
                return 0 <= soft <= hard <= limit(demand.spec)
            case _:
                return False

    return accepts


def _own_uid(value: object, demand: Demand) -> bool:
    return _number(value) == demand.uid > 0


def _only_own_group(value: object, demand: Demand) -> bool:
    return all(_number(group) == demand.uid for group in _items(value)) and isinstance(value, list)


def _has_option(option: str) -> Accepts:
    return lambda value, _: option in texts_in(value)


def _cpu_quota(value: object, demand: Demand) -> bool:
    quota, period = (_number(look_up(value, (name,))) for name in ("cpu_quota", "cpu_period"))
    if not quota or not period or quota < 0 or period < 0:
        return False
    # Docker sets whole microseconds of a period of 100,000.
    return quota / period <= demand.spec.limits.cpus + 1e-4


def _skills_readonly(value: object, _: Demand) -> bool:
    # Without a store the directory is part of the root.
    own = look_up(value, (str(SKILLS),))
    return "ro" in texts_in(look_up(look_up(value, ("/",)) if own is None else own, ("options",)))


def _marker(value: object, demand: Demand) -> bool:
    return demand.marker is None or value == demand.marker


def _gvisor_kernel(value: object, _: Demand) -> bool:
    return isinstance(value, str) and any(name in value for name in GVISOR_KERNELS)


def _tmpfs_rows(where: str, size: Callable[[SandboxSpec], int], inodes: Callable[[SandboxSpec], int]) -> Rows:
    mount = ("mounts", where)
    return (
        Row(Guarantee.DISK, (*mount, "fstype"), _equals("tmpfs"), "tmpfs"),
        Row(Guarantee.DISK, (*mount, "size"), _at_most(size), "the size demanded"),
        Row(Guarantee.INODES, (*mount, "inodes"), _at_most(inodes, 0), "the number demanded"),
    )


def _cgroup_rows(optional: Callable[[Accepts], Accepts]) -> Rows:
    return (
        Row(
            Guarantee.MEMORY,
            ("cgroup", "memory"),
            optional(_at_most(lambda spec: spec.limits.memory)),
            "the limit demanded",
        ),
        Row(
            Guarantee.PIDS,
            ("cgroup", "pids"),
            optional(_at_most(lambda spec: spec.limits.pids, 0)),
            "the limit demanded",
        ),
    )


EVERY_BOX: Rows = (
    Row(Guarantee.OWN_UID, ("uid",), _own_uid, "its own"),
    Row(Guarantee.OWN_UID, ("gid",), _own_uid, "its own"),
    Row(Guarantee.OWN_UID, ("groups",), _only_own_group, "free of other groups"),
    # The program has the runner's uid: only this keeps it out of the runner's memory and channel.
    Row(Guarantee.PROTECTED_RUNNER, ("dumpable",), _equals(0), "0"),
    *(
        Row(Guarantee.NO_CAPABILITIES, ("caps", name), _equals(0), "0")
        for name in ("inh", "prm", "eff", "bnd")
    ),
    Row(Guarantee.NO_NETWORK, ("interfaces",), _equals(["lo"]), "the loopback alone"),
    Row(Guarantee.READONLY_ROOT, ("mounts", "/", "options"), _has_option("ro"), "read-only"),
    Row(Guarantee.READONLY_SKILLS, ("mounts",), _skills_readonly, "with the skills read-only"),
    *_tmpfs_rows(
        str(WORKSPACE), lambda spec: spec.limits.workspace_bytes, lambda spec: spec.limits.workspace_inodes
    ),
    *_tmpfs_rows(TMP, lambda spec: spec.limits.tmp_bytes, lambda _: TMP_INODES),
    *_tmpfs_rows(SHM, lambda spec: spec.limits.shm_bytes, lambda _: SHM_INODES),
    Row(
        Guarantee.OPEN_FILES,
        ("rlimits", "nofile"),
        _both_at_most(lambda spec: spec.limits.open_files),
        "the limit demanded",
    ),
    Row(
        Guarantee.FILE_SIZE,
        ("rlimits", "fsize"),
        _both_at_most(lambda spec: spec.limits.file_bytes),
        "the limit demanded",
    ),
    Row(Guarantee.FILE_SIZE, ("rlimits", "core"), _both_at_most(lambda _: CORE_LIMIT), str(CORE_LIMIT)),
)

NATIVE_BOX: Rows = (
    Row(Guarantee.SECCOMP, ("seccomp",), _equals(2), "2, a filter"),
    Row(Guarantee.NO_NEW_PRIVILEGES, ("no_new_privs",), _equals(1), "1"),
    Row(Guarantee.NO_CAPABILITIES, ("caps", "amb"), _equals(0), "0"),
    *(
        row
        for where in (str(WORKSPACE), TMP, SHM)
        for row in (
            Row(Guarantee.NO_NEW_PRIVILEGES, ("mounts", where, "options"), _has_option("nosuid"), "nosuid"),
            Row(Guarantee.NO_CAPABILITIES, ("mounts", where, "options"), _has_option("nodev"), "nodev"),
        )
    ),
    Row(Guarantee.CPU, ("cgroup",), _cpu_quota, "a quota of the CPUs demanded"),
    *_cgroup_rows(lambda accepts: accepts),
)

# gVisor is itself the filter before the host's kernel and always has no_new_privs, so that setuid files and devices do
# nothing; it shows neither that, nor ambient capabilities, nor nosuid and nodev, nor the host's cgroup that holds it.
# Its tmpfs has no inode limit and says 0, and its /proc shows the open files of a process that is not dumpable: those
# two guarantees are lost.
GVISOR_BOX: Rows = (
    *(
        Row(name, ("kernel",), _gvisor_kernel, "gVisor's")
        for name in (Guarantee.KERNEL_BOUNDARY, Guarantee.SECCOMP, Guarantee.NO_NEW_PRIVILEGES)
    ),
    Row(Guarantee.NO_NEW_PRIVILEGES, ("no_new_privs",), _if_visible(_equals(1)), "1"),
    Row(Guarantee.NO_CAPABILITIES, ("caps", "amb"), _if_visible(_equals(0)), "0"),
    *_cgroup_rows(_if_visible),
)

EVERY_PROBE: Rows = (
    Row(Guarantee.NO_NETWORK, ("loopback",), _equals("ok"), "usable"),
    Row(Guarantee.NO_NETWORK, ("outside_v4",), _one_of(UNREACHABLE), "refused at once"),
    Row(Guarantee.NO_NETWORK, ("outside_v6",), _one_of(UNREACHABLE), "refused at once"),
    Row(Guarantee.READONLY_SKILLS, ("marker",), _marker, "the marker of the store"),
    Row(Guarantee.NO_CAPABILITIES, ("mount",), _one_of(REFUSED), "refused"),
    Row(Guarantee.PROTECTED_RUNNER, ("read_pid1_mem",), _one_of({"EPERM", "EACCES", "ENOENT"}), "refused"),
    # Who may look there may open the channel, and speak to the host in the runner's name.
    Row(Guarantee.PROTECTED_RUNNER, ("list_pid1_files",), _one_of({"EPERM", "EACCES", "ENOENT"}), "refused"),
)

IDENTITY_PROBE: Rows = (Row(Guarantee.NO_CAPABILITIES, ("setuid0",), _one_of(REFUSED), "refused"),)

# In a user namespace that maps the box's uid alone there is no uid 0 to ask for.
USER_NAMESPACE_PROBE: Rows = (
    Row(Guarantee.NO_CAPABILITIES, ("setuid0",), _one_of({*REFUSED, "EINVAL"}), "refused"),
)

NATIVE_PROBE: Rows = (
    # EACCES would only say that the directory belongs to someone else.
    Row(Guarantee.READONLY_ROOT, ("write_root",), _one_of({"EROFS"}), "refused as read-only"),
    Row(Guarantee.READONLY_SKILLS, ("write_skills",), _one_of({"EROFS"}), "refused as read-only"),
    *(
        Row(Guarantee.SECCOMP, (name,), _one_of(REFUSED), "refused by the profile")
        for name in (
            "unshare_user",
            "ptrace_pid1",
            "io_uring",
            "keyctl",
            "bpf",
            "userfaultfd",
            "af_packet",
            "af_vsock",
            "af_alg",
        )
    ),
)

# User namespaces, ptrace, keys and io_uring exist inside gVisor, made by its own kernel, and are no way to the host's.
GVISOR_PROBE: Rows = (
    Row(Guarantee.READONLY_ROOT, ("write_root",), _one_of({"EROFS", "EACCES"}), "refused"),
    Row(Guarantee.READONLY_SKILLS, ("write_skills",), _one_of({"EROFS", "EACCES"}), "refused"),
    *(
        Row(Guarantee.SECCOMP, (name,), _one_of(ABSENT), "absent")
        for name in ("bpf", "userfaultfd", "af_packet", "af_vsock", "af_alg")
    ),
)
