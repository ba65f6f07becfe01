"""One backlog as a task list, as a feature project and as long tasks: the same files, proofs and agents in each.

``TaskListBacklog``, ``FeatureBacklog`` and ``LongTaskBacklog`` work a backlog to its end by real commands, with a
person who does no more than what the pages tell: takes no side, repeats a command that was killed, skips what is stuck.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from agent_harness.testing.repo import Repo

from . import backlog_agent as agents

__all__ = ["PROTOCOLS", "Backlog", "FeatureBacklog", "LongTaskBacklog", "Ran", "TaskListBacklog"]

RUNNER = """\
# check.sh PROOF [REPORT]: runs one proof, or all that a folder has; a JUnit report of them in REPORT.
failed=0
cases=
if [ -d "$1" ]; then set -- "${2-}" "$1"/*.sh; else set -- "${2-}" "$1"; fi
report=$1
shift
for proof; do
  if sh "$proof"; then outcome=; else outcome='<failure message="no"/>' failed=1; fi
  cases="$cases<testcase file=\\"$proof\\" classname=\\"$proof\\" name=\\"answer\\">$outcome</testcase>"
done
[ -z "$report" ] || echo "<testsuite name=\\"proofs\\">$cases</testsuite>" > "$report"
exit $failed
"""
SCALE = 0.1
"""The factor on every wait and every limit of a turn."""
AGENT = str(Path(agents.__file__).resolve())
MODULES = {"harness": "agent_harness.cli.main", "lth": "agent_harness.cli.lth"}


def proof_text(item: int) -> str:
    """A check whose result depends on the item's own module."""
    return f'test "$(sh {agents.product(item)})" = {item * item}\n'


@dataclass(frozen=True)
class Ran:
    """Result of one command; ``killed`` if the test ended it."""

    code: int
    out: str
    err: str
    killed: bool = False

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Backlog:
    """Items 1 to ``size`` in a repository of their own below ``base``.

    ``attempts`` bounds the tries at an item and ``seconds`` each turn of an agent. The first ``kills`` runs that still
    go on at the next of the ``moments``, in seconds after their start, are killed then. Every run prints into ``log``,
    a file of the repository, by itself or by ``tee``.
    """

    base: Path
    size: int
    attempts: int = 2
    seconds: float = 5.0
    kills: int = 0
    moments: Iterator[float] = field(default_factory=lambda: iter(()))
    killed: int = 0
    log: str = ""
    tee: bool = False
    told: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)  # by runs
    name: ClassVar[str]

    def __post_init__(self) -> None:
        self.memory.mkdir(parents=True)
        self.repo = Repo(self.base / "work", user_settings=True)
        self.repo.write("check.sh", RUNNER).write("items/README", "One module an item.\n")
        for item in self.items:
            self.repo.write(str(agents.proof(item)), proof_text(item))
        self.prepare()

    @property
    def items(self) -> range:
        return range(1, self.size + 1)

    @property
    def memory(self) -> Path:
        return self.base / "memory"

    @property
    def limit(self) -> float:
        """The seconds of a turn, before the scale."""
        return self.seconds / SCALE

    @property
    def agent(self) -> list[str]:
        return [sys.executable, "-S", AGENT, str(self.memory)]

    # ---- what a protocol adds

    @abstractmethod
    def prepare(self) -> None:
        """Makes the plan, and the first commit."""

    @abstractmethod
    def work(self) -> None:
        """Runs until nothing is left to do."""

    @abstractmethod
    def proven(self) -> list[int]:
        """The items that the harness says are proven."""

    # ---- commands

    def command(self, program: str, *words: str) -> Ran:
        """Runs a command to its end, or to the next moment at which the harness is killed."""
        is_run = words[0] == "run"
        path = self.repo.path / self.log if is_run and self.log else self.base / "out"
        start = path.stat().st_size if is_run and path.exists() else 0
        with path.open("ab" if is_run else "wb") as out, (self.base / "err").open("wb") as err, ExitStack() as stack:
            printed: Any = out
            if is_run and self.tee:
                tee = subprocess.Popen(["tee", "-a", path], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
                printed = stack.enter_context(tee).stdin
            process = subprocess.Popen(
                [sys.executable, "-m", MODULES[program], *words],
                cwd=self.repo.path,
                env={**os.environ, "HARNESS_TIME_SCALE": str(SCALE), **self.environment()},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=err,
            )
            may_die = is_run and self.killed < self.kills
            moment = next(self.moments) if may_die else None
            try:
                process.wait(moment)
                was_killed = False
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                was_killed = True
                self.killed += 1
        said = path.read_bytes()[start:].decode(errors="replace")
        ran = Ran(process.returncode, said, (self.base / "err").read_text(errors="replace"), was_killed)
        if is_run:
            self.printed.append(said)
        self.told.append(f"$ {program} {' '.join(words)}\n{ran.out}{ran.err}exit {ran.code}\n")
        assert "Traceback (most recent call last)" not in ran.out + ran.err, self.story()
        return ran

    def environment(self) -> dict[str, str]:
        """A home of its own, so that several backlogs can be worked on at once."""
        names = ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
        found = {name: str(self.base / name.lower()) for name in names}
        for path in found.values():
            Path(path).mkdir(exist_ok=True)
        (self.base / "home/.gitconfig").write_text("[user]\n\tname = Test Person\n\temail = person@localhost\n")
        return found

    def story(self, characters: int = 6000) -> str:
        """The last of what the commands said."""
        return "\n".join(self.told)[-characters:]


class TaskListBacklog(Backlog):
    """Each item a task, proven by its command."""

    name = "task list"

    def prepare(self) -> None:
        self.repo.commit("First")
        assert self.command("harness", "init", ".").code == 0, self.story()
        rows = [
            {
                "id": f"task-{item:03}",
                "title": f"Item {item}",
                "validation": {"command": f"sh check.sh {agents.proof(item)}", "timeout_seconds": 60},
                "max_attempts": self.attempts,
            }
            for item in self.items
        ]
        plan = self.base / "plan.jsonl"
        plan.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert self.command("harness", "add", "--from", str(plan)).code == 0, self.story()
        path = self.repo.path / "harness-tasks.json"
        whole = json.loads(path.read_text())
        whole["session_config"] |= {"max_tasks_per_session": 0, "max_sessions": 0, "fix_rounds": 1}
        path.write_text(json.dumps(whole, indent=2) + "\n")

    def work(self) -> None:
        words = ("run", "--max-minutes", str(self.limit / 60), "--agent", f"command:{shlex.join(self.agent)}")
        while (ran := self.command("harness", *words)).killed:
            pass
        assert ran.code == 1, self.story()  # some have failed for good

    def proven(self) -> list[int]:
        tasks = json.loads((self.repo.path / "harness-tasks.json").read_text())["tasks"]
        assert {task["status"] for task in tasks} <= {"completed", "failed"}, self.story()
        return [int(task["id"][-3:]) for task in tasks if task["status"] == "completed"]


class FeatureBacklog(Backlog):
    """Each item a feature, proven by its test file; a feature that is stuck is skipped by the person."""

    name = "feature project"

    def prepare(self) -> None:
        features = [
            {
                "id": item,
                "category": "core",
                "description": f"Item {item}",
                "test_file": str(agents.proof(item)),
                "verification_steps": ["Run its proof"],
                "size_estimate": "small",
                "passes": False,
            }
            for item in self.items
        ]
        settings = {
            "project": {"name": "backlog"},
            "agent": {"kind": "command", "command": self.agent},
            "testing": {"full": "sh check.sh tests {report}", "feature": "sh check.sh {test_file} {report}"},
            "quality": {"lint_command": "true"},
            "verification": {"require_evidence": False, "fix_rounds": 1},
            "features": {"max_stuck_sessions": self.attempts},
            "session": {"timeout_minutes": self.limit / 60},
        }
        self.repo.write(".harness.yaml", json.dumps(settings, indent=2) + "\n").ignore(".harness/")
        self.repo.write("features.json", json.dumps({"project": "backlog", "features": features}, indent=2) + "\n")
        self.repo.write("claude-progress.txt", "Set-up.\n")
        for script in ("init.sh", "reset.sh"):
            self.repo.write(script, "#!/bin/sh\n", executable=True)
        self.repo.commit("First")
        self.repo.write(".harness/session_state.json", '{"last_session": 0, "status": "complete"}\n')

    def work(self) -> None:
        for _ in range(10 * self.size + 100):
            ran = self.command("harness", "run", "--until-done")
            if ran.killed or ran.code == 1:  # a session that failed; the next one tries again
                continue
            if ran.code != 3:
                break
            assert self.command("harness", "resume", "--choose", "skip").code == 0, self.story()
        assert ran.code in (0, 7), self.story()

    def proven(self) -> list[int]:
        features = json.loads((self.repo.path / "features.json").read_text())["features"]
        return [feature["id"] for feature in features if feature["passes"]]


class LongTaskBacklog(Backlog):
    """Each item a long task of few slices. The person commits what is done, and goes back to before any other slice."""

    name = "long tasks"

    def prepare(self) -> None:
        self.repo.commit("First")
        for item in self.items:
            command = {"command": f"sh check.sh {agents.proof(item)}", "cwd": str(self.repo.path), "timeoutSeconds": 60}
            task = {
                "schemaVersion": 1,
                "id": f"item-{item}",
                "title": f"Item {item}",
                "domain": "coding",
                "objective": f"Make {agents.product(item)}.",
                "successCriteria": [
                    {"id": "proof", "description": "Its proof.", "metric": "command", "target": command}
                ],
                "workerPolicy": {"preferred": "local-command"},
                "localWorker": {"command": shlex.join(self.agent), "cwd": str(self.repo.path)},
                "context": {"repoPath": str(self.repo.path)},
            }
            checkpoint: dict[str, Any] = {
                "schemaVersion": 1,
                "taskId": f"item-{item}",
                "status": "active",
                "nextStep": "Do it.",
                "blockedUntil": None,
                "blocker": None,
                "evidence": [],
                "updatedAt": "2026-01-01T00:00:00.000Z",
            }
            folder = self._folder(item)
            for name in ("runs", "evidence", "artifacts"):
                (folder / name).mkdir(parents=True)
            (folder / "task.json").write_text(json.dumps(task))
            (folder / "checkpoint.json").write_text(json.dumps(checkpoint))
            (folder / "harness.md").write_text("# Rules\n")

    def _folder(self, item: int) -> Path:
        return self.base / f"tasks/item-{item}"

    def work(self) -> None:
        for item in self.items:
            slices = 0
            while slices < self.attempts and not self._slice(item):
                slices += not self.last_killed

    last_killed = False

    def _when_free(self, *words: str) -> Ran:
        """A command, again and again while the lease of a run that was killed is not over."""
        while " lease " in (ran := self.command("lth", *words)).err and ran.code == 1:
            time.sleep(0.2)
        return ran

    def _slice(self, item: int) -> bool:
        """One slice; whether the task is done."""
        folder = str(self._folder(item))
        words = ("--timeout-seconds", str(int(self.limit)), "--lock-ttl-seconds", "1")
        ran = self._when_free("run", folder, *words)
        self.last_killed = ran.killed
        is_done = not ran.killed and ran.json.get("status") == "done"
        decision = "done" if is_done else self.command("lth", "next", folder).json["decision"]
        if decision == "done":
            self.repo.commit(f"Item {item}")
            return True
        points = self.command("lth", "rescue", folder).json["points"]
        if before := [point["id"] for point in points if point["why"] == "before a slice"]:
            assert self._when_free("rescue", folder, "--restore", before[0]).code == 0, self.story()
        if decision != "run":
            words = ("--status", "active", "--note", "Try again.")
            assert self.command("lth", "record", folder, *words).code == 0, self.story()
        return False

    def proven(self) -> list[int]:
        states = {item: json.loads((self._folder(item) / "checkpoint.json").read_text()) for item in self.items}
        return [item for item, state in states.items() if state["status"] == "done"]


PROTOCOLS: tuple[type[Backlog], ...] = (TaskListBacklog, FeatureBacklog, LongTaskBacklog)


def doable(items: Iterable[int]) -> list[int]:
    """The items on which somebody works who can do it."""
    return [item for item in items if agents.kind(item) in agents.DOABLE]
