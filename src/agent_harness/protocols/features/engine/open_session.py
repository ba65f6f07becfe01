"""The session under way, as recorded below ``.git`` before anything of it happens.

The record holds all that a later harness needs to recover: who runs it, the way back, and the state as it was.
Source: features.md C31, C56.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent_harness.agents import usage
from agent_harness.kernel import clock, owner
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features.project import Project

CLEANUP: JsonObject = {"id": None, "description": "Cleanup session", "test_file": ""}
"""Stands where a session's feature stands, in a session that has none."""


@dataclass(frozen=True, kw_only=True)
class OpenSession:
    """One session between its first record and its settlement."""

    session: int
    feature_id: int | None  # None: a cleanup session
    prompt_type: str
    started_at: str
    checkpoint: JsonObject  # the way back to before this session
    base: JsonObject  # the way back to before the feature's first session; the same unless this is a continuation
    rollback: JsonObject  # where a rejection goes back to: base, or the checkpoint when a person has committed since
    features: JsonObject  # features.json as it was
    state: JsonObject
    baseline: JsonObject
    costs: JsonObject
    run_id: str
    git_config: JsonObject  # the repository's own settings before the agent; pushes use no others
    phase: str = "preparing"
    harness: JsonObject = field(default_factory=dict)
    agent: JsonObject | None = None  # the process that runs the agent
    used: JsonObject = field(default_factory=dict)  # tokens and cost of the turns that ended

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "OpenSession":
        """The session that a record tells of; a record of another version keeps what is known here."""
        names = cls.__dataclass_fields__
        return cls(**{k: v for k, v in record.items() if k in names})

    def as_record(self) -> JsonObject:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def at(self, project: Project, phase: str, **changes: Any) -> "OpenSession":
        """The same session in another phase, recorded durably before this returns."""
        moved = replace(self, phase=phase, harness=owner.current().as_record(), **changes)
        project.store.write_open_session(moved.as_record())
        return moved

    @property
    def feature(self) -> JsonObject:
        if self.feature_id is None:
            return CLEANUP
        return next(f for f in self.features["features"] if f.get("id") == self.feature_id)


def totals_of(project: Project, session: int) -> usage.Totals:
    """What the usage log says a session used; the account that survives a crash of the harness."""
    from agent_harness.agents.events import Usage, event_from
    from agent_harness.kernel import journal

    totals = usage.Totals()
    for row in journal.read(project.layout.log("usage.jsonl")):
        if row.get("session") == session:
            event = event_from({**row, "type": "usage"})
            if isinstance(event, Usage):
                totals = usage.add(totals, event, str(row.get("model") or ""))
    return totals


def seconds_since(started_at: str) -> float:
    """Wall-clock seconds from an ISO moment until now."""
    started = clock.parse(started_at)
    return max(0.0, (clock.now() - started).total_seconds()) if started else 0.0
