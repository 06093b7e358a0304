"""The engines that keep the contract, as parameters of the fixture `engine`."""

from __future__ import annotations

import pytest

LIMITED = [
    "fake",
    pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
    pytest.param("docker", marks=pytest.mark.docker),
]
"""Those whose workspace has a size."""

ALL = [*LIMITED, "local"]
