"""The status lines below a run, on a real terminal."""

import re
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pexpect
import pytest

from agent_harness.session.project_view import Item, Money, Now, ProjectView, StatePart
from agent_harness.testing.long_task_project import LongTaskProject
from agent_harness.testing.task_list_project import TaskListProject, task
from agent_harness.views import watch
from agent_harness.views.screen import LinesBelow
from agent_harness.views.watch import WatchView

from .terminal import HARNESS, Terminal

TURNS = """\
turns:
  - do:
      - usage: {input_tokens: 12000, output_tokens: 900, cost_usd: 0.12}
      - say: "looking \\e[2J at it"
      - run: "touch begun; while [ ! -e go ]; do sleep 0.05; done; touch done.txt"
"""
RULE = re.compile(r"-- task-001 Make it -- agent \d:\d\d -- 0/2 proven -+")


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TaskListProject:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR")
    proof = {"command": "test -f done.txt"}
    project = TaskListProject(
        tmp_path / "list",
        task("task-001", title="Make it", validation=proof),
        task("task-002", title="\x1b[2J 表示する", validation=proof),
    )
    (project.root / "script.yaml").write_text(TURNS)
    return project


def started(project: TaskListProject, *, columns: int = 80, lines: int = 24) -> Terminal:
    words = ("run", "--max-tasks", "2", "--agent", "scripted:script.yaml")
    return Terminal(project.root, *words, columns=columns, lines=lines)


@pytest.fixture
def run(listed: TaskListProject) -> Iterator[Terminal]:
    """Start a run whose agent runs until there is a file `go`."""
    terminal = started(listed)
    yield terminal
    (listed.root / "go").touch()
    terminal.program.close(force=True)


def below(terminal: Terminal) -> list[str]:
    """Return the lines at the cursor and below."""
    assert terminal.screen.cursor.x == 0
    return [line.rstrip() for line in terminal.screen.display[terminal.screen.cursor.y :] if line.strip()]


def echoes(terminal: Terminal) -> bool:
    return bool(termios.tcgetattr(terminal.program.child_fd)[3] & termios.ECHO)


def test_three_lines_say_what_is_done_and_are_gone_at_the_end(listed: TaskListProject, run: Terminal) -> None:
    """F-RUN-1: earlier output stays as it was; keys that a person types meanwhile break nothing."""
    run.shows(lambda text: "$0.12 of $10.00 now" in text and "touch begun" in text)
    first, second, third = below(run)
    assert RULE.fullmatch(first), first
    assert second.startswith("   $ touch begun; while [")
    assert third == "   $0.12 of $10.00 now   12.0k in 900 out   Ctrl-C stops"
    assert not echoes(run)
    run.press("\nls\n\n")
    run.shows(lambda text: RULE.search(text) and first not in text)
    assert [RULE.fullmatch(below(run)[0]) is None, *below(run)[1:]] == [False, second, third]
    (listed.root / "go").touch()
    assert run.ended() == 0
    told = [line for line in run.all_lines if line]
    assert told[:4] == [
        "Session 2 starting...",
        "task-001: Make it (attempt 1 of 3)",
        "task-001: running test -f done.txt",
        "task-001: completed (checked: the check did not run on the base commit)",
    ]
    assert not any("Ctrl-C" in line or line.startswith("--") for line in told)
    assert any("\\x1b[2J 表示する (attempt 1" in line for line in told), told
    assert echoes(run)
    assert b"\x1b[32m" in run.received
    assert b"\x1b[?1049h" not in run.received
    assert b"\x1b[?25l" not in run.received


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_only_what_changes_is_written(listed: TaskListProject, run: Terminal) -> None:
    """B8: a clock that moves costs a few bytes a second."""
    run.shows(lambda text: "$0.12 of $10.00 now" in text and "touch begun" in text)
    before, begin = len(run.received), run.screen.display[run.screen.cursor.y]
    run.shows(lambda text: begin not in text)
    assert len(run.received) - before < 60, run.received[before:]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_another_size_is_drawn_anew_and_a_small_one_has_fewer(listed: TaskListProject, run: Terminal) -> None:
    run.shows(lambda text: "$0.12 of $10.00 now" in text)
    run.resize(60, 24)
    run.shows(lambda text: re.search(r"-- 0/2 proven -+\s*\n", text) and [*map(len, below(run)[:1])] == [59])
    assert below(run)[2] == "   $0.12 of $10.00 now   12.0k in 900 out   Ctrl-C stops"
    run.resize(60, 7)
    run.shows(lambda _: len(below(run)) == 1)
    run.resize(100, 30)
    run.shows(lambda _: len(below(run)) == 3 and len(below(run)[0]) == 99)
    (listed.root / "go").touch()
    assert run.ended() == 0


@pytest.mark.kept("2")
@pytest.mark.scenario
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_answered_and_leaves_the_terminal_as_it_was(
    listed: TaskListProject, run: Terminal, number: signal.Signals
) -> None:
    """F-RUN-3: the answer is printed whole above the lines, which are removed at the end."""
    run.shows(lambda text: "$0.12 of $10.00 now" in text)
    if number == signal.SIGINT:
        run.press("\x03")
    else:
        run.program.kill(number)
    view = run.shows(lambda text: "Stopping: the agent may finish" in text)
    assert re.search(r"^Stopping: the agent may finish its current call.*\n.*$", view, re.MULTILINE)
    run.shows(lambda text: "-- 0/2 proven --" in text)
    assert "Ctrl-C again stops it now." in " ".join(" ".join(run.screen.display).split())
    run.program.kill(number)
    assert run.ended() == 130
    told = [line for line in run.all_lines if line]
    assert not any(line.startswith(("--", "   $")) for line in told), told
    assert echoes(run)


@pytest.mark.exhaustive
@pytest.mark.scenario
@pytest.mark.parametrize("how", ["--plain", "CI", "TERM", "pipe"])
def test_there_are_none_where_lines_are_plain(
    listed: TaskListProject, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (listed.root / "go").touch()
    monkeypatch.setenv("HARNESS_TIME_SCALE", "0.02")
    monkeypatch.setenv("NO_COLOR", "1")
    if how in ("CI", "TERM"):
        monkeypatch.setenv(how, "dumb")
    words = [*HARNESS[1:], *(["--plain"] if how == "--plain" else []), "run", "--agent", "scripted:script.yaml"]
    if how == "pipe":
        done = subprocess.run([HARNESS[0], *words], cwd=listed.root, capture_output=True, check=False)
        output = done.stdout
    else:
        output = pexpect.run(" ".join([HARNESS[0], *words]), cwd=str(listed.root), timeout=120)
    assert isinstance(output, bytes)
    assert b"task-001: completed" in output
    assert b"\x1b" not in output
    assert b"Ctrl-C stops" not in output


# ---- what they say


def look(now: Now, **members: object) -> WatchView:
    items = tuple(Item(id=str(n), name=f"Feature #{n}", title="x", state="open") for n in range(3))
    state = StatePart(items=items, money=Money(spent_usd=0.98, sessions=9, limit_usd=200.0))
    view = ProjectView(kind="features", path="/p", state=state, now=(now,))
    return WatchView(name="shorty", view=view, rows=(), **members)  # type: ignore[arg-type]


NOW = Now(
    item="Feature #7",
    title="Chosen names and shorty serve, end to end, whatever it takes",
    phase="waiting",
    until=datetime(2026, 1, 1, 12, tzinfo=UTC),
    tokens={"input": 16_800, "output": 3_900},
    cost_usd=0.11,
    session_left=9.89,
    last=("9 passed in 2.03s",),
    alive=True,
)


def test_what_matters_less_goes_first_and_no_number_is_cut() -> None:
    at = f"{datetime(2026, 1, 1, 12, tzinfo=UTC).astimezone():%H:%M}"
    first, second, third = watch.footer(look(NOW), 79)
    assert first == f"-- #7 Chosen names and shorty serve,... -- waiting until {at} -- 0/3 proven --"
    assert second == "   9 passed in 2.03s"
    assert third == "   $0.11 of $10.00 now   $0.98 of $200.00   16.8k in 3.9k out   Ctrl-C stops"
    assert watch.footer(look(NOW), 70)[2] == "   $0.11 of $10.00 now   $0.98 of $200.00   16.8k in 3.9k out"
    wide = watch.footer(look(NOW), 120)
    assert wide[2] == "   $0.11 of $10.00 now   $0.98 of $200.00   16.8k in 3.9k out   Ctrl-C stops"
    assert len(wide[0]) == 120
    first, second, third = watch.footer(look(NOW), 40, "codex: 1 h 59 left")
    assert first.startswith("-- #7 -- waiting until")
    assert (second, third) == ("   codex: 1 h 59 left", "   $0.11 of $10.00 now")
    unknown = watch.footer(look(Now(item="a", alive=True, tokens={}, cost_unknown=True)), 79)
    assert unknown[2] == "   cost unknown now   $0.98 of $200.00   0 in 0 out   Ctrl-C stops"


def test_before_the_first_session_and_with_several_agents() -> None:
    assert watch.footer(look(Now()), 79)[0].startswith("-- shorty -- preparing -- 0/3 proven --")
    workers = [{"slot": "w1", "item": "1", "phase": "agent"}, {"slot": "w2", "item": "2", "phase": "judging"}]
    parallel = {"alive": True, "workers": workers, "budget": {"spent": 0.5, "limit": 10}}
    several = watch.footer(look(NOW, parallel=parallel), 79)
    assert several[0].startswith("-- shorty -- 2 agents at work -- 0/3 proven --")
    assert several[1:] == [
        "   w1 #1 agent   w2 #2 judging",
        "   $0.50 of $10.00 now   $0.98 of $200.00   Ctrl-C stops",
    ]
    listed = look(NOW, parallel=parallel)
    listed = replace(listed, view=replace(listed.view, state=StatePart(money=Money(spent_usd=0.32, sessions=4))))
    assert watch.footer(listed, 79)[2] == "   $0.50 of $10.00 now   Ctrl-C stops"  # those sessions are of this run
    assert watch.lines(listed, 80, 20)[1] == "$0.50 of $10.00 now"
    odd = watch.footer(look(NOW, parallel={"alive": True, "workers": 7, "budget": [1]}), 79)
    assert odd[1:] == ["", "   $0.98 of $200.00   Ctrl-C stops"]


def test_a_picture_that_is_the_same_is_not_written_and_one_after_a_stop_is_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: at[0])
    lines = LinesBelow()
    assert "one" in lines.change(["one", "two"], (80, 24))
    assert lines.change(["one", "two"], (80, 24)) == ""
    changed = lines.change(["one", "twice"], (80, 24))
    assert changed == "\x1b[?2026h\x1b[1B\x1b[3Gice\x1b[K\x1b[1A\r\x1b[?2026l"
    at[0] += 60  # a shell had the terminal
    assert "\x1b[J" in lines.change(["one", "twice"], (80, 24))
    assert lines.gone() == "\r\x1b[J"
    assert lines.gone() == ""


def test_a_slice_of_a_long_task_has_them_and_ends_with_what_it_came_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-RUN-1, F-RUN-2: on stderr, if that is a terminal; stdout has only the answer."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR")
    book = LongTaskProject.of_book(tmp_path / "book")
    script = "touch begun; while [ ! -e go ]; do sleep 0.05; done"
    words = ("run", ".", "--worker", "local-command", "--command", script)
    run = Terminal(book.root, *words, program="agent_harness.cli.lth")
    try:
        run.shows(lambda text: "-- agent 0:0" in text and "Ctrl-C ends this session" in text)
        first, *_ = below(run)
        assert re.fullmatch(r"-- \S.* -- agent 0:0\d -- 0/1 proven -+", first), first
        (book.root / "go").touch()
        assert run.ended() == 0
    finally:
        (book.root / "go").touch()
        run.program.close(force=True)
    told = "\n".join(run.all_lines)
    assert "Ctrl-C" not in told
    for said in ("proven     none in this run; 0 of 1 in all", "1 session", "next: lth status .", "decision:   run"):
        assert said in told, told
    assert not LongTaskProject.of_book(tmp_path / "plain").run("true").err.count("proven")
