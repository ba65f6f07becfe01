"""Rate limits that machines report to each other: the clock that counts, and the ignored reports."""

from datetime import timedelta
from typing import Any

from agent_harness.engines import limits
from agent_harness.kernel import clock
from agent_harness.kernel.rate_limits import LimitClock

KEY, LOGIN = "anthropic:key-0123456789ab", "anthropic:/srv/hands/.claude"


def refused(account: str, *, ago: float = 0.0, hours: float = 2.0) -> dict[str, Any]:
    at = clock.now() - timedelta(seconds=ago)
    until = clock.timestamp(at + timedelta(hours=hours), fraction=True)
    told = {"account": account, "until": until, "noted_at": clock.timestamp(at, fraction=True)}
    return {**told, "said": "weekly limit", "source": "structured", "attempt": 1}


def known() -> list[str]:
    return [each.account for each in LimitClock().all()]


def test_a_key_is_the_same_everywhere_and_a_login_that_of_its_machine() -> None:
    limits.take_in([refused(KEY), refused(LOGIN)], "worker-7", of_others=True)
    assert sorted(known()) == sorted([KEY, f"{LOGIN}@worker-7"])
    assert sorted(each["account"] for each in limits.known_here()) == sorted(known())


def test_hands_are_told_nothing_of_the_logins_of_other_machines() -> None:
    limits.take_in([refused(KEY), refused(LOGIN), refused(f"{LOGIN}@worker-7")], "home", of_others=False)
    assert known() == [KEY]


def test_what_is_newer_counts_whoever_says_it() -> None:
    LimitClock().note(KEY, said="here", retry_after_seconds=600)
    limits.take_in([refused(KEY, ago=3600)], "worker-7", of_others=True)
    assert [each.said for each in LimitClock().all()] == ["here"]
    LimitClock().forget(KEY)
    limits.take_in([refused(KEY, ago=3600)], "worker-7", of_others=True)
    assert known() == []
    (lifted,) = limits.known_here()
    assert set(lifted) == {"account", "lifted_at"}
    limits.take_in([refused(KEY, ago=-1)], "worker-7", of_others=True)
    assert known() == [KEY]


def test_of_what_is_told_at_length_or_badly_little_counts() -> None:
    bad: list[Any] = [
        7,
        {},
        {"account": "../../x"},
        refused("a" * 1000),
        refused("two\nlines"),
        {"account": KEY, "until": 7},
    ]
    for records in (None, "x", {"a": 1}, bad):
        limits.take_in(records, "worker-7", of_others=True)
    assert known() == []
    limits.take_in([refused(f"x:key-{n}") for n in range(200)], None, of_others=True)
    assert len(known()) == limits.MOST
    limits.take_in([refused("y:key-1", hours=24 * 400)], "worker-7", of_others=True)
    limit = LimitClock().in_force("y:key-1")
    assert limit is None or limit.seconds_left(clock.now()) <= 31 * 86_400
    assert not any(each["account"] == "../../x" for each in limits.known_here())
