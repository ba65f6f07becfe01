"""``.harness.yaml``: read, checked, defaults filled in, every setting with its source.

settings Config and load(): the public API; error messages schema every key: type, default, meaning (pydantic, imported
on first use) file YAML to plain values with line numbers, their layers; the file that `init` writes commands commands
that the settings leave open; file names put safely into commands
"""

from agent_harness.protocols.features.config.settings import Config, Source, default_text, json_schema, load

__all__ = ["Config", "Source", "default_text", "json_schema", "load"]
