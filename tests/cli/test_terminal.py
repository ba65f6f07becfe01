"""The output of a run: on a terminal, in a log, and with `harness status` beside it."""

import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pexpect
import pytest

import agent_harness
from agent_harness.agents import registry
from agent_harness.cli import app, failure
from agent_harness.cli.tasks import open_list
from agent_harness.cli.terminal import Screen, summed_up
from agent_harness.errors import HarnessError, StateDamaged, UnsafeTree
from agent_harness.kernel import clock, owner, trusted_state
from agent_harness.kernel.rate_limits import LimitClock
from agent_harness.session import now
from agent_harness.session.project_view import Now
from agent_harness.testing import run_process
from agent_harness.testing.long_task_project import LongTaskProject
from agent_harness.testing.task_list_project import TaskListProject, task

HARNESS = [sys.executable, "-m", "agent_harness.cli.main"]
WAITS = """\
turns:
  - do:
      - usage: {input_tokens: 12000, output_tokens: 900, cost_usd: 0.12}
      - say: "looking \\e[2J at it"
      - run: "touch begun; while [ ! -e go ]; do sleep 0.05; done; touch done.txt"
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a task list whose agent begins, and continues once there is a file `go`."""
    folder = tmp_path / "list"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("CI", "NO_COLOR", "FORCE_COLOR", "HARNESS_COLOR", "HARNESS_PLAIN"):
        monkeypatch.delenv(name, raising=False)
    assert app.main(["init", "."]) == 0
    assert app.main(["add", "Make it", "--validate", "test -f done.txt"]) == 0
    (folder / "script.yaml").write_text(WAITS)
    return folder


@contextmanager
def running(folder: Path, **environ: str) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], str]]]:
    """Start `harness run` with its output in a file; yield the process and a reader of the file."""
    log = folder.parent / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*HARNESS, "run", "--agent", "scripted:script.yaml"],
            cwd=folder,
            env={**os.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        yield process, lambda: log.read_text(errors="replace")
    finally:
        (folder / "go").touch()
        process.kill()
        process.wait()


def until(found: Callable[[], object]) -> Any:
    end = time.monotonic() + 120
    while not (got := found()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return got


def status(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert app.main(["status", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_status_says_what_a_run_does_and_what_it_has_cost_until_its_end(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """FIX-10 F-REC-4: step, age, tokens and cost of the session that runs; nothing once it is over."""
    with running(work) as (process, said):
        (seen,) = until(lambda: [each for each in status(capsys)["now"] if each["cost_usd"] and each["last"]])
        assert (seen["item"], seen["agent"], seen["phase"], seen["session"]) == ("task-001", "scripted", "agent", 1)
        assert seen["tokens"] == {"input": 12000, "output": 900, "cached": 0}
        assert seen["budget"] == {"session_left": 9.88, "item_left": None, "project_left": None}
        assert (seen["turn"], seen["step"], seen["until"], seen["can"]) == (1, None, None, ["pause"])
        assert (seen["alive"], seen["cost_unknown"], bool(seen["run"])) == (True, False, True)
        assert not any("\x1b" in line for line in seen["last"])
        assert app.main(["status"]) == 0
        assert re.search(
            r"Now: task-001 \(scripted\): agent \d+:\d\d, 12\.0k in 900 out, \$0\.12 of \$10\.00",
            capsys.readouterr().out,
        )
        (work / "go").touch()
        assert process.wait(120) == 0, said()
    assert status(capsys)["now"] == []


@pytest.mark.scenario
def test_a_run_that_was_killed_has_no_clock_that_runs_on(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(work) as (process, _):
        until(lambda: status(capsys)["now"])
        process.kill()
        process.wait()
        (seen,) = status(capsys)["now"]
        assert seen["alive"] is False
        assert app.main(["status"]) == 0
        assert re.search(r"Now: task-001 \(scripted\): stopped, last seen \d\d:\d\d\n", capsys.readouterr().out)
    with running(work):
        until(lambda: [each for each in status(capsys)["now"] if each["alive"]])
        assert len(status(capsys)["now"]) == 1, "the next run takes the record of the dead one away"


@pytest.mark.scenario
def test_a_log_hears_now_and_then_that_work_goes_on(work: Path) -> None:
    """FIX-5 F-RUN-4: one line after a minute of silence, plain, and no cursor is moved."""
    with running(work, HARNESS_TIME_SCALE="0.02") as (process, said):
        line = until(lambda: next((each for each in said().splitlines() if each.startswith("Still running: ")), None))
        assert line.startswith("Still running: task-001 (scripted): agent 0:0")
        (work / "go").touch()
        assert process.wait(120) == 0, said()
        assert "\x1b" not in said()
        assert "\r" not in said()


def test_ctrl_c_is_answered_at_once(work: Path) -> None:
    """F-RUN-3: with the reason of the wait, and the effect of a second Ctrl-C."""
    with running(work) as (process, said):
        until((work / "begun").exists)
        process.send_signal(signal.SIGINT)
        until(lambda: "Stopping: the agent may finish its current call" in said())
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130, said()


def test_an_error_of_the_operating_system_in_a_run_is_a_need_of_the_user(tmp_path: Path) -> None:
    made = TaskListProject(tmp_path / "list", task("a"), git=True)
    trusted_state.make(made.layout.tasks, made.layout.root)  # as the first session does
    project = open_list(root=str(made.root))
    with pytest.raises(OSError, match="No space"), summed_up(project, print):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert [need.message for need in project.reader().load().state.needs] == [
        "the last run ended: No space left on device"
    ]


def test_without_colour_and_with_a_dumb_terminal_there_are_only_lines(work: Path) -> None:
    """F-TERM-2 F-TERM-3."""
    (work / "go").touch()
    words = [*HARNESS[1:], "--plain", "--color", "never", "run", "--agent", "scripted:script.yaml"]
    output = pexpect.run(
        " ".join([HARNESS[0], *words]), cwd=str(work), env={**os.environ, "TERM": "xterm"}, timeout=120
    )
    assert isinstance(output, bytes)
    lines = output.decode().splitlines()
    assert any(re.fullmatch(r"\d\d:\d\d:\d\d task-001: completed \(.*\)", line) for line in lines), lines
    assert not any("\x1b" in line for line in lines)


def test_verdicts_are_in_the_terminals_own_colours_and_in_words(work: Path) -> None:
    """F-TERM-1, F-TERM-2: one of the sixteen named colours, bold, no background and nothing dim."""
    (work / "go").touch()
    ran = run_process(
        [*HARNESS, "run", "--agent", "scripted:script.yaml"], cwd=work, environ={**os.environ, "FORCE_COLOR": "1"}
    )
    codes = [code for found in re.findall(r"\x1b\[([\d;]*)m", ran.out) for code in found.split(";")]
    assert {"1", "32"} <= set(codes), ran
    assert set(codes) <= {"0", "1", *map(str, range(30, 38)), *map(str, range(90, 98))}
    assert re.search(r"task-001: \x1b\[32m\x1b\[1mcompleted\x1b\[0m", ran.out)
    styled = re.compile(r"click\.style\(|\bdim=|\bbg=")
    package = Path(agent_harness.__file__).parent
    found = [path for path in package.rglob("*.py") if styled.search(path.read_text())]
    assert found == [package / "cli/terminal.py"], "colours come from one place"


def test_all_that_a_run_says_is_kept_with_time_and_zone(work: Path) -> None:
    """F-REC-6: also when its terminal is gone; and each attempt's row names time and agent (F-REC-3)."""
    (work / "go").touch()
    with running(work) as (process, said):
        assert process.wait(120) == 0, said()
    kept = (work / ".harness/logs/run.log").read_text().splitlines()
    told = [line.split(" ", 1) for line in kept]
    assert [text for _, text in told] == [line for line in said().splitlines() if line]
    assert all(datetime.fromisoformat(at).tzinfo for at, _ in told)
    (row,) = [json.loads(line) for line in (work / ".harness/sessions/costs.jsonl").read_text().splitlines()]
    assert (row["agent"], row["result"]) == ("scripted", "completed")
    assert clock.parse(row["at"])


def test_five_logs_of_a_megabyte_are_kept_and_no_link_is_followed(tmp_path: Path) -> None:
    log, outside = tmp_path / "state/logs/run.log", tmp_path / "outside"
    now.keep_said(str(log), "no project is made by that")
    assert not log.parent.exists()
    (tmp_path / "state").mkdir()
    for number in range(7):
        now.keep_said(str(log), f"run {number} sk-ant-REDACTED\n\n  \x1b[2J")
        with log.open("a") as file:
            file.write("x" * 1_000_000)
    assert sorted(path.name for path in log.parent.iterdir()) == ["run.log", *(f"run.log.{n}" for n in range(1, 5))]
    assert " run 6 " in log.read_text()
    assert " run 2 " in (log.parent / "run.log.4").read_text()
    assert not re.search("\x1b|a{24}", log.read_text())
    outside.mkdir()
    log.unlink()
    log.symlink_to(outside / "file")
    now.keep_said(str(log), "x")
    assert log.is_file() and not log.is_symlink()
    for path in log.parent.iterdir():
        path.unlink()
    log.parent.rmdir()
    log.parent.symlink_to(outside)
    now.keep_said(str(log), "x")
    assert list(outside.iterdir()) == []


# ---- the screen itself


def test_there_is_one_place_from_which_people_are_shown_anything() -> None:
    """The other commands pass their lines to it, and print only JSON themselves."""
    folder = Path(app.__file__).parent
    lines = {path: path.read_text().splitlines() for path in folder.rglob("*.py") if path.name != "terminal.py"}
    printing = [
        f"{path.name}: {line.strip()}" for path, text in lines.items() for line in text if "click.echo(" in line
    ]
    assert [line for line in printing if "json.dumps" not in line] == ["app.py: click.echo(error.format_message())"]


def test_lines_are_broken_at_words_on_a_narrow_terminal_and_commands_stay_whole() -> None:
    """F-TERM-4."""
    script = (
        "from agent_harness.cli.terminal import show; show('one two three ' * 9); show('next: harness ' + 'x y ' * 30)"
    )
    output = pexpect.run(
        f'{HARNESS[0]} -c "{script}"',
        env={name: value for name, value in os.environ.items() if name not in ("COLUMNS", "CI")} | {"TERM": "xterm"},
        timeout=120,
    )
    assert isinstance(output, bytes)
    *broken, command = output.decode().splitlines()
    assert len(broken) == 2
    assert all(len(line) <= 80 and line.split()[-1] in ("one", "two", "three") for line in broken)
    assert command == "next: harness " + "x y " * 30


def test_the_line_below_is_never_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """F-TERM-4: whole parts are dropped first; a line without parts is cut."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for name in ("CI", "HARNESS_PLAIN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "30")
    for line, expected in (("a" * 20 + ", " + "b" * 20, "a" * 20), ("a" * 40 + ", b", "a" * 29)):
        stream = Terminal()
        monkeypatch.setattr(sys, "stdout", stream)
        Screen(as_json=False).countdown(line)
        assert stream.getvalue() == f"\x1b[?2026h\r\x1b[J{expected}\r\x1b[?2026l"


@pytest.mark.parametrize("as_json", [False, True])
def test_what_an_agent_wrote_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    Screen(as_json=as_json).say("The agent ended with an error: \x1b[2J\x07gone\rover\n  tabs\tstay apart")
    out, err = capsys.readouterr()
    assert (err if as_json else out) == (
        "The agent ended with an error: \\x1b[2J\\x07gone\\rover\n  tabs  stay apart\n"
    )
    assert (out if as_json else err) == ""


def test_status_shows_what_somebody_wrote_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".harness.yaml").write_text("project:\n  name: x\n")
    (tmp_path / "features.json").write_text('{"project": "\\u001b[2Jx", "features": []}')
    assert app.main(["status"]) == 0
    assert "Project: \\x1b[2Jx" in capsys.readouterr().out


def test_a_rate_limit_stands_first_in_status(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    LimitClock().note("codex", said="weekly limit", retry_after_seconds=7200)
    assert [each["account"] for each in status(capsys)["limits"]] == ["codex"]
    assert app.main(["status"]) == 0
    limited = [line.startswith("Rate limited: codex") for line in capsys.readouterr().out.splitlines()]
    assert limited.index(True) == 0
    assert limited.count(True) == 1


def test_a_session_in_one_line_shows_only_what_is_known() -> None:
    """F-REC-4: unknown values are named, a pace needs a minute, and the clock of a dead harness stops."""
    me = owner.current().as_record()
    record: dict[str, Any] = {"owner": me, "item": "#7", "agent": "codex", "phase": "judging"}
    record |= {"since": "2026-01-01T10:15:00Z", "began": "2026-01-01T10:13:20Z"}
    at = datetime(2026, 1, 1, 10, 15, 42, tzinfo=UTC)
    assert Now.from_record(record).line(at) == "#7 (codex): judging 0:42"
    assert Now.from_record({**record, "step": "suite"}).line(at) == "#7 (codex): judging 0:42 (suite)"
    used = {**record, "tokens": {"input": 16_800, "output": 3_900}, "cost_usd": None, "cost_unknown": True}
    assert Now.from_record(used).line(at) == "#7 (codex): judging 0:42, 16.8k in 3.9k out, cost unknown"
    paid = {**used, "cost_usd": 0.71, "cost_unknown": False, "budget": {"session_left": 9.29}}
    later = at + timedelta(hours=1, minutes=1, seconds=40)
    assert (
        Now.from_record(paid).line(later)
        == "#7 (codex): judging 1:02:22, 16.8k in 3.9k out, $0.71 of $10.00, $0.01/min"
    )
    until = {**record, "phase": "waiting", "until": "2026-01-01T16:40:00Z"}
    ends = datetime(2026, 1, 1, 16, 40, tzinfo=UTC).astimezone()
    assert Now.from_record(until).line(at) == f"#7 (codex): waiting until {ends:%H:%M}"
    dead = {**paid, "owner": {**me, "start_time": "0"}, "seen": "2026-01-01T16:40:00Z"}
    assert Now.from_record(dead).line(later) == f"#7 (codex): stopped, last seen {ends:%H:%M}"
    assert Now.from_record({}).line(at) == "session (): stopped"


def test_records_that_somebody_damaged_are_passed_over(tmp_path: Path) -> None:
    for name, text in (("now.json", "{"), ("now-a.json", "[]"), ("now-b.json", '{"v": 1, "owner": 3}')):
        (tmp_path / name).write_text(text)
    assert [each.alive for each in now.read(str(tmp_path))] == [False]
    assert now.running(str(tmp_path)) == []
    assert now.read(None) == now.read(str(tmp_path / "gone")) == []


def test_a_disk_that_does_not_take_the_record_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    record = now.NowRecord(str(tmp_path / "file" / "now.json"), item="x")
    record.phase("agent")
    record.said("hello")
    record.close()
    writing = now.NowRecord(str(tmp_path / "now.json"), item="x")
    writing.turn("r1")
    writing.said("key sk-ant-REDACTED")
    writing.phase("judging")
    writing.step("suite")
    (found,) = now.read(str(tmp_path))
    assert (found.phase, found.step, found.turn, found.run, found.alive) == ("judging", "suite", 1, "r1", True)
    assert "aaaa" not in json.dumps(now.told(str(tmp_path)))
    writing.close()
    assert not (tmp_path / "now.json").exists()


def test_it_is_written_once_a_second_at_most_and_by_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-REC-4: a new phase at once, and output in between with the next write; hooks do not know it."""
    seconds = [100.0]
    monkeypatch.setattr(now.time, "monotonic", lambda: seconds[0])
    path = tmp_path / "state/now.json"
    record = now.NowRecord(str(path), item="task-001")
    record.phase("agent")
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600
    written = path.stat().st_ino
    for number in range(50):
        record.said(f"line {number} of it " + "x" * 300)
    assert path.stat().st_ino == written
    seconds[0] += 1.0
    record.tick()
    (seen,) = now.told(str(path.parent))
    assert [line.split(" of")[0] for line in seen["last"]] == ["line 47", "line 48", "line 49"]
    assert {len(line) for line in seen["last"]} == {200}
    record.step("proof")
    (seen,) = now.told(str(path.parent))
    assert (seen["phase"], seen["step"]) == ("agent", "proof")
    hooks = "import sys, agent_harness.hooks.dispatch; sys.exit('agent_harness.session.now' in sys.modules)"
    assert run_process([sys.executable, "-c", hooks], environ=dict(os.environ)).code == 0


def test_status_says_until_when_a_run_waits_that_has_nothing_under_way(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    LimitClock().note(registry.from_spec("scripted:script.yaml").account, said="weekly limit", retry_after_seconds=7200)
    with running(work) as (process, said):
        (seen,) = until(lambda: status(capsys)["now"])
        assert (seen["phase"], seen["item"]) == ("waiting", "run")
        left = datetime.fromisoformat(seen["until"]) - clock.now()
        assert timedelta(minutes=110) < left <= timedelta(hours=2)
        assert app.main(["status"]) == 0
        assert re.search(r"Now: run \(.+\): waiting until \d\d:\d\d\n", capsys.readouterr().out)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130, said()
    assert status(capsys)["now"] == []


def test_the_slice_of_a_long_task_says_what_it_does(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path / "book")

    def told() -> list[str]:
        return [row for row in project.lth("status").out.splitlines() if row.startswith("now:")]

    waits = f"while [ ! -e '{tmp_path}/go' ]; do sleep 0.05; done"
    with project.start("run", "--worker", "local-command", "--command", waits) as process:
        try:
            assert re.fullmatch(r"now: +book \(local-command\): (preflight|agent) \d+:\d\d", until(told)[0])
            process.kill()
            process.wait()
            assert re.fullmatch(r"now: +book \(local-command\): stopped, last seen \d\d:\d\d", told()[0])
        finally:
            (tmp_path / "go").touch()
            process.kill()


@pytest.mark.parametrize("file", [(), ("some.file",)])
def test_a_full_disk_is_told_with_what_to_do(capsys: pytest.CaptureFixture[str], file: tuple[str, ...]) -> None:
    """The error of a failed write names no file."""
    assert failure.show_any(OSError(errno.ENOSPC, "No space left on device", *file), as_json=False) == 4
    assert capsys.readouterr().err == (
        "harness: No space left on device\nnext: free some space on that disk, then run the same command again\n"
    )


@pytest.mark.parametrize(
    ("error", "command"),
    [
        (StateDamaged("x.json does not parse"), "harness doctor"),
        (UnsafeTree("the work tree cannot be read"), "git status"),
        (UnsafeTree("a merge is not finished", hint="git merge --abort"), "git merge --abort"),
    ],
)
def test_an_error_without_a_command_gets_the_usual_one_of_its_class(
    capsys: pytest.CaptureFixture[str], error: HarnessError, command: str
) -> None:
    assert failure.show(error, as_json=False) == error.exit_code
    assert capsys.readouterr().err == f"harness: {error.message}\nnext: {command}\n"
