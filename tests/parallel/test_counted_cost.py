"""The counted cost of a job in a journal, whatever its tries report, how often, and in whichever job."""

from itertools import permutations
from pathlib import Path

import pytest

from agent_harness.parallel.budget import CountedCost, LateCost, SharedBudget

TOLD = [("1", 0.25), ("1", 0.5), ("2", 0.125), ("2", 0.125), ("3", 1.0)]


@pytest.mark.parametrize("told", [*permutations(TOLD, 3)])
def test_each_try_counts_once_with_the_most_that_is_told_of_it(told: tuple[tuple[str, float], ...]) -> None:
    """SC-42: the events add up to the spending of all tries."""
    events = [{"type": "ended", "cost_usd": 0.25, "tries_usd": {"1": 0.25}}]
    for attempt, spent in (*told, *told):
        known = CountedCost.of(events)
        after = known.with_more({attempt: spent})
        events.append({"type": "late_result", "cost_usd": after.spent - known.spent, "tries_usd": dict(after.tries)})
    most = {"1": 0.25}
    for attempt, spent in told:
        most[attempt] = max(most.get(attempt, 0.0), spent)
    assert CountedCost.of(events) == CountedCost(spent=sum(most.values()), tries=most)


def test_what_was_counted_of_no_try_in_particular_is_a_part_of_what_is_told_later() -> None:
    """Journals of earlier versions have such events."""
    known = CountedCost.of([{"type": "lost", "cost_usd": 0.5}])
    assert known.with_more({"1": 0.25}).spent == 0.5
    assert known.with_more({"1": 0.25}).with_more({"2": 0.5}).spent == 0.75


def test_what_a_try_has_said_is_kept_whoever_asks_next(tmp_path: Path) -> None:
    """SC-42: heartbeats of the second try do not replace those of the first, nor after a restart of the coordinator."""
    SharedBudget(str(tmp_path)).hear("run/a/1", {"1": 0.5})
    money = SharedBudget(str(tmp_path))
    money.allow("run/a/1", 2.0)
    money.hear("run/a/1", {"2": 0.25})
    money.hear("run/a/1", {"1": 0.25, "2": 0.125})
    assert (money.tries("run/a/1"), money.spent("run/a/1")) == ({"1": 0.5, "2": 0.25}, 0.75)
    money.note_late("run/a/1", "3", 0.5)
    money.begin(0.0)
    late = LateCost(job="run/a/1", attempt="3", spent=0.5)
    assert money.late() == [late]
    money.forget_late(late)
    money.forget_late(late)
    assert money.late() == []
