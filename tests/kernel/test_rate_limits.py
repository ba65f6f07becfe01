"""The clock of rate limits: its sources, its files, clocks that jump, and several processes at once."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.kernel import clock, rate_limits
from agent_harness.kernel.rate_limits import LimitClock, reopening

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = 86_400.0


class Wall:
    """A wall clock that stands where it is put."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now

    def move(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def limits(tmp_path: Path, wall: Wall) -> LimitClock:
    return LimitClock(str(tmp_path), now=wall)


SOURCES = [
    ({"resets_at": "2026-03-01T14:00:00Z"}, 7200.0, "structured"),
    ({"retry_after_seconds": 90.0}, 90.0, "structured"),
    ({"resets_at": "2026-03-01T14:00:00Z", "retry_after_seconds": 5.0}, 7200.0, "structured"),
    ({"resets_at": "not a time", "retry_after_seconds": 5.0}, 5.0, "structured"),
    ({"resets_at": "2099-01-01T00:00:00Z"}, 31 * DAY, "structured"),
    ({"retry_after_seconds": 1e18}, 31 * DAY, "structured"),
    ({"resets_at": "2020-01-01T00:00:00Z"}, 30.0, "guess"),
    ({"retry_after_seconds": -4.0}, 30.0, "guess"),
    ({"retry_after_seconds": float("nan")}, 30.0, "guess"),
    ({"retry_after_seconds": float("inf")}, 30.0, "guess"),
    ({"said": "usage limit reached, try again in 2 hours"}, 7200.0, "text"),
    ({"resets_at": "2020-01-01T00:00:00Z", "said": "try again in 7 min"}, 420.0, "text"),
    ({"said": "429 Too Many Requests"}, 30.0, "guess"),
    ({"said": "429", "attempt": 2}, 60.0, "guess"),
    ({"said": "429", "attempt": 9}, 300.0, "guess"),
    ({"said": "429", "attempt": 10**8}, 300.0, "guess"),
]


@pytest.mark.parametrize(("told", "seconds", "source"), SOURCES)
def test_the_first_source_that_has_a_moment_says_it(told: dict[str, object], seconds: float, source: str) -> None:
    """UAH-374, C28: what is stated first, then the text, then a wait that grows to five minutes at most."""
    facts = {"attempt": 1, "resets_at": None, "retry_after_seconds": None, "said": "", **told}
    assert reopening(NOON, **facts) == (seconds, source)  # type: ignore[arg-type]


@given(
    attempt=st.integers(1, 10**9),
    resets_at=st.none() | st.text(max_size=30) | st.datetimes().map(lambda at: at.isoformat()),
    retry_after_seconds=st.none() | st.floats(allow_nan=True, allow_infinity=True),
    said=st.text(max_size=60) | st.integers().map(lambda n: f"retry after {n}"),
)
def test_every_wait_has_an_end(
    attempt: int, resets_at: str | None, retry_after_seconds: float | None, said: str
) -> None:
    """C28: whatever a provider says, nothing waits longer than 31 days, and nothing is tried in a tight loop."""
    seconds, source = reopening(
        NOON, attempt=attempt, resets_at=resets_at, retry_after_seconds=retry_after_seconds, said=said
    )
    assert 0 < seconds <= 31 * DAY
    assert source in ("structured", "text", "guess")
    assert source != "guess" or 30 <= seconds <= 300


def test_a_limit_outlives_whoever_noted_it_and_ends_by_itself(tmp_path: Path, limits: LimitClock, wall: Wall) -> None:
    limits.note("claude-code", said="weekly  limit\nreached", retry_after_seconds=3600)
    other = LimitClock(str(tmp_path), now=wall)
    found = other.in_force("claude-code")
    assert found is not None
    assert (found.until, found.attempt, found.said) == (NOON + timedelta(hours=1), 1, "weekly limit reached")
    assert "claude-code is refused until 2026-03-01T13:00:00Z" in str(found)
    assert other.in_force("codex") is None
    wall.move(3600)
    assert other.in_force("claude-code") is None
    assert other.all() == []


def test_refusals_in_a_row_are_counted_and_a_guess_grows(limits: LimitClock, wall: Wall) -> None:
    """UAH-374: 429 without a time waits longer each time, five minutes at most."""
    waits = []
    for _ in range(6):
        found = limits.note("a", said="HTTP 429")
        waits.append((found.attempt, found.seconds_left(wall.now)))
        wall.move(found.seconds_left(wall.now))
    assert waits == [(1, 30.0), (2, 60.0), (3, 120.0), (4, 240.0), (5, 300.0), (6, 300.0)]
    wall.move(2 * DAY)
    assert limits.note("a", said="HTTP 429").attempt == 1


def test_while_a_limit_is_in_force_only_a_word_of_the_provider_takes_its_place(limits: LimitClock, wall: Wall) -> None:
    limits.note("a", said="limit", resets_at="2026-03-01T15:00:00Z")
    wall.move(10)
    assert limits.note("a", said="HTTP 429").until == NOON + timedelta(hours=3)
    again = limits.note("a", said="limit", retry_after_seconds=60)
    assert (again.until, again.attempt) == (wall.now + timedelta(seconds=60), 1)


def test_what_works_is_forgotten_but_not_a_refusal_that_came_later(limits: LimitClock, wall: Wall) -> None:
    limits.note("a", said="HTTP 429")
    assert limits.forget("a", noted_before=NOON - timedelta(seconds=5)) is False
    assert limits.in_force("a")
    assert limits.forget("a", noted_before=NOON + timedelta(seconds=1)) is True
    assert limits.in_force("a") is None
    assert limits.forget("a") is False
    assert limits.note("a", said="HTTP 429").attempt == 1


@given(
    seconds=st.floats(1, 31 * DAY),
    jumps=st.lists(st.floats(-400 * DAY, 400 * DAY), min_size=1, max_size=4),
)
def test_a_wall_clock_that_jumps_never_makes_a_wait_longer(
    tmp_path_factory: pytest.TempPathFactory, seconds: float, jumps: list[float]
) -> None:
    """However the clock is set, what is left is at most what was noted, and it does end."""
    wall = Wall()
    limits = LimitClock(str(tmp_path_factory.mktemp("limits")), now=wall)
    limits.note("a", said="limit", retry_after_seconds=seconds)
    for jump in jumps:
        wall.move(jump)
        found = limits.in_force("a")
        assert found is None or found.seconds_left(wall.now) <= seconds + 3
    wall.move(seconds + 3)
    assert limits.in_force("a") is None


DAMAGED = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe",
    b'{"account": "a"}',
    b'{"account": "b", "until": "2026-03-01T13:00:00Z", "noted_at": "2026-03-01T12:00:00Z"}',
    b'{"account": "a", "until": 5, "noted_at": "2026-03-01T12:00:00Z"}',
    b'{"account": "a", "until": "2026-03-01T13:00:00Z", "noted_at": null}',
    b"[" * 5000,
]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_file_is_no_limit_and_is_written_over(tmp_path: Path, limits: LimitClock, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    assert limits.in_force("a") is None
    assert limits.all() == []
    assert limits.note("a", said="HTTP 429").attempt == 1
    found = limits.in_force("a")
    assert found is not None and found.seconds_left(NOON) == 30


@pytest.mark.parametrize("attempt", ["-1", "0", "true", '"7"', "1e400", "null", "3.5"])
def test_odd_members_of_a_file_do_no_harm(tmp_path: Path, limits: LimitClock, attempt: str) -> None:
    (tmp_path / "a.json").write_text(
        f'{{"account": "a", "until": "2026-03-01T13:00:00Z", "noted_at": "2026-03-01T12:00:00Z", '
        f'"attempt": {attempt}, "said": 5, "source": []}}'
    )
    found = limits.in_force("a")
    assert found is not None
    assert (found.attempt, found.said, found.source) == (1, "", "guess")


def test_a_limit_beyond_all_measure_is_cut_to_31_days(tmp_path: Path, limits: LimitClock, wall: Wall) -> None:
    (tmp_path / "a.json").write_text(
        '{"account": "a", "until": "2999-03-01T13:00:00Z", "noted_at": "2026-03-01T12:00:00Z", "attempt": 1}'
    )
    found = limits.in_force("a")
    assert found is not None and found.seconds_left(NOON) == 31 * DAY
    wall.move(31 * DAY)
    assert limits.in_force("a") is None


@pytest.mark.parametrize("account", ["../../x", "a/b", "", ".", "..", ".hidden", "é", "x" * 500, "a\nb", "lock", "a b"])
def test_an_odd_account_stays_in_the_folder(tmp_path: Path, wall: Wall, account: str) -> None:
    folder = tmp_path / "limits"
    folder.mkdir()
    limits = LimitClock(str(folder), now=wall)
    limits.note(account, said="HTTP 429")
    assert limits.in_force(account) is not None
    assert [each.account for each in limits.all()] == [account]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["limits"]
    assert limits.forget(account) is True


def test_no_link_is_followed_and_no_secret_is_kept(tmp_path: Path, limits: LimitClock) -> None:
    limits.note("a", said="HTTP 429 for key sk-ant-REDACTED")
    assert "abcdefghijklmnop" not in (tmp_path / "a.json").read_text()


def test_where_nothing_can_be_written_a_refusal_is_still_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wall: Wall
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "file"))
    limits = LimitClock(now=wall)
    assert limits.note("a", said="HTTP 429").seconds_left(NOON) == 30
    known = LimitClock(now=wall).in_force("a")
    assert known and known.seconds_left(NOON) == 30  # by this process, which would ask again at once
    assert limits.forget("a") is False
    assert limits.in_force("a") is None
    assert LimitClock(str(tmp_path / "gone"), now=wall).note("a", said="x", retry_after_seconds=5).attempt == 1


def test_a_limit_that_could_not_be_kept_ends_with_the_word_of_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wall: Wall
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "file"))
    with monkeypatch.context() as full:
        full.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
        LimitClock(now=wall).note("a", said="HTTP 429", retry_after_seconds=1000)
    assert LimitClock(now=wall).in_force("a")
    wall.move(1)
    elsewhere = "import sys; from agent_harness.kernel.rate_limits import LimitClock; LimitClock().forget('a')"
    subprocess.run([sys.executable, "-c", elsewhere], check=True)  # by its own clock, later than any wall of a test
    assert LimitClock(now=wall).in_force("a") is None


def test_a_clock_that_looked_before_there_was_a_usual_place_sees_what_is_noted_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / f"agent-harness-{os.getuid()}" / "limits").mkdir(parents=True)  # by a run that could not write at home
    early = LimitClock()
    assert early.in_force("a") is None
    LimitClock().note("a", said="HTTP 429")
    assert early.in_force("a")


def test_the_folder_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    LimitClock().note("a", said="HTTP 429")
    folder = Path(os.environ["XDG_STATE_HOME"]) / "agent-harness/limits"
    assert json.loads((folder / "a.json").read_text())["account"] == "a"
    assert folder.stat().st_mode & 0o77 == 0


def test_the_time_scale_shortens_what_is_noted(monkeypatch: pytest.MonkeyPatch, limits: LimitClock) -> None:
    monkeypatch.setenv("HARNESS_TIME_SCALE", "0.01")
    assert limits.note("a", said="", retry_after_seconds=1000).seconds_left(NOON) == 10


WRITER = """
import sys
from agent_harness.kernel.rate_limits import LimitClock

limits = LimitClock(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    limits.note("shared", said="HTTP 429")
    limits.note(f"own-{sys.argv[2]}", said="limit", retry_after_seconds=10**9)
    assert limits.in_force("shared") is None or limits.in_force("shared").attempt > 0
"""


def test_no_refusal_is_lost_between_processes(tmp_path: Path) -> None:
    """Each window is over at once here, so that every note of every process counts as one more in the row."""
    writers, times = 4, 15
    environ = {**os.environ, "HARNESS_TIME_SCALE": "1e-12"}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(n), str(times)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environ,
        )
        for n in range(writers)
    ]
    for each in running:
        assert each.stdout is not None and each.stdout.readline() == b"ready\n"
    for each in running:
        each.communicate(b"go\n", timeout=240)
    assert [each.returncode for each in running] == [0] * writers
    written = {p.name: json.loads(p.read_text()) for p in tmp_path.glob("*.json")}
    assert sorted(written) == ["own-0.json", "own-1.json", "own-2.json", "own-3.json", "shared.json"]
    assert written["shared.json"]["attempt"] == writers * times
    assert {written[f"own-{n}.json"]["attempt"] for n in range(writers)} == {times}
    assert not list(tmp_path.glob("*.tmp.*"))


def test_what_a_killed_writer_left_is_swept(tmp_path: Path, limits: LimitClock) -> None:
    left = tmp_path / "a.json.tmp.999999999.0011aabbccdd"
    left.touch()
    limits.note("a", said="HTTP 429")
    assert not left.exists()


def test_the_moments_are_those_of_the_clock() -> None:
    assert rate_limits.LONGEST_GUESS_SECONDS == 300
    assert clock.parse("2026-03-01T12:00:00Z") == NOON
