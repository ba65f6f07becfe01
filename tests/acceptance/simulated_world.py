"""Whole projects in the simulation: what a scheduler, a person and an unlucky machine do, and what must hold."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_harness.kernel import journal, trusted_state
from agent_harness.session import ledger
from agent_harness.testing.long_task_project import LongTaskProject, book, book_checkpoint
from agent_harness.testing.task_list_project import TaskListProject, task

from .script import leave, sh, turn, usage
from .simulated_machine import Machine, Ran, weights_in
from .test_kill_anywhere import new_project as new_feature_project
from .test_kill_anywhere import note_is_kept, nothing_left_over, work_of

MOST = 12  # starts of an agent for one item, in the simulation
ALL_TURNS = "honest*4,nothing*1,error*1,limit*2,network*1,hang*1,gone*1,half*2"
NOTE = "a note of the person\n"
FEATURES = (1, 2)
MEANT = (0, 1, 3, 4, 5, 7, 9, 124)
"""Exit codes of a run; 4 is for a full disk and an agent that is gone, 5 for a provider that refuses."""


class Story:
    """One project from its start to its end, by a seed: which faults happen, and what the agent does."""

    def __init__(self, machine: Machine, folder: Path, seed: int, *, kinds: str = ALL_TURNS) -> None:
        self.machine, self.folder, self.seed, self.kinds = machine, folder, seed, kinds
        self.chosen = random.Random(seed)
        self.points = 600  # of a run, by the last one that nobody disturbed
        self.told: list[str] = []
        self.kills = self.steps = 0
        folder.mkdir()
        self.make()

    # ---- what each protocol has its own --------------------------------------------------------------------------

    root: Path
    state: Path  # the project's folder in the user's state

    most = MOST  # starts of the agent for one item

    def make(self) -> None:
        raise NotImplementedError

    def bear(self, most: int) -> None:
        """Nothing but the count of starts ends this project: after so many."""
        raise NotImplementedError

    def says_used_up(self, ran: Ran) -> bool:
        """Return True if a person is told that the agent was started too often."""
        return "no agent is started until you allow more" in ran.out

    def go_on(self) -> None:
        """A person agrees that it is started as often again."""
        raise NotImplementedError

    def run(self, kinds: str, fault: dict[str, Any] | None = None, *, twice: bool = False) -> Ran:
        raise NotImplementedError

    def look(self) -> None:
        """Check after each command: the project is whole, and names its state."""
        raise NotImplementedError

    def done(self) -> bool:
        raise NotImplementedError

    def agree(self, ran: Ran) -> None:
        """A person says go on."""
        raise NotImplementedError

    def whole(self) -> None:
        """Check at the end: all is done, nothing twice, nothing lost."""
        raise NotImplementedError

    # ---- the same for all ----------------------------------------------------------------------------------------

    def play(self, steps: int) -> None:
        """So many runs with faults, and as many as are needed without; raises what does not hold, with the seed."""
        try:
            for _ in range(steps):
                if self.done():
                    break
                self.step(self.fault())
            for _ in range(30):
                if self.done():
                    break
                self.step(None, kinds="honest*1")
            assert self.done(), "it never came to an end"
            self.whole()
            self.bounded()
        except Exception as error:
            story = "\n".join(self.told[-12:])
            replay = f"replay: HARNESS_SIMULATION_SEED={self.seed}"
            raise AssertionError(f"{type(error).__name__}: {error}\n\n{replay}\n{story}") from error

    def fault(self) -> dict[str, Any] | None:
        kind = self.chosen.choices(("kill", "torn", "full", "jump", "twice", None), (60, 10, 10, 8, 6, 6))[0]
        point = self.chosen.randint(1, self.points)
        if kind == "jump":
            return {"kind": kind, "point": point, "seconds": self.chosen.choice((-90_000, -600, 600, 90_000))}
        if kind == "full":
            return {"kind": kind, "point": point, "writes": self.chosen.choice((1, 3, 10**6))}
        return None if kind is None else {"kind": kind, "point": point}

    def step(self, fault: dict[str, Any] | None, kinds: str | None = None) -> None:
        self.steps += 1
        ran = self.run(kinds or self.kinds, fault, twice=bool(fault and fault["kind"] == "twice"))
        self.told.append(f"--- {fault} -> {ran.code} at {ran.points}, {ran.seconds:.1f} s\n{ran.out[-1500:]}")
        self.kills += ran.killed
        if fault is None and ran.points > 50:
            self.points = ran.points
        assert "Traceback" not in ran.out, "a traceback"
        assert "Unexpected" not in ran.out or (fault and fault["kind"] == "full"), "an error that nobody expected"
        lost = ran.code == 8 and fault is not None and fault["kind"] == "jump"  # a lease is over when its time is
        assert ran.killed or ran.code in MEANT or lost, f"exit {ran.code}"
        busy = ran.code == 5 and "ate limit" not in ran.out and "efuse" not in ran.out
        assert not busy or (fault and fault["kind"] == "twice"), "the next command does not work at once"
        self.look()
        if ran.code in (1, 3):
            self.agree(ran)
        self.machine.wait(self.until_served() if ran.code in (0, 1, 5) else 5)

    def until_served(self) -> float:
        """Seconds until the last refusal of the provider is over."""
        known = self.starts()
        last = known[-1] if known else {}
        return max(0.0, last["at"] + last["wait"] - self.machine.now) + 61 if last.get("wait") else 5.0

    def starts(self) -> list[dict[str, Any]]:
        """Return the agent's own record of its starts."""
        path = self.folder / "starts"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def bounded(self) -> None:
        """Each start was counted before it was made, and no more than the bound between two words of a person."""
        counted = list(journal.read(self.state / "starts.jsonl"))
        since: Counter[str] = Counter()
        for line in counted:
            if line.get("goes_on"):
                since.clear()
                continue
            since[line["item"]] += 1
            assert since[line["item"]] <= MOST, f"{line['item']} was started {since[line['item']]} times"
        made, known = len(self.starts()), sum("item" in line for line in counted)
        assert made <= known <= made + self.kills, (made, known, self.kills)

    def git(self, *words: str) -> str:
        return subprocess.run(["git", *words], cwd=self.root, capture_output=True, text=True, check=True).stdout.strip()

    def person(self, *words: str) -> Ran:
        ran = self.machine.run(*words, cwd=self.root)
        self.told.append(f"--- {' '.join(words)} -> {ran.code}\n{ran.out[-500:]}")
        return ran

    def accepted_once(self, items: list[str]) -> None:
        path = str(self.state / "verdicts.jsonl")
        assert ledger.check(path).whole, "the ledger is not whole"
        found = Counter(line.item for line in ledger.newest_first(path) if line.accepted)
        assert found == Counter(items), f"accepted: {dict(found)}"


def of_place(place: Path) -> Path:
    """The folder of a project in the user's state."""
    return Path(os.environ["XDG_STATE_HOME"], "agent-harness/projects", trusted_state.name_of(str(place)))


class TaskListStory(Story):
    """A list of three tasks in a repository with a person's own files."""

    tasks = 3
    sources = True

    def make(self) -> None:
        jobs = [task(f"t{n}", validation={"command": f"grep -q done work-t{n}.txt"}) for n in range(self.tasks)]
        self.project = TaskListProject(self.folder / "list", *jobs, git=self.sources, session_count=0)
        self.project.edit(session_config={"max_starts": self.most, "max_sessions": 0, "max_tasks_per_session": 0})
        self.root = self.project.root
        self.state = of_place(self.root / "harness-tasks.json")
        (self.root / "notes.txt").write_text(NOTE)

    def run(self, kinds: str, fault: dict[str, Any] | None = None, *, twice: bool = False) -> Ran:
        words = ("harness", "run", "--agent", f"sim:{self.folder}:{self.seed}:{kinds}")
        return self.machine.at_once([words] * (1 + twice), cwd=self.root, fault=None if twice else fault)[0]

    def look(self) -> None:
        ran = self.machine.run("harness", "status", "--json", cwd=self.root)
        assert ran.code == 0, f"status: {ran.out}"
        json.loads((self.root / "harness-tasks.json").read_text())
        assert (self.root / "notes.txt").read_text() == NOTE, "the person's file is lost"

    def done(self) -> bool:
        return set(self.project.statuses()) == {"completed"}

    def bear(self, most: int) -> None:
        self.project.edit(tasks=[{**each, "max_attempts": 10**6} for each in self.project.raw["tasks"][:1]])
        self.project.edit(session_config={"max_starts": most, "max_sessions": 0})

    def go_on(self) -> None:
        assert self.person("harness", "resume").code == 0

    def agree(self, ran: Ran) -> None:
        state = self.project.state
        if state.halt:
            self.go_on()
        if "failed" in self.project.statuses():
            self.person("harness", "task", "reset", "--failed")

    def whole(self) -> None:
        subjects = Counter(self.git("log", "--format=%s").splitlines())
        for each in self.project.state.tasks:
            assert subjects[f"[{each.id}] {each.title}"] == 1, subjects
            assert self.git("show", f"HEAD:work-{each.id}.txt") == "done"
        self.accepted_once([each.id for each in self.project.state.tasks])
        assert [line for line in self.git("status", "--porcelain").splitlines() if "notes.txt" not in line] == []
        left = [path for path in self.root.rglob("*.tmp.*") if ".git/objects" not in str(path)]
        assert left == [], left
        assert len(self.git("worktree", "list").splitlines()) == 1
        assert not (self.root / ".git/index.lock").exists()
        assert self.person("harness", "status").code == 0


class LongTaskStory(Story):
    """A task whose worker is a line of shell: three lines are to be written, one a slice."""

    def make(self) -> None:
        self.project = LongTaskProject.made(
            self.folder / "task",
            contract=book(
                successCriteria=[{**CRITERION, "target": "test $(wc -l < artifacts/lines) -ge 3"}],
                workerPolicy={"preferred": "local-command", "maxSlices": MOST},
                context={"repoPath": "."},
            ),
            state=book_checkpoint(),
        )
        self.root, self.points = self.project.root, 50
        (self.root / "artifacts").mkdir()
        (self.root / "artifacts/lines").write_text("")
        (self.root / "notes.txt").write_text(NOTE)
        self.state = of_place(self.root / "task.json")

    def run(self, kinds: str, fault: dict[str, Any] | None = None, *, twice: bool = False) -> Ran:
        weights = weights_in(kinds)
        [kind] = self.chosen.choices([*weights], [*weights.values()])
        made = ("lth", "run", str(self.root), "--worker", "local-command", "--lock-ttl-seconds", "30")
        command = f"echo '{json.dumps({'item': 'book', 'kind': kind, 'wait': 0, 'at': 0})}' >> {self.folder}/starts; "
        command += WORKERS.get(kind, "exit 1")
        if kind == "hang":
            made = (*made, "--timeout-seconds", "1")
        words = (*made, "--command", command)
        ran = self.machine.at_once([words] * (1 + twice), cwd=self.root, fault=None if twice else fault)[0]
        self.decided = {} if ran.killed or "{" not in ran.out else ran.json
        return ran

    def look(self) -> None:
        ran = self.machine.run("lth", "next", str(self.root), cwd=self.root)
        assert ran.code == 0, f"next: {ran.out}"
        self.decided = ran.json
        assert (self.root / "notes.txt").read_text() == NOTE, "the person's file is lost"
        lines = (self.root / "artifacts/lines").read_text().splitlines()
        assert len(lines) == sum(each["kind"] == "honest" for each in self.starts()), "what a worker did is lost"

    def step(self, fault: dict[str, Any] | None, kinds: str | None = None) -> None:
        super().step(fault, kinds)
        if self.decided["decision"] == "needs-human":
            self.go_on()
            self.allow(MOST)
        self.machine.wait(self.decided.get("waitSeconds") or 0)

    def done(self) -> bool:
        return self.project.checkpoint["status"] == "done" and self.decided["decision"] == "done"

    def bear(self, most: int) -> None:
        """The worker takes away the log, which counts its slices."""
        self.project.task = self.project.task | {"workerPolicy": {"preferred": "local-command", "maxSlices": most // 4}}

    def says_used_up(self, ran: Ran) -> bool:
        """Slices are counted where the worker that takes the log away does not reach, as starts are."""
        return super().says_used_up(ran) or "raise workerPolicy.maxSlices in task.json to continue" in ran.out

    def go_on(self) -> None:
        assert self.person("lth", "record", str(self.root), "--status", "active").code == 0
        self.allow(1)

    def allow(self, slices: int) -> None:
        """A person raises the bound on slices, and accepts that."""
        contract = self.project.task
        contract["workerPolicy"]["maxSlices"] += slices
        self.project.task = contract
        assert self.person("lth", "accept", str(self.root)).code == 0

    def agree(self, ran: Ran) -> None:
        return

    def until_served(self) -> float:
        return 31.0  # the lease of a run that was killed is over

    def bounded(self) -> None:
        counted = [line for line in journal.read(self.state / "starts.jsonl") if "item" in line]
        made = len(self.starts())
        assert made <= len(counted) <= made + self.steps, (made, len(counted))

    def whole(self) -> None:
        assert self.person("lth", "verify", str(self.root)).code == 0
        assert ledger.check(str(self.state / "verdicts.jsonl")).whole, "the ledger is not whole"
        left = list(self.root.rglob("*.tmp.*"))
        assert left == [], f"left behind: {left}"


CRITERION = {"id": "written", "description": "Three lines are written.", "metric": "command"}
HARNESS_PID = 'import json, sys; print(json.load(open(sys.argv[1]))["harness"]["pid"])'
KILLER = "kill -9 $(sed -n 's/.*\"pid\": \\([0-9]*\\).*/\\1/p' .lth.lock)"
WORKERS = {
    "honest": "echo line >> artifacts/lines",
    "nothing": "true",
    "limit": "echo HTTP 429, retry after 3600; exit 1",
    "network": "echo connect: Connection refused; exit 1",
    "hang": "sleep 60",
    "window": "echo HTTP 429, retry after 18000; exit 1",
    "killer": f"rm -f runs/*.jsonl; {KILLER}",
}


class FeatureStory(Story):
    """The project ``calc`` with two features and a scripted agent."""

    def make(self) -> None:
        self.calc = new_feature_project(self.folder / "world", FEATURES)
        self.calc.checked = False
        self.calc.configure(f"features:\n  max_starts: {MOST}\n")
        self.root = self.calc.root
        self.state = of_place(self.root / ".git")

    def run(self, kinds: str, fault: dict[str, Any] | None = None, *, twice: bool = False) -> Ran:
        weights = weights_in(kinds)
        [kind] = self.chosen.choices([*weights], [*weights.values()])
        spec = self.calc.agent([turn(self._work(kind, n), times=1000, feature=n) for n in FEATURES])
        words = ("harness", "run", "--until-done", "--agent", spec)
        return self.machine.at_once(
            [words] * (1 + twice), cwd=self.root, fault=None if twice else fault, environ=self.calc.environ
        )[0]

    def _work(self, kind: str, feature: int) -> list[dict[str, object]]:
        told = json.dumps({"item": f"Feature #{feature}", "kind": kind, "at": 0, "wait": 0})
        begun = sh(f"echo '{told}' >> {self.folder}/starts")
        if kind == "honest":
            return [begun, *work_of(feature)]
        if kind == "killer":
            return [begun, sh(f"kill -9 $({sys.executable} -c '{HARNESS_PID}' {self.state}/open_session.json)")]
        if kind == "half":
            return [begun, *work_of(feature)[:4]]
        return [begun, usage(1, 1)] if kind == "nothing" else [begun, leave(1)]

    def look(self) -> None:
        ran = self.machine.run("harness", "status", "--json", cwd=self.root, environ=self.calc.environ)
        assert ran.code == 0, f"status: {ran.out}"
        for path in (self.root / ".harness").rglob("*.json"):
            json.loads(path.read_text())
        assert (self.root / "mine.local").read_text() == NOTE
        assert note_is_kept(self.calc), "the person's untracked file is lost"

    def done(self) -> bool:
        return self.calc.passing() == list(FEATURES) and not (self.state / "open_session.json").exists()

    def agree(self, ran: Ran) -> None:
        asked = self.calc.state.get("pending_escalation")
        if asked:
            self.go_on()

    def bear(self, most: int) -> None:
        settings = (self.root / ".harness.yaml").read_text().replace(f"max_starts: {MOST}", f"max_starts: {most}")
        self.calc.put({".harness.yaml": settings})
        self.calc.configure("  max_stuck_sessions: 1000000\n")

    def go_on(self) -> None:
        asked = self.calc.state["pending_escalation"]
        choice = "retry" if "retry" in asked["options"] else asked["options"][0]
        self.machine.run("harness", "resume", "--choose", choice, cwd=self.root, environ=self.calc.environ)

    def until_served(self) -> float:
        return 61.0

    def whole(self) -> None:
        nothing_left_over(self.calc)
        assert self.calc.remote() == self.calc.head
        assert self.calc.changes(without=("notes.txt",)) == []


STORIES: dict[str, Callable[..., Story]] = {
    "tasklist": TaskListStory,
    "longtask": LongTaskStory,
    "features": FeatureStory,
}
