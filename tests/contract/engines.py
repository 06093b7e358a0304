"""The engines that keep the contract, as parameters of the fixture `engine`."""

from __future__ import annotations

import pytest

LIMITED = [
    "fake",
    pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
    pytest.param("docker", marks=pytest.mark.docker),
    pytest.param("attached", marks=pytest.mark.docker),
]
"""Those whose workspace has a size. `attached` is Docker, spoken to over the attached stream instead of a socket."""

ENFORCING = [engine for engine in LIMITED if engine != "fake"]
"""Those that isolate: what they promise, the kernel keeps."""

BOXES = [
    pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
    pytest.param("docker", marks=pytest.mark.docker),
]
"""Those whose runner is the first process of a box."""

ALL = [*LIMITED, "local"]
