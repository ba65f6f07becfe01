"""Number of agent starts for one item, which bounds every loop.

Starts are counted in a place that agents are not told about, on disk before the agent runs, and only a person resets
the count. So every loop ends, whatever kills the harness in each of its rounds.
"""

from agent_harness.errors import StartsUsedUp
from agent_harness.kernel import clock, journal

HISTORY = "starts.jsonl"
MOST_STARTS = 200
"""Limit for one item, unless a setting overrides it: honest work needs at most about 60 starts (three attempts or
stuck sessions, each with a first turn, three fix rounds and the turn that shows evidence, each tried four times);
this is three times as many.
"""

ITEMS_WORTH = 50
"""Factor for the limit of all items of a project together: agents can add items, and rename them."""


class StartCount:
    """Number of agent starts for one item of a project since a person last said "go on".

    Each start is one line of a history beside the verdicts of the project (``starts.jsonl``). The limit is the one of
    the first counted start, or a lower present one: an agent that raises it in a file of the project gains nothing
    until a person agrees.
    """

    def __init__(self, folder: str, item: str, *, most: int = MOST_STARTS, hint: str = "harness resume") -> None:
        """Set ``folder``, the project's state folder, and ``hint``, the command by which a person agrees."""
        self._path = f"{folder}/{HISTORY}"
        self._item = item
        self._most = most
        self._hint = hint

    def used_up(self) -> StartsUsedUp | None:
        """Return why no agent may be started for the item any more; None while one may."""
        return self._over(1)

    def begin(self, run_id: str | None) -> None:
        """Count one more start, durably, before it is made. Raise ``StartsUsedUp`` beyond the limit, without
        counting.

        Raise ``Refused`` if the disk refuses it: a start that cannot be counted is not made.
        """
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
            return self._refusal(f"The agent was started {own} times for {self._item}, and it is not done")
        if together + more > ITEMS_WORTH * min(most_together, self._most):
            return self._refusal(f"Agents were started {together} times since a person last looked")
        return None

    def _refusal(self, told: str) -> StartsUsedUp:
        return StartsUsedUp(f"{told}; none is started before a person agrees.", hint=self._hint, item=self._item)


def go_on(folder: str) -> None:
    """Record that a person allows as many starts again, for every item of the project."""
    path = f"{folder}/{HISTORY}"
    last = journal.tail(path, 1)
    if last and not last[0].get("goes_on"):
        journal.append(path, {"at": clock.timestamp(), "goes_on": True}, durable=True)
