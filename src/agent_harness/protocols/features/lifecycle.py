"""The legal states of a project between sessions, how one session's ending moves it, and which
feature comes next, or why none does. Pure, and light enough for `status`.

    status      complete   the feature was accepted, or there was nothing to finish
                partial    work is kept as a WIP commit; the next session continues it
                failed     rolled back; the next session starts the feature afresh
    next_prompt coding, continuation, cleanup

Source: features.md section G, C03, C05, C07, C08, C35, C64; UAH-452..456, C13, C53.
"""

from dataclasses import dataclass, field

from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features.records import Feature, FeatureList, SessionState

REASONS = ("complete", "context_limit", "timeout", "stuck", "user_pause", "error", "budget_exceeded")

UNCOUNTED_REASONS = frozenset({"user_pause", "error"})
"""Endings that are not the feature's fault and so never raise stuck_count (C35)."""


@dataclass(frozen=True, kw_only=True)
class SessionEnding:
    """How one session ended, as far as the next session needs to know."""

    session: int
    feature_id: int | None
    status: str  # complete, partial, failed
    reason: str = "complete"
    at: str
    kept_work: bool = False  # a WIP commit of this feature exists
    counted: bool = True  # False: a person decides what it is worth, and nothing is counted before
    failure: str | None = None  # why it was rejected, for the next orientation
    partial: JsonObject | None = None  # what is done, left and under way
    red_tests: tuple[str, ...] = ()  # baseline tests that the WIP leaves failing (C15)
    checkpoint: JsonObject | None = None  # the rollback point from before the feature's first session
    wip_commit: str | None = None  # the head of the branch that the hand-off leaves
    summary: JsonObject = field(default_factory=dict)  # completed, commits, status: for the next orientation


def after_session(state: SessionState, ending: SessionEnding) -> SessionState:
    """The session state that follows."""
    partial = ending.status == "partial"
    continues = partial and ending.kept_work
    return state.but(
        last_session=ending.session,
        status=ending.status,
        current_feature=ending.feature_id,
        termination_reason=None if ending.reason == "complete" else ending.reason,
        next_prompt="continuation" if continues else "coding",
        stuck_count=_stuck_count(state, ending),
        verification_failures=_failures(state, ending),
        timeout_count=state.timeout_count + (ending.reason == "timeout"),
        timestamp=ending.at,
        feature_checkpoint=ending.checkpoint if continues else None,
        wip_commit=ending.wip_commit if continues else None,
        partial=ending.partial if partial and ending.partial else None,
        wip_red_tests=list(ending.red_tests) if partial else [],
        last_failure=ending.failure,
        last_session_summary=ending.summary,
    )


def _stuck_count(state: SessionState, ending: SessionEnding) -> int:
    if ending.status == "complete":
        return 0
    before = state.stuck_count if state.current_feature == ending.feature_id else 0
    return before + (ending.counted and ending.reason not in UNCOUNTED_REASONS)


def _failures(state: SessionState, ending: SessionEnding) -> dict[str, int]:
    """Sessions of each open feature whose claim was rejected, whatever came between them (C35)."""
    counted, name = dict(state.failures), str(ending.feature_id)
    if ending.status == "complete":
        counted.pop(name, None)
    elif ending.status == "failed" and ending.counted:
        counted[name] = counted.get(name, 0) + 1
    return counted


def prompt_type(state: SessionState) -> tuple[str, str]:
    """The next session's prompt type, and why in a few words."""
    if state.next_prompt == "cleanup":
        return "cleanup", "enough features are complete, or a person asked for it"
    if state.next_prompt == "continuation" and state.current_feature is not None:
        return "continuation", f"Feature #{state.current_feature} is partial"
    if not state.last_session:
        return "coding", "first session"
    words = {"complete": "completed", "failed": "failed and was rolled back", "partial": "ended without changes"}
    return "coding", f"previous session {words.get(str(state.status), 'ended')}"


def is_stuck(state: SessionState, max_stuck_sessions: int) -> bool:
    """Whether a person has to decide before this feature is tried again (C35)."""
    return state.stuck_count >= max_stuck_sessions


class Choice:
    """What to work on. ``feature`` is ``None`` when nothing is eligible; then ``waiting`` says what for."""

    __slots__ = ("all_proven", "feature", "waiting")

    def __init__(self, feature: Feature | None, *, all_proven: bool = False, waiting: tuple[str, ...] = ()) -> None:
        self.feature = feature
        self.all_proven = all_proven
        self.waiting = waiting


def next_feature(document: FeatureList, state: SessionState) -> Choice:
    """The partial feature of ``state`` first (UAH-462), then those that a session broke for good (C10).

    Else the eligible one of lowest priority value, then id. Eligible: not proven, not skipped by a person, not waiting
    for one or for their answer about a kept candidate, every dependency proven, or skipped in a way that keeps nobody
    waiting.
    """
    partial = document.by_id(state.current_feature) if state.next_prompt == "continuation" else None
    if partial is not None and partial.is_open:
        return Choice(partial)
    done = settled(document)
    kept = _kept(state)
    open_features = [f for f in document.features if f.is_open and f.id not in kept]
    if eligible := [f for f in open_features if done.issuperset(f.depends_on)]:
        return Choice(
            min(eligible, key=lambda feature: (feature.id not in state.fix_first, feature.priority, feature.id))
        )
    remaining = [f for f in document.features if not f.passes and not f.skipped]
    waiting = _waiting(document.features, done, kept)
    return Choice(None, all_proven=bool(document.features) and not remaining, waiting=waiting)


def chosen_feature(document: FeatureList, state: SessionState, feature_id: int) -> Feature:
    """The feature that a person chose, when a session on it can begin; else ``UsageError`` or ``NothingEligible``.

    While another feature is unfinished none can be chosen: its unproven commits would be pushed with the next proof.
    """
    from agent_harness.errors import NothingEligible

    feature = existing_feature(document, feature_id)
    if feature.passes:
        raise NothingEligible(f"{feature.name} is passing already.", hint="harness status")
    partial = next_feature(document, state).feature if state.next_prompt == "continuation" else None
    if partial is not None and partial.id == state.current_feature != feature_id:
        raise NothingEligible(
            f"{partial.name} is unfinished and comes first.",
            hint=f"harness run   or   harness skip --feature {partial.id}",
        )
    done, kept = settled(document), _kept(state)
    if feature.id in kept or not (feature.is_open and done.issuperset(feature.depends_on)):
        raise NothingEligible(f"{_waiting([feature], done, kept)[0]}.", hint="harness status")
    return feature


def existing_feature(document: FeatureList, feature_id: int) -> Feature:
    """The feature with this id; ``UsageError`` that lists the ids when there is none."""
    from agent_harness.errors import UsageError

    feature = document.by_id(feature_id)
    if feature is None:
        known = ", ".join(str(f.record.get("id")) for f in document.features)
        raise UsageError(f"There is no Feature #{feature_id}; known ids: {known}", hint="harness status")
    return feature


def settled(document: FeatureList) -> set[int]:
    """Ids of the features that keep nobody waiting: proven, or skipped after a regression (C53)."""
    return {f.id for f in document.features if f.passes or f.unblocks}


def _kept(state: SessionState) -> set[int | None]:
    """Features whose candidate is kept until a person has answered the question about it."""
    return {asked.feature_id for asked in state.kept_candidates}


def _waiting(found: list[Feature], done: set[int], kept: set[int | None]) -> tuple[str, ...]:
    lines = []
    for feature in found:
        if feature.passes:
            continue
        name = f"{feature.name} ({feature.description})"
        if feature.skipped:
            lines.append(f"{name} was skipped" + (f": {feature.skip_reason}" if feature.skip_reason else ""))
        elif feature.awaits_person:
            lines.append(f"{name} awaits a person's verification")
        elif feature.id in kept:
            lines.append(f"{name} waits for an answer: harness resume")
        elif missing := [i for i in feature.depends_on if i not in done]:
            lines.append(f"{name} waits for " + ", ".join(f"#{i}" for i in missing))
    return tuple(lines)
