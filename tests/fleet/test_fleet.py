"""``harness fleet``: real projects, real runs, and a supervisor that may die."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_harness.agents import registry
from agent_harness.kernel import owner, trusted_state
from agent_harness.kernel.rate_limits import LimitClock
from agent_harness.testing import HARNESS, CommandResult, run_process
from agent_harness.testing.long_task_project import LongTaskProject, book
from agent_harness.testing.task_list_project import TaskListProject, task

WORKS = 'mkdir -p out; echo "$HARNESS_TASK_ID" > out/$HARNESS_TASK_ID'
FAST = {"HARNESS_TIME_SCALE": "0.1"}


def listed(path: Path, *names: str) -> TaskListProject:
    jobs = [task(each, validation={"command": f"grep -q . out/{each}", "timeout_seconds": 60}) for each in names]
    return TaskListProject(path, *jobs, git=True, session_count=0)


def roster(tmp_path: Path, text: str) -> Path:
    file = Path(os.environ["HOME"], ".config/agent-harness/fleet.yaml")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def harness(tmp_path: Path, *words: str) -> CommandResult:
    return run_process((*HARNESS, "fleet", *words), cwd=tmp_path, environ={**os.environ, **FAST})


def supervise(tmp_path: Path) -> "subprocess.Popen[bytes]":
    with (tmp_path / "fleet.log").open("ab") as log:
        return subprocess.Popen(
            [*HARNESS, "fleet", "run"],
            cwd=tmp_path,
            env={**os.environ, **FAST},
            stdout=log,
            stderr=log,
        )


def until(found: Callable[[], object], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found():
            return
        time.sleep(0.2)
    raise AssertionError("it never happened")


def states(tmp_path: Path) -> dict[str, Any]:
    found = json.loads(harness(tmp_path, "status", "--json").out)
    return {Path(row["path"]).name: row for row in found["projects"]}


@pytest.mark.scenario
def test_projects_are_worked_until_nothing_is_left(tmp_path: Path) -> None:
    """Runs begin in projects with work; a project that is gone is a line; the supervisor ends on a signal."""
    shop, tool = listed(tmp_path / "shop", "a", "b"), listed(tmp_path / "tools/x", "c")
    agent = shop.agent(WORKS)
    roster(
        tmp_path,
        f"agents: 3\nprojects:\n  - {{path: {shop.root}, priority: 1, workers: 2, agent: '{agent}'}}\n"
        f"  - {{glob: '{tmp_path}/tools/*', agent: '{agent}'}}\n  - {{path: {tmp_path}/gone}}\n",
    )
    running = supervise(tmp_path)
    try:
        until(lambda: [row["state"] for row in states(tmp_path).values()] == ["done", "done"])
    finally:
        running.terminate()
        assert running.wait(timeout=30) == 0, (tmp_path / "fleet.log").read_text()
    assert (shop.statuses(), tool.statuses()) == (["completed"] * 2, ["completed"])
    told = harness(tmp_path, "status").text
    assert "gone is gone" in told
    assert "No supervisor runs" in told
    assert states(tmp_path)["shop"]["proven"] == 2
    assert f"{shop.root}: done" in harness(tmp_path, "why", str(shop.root)).text


@pytest.mark.scenario
def test_a_supervisor_that_is_killed_leaves_the_runs_and_the_next_one_finds_them(tmp_path: Path) -> None:
    shop = listed(tmp_path / "shop", "a")
    agent = shop.agent(f"sleep 4; {WORKS}")
    roster(tmp_path, f"projects:\n  - {{path: {shop.root}, agent: '{agent}'}}\n")
    first = supervise(tmp_path)
    until(lambda: states(tmp_path)["shop"]["agents"] == 1)
    first.kill()
    first.wait()
    assert states(tmp_path)["shop"]["state"] == "running"
    second = supervise(tmp_path)
    try:
        until(lambda: states(tmp_path)["shop"]["state"] == "done")
    finally:
        second.terminate()
        second.wait()
    assert shop.statuses() == ["completed"]
    assert shop.repo.git("log", "--format=%(trailers:key=Harness-Item,valueonly)").split() == ["a"]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_run_that_dies_again_and_again_is_parked_and_named(tmp_path: Path) -> None:
    shop = listed(tmp_path / "shop", "a")
    agent = shop.agent(f"sleep 60; {WORKS}")
    roster(tmp_path, f"projects:\n  - {{path: {shop.root}, agent: '{agent}'}}\n")
    running = supervise(tmp_path)
    killed: set[int] = set()

    def kill_the_run() -> bool:
        found = shop.root / ".harness/parallel.json"
        if found.exists() and (pid := json.loads(found.read_text())["owner"]["pid"]) not in killed:
            killed.add(pid)
            os.kill(pid, signal.SIGKILL)
        return states(tmp_path)["shop"]["state"] == "parked"

    try:
        until(kill_the_run, 240.0)
    finally:
        running.terminate()
        running.wait()
    assert len(killed) >= 5
    told = " ".join(harness(tmp_path, "status").text.split())
    assert "its run crashed 5 times in an hour" in told, (told, (tmp_path / "fleet.log").read_text())


def test_a_project_without_a_budget_or_with_a_pause_is_left_alone(tmp_path: Path) -> None:
    """SC-61: no run begins without a budget; no new run while a person has paused the fleet."""
    shop = listed(tmp_path / "shop", "a")
    agent = shop.agent(WORKS)
    roster(tmp_path, f"projects:\n  - {{path: {shop.root}, agent: '{agent}', budget: {{day_usd: 0}}}}\n")
    assert harness(tmp_path, "run", "--once").code == 0
    assert states(tmp_path)["shop"]["why"] == "its budget of today is spent"
    roster(tmp_path, f"projects:\n  - {{path: {shop.root}, agent: '{agent}'}}\n")
    assert harness(tmp_path, "pause").code == 0
    assert harness(tmp_path, "run", "--once").code == 0
    assert states(tmp_path)["shop"]["state"] == "open"
    assert "Paused by a person" in harness(tmp_path, "status").text
    assert shop.statuses() == ["pending"]


@pytest.mark.parametrize(
    "shown",
    [
        {"workers": 5, "budget": {"spent": "abc"}},
        {"workers": {"w1": 1}, "budget": [1]},
        {"workers": [1, None, "w1"], "budget": {"spent": [], "reserved": {}, "limit": "x"}},
        {"workers": [], "budget": {"spent": 10**400, "reserved": 10**400, "limit": -(10**400)}, "blocked": {}},
        {"workers": [{}] * 50, "budget": {"spent": float("nan"), "limit": float("inf")}, "queue": 3, "parked": "y"},
        {"workers": [{}], "budget": {"spent": 1e6, "reserved": 0.0, "limit": None}},
    ],
)
def test_what_an_agent_writes_about_its_run_is_no_number_for_others(tmp_path: Path, shown: dict[str, Any]) -> None:
    """SC-60: ``parallel.json`` is a file that an agent can write; every other project is supervised as ever."""
    shop, other = listed(tmp_path / "shop", "a"), listed(tmp_path / "other", "b")
    roster(tmp_path, f"agents: 3\nprojects:\n  - {{path: {shop.root}}}\n  - {{path: {other.root}}}\n")
    (shop.root / ".harness").mkdir(exist_ok=True)
    record = {"v": 1, "run": "3f1c", "owner": owner.current().as_record(), **shown}
    (shop.root / ".harness/parallel.json").write_text(json.dumps(record))
    assert harness(tmp_path, "pause").code == 0
    ran = harness(tmp_path, "run", "--once")
    assert (ran.code, "Traceback" in ran.text) == (0, False), ran.text
    found = states(tmp_path)
    assert (found["shop"]["state"], found["other"]["state"], found["other"]["open"]) == ("running", "open", 1)
    assert found["shop"]["today_usd"] == 0
    known = json.loads(Path(trusted_state.of_user("fleet") or "", "state.json").read_text())["projects"]
    assert known[str(other.root)]["share"] == 1
    assert shop.harness("status").code == 0
    assert "Traceback" not in harness(tmp_path, "status").text


def test_projects_of_one_account_share_what_it_may_have(tmp_path: Path) -> None:
    """SC-60: the number in fleet.yaml, less the throttle of the account; another account has its own number."""
    one, two, other = (listed(tmp_path / name, "a", "b", "c") for name in ("one", "two", "other"))
    agent = one.agent(WORKS)
    account = registry.from_spec(agent).account
    rows = "".join(f"  - {{path: {each.root}, agent: '{agent}'}}\n" for each in (one, two))
    rows += f"  - {{path: {other.root}, agent: '{other.agent(WORKS, name='other.sh')}'}}\n"
    roster(tmp_path, f'agents: 9\naccounts: {{"{account}": {{agents: 3}}}}\nprojects:\n{rows}')

    assert harness(tmp_path, "pause").code == 0

    def given() -> dict[str, int]:
        assert harness(tmp_path, "run", "--once").code == 0
        return {name: row["share"] for name, row in states(tmp_path).items()}

    assert given() == {"one": 2, "two": 1, "other": 3}
    told = harness(tmp_path, "why", str(two.root)).text
    assert "the fleet may run 3 of these agents at a time" in " ".join(told.split())
    for _ in range(2):
        LimitClock().note(account, said="429", retry_after_seconds=1)
    (throttle,) = json.loads(one.harness("limits", "--json").out)["gates"]
    assert throttle["size"] == 4
    host = Path(trusted_state.of_user("host") or "", "host.json")
    host.write_text(json.dumps({"accounts": {account: {"agents": 2}}}))
    assert given() == {"one": 1, "two": 1, "other": 3}
    host.write_text("{}")
    LimitClock().forget(account)
    LimitClock().note(account, said="429", retry_after_seconds=1)
    roster(tmp_path, f"agents: 9\nprojects:\n{rows}")
    assert given() == {"one": 2, "two": 2, "other": 3}


def test_the_roster_is_changed_by_commands_and_keeps_its_comments(tmp_path: Path) -> None:
    shop, other = listed(tmp_path / "shop", "a"), listed(tmp_path / "other", "b")
    file = roster(tmp_path, f"# mine\nagents: 5 # all of them\nprojects:\n  - {{path: {other.root}}} # keep\n")
    assert harness(tmp_path, "add", str(shop.root)).code == 0
    assert "already in the fleet" in harness(tmp_path, "add", str(shop.root)).text
    assert [Path(each["path"]).name for each in json.loads(harness(tmp_path, "list", "--json").out)["projects"]] == [
        "other",
        "shop",
    ]
    assert harness(tmp_path, "remove", str(shop.root)).code == 0
    left = " ".join(file.read_text().split())
    assert left == f"# mine agents: 5 # all of them projects: - {{path: {other.root}}} # keep"
    assert harness(tmp_path, "remove", str(shop.root)).code == 7


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("agents: many\n", 3, "line 1: agents must be a number"),
        ("agents: 0\n", 3, "line 1: agents must be a number"),
        ("agents: 2\nprojects: [\n", 3, "line"),
        ("agents: 2\ncolour: red\n", 3, "line 2: colour is not a known setting"),
        ("projects:\n  - {weight: 2}\n", 3, "line 2: each project needs either a path or a glob"),
        ("projects:\n  - {path: /x, priority: 9}\n", 0, "/x is gone"),
        ("projects: 7\n", 3, "projects must be a list"),
        ("agents: 2\nengine: rabbit://x\n", 3, "line 2: engine is invalid: Unknown engine URL scheme: 'rabbit'"),
        ("- a\n", 3, "expected settings of the form NAME: VALUE"),
        ("agents: 2\naccounts: [x]\n", 3, "line 2: accounts must be a set of accounts"),
        ("accounts:\n  x: 3\n", 3, "line 2: x needs the number of agents: {agents: 12}"),
        ("accounts:\n  x: {agents: 0}\n", 3, "line 2: agents must be a number"),
    ],
)
def test_a_roster_that_is_wrong_is_one_line(tmp_path: Path, text: str, code: int, told: str) -> None:
    """Section 13: with the line; a path that is gone costs one line and nothing else. SC-63."""
    file = roster(tmp_path, text)
    ran = harness(tmp_path, "list")
    assert ran.code == code, ran
    assert told in ran.text
    assert file.read_text() == text


def test_without_a_roster_the_next_command_is_named(tmp_path: Path) -> None:
    ran = harness(tmp_path, "status")
    assert ran.code == 7
    assert "harness fleet add PATH" in ran.text


# ---- long tasks ------------------------------------------------------------------------------------------------------


def written(path: Path, command: str, slices: int, **members: Any) -> LongTaskProject:
    """Return a long task that is proven after so many slices."""
    found = LongTaskProject.of_book(path)
    proof = {"metric": "command", "target": f"test $(wc -l < ran) -ge {slices}"}
    criteria = [{"id": "written", "description": "It is written.", **proof}]
    found.task = book(successCriteria=criteria, localWorker={"command": command}, **members)
    return found


@pytest.mark.scenario
def test_a_long_task_is_worked_slice_after_slice_beside_other_projects(tmp_path: Path) -> None:
    """SC-FLEET-LTH: until it is proven, also by a supervisor that comes after one that was killed in a slice."""
    shop = listed(tmp_path / "shop", "a")
    waits = "[ -e go ] || { touch on; while [ ! -e go ]; do sleep 0.02; done; }"
    tale = written(tmp_path / "tale", f"{waits}; echo x >> ran", 3)
    rows = f"  - {{path: {shop.root}, agent: '{shop.agent(WORKS)}'}}\n  - {{path: {tale.root}, workers: 9}}\n"
    roster(tmp_path, f"agents: 2\nprojects:\n{rows}")
    first = supervise(tmp_path)
    until((tale.root / "on").exists)
    first.kill()
    first.wait()
    second = supervise(tmp_path)
    try:
        until(lambda: states(tmp_path)["tale"]["state"] == "running" and states(tmp_path)["tale"]["agents"] == 1)
        (tale.root / "go").touch()
        until(lambda: [row["state"] for row in states(tmp_path).values()] == ["done", "done"])
    finally:
        second.terminate()
        assert second.wait(timeout=30) == 0, (tmp_path / "fleet.log").read_text()
    assert (tale.root / "ran").read_text().split() == ["x"] * 3
    assert (tale.checkpoint["status"], shop.statuses()) == ("done", ["completed"])
    row = states(tmp_path)["tale"]
    assert (row["kind"], row["proven"], row["open"]) == ("longtask", 1, 0)


@pytest.mark.scenario
def test_what_slices_cost_counts_for_the_budget_of_the_day(tmp_path: Path) -> None:
    """SC-61: by the agent that the row names, which the harness starts itself."""
    tale = written(tmp_path / "tale", "true", 99, agentWorker={"cwd": "."})
    script = tmp_path / "agent.sh"
    used = '{"type": "usage", "input_tokens": 5, "output_tokens": 5, "cost_usd": 0.6}'
    script.write_text(f"echo x >> {tale.root}/ran; echo '{used}'\n")
    row = f"{{path: {tale.root}, agent: 'command:sh {script}', budget: {{day_usd: 1}}}}"
    roster(tmp_path, f"projects:\n  - {row}\n")
    running = supervise(tmp_path)
    try:
        until(lambda: states(tmp_path)["tale"]["why"] == "its budget of today is spent")
    finally:
        running.terminate()
        running.wait()
    assert states(tmp_path)["tale"]["today_usd"] == 1.2
    assert (tale.root / "ran").read_text().split() == ["x"] * 2


@pytest.mark.scenario
def test_a_long_task_that_cannot_go_on_is_left_alone_and_says_why(tmp_path: Path) -> None:
    """One task that needs a person, one with a blocked time window, one without a worker, one that fails again."""
    asks, blocked = (written(tmp_path / name, "touch never", 1) for name in ("asks", "blocked"))
    nobody = written(tmp_path / "nobody", "touch never", 1, workerPolicy={"preferred": "manual-review"})
    fails = written(tmp_path / "fails", "echo x >> tried; echo '1 failed, 2 passed' >&2; exit 1", 1)
    asks.lth("record", "--status", "needs-human", "--note", "Which chapter is next?", code=0)
    blocked.lth("record", "--status", "blocked", "--reason", "external", "--retry-after-seconds", "9000", code=0)
    rows = "".join(f"  - {{path: {each.root}}}\n" for each in (asks, blocked, nobody, fails))
    roster(tmp_path, f"projects:\n{rows}")
    running = supervise(tmp_path)
    told = {"asks": "needs you", "blocked": "waits", "nobody": "parked", "fails": "parked"}
    try:
        until(lambda: {name: row["state"] for name, row in states(tmp_path).items()} == told, 200.0)
    finally:
        running.terminate()
        running.wait()
    why = {name: row["why"] for name, row in states(tmp_path).items()}
    assert why["asks"] == "Which chapter is next?"
    assert "its slice failed 5 times in an hour" in why["fails"]
    assert "manual-review" in why["nobody"]
    assert (fails.root / "tried").read_text().split() == ["x"] * 5
    assert not [*tmp_path.rglob("never")]
