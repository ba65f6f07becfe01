"""Notifications, their targets and times: the rules on views, and the real process that watches a real run."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agent_harness.session.project_view import AskedQuestion, Item, Money, Now, ProjectView, StatePart
from agent_harness.testing import HARNESS, CommandResult, run_process
from agent_harness.testing.feature_list_project import FeatureListProject
from agent_harness.testing.long_task_project import LongTaskProject
from agent_harness.testing.task_list_project import TaskListProject, task
from agent_harness.views import notify
from agent_harness.views.notify import notices, sending
from agent_harness.views.notify.notices import NotifyMemory, NotifySettings

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
ALL = NotifySettings(on=notices.EVENTS)


def view(*states: str, questions: tuple[AskedQuestion, ...] = (), **members: Any) -> ProjectView:
    items = tuple(Item(id=str(n), name=f"Feature #{n}", title="x", state=state) for n, state in enumerate(states, 1))
    state = StatePart(items=items, questions=questions, money=members.pop("money", None))
    return ProjectView(kind="features", path="/srv/shop", state=state, **members)


def asked(number: int) -> AskedQuestion:
    return AskedQuestion(kind="stuck", message=f"Feature #{number} is stuck", item=str(number), answer="harness resume")


class Told:
    """Notifications of one project while time passes."""

    def __init__(self, settings: NotifySettings = ALL) -> None:
        self.settings, self.memory, self.at = settings, NotifyMemory(), NOON
        self.messages: list[list[str]] = []

    def look(self, found: ProjectView, *, minutes: float = 0.0, last: bool = False) -> list[str]:
        """Let time pass, look, and return the events of the message that is sent."""
        self.at += timedelta(minutes=minutes)
        self.memory = notices.noticed(self.memory, found, (), self.settings, self.at)
        self.memory, told = notices.message(self.memory, self.settings, self.at, last=last)
        if told:
            self.messages.append([each.event for each in told])
        return [each.event for each in told]


def test_a_question_is_told_once_and_again_when_it_is_asked_anew() -> None:
    """F-NOTE-2: notices within a minute are one message."""
    told, waits = Told(), view("open", questions=(asked(1), asked(2)))
    assert told.look(waits) == []
    assert told.look(waits, minutes=1.1) == ["question", "question"]
    assert told.look(waits, minutes=600) == []
    told.look(view("open"), minutes=1)
    told.look(waits, minutes=1)
    assert told.look(waits, minutes=2) == ["question", "question"]


def test_a_thousand_events_of_a_minute_are_one_message_and_of_a_day_thirteen() -> None:
    """B6: the thirteenth says that there is more."""
    told = Told()
    flood = view("open", questions=tuple(asked(n) for n in range(1000)))
    told.look(flood)
    assert len(told.look(flood, minutes=1.1)) == 1000
    body = notices.body("shop", notices.lasting(flood, NOON), flood, NOON)
    assert len(body["text"].splitlines()) == notices.MOST_LINES + 1
    assert "and 990 more" in body["text"]
    for n in range(30):
        one = view("open", questions=(asked(5000 + n),))
        told.look(one, minutes=1)
        told.look(one, minutes=1.1)
    assert len(told.messages) == 13
    assert told.messages[-1] == ["digest"]


def test_done_a_budget_and_a_long_wait_are_told_when_they_begin() -> None:
    told = Told()
    told.look(view("proven", "open", money=Money(spent_usd=7.0, limit_usd=10.0)))
    spent = Money(spent_usd=8.5, limit_usd=10.0)
    waits = Now(item="Feature #2", phase="waiting", until=NOON + timedelta(hours=3), alive=True)
    told.look(view("proven", "open", money=spent, now=(waits,)), minutes=1)
    found = told.look(view("proven", "open", money=spent, now=(waits,)), minutes=1.1)
    assert sorted(found) == ["budget", "limit"]
    told.look(view("proven", "skipped", money=spent), minutes=1)
    assert told.look(view("proven", "skipped", money=spent), minutes=1.1) == ["done"]


def test_by_default_what_needs_nobody_is_not_told() -> None:
    told = Told(NotifySettings())
    spent = view("open", money=Money(spent_usd=9.9, limit_usd=10.0))
    told.look(spent)
    assert told.look(spent, minutes=5) == []


def test_quiet_hours_keep_back_all_that_is_not_urgent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    quiet = NotifySettings(on=notices.EVENTS, quiet=sending.hours_of("11:00-13:00"))
    told, done = Told(quiet), view("proven")
    told.look(done)
    assert told.look(done, minutes=30) == []
    assert told.look(done, minutes=31) == ["done"]
    urgent = Told(replace(quiet, urgent=("done",)))
    urgent.look(done)
    assert urgent.look(done, minutes=2) == ["done"]
    night = NotifySettings(quiet=sending.hours_of("22:00-07:00"))
    assert [night.rests(NOON.replace(hour=hour)) for hour in (21, 22, 3, 7)] == [False, True, True, False]


def test_the_digest_comes_daily_and_only_where_something_happened() -> None:
    told = Told(NotifySettings(on=("digest",)))
    told.look(view("open", money=Money(spent_usd=1.0)))
    assert told.look(view("open", money=Money(spent_usd=1.0)), minutes=25 * 60) == []
    moved = view("proven", "open", money=Money(spent_usd=3.0))
    told.look(moved, minutes=25 * 60)
    assert told.look(moved, minutes=2) == ["digest"]


def test_a_message_names_no_path_and_no_secret_target() -> None:
    where = view("open", questions=(replace(asked(1), message="see /srv/shop/x"),))
    body = notices.body("shop", notices.lasting(where, NOON), where, NOON)
    assert "/srv" not in json.dumps(body)
    assert body["answer"] == ["harness resume"]
    assert (body["cost_usd"], body["proven"], body["total"]) == (0.0, 0, 1)
    assert "hunter2" not in sending.shown("mailto://me:hunter2@example.org")
    assert sending.shown("webhook:https://hooks.example.org/T0/B1/hunter2") == "webhook:https://hooks.example.org/…"


# ---- with real processes


class Hook:
    """A webhook server on this machine."""

    def __init__(self, port: int) -> None:
        self.url, self.bodies, self.paths = f"http://127.0.0.1:{port}", list[Any](), list[str]()
        self.status = 200

    def until(self, count: int, seconds: float = 60) -> list[Any]:
        end = time.monotonic() + seconds
        while len(self.bodies) < count and time.monotonic() < end:
            time.sleep(0.05)
        assert len(self.bodies) >= count, self.bodies
        return self.bodies


@pytest.fixture
def hook() -> Iterator[Hook]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            found.paths.append(self.path)
            found.bodies.append(json.loads(content) if content.startswith(b"{") else content.decode())
            self.send_response(found.status)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Hook(server.server_port)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield found
    server.shutdown()
    server.server_close()


class Listed(TaskListProject):
    """A list with notifications; a minute takes some hundredths of a second."""

    environ: dict[str, str]

    def run(self, *words: str, **environ: str) -> CommandResult:
        return run_process([*HARNESS, *words], cwd=self.root, environ={**self.environ, **environ})


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Listed:
    environ = {**os.environ, "HARNESS_TIME_SCALE": "0.01", "XDG_STATE_HOME": str(tmp_path / "state")}
    environ.pop("HARNESS_NOTIFY", None)
    monkeypatch.setenv("XDG_STATE_HOME", environ["XDG_STATE_HOME"])
    project = Listed(tmp_path / "shop", task("task-001", validation={"command": "test -f made"}), git=True)
    project.environ = environ
    return project


def test_an_end_and_a_completion_are_told_by_a_process_of_its_own(listed: Listed, hook: Hook) -> None:
    """F-NOTE-3: the run starts the process and continues; the messages are in the records."""
    assert listed.run("notify", "add", f"webhook:{hook.url}/x").code == 0
    listed.run("run", "--agent", listed.agent("exit 0\n"))
    stopped = hook.until(1)[0]
    assert (stopped["event"], stopped["project"], stopped["proven"], stopped["total"]) == ("stopped", "shop", 0, 1)
    listed.run("task", "reset", "--failed")
    listed.run("run", "--agent", listed.agent("touch made\n", name="good.sh"))
    assert hook.until(2)[1]["event"] == "done"


@pytest.mark.scenario
def test_a_run_that_was_killed_is_told_of(listed: Listed, hook: Hook) -> None:
    """F-NOTE-5."""
    spec = listed.agent("sleep 100\n")
    environ = {**listed.environ, "HARNESS_NOTIFY": f"webhook:{hook.url}"}
    with subprocess.Popen(
        [*HARNESS, "run", "--agent", spec],
        cwd=listed.root,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as run:
        end = time.monotonic() + 60
        while listed.raw["tasks"][0]["status"] != "in_progress" and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(1)
        run.send_signal(signal.SIGKILL)
    assert hook.until(1)[0]["event"] == "stopped"


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_check_tells_what_nobody_told_and_once(listed: Listed, hook: Hook) -> None:
    """F-NOTE-5: cron finds the sessions that ran when a machine went down; a second look says nothing."""
    listed.run("run", "--agent", listed.agent("touch made\n"))
    listed.run("notify", "add", f"webhook:{hook.url}")
    assert listed.run("notify", "check", "--json").json["projects"] >= 1
    assert [each["event"] for each in hook.bodies] == ["done"]
    listed.run("notify", "check")
    assert len(hook.bodies) == 1


@pytest.mark.scenario
def test_what_is_not_delivered_is_tried_three_times_and_then_said(listed: Listed, hook: Hook) -> None:
    """F-NOTE-4."""
    hook.status = 500
    listed.run("notify", "add", f"webhook:{hook.url}")
    listed.run("run", "--agent", listed.agent("touch made\n"), HARNESS_TIME_SCALE="0.0005")
    hook.until(3)
    end = time.monotonic() + 60
    while not (failed := listed.run("notify", "--json").json["failed"]) and time.monotonic() < end:
        time.sleep(0.2)
    assert len(failed) == 1
    assert "500" in failed[0]
    assert "not delivered: shop" in listed.run("notify").text
    assert len(hook.bodies) == 3
    (row,) = listed.run("status", "--json").json["undelivered"]
    assert (row["to"], "500" in row["why"]) == (sending.shown(f"webhook:{hook.url}"), True)
    (line,) = [line for line in listed.run("status").text.splitlines() if line.startswith("not sent")]
    assert re.fullmatch(r"not sent   1 message since \d{4}-\d\d-\d\d \d\d:\d\d; webhook:.*500.* \(.*test\)", line)
    assert listed.run("notify", "test").code == 1
    assert "not sent" in listed.run("status").text
    hook.status = 200
    assert listed.run("notify", "test").code == 0
    assert "not sent" not in listed.run("status").text


@pytest.mark.scenario
def test_what_was_being_sent_when_everything_died_is_not_sent_twice(listed: Listed, hook: Hook) -> None:
    """After a crash, at most once: the message may have arrived, and the record says so."""
    listed.run("run", "--agent", listed.agent("touch made\n"))
    listed.run("notify", "add", f"webhook:{hook.url}")
    listed.run("notify", "check")
    record = next(path for path in Path(listed.environ["XDG_STATE_HOME"]).rglob("notify/tasklist-*.json"))
    kept = json.loads(record.read_text())
    kept["on_way"] = [{"to": f"webhook:{hook.url}", "body": {"title": "x"}, "tries": 0, "sending": True}]
    record.write_text(json.dumps(kept))
    listed.run("notify", "check")
    assert len(hook.bodies) == 1
    assert "ended while sending" in listed.run("notify").text


@pytest.mark.scenario
def test_a_dead_network_costs_the_run_nothing_and_a_hung_server_holds_nobody(listed: Listed) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hung:
        listed.run("notify", "add", f"webhook:http://127.0.0.1:{hung.getsockname()[1]}")
        listed.run("notify", "add", "webhook:http://127.0.0.1:9/x")
        ran = listed.run("run", "--agent", listed.agent("touch made\n"))
    assert ran.code == 0


@pytest.mark.scenario
def test_a_command_and_addresses_of_apprise(listed: Listed, hook: Hook, tmp_path: Path) -> None:
    """F-NOTE-6: each reports its answer; a secret of the environment is filled in and not shown."""
    pytest.importorskip("apprise")
    port = hook.url.rpartition(":")[2]
    out = tmp_path / "told"
    script = f"import sys; open({str(out)!r}, 'w').write(sys.stdin.read() + sys.argv[1])"
    listed.run("notify", "add", f"command:{shlex.join([sys.executable, '-c', script])}")
    listed.run("notify", "add", f"json://127.0.0.1:{port}/${{MY_TOPIC}}")
    listed.run("notify", "add", f"ntfy://127.0.0.1:{port}/topic")
    unset = listed.run("notify", "test")
    assert unset.code == 1
    assert "${MY_TOPIC} is not set" in unset.text
    hook.bodies.clear()
    found = listed.run("notify", "test", "--json", MY_TOPIC="hunter2").json["answers"]
    assert [each["delivered"] for each in found] == [True, True, True]
    assert "hunter2" not in json.dumps(found)
    assert any("hunter2" in path for path in hook.paths)
    assert len(hook.bodies) == 2
    assert out.read_text().endswith("agent-harness: a test")
    listed.run("notify", "add", "command:no-such-program")
    assert "command:no-such-program: No such file or directory: no-such-program" in listed.run("notify", "test").text


@pytest.mark.scenario
class Channel(BaseHTTPRequestHandler):
    """Server that answers as if somebody had chosen there."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = json.dumps({"choose": "retry", "answer": "harness resume --choose retry", "event": "answer"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


def test_nothing_is_read_back_from_a_channel(tmp_path: Path) -> None:
    """F-NOTE-7: whatever a server or a program answers, the question waits for a person at the machine."""
    project = FeatureListProject.made(tmp_path / "calc", False)
    asked = {"type": "verification_failed", "feature_id": 1, "message": "It failed.", "options": ["retry", "skip"]}
    state = json.dumps({"last_session": 1, "pending_escalation": asked})
    project.put({".harness/session_state.json": state})
    project.harness("pause")
    project.harness("notify", "set", "--on", "question")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Channel)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    heard = tmp_path / "heard"
    says = f"cat > {heard}; echo harness resume --choose retry; echo retry"
    project.harness("notify", "add", f"webhook:http://127.0.0.1:{server.server_port}/")
    project.harness("notify", "add", f"command:{shlex.join(['sh', '-c', says])}")
    try:
        checked = project.harness("notify", "check")
        tested = project.harness("notify", "test")
    finally:
        server.shutdown()
        server.server_close()
    assert (checked.code, tested.code) == (0, 0), (checked, tested)
    assert tested.out.count(": delivered") == 2
    assert json.loads(heard.read_text())["answer"] is not None
    assert project.state["pending_escalation"] == asked
    assert project.events("escalation_answered") == []


def test_settings_are_a_persons_and_bad_words_change_nothing(listed: Listed) -> None:
    for words in (
        ("add", "nonsense"),
        ("add", "webhook:"),
        ("add", "webhook:hooks.example.org"),
        ("set", "--on", "nix"),
        ("set", "--quiet", "25:00-1"),
        ("set",),
        ("remove", "command:nix"),
    ):
        ran = listed.run("notify", *words)
        assert ran.code == 2, ran.text
        assert "next:" in ran.text
    assert listed.run("notify", "test").code == 4
    assert "There is no notification target" in listed.run("notify").text
    listed.run("notify", "set", "--on", "question,limit", "--quiet", "22:00-07:00", "--urgent", "question")
    shown = listed.run("notify", "--json").json
    assert (shown["on"], shown["quiet"], shown["urgent"]) == (["question", "limit"], "22:00-07:00", ["question"])
    spec = listed.agent(f"{shlex.join(HARNESS)} notify add command:evil > said 2>&1; touch made\n")
    listed.run("run", "--agent", spec)
    assert shown == listed.run("notify", "--json").json
    assert "a decision for the user" in (listed.root / "said").read_text()


@pytest.mark.scenario
def test_what_was_not_delivered_is_said_until_its_target_works_or_is_told_nothing(listed: Listed, hook: Hook) -> None:
    """F-NOTE-4: a damaged record does not prevent the answer."""
    assert listed.run("status", "--json").json["undelivered"] == []
    for name in ("webhook:" + hook.url, "command:false"):
        listed.run("notify", "add", name)
    listed.run("notify", "check")
    record = Path(listed.environ["XDG_STATE_HOME"]) / "agent-harness/notify"
    project = notify.record_path(str(record), "tasklist", str(listed.root))
    rows = [
        {"at": f"2026-03-02T12:0{n}:00Z", "to": sending.shown(each), "why": "x"}
        for n, each in enumerate(("command:false", f"webhook:{hook.url}", "command:false"))
    ]
    Path(project).write_text(json.dumps({"v": 1, "project": "shop", "undelivered": rows}))
    at = f"{datetime(2026, 3, 2, 12, tzinfo=UTC).astimezone():%Y-%m-%d %H:%M}"
    assert f"not sent   3 messages since {at}; command:false: x (harness notify test)" in listed.run("status").text
    assert "not sent" not in listed.run("status", "--line").text
    long_task = LongTaskProject.of_book(listed.root.parent / "book")
    assert "not sent" not in long_task.lth("status").out
    Path(notify.record_path(str(record), "longtask", str(long_task.root))).write_text(json.dumps({"undelivered": rows}))
    assert f"not sent:   3 messages since {at}; command:false: x (" in long_task.lth("status").out
    listed.run("notify", "test")
    assert [each["to"] for each in listed.run("status", "--json").json["undelivered"]] == ["command:false"] * 2
    listed.run("notify", "remove", "command:false")
    assert listed.run("status", "--json").json["undelivered"] == []
    Path(project).write_text('{"undelivered": [7, {"at": null}]}')
    (record / "notify.json").write_text("[")
    assert listed.run("status").code == 0
