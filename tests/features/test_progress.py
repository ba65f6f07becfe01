"""The progress file: entries by agents and by the harness, read from the end (UAH-140..143)."""

import re
from pathlib import Path

from agent_harness.protocols.features import progress

AGENT_ENTRY = """
--------------------------------------------------------------------------------
SESSION 7 - 2026-01-16 14:30
--------------------------------------------------------------------------------

FEATURE: #12 (User can update profile)

WHAT I DID:
- Added PATCH /api/profile
- Added a test

VERIFICATION:
$ pytest tests/e2e/test_profile.py -v
==================== 3 passed in 1.23s ====================

DECISIONS:
- Used PATCH instead of PUT
- Names have at least 2 characters

CURRENT STATE:
- Feature #12 complete

NEXT: Feature #13 (User can upload a picture)
"""


def test_an_entry_by_an_agent_is_read_part_by_part(tmp_path: Path) -> None:
    """UAH-141, UAH-142."""
    path = tmp_path / "claude-progress.txt"
    path.write_text(progress.header("my-api") + AGENT_ENTRY)
    (entry,) = progress.recent_entries(str(path))
    assert entry.session == 7
    assert entry.part("FEATURE") == ["#12 (User can update profile)"]
    assert entry.part("WHAT I DID") == ["Added PATCH /api/profile", "Added a test"]
    assert entry.part("NEXT") == ["Feature #13 (User can upload a picture)"]
    assert entry.part("NOTHING") == []


def test_decisions_come_newest_session_first_and_from_three_sessions_at_most(tmp_path: Path) -> None:
    """UAH-248."""
    path = tmp_path / "p.txt"
    for session in range(1, 6):
        progress.append(str(path), progress.entry(session, [("DECISIONS", [f"decision {session}"])]))
    assert progress.recent_decisions(str(path)) == [(5, "decision 5"), (4, "decision 4"), (3, "decision 3")]


def test_decisions_that_were_told_elsewhere_count_too(tmp_path: Path) -> None:
    """UAH-248: the same words once, whoever wrote them down."""
    path = tmp_path / "p.txt"
    progress.append(str(path), progress.entry(2, [("DECISIONS", ["one  decision", "none"])]))
    told = [(1, "old"), (2, "one decision"), (2, "another"), (4, "new"), (3, "None.")]
    assert progress.recent_decisions(str(path), told, sessions=2) == [(4, "new"), (2, "one decision"), (2, "another")]
    assert progress.recent_decisions(str(tmp_path / "missing"), told)[-1] == (1, "old")


def test_append_keeps_what_is_there_and_starts_on_a_line_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "p.txt"
    path.write_bytes(b"caf\xe9 without a line end")
    progress.append(str(path), "SESSION TERMINATED: x\n")
    assert path.read_bytes() == b"caf\xe9 without a line end\nSESSION TERMINATED: x\n"


def test_only_the_end_of_a_long_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "p.txt"
    path.write_text("".join(progress.entry(n, [("WHAT I DID", ["x" * 500])]) for n in range(2000)))
    entries = progress.recent_entries(str(path))
    assert entries[-1].session == 1999
    assert len(entries) < 200
    assert progress.has_entry(str(path), 1999)


def test_a_missing_file_has_no_entries(tmp_path: Path) -> None:
    assert progress.recent_entries(str(tmp_path / "none")) == []
    assert not progress.has_entry(str(tmp_path / "none"), 1)


def test_the_head_of_a_new_file_and_the_heading_of_an_entry() -> None:
    """UAH-140, UAH-141, UAH-142, UAH-143."""
    head = progress.header("my-api").splitlines()
    assert head[0] == head[2] == "=" * 80
    assert head[1] == "CLAUDE PROGRESS LOG - my-api"
    assert len([line for line in head[3:] if line]) == 2, "a note of two lines"
    text = progress.entry(0, [("WHAT I DID", ["set the project up"]), ("NEXT", ["the first feature"])])
    lines = [line for line in text.splitlines() if line]
    assert re.fullmatch(r"SESSION 0 - \d{4}-\d\d-\d\d \d\d:\d\d", lines[1])
    assert lines[0] == lines[2] == "-" * 80
    assert [line for line in lines if line.endswith(":")] == ["WHAT I DID:", "NEXT:"]
    assert "- set the project up" in lines
