"""The log: each form of the document, byte for byte, and read again."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.kernel import clock
from agent_harness.protocols.tasklist import progress
from agent_harness.protocols.tasklist.layout import TaskListLayout
from agent_harness.testing.task_list_project import NOON, TaskListProject, after

from . import SEED

STATS = {
    "tasks_total": 5,
    "completed": 1,
    "failed": 1,
    "pending": 3,
    "blocked": 0,
    "attempts_total": 2,
    "checkpoints": 1,
}
HASH = "Add rate limiting (base=abc1234)"
STEP = f"step=2/4 {progress.quoted('auth routes created, tests pending')}"
FORMS = [
    ("INIT", None, None, "Harness initialized for project /path/to/project"),
    ("INIT", None, None, "Environment health check: PASS"),
    ("LOCK", None, None, "acquired (pid=12345)"),
    ("Starting", "task-001", None, "Implement user authentication (base=def5678)"),
    ("CHECKPOINT", "task-001", None, STEP),
    ("Completed", "task-001", None, "(commit abc1234)"),
    ("Starting", "task-002", None, HASH),
    ("ERROR", "task-002", "TASK_EXEC", "Redis connection refused"),
    ("ROLLBACK", "task-002", None, "git reset --hard abc1234"),
    ("STATS", None, None, progress.stats_text(STATS)),
]


def test_each_line_of_the_document_is_made_byte_for_byte_and_read_again() -> None:
    lines = (SEED / "harness-progress.txt").read_text().splitlines()
    assert len(lines) == len(FORMS)
    for line, (kind, task, category, text) in zip(lines, FORMS, strict=True):
        at = clock.parse(line[1:21])
        assert progress.entry(kind, 1, at=at, task=task, category=category, text=text) == line
        found = progress.parse(line)
        assert found
        assert (found.kind, found.task, found.category, found.text) == (kind, task, category, text)
        assert (found.session, found.time) == (1, at)


@pytest.mark.parametrize(
    ("line", "kind", "task", "category", "text"),
    [
        ("[T] [SESSION-3] ERROR [ENV_SETUP] corrupted", "ERROR", None, "ENV_SETUP", "corrupted"),
        ("[T] [SESSION-3] ERROR [task-1] [CONFIG] [x] y", "ERROR", "task-1", "CONFIG", "[x] y"),
        (
            "[T] [SESSION-3] Starting [task-1] [wip] title (base=none)",
            "Starting",
            "task-1",
            None,
            "[wip] title (base=none)",
        ),
        ("[T] [SESSION-3] LOCK released", "LOCK", None, None, "released"),
        ('[T] [SESSION-3] RECOVERY action="restored from .bak"', "RECOVERY", None, None, 'action="restored from .bak"'),
        ("[T] [SESSION-3] WARN", "WARN", None, None, ""),
    ],
)
def test_other_lines_are_read(line: str, kind: str, task: str | None, category: str | None, text: str) -> None:
    found = progress.parse(line)
    assert found
    assert (found.session, found.kind, found.task, found.category, found.text) == (3, kind, task, category, text)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Completed [task-1]",
        " [T] [SESSION-1] Completed [task-1]",
        "note: [T] [SESSION-1] Completed [task-1]",
        "[T] [SESSION-x] Completed [task-1]",
        "[T] [SESSION-²] Completed [task-1]",
        "[T] SESSION-1 Completed [task-1]",
        "[T] [SESSION-1] completed [task-1]",
        "[T] [SESSION-1",
    ],
)
def test_any_other_text_is_no_entry(line: str) -> None:
    assert progress.parse(line) is None


@given(st.text(max_size=700), st.text(min_size=1, max_size=30), st.sampled_from(["Starting", "CHECKPOINT", "WARN"]))
def test_whatever_is_written_is_one_line_that_is_read_again(text: str, task: str, kind: str) -> None:
    line = progress.entry(kind, 7, at=NOON, task=task, text=text)
    assert "\n" not in line and "\r" not in line
    found = progress.parse(line)
    assert found
    assert (found.kind, found.session) == (kind, 7)
    assert len(found.text) <= 520


def test_a_line_in_the_file_has_no_control_characters_and_no_secrets(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list")
    text = 'a\nb\r\x1b[31m "q" TOKEN=abcdef1234567890abcdef password: hunter2secret'
    assert project.log(progress.entry("WARN", 1, text=text)) == [
        "[SESSION-1] " + project.log()[0].partition("] ")[2],
    ]
    (line,) = Path(project.layout.progress).read_text().splitlines()
    assert line.isprintable()
    assert "\\n" in line and "hunter2" not in line and "abcdef1234567890" not in line
    project.log(progress.entry("WARN", 1, text="é" * 5000))
    last = Path(project.layout.progress).read_bytes().splitlines()[-1]
    assert len(last.decode()) < 560


# ---- counting a session's outcomes ---------------------------------------------------------------------------------


def session(*lines: str, number: int = 2) -> list[str]:
    return [f"[2026-03-01T12:00:00Z] [SESSION-{number}] {line}" for line in lines]


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ([], 0),
        (["Starting [a] x", "Completed [a] (commit 1)"], 1),
        (["Starting [x-1] x", "ERROR [x-1] [TEST_FAIL] no", "ROLLBACK [x-1] git reset --hard 1"], 1),
        (["Starting [a] x", "ERROR [a] [TEST_FAIL] no", "ERROR [a] [TEST_FAIL] no", "Completed [a] (commit 1)"], 1),
        (["Starting [a] x", "ERROR [a] [TEST_FAIL] no", "Starting [a] x", "Completed [a] (commit 1)"], 2),
        (["Starting [a] x", "ERROR [a] [CONFIG] Missing validation.command"], 0),
        (["ERROR [ENV_SETUP] harness-init.sh failed"], 0),
        (
            [
                "ERROR [b] [DEPENDENCY] Blocked by failed a",
                "ERROR [c] [DEPENDENCY] Circular dependency detected: c -> c",
            ],
            0,
        ),
        (["Starting [a] x", "ERROR [a] [DEPENDENCY] needs a library that is gone"], 1),
        (['CHECKPOINT [a] step=1/2 "Completed [b] and [SESSION-2] ERROR [task-1]"'], 0),
    ],
)
def test_an_attempt_that_ended_counts_once(tmp_path: Path, lines: list[str], count: int) -> None:
    project = TaskListProject.at_noon(tmp_path / "list")
    before = session("Starting [a] x", "Completed [a] (commit 1)", number=1)
    project.log(*before, *session(*lines), "free text: Completed [z]")
    assert progress.outcomes(project.layout, 2) == count
    assert progress.outcomes(project.layout, 3) == 0


def test_a_log_that_is_missing_has_nothing(tmp_path: Path) -> None:
    layout = TaskListLayout(tmp_path)
    assert progress.outcomes(layout, 1) == 0
    assert progress.tail(layout, 5) == progress.condensed(layout) == []
    assert progress.last_stats(layout) is None
    assert progress.last_error_time(layout, "a") is None


def test_the_time_of_the_last_error_of_a_task(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list")
    project.log(
        *(
            progress.entry("ERROR", 1, at=after(n), task=each, category="TEST_FAIL", text="x")
            for n, each in enumerate("aba")
        )
    )
    assert progress.last_error_time(project.layout, "a") == after(2)
    assert progress.last_error_time(project.layout, "b") == after(1)


def test_condensed_keeps_the_newest_events_of_tasks(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list")
    project.log(
        *session("Starting [a] x", "STATS tasks_total=1", "LOCK released", "Completed [a] (commit 1)"), "free text"
    )
    assert progress.condensed(project.layout) == ["Starting [a] x", "Completed [a] (commit 1)"]
    assert progress.condensed(project.layout, characters=30) == ["Completed [a] (commit 1)"]
    assert progress.condensed(project.layout, lines=1) == []


def test_the_last_numbers_else_the_last_line(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list")
    project.log("first", "second " + "x" * 300)
    found = progress.last_stats(project.layout)
    assert found and len(found) == 220 and found.startswith("second")
    project.log(*session("STATS tasks_total=1"), "third")
    assert (progress.last_stats(project.layout) or "").endswith("STATS tasks_total=1")
