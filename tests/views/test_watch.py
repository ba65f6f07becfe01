"""``harness watch``: its view of every kind of project, its keys, and that it does not affect runs."""

import json
import os
import re
import subprocess
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent_harness.kernel import owner
from agent_harness.kernel.terminal import width
from agent_harness.protocols.tasklist import proven
from agent_harness.session.project_view import AskedQuestion, Item, Money, Now, PastSession, ProjectView, StatePart
from agent_harness.supervision.messages import PersonsMessages
from agent_harness.testing.feature_list_project import FeatureListProject
from agent_harness.testing.long_task_project import LongTaskProject
from agent_harness.testing.task_list_project import TaskListProject, task
from agent_harness.views import costs, watch
from agent_harness.views.transcript import END_BYTES, ScrolledText, TranscriptEnd
from agent_harness.views.watch import WatchReader, WatchView

from .terminal import HARNESS, Terminal, until

SPENDS = """\
turns:
  - do:
      - usage: {input_tokens: 12000, output_tokens: 900, cost_usd: 0.12}
      - run: "touch begun; while [ ! -e go ]; do sleep 0.05; done; touch done.txt"
"""


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TaskListProject:
    """Return three tasks, one with control characters in its title."""
    for name in ("CI", "FORCE_COLOR", "HARNESS_PLAIN", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    proof = {"command": "test -f done.txt"}
    return TaskListProject(
        tmp_path / "list",
        task("task-001", title="Make it", validation=proof),
        task("task-002", title="\x1b[2J\x1b]0;owned\x07 wipe", validation=proof),
        task("task-003", title="Sell it", validation=proof),
    )


@pytest.fixture
def watched(listed: TaskListProject) -> Iterator[Terminal]:
    terminal = Terminal(listed.root, "watch")
    yield terminal
    terminal.program.close(force=True)


def test_one_picture_and_the_same_in_json(listed: TaskListProject) -> None:
    once = listed.harness("watch", "--once")
    assert once.code == 0, once
    assert "list  0/3 proven  idle" in once.out
    assert "> task-001 open  Make it" in once.out
    assert "\x1b" not in once.out
    found = json.loads(listed.harness("watch", "--json").out)
    assert (found["proven"], found["total"], found["state"], found["left"]) == (0, 3, "idle", None)
    assert [each["id"] for each in found["items"]] == ["task-001", "task-002", "task-003"]
    chosen = listed.harness("watch", "task-003", "--once")
    assert "> task-003 open  Sell it" in chosen.out
    wrong = listed.harness("watch", "task-9", "--once")
    assert (wrong.code, "No item 'task-9' in this project" in wrong.err) == (2, True), wrong
    both = listed.harness("watch", "task-001", "--all")
    assert (both.code, "cannot be used together" in both.err) == (2, True), both


def test_a_long_task_is_watched_too_and_where_no_project_is(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path / "book")
    found = subprocess.run([*HARNESS, "watch", "--once"], cwd=project.root, capture_output=True, text=True, check=False)
    assert (found.returncode, "0/" in found.stdout, "-- long task --" in found.stdout) == (0, True, True), found
    empty = tmp_path / "empty"
    empty.mkdir()
    none = subprocess.run([*HARNESS, "watch"], cwd=empty, capture_output=True, text=True, check=False)
    assert (none.returncode, "No project in this folder" in none.stderr) == (4, True), none


@pytest.mark.usefixtures("listed")  # its terminal
def test_the_only_item_of_a_long_task_needs_no_choosing_when_it_is_done(tmp_path: Path) -> None:
    """F-WATCH-4."""
    project = LongTaskProject.of_book(tmp_path / "book")
    project.checkpoint = {**project.checkpoint, "status": "done"}
    watched = Terminal(project.root, "watch")
    try:
        watched.shows(lambda text: "-- long task --" in text)
        watched.press("w")
        watched.shows(lambda text: "esc back" in text)
        watched.press("\x1b")
        for key, said in (("d", "Enter: back"), ("a", "Nothing needs you"), ("r", "Resume?")):
            watched.shows(lambda text: "q leave" in text)
            watched.press(key)
            watched.shows(lambda text, said=said: said in text)
            watched.press("n\n\n" if key == "r" else "\n")
        watched.shows(lambda text: "q leave" in text)
        watched.press("q")
        assert watched.ended() == 0
    finally:
        watched.program.close(force=True)


def test_the_keys_choose_open_pause_and_leave(listed: TaskListProject, watched: Terminal) -> None:
    """F-WATCH-4: on a terminal that is too small the first three lines remain."""
    view = watched.shows(lambda text: "> task-001" in text)
    assert "q leave" in view
    assert "\\x1b[2J\\x1b]0;owned\\x07 wipe" in view
    watched.press("j")
    watched.shows(lambda text: "> task-002" in text)
    watched.press("G")
    watched.shows(lambda text: "> task-003" in text)
    watched.press("\r")
    watched.shows(lambda text: "task-003 Sell it: open, no claim yet" in text and "esc back" in text)
    watched.press("\x1b")
    watched.shows(lambda text: "> task-003" in text and "0/3 proven" in text)
    watched.press("f")
    watched.shows(lambda text: "> task-001" in text)
    watched.press("/")
    watched.shows(lambda text: "Find:" in text)
    watched.press("sell\n")
    watched.shows(lambda text: "> task-003" in text)
    watched.press("p")
    watched.shows(lambda text: "Pause after the current operation? [y/n]" in text)
    watched.press("y\n")
    watched.shows(lambda text: "Enter: back to the list" in text)
    assert listed.store.paused()
    watched.press("\n")
    watched.shows(lambda text: "rests: paused" in text)
    watched.press("r")
    watched.shows(lambda text: "Resume?" in text)
    watched.press("y\n\n")
    watched.shows(lambda text: "nothing needs you" in text)
    assert not listed.store.paused()
    watched.press("s")
    watched.shows(lambda text: "Message to the agent:" in text)
    watched.press("\n\n")
    watched.press("?")
    watched.shows(lambda text: "answer the question" in text)
    watched.press("\x1b")
    watched.shows(lambda text: "> task-003" in text)
    watched.resize(50, 10)
    small = watched.shows(lambda text: "0/3 proven" in text and "task-003" not in text)
    assert "-- tasks" not in small
    watched.press("q")
    assert watched.ended() == 0
    assert watched.received.endswith(b"\x1b[?25h\x1b[?1049l")


LONG = """\
turns:
  - do:
      - run: "seq -f 'line %g of what came first' 1 9000"
      - say: "the needle is here"
      - run: "seq -f 'row %g of the end' 1 60; touch begun; while [ ! -e go ]; do sleep 0.05; done; touch done.txt"
"""


@pytest.mark.scenario
def test_panes_are_gone_through_and_a_transcript_is_read_from_its_end(
    listed: TaskListProject, watched: Terminal
) -> None:
    """F-WATCH-5: 64 KiB of it and never all; a followed text grows, a text scrolled back stays."""
    (listed.root / "script.yaml").write_text(LONG)
    (listed.root / "go").touch()
    listed.harness("run", "--max-tasks", "1", "--agent", "scripted:script.yaml")
    (transcript,) = (listed.root / ".harness/sessions").glob("*task-001.1.log")
    assert transcript.stat().st_size > 3 * 65_536
    watched.shows(lambda text: "task-001 checked" in text)
    watched.press("g\t")
    watched.shows(lambda text: "== transcript of task-001 ==" in text and "tab pane" in text)
    with transcript.open("a") as file:
        file.write("and then it went on\n")
    watched.shows(lambda text: "and then it went on" in text)
    watched.press("g")
    view = watched.shows(lambda text: "earlier bytes" in text)
    assert "line 1 of what came first" not in view
    assert "== 1-" in view or "- 1-" in view or " 1-" in view
    with transcript.open("a") as file:
        file.write("nobody is pulled away by this\n")
    watched.read(1.5)
    watched.shows(lambda text: "earlier bytes" in text and "pulled away" not in text)
    watched.press("j")
    watched.shows(lambda text: "earlier bytes" not in text)
    watched.press("G")
    watched.shows(lambda text: "pulled away" in text)
    watched.press("k")
    watched.shows(lambda text: "pulled away" not in text)
    watched.press("f")
    watched.shows(lambda text: "pulled away" in text)
    watched.press("/")
    watched.shows(lambda text: "Find:" in text)
    watched.press("needle\n")
    watched.shows(lambda text: "the needle is here" in text and "row 60 of" not in text)
    watched.press("\t")
    watched.shows(lambda text: "== harness ==" in text and "-- tasks --" in text)
    watched.press("/")
    watched.shows(lambda text: "Find:" in text)
    watched.press("Session 2 starting\n")
    watched.shows(lambda text: "Session 2 starting" in text)
    watched.press("\t")
    watched.shows(lambda text: "== " not in text)
    watched.press("\r")
    watched.shows(lambda text: "task-001 Make it: checked" in text and "tab transcript" in text)
    watched.press("\t")
    watched.shows(lambda text: "pulled away" in text and "tab story" in text)
    watched.press("/")
    watched.shows(lambda text: "Find:" in text)
    watched.press("needle\n")
    watched.shows(lambda text: "the needle is here" in text)
    watched.press("\t")
    watched.shows(lambda text: "task-001 Make it: checked" in text)
    watched.press("\x1b")
    watched.shows(lambda text: "0/3 proven, 1 checked" in text)
    watched.press("\t\x1b")
    watched.shows(lambda text: "-- tasks --" in text and "== " not in text)
    for key, what in (("w", "task-001 Make it: checked"), ("c", "unknown")):
        watched.press(key)
        watched.shows(lambda text, what=what: what in text and "esc back" in text)
        watched.press("\x1b")
        watched.shows(lambda text: "0/3 proven, 1 checked" in text)
    watched.press("u")
    watched.shows(lambda text: "Type yes:" in text)
    watched.press("no\n\n")
    watched.press("a")
    watched.shows(lambda text: "Nothing needs you." in text)
    watched.press("\n")
    watched.press("d")
    watched.shows(lambda text: "Enter: back to the list" in text)
    watched.press("\n")
    watched.shows(lambda text: "0/3 proven, 1 checked" in text)
    watched.press("q")
    assert watched.ended() == 0


@pytest.mark.scenario
def test_a_text_stays_that_of_its_item_when_the_work_goes_on(listed: TaskListProject, watched: Terminal) -> None:
    """F-WATCH-5: no item is chosen; a text that is scrolled back or opened is not replaced by another item's."""
    (listed.root / "script.yaml").write_text(LONG)
    (listed.root / "go").touch()
    listed.harness("run", "--max-tasks", "1", "--agent", "scripted:script.yaml")
    listed.edit("task-001", status="pending")
    watched.shows(lambda text: "> task-001" in text)
    watched.press("\tk")
    watched.shows(lambda text: "== transcript of task-001 ==" in text and "the needle" not in text)
    listed.edit("task-001", status="completed")
    assert "== transcript of task-001 ==" in watched.shows(lambda text: "> task-002" in text)
    watched.press("f")
    watched.shows(lambda text: "== transcript of task-002 ==" in text and "No transcript was kept." in text)

    for done in ("task-002", "task-003"):
        listed.edit(done, status="completed")
    watched.shows(lambda text: "== transcript ==" in text and "no item is selected" in text)
    watched.press("\x1b")
    watched.shows(lambda text: "0/3 proven, 1 checked" in text and "enter open" in text)
    watched.press("w")
    watched.shows(lambda text: "no item is selected" in text and "enter open" not in text)
    for again in ("task-001", "task-002", "task-003"):
        listed.edit(again, status="pending")
    watched.shows(lambda text: "> task-001" in text and "== " not in text)
    watched.press("\r")
    watched.shows(lambda text: "task-001 Make it" in text and "tab transcript" in text)
    listed.edit("task-001", status="completed")
    watched.press("\t")
    watched.shows(lambda text: "tab story" in text)
    watched.read(1.5)
    watched.shows(lambda text: "row 60 of" in text)


def test_keys_act_on_the_item_that_is_chosen_whatever_its_id(
    tmp_path: Path, listed: TaskListProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``harness diff`` takes a number as a session and a leading - as an option, and ids are written by others."""
    monkeypatch.setenv("GIT_PAGER", "cat")
    odd, proof = "--\x1b]0;owned\x07", {"command": "true"}
    jobs = [task("2", priority="P0", validation=proof), task("1", validation=proof), task(odd, depends_on=["1"])]
    project = TaskListProject(tmp_path / "ids", *jobs, git=True, session_count=0)
    agent = project.agent('echo made > "$HARNESS_TASK_ID.txt"')
    for _ in range(2):
        assert project.harness("run", "--max-tasks", "1", "--agent", agent).code in (0, 9)
    watched = Terminal(project.root, "watch")
    try:
        watched.shows(lambda text: "0/3 proven, 2 checked" in text)
        watched.press("g")
        watched.shows(lambda text: "> 2 " in text)
        watched.press("d")
        shown = watched.shows(lambda text: "Enter: back to the list" in text)
        assert ("2: accepted (" in shown, "+++ b/2.txt" in shown, "Session 2" in shown) == (True, True, False), shown
        watched.press("\n")
        watched.shows(lambda text: "> 2 " in text)
        watched.press("G\r")
        watched.shows(lambda text: "no claim yet" in text and "esc back" in text)
        watched.press("\x1b")
        watched.shows(lambda text: "-- tasks --" in text)
        watched.press("u")
        watched.shows(lambda text: "Type yes:" in text)
        watched.press("yes\n")
        watched.shows(lambda text: "is pending, so there is nothing to undo" in text)
        watched.press("\n")
        watched.shows(lambda text: "-- tasks --" in text)
        watched.press("q")
        assert watched.ended() == 0
    finally:
        watched.program.close(force=True)
    assert b"\x1b]0;owned" not in watched.received


def test_a_key_without_a_meaning_does_nothing(watched: Terminal) -> None:
    """Left, right, Home and others begin with Escape, which quits; slow connections send them in parts."""
    watched.shows(lambda text: "> task-001" in text)
    for keys in ("\x1b[C", "\x1b[1;5D", "\x1b[H", "\x1bOP", "\x1b[15~", "\x1b["):
        watched.press(keys)
    watched.press("3~j")
    watched.shows(lambda text: "> task-002" in text)
    watched.press("\x1b")
    assert watched.ended() == 0


def test_what_the_disk_does_not_give_leaves_the_last_picture_with_its_age(
    listed: TaskListProject, watched: Terminal
) -> None:
    """Rule c: an old view says how old it is."""
    watched.shows(lambda text: "> task-001 open" in text)
    path = listed.root / "harness-tasks.json"
    whole = path.read_text()
    path.write_text(whole[:-30])
    view = watched.shows(lambda text: re.search(r"! last update \d+ s ago: .*harness-tasks.json", text))
    assert "> task-001 open" in view
    path.write_text(whole)
    watched.shows(lambda text: "ago:" not in text and "> task-001 open" in text)
    logs = listed.root / ".harness/logs"
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "run.log").mkdir()
    watched.shows(lambda text: "ago:" in text and "is not a regular file" in text and "> task-001 open" in text)
    (logs / "run.log").rmdir()
    watched.shows(lambda text: "ago:" not in text)
    watched.press("q")
    assert watched.ended() == 0


def test_nothing_is_written_while_nothing_changes(watched: Terminal) -> None:
    """F-WATCH-3."""
    watched.shows(lambda text: "> task-001" in text)
    watched.read(1.0)
    before = len(watched.received)
    for _ in range(4):
        watched.read(0.5)
    assert len(watched.received) == before
    watched.press("j")
    watched.shows(lambda text: "> task-002" in text)
    assert len(watched.received) - before < 100


@pytest.mark.scenario
def test_a_run_is_watched_and_goes_on_when_the_view_is_killed(listed: TaskListProject, watched: Terminal) -> None:
    """F-WATCH-1: two views at once, of which one is killed."""
    (listed.root / "script.yaml").write_text(SPENDS)
    run = subprocess.Popen(
        [*HARNESS, "run", "--max-tasks", "1", "--agent", "scripted:script.yaml"],
        cwd=listed.root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    other = Terminal(listed.root, "watch", "--plain")
    try:
        view = watched.shows(lambda text: "$ touch begun" in text and "$0.12 of $10.00" in text)
        assert "-- agent: scripted" in view
        assert "> task-001 working" in view
        until(lambda: other.read() and b"task-001: Make it" in other.received)
        watched.program.kill(9)
        assert run.poll() is None
        (listed.root / "go").touch()
        assert run.wait(120) in (0, 9)
        until(lambda: other.read() and b"task-001: completed" in other.received)
        other.program.sendintr()
        assert other.ended() == 0
    finally:
        (listed.root / "go").touch()
        run.kill()
        run.wait()
        other.program.close(force=True)
    assert listed.harness("watch", "--once").out.startswith("list  0/3 proven, 1 checked")


def test_all_projects_a_line_each_and_who_needs_a_person_first(listed: TaskListProject, tmp_path: Path) -> None:
    other = TaskListProject(tmp_path / "asks", task("task-001", title="Ask"), task("task-002", title="Later"))
    for project in (listed, other):
        assert project.harness("run", "--once", "--agent", project.agent("exit 1")).code != 5
    assert other.harness("pause").code == 0
    state = json.loads((other.root / "harness-tasks.json").read_text())
    state["halt"] = {"category": "CONFIG", "message": "Which database?", "at": "2026-01-01T00:00:00Z", "task": None}
    (other.root / "harness-tasks.json").write_text(json.dumps(state))
    (listed.root / "harness-tasks.json").chmod(0o600)
    found = listed.harness("watch", "--all", "--once")
    rows = found.out.splitlines()
    assert rows[0].split() == ["PROJECT", "STATE", "ITEM", "PROVEN", "COST", "NEEDS", "YOU"]
    assert rows[1].startswith("! asks"), found
    assert "Which database?" in rows[1]
    assert rows[2].startswith("  list"), found
    told = json.loads(listed.harness("watch", "--all", "--json").out)["projects"]
    assert [os.path.basename(each["path"]) for each in told] == ["asks", "list"]


def test_the_item_of_each_project_is_named_where_there_is_room() -> None:
    """F-WATCH-6: the item of a question, else the running one; it is dropped before state, proven and cost."""
    items = (
        Item(id="3", name="Feature #3", title="x", state="working"),
        Item(id="4", name="Feature #4", title="y", state="open"),
    )
    now = Now(item="Feature #3", alive=True, phase="judging")
    asked = AskedQuestion(kind="budget", message="How much more?", item="4")
    works = ProjectView(kind="features", path="/w", state=StatePart(items=items), now=(now,))
    asks = replace(works, state=StatePart(items=items, questions=(asked,)))
    rests = replace(works, now=())
    looks = [WatchView(name="n", view=each, rows=()) for each in (works, asks, rests)]
    seen: list[Any] = [(f"/{n}", "features", each) for n, each in enumerate(looks)]
    wide = [line.split() for line in watch.all_lines(seen, 80)]
    assert [row[row.index("0/2") - 1] for row in wide[1:]] == ["#3", "#4", "-"]
    narrow = watch.all_lines(seen, 40)
    assert "ITEM" not in narrow[0]
    assert all("0/2" in line for line in narrow[1:])


def test_what_no_session_on_record_has_proven_is_not_shared_the_costs_of_those() -> None:
    """Rule c: an item proven in the user's own client has an unknown cost."""
    items = tuple(Item(id=each, name=each, title="x", state="proven") for each in ("a", "b", "c"))
    sessions = tuple(PastSession(number=1, item=each, outcome="accepted", cost_usd=0.3) for each in ("a", "b"))
    state = StatePart(items=items, money=Money.of(sessions))
    found = costs.read(ProjectView(kind="tasklist", path="/p", state=state, sessions=sessions))
    assert (found["per_proven_usd"], found["proven"], found["proven_outside"]) == (0.3, 3, 1)
    assert "Per proven  $0.30, 2 proven; 1 more without a session on record, at unknown cost" in costs.lines(found)
    gone = costs.read(ProjectView(kind="tasklist", path="/p", state=state, sessions=sessions[:1]))
    assert (gone["per_proven_usd"], gone["proven_outside"]) == (0.2, 0)  # records that have left


def test_the_time_left_is_said_after_three_proven_items() -> None:
    """F-WATCH-2: from the middle half of the items' times, summed over their sessions."""
    items = tuple(
        Item(id=str(n), name=f"Feature #{n}", title="x", state="proven" if n < 5 else "open") for n in range(1, 7)
    )
    sessions = tuple(
        PastSession(number=n, item=item, outcome="accepted", seconds=seconds)
        for n, (item, seconds) in enumerate([("1", 600), ("2", 900), ("2", 300), ("3", 1800), ("4", 3600), ("5", 9)])
    )
    found = ProjectView(kind="features", path="/p", state=StatePart(items=items), sessions=sessions)
    assert watch.time_left(found) == "40 min to 1 h 00 left"
    alike = tuple(replace(each, seconds=600 + 30 * n) for n, each in enumerate(sessions))
    assert watch.time_left(replace(found, sessions=alike)) == "about 24 min left"
    assert watch.time_left(replace(found, sessions=sessions[:3])) is None
    assert watch.time_left(replace(found, state=StatePart(items=items[:4]))) is None


def test_no_log_is_held_open_and_of_a_huge_one_only_the_end_is_read(listed: TaskListProject, tmp_path: Path) -> None:
    """A view of hundreds of projects stays open for weeks, and logs are in folders where agents write."""
    log = Path(listed.layout.run_log)
    log.parent.mkdir(parents=True)
    with log.open("wb") as file:
        file.truncate(200_000_000)
        file.seek(0, os.SEEK_END)
        file.write(b"\n2026-01-01T10:00:00+00:00 said last\n")
    view = WatchReader("tasklist", str(listed.root))
    tracemalloc.start()
    seen = view.load()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 20_000_000
    assert [row["text"] for row in seen.rows] == ["said last"]
    assert [each.path for each in psutil.Process().open_files() if each.path.startswith(str(listed.root))] == []
    with log.open("a") as file:
        file.write("2026-01-01T10:00:01+00:00 said ")
    assert [row["text"] for row in view.load().rows] == ["said last"]
    with log.open("a") as file:
        file.write("later\n")
    assert [row["text"] for row in view.load().rows] == ["said last", "said later"]
    (tmp_path / "other").write_text("2026-01-01T10:00:02+00:00 of somebody else\n")
    log.unlink()
    log.symlink_to(tmp_path / "other")
    assert [row["text"] for row in view.load().rows] == ["said last", "said later"]


def test_what_is_empty_anew_or_put_away_is_read_on(listed: TaskListProject) -> None:
    """F-REC-6."""
    log = Path(listed.layout.run_log)
    log.parent.mkdir(parents=True)
    log.write_text("2026-01-01T10:00:00+00:00 one\n")
    view = WatchReader("tasklist", str(listed.root))
    assert [row["text"] for row in view.load().rows] == ["one"]
    with log.open("a") as file:
        file.write("2026-01-01T10:00:01+00:00 two\n")
    log.rename(f"{log}.1")
    log.write_text("2026-01-01T10:00:02+00:00 three\n")
    assert [row["text"] for row in view.load().rows] == ["one", "two", "three"]
    log.write_text("2026-01-01T10:00:03+00:00 4\n")
    assert [row["text"] for row in view.load().rows] == ["one", "two", "three", "4"]


def test_no_name_of_somebody_steers_the_terminal() -> None:
    """F-TERM-1: an agent names its model, and others give ids; a name may hold the separator of titles."""
    odd = "x --\x1b]0;owned\x07 == y"
    now = Now(item=odd, agent=odd, model=odd, alive=True, last=(odd,))
    items = (Item(id=odd, name=odd, title=odd, state="working"),)
    view = ProjectView(kind="tasklist", path="/p", state=StatePart(items=items), now=(now,))
    seen = WatchView(name=odd, view=view, rows=({"at": None, "text": odd},))
    text = ScrolledText("agent", lambda: [odd])
    text.of = odd
    text.look()
    for lines in (watch.lines(seen, 80, 24), watch.lines(seen, 80, 24, None, text), watch.lines(seen, 50, 10)):
        assert [line for line in lines if not line.isprintable() or len(line) > 80] == []


def test_a_line_of_any_length_is_seen_whole_and_never_as_another(tmp_path: Path) -> None:
    """F-WATCH-5: wrapped to the rows of the pane; of a line longer than 64 KiB, the end."""
    words, letters = " ".join(f"word{n}" for n in range(40)), "".join(chr(97 + n % 26) for n in range(100))
    text = ScrolledText("story", lambda: ["first", words, letters, "表示" * 20], from_end=False)
    text.look()
    for columns in (20, 33):
        _, rows = text.window(500, columns)
        assert max(map(width, rows)) <= columns
        assert " ".join(rows[1:]).startswith(words)
        assert f"{letters}{'表示' * 20}" in "".join(rows)
    text.find("WORD39")
    assert "word39" in text.window(3, 33)[1][-1]

    path = tmp_path / "transcript.log"
    path.write_text("\x1b[2Jbegin\n" + f"token={'x' * END_BYTES}{'y' * 900} the end\n")
    said, line = TranscriptEnd(str(path)).lines()
    assert "earlier bytes" in said
    assert line.endswith("yyy the end")
    assert len(line) < END_BYTES


@pytest.mark.scenario
@pytest.mark.usefixtures("listed")  # its terminal
def test_what_each_of_several_agents_says_is_read_where_it_works(tmp_path: Path) -> None:
    """F-WATCH-5: in its workspace, without following links; afterwards in the project."""
    tasks = [task(name, validation={"command": f"test -f {name}"}) for name in ("a", "b")]
    made = TaskListProject(tmp_path / "made", *tasks, git=True)
    waits = f"touch {tmp_path}/$HARNESS_TASK_ID; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"
    agent = made.agent(f'echo "the needle of $HARNESS_TASK_ID"; {waits}; touch $HARNESS_TASK_ID')

    def slots() -> dict[str, str]:
        shown = made.harness("status", "--json").json["parallel"] or {}
        workers = shown.get("workers", ())
        return {each["item"]: each["slot"] for each in workers if each["phase"] == "working"}

    with made.start("run", "--workers", "2", "--agent", agent) as run:
        until(lambda: (tmp_path / "a").exists() and (tmp_path / "b").exists() and len(slots()) == 2)
        terminal = Terminal(made.root, "watch", "a")
        try:
            shows(terminal, "> a working")
            terminal.press("\t")
            shows(terminal, "transcript of a", "the needle of a")
            terminal.press("\x1bj\t")
            shows(terminal, "transcript of b", "the needle of b")
            place = Path(made.harness("workspace", "path", slots()["b"]).out.strip())
            sessions, elsewhere = place / ".harness/sessions", tmp_path / "elsewhere"
            elsewhere.mkdir()
            (elsewhere / "1-b.9.log").write_text("of somebody else\n")
            sessions.rename(kept := place / ".harness/kept")
            sessions.symlink_to(elsewhere)
            shows(terminal, "transcript of b", "has printed nothing yet")
            sessions.unlink()
            kept.rename(sessions)
            shows(terminal, "the needle of b")
            (tmp_path / "go").touch()
            assert run.wait(240) == 0
            shows(terminal, "2/2 proven", "transcript of b", "the needle of b")
        finally:
            terminal.program.close(force=True)
    assert b"of somebody else" not in terminal.received


def test_of_an_agent_on_another_machine_is_said_where_its_words_are(listed: TaskListProject) -> None:
    """F-WATCH-5: and an invalid slot names no folder."""
    row = {"slot": "w1", "item": "task-001", "title": "It", "phase": "working"}
    shown = {"v": 1, "owner": owner.current().as_record(), "run": "3f1c", "engine": "temporal", "workers": [row]}
    Path(listed.layout.parallel).parent.mkdir()
    Path(listed.layout.parallel).write_text(json.dumps(shown))
    view = WatchReader("tasklist", str(listed.root))
    kept = view.transcript(view.load(), "task-001")
    assert (kept.path, "runs on another machine" in kept.why) == (None, True)
    assert view.transcript(view.load(), "task-002").why == "No transcript was kept."
    assert listed.harness("run", "--once", "--agent", listed.agent("exit 1")).code != 0  # its folder is there
    home = Path(listed_home(listed))
    for folder in (home, home / "parallel/places/w1"):
        (folder / ".harness/sessions").mkdir(parents=True)
        (folder / ".harness/sessions/1-task-001.1.log").write_text("it said\n")
    for slot, is_there in (("w1", True), ("../..", False), ("w1/../../..", False), ("v1", False)):
        here = {**shown, "engine": "local", "workers": [{**row, "slot": slot}]}
        Path(listed.layout.parallel).write_text(json.dumps(here))
        assert (view.transcript(view.load(), "task-001").path is not None) is is_there, slot


def test_of_what_does_not_fit_the_newest_lines_of_the_agents_are_there() -> None:
    """F-WATCH-4: in the smallest terminal; with several agents, the number of missing lines is shown."""
    items = tuple(Item(id=str(n), name=f"#{n}", title="x", state="working") for n in range(9))
    one = Now(item="#1", agent="me", alive=True, last=("first", "second", "third"))
    rows = tuple({"at": None, "text": f"row {n}"} for n in range(9))
    view = ProjectView(kind="tasklist", path="/p", state=StatePart(items=items), now=(one,))
    seen = WatchView(name="p", view=view, rows=rows)
    shown = [line.strip() for line in watch.lines(seen, 60, 15)]
    assert (shown.index("second") + 1, "first" in shown, "row 8" in shown) == (shown.index("third"), False, True)
    two = replace(seen, view=replace(view, now=(one, replace(one, last=("other",)))))
    shown = [line.strip() for line in watch.lines(two, 60, 21)]
    assert ("second" in shown, "third" in shown, "other" in shown) == (False, True, True)
    several = replace(seen, slots=("Parallel run x", *(f"w{n}  t{n}" for n in range(1, 9))))
    shown = [line.strip() for line in watch.lines(several, 60, 15)]
    assert "... and 7 more lines: harness status" in shown
    assert "row 8" in shown
    text = ScrolledText("harness", lambda: ["row"])
    text.look()
    shown = [line.strip() for line in watch.lines(seen, 60, 15, None, text)]
    assert ("third" in shown, "second" in shown, "first" in shown) == (True, True, False)


# ---- say -------------------------------------------------------------------------------------------------------------


def test_what_a_person_says_begins_the_next_prompt_and_is_on_record(listed: TaskListProject) -> None:
    """F-SAY: with the sender's name; delivered once, and not counted against any limit."""
    early = listed.harness("say", "Use SQLite.")
    assert (early.code, "No session has run in this project yet" in early.err) == (4, True), early
    failing = listed.agent("exit 1")
    listed.harness("run", "--once", "--agent", failing)
    said = listed.harness("say", "Use SQLite.", "--json")
    assert (said.code, json.loads(said.out)["told"]) == (0, "with the next session"), said
    ran = listed.harness("run", "--once", "--agent", listed.agent("touch done.txt"))
    assert "Sent the agent a message from" in ran.text
    assert listed.prompt("task-002").startswith("A person who watches this run says: Use SQLite.\n\n")
    assert ": Use SQLite." in Path(listed.layout.run_log).read_text()
    assert listed.raw["tasks"][1]["status"] == "completed"
    *_, row = [json.loads(line) for line in Path(listed.layout.costs).read_text().splitlines()]
    assert [(each["by"], each["text"]) for each in row["told"]] == [(json.loads(said.out)["by"], "Use SQLite.")]
    assert row["told"][0]["at"] == json.loads(said.out)["at"]
    listed.harness("run", "--once", "--agent", listed.agent("touch done.txt"))
    assert "A person who watches" not in listed.prompt("task-003")


@pytest.mark.parametrize("text", ["", "   ", "x" * 4001])
def test_a_message_that_is_none_changes_nothing(listed: TaskListProject, text: str) -> None:
    said = listed.harness("say", text)
    assert (said.code, "A message must have 1 to 4000 characters" in said.err) == (2, True), said


def test_an_agent_says_nothing_in_the_name_of_a_person(listed: TaskListProject) -> None:
    told = listed.root / "told"
    listed.harness("run", "--once", "--agent", listed.agent(f"harness say 'I am proven' 2> {told}; touch done.txt"))
    assert "harness say" in told.read_text()
    assert "a decision for the user" in told.read_text()


def test_the_view_asks_to_which_of_several_agents_a_line_goes(listed: TaskListProject, watched: Terminal) -> None:
    """F-SAY: a parallel run whose snapshot is that of a live process."""
    listed.harness("run", "--once", "--agent", listed.agent("exit 1"))
    workers = [{"slot": f"w{n}", "item": f"task-00{n}", "title": "It", "phase": "working"} for n in (1, 2)]
    shown = {"v": 1, "owner": owner.current().as_record(), "run": "3f1c", "engine": "local", "workers": workers}
    Path(listed.layout.parallel).write_text(json.dumps(shown))
    watched.shows(lambda text: "w2" in text)
    watched.press("s")
    watched.shows(lambda text: "Several agents are running: w1 (task-001), w2 (task-002)" in text)
    watched.press("w2\n")
    watched.shows(lambda text: "Message to the agent:" in text)
    watched.press("--json of all\n")
    watched.shows(lambda text: "w2 (task-002) gets the message with its next prompt" in text)
    (left,) = PersonsMessages(listed_home(listed), "task-002").waiting()
    assert left.text == "--json of all"
    assert [*PersonsMessages(listed_home(listed), "task-001").waiting()] == []
    Path(listed.layout.parallel).write_text(json.dumps({**shown, "engine": "temporal"}))
    elsewhere = listed.harness("say", "--to", "w2", "Use SQLite.")
    assert (elsewhere.code, "they run on other machines" in elsewhere.err) == (4, True), elsewhere


def listed_home(listed: TaskListProject) -> str:
    """Return the project's state folder, outside the project."""
    return str(Path(proven.ledger(listed.layout)).parent)


# ---- what a person decides -------------------------------------------------------------------------------------------


def shows(terminal: Terminal, *texts: str) -> None:
    terminal.shows(lambda found: all(each in found for each in texts))


def test_a_halt_of_a_task_list_is_taken_back_with_a_key(listed: TaskListProject) -> None:
    """F-WATCH-1."""
    listed.edit(halt={"category": "CONFIG", "message": "Which database?", "at": "2026-01-01T00:00:00Z", "task": None})
    terminal = Terminal(listed.root, "watch")
    try:
        shows(terminal, "Which database?", "a answer")
        for said, halted in (("n", True), ("y", False)):
            terminal.program.send("a")
            shows(terminal, "Resume? [y/n]")
            terminal.program.send(f"{said}\n")
            shows(terminal, "Enter: back to the list")
            assert bool(listed.raw["halt"]) is halted
            terminal.program.send("\n")
            shows(terminal, "list  0/3 proven")
        shows(terminal, "nothing needs you")
    finally:
        terminal.program.close(force=True)


@pytest.mark.scenario
def test_a_question_of_a_feature_project_is_answered_with_a_key(tmp_path: Path, listed: TaskListProject) -> None:
    """F-WATCH-1: the question and the effect of each answer; no answer goes to a later question."""
    project = FeatureListProject.made(tmp_path / "calc", False, False)
    asked = {
        "type": "verification_failed",
        "feature_id": 1,
        "message": "Its tests failed three times.",
        "options": ["retry", "skip", "manual", "abort"],
    }
    project.put({".harness/session_state.json": json.dumps({"last_session": 1, "pending_escalation": asked})})
    terminal = Terminal(project.root, "watch")
    try:
        shows(terminal, "Its tests failed three times.", "a answer")
        terminal.program.send("a")
        shows(terminal, "2  skip: no session", "Choose")
        other = {**asked, "message": "It broke an older test."}
        project.put({".harness/session_state.json": json.dumps({"last_session": 1, "pending_escalation": other})})
        terminal.program.send("3\n")
        shows(terminal, "The question has changed", "Enter: back")
        assert project.state["pending_escalation"]["message"] == "It broke an older test."
        terminal.program.send("\n")
        shows(terminal, "It broke an older test.", "a answer")
        terminal.program.send("a")
        shows(terminal, "3  manual", "Choose")
        terminal.program.send("3\n")
        shows(terminal, "Enter: back to the list")
        terminal.program.send("\n")
        shows(terminal, "you have taken over")
    finally:
        terminal.program.close(force=True)
    assert [each["answer"] for each in project.events("escalation_answered")] == ["manual"]
    assert not project.state["pending_escalation"]


@pytest.mark.exhaustive
@pytest.mark.scenario
@pytest.mark.usefixtures("listed")  # its terminal
def test_an_item_is_taken_back_with_a_key_after_a_typed_yes(tmp_path: Path) -> None:
    """F-WATCH-1: anything but yes changes nothing; then it is one new commit, and the item is open."""
    made = TaskListProject(tmp_path / "made", task("a", validation={"command": "test -f a"}), git=True)
    assert made.harness("run", "--agent", made.agent("touch a\n")).code == 0
    proven_at = made.repo.head
    terminal = Terminal(made.root, "watch", "a")
    try:
        shows(terminal, "1/1 proven", "> a proven")
        for said, answer in (("y", ""), ("yes", "undo")):
            terminal.program.send("u")
            shows(terminal, "Undo a with a new commit? Type yes:")
            terminal.program.send(f"{said}\n")
            shows(terminal, "Enter: back to the list")
            assert (made.repo.head == proven_at) is not bool(answer)
            terminal.program.send("\n")
            shows(terminal, "made  ", "q leave")
        shows(terminal, "0/1 proven", "> a open")
        terminal.program.send("q")
        assert terminal.ended() == 0
    finally:
        terminal.program.close(force=True)
    assert made.statuses() == ["pending"]
    assert made.repo.git("rev-list", "--count", f"{proven_at}..HEAD").strip() == "1"
    assert not (made.root / "a").exists()
    told = made.harness("why", "a", "--json").json
    assert (told["state"], told["claims"][-1]["by"], told["claims"][-1]["word"]) == ("open", "person", "undo")


def test_the_keys_are_shown_over_any_page(watched: Terminal) -> None:
    """F-WATCH-1."""
    shows(watched, "> task-001")
    watched.press("c")
    shows(watched, "no session has ended yet", "? keys")
    watched.press("?")
    shows(watched, "undo the item, after you type yes")
    watched.press("\x1b")
    shows(watched, "no session has ended yet")
    watched.press("\x1b")
    shows(watched, "> task-001")
