"""Wire formats: how providers spell tools, calls and results. Pure; knows no toolset and no provider's library."""

from sandbox_skills.toolsets.wire_formats.arguments import decoded_arguments, replayable_arguments
from sandbox_skills.toolsets.wire_formats.calls import read_calls
from sandbox_skills.toolsets.wire_formats.definitions import WIRE_FORMATS, WireFormat, definitions
from sandbox_skills.toolsets.wire_formats.gemini_schema import gemini_schema
from sandbox_skills.toolsets.wire_formats.names import ToolNames
from sandbox_skills.toolsets.wire_formats.results import META, result_item

__all__ = [
    "META",
    "WIRE_FORMATS",
    "ToolNames",
    "WireFormat",
    "decoded_arguments",
    "definitions",
    "gemini_schema",
    "read_calls",
    "replayable_arguments",
    "result_item",
]
