"""``.harness.yaml``: read, checked, defaults filled in, every setting with its source.

settings   Config and load(): the front door
schema     every key: type, default, meaning (pydantic, imported on first use)
file       YAML to plain values with line numbers
layers     default < file < environment < flag
commands   commands that the settings leave open; file names put safely into commands
problems   what is wrong, in words
template   the file that `init` writes
"""

from agent_harness.protocols.features.config.settings import Config, Source, default_text, json_schema, load

__all__ = ["Config", "Source", "default_text", "json_schema", "load"]
