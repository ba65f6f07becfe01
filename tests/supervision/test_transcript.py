"""The transcript is whole while it is short, keeps its ends when it is long, and holds no secret."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.agents.events import Event, Finished, RateLimited, Text, ToolCall, ToolResult, Usage
from agent_harness.supervision.recording import (
    KeyMask,
    TextTail,
    Transcript,
    rendered,
)

KEY = [
    "-----BEGIN OPENSSH PRIVATE KEY-----",
    "b3BlbnNzaC1rZXktdjEAAAAA",
    "AAAAAAAAAAAAAAAAAAAA",
    "-----END OPENSSH PRIVATE KEY-----",
]


def written(path: Path, texts: list[str], limit: int = 100_000) -> str:
    transcript = Transcript(path, limit)
    for text in texts:
        transcript.event(Text(text))
    transcript.close()
    transcript.close()
    assert transcript.problem is None
    return path.read_text()


def test_a_short_one_is_whole(tmp_path: Path) -> None:
    assert written(tmp_path / "new" / "t.txt", ["one", "two\nthree"]) == "one\ntwo\nthree\n"


def test_it_is_written_at_once(tmp_path: Path) -> None:
    transcript = Transcript(tmp_path / "t.txt", 100_000)
    transcript.event(Text("one"))
    assert (tmp_path / "t.txt").read_text() == "one\n"
    transcript.close()


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    written(tmp_path / "t.txt", ["one"])
    assert (tmp_path / "t.txt").stat().st_mode & 0o777 == 0o600


def test_a_long_one_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    lines = [f"line {number:06}" for number in range(100_000)]
    text = written(tmp_path / "t.txt", lines, limit=200_000)
    found = text.splitlines()
    assert len(text) < 210_000
    (mark,) = [line for line in found if "left out" in line]
    at = found.index(mark)
    head, tail = found[:at], found[at + 1 :]
    assert head == lines[: len(head)]
    assert tail == lines[-len(tail) :]
    assert len(head) > 5_000
    assert len(tail) > 3_000
    missing = len("\n".join(lines[len(head) : -len(tail)])) + 1
    assert mark == f"[harness] ... {missing} bytes of output left out here ..."


def test_one_huge_line_is_no_reason_to_forget_the_rest(tmp_path: Path) -> None:
    text = written(tmp_path / "t.txt", ["first", "x" * 5_000_000, "last"], limit=100_000)
    assert text.startswith("first\n")
    assert text.endswith("last\n")
    assert len(text) < 110_000


def test_a_little_over_the_head_leaves_nothing_out(tmp_path: Path) -> None:
    lines: list[str] = ["a" * 1_000] * 95
    assert written(tmp_path / "t.txt", lines, limit=100_000).splitlines() == lines


def test_the_next_turn_goes_on_in_the_same_file(tmp_path: Path) -> None:
    written(tmp_path / "t.txt", ["first turn"])
    assert written(tmp_path / "t.txt", ["second turn"]) == "first turn\nsecond turn\n"


def test_the_next_turn_of_a_full_one_has_room_too(tmp_path: Path) -> None:
    written(tmp_path / "t.txt", ["x" * 1_000] * 300, limit=100_000)
    assert "second turn" in written(tmp_path / "t.txt", ["second turn"], limit=100_000)


def test_a_key_is_masked_though_its_lines_come_one_by_one(tmp_path: Path) -> None:
    text = written(tmp_path / "t.txt", ["before", *KEY, "after"])
    assert not any(line in text for line in KEY[1:3])
    assert text.startswith("before\n")
    assert text.endswith("after\n")


def test_a_key_in_the_part_kept_for_the_end_is_masked(tmp_path: Path) -> None:
    text = written(tmp_path / "t.txt", ["x" * 900] * 200 + KEY + ["after"], limit=100_000)
    assert not any(line in text for line in KEY[1:3])
    assert text.endswith("after\n")


def test_a_secret_is_not_halved_into_the_clear(tmp_path: Path) -> None:
    """The end that is kept begins after a whole word."""
    secret = "sk-ant-REDACTED"
    for shift in range(24_930, 25_030, 9):
        text = written(tmp_path / f"{shift}.txt", ["y" * 200_000 + f" API_KEY={secret} " + "z" * shift], limit=100_000)
        assert secret[-12:] not in text


def test_a_key_without_an_end_hides_only_so_much() -> None:
    mask = KeyMask()
    assert mask.mask(f"see {KEY[0]}") == "see ***"
    hidden = [mask.mask("text") for _ in range(500)]
    assert hidden[:400] == ["***"] * 400
    assert hidden[400:] == ["text"] * 100


def test_a_key_that_ends_in_its_line_hides_nothing_else() -> None:
    mask = KeyMask()
    mask.mask(" ".join(KEY))
    assert mask.mask("text") == "text"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "t.txt").symlink_to(tmp_path / "precious")
    (tmp_path / "precious").write_text("precious\n")
    transcript = Transcript(tmp_path / "t.txt", 1000)
    transcript.event(Text("one"))
    transcript.close()
    assert "no transcript" in (transcript.problem or "")
    assert (tmp_path / "precious").read_text() == "precious\n"


def test_a_folder_in_its_place_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "t.txt").mkdir()
    transcript = Transcript(tmp_path / "t.txt", 1000)
    transcript.event(Text("one"))
    transcript.close()
    assert "no transcript" in (transcript.problem or "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_ends_the_transcript_and_nothing_else() -> None:
    transcript = Transcript(Path("/dev/full"), 1000)
    transcript.event(Text("one"))
    transcript.event(Text("two"))
    transcript.close()
    assert transcript.problem == "the transcript ends early: No space left on device"


RENDERED: list[tuple[Event, str]] = [
    (ToolCall(name="shell", input={"command": "ls"}), '[tool] shell {"command": "ls"}'),
    (ToolResult(output="a\nb"), "[result] a\nb"),
    (ToolResult(output="no", is_error=True), "[result error] no"),
    (
        Usage(input_tokens=1, output_tokens=2, cached_tokens=3, cost_usd=0.5),
        "[usage] input 1 cached 3 output 2 cost $0.5000",
    ),
    (RateLimited(message="m", retry_after_seconds=30), "[rate limited] m (until: 30 s)"),
    (RateLimited(message="m", resets_at="2026-01-01"), "[rate limited] m (until: 2026-01-01)"),
    (Finished(message="done", exit_code=0), "[end] ended its turn, exit status 0: done"),
    (Finished(ok=False), "[end] ended badly"),
]


@pytest.mark.parametrize(("event", "text"), RENDERED)
def test_an_event_for_people(event: Event, text: str) -> None:
    assert rendered(event) == text


@given(st.lists(st.text("ab \n", max_size=30), max_size=30), st.integers(1, 60))
def test_the_tail_is_the_end_of_what_came_and_never_longer(texts: list[str], limit: int) -> None:
    tail = TextTail(limit)
    for text in texts:
        tail.add(text)
    whole = "\n".join(texts)
    kept = tail.text()
    assert len(kept) <= limit
    assert whole.endswith(kept)
    assert tail.left_out >= len(whole) - len(kept) - 1
    assert tail.left_out <= len(whole) - len(kept) + 1


@pytest.mark.parametrize("text", ["\ud800", "é" * 10, "\U0001f600"])
def test_any_text_can_be_written(text: str, tmp_path: Path) -> None:
    written(tmp_path / "t.txt", [text])
