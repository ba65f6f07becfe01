"""What a face shows of a project, in the same frozen values whatever the protocol: a command, a view, a page.

They are read from the records on disk alone, so that they are the same for a run of this program, of another one, and
of one that has died. What is not known is ``None``. Source: ``faces.md`` F-REC-4, F-REC-7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agent_harness.kernel import clock, owner
from agent_harness.kernel.json import JsonObject

__all__ = ["Now"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """What one session does, or did when it was heard of last."""

    item: str | None = None  # for people: "Feature #3", "task-001"
    title: str = ""
    session: int | None = None
    turn: int = 0
    run: str | None = None  # the tag of the agent's processes
    phase: str = ""  # preflight, agent, judging, settling, waiting
    step: str | None = None  # of the judging: guard, proof, suite, red, lint, criterion
    since: datetime | None = None  # when the phase began
    began: datetime | None = None  # when the session did
    until: datetime | None = None  # the end of the wait
    agent: str = ""
    model: str | None = None
    tokens: Mapping[str, int] | None = None  # input, output, cached
    cost_usd: float | None = None
    cost_unknown: bool = False  # something was used whose price nobody knows
    session_left: float | None = None  # US dollars of each budget
    item_left: float | None = None
    project_left: float | None = None
    last: tuple[str, ...] = ()  # what the agent said or did last
    can: tuple[str, ...] = ()  # the verbs that reach the session while it runs
    alive: bool = False  # the process that wrote it lives, as the process table says
    seen: datetime | None = None  # when it was written

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Now:
        """The value that a record tells of; a member of another type counts as missing."""
        who = owner.Owner.from_record(record.get("owner"))
        tokens, budget = record.get("tokens"), record.get("budget")
        left = budget if isinstance(budget, dict) else {}
        known: JsonObject = {name: parse(record.get(name)) for name, parse in _NOW.items()}
        known |= {name: amount(left.get(name)) for name in ("session_left", "item_left", "project_left")}
        known |= {name: known[name] or "" for name in ("title", "phase", "agent")}
        known["turn"] = known["turn"] or 0
        known["tokens"] = (
            {str(k): n for k, n in tokens.items() if whole(n) is not None} if isinstance(tokens, dict) else None
        )
        unknown = record.get("cost_unknown") is True
        return cls(**known, cost_unknown=unknown, alive=who is not None and owner.state(who) == "alive")

    @property
    def limit_usd(self) -> float | None:
        """What the session may cost in all."""
        return None if self.session_left is None else self.session_left + (self.cost_usd or 0.0)

    def line(self, at: datetime | None = None) -> str:
        """The session for a person: what it works on, its step and for how long, tokens, cost and its pace.

        What is not known is not shown. The clock of a dead one has stopped: when it was heard of last is said instead.
        """
        at = at or clock.now()
        name = f"{self.item or 'session'} ({self.agent})"
        if not self.alive:
            return f"{name}: stopped, last seen {self.seen.astimezone():%H:%M}" if self.seen else f"{name}: stopped"
        parts = [self._doing(at)]
        if self.tokens is not None:
            parts.append(f"{_short(self.tokens.get('input', 0))} in {_short(self.tokens.get('output', 0))} out")
            parts.append(self._cost())
            minutes = (at - self.began).total_seconds() / 60 if self.began else 0.0
            if self.cost_usd and minutes >= 1:
                parts.append(f"${self.cost_usd / minutes:.2f}/min")
        return f"{name}: {', '.join(parts)}"

    def _doing(self, at: datetime) -> str:
        if self.phase == "waiting" and self.until:
            return f"waiting until {self.until.astimezone():%H:%M}"
        since = clock_face((at - self.since).total_seconds()) if self.since else ""
        return f"{self.phase} {since}{f' ({self.step})' if self.step else ''}".strip()

    def _cost(self) -> str:
        if self.cost_usd is None or self.cost_unknown:
            return "cost unknown"
        return f"${self.cost_usd:.2f}" + (f" of ${self.limit_usd:.2f}" if self.limit_usd is not None else "")


def clock_face(seconds: float) -> str:
    """``0:42``, ``1:02:22``."""
    spent = max(0, int(seconds))
    hours, minutes = spent // 3600, spent // 60 % 60
    return f"{hours}:{minutes:02}:{spent % 60:02}" if hours else f"{minutes}:{spent % 60:02}"


def _short(count: int) -> str:
    return f"{count / 1000:.1f}k" if count >= 1000 else str(count)


# ---- members of a record, read safely whatever they are


def text(value: object) -> str | None:
    """A string."""
    return value if isinstance(value, str) else None


def texts(value: object) -> tuple[str, ...]:
    """The strings of a list; none where it is no list."""
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def whole(value: object) -> int | None:
    """A whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def amount(value: object) -> float | None:
    """A number that can be a sum of money or a time."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and -1e12 < value < 1e12
    return float(value) if known else None  # type: ignore[arg-type]  # a number by now


_NOW = {
    **dict.fromkeys(("item", "run", "step", "model", "title", "phase", "agent"), text),
    **dict.fromkeys(("since", "began", "until", "seen"), clock.parse),
    **dict.fromkeys(("last", "can"), texts),
    **dict.fromkeys(("session", "turn"), whole),
    "cost_usd": amount,
}
