"""Record of the running session, with everything that a recovery needs. It is written before the session changes
anything. Source: features.md C31, C56."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent_harness.agents import usage
from agent_harness.errors import StateDamaged
from agent_harness.kernel import clock, owner
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import lifecycle
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import CLEANUP, Baseline, CostRecord, Feature, FeatureList, SessionState
from agent_harness.protocols.features.sessions.checkpoints import SessionCheckpoint


@dataclass(frozen=True, kw_only=True)
class OpenSession:
    """Session that has begun and whose finalization is not complete."""

    session: int
    feature_id: int | None  # None: a cleanup session
    prompt_type: str
    started_at: str
    checkpoint: SessionCheckpoint  # the rollback point from before this session
    base: SessionCheckpoint  # the one from before the feature's first session; the same unless this is a continuation
    rollback: SessionCheckpoint  # of a rejection: base, or the checkpoint when a person has committed since
    features: FeatureList  # features.json as it was
    state: SessionState
    baseline: Baseline
    costs: CostRecord
    run_id: str
    git_config: JsonObject  # the repository's own settings before the agent; pushes use no others
    phase: str = "preparing"
    harness: JsonObject = field(default_factory=dict)
    agent: JsonObject | None = None  # the process that runs the agent
    agent_name: str = ""  # its kind
    model: str | None = None  # that a person had it asked to use
    used: JsonObject = field(default_factory=dict)  # tokens and cost of the turns that ended
    verdict: JsonObject | None = None  # on its latest claim, for the ledger, where the finalization writes it

    @classmethod
    def from_record(cls, record: JsonObject) -> "OpenSession":
        try:
            known: JsonObject = {name: record[name] for name in cls.__dataclass_fields__ if name in record}
            known |= {name: parse(known[name] or {}) for name, parse in PARSERS.items()}
            return cls(**known)
        except (TypeError, KeyError, AttributeError) as error:
            raise StateDamaged(f"The record of the running session is incomplete: {error}") from None

    def as_record(self) -> JsonObject:
        return {n: getattr(self, n).record if n in PARSERS else getattr(self, n) for n in self.__dataclass_fields__}

    def at(self, project: Project, phase: str, **changes: Any) -> "OpenSession":
        """Record durably that the session has reached ``phase``. Return the changed session."""
        moved = replace(self, phase=phase, harness=owner.current().as_record(), **changes)
        project.store.write_open_session(moved.as_record())
        return moved

    def event(self, project: Project, kind: str, level: str = "important", **fields: object) -> None:
        project.store.event(kind, level, session=self.session, feature_id=self.feature_id, **fields)

    def state_after(self, status: str, **facts: Any) -> SessionState:
        """Return the session state to store if the session ends now."""
        ending = lifecycle.SessionEnding(
            session=self.session, feature_id=self.feature_id, status=status, at=clock.timestamp(), **facts
        )
        return lifecycle.after_session(self.state, ending)

    @property
    def feature(self) -> Feature:
        feature = self.features.by_id(self.feature_id) if self.feature_id is not None else CLEANUP
        if feature is None:
            raise StateDamaged(f"Feature #{self.feature_id} of the running session is not in features.json")
        return feature


PARSERS: Mapping[str, Callable[[JsonObject], Any]] = {
    **dict.fromkeys(("checkpoint", "base", "rollback"), SessionCheckpoint.from_record),
    "features": FeatureList,
    "state": SessionState,
    "baseline": Baseline,
    "costs": CostRecord,
}


def totals_of(project: Project, session: int) -> usage.Totals:
    """Return the session's tokens and cost from ``usage.jsonl``."""
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
    """Return the seconds since an ISO timestamp, or 0 for an invalid timestamp."""
    started = clock.parse(started_at)
    return max(0.0, (clock.now() - started).total_seconds()) if started else 0.0
