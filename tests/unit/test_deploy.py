"""The files for running the daemon: understood by what reads them, and of one mind with each other."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox_skills.settings import load_settings

DEPLOY = Path(__file__).parents[2] / "config" / "deploy"
UNIT = (DEPLOY / "sandbox-skills.service").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
DATA = "/var/lib/sandbox-skills"


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    assert program is not None, "apt-get install systemd"
    copy = tmp_path / "sandbox-skills.service"
    # Only what is executed has to be there.
    copy.write_text(UNIT.replace("/opt/sandbox-skills/bin/sandbox-skills", shutil.which("true") or ""))
    done = subprocess.run(
        [program, "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    complaints = [
        line
        for line in done.stderr.splitlines()
        if "sandbox-skills.service" in line and "docker.service" not in line
    ]
    assert complaints == []


def test_the_unit_gives_up_what_the_daemon_does_not_need() -> None:
    given = dict(re.findall(r"^(\w+)=(.*)$", UNIT, re.MULTILINE))
    for name in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "RestrictNamespaces"):
        assert given[name] == "yes"
    assert (given["CapabilityBoundingSet"], given["ProtectSystem"], given["StateDirectoryMode"]) == (
        "",
        "strict",
        "0700",
    )
    assert (
        float(given["TimeoutStopSec"]) > 2 * load_settings(environ={"HOME": "/nowhere"}).daemon.drain_seconds
    )


def test_the_container_has_a_read_only_root_no_capabilities_and_one_path_on_both_sides() -> None:
    (service,) = COMPOSE["services"].values()
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["user"].split(":")[0] != "0"
    assert service["volumes"] == [f"{path}:{path}" for path in ("/var/run/docker.sock", DATA)]
    assert service["environment"]["SANDBOX_SKILLS_DATA_DIR"] == DATA
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert "privileged" not in service
    image = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert f"USER {service['user']}" in image
    assert f"SANDBOX_SKILLS_DATA_DIR={DATA}" in image


def test_what_the_compose_file_sets_are_settings() -> None:
    (service,) = COMPOSE["services"].values()
    settings = load_settings(environ={"HOME": "/nowhere", **service["environment"]})
    assert (settings.daemon.host, str(settings.data_dir)) == ("0.0.0.0", DATA)
    assert settings.daemon.port == 8765


@pytest.mark.parametrize("name", ["README.md", "sandbox-skills.service", "compose.yaml"])
def test_the_risk_of_dockers_socket_is_said_where_it_is_given(name: str) -> None:
    text = (DEPLOY / name).read_text(encoding="utf-8")
    assert "Whoever may speak to Docker's socket is root on" in text
