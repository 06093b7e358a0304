"""From folders with a SKILL.md to skills that can be looked up."""
