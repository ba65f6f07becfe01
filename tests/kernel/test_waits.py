"""How long a text asks to wait, as providers and their clients write it."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.kernel import retry

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
HOUR = 3600
LONGEST = 31 * 86_400


@pytest.fixture(autouse=True)
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC-1")  # an hour east
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("retry after 120", 120),
        ("Retry-After: 120", 120),
        ("retry_after=7", 7),
        ("retry-after:7", 7),
        ('"retry_after": 17', 17),
        ('"retry_after_seconds": "17"', 17),
        ("retry-after-ms: 2500", 3),
        ("Retry after 1.2 seconds", 2),
        ("Retry after 5 minutes", 300),
        ("Retry after 120 seconds.", 120),
        ("retry after 1h30m", 5400),
        ("retry after 7,200 seconds", 7200),
        ("Retry after 2 hours, 5 minutes and 3 seconds", 7503),
        ("reset after 5 m", 300),
        ("try again in 2 days 17 hours 14 minutes", 234_840),
        ("Please try again in 1m20.5s.", 81),
        ("try again in 5", 5),
        ("resets Mon 9am (UTC)", 45 * HOUR),
        ("resets Saturday at 14:00 UTC", 2 * HOUR),
        ("resets Sat 11:00 UTC", 167 * HOUR),
        ("resets tomorrow at 1pm (UTC)", 25 * HOUR),
        ("try again after 15:30 UTC", 12_600),
        ("try again in 5-10 minutes", 600),
        ("try again in about 2 hours", 2 * HOUR),
        ("resets in 2 hours 30 minutes", 9000),
        ("will reset tomorrow, in 5 hours and 3 minutes", 5 * HOUR + 180),
        ("available in 3 hours", 3 * HOUR),
        ("wait 2 hours", 2 * HOUR),
        ("resets_in_seconds: 13872", 13_872),
        ('{"resets_in_seconds":13872,"eligible":false}', 13_872),
        ("reset_after_seconds=4", 4),
        ("X-Codex-Primary-Reset-After-Seconds: 321\nX-Codex-Secondary-Reset-After-Seconds: 99999", 321),
        ("X-Codex-Primary-Reset-After-Seconds: 321\nretry after 5", 5),
        ('"resets_at": 1769864400', HOUR),
        ('"resets_at": 1769864400000', HOUR),
        ("usage limit reached|1769864400", HOUR),
        ("resets_at: 1", None),
        ("resets_at: 999999999", 0),
        ("Retry-After: Sat, 31 Jan 2026 12:02:00 GMT", 120),
        ("Retry-After: Sat, 31 Jan 2026 11:02:00 GMT", 0),
        ("resets at 2026-01-31T13:00:00Z", HOUR),
        ("try again at 2026-01-31 13:00", HOUR),
        ("blocked until 2026-01-31T14:30:00+01:30", HOUR),
        ('"resets_at": "2026-01-31T13:00:00.5Z"', HOUR + 1),
        ("resets at 2026-13-31T13:00:00Z", None),
        ("try again at 6:44 PM", 5 * HOUR + 44 * 60),
        ("or try again at 12:30 PM.", 23 * HOUR + 30 * 60),
        ("try again at 1:00 PM", 60),
        ("try again at 12:59 PM", 86_340),
        ("resets 3pm", 2 * HOUR),
        ("resets 3pm (UTC)", 3 * HOUR),
        ("resets 3pm (Nowhere/Land)", 2 * HOUR),
        ("try again at Feb 2nd, 2026 6:44 PM", 2 * 86_400 + 5 * HOUR + 44 * 60),
        ("try again at 25:99", None),
        ("try again at 13:00 PM", None),
        ("try again at Feb 31st, 2026 6:44 PM", None),
        ("retry after 0", 0),
        (f"retry after {'9' * 5000}", LONGEST),
        ("retry after 99999999999 days", LONGEST),
        ("resets_at: 99999999999999", LONGEST),
        ("resets at 9999-12-31T23:59:59Z", LONGEST),
        ("retry after 1e999", None),
        ("retry after -5", None),
        ("retry after the 3rd try", None),
        ("try again later", None),
        ("429 passed in 3.2s", None),
        ("", None),
    ],
)
def test_waits(text: str, seconds: int | None) -> None:
    assert retry.seconds_asked(text, NOW) == seconds
    assert retry.seconds_asked(f"at first\n{text}\nat last", NOW) == seconds


def test_the_last_wait_counts() -> None:
    assert retry.seconds_asked("retry after 5\nretry after 9", NOW) == 9
    assert retry.seconds_asked("retry after 5\nresets at 2026-99-99T00:00:00Z", NOW) == 5


@given(
    st.lists(
        st.sampled_from(
            [
                "retry after ",
                "resets at ",
                "try again ",
                "in ",
                "until ",
                "9",
                "999",
                " ",
                "m",
                "pm",
                ":",
                "-",
                "2026-01-31T12",
                "Z",
                "(UTC)",
                "Feb ",
                ",",
            ]
        ),
        max_size=12,
    )
)
def test_any_text_is_a_wait_or_nothing(pieces: list[str]) -> None:
    found = retry.seconds_asked("".join(pieces), NOW)
    assert found is None or 0 <= found <= LONGEST


@given(st.integers(0, 31 * 86_400))
def test_every_span_is_read_back(seconds: int) -> None:
    days, rest = divmod(seconds, 86_400)
    text = f"try again in {days} days {rest // 3600} hours {rest % 3600 // 60} minutes {rest % 60} seconds"
    assert retry.seconds_asked(text, NOW) == seconds
    until = (NOW + timedelta(seconds=seconds)).isoformat()
    assert retry.seconds_asked(f"resets at {until}", NOW) == seconds


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("try again on Mar 31", "2026-03-31T00:00:00"),
        ("Monthly limit reached, resets April 1st.", "2026-04-01T00:00:00"),
        ("try again on Dec 3, 2026", "2026-12-03T00:00:00"),
        ("try again on Dec 3 at 6pm", "2026-12-03T18:00:00"),
        ("retry after 40 days", None),
        ("try again on Feb 3", ""),
        ("try again in 5 minutes", ""),
        ("resets Foo 3", ""),
    ],
)
def test_an_end_beyond_any_wait_is_known(text: str, end: str | None) -> None:
    """The wait itself is not longer for it; a day without a time begins at midnight here."""
    found = retry.later_end(text, NOW)
    if end == "":
        assert found is None
        return
    assert retry.seconds_asked(text, NOW) == LONGEST
    assert found is not None
    if end:
        assert found.astimezone().replace(tzinfo=None).isoformat() == end


def test_a_day_of_the_next_year() -> None:
    december = NOW.replace(month=12, day=30)
    assert retry.seconds_asked("try again on Jan 2, 9:00 (UTC)", december) == 2 * 86_400 + 21 * HOUR
    assert retry.seconds_asked("try again on Dec 3 at 9:00 (UTC)", december) == 0
