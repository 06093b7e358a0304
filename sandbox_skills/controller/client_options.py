"""How a server of models is reached, and how often it is asked again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from sandbox_skills.outgoing.retry_policy import RetryPolicy

OPENROUTER = "https://openrouter.ai/api/v1"

WireName: TypeAlias = Literal["responses", "chat"]


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """How a server is reached. Times in seconds: to connect, between two pieces of an answer, for all of it.

    `referer` and `title` name the program to OpenRouter. `proxy` is an address; the environment's does not count.
    """

    base_url: str = OPENROUTER
    api_key: str = field(default="", repr=False)
    wire: WireName = "responses"
    stream: bool = True
    connect_seconds: float = 10.0
    idle_seconds: float = 120.0
    answer_seconds: float = 900.0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    referer: str = ""
    title: str = "sandbox-skills"
    proxy: str | None = None
