"""Tools of the caller's own beside those of toolsets: functions, generators that tell progress, and manual ones."""

from __future__ import annotations

import inspect
import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast, get_type_hints

from anyio import to_thread
from pydantic import BaseModel, TypeAdapter

from sandbox_skills.catalog.text import one_line
from sandbox_skills.errors import SandboxSkillsError, SettingsError
from sandbox_skills.toolsets.arguments import read_arguments, schema_of
from sandbox_skills.toolsets.base import ToolResult

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from sandbox_skills.catalog.manifest_json import JsonObject, JsonValue
    from sandbox_skills.toolsets.base import ToolCall

    Say = Callable[[str], None]

logger = logging.getLogger(__name__)

MAX_ERROR = 500
"""Characters of an error that a function raised: what a model can make use of."""

_NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}, "required": []}
_JSON = TypeAdapter(object)


class Execute(Protocol):
    """Answers a call. `say` tells people of the progress. Raises SandboxSkillsError for one that cannot be done."""

    async def __call__(self, call: ToolCall, say: Say, /) -> JsonValue: ...


@dataclass(frozen=True, slots=True)
class OwnTool:
    """One tool. `execute` None makes it manual: the run waits until the caller brings the output."""

    name: str
    description: str
    parameters: JsonObject = field(default_factory=lambda: dict(_NO_PARAMETERS), hash=False)
    execute: Execute | None = None
    needs_approval: bool = False

    async def run(self, call: ToolCall, say: Say) -> ToolResult:
        """Answers a call; whatever goes wrong is told to the model."""
        assert self.execute is not None
        try:
            return ToolResult(await self.execute(call, say))
        except SandboxSkillsError as error:
            text = f"Error: {error.message}" + (f"\n{error.hint}" if error.hint else "")
            return ToolResult(text, status="rejected", code=error.code, is_error=True)
        except Exception as error:  # noqa: BLE001  # the caller's function may raise anything
            return failed_result(self.name, error)


def failed_result(name: str, error: Exception) -> ToolResult:
    """Returns what the model is told of code of the caller's that failed; the log has all of it."""
    logger.error("the tool %s failed", name[:128], exc_info=error)
    text = one_line(f"Error: {type(error).__name__}: {error}", MAX_ERROR)
    return ToolResult(text, code="tool_failed", is_error=True)


def function_tool(
    function: Callable[..., Any],
    *,
    name: str = "",
    description: str = "",
    arguments: type[BaseModel] | None = None,
    needs_approval: bool = False,
) -> OwnTool:
    """Makes a tool of a function that takes one pydantic model, or nothing.

    It may be plain, which runs in a thread and goes on there, unheard, when its call is stopped; a coroutine; or an
    async generator: all it yields but the last is progress, the last is the result. Its docstring is the description;
    `arguments` is the model where its annotation cannot be found. Raises SettingsError for a function of another form.
    """
    model = arguments or _model_of(function)
    return OwnTool(
        name=name or function.__name__,
        description=description or inspect.getdoc(function) or "",
        parameters=dict(_NO_PARAMETERS) if model is None else schema_of(model),
        execute=partial(_execute, function, model),
        needs_approval=needs_approval,
    )


def _model_of(function: Callable[..., Any]) -> type[BaseModel] | None:
    given = list(inspect.signature(function).parameters.values())
    if not given:
        return None
    model = _resolved(function, given[0].annotation)
    if len(given) == 1 and isinstance(model, type) and issubclass(model, BaseModel):
        return model
    raise SettingsError(
        f"the function {function.__name__} must take one pydantic model, or nothing",
        hint="Annotate its parameter, or give the model as `arguments`.",
    )


def _resolved(function: Callable[..., Any], annotation: object) -> object:
    """Returns what one annotation names; others of the function may name what only type checkers import."""

    def alone() -> None: ...

    alone.__annotations__ = {"it": annotation}
    try:
        return get_type_hints(alone, getattr(function, "__globals__", {})).get("it")
    except NameError:
        return None


async def _execute(
    function: Callable[..., Any], model: type[BaseModel] | None, call: ToolCall, say: Say
) -> JsonValue:
    given = () if model is None else (read_arguments(model, call),)
    if inspect.isasyncgenfunction(function):
        return _plain(await _last(function(*given), say))
    if inspect.iscoroutinefunction(function):
        return _plain(await function(*given))
    return _plain(await to_thread.run_sync(function, *given, abandon_on_cancel=True))


async def _last(values: AsyncIterator[object], say: Say) -> object:
    """Returns the last value of a generator, having said those before it."""
    last: object = None
    seen = False
    async for value in values:
        if seen:
            say(last if isinstance(last, str) else str(last))
        last, seen = value, True
    return last


def _plain(value: object) -> JsonValue:
    """Returns a function's result as JSON has it; raises ValueError for one that it has not."""
    if value is None:
        return "done"
    return cast("JsonValue", _JSON.dump_python(value, mode="json"))
