"""The engines that are attacked, as parameters of the fixture `engine_name`; most tests are for all of them."""

from __future__ import annotations

import pytest

TITLES = {
    "docker": "Docker",
    "attached": "Docker, attached",
    "bubblewrap": "bubblewrap as root",
    "gvisor": "Docker with gVisor",
}
"""The engines as the README names them."""

GVISOR_SECONDS = 120
"""Under ptrace a program takes ten times as long to start."""

MARKS = {
    "docker": (pytest.mark.docker,),
    "attached": (pytest.mark.docker,),
    "bubblewrap": (pytest.mark.bubblewrap,),
    "gvisor": (pytest.mark.docker, pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(GVISOR_SECONDS)),
}
"""`attached` is Docker, spoken to over the attached stream instead of a socket: isolation is the same."""

PARAMETERS = {name: pytest.param(name, marks=marks) for name, marks in MARKS.items()}

NATIVE = ("docker", "attached", "bubblewrap")
"""Whose boxes have the host's own kernel. gVisor answers otherwise, and more slowly, in a module of its own."""


def only(*names: str) -> pytest.MarkDecorator:
    """Of a test that asks what only some engines have."""
    chosen = [PARAMETERS[name] for name in names]
    return pytest.mark.parametrize("engine_name", chosen, indirect=True, scope="session")


def family(name: str) -> pytest.MarkDecorator:
    """Of a test outside the file of its family."""
    return pytest.mark.family(name)


DOCKER = only("docker", "attached")
