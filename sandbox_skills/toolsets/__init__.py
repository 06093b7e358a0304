"""Toolsets: the tools of five public designs, each offered to any model. `base` says what a toolset is."""
