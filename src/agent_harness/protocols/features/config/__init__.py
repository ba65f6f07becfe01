"""Settings in ``.harness.yaml``. ``settings`` is the public API. ``schema`` defines the keys with pydantic. ``file``
reads the YAML. ``commands`` derives commands that the settings omit."""

from agent_harness.protocols.features.config.settings import Config, Source, default_text, json_schema, load

__all__ = ["Config", "Source", "default_text", "json_schema", "load"]
