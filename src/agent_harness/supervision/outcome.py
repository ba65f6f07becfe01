"""How a turn ended: the record that everybody above supervision decides by, and what it showed of its tests.

Evidence is necessary for a claim, never sufficient. Source: ``docs/architecture.md``; features.md C20.
"""

import re
from dataclasses import dataclass, replace

from agent_harness.agents import usage
from agent_harness.agents.events import Event, RateLimited, Text, ToolCall, ToolResult
from agent_harness.agents.markers import pytest_result
from agent_harness.kernel.rate_limits import RateLimit


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one turn ended and what it used. Nothing here says whether the work is good.

    ``reason``: ``finished`` (by itself, well or badly: see ``ok``), ``rate_limited``, ``context_limit``, ``timeout``,
    ``stuck``, ``budget_exceeded``, ``user_pause``, ``no_response`` (nothing was heard for too long), ``error`` (the
    adapter gave up).
    """

    reason: str
    ok: bool  # finished by itself, and well
    exit_code: int | None
    message: str
    usage: usage.Totals
    steered: tuple[str, ...]  # what the agent was told
    not_delivered: tuple[str, ...]  # what it should have been told, and could not be
    text_tail: str  # the last text, redacted
    evidence: Evidence | None
    rate_limit: RateLimited | None  # the last refusal, with the moment of the reset where it is known
    conversation: str | None
    seconds: float  # real ones
    problems: tuple[str, ...]  # what could not be written or found out on the way
    limit: RateLimit | None = None  # until when the agent's account is refused, as the durable clock has it

    @property
    def evidence_shown(self) -> bool:
        """True when the stream named the test file and showed a pytest result line."""
        return self.evidence is not None and self.evidence.shown
