"""Table of recovery steps, by the phase in which the harness was killed. Source: features.md C56, UAH-003."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Action:
    """Row of the recovery table: a phase, what remains if the harness is killed in it, and the recovery step."""

    phase: str
    left_behind: str
    step: str  # forget, hand_off, settle, take_back, adopt
    promise: str


RECOVERY: tuple[Action, ...] = (
    Action(
        phase="preparing",
        left_behind="No agent was started. At most, a private ref and a checkpoint folder exist.",
        step="forget",
        promise="No session number is used up, and nothing is committed.",
    ),
    Action(
        phase="running",
        left_behind="An agent may have changed files, made commits, or claimed a feature.",
        step="hand_off",
        promise="The agent's processes are ended, and unverified claims are removed. A WIP commit keeps the work.",
    ),
    Action(
        phase="judging",
        left_behind="The agent had ended, but there was no verdict yet.",
        step="hand_off",
        promise="As for `running`: an unverified claim is removed, and a WIP commit keeps the work.",
    ),
    Action(
        phase="settling",
        left_behind="The verdict was recorded before the first change. Some of its steps may be done.",
        step="settle",
        promise="Every step is repeated, and no step takes effect twice.",
    ),
    Action(
        phase="planning",
        left_behind="An agent was planning more features, and may have changed any file.",
        step="take_back",
        promise="All files are restored. A rescue ref keeps the agent's work.",
    ),
    Action(
        phase="planned",
        left_behind="The plan was valid, and its commit was recorded.",
        step="adopt",
        promise="The planned features are on the branch exactly once.",
    ),
)


def action_for(phase: str) -> Action:
    """Return the recovery row for a phase. For an unknown phase, return the row "running", which is the safest."""
    rows = {row.phase: row for row in RECOVERY}
    return rows.get(phase, rows["running"])
