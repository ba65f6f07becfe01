"""The number of agents for each project: the rule alone. SC-60."""

import subprocess
import sys
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from agent_harness.fleet.sharing import FairClock, SlotRequest, shares

SIM = Path(__file__).parents[2] / "bench/fleet_sim.py"


def request(name: str, wants: int, **members: object) -> SlotRequest:
    return SlotRequest(**({"project": name, "wants": wants, "most": 256} | members))  # type: ignore[arg-type]


REQUESTS = st.lists(
    st.builds(
        lambda wants, most, priority, weight, minutes: (wants, most, priority, weight, minutes),
        st.integers(0, 30),
        st.integers(1, 12),
        st.integers(1, 5),
        st.floats(0.1, 10.0),
        st.floats(0.0, 5000.0),
    ),
    max_size=40,
)


@given(st.integers(0, 60), REQUESTS)
def test_nobody_gets_more_than_it_can_use_and_nothing_is_left_idle(agents: int, rows: list[tuple[object, ...]]) -> None:
    names = ("wants", "most", "priority", "weight", "minutes")
    requests = [SlotRequest(project=f"p{n}", **dict(zip(names, row, strict=True))) for n, row in enumerate(rows)]  # type: ignore[arg-type]
    found = shares(agents, requests)
    assert all(0 < found[each.project] <= each.count for each in requests if each.project in found)
    assert sum(found.values()) == min(agents, sum(each.count for each in requests))


ROOMS = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 12))


@given(st.integers(0, 60), REQUESTS, ROOMS, st.randoms(use_true_random=False))
def test_no_account_gets_more_agents_than_it_has_room_for(
    agents: int, rows: list[tuple[object, ...]], rooms: dict[str, int], random: Random
) -> None:
    """SC-60: and no slot stays idle that a project of another account, or of a lower class, could take."""
    names = ("wants", "most", "priority", "weight", "minutes")
    requests = [
        SlotRequest(project=f"p{n}", account=random.choice("xyz"), **dict(zip(names, row, strict=True)))  # type: ignore[arg-type]
        for n, row in enumerate(rows)
    ]
    found = shares(agents, requests, rooms)
    could = 0
    for account in "xyz":
        ours = [each for each in requests if each.account == account]
        wanted = sum(each.count for each in ours)
        room = min(wanted, rooms.get(account, wanted))
        assert sum(found.get(each.project, 0) for each in ours) <= room
        could += room
    assert sum(found.values()) == min(agents, could)
    assert all(0 < found[each.project] <= each.count for each in requests if each.project in found)


def test_what_a_full_account_cannot_take_is_the_others() -> None:
    rows = [
        request("a", 50, priority=1, account="x"),
        request("b", 50, priority=1, account="y"),
        request("c", 50, priority=4),
    ]
    assert shares(40, rows, {"x": 3}) == {"a": 3, "b": 35, "c": 2}
    assert shares(40, rows, {"x": 3, "y": 1}) == {"a": 3, "b": 1, "c": 36}


def test_a_class_below_the_first_keeps_a_twentieth() -> None:
    found = shares(
        100,
        [
            request("urgent", 1000, most=1000, priority=1),
            request("later", 50, priority=3),
            request("last", 2, priority=5),
        ],
    )
    assert found == {"urgent": 93, "later": 5, "last": 2}


def test_within_a_class_agents_go_by_weight() -> None:
    found = shares(30, [request("a", 100, weight=1.0), request("b", 100, weight=2.0)])
    assert found == {"a": 10, "b": 20}


def test_who_has_had_more_waits() -> None:
    found = shares(10, [request("had", 100, minutes=10_000.0), request("new", 100)])
    assert found == {"new": 10}


def test_over_a_day_the_minutes_are_as_the_weights() -> None:
    """Served by weight within a class, max by min at most 1.2 (scale.md 14)."""
    weights = {f"p{n}": 1.0 + n % 3 for n in range(30)}
    clock = FairClock()
    for _ in range(24 * 12):
        requests = [request(name, 5, weight=weight, minutes=clock.minutes(name)) for name, weight in weights.items()]
        clock.wanting(weights.items())
        for name, count in shares(25, requests).items():
            clock.used(name, count * 5.0)
    served = [clock.minutes(name) / weight for name, weight in weights.items()]
    assert max(served) / min(served) <= 1.2


def test_who_comes_late_has_no_claim_on_what_others_had() -> None:
    clock = FairClock()
    clock.wanting([("a", 1.0)])
    clock.used("a", 600.0)
    clock.wanting([("a", 1.0), ("late", 2.0)])
    assert clock.minutes("late") == 1200.0
    again = FairClock(clock.as_record())
    assert again.minutes("a") == 600.0


def test_a_small_fleet_loses_nothing_and_starves_nobody_in_a_day() -> None:
    """`make sim` on 60 projects: the real rules of runs and merges, with simulated workers."""
    words = ["--projects", "60", "--agents", "6", "--seed", "3", "--kills", "0.05", "--bad", "0.1"]
    ran = subprocess.run([sys.executable, str(SIM), *words], capture_output=True, text=True, check=False)
    found = [line for line in ran.stdout.splitlines() if line.startswith("NOT")]
    assert [line for line in found if "lost" in line or "twice" in line or "never served" in line] == [], ran.stdout
    assert "items: " in ran.stdout, ran.stderr
