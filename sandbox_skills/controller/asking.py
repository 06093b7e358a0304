"""One question to the model: the request that is made of the conversation, and repairs where it is refused for that.

Each repair is tried once for a question, and what it leaves is the conversation from then on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

from sandbox_skills.controller.failures import Repair, repair_of
from sandbox_skills.controller.history import paired, trimmed, user_message, without_reasoning
from sandbox_skills.controller.loop import progress_of
from sandbox_skills.controller.request import ModelRequest
from sandbox_skills.controller.spans import model_span, tell_answer
from sandbox_skills.errors import ContextOverflowError, ModelError

if TYPE_CHECKING:
    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.controller.hooks import Hooks
    from sandbox_skills.controller.loop import LoopState, Offer
    from sandbox_skills.controller.openrouter import Listener
    from sandbox_skills.controller.options import ControllerOptions
    from sandbox_skills.controller.request import ToolChoice
    from sandbox_skills.controller.tools import Tools
    from sandbox_skills.controller.turn import Answer
    from sandbox_skills.toolsets.base import Conversation

LAST_WORD = "Stop here: no more tools can be used now. Answer with what you have, and say what is left to do."
"""What a limit has the model told in its last request; it is not kept."""

MAX_SESSION = 256
"""Characters of a session's id, as OpenRouter takes it."""


Mending = Repair | Literal["room"]
"""What is done to a history: something left out, or room made."""


class ModelClient(Protocol):
    """What answers requests, as `openrouter.OpenRouterClient`."""

    async def ask(self, request: ModelRequest, listener: Listener | None = None) -> Answer:
        """Returns the answer; raises ModelError."""
        ...

    async def aclose(self) -> None:
        """Ends its connections; the next request makes new ones."""
        ...


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks the model for one conversation."""

    client: ModelClient
    tools: Tools
    options: ControllerOptions
    hooks: Hooks
    conversation: Conversation

    async def ask(self, state: LoopState, choice: Offer, listener: Listener) -> tuple[LoopState, Answer]:
        """Returns the answer, and the state with a history that was mended where it had to be."""
        tried: set[Mending] = set()
        while True:
            try:
                answer = await self._once(state, choice, listener)
                if not _found_no_room(answer) or "room" in tried:
                    return state, answer
                mending: Mending = "room"
            except ModelError as error:
                found = "room" if isinstance(error, ContextOverflowError) else repair_of(error)
                if found is None or found in tried:
                    raise
                mending = found
            tried.add(mending)
            state = replace(state, items=tuple(self._mended(state, mending)))

    def _mended(self, state: LoopState, mending: Mending) -> list[JsonObject]:
        match mending:
            case "reasoning":
                return without_reasoning(state.items)
            case "calls":
                return paired(state.items)
            case "room":
                return trimmed(state.items, self.options.trim, state.pinned)

    async def _once(self, state: LoopState, choice: Offer, listener: Listener) -> Answer:
        request = await self._request(state, choice)
        with model_span(request) as span:
            answer = await self.client.ask(request, listener)
            tell_answer(span, answer)
        self.tools.request_made(self.conversation)
        return answer

    async def _request(self, state: LoopState, choice: Offer) -> ModelRequest:
        options = self.options
        items = await self.tools.rewritten(state.items, self.conversation)
        if choice == "none":
            items.append(user_message(LAST_WORD))
        request = ModelRequest(
            model=options.model,
            items=tuple(items),
            instructions=await self._instructions(state),
            tools=await self.tools.definitions(self.conversation),
            tool_choice=_choice(choice, options.tool_choice),
            parallel_tool_calls=options.parallel_tool_calls,
            max_output_tokens=options.max_output_tokens,
            fallbacks=options.fallbacks,
            provider=options.provider,
            reasoning=options.reasoning,
            temperature=options.temperature,
            session_id=self.conversation.id[:MAX_SESSION] if options.sticky else "",
        )
        if self.hooks.before_request is not None:
            request = await self.hooks.before_request(request, progress_of(state))
        return request

    async def _instructions(self, state: LoopState) -> str:
        prompt = await self.tools.prompt(self.conversation, _latest_words(state))
        return "\n\n".join(part for part in (self.options.instructions, prompt, *state.instructions) if part)


def _choice(now: Offer, first: ToolChoice) -> ToolChoice:
    """Returns the tool choice; one that demands a call would demand the next one, too, for ever."""
    return first if now == "first" else now


def _found_no_room(answer: Answer) -> bool:
    """Tells whether an answer is empty because the conversation fills the model: some servers call that a success."""
    return answer.incomplete == "max_output_tokens" and not answer.items


def _latest_words(state: LoopState) -> str:
    """Returns what the user said last, by which skills may be ranked."""
    said = (item.get("content") for item in reversed(state.items) if item.get("role") == "user")
    return next((text for text in said if isinstance(text, str)), "")
