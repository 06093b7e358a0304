"""Engines make sandboxes. Read `base.py` first."""
