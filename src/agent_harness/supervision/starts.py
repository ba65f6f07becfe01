"""Limit on the number of agent starts for one item, so that no loop runs forever.

The harness records each start on disk before the agent runs. Agents are not told about the file. Only the user can
reset the count. Therefore every loop ends, even if the harness is killed in each round."""

from agent_harness.errors import StartsUsedUp
from agent_harness.kernel import clock, journal

HISTORY = "starts.jsonl"
MOST_STARTS = 200
"""Maximum number of agent starts for one item, unless a setting overrides the number.

Legitimate work needs at most about 60 starts: three attempts, five turns each, each turn tried four times. The five
turns are the first turn, three fix rounds, and a turn that shows evidence. The maximum is about three times that
number."""

ITEMS_WORTH = 50
"""Factor for the limit of a whole project: all items together may use this many times the limit for one item.

The project needs a limit because agents can add and rename items."""


class StartCount:
    """Count of agent starts for one item since the user last allowed further starts."""

    # The limit at the first counted start still applies: an agent gains nothing by raising the limit in a project file.

    def __init__(self, folder: str, item: str, *, most: int = MOST_STARTS, hint: str = "harness resume") -> None:
        self._path = f"{folder}/{HISTORY}"
        self._item = item
        self._most = most
        self._hint = hint

    def used_up(self) -> StartsUsedUp | None:
        return self._over(1)

    def begin(self, run_id: str | None) -> None:
        """Record an agent start before the agent starts. Raise ``StartsUsedUp`` at the limit."""
        if refusal := self._over(1):
            raise refusal
        line = {"at": clock.timestamp(), "item": self._item, "run": run_id, "most": self._most}
        journal.append(self._path, line, durable=True)
        if refusal := self._over(0):  # another worker was as fast
            raise refusal

    def _over(self, more: int) -> StartsUsedUp | None:
        own = together = 0
        most = most_together = self._most
        for line in journal.newest(self._path):
            bound = line.get("most")
            if line.get("goes_on"):
                break  # so that a look costs what counts, however long the history is
            if isinstance(bound, int):
                most_together, together = bound, together + 1
                if line.get("item") == self._item:
                    most, own = bound, own + 1
        if own + more > min(most, self._most):
            return self._refusal(f"The agent was started {own} times for {self._item}, which is still not done")
        if together + more > ITEMS_WORTH * min(most_together, self._most):
            return self._refusal(f"Agents were started {together} times since you last allowed more starts")
        return None

    def _refusal(self, told: str) -> StartsUsedUp:
        return StartsUsedUp(f"{told}; no agent is started until you allow more.", hint=self._hint, item=self._item)


def go_on(folder: str) -> None:
    """Record that the user allows more agent starts, so that every count restarts at 0."""
    path = f"{folder}/{HISTORY}"
    last = journal.tail(path, 1)
    if last and not last[0].get("goes_on"):
        journal.append(path, {"at": clock.timestamp(), "goes_on": True}, durable=True)
