"""What is made of the answers of real kinds of daemons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.engines.docker_config import LOST_IN_GVISOR
from sandbox_skills.engines.doctor.checks import Check, worst
from sandbox_skills.engines.doctor.daemon import daemon_checks
from sandbox_skills.engines.doctor.facts import TYPES, Daemon, known
from sandbox_skills.spec import BASE_GUARANTEES, Guarantee

if TYPE_CHECKING:
    from collections.abc import Collection

KERNEL = "6.1.0-28-amd64"

DEBIAN: dict[str, Any] = {
    "Driver": "overlay2",
    "MemoryLimit": True,
    "SwapLimit": True,
    "CpuCfsPeriod": True,
    "CpuCfsQuota": True,
    "PidsLimit": True,
    "SystemTime": "2026-01-02T03:04:05.004013339Z",
    "CgroupDriver": "cgroupfs",
    "CgroupVersion": "1",
    "KernelVersion": KERNEL,
    "OperatingSystem": "Debian GNU/Linux 12 (bookworm)",
    "OSType": "linux",
    "Architecture": "x86_64",
    "DockerRootDir": "/var/lib/docker",
    "HttpProxy": "",
    "HttpsProxy": "",
    "ServerVersion": "20.10.24+dfsg1",
    "Runtimes": {
        "io.containerd.runc.v2": {"path": "runc"},
        "io.containerd.runtime.v1.linux": {"path": "runc"},
        "runc": {"path": "runc"},
    },
    "DefaultRuntime": "runc",
    "SecurityOptions": ["name=seccomp,profile=default"],
    "Warnings": None,
}
DEBIAN_VERSION: dict[str, Any] = {
    "Components": [{"Name": "Engine", "Version": "20.10.24+dfsg1"}, {"Name": "runc", "Version": "1.1.5"}],
    "ApiVersion": "1.41",
    "MinAPIVersion": "1.12",
    "Os": "linux",
    "Arch": "amd64",
}

MODERN = DEBIAN | {
    "Driver": "overlayfs",
    "CgroupDriver": "systemd",
    "CgroupVersion": "2",
    "OperatingSystem": "Ubuntu 24.04.1 LTS",
    "ServerVersion": "28.3.3",
    "HttpProxy": "http://user:secret@proxy.example:3128",
    "Runtimes": {
        "io.containerd.runc.v2": {"path": "runc"},
        "runc": {"path": "runc"},
        "runsc": {"path": "runsc"},
    },
    "SecurityOptions": ["name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"],
}
MODERN_VERSION = DEBIAN_VERSION | {"ApiVersion": "1.51", "MinAPIVersion": "1.24"}

ROOTLESS = MODERN | {
    "CpuCfsQuota": False,
    "DockerRootDir": "/home/u/.local/share/docker",
    "SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless", "name=cgroupns"],
    "Warnings": ["WARNING: No cpu cfs quota support"],
}

PODMAN = DEBIAN | {
    "Architecture": "amd64",
    "CgroupDriver": "systemd",
    "CgroupVersion": "2",
    "DefaultRuntime": "crun",
    "DockerRootDir": "/home/u/.local/share/containers/storage",
    "Driver": "overlay",
    "OperatingSystem": "fedora",
    "Runtimes": {"crun": {"path": "/usr/bin/crun"}, "runc": {"path": "/usr/bin/runc"}},
    "SecurityOptions": ["name=seccomp,profile=default", "name=rootless", "name=selinux"],
    "ServerVersion": "5.2.2",
    "SystemTime": "2026-01-02T04:04:05.004013339+01:00",
}
PODMAN_VERSION: dict[str, Any] = {
    "Platform": {"Name": "linux/amd64/fedora-40"},
    "Components": [
        {"Name": "Podman Engine", "Version": "5.2.2", "Details": {"APIVersion": "5.2.2"}},
        {"Name": "Conmon", "Version": "conmon version 2.1.12"},
        {"Name": "OCI Runtime (crun)", "Version": "crun version 1.17"},
    ],
    "ApiVersion": "1.41",
    "MinAPIVersion": "1.24",
}

DESKTOP = MODERN | {
    "HttpProxy": "http.docker.internal:3128",
    "KernelVersion": "6.10.14-linuxkit",
    "OperatingSystem": "Docker Desktop",
    "Name": "docker-desktop",
    "SecurityOptions": ["name=seccomp,profile=unconfined", "name=cgroupns"],
}

DAEMONS = {
    "debian": Daemon(DEBIAN, DEBIAN_VERSION, kernel=KERNEL),
    "modern": Daemon(MODERN, MODERN_VERSION, kernel=KERNEL),
    "rootless": Daemon(ROOTLESS, MODERN_VERSION, kernel=KERNEL),
    "podman": Daemon(PODMAN, PODMAN_VERSION, kernel=KERNEL),
    "desktop": Daemon(DESKTOP, MODERN_VERSION, kernel=KERNEL),
    "remote": Daemon(MODERN, MODERN_VERSION, address="tcp://build.example:2375", kernel=KERNEL),
}


def seen(
    daemon: Daemon, *, needs: Collection[Guarantee] = BASE_GUARANTEES, runtime: str | None = None
) -> dict[str, Check]:
    return {check.name: check for check in daemon_checks(daemon, needs=needs, runtime=runtime)}


def changed(base: dict[str, Any] = DEBIAN, **info: object) -> dict[str, Check]:
    return seen(Daemon(known(base | info), DEBIAN_VERSION, kernel=KERNEL))


@pytest.mark.parametrize(
    ("kind", "not_ok"),
    [
        ("debian", {"apparmor": "lost"}),
        ("modern", {}),
        ("rootless", {"daemon": "warning", "limits": "failed", "apparmor": "lost"}),
        ("podman", {"daemon": "failed", "apparmor": "lost", "selinux": "warning"}),
        ("desktop", {"daemon": "warning", "apparmor": "lost"}),
        ("remote", {"place": "failed", "transport": "warning"}),
    ],
)
def test_each_kind_of_daemon_is_judged(kind: str, not_ok: dict[str, str]) -> None:
    found = {name: check.state for name, check in seen(DAEMONS[kind]).items() if check.state != "ok"}
    assert found == not_ok


@pytest.mark.parametrize("kind", DAEMONS)
def test_every_fault_is_told_with_its_fix(kind: str) -> None:
    unfixable = {("rootless", "daemon"), ("rootless", "apparmor"), ("podman", "apparmor")}
    for name, check in seen(DAEMONS[kind]).items():
        assert check.detail
        assert check.state == "ok" or check.fix or (kind, name) in unfixable


def test_debian_is_described() -> None:
    found = seen(DAEMONS["debian"])
    assert found["platform"].detail == (
        "Docker 20.10.24+dfsg1 on Debian GNU/Linux 12 (bookworm), Linux 6.1.0-28-amd64, x86_64"
    )
    assert found["cgroup"].detail == "version 1, driver cgroupfs"
    assert found["runtime"].detail == "runc, which shares the daemon's kernel; the daemon has runc"
    assert found["apparmor"].guarantee == "apparmor"


def test_a_guarantee_that_is_demanded_fails_and_another_is_lost() -> None:
    daemon = DAEMONS["rootless"]
    assert seen(daemon)["limits"].state == "failed"
    assert seen(daemon)["limits"].guarantee == "cpu"
    assert seen(daemon, needs=BASE_GUARANTEES - {Guarantee.CPU})["limits"].state == "lost"
    assert seen(daemon, needs={Guarantee.APPARMOR})["apparmor"].state == "failed"


def test_an_apparmor_that_is_not_demanded_is_said_to_be_optional() -> None:
    def detail(**options: Any) -> str:  # noqa: ANN401  # as daemon_checks
        found = daemon_checks(DAEMONS["debian"], **options)
        return next(check.detail for check in found if check.name == "apparmor")

    assert detail() == "the daemon has none; optional here: docker.apparmor is auto"
    assert "optional" not in detail(needs={Guarantee.APPARMOR}, apparmor="required")
    assert detail(apparmor="off") == "not applied: docker.apparmor is off"


def test_limits_of_a_rootless_daemon_are_fixed_by_delegation() -> None:
    assert "Delegate=" in seen(DAEMONS["rootless"])["limits"].fix
    assert "Delegate=" not in changed(CpuCfsQuota=False)["limits"].fix


def test_each_limit_that_is_missing_is_a_finding_of_its_own() -> None:
    checks = daemon_checks(Daemon(DEBIAN | {"CgroupDriver": "none"}, DEBIAN_VERSION, kernel=KERNEL))
    assert {check.guarantee for check in checks if check.name == "limits"} == {"memory", "pids", "cpu"}


def test_podman_is_named_and_refused_for_what_it_refuses() -> None:
    found = seen(DAEMONS["podman"])
    assert found["platform"].detail.startswith("Podman 5.2.2")
    assert found["daemon"].guarantee == "inodes"
    assert "nr_inodes" in found["daemon"].detail


def test_a_proxy_is_mentioned_without_its_password() -> None:
    text = repr(seen(DAEMONS["modern"]))
    assert "proxies" in text
    assert "secret" not in text
    assert "proxies" not in seen(DAEMONS["debian"])


@pytest.mark.parametrize(
    ("api", "state"),
    [
        ("1.41", "ok"),
        ("1.51", "ok"),
        ("2.0", "ok"),
        ("1.40", "warning"),
        ("1.39", "failed"),
        ("1.x", "failed"),
    ],
)
def test_the_api_version_is_compared_as_numbers(api: str, state: str) -> None:
    found = seen(Daemon(DEBIAN, DEBIAN_VERSION | {"ApiVersion": api}, kernel=KERNEL))
    assert found["api version"].state == state


@pytest.mark.parametrize(
    ("address", "tls", "expected"),
    [
        ("unix:///run/docker.sock", False, set()),
        ("tcp://127.0.0.1:2375", False, {"transport"}),
        ("tcp://localhost:2376", True, set()),
        ("tcp://[::1]:2376", True, set()),
        ("tcp://10.0.0.9:2376", True, {"place"}),
        ("tcp://127.evil.example:2375", False, {"place", "transport"}),
    ],
)
def test_the_way_to_the_daemon_is_judged_by_its_address(address: str, tls: bool, expected: set[str]) -> None:  # noqa: FBT001  # a parameter of the table
    found = seen(Daemon(DEBIAN, DEBIAN_VERSION, address=address, tls=tls, kernel=KERNEL))
    assert found.keys() & {"place", "transport"} == expected


def test_another_kernel_behind_a_local_socket_is_told() -> None:
    found = changed(KernelVersion="6.8.0-virtual")
    assert found["place"].state == "warning"
    assert "daemon" not in found


@pytest.mark.parametrize(
    ("driver", "state"),
    [("overlay2", "ok"), ("overlayfs", "ok"), ("vfs", "warning"), ("btrfs", "warning"), (None, "warning")],
)
def test_storage_drivers_are_told_apart(driver: str | None, state: str) -> None:
    assert changed(Driver=driver)["storage driver"].state == state


def test_swap_without_a_limit_is_told() -> None:
    assert changed(SwapLimit=False)["swap limit"].state == "warning"


def test_no_seccomp_means_no_sandbox() -> None:
    assert changed(SecurityOptions=[])["seccomp"].state == "failed"
    assert changed(Architecture="riscv64")["seccomp"].guarantee == "seccomp"


def test_an_unconfined_daemon_is_fine_as_sandboxes_bring_their_profile() -> None:
    assert seen(DAEMONS["desktop"])["seccomp"].state == "ok"
    assert "unconfined" in seen(DAEMONS["desktop"])["seccomp"].detail


def test_remapped_users_are_told() -> None:
    options = [*DEBIAN["SecurityOptions"], "name=userns"]
    assert changed(SecurityOptions=options)["user namespaces"].state == "warning"


def test_the_runtime_that_is_asked_for_must_be_there() -> None:
    assert seen(DAEMONS["debian"], runtime="runsc")["runtime"].state == "failed"
    assert seen(DAEMONS["modern"], runtime="runsc")["runtime"].state == "ok"
    assert changed(DefaultRuntime="runsc")["runtime"].state == "failed"


def test_what_gvisor_lacks_is_a_failure_unless_the_settings_do_without() -> None:
    assert seen(DAEMONS["modern"], runtime="runsc")["runsc"].state == "failed"
    modest = BASE_GUARANTEES - LOST_IN_GVISOR.keys()
    found = seen(DAEMONS["modern"], runtime="runsc", needs=modest)["runsc"]
    assert (found.state, "docker.without" in found.fix) == ("lost", True)
    assert "runsc" not in seen(DAEMONS["modern"])
    assert changed(DefaultRuntime="kata")["runtime"].state == "warning"


def test_windows_containers_end_the_examination() -> None:
    (check,) = daemon_checks(Daemon({"OSType": "windows"}))
    assert check.state == "failed"


def test_an_answer_without_anything_in_it_is_no_good() -> None:
    assert worst(daemon_checks(Daemon({}))) == "failed"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
ANSWERS = JSON | st.dictionaries(st.sampled_from(sorted(TYPES)), JSON)


@given(info=ANSWERS, version=ANSWERS)
def test_no_answer_breaks_the_examination(info: object, version: object) -> None:
    daemon = Daemon(known(info), known(version), kernel=KERNEL)
    assert daemon_checks(daemon)
