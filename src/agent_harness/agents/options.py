"""The settings of a kind of agent, read with one clear error for each mistake; and the name of a login, without it."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from agent_harness.agents.base import Brief
from agent_harness.errors import ConfigurationError


def checked(kind: str, settings: Mapping[str, Any], known: Iterable[str]) -> Mapping[str, Any]:
    """The settings as they are, once every name in them is known; raises ``ConfigurationError``."""
    names = tuple(known)
    unknown = sorted(set(settings) - set(names))
    if unknown:
        raise ConfigurationError(
            f"agent.{unknown[0]}: a {kind} agent has no such setting; it has {', '.join(f'`{name}`' for name in names)}"
        )
    return settings


def text(settings: Mapping[str, Any], name: str) -> str | None:
    """A text that is not empty, or ``None`` where the setting is not there."""
    found = settings.get(name)
    if found is None:
        return None
    if not isinstance(found, str) or not found.strip():
        raise ConfigurationError(f"agent.{name} must be a text")
    return found.strip()


def one_of(settings: Mapping[str, Any], name: str, allowed: tuple[str, ...], default: str) -> str:
    """One of the allowed words."""
    found = text(settings, name) or default
    if found not in allowed:
        raise ConfigurationError(f"agent.{name} is {found!r}; it must be one of {', '.join(allowed)}")
    return found


def words(settings: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A list of texts, empty where the setting is not there."""
    found = settings.get(name, [])
    if not isinstance(found, list) or not all(isinstance(word, str) and word for word in found):
        raise ConfigurationError(f"agent.{name} must be a list of texts")
    return tuple(found)


def account(provider: str, *, key: str | None = None, place: str | None = None) -> str:
    """A name for whom a provider counts requests: by the key, else by the folder of the login, else the provider.

    The same key gives the same name, and the key cannot be found from it.
    """
    if key:
        return f"{provider}:key-{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:12]}"
    return f"{provider}:{place}" if place else provider


def model(own: str | None, brief: Brief, *, wins: bool) -> str | None:
    """The model of a turn: the agent's own if it ``wins``, else one chosen in the settings, else its own, if any."""
    if wins and own:
        return own
    return brief.model if brief.model_chosen and brief.model else own


def switch(settings: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """True or false."""
    found = settings.get(name, default)
    if not isinstance(found, bool):
        raise ConfigurationError(f"agent.{name} must be true or false")
    return found
