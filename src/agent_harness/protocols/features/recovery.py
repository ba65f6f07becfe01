"""Recovery table for a session that a killed harness left open, by the phase that the session had reached.

Source: features.md C56, UAH-003.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Action:
    """Row of the recovery table: the state that an interrupted phase leaves, and the step that recovers it."""

    phase: str
    left_behind: str
    step: str  # forget, hand_off, settle, take_back, adopt
    promise: str


RECOVERY: tuple[Action, ...] = (
    Action(
        phase="preparing",
        left_behind="no agent was started; at most a private ref and a checkpoint folder",
        step="forget",
        promise="no session number is used up, nothing is committed",
    ),
    Action(
        phase="running",
        left_behind="an agent may have written, committed, or claimed",
        step="hand_off",
        promise="its processes are ended, unverified claims are taken back, the work is a WIP commit to continue",
    ),
    Action(
        phase="judging",
        left_behind="the agent had ended; the verdict was not yet known",
        step="hand_off",
        promise="as for running: an unproven claim never survives a crash",
    ),
    Action(
        phase="settling",
        left_behind="the verdict was written down before the first change; some of its steps may be done",
        step="settle",
        promise="every step is repeated and none has a second effect",
    ),
    Action(
        phase="planning",
        left_behind="an agent was planning more features, and may have written anything",
        step="take_back",
        promise="all is as it was before; what the agent did is in a rescue ref",
    ),
    Action(
        phase="planned",
        left_behind="the plan was valid and its commit written down",
        step="adopt",
        promise="the features are there, once",
    ),
)


def action_for(phase: str) -> Action:
    """Return the recovery table's row for a phase; an unknown phase gets the most careful row, "running"."""
    rows = {row.phase: row for row in RECOVERY}
    return rows.get(phase, rows["running"])
