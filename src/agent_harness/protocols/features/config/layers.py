"""Settings from several places, one over the other, with the source of each key."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agent_harness.protocols.features.config.file import Key, SettingsFile, leaves

Source = Literal["default", "file", "environment", "flag"]


@dataclass
class Layers:
    """The values so far, with the source of each key and what to call it in a message."""

    document: SettingsFile
    values: dict[str, object]
    sources: dict[Key, Source] = field(default_factory=dict)
    where: dict[Key, str] = field(default_factory=dict)

    def overlay(self, values: Mapping[str, object], source: Source) -> None:
        self.sources.update({key: source for key, value in leaves(values) if value is not None})

    def set(self, key: Key, value: object, source: Source, *, where: str | None = None) -> None:
        section = self.values
        for name in key[:-1]:
            if section.get(name) is None:
                section[name] = {}
            below = section[name]
            if not isinstance(below, dict):
                return  # the section itself is wrong; validation says so
            section = below
        section[key[-1]] = value
        self.sources[key] = source
        if where:
            self.where[key] = where

    def get(self, key: Key) -> object:
        value: object = self.values
        for name in key:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    def given(self, key: Key) -> bool:
        """True when some layer has the key, also with an empty value."""
        section = self.get(key[:-1])
        return isinstance(section, Mapping) and key[-1] in section
