"""Pure functions for the states of a project between sessions, and for the change of state at the end of a session.

    status        complete      the feature was accepted, or there was nothing to finish
                  partial       work is kept as a WIP commit; the next session continues this work
                  failed        the work was rolled back; the next session starts the feature from scratch
    next_prompt   coding, continuation, cleanup

Source: features.md section G, C03, C05, C07, C08, C35, C64."""

from dataclasses import dataclass, field

from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features.records import SessionState

REASONS = ("complete", "context_limit", "timeout", "stuck", "user_pause", "error", "budget_exceeded")

UNCOUNTED_REASONS = frozenset({"user_pause", "error"})
"""Termination reasons that are not the feature's fault and therefore never increase stuck_count (C35)."""


@dataclass(frozen=True, kw_only=True)
class SessionEnding:
    session: int
    feature_id: int | None
    status: str  # complete, partial, failed
    reason: str = "complete"
    at: str
    kept_work: bool = False  # a WIP commit of this feature exists
    counted: bool = True  # False: a person decides about it, and nothing is counted before
    failure: str | None = None  # why it was rejected, for the next orientation
    partial: JsonObject | None = None  # work that is done, left and in progress
    red_tests: tuple[str, ...] = ()  # baseline tests that the WIP leaves failing (C15)
    checkpoint: JsonObject | None = None  # the rollback point from before the feature's first session
    wip_commit: str | None = None  # the head of the branch that the hand-off leaves
    summary: JsonObject = field(default_factory=dict)  # completed, commits, status: for the next orientation


def after_session(state: SessionState, ending: SessionEnding) -> SessionState:
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
    # C35
    counted, name = dict(state.failures), str(ending.feature_id)
    if ending.status == "complete":
        counted.pop(name, None)
    elif ending.status == "failed" and ending.counted:
        counted[name] = counted.get(name, 0) + 1
    return counted


def prompt_type(state: SessionState) -> tuple[str, str]:
    if state.next_prompt == "cleanup":
        return "cleanup", "enough features are complete, or a person asked for it"
    if state.next_prompt == "continuation" and state.current_feature is not None:
        return "continuation", f"Feature #{state.current_feature} is partial"
    if not state.last_session:
        return "coding", "first session"
    words = {"complete": "completed", "failed": "failed and was rolled back", "partial": "ended without changes"}
    return "coding", f"previous session {words.get(str(state.status), 'ended')}"


def is_stuck(state: SessionState, max_stuck_sessions: int) -> bool:
    # C35
    return state.stuck_count >= max_stuck_sessions
