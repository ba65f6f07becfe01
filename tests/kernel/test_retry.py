"""Waits grow, end, and heed the other side, whatever it says."""

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.kernel import retry

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def test_waits_double_up_to_the_cap() -> None:
    assert [retry.next_delay(n, None, base=1, cap=5) for n in range(1, 6)] == [1, 2, 4, 5, 5]
    assert retry.next_delay(11, None) == 300


@given(
    st.integers(0, 30),
    st.floats(0, 1e9),
    st.floats(0, 1e9),
    st.floats(1, 1e300),
)
def test_waits_never_shrink_and_never_pass_the_cap(attempts: int, base: float, cap: float, factor: float) -> None:
    waits = [retry.next_delay(n, None, base=base, cap=cap, factor=factor) for n in range(1, attempts)]
    assert waits == sorted(waits)
    assert all(0 <= wait <= cap for wait in waits)


def test_attempt_number_one_million_is_no_problem() -> None:
    assert retry.next_delay(1_000_000, None) == 300


def test_what_the_other_side_asks_for_counts_up_to_the_cap() -> None:
    assert retry.next_delay(5, 3.5) == 3.5
    assert retry.next_delay(1, 0) == 0
    assert retry.next_delay(1, 86_400) == 300
    assert retry.next_delay(1, 86_400, cap=math.inf) == 86_400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120),
        (" 1.5 ", 1.5),
        ("0", 0),
        ("99999999999999999999", retry.LONGEST_SECONDS),
        ("Sat, 31 Jan 2026 12:02:00 GMT", 120),
        ("Sat, 31 Jan 2026 12:02:00 -0000", 120),
        ("Sat, 31 Jan 2026 11:00:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", retry.LONGEST_SECONDS),
        ("-1", None),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("1e3", None),
        ("1_000", None),
        ("١٢", None),
        ("1.2.3", None),
        (".", None),
        ("Sat, 99 Jan 2026 12:02:00 GMT", None),
        ("9" * 101, None),
        (None, None),
        (120, None),
        (b"120", None),
    ],
)
def test_the_header(text: object, seconds: float | None) -> None:
    assert retry.parse_retry_after(text, NOW) == seconds


_words = st.sampled_from(["Sat,", "31", "Jan", "2026", "12:02:00", "GMT", "-0000", "+9999", "99999", ":", "-", "."])


@given(st.text() | st.lists(_words, max_size=8).map(" ".join))
def test_any_header_is_a_wait_or_nothing(text: str) -> None:
    found = retry.parse_retry_after(text, NOW)
    assert found is None or 0 <= found <= retry.LONGEST_SECONDS
