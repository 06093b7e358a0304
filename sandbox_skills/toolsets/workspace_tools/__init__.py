"""The `workspace` toolset, a package for its size: `toolset` joins the rest, `state` says what a conversation holds."""
