"""Who asks, what they may ask, and how much of it."""
