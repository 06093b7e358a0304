"""Types of OpenRouter's own library, by their names: no type checker need read the hundreds of files it generates."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def openrouter_type(name: str) -> Any:  # noqa: ANN401  # a class that is looked up
    """Returns one of its models, which stand in modules that are imported when they are asked for."""
    return getattr(import_module("openrouter.components"), name)


DEFINITIONS = {"responses": "ResponsesRequestToolFunction", "chat": "ChatFunctionTool"}
ANSWERS = {"responses": "FunctionCallOutputItem", "chat": "ChatToolMessage"}
CALLS = {"responses": "OutputFunctionCallItem", "chat": "ChatToolCall"}
"""By the wire format: what a request offers, what goes back, what an answer calls."""
