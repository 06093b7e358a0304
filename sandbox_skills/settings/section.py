"""What sections of settings are made of."""

from __future__ import annotations

from sandbox_skills.checked.value import Checked


class Section(Checked):
    """A group of settings; a name that it does not have is an error."""

    KINDS = "sandbox_skills.settings.kinds"
