"""What holds where nobody chose. Figures only: reading settings imports nothing that works with them."""

from __future__ import annotations

DEFAULT_STEPS = 10
"""Answers with calls in one run: more than a task of skills takes, and few enough to notice a lost model."""

MAX_OUTPUT_TOKENS = 16_384
"""Always sent: providers reserve credit for the most a model could say, which is refused where it is not there."""

MAX_TOOL_OUTPUT = 100_000
"""Characters of one output that the model is given, about 25,000 tokens: more would push out what it works on."""

LAST_SECONDS = 30.0
"""For the last answer of a run that has a limit of time: a model that writes a page takes less."""

CONCURRENCY = 8
"""Calls of one answer at the same time: each may hold a sandbox."""
