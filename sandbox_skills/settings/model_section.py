"""The section `model`: which model is asked, where, and when a run of it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

from sandbox_skills.controller.client_options import ClientOptions, WireName
from sandbox_skills.controller.defaults import CONCURRENCY, DEFAULT_STEPS, MAX_OUTPUT_TOKENS, MAX_TOOL_OUTPUT
from sandbox_skills.outgoing.retry_policy import RetryPolicy
from sandbox_skills.settings.section import Section

if TYPE_CHECKING:
    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.controller.options import ControllerOptions
    from sandbox_skills.settings.kinds import Annotated, Count, Field, JsonText, Seconds, SecretStr

_CLIENT = ClientOptions()
_RETRY = RetryPolicy()


class ModelSettings(Section):
    """What is asked and how, as `controller.ControllerOptions` and `controller.ClientOptions`. Null: not sent."""

    name: str | None = None
    fallbacks: tuple[str, ...] = ()
    base_url: str = _CLIENT.base_url
    api_key: SecretStr | None = None
    wire: WireName = _CLIENT.wire
    stream: bool = _CLIENT.stream
    proxy: str | None = None
    referer: str = _CLIENT.referer
    title: str = _CLIENT.title
    provider: JsonText | None = None
    reasoning: JsonText | None = None
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    max_output_tokens: Count = MAX_OUTPUT_TOKENS
    tool_choice: str = "auto"
    parallel_tool_calls: bool | None = None
    max_steps: Count | None = DEFAULT_STEPS
    max_tokens: Count | None = None
    max_cost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    max_seconds: Seconds | None = None
    concurrency: Count = CONCURRENCY
    tool_seconds: Seconds | None = None
    max_tool_output: Count = MAX_TOOL_OUTPUT
    inject_instructions: bool = False
    forget: bool = True
    connect_seconds: Seconds = _CLIENT.connect_seconds
    idle_seconds: Seconds = _CLIENT.idle_seconds
    answer_seconds: Seconds = _CLIENT.answer_seconds
    attempts: Count = _RETRY.attempts
    retry_seconds: Seconds = _RETRY.seconds

    def client_options(self) -> ClientOptions:
        """Returns how the server is reached."""
        return ClientOptions(
            base_url=self.base_url,
            api_key=self.api_key.get_secret_value() if self.api_key is not None else "",
            wire=self.wire,
            stream=self.stream,
            connect_seconds=self.connect_seconds,
            idle_seconds=self.idle_seconds,
            answer_seconds=self.answer_seconds,
            retry=RetryPolicy(self.attempts, self.retry_seconds),
            referer=self.referer,
            title=self.title,
            proxy=self.proxy,
        )

    def controller_options(self, *, instructions: str = "") -> ControllerOptions:
        """Returns what is asked of the model; raises SettingsError where none is chosen."""
        # What only sets values, as `list` does, needs no controller.
        from sandbox_skills.controller.options import ControllerOptions  # noqa: PLC0415
        from sandbox_skills.controller.request import NamedTool  # noqa: PLC0415

        choice = cast("Literal['auto']", self.tool_choice)
        return ControllerOptions(
            model=self.name or "",
            fallbacks=self.fallbacks,
            instructions=instructions,
            provider=cast("JsonObject | None", self.provider),
            reasoning=cast("JsonObject | None", self.reasoning),
            temperature=self.temperature,
            max_output_tokens=self.max_output_tokens,
            tool_choice=choice if choice in {"auto", "none", "required"} else NamedTool(choice),
            parallel_tool_calls=self.parallel_tool_calls,
            max_steps=self.max_steps,
            max_tokens=self.max_tokens,
            max_cost=self.max_cost,
            max_seconds=self.max_seconds,
            concurrency=self.concurrency,
            tool_seconds=self.tool_seconds,
            max_tool_output=self.max_tool_output,
            inject_instructions=self.inject_instructions,
            forget=self.forget,
            sticky=self.base_url == _CLIENT.base_url,
        )
