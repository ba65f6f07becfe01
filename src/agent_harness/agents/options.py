"""Functions that read the settings of an agent kind and raise an error for each mistake. Another function makes account
names.

``ClientAgent`` is the base class of agents that run a client with its own settings."""

import hashlib
import shutil
from abc import ABC
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from agent_harness.agents.base import Agent, Brief, Capabilities
from agent_harness.errors import ConfigurationError, ToolMissing


def checked(kind: str, settings: Mapping[str, Any], known: Iterable[str]) -> Mapping[str, Any]:
    """Return the settings unchanged. Raise ``ConfigurationError`` for a name that is not in ``known``."""
    names = tuple(known)
    unknown = sorted(set(settings) - set(names))
    if unknown:
        raise ConfigurationError(
            f"agent.{unknown[0]}: a {kind} agent has only these settings: {', '.join(f'`{name}`' for name in names)}"
        )
    return settings


def text(settings: Mapping[str, Any], name: str) -> str | None:
    found = settings.get(name)
    if found is None:
        return None
    if not isinstance(found, str) or not found.strip():
        raise ConfigurationError(f"agent.{name} must be a string that is not empty")
    return found.strip()


def one_of(settings: Mapping[str, Any], name: str, allowed: tuple[str, ...], default: str) -> str:
    found = text(settings, name) or default
    if found not in allowed:
        raise ConfigurationError(f"agent.{name} is {found!r}; it must be one of {', '.join(allowed)}")
    return found


def words(settings: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = settings.get(name, [])
    if not isinstance(found, list) or not all(isinstance(word, str) and word for word in found):
        raise ConfigurationError(f"agent.{name} must be a list of strings")
    return tuple(found)


def account(provider: str, *, key: str | None = None, place: str | None = None) -> str:
    """Return a name for the account. It identifies the login but does not reveal the key."""
    if key:
        return f"{provider}:key-{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:12]}"
    return f"{provider}:{place}" if place else provider


def model(own: str | None, brief: Brief, *, wins: bool) -> str | None:
    """Return the model to use. If ``wins`` is True, ``own`` takes precedence over the model in the settings."""
    if wins and own:
        return own
    return brief.model if brief.model_chosen and brief.model else own


def switch(settings: Mapping[str, Any], name: str, *, default: bool) -> bool:
    found = settings.get(name, default)
    if not isinstance(found, bool):
        raise ConfigurationError(f"agent.{name} must be true or false")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings(ABC):
    """Settings that all clients have. A subclass reads its further settings in ``own``."""

    kind: ClassVar[str]
    program: str = ""
    model: str | None = None
    model_wins: bool = False  # named with the agent itself (`KIND:MODEL`): before the models of the settings

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> Self:
        known = checked(cls.kind, settings, (each.name for each in fields(cls) if each.name != "model_wins"))
        program = text(known, "program") or cls().program
        return cls(program=program, model=text(known, "model"), **cls.own(known))

    @classmethod
    def own(cls, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}


Chosen = TypeVar("Chosen", bound=ClientSettings)


class ClientAgent(Agent, Generic[Chosen]):
    """Agent that runs a third-party client."""

    capabilities = Capabilities(steer=True, interrupt=True, resume=True, usage=True)
    settings_class: type[Chosen]
    install: str  # how to install a missing client

    def __init__(self, settings: Chosen | None = None) -> None:
        self.settings: Chosen = settings or self.settings_class()

    @classmethod
    def from_words(cls, text: str) -> Self:
        """Return the agent for ``--agent KIND`` or ``--agent KIND:MODEL``."""
        return cls(cls.settings_class(model=text.strip() or None, model_wins=True))

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any], root: Path | None) -> Self:
        return cls(cls.settings_class.read(settings))

    def problem(self) -> str | None:
        if shutil.which(self.settings.program) is None:
            return f"the agent's program {self.settings.program!r} is not installed or not executable"
        return None

    def demand(self) -> None:
        if why := self.problem():
            raise ToolMissing(why, hint=None if shutil.which(self.settings.program) else self.install)
