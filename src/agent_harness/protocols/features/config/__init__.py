"""Settings in ``.harness.yaml``: they are read, checked and completed with defaults; each value has its source.

settings      public API (``Config`` and ``load()``) and error messages
schema        every key with its type, default and meaning (pydantic, imported on first use)
file          YAML as plain values with line numbers; settings merged from several sources; the file that `init` writes
commands      commands that the settings omit; safe insertion of file names into commands
"""

from agent_harness.protocols.features.config.settings import Config, Source, default_text, json_schema, load

__all__ = ["Config", "Source", "default_text", "json_schema", "load"]
