"""Recovery of a session that a killed harness left open: a table with one row for each session phase.

Source: features.md C56, UAH-003.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Action:
    """Row of the recovery table: the state that an interrupted phase leaves, and the step that recovers the session."""

    phase: str
    left_behind: str
    step: str  # forget, hand_off, settle, take_back, adopt
    promise: str


RECOVERY: tuple[Action, ...] = (
    Action(
        phase="preparing",
        left_behind="no agent was started; at most a private ref and a checkpoint folder exist",
        step="forget",
        promise="no session number is used up, and nothing is committed",
    ),
    Action(
        phase="running",
        left_behind="an agent may have written files, made commits, or reported work as done",
        step="hand_off",
        promise="the agent's processes are ended, unverified claims are undone, and the work is kept in a WIP commit",
    ),
    Action(
        phase="judging",
        left_behind="the agent had ended, and the verdict was not yet known",
        step="hand_off",
        promise="as in the phase `running`: an unproven claim never survives a crash",
    ),
    Action(
        phase="settling",
        left_behind="the verdict was recorded before the first change; some steps of its execution may be done",
        step="settle",
        promise="every step is repeated, and no step takes effect twice",
    ),
    Action(
        phase="planning",
        left_behind="an agent was planning more features, and may have written anything",
        step="take_back",
        promise="the earlier state is restored, and the agent's work is kept in a rescue ref",
    ),
    Action(
        phase="planned",
        left_behind="the plan was valid, and its commit was recorded",
        step="adopt",
        promise="the planned features are added exactly once",
    ),
)


def action_for(phase: str) -> Action:
    """Return the recovery row for a session phase. An unknown phase gets the most careful row, that of a running
    agent.
    """
    rows = {row.phase: row for row in RECOVERY}
    return rows.get(phase, rows["running"])
