"""Actions of a person beside a parallel run: look at workspaces and the queue, and ask its coordinator."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_harness.kernel import clock, owner, trusted_state
from agent_harness.testing.task_list_project import TaskListProject, task

DYING = Path(__file__).parents[1] / "parallel" / "dying.py"
WORKS = 'mkdir -p out; echo "$HARNESS_TASK_ID" > out/$HARNESS_TASK_ID'


def project(path: Path, *names: str, **members: Any) -> TaskListProject:
    tasks = [
        task(each, validation={"command": f"grep -q . out/{each}", "timeout_seconds": 60}, **members) for each in names
    ]
    return TaskListProject(path / "list", *tasks, git=True, session_count=0)


def run(work: TaskListProject, agent: str, *words: str) -> Any:
    return work.harness("run", "--workers", "1", "--agent", work.agent(agent), *words)


def died(work: TaskListProject, moment: str, agent: str) -> None:
    """A run of one worker that was killed there."""
    words = [sys.executable, str(DYING), moment, "run", "--workers", "1", "--agent", work.agent(agent)]
    environment = {**os.environ, "HARNESS_TIME_SCALE": "0.1"}
    done = subprocess.run(words, cwd=work.root, env=environment, capture_output=True, check=False)
    assert done.returncode == -9, done


def answer(work: TaskListProject, *words: str) -> Any:
    return json.loads(work.harness(*words, "--json").out)


# ---- workspaces and the queue
# --------------------------------------------------------------------------------------------


def test_without_a_parallel_run_one_line_says_how_one_begins(tmp_path: Path) -> None:
    work = project(tmp_path, "a")
    listed = work.harness("workspace")
    assert (listed.code, listed.out) == (0, "No workspaces.\nnext: harness run --workers 4\n")
    assert answer(work, "workspace", "prune")["removed"] == []
    queue = work.harness("queue")
    assert (queue.code, "No parallel run in this project" in queue.err) == (7, True), queue
    assert "harness run --workers 4" in queue.err
    path = work.harness("workspace", "path", "w1")
    assert (path.code, "There is no workspace w1" in path.err) == (2, True), path
    meant = work.harness("workspace", "prnue")
    assert (meant.code, "Did you mean 'prune'?" in meant.err) == (2, True), meant
    assert "harness workspace prune" in work.harness("workspace", "--help").out


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_places_are_listed_and_pruned_once_what_only_they_have_is_in_a_rescue(tmp_path: Path) -> None:
    """SC-13: also what came into a workspace after its last order had ended."""
    work = project(tmp_path, "a")
    assert run(work, WORKS).code == 0
    (each,) = answer(work, "workspace")["places"]
    assert (each["place"], each["item"], each["state"]) == ("w1", "a", "free")
    assert each["bytes"] > 0
    assert each["age_seconds"] >= 0
    workspace = Path(work.harness("workspace", "path", "w1").out.rstrip("\n"))
    assert (workspace / "out/a").read_text() == "a\n"
    (workspace / "late.txt").write_text("nobody has it\n")
    (workspace.parent / "notes").mkdir()
    (removed,) = answer(work, "workspace", "prune")["removed"]
    assert not workspace.exists()
    assert (workspace.parent / "notes").is_dir()
    (rescue,) = removed["rescues"]
    assert work.repo.git("show", f"{rescue}:late.txt") == "nobody has it"
    assert work.repo.git("for-each-ref", "refs/harness/place") == ""
    found = answer(work, "workspace")
    assert (found["places"], found["set_aside"]) == ([], [str(workspace.parent / "notes")])


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_the_queue_of_a_dead_run_is_shown_and_its_place_is_free(tmp_path: Path) -> None:
    work = project(tmp_path, "a")
    died(work, "before:batched", WORKS)
    found = answer(work, "queue", "list")
    (each,) = found["queue"]
    assert (found["alive"], each["item"], each["fence"], each["state"]) == (False, "a", 1, "ready")
    assert each["since"].endswith("Z")
    assert found["next"] == "harness run --workers 1"
    shown = work.harness("queue")
    assert "a  ready  attempt 1" in shown.out
    assert "No run is running." in shown.out
    assert answer(work, "workspace", "prune")["removed"][0]["place"] == "w1"
    assert run(work, "exit 1").code == 0  # the candidate lands without its workspace
    assert work.statuses() == ["completed"]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_place_that_the_next_run_goes_on_with_stays(tmp_path: Path) -> None:
    work = project(tmp_path, "a")
    died(work, "before:ended", WORKS)
    found = answer(work, "workspace", "prune")
    assert (found["removed"], found["kept"][0]["place"]) == ([], "w1")
    assert "a was worked on there" in found["kept"][0]["why"]


# ---- what is shown ---------------------------------------------------------------------------------------------------


def test_status_shows_what_a_dead_run_was_at_and_reads_it_as_nobodys_word(tmp_path: Path) -> None:
    work = project(tmp_path, "a")
    assert answer(work, "status")["parallel"] is None
    shown = work.root / ".harness/parallel.json"
    shown.parent.mkdir(exist_ok=True)
    for odd in ("", "[]", "{", '{"v": 2}', "[" * 100_000):
        shown.write_text(odd)
        assert answer(work, "status")["parallel"] is None
    shown.write_text('{"v": 1, "workers": {"a": 1}, "queue": [1, {}], "budget": 7, "parked": "x", "owner": 1}')
    assert work.harness("status").code == 0
    record = {
        "v": 1,
        "run": "3f1c",
        "owner": {"pid": 999_999_999, "start_time": "1", "boot_id": "b", "host": "h", "uid": 1},
        "workers": [{"slot": "w1", "item": "a", "title": "A\u001b[31m", "phase": "judging", "cost_usd": 0.5}],
        "queue": [{"item": "b", "fence": 2, "state": "held"}],
        "landed": 3,
        "budget": {"spent": 1.5, "reserved": 0.25, "limit": 10.0},
        "hands": {"have": 4, "busy": 1},
        "parked": [{"item": "c", "reason": "landing_failed"}],
        "limits": ["All 8 agent slots of this machine are in use", 7],
    }
    shown.write_text(json.dumps(record))
    assert answer(work, "status")["parallel"]["alive"] is False
    said = work.harness("status").out
    assert "Parallel run 3f1c is over; its state" in said
    assert "1 of 4 agents at work, 3 landed, $1.50 of $10.00, $0.25 reserved" in said
    assert "w1  a (was judging, $0.50): A" in said
    assert "\x1b" not in said
    assert "To merge: b held (attempt 2)" in said
    assert "harness queue release b" in said
    assert "Waiting for you: c (landing_failed)" in said
    assert "  All 8 agent slots of this machine are in use" in said
    assert "agent at work." not in said
    shown.write_text(json.dumps(record | {"owner": owner.current().as_record()}))
    assert work.harness("status").out.startswith("list: 0 of 1 proven. 1 agent at work.\n")
    assert "next       harness log --follow" in work.harness("status").out
    assert work.harness("status", "--line").out.strip() == "list 0/1 1 agent at work"
    shown.write_text(json.dumps(record))
    program = (
        "import sys; sys.argv = ['harness', 'status']\n"
        "from agent_harness.cli.main import main\n"
        "main()\n"
        "print('LOADED', sorted({'click', 'subprocess', 'dataclasses', 'typing'} & set(sys.modules)))\n"
    )
    loaded = subprocess.run([sys.executable, "-c", program], cwd=work.root, capture_output=True, text=True, check=True)
    assert loaded.stdout.splitlines()[-1] == "LOADED []"


@pytest.mark.scenario
def test_status_shows_workers_queue_and_budget_and_keeps_what_is_held(tmp_path: Path) -> None:
    work, gates = project(tmp_path, "a", "b", "c"), Gates(tmp_path / "gates")
    with started(work, gates, 2) as process:
        until(lambda: len(gates.begun) == 2)
        until(lambda: [each["phase"] for each in answer(work, "status")["parallel"]["workers"]] == ["working"] * 2)
        found = answer(work, "status")["parallel"]
        assert [(each["slot"], each["item"]) for each in found["workers"]] == [("w1", "a"), ("w2", "b")]
        assert all(each["since"].endswith("Z") for each in found["workers"])
        assert (found["alive"], found["hands"]) == (True, {"have": 2, "busy": 2})
        assert found["budget"]["limit"] == 10.0
        assert answer(work, "workspace")["next"] == "harness status"  # nothing of it can be removed now
        assert answer(work, "queue", "hold", "a")["ok"]
        gates.open("a")
        until(lambda: [each["item"] for each in answer(work, "status")["parallel"]["queue"]] == ["a"])
        assert "To merge: a held (attempt 1)" in work.harness("status").out
        gates.open("b", "c")
        assert process.wait(120) == 3
    found = answer(work, "status")["parallel"]
    assert (found["alive"], found["landed"], found["queue"][0]["state"]) == (False, 2, "held")
    release = "harness queue release a"
    assert {answer(work, each)["next"] for each in ("status", "queue")} == {release}
    assert f"needs you  a is held and will not be merged ({release})" in work.harness("status").out
    assert answer(work, "queue", "release", "a")["next"] == "harness run --workers 2"
    assert "needs you  nothing" in work.harness("status").out
    assert answer(work, "workspace")["next"] == "harness workspace prune"
    assert answer(work, "status")["parallel"]["queue"][0]["state"] == "ready"
    assert work.harness("run", "--agent", work.agent("exit 1")).code == 0
    assert answer(work, "status")["parallel"] is None


# ---- what this machine has room for: SC-40 ---------------------------------------------------------------------------


@pytest.mark.scenario
def test_all_runs_of_a_machine_share_its_agents_and_death_gives_them_back(tmp_path: Path) -> None:
    folder = Path(trusted_state.of_user("host") or "")
    (folder / "host.json").write_text('{"agents": 1, "tests": 1}')
    one, gates = project(tmp_path / "one", "a", "b"), Gates(tmp_path / "gates")
    other, others = project(tmp_path / "other", "x"), Gates(tmp_path / "others")
    try:
        with started(one, gates, 2) as process:
            until(lambda: gates.begun)
            (holder,) = answer(one, "limits", "--host")["holders"]
            assert (holder["kind"], holder["item"], holder["project"]) == ("agents", "a", str(one.root))
            assert holder["pid"] == process.pid
            assert "agents: 1 of 1" in one.harness("limits", "--host").out
            with started(other, others) as waiting:
                until(lambda: (answer(other, "status")["parallel"] or {}).get("limits"))
                assert (gates.begun, others.begun) == ([["a", "w1"]], [])
                process.kill()
                until(lambda: others.begun)
                others.open("x")
                said, _ = waiting.communicate(timeout=120)
                assert (waiting.returncode, "All 1 agent slots of this machine" in said) == (0, True), said
        gates.open("a", "b")
        again = one.harness("run", "--workers", "2", "--agent", one.agent(WAITS), GATES=str(gates.folder))
        assert (again.code, one.statuses()) == (0, ["completed"] * 2), again
        assert answer(one, "limits", "--host")["holders"] == []
    finally:
        (folder / "host.json").unlink()


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_with_little_memory_one_agent_works_after_the_other(tmp_path: Path) -> None:
    """SC-41."""
    work, gates = project(tmp_path, "a", "b"), Gates(tmp_path / "gates")
    work.edit(session_config={**work.raw["session_config"], "parallel": {"min_free_mb": 1_000_000_000}})
    with started(work, gates, 2) as process:
        until(lambda: gates.begun)
        until(lambda: answer(work, "status")["parallel"]["workers"])
        assert gates.begun == [["a", "w1"]]
        gates.open("a", "b")
        said, _ = process.communicate(timeout=120)
        assert (process.returncode, "less than 1000000000 MB of memory are free" in said) == (0, True), said
    assert work.statuses() == ["completed"] * 2


# ---- requests --------------------------------------------------------------------------------------------------------


def until(found: Callable[[], object]) -> None:
    for _ in range(3000):
        if found():
            return
        time.sleep(0.02)
    raise AssertionError("it never happened")


WAITS = (
    f"echo $HARNESS_TASK_ID $HARNESS_WORKER >> $GATES/begun; {WORKS}; "
    "while [ ! -e $GATES/$HARNESS_TASK_ID ]; do sleep 0.05; done"
)


class Gates:
    """Agents that wait for a file before they end; which have begun, and in which slot."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def open(self, *names: str) -> None:
        for each in names:
            (self.folder / each).touch()

    @property
    def begun(self) -> list[list[str]]:
        path = self.folder / "begun"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def started(work: TaskListProject, gates: Gates, workers: int = 1) -> Any:
    words = ("run", "--workers", str(workers), "--agent", work.agent(WAITS))
    return work.start(*words, GATES=str(gates.folder), HARNESS_TIME_SCALE="0.1")


def test_requests_need_a_run_and_say_how_one_begins(tmp_path: Path) -> None:
    work = project(tmp_path, "a")
    for words in (("scale", "3"), ("recall", "w1")):
        ran = work.harness(*words)
        assert (ran.code, "No parallel run is running here" in ran.err) == (7, True), ran
        assert "harness run --workers 4" in ran.err
    assert work.harness("queue", "hold", "a").code == 7
    assert work.harness("scale", "0").code == 2
    assert work.harness("scale").code == 2
    assert "harness cancel w3" in work.harness("cancel", "--help").out
    assert "Did you mean 'cancel'?" in work.harness("cancl", "w1").err


@pytest.mark.scenario
def test_more_workers_begin_at_once_and_one_that_is_recalled_keeps_its_work(tmp_path: Path) -> None:
    """SC-13, F-RUN-2: and workspaces are not pruned meanwhile; nothing is counted."""
    work, gates = project(tmp_path, "a", "b", "c"), Gates(tmp_path / "gates")
    with started(work, gates) as process:
        until(lambda: len(gates.begun) == 1)
        pruned = work.harness("workspace", "prune")
        assert (pruned.code, "a parallel run is running" in pruned.err) == (5, True), pruned
        found = answer(work, "scale", "2")
        assert (found["ok"], found["event"]["workers"]) == (True, 2)
        until(lambda: len(gates.begun) == 2)
        assert gates.begun == [["a", "w1"], ["b", "w2"]]
        unknown = work.harness("cancel", "w9")
        assert (unknown.code, "w1 (a), w2 (b)" in unknown.err) == (2, True), unknown
        assert answer(work, "scale", "1")["event"]["workers"] == 1
        assert answer(work, "cancel", "w2")["event"]["item"] == "b"
        until(lambda: work.task("b").status == "pending")
        assert work.task("b").attempts == 0
        assert [work.repo.git("show", f"{ref}:out/b") for ref in work.task("b").rescues] == ["b"]
        assert len(gates.begun) == 2  # one worker: its slot is closed
        gates.open("a", "b", "c")
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, said
    assert "kept       1 not verified: harness rescue list" in said
    assert work.statuses() == ["completed"] * 3
    assert {slot for _, slot in gates.begun[2:]} == {"w1"}


@pytest.mark.scenario
def test_what_is_held_waits_for_a_person_and_lands_once_it_is_released(tmp_path: Path) -> None:
    """F-RUN-2: the end of the run says so."""
    work, gates = project(tmp_path, "a", "b"), Gates(tmp_path / "gates")
    with started(work, gates, 2) as process:
        until(lambda: len(gates.begun) == 2)
        assert answer(work, "queue", "hold", "a")["event"]["item"] == "a"
        gates.open("a", "b")
        said, _ = process.communicate(timeout=120)
        assert (process.returncode, "harness queue release a" in said) == (3, True), said
    assert "To merge: harness queue release a" in said
    assert "needs you  nothing" not in said
    assert [work.task(name).status for name in "ab"] == ["in_progress", "completed"]
    (each,) = answer(work, "queue")["queue"]
    assert (each["item"], each["state"]) == ("a", "held")
    shown = clock.local(clock.parse(each["since"]) or clock.now())
    assert work.harness("queue").out.splitlines()[0] == f"a  held  attempt 1, since {shown}"
    with work.start("run", "--agent", work.agent("exit 1")) as process:  # a plain one waits for the same answer
        said, _ = process.communicate(timeout=120)
        assert (process.returncode, "harness queue release a" in said) == (3, True), said
    assert work.harness("queue", "release", "a").code == 0
    landed = work.harness("run", "--agent", work.agent("exit 1"))
    assert (landed.code, "proven     1 in this run: a" in landed.out, "0 sessions" in landed.out) == (0, True, False), (
        landed
    )
    assert work.statuses() == ["completed"] * 2


@pytest.mark.scenario
def test_what_is_dropped_is_kept_in_a_rescue_and_made_anew(tmp_path: Path) -> None:
    """Also where no run is under way."""
    work = project(tmp_path, "a")
    died(work, "before:batched", WORKS)
    found = answer(work, "queue", "drop", "a")
    assert work.repo.git("show", f"{found['event']['rescue']}:out/a") == "a"
    assert answer(work, "queue")["queue"] == []
    ran = run(work, "mkdir -p out; echo anew > out/a")
    assert ran.code == 0, ran
    assert work.statuses() == ["completed"]
    assert work.repo.read("out/a") == b"anew\n"


@pytest.mark.kept("before:held")
@pytest.mark.scenario
@pytest.mark.parametrize("moment", ["after:held", "before:held"])
def test_a_coordinator_that_dies_at_a_request_has_done_it_or_not_as_its_ledger_says(
    tmp_path: Path, moment: str
) -> None:
    work, gates = project(tmp_path, "a"), Gates(tmp_path / "gates")
    words = [sys.executable, str(DYING), moment, "run", "--workers", "1", "--agent", work.agent(WAITS)]
    environment = {**os.environ, "HARNESS_TIME_SCALE": "0.1", "GATES": str(gates.folder)}
    with subprocess.Popen(words, cwd=work.root, env=environment, stdout=subprocess.DEVNULL) as process:
        until(lambda: gates.begun)
        ran = work.harness("queue", "hold", "a")
        assert process.wait(60) == -9
    if moment == "before:held":  # the item is at work for the ledger of the dead run
        assert (ran.code, "a is held" in ran.out) == (0, True), ran
    assert ran.code == 0, ran
    gates.open("a")
    again = work.harness("run", "--workers", "1", "--agent", work.agent(WAITS), GATES=str(gates.folder))
    assert (again.code, "held back" in again.out) == (3, True), again


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_coordinator_that_does_not_answer_is_named_and_nothing_happens(tmp_path: Path) -> None:
    work, gates = project(tmp_path, "a"), Gates(tmp_path / "gates")
    with started(work, gates) as process:
        until(lambda: gates.begun)
        process.send_signal(signal.SIGSTOP)
        ran = work.harness("scale", "2")
        process.send_signal(signal.SIGCONT)
        assert (ran.code, f"{process.pid}" in ran.err, "nothing was changed" in ran.err) == (5, True, True), ran
        gates.open("a")
        said, _ = process.communicate(timeout=120)
        assert (process.returncode, "from now on" in said) == (0, False), said


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_an_agent_asks_nothing_of_its_run(tmp_path: Path) -> None:
    work = project(tmp_path, "a")
    words = "'scale 9' 'recall w1' 'queue hold a' 'workspace prune' 'task set a max_attempts=9' 'task reset a'"
    tries = (
        f"for words in {words}; do (cd $HOME_LIST; unset HARNESS_PROJECT_DIR HARNESS_STATE_ROOT; harness $words); done"
    )
    ran = work.harness(
        "run", "--workers", "1", "--agent", work.agent(f"({tries}) > $SAID 2>&1; {WORKS}"), HOME_LIST=str(work.root),
        SAID=str(tmp_path / "said"),
    )  # fmt: skip
    assert ran.code == 0, ran
    said = (tmp_path / "said").read_text()
    assert said.count("is a decision for the user") == 6, said


# ---- a line to one of them -------------------------------------------------------------------------------------------


@pytest.mark.scenario
def test_a_person_says_a_line_to_one_of_several_agents(tmp_path: Path) -> None:
    """F-SAY: by slot or item, told once and to nobody else; without a name, or with one that nobody has, refused."""
    work, notes = project(tmp_path, "a", "b", "c"), tmp_path / "notes"
    notes.mkdir()
    waits = 'touch "$n"; while [ ! -e "$NOTES/go" ]; do sleep 0.05; done'
    agent = f'n="$NOTES/$HARNESS_TASK_ID"; if [ ! -e "$n" ]; then {waits}; else {WORKS}; fi'
    words = ("run", "--workers", "2", "--agent", work.agent(agent))

    def at_work() -> dict[str, str]:
        shown = answer(work, "status")["parallel"]
        return {each["item"]: each["slot"] for each in (shown or {}).get("workers", ())}

    with work.start(*words, NOTES=str(notes)) as ran:
        try:
            until(lambda: (notes / "a").exists() and (notes / "b").exists() and len(at_work()) == 2)
            slots = at_work()
            for given, code, said in (
                ((), 4, "several agents are running, so select the agent that gets the message: w"),
                (("--to", "w9"), 2, f"no item is named w9; there: {slots['a']} (a), {slots['b']} (b)"),
            ):
                refused = work.harness("say", *given, "Use SQLite.")
                assert (refused.code, said in refused.err, "harness say --to w" in refused.err) == (code, True, True)
            mine = {"HARNESS_RUN_ID": "r", "HARNESS_PROJECT_DIR": str(work.root)}
            by_agent = work.harness("say", "--to", "a", "I am proven.", **mine)
            assert (by_agent.code, "a decision for the user" in by_agent.err) == (4, True), by_agent
            told = answer(work, "say", "--to", slots["b"], "Use SQLite.")
            assert (told["to"], told["told"]) == ("b", "with its next prompt")
            assert work.harness("say", "--to", "a", "Leave the API.").out == (
                f"{slots['a']} (a) gets the message with its next prompt.\n"
            )
            later = work.harness("say", "--to", "c", "Mind the time zones.")
            assert "The agent of c gets the message with the next session." in later.out
        finally:
            (notes / "go").touch()
        assert ran.wait(240) == 0
    heard = "A person who watches this run says: "
    told_of = {name: [work.prompt(name, number).partition("\n\n")[0] for number in (0, 1)] for name in "abc"}
    assert told_of["b"][1] == f"{heard}Use SQLite."
    assert told_of["a"][1] == f"{heard}Leave the API."
    assert told_of["c"][0] == f"{heard}Mind the time zones."
    assert sum(heard in work.prompt(name, number) for name in "abc" for number in (0, 1)) == 3
    done = work.harness("say", "--to", "a", "Too late.")
    assert (done.code, "a is proven; no agent is working on it" in done.err) == (4, True), done
