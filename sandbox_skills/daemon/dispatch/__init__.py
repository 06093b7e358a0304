"""How runs get from whoever asked for them to whoever works on them: read `base` first."""
