"""Plain values that pydantic checks when they are given. Defaults need no check, and pydantic 150 ms to come."""
