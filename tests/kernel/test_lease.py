"""A lease never shrinks, and two holders never rely on one claim, however their clocks differ within the grace."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent_harness.errors import LeaseLost
from agent_harness.kernel import lease
from agent_harness.kernel.lease import Lease

START = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def given_for(seconds: float, *, token: str = "t") -> Lease:
    return Lease("worker-1", token, START, START + timedelta(seconds=seconds), seconds)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


_lengths = st.floats(0.5, 30 * 86_400.0)
_moments = st.floats(-1e6, 4e6)


@pytest.mark.parametrize(("seconds", "grace"), [(10, 30), (60, 30), (1500, 30), (1800, 36), (3600, 72), (86_400, 1728)])
def test_the_grace_is_two_percent_and_at_least_thirty_seconds(seconds: float, grace: float) -> None:
    assert lease.grace_seconds(given_for(seconds)) == grace


@pytest.mark.parametrize(
    ("now", "stops", "ends"),
    [(0, False, False), (1763.9, False, False), (1764, True, False), (1835.9, True, False), (1836, True, True)],
)
def test_the_holder_stops_before_anybody_may_take_it(now: float, stops: bool, ends: bool) -> None:
    half_an_hour = given_for(1800)
    assert lease.must_stop(half_an_hour, at(now)) is stops
    assert lease.expired(half_an_hour, at(now)) is ends


@given(_lengths)
def test_a_fresh_lease_can_be_used_however_short(seconds: float) -> None:
    fresh = given_for(seconds)
    assert not lease.must_stop(fresh, START)
    assert not lease.must_stop(fresh, at(seconds / 2))
    assert lease.must_stop(fresh, at(seconds))


@given(_lengths, _moments, st.floats(-1, 1))
def test_clocks_within_the_grace_never_show_two_holders(seconds: float, now: float, difference: float) -> None:
    claim = given_for(seconds)
    holders_clock = at(now)
    takers_clock = holders_clock + timedelta(seconds=difference * lease.grace_seconds(claim))
    assert lease.must_stop(claim, holders_clock) or not lease.expired(claim, takers_clock)


@given(_lengths, st.lists(st.tuples(_moments, _lengths), max_size=8))
def test_the_end_never_moves_back(seconds: float, renewals: list[tuple[float, float]]) -> None:
    claim = given_for(seconds)
    for now, more in renewals:
        before, ended = claim, lease.expired(claim, at(now))
        try:
            claim = lease.renewed(claim, at(now), more)
        except LeaseLost:
            assert ended
            continue
        assert not ended
        assert claim.expires_at == max(before.expires_at, at(now) + timedelta(seconds=more))
        assert (claim.holder, claim.token, claim.claimed_at) == ("worker-1", "t", START)


@given(_lengths, _moments, _lengths)
def test_a_renewal_never_lets_others_in_earlier(seconds: float, now: float, more: float) -> None:
    claim = given_for(seconds)
    assume(not lease.expired(claim, at(now)))
    longer = lease.renewed(claim, at(now), more)
    assert longer.expires_at >= claim.expires_at
    if longer.expires_at == claim.expires_at:
        assert lease.grace_seconds(longer) == lease.grace_seconds(claim)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 400), st.floats(-29, 29)), max_size=20))
def test_a_history_of_claims_never_has_two_valid_holders(steps: list[tuple[str, float, float]]) -> None:
    """Two workers with different clocks claim, renew and work in any order; the state holds one lease."""
    claims: dict[str, Lease] = {}
    state: Lease | None = None
    skew = {"a": 0.0, "b": steps[0][2] if steps else 0.0}
    true_time = 0.0
    for worker, later, _ in steps:
        true_time += later
        now = at(true_time + skew[worker])
        if state and state.token == worker and not lease.expired(state, now):
            state = claims[worker] = lease.renewed(state, now, 300)
        elif state is None or lease.expired(state, now):
            state = claims[worker] = Lease(worker, worker, now, now + timedelta(seconds=300), 300)
        valid = [one for one, claim in claims.items() if not lease.must_stop(claim, at(true_time + skew[one]))]
        assert len(valid) <= 1


def test_a_late_renewal_is_refused_with_the_way_out() -> None:
    with pytest.raises(LeaseLost, match="expired at 2026-01-31T12:30") as caught:
        lease.renewed(given_for(1800), at(1836), 1800)
    assert caught.value.exit_code == 8
    assert caught.value.hint


@pytest.mark.parametrize("seconds", [0, -5, math.nan, math.inf, -math.inf, 1e300])
def test_any_length_and_any_end_can_be_reckoned_with(seconds: float) -> None:
    for end in (datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC), START):
        odd = Lease("w", "t", START, end, seconds)
        assert 30 <= lease.grace_seconds(odd) <= 0.02 * lease.LONGEST_SECONDS
        lease.must_stop(odd, START)
        assert lease.expired(odd, START) is (end.year == 1)
        if end.year > 1:
            assert lease.renewed(odd, START, seconds).expires_at >= end


def test_tokens_are_never_the_same() -> None:
    tokens = {lease.new_token() for _ in range(1000)}
    assert len(tokens) == 1000
    assert {len(token) for token in tokens} == {32}
