"""Whether the agent showed that it ran its tests: necessary for a claim, never sufficient. Source: features.md C20."""

import re
from dataclasses import dataclass, replace

from agent_harness.agents.events import Event, Text, ToolCall, ToolResult
from agent_harness.agents.markers import pytest_result


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the stream has shown so far about one test file; the latest result line counts."""

    test_file: str  # as the feature names it; a ``::node`` part is no part of the file's name
    named: bool = False
    result: str | None = None  # e.g. "4 passed in 0.12s"

    @property
    def shown(self) -> bool:
        """True when the test file was named and a pytest result line was seen, in whatever order."""
        return self.named and self.result is not None

    @property
    def passed(self) -> bool:
        """True when the latest result line tells of passed tests and of none that failed."""
        return " passed" in f" {self.result or ''}" and not re.search(r"failed|error", self.result or "")

    def after(self, event: Event) -> "Evidence":
        """The evidence with what this event shows."""
        if isinstance(event, ToolCall):
            texts = [value for value in event.input.values() if isinstance(value, str)]
            return self._naming("\n".join(texts)) if not self.named else self
        text = event.text if isinstance(event, Text) else event.output if isinstance(event, ToolResult) else ""
        return self._with_result(text)._naming(text) if text else self

    def _naming(self, text: str) -> "Evidence":
        path = self.test_file.split("::", 1)[0].removeprefix("./")
        if self.named or not path or path not in text:
            return self
        found = re.search(rf"(?<![\w-]){re.escape(path)}(?!\w)", text)
        return replace(self, named=True) if found else self

    def _with_result(self, text: str) -> "Evidence":
        if " in " not in text:
            return self
        found = [one for one in map(pytest_result, text.split("\n")) if one]
        return replace(self, result=found[-1]) if found else self
