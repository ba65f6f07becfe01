"""Table of recovery steps, by the phase in which the harness was killed. Source: features.md C56, UAH-003."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Action:
    """One row of the recovery table: what a killed harness left, and the recovery step."""

    phase: str
    left_behind: str
    step: str  # forget, hand_off, settle, take_back, adopt
    promise: str


RECOVERY: tuple[Action, ...] = (
    Action(
        phase="preparing",
        left_behind="No agent was started. There may be a private ref and a checkpoint folder.",
        step="forget",
        promise="The harness does not use up a session number, and commits nothing.",
    ),
    Action(
        phase="running",
        left_behind="An agent may have changed files, made commits, or claimed a feature.",
        step="hand_off",
        promise="The harness ends the agent's processes and removes unverified claims. A WIP commit keeps the work.",
    ),
    Action(
        phase="judging",
        left_behind="The agent has ended, but there is no verdict yet.",
        step="hand_off",
        promise="The harness removes an unverified claim. A WIP commit keeps the work.",
    ),
    Action(
        phase="settling",
        left_behind="The verdict is recorded. The harness may have carried out a part of the verdict.",
        step="settle",
        promise="The harness carries out the whole verdict. No part of the verdict takes effect twice.",
    ),
    Action(
        phase="planning",
        left_behind="An agent may have planned more features, and may have changed any file.",
        step="take_back",
        promise="The harness restores all files. A rescue (a git ref) keeps the agent's work.",
    ),
    Action(
        phase="planned",
        left_behind="The plan is valid, and the commit with the plan is recorded.",
        step="adopt",
        promise="The branch contains each planned feature exactly once.",
    ),
)


def action_for(phase: str) -> Action:
    rows = {row.phase: row for row in RECOVERY}
    # the row "running" is the safest for an unknown phase
    return rows.get(phase, rows["running"])
