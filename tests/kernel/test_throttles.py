"""How many agents of an account may work after a refusal: the rule alone, and its file. SC-43."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from agent_harness.kernel import clock, trusted_state
from agent_harness.kernel.host.throttles import (
    APART,
    MINUTE,
    QUIET,
    USED_UP,
    Throttle,
    grown,
    refused,
    seconds_to_wait,
    started,
)
from agent_harness.kernel.rate_limits import LimitClock

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ACCOUNT = "openai:key-12ab34cd56ef"


def test_many_that_are_refused_at_once_are_one_refusal_which_halves_the_gate() -> None:
    throttle = None
    for at in range(8):
        throttle = refused(throttle, 8, 100.0 + at, 30.0)
    assert throttle == Throttle(size=4, refused_at=100.0, quiet_since=137.0)
    assert refused(throttle, 8, 100.0 + MINUTE, 30.0).size == 2


@pytest.mark.parametrize(("wait", "size"), [(USED_UP, 4), (USED_UP + 1, 8)])
def test_what_is_used_up_halves_nothing(wait: float, size: int) -> None:
    assert refused(None, 8, 0.0, wait).size == size


def test_one_goes_first_and_the_others_follow_one_after_the_other() -> None:
    throttle = refused(None, 6, 0.0, 30.0)
    assert seconds_to_wait(throttle, 0, 30.0) == 0
    throttle = started(throttle, 30.0)
    assert seconds_to_wait(throttle, 1, 31.0) == APART - 1
    assert seconds_to_wait(throttle, 1, 29.0) == APART  # the clock was set back
    throttle = started(throttle, 30.0 + APART)
    throttle = started(throttle, 30.0 + 2 * APART)
    assert seconds_to_wait(throttle, 3, 31.0 + 2 * APART) is None
    assert seconds_to_wait(throttle, 2, 31.0 + 2 * APART) == 0  # all are back: who ends makes room at once
    assert seconds_to_wait(refused(throttle, 6, 90.0, 30.0), 0, 120.0) == 0


def test_ten_quiet_minutes_let_one_more_in_until_there_is_no_gate() -> None:
    throttle = refused(None, 4, 0.0, 60.0)
    found = [grown(throttle, 4, 60.0 + QUIET * n) for n in (0, 0.99, 1, 2)]
    assert [each and each.size for each in found] == [2, 2, 3, None]
    assert grown(throttle, 1, 60.0) is not None  # the account may have fewer by now: one, and it has not begun


ACTS = some.lists(
    some.tuples(some.sampled_from(["refuse", "use up", "begin", "end"]), some.floats(0, 400)), max_size=60
)


@given(most=some.integers(1, 12), acts=ACTS)
def test_whatever_happens_a_gate_keeps_its_promises(most: int, acts: list[tuple[str, float]]) -> None:
    """Never more at work than the throttle lets in, starts apart while they return, at most one more in ten minutes."""
    now, throttle, working = 0.0, None, 0
    counted, came_back, last = -MINUTE, 0, 0.0
    for act, seconds in acts:
        now += seconds
        throttle = grown(throttle, most, now) if throttle else None
        before = throttle.size if throttle else most
        if act in ("refuse", "use up"):
            throttle = refused(throttle, most, now, 60.0 if act == "refuse" else USED_UP + 60.0)
            is_new, came_back = now - counted >= MINUTE, 0
            assert throttle.size == (max(1, before // 2) if is_new and act == "refuse" else before)
            counted = now if is_new else counted
        elif act == "end":
            working = max(0, working - 1)
        elif throttle is None:
            working += working < most
        elif seconds_to_wait(throttle, working, now) == 0:
            assert working < throttle.size
            if 0 < came_back < throttle.size and now < throttle.quiet_since:
                assert now - last >= APART
            throttle, working, came_back, last = started(throttle, now), working + 1, came_back + 1, now
        assert throttle is None or 1 <= throttle.size <= most
    if throttle:
        later = grown(throttle, most, max(now, throttle.quiet_since) + QUIET * 0.999)
        assert later is None or later.size <= min(most, throttle.size + 1)
        assert grown(throttle, most, max(now, throttle.quiet_since) + QUIET * most) is None


class Wall:
    """A wall clock that stands where it is put."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


def test_the_gate_outlives_the_limit_and_a_person_opens_it(tmp_path: Path) -> None:
    wall = Wall()
    limits = LimitClock(str(tmp_path), now=wall)
    assert limits.seconds_to_begin(ACCOUNT, 4, 3) == 0
    assert limits.seconds_to_begin(ACCOUNT, 4, 4) is None
    for _ in range(4):
        limits.note(ACCOUNT, said="429", retry_after_seconds=30)
    (file,) = tmp_path.glob("*.gate")
    assert json.loads(file.read_text())["size"] == 4  # of the eight that the machine may have
    assert limits.throttled() == [ACCOUNT]
    assert [each.account for each in limits.all()] == [ACCOUNT]
    wall.now += timedelta(seconds=31)
    limits.note_start(ACCOUNT, 8)
    assert limits.seconds_to_begin(ACCOUNT, 8, 1) == APART
    assert limits.forget(ACCOUNT, noted_before=wall.now)  # an agent was served: how many may work stays
    assert limits.throttle(ACCOUNT, 8) == Throttle(
        size=4,
        began=1,
        refused_at=NOON.timestamp(),
        quiet_since=NOON.timestamp() + 30,
        last_start=NOON.timestamp() + 31,
    )
    wall.now += timedelta(hours=1)
    assert limits.throttle(ACCOUNT, 8) is None
    wall.now -= timedelta(hours=1)
    assert limits.throttle(ACCOUNT, 8) is not None
    limits.forget(ACCOUNT)
    assert (limits.throttled(), limits.throttle(ACCOUNT, 8)) == ([], None)


DAMAGE = ["", "[]", "{", "[" * 5000, '{"account": "another"}', '{"size": "4"}', '{"size": true}', '{"size": -1}']
DAMAGE += ['{"size": 1e99}', '{"quiet_since": "never"}', '{"quiet_since": "2099-01-01T00:00:00Z"}']


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_gate_that_is_damaged_is_none(tmp_path: Path, damage: str) -> None:
    limits = LimitClock(str(tmp_path), now=Wall())
    limits.note(ACCOUNT, said="429", retry_after_seconds=30)
    (file,) = tmp_path.glob("*.gate")
    whole = json.loads(file.read_text())
    try:
        record = json.loads(damage)
        file.write_text(json.dumps({**whole, **record}))
    except (ValueError, TypeError, RecursionError):
        file.write_text(damage)
    assert limits.throttle(ACCOUNT, 8) is None
    limits.note(ACCOUNT, said="429", retry_after_seconds=30)
    assert (limits.throttle(ACCOUNT, 8) or Throttle(size=0, refused_at=0, quiet_since=0)).size == 4


def test_waits_are_as_short_as_the_clock_of_tests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A limit of twenty minutes that lasts two here is used up all the same."""
    monkeypatch.setenv("HARNESS_TIME_SCALE", "0.1")
    limits = LimitClock(str(tmp_path), now=Wall())
    limits.note("a", said="x", retry_after_seconds=1200)
    limits.note("b", said="x", retry_after_seconds=600)
    assert [(limits.throttle(each, 8) or Throttle(size=0, refused_at=0, quiet_since=0)).size for each in "ab"] == [8, 4]
    limits.note_start("b", 8)
    assert limits.seconds_to_begin("b", 8, 1) == pytest.approx(APART / 10)


def test_what_an_account_may_have_is_halved(tmp_path: Path) -> None:
    folder = Path(trusted_state.of_user("host") or "")
    (folder / "host.json").write_text(json.dumps({"accounts": {ACCOUNT: {"agents": 2}}}))
    limits = LimitClock(str(tmp_path), now=Wall())
    limits.note(ACCOUNT, said="429", retry_after_seconds=30)
    assert limits.throttle(ACCOUNT, 2) == Throttle(
        size=1, refused_at=NOON.timestamp(), quiet_since=NOON.timestamp() + 30, last_start=0.0
    )
    assert clock.time_scale() == 1
