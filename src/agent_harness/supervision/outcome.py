"""How a turn ended: the record that everybody above supervision decides by (``docs/architecture.md``)."""

from dataclasses import dataclass

from agent_harness.agents import usage
from agent_harness.agents.events import RateLimited
from agent_harness.kernel.rate_limits import RateLimit
from agent_harness.supervision.evidence import Evidence


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
