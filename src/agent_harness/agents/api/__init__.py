"""Agent kind api: an agent that is part of the harness, for users who have only an API key.

Requires the extra ``api``. The key comes only from the environment. ``ANTHROPIC_BASE_URL`` and ``OPENAI_BASE_URL``
change the address of the requests. User page: ``docs/api-agent.md``."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agent_harness.agents import bridge, options
from agent_harness.agents.base import Agent, Brief, Capabilities, Turn
from agent_harness.errors import ConfigurationError, ToolMissing

PROGRAM = "agent_harness.agents.api.program"
HINT = "For example: --agent api:anthropic/claude-sonnet-4-6, or agent: {kind: api, provider: openai, model: gpt-5.5}"


@dataclass(frozen=True, slots=True)
class Provider:
    key: str
    prefixes: tuple[str, ...] = ()


PROVIDERS: Mapping[str, Provider] = {
    "anthropic": Provider("ANTHROPIC_API_KEY", ("claude",)),
    "openai": Provider("OPENAI_API_KEY", ("gpt", "o1", "o3", "o4", "codex")),
    "openai-chat": Provider("OPENAI_API_KEY"),
    "openai-responses": Provider("OPENAI_API_KEY"),
    "openrouter": Provider("OPENROUTER_API_KEY"),
    "deepseek": Provider("DEEPSEEK_API_KEY", ("deepseek",)),
    "moonshotai": Provider("MOONSHOTAI_API_KEY", ("kimi", "moonshot")),
}
"""Model providers that the extra's two client libraries support."""

ALIASES: Mapping[str, str] = {"claude-sonnet-4": "claude-sonnet-4-6", "claude-haiku-3": "claude-haiku-4-5"}
"""Model families that the default settings name, each with its current model (features.md C58).

If there are no settings, the first model is used.
"""


class ApiAgent(Agent):
    """Agent that runs the model loop in a separate process."""

    name = "api"
    capabilities = Capabilities(steer=True, interrupt=True, resume=True, usage=True)

    def __init__(self, provider: str | None = None, model: str | None = None, *, firm: bool = True) -> None:
        # with ``firm``, this model takes precedence over the ``models:`` settings
        self.provider = provider
        self.model = model
        self.firm = firm
        self._latest: bridge.BridgeTurn | None = None

    @classmethod
    def from_words(cls, text: str) -> "ApiAgent":
        """Return the agent for ``api``, ``api:MODEL``, ``api:PROVIDER`` or ``api:PROVIDER/MODEL``."""
        provider, slash, model = text.partition("/")
        if text in PROVIDERS or (slash and provider in PROVIDERS):
            return cls(provider, model.strip() or None)
        return cls(None, text or None)

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any], root: Path | None) -> "ApiAgent":
        """Return the agent for ``agent: {kind: api, provider: ..., model: ...}``."""
        unknown = sorted(set(settings) - {"provider", "model"})
        if unknown:
            raise ConfigurationError(
                f"agent.{unknown[0]}: an api agent has only these settings: `provider`, `model`", hint=HINT
            )
        provider, model = settings.get("provider"), settings.get("model")
        if provider is not None and provider not in PROVIDERS:
            known = ", ".join(PROVIDERS)
            raise ConfigurationError(f"agent.provider: must be one of {known}, got {provider!r}", hint=HINT)
        if model is not None and (not isinstance(model, str) or not model.strip()):
            raise ConfigurationError("agent.model must be the name of a model", hint=HINT)
        return cls(provider, model, firm=False)

    @property
    def account(self) -> str:
        # all models of one key share the account
        provider = self._provider(self.model)
        key = PROVIDERS[provider].key
        return options.account(key.partition("_")[0].lower(), key=os.environ.get(key))

    def problem(self) -> str | None:
        return _problem(self._provider(self.model))

    def start(self, brief: Brief) -> Turn:
        provider, model = self.choice(brief)
        problem = _problem(provider)
        if problem:
            raise ToolMissing(problem, hint="run `harness doctor` to see what each agent needs")
        if model is None:
            raise ToolMissing(f"the api agent needs a model name for {provider}", hint=HINT)
        key = PROVIDERS[provider].key
        # Tries of a request with a malformed answer or none: sessions on features make further tries themselves.
        tries = 2 if brief.task_id is not None else 1
        latest = self._latest
        same = latest is not None and brief.conversation is not None and latest.conversation == brief.conversation
        turn = bridge.start(
            PROGRAM,
            brief,
            settings={"provider": provider, "model": model, "key": key, "tries": tries},
            kept=latest.kept if latest is not None and same else None,
            credentials={key: os.environ[key]},
        )
        self._latest = turn
        return turn

    def choice(self, brief: Brief) -> tuple[str, str | None]:
        """Return the provider and the model name for a turn. The name is None if no model is known."""
        chosen = brief.model if brief.model_chosen else None
        model = (self.model or chosen) if self.firm else (chosen or self.model)
        provider = self._provider(model)
        if model is None and provider == "anthropic":
            model = brief.model or next(iter(ALIASES))
        return provider, ALIASES.get(model, model) if provider == "anthropic" and model else model

    def _provider(self, model: str | None) -> str:
        if self.provider:
            return self.provider
        for name, provider in PROVIDERS.items():
            if model and provider.prefixes and model.startswith(provider.prefixes):
                return name
        return next((name for name, provider in PROVIDERS.items() if os.environ.get(provider.key)), "anthropic")


def _problem(provider: str) -> str | None:
    if find_spec("pydantic_ai") is None or find_spec("anthropic") is None:
        from agent_harness.installation import command_for_extra

        return f"the api agent needs an extra: {command_for_extra('api')}"
    key = PROVIDERS[provider].key
    return None if os.environ.get(key) else f"the api agent needs an API key for {provider} in {key}"
