"""A task list in a real git project, and the model as the agent that works it down."""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from agent_harness.testing.repo import Repo

from .client import SCRIPTS, Client, Run
from .island import Island

FEEDBACK = "Stop hook feedback|<hook_prompt"
"""What comes before the reason of a Stop hook: in Claude Code, in Codex."""

TASK = {"task": r'"id": *"(task-\d+)"'}
ONE_TASK: Sequence[Any] = (
    {"run": "harness task claim"},
    {"find": TASK, "blocks": {"run": "echo worked > ${task}.txt"}},
    {"find": TASK, "blocks": {"run": "harness task complete ${task}"}},
    "That task is done.",
)
"""What the agent does each time that the Stop hook keeps it going."""

GIVING_UP: Sequence[Any] = (
    *ONE_TASK[:3],
    {"find": TASK, "blocks": {"run": "harness task fail ${task} --category TEST_FAIL 'It cannot be done.'"}},
    "I have given that task up.",
)
"""The same, with an agent that gives up when the validation says no."""


class TaskList:
    """An active task list, whose tasks pass once there is a file of their name."""

    def __init__(self, repo: Repo, env: Mapping[str, str], mode: str = "exclusive") -> None:
        self.repo, self._env = repo, env
        self.harness("init", ".", "--mode", mode)

    def harness(self, *words: str, check: bool = True, **env: str) -> dict[str, Any]:
        """What a command of the harness answers."""
        done = subprocess.run(
            [SCRIPTS / "harness", *words, "--json"],
            cwd=self.repo.path,
            env={**self._env, **env},
            capture_output=True,
            text=True,
            check=False,
        )
        assert not (check and done.returncode), f"harness {' '.join(words)}: {done.stdout}{done.stderr}"
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def add(self, *titles: str, validate: str = "test -s {task}.txt") -> None:
        """Adds tasks; ``{task}`` in the validation stands for the task's id."""
        for title in titles:
            task = f"task-{len(self.tasks) + 1:03}"
            self.harness("add", title, "--validate", validate.format(task=task))

    @property
    def state(self) -> dict[str, Any]:
        """``harness-tasks.json`` as it is."""
        found: dict[str, Any] = json.loads(self.repo.read("harness-tasks.json"))
        return found

    @property
    def tasks(self) -> list[dict[str, Any]]:
        """The tasks as they are."""
        return list(self.state["tasks"])

    @property
    def statuses(self) -> list[str]:
        """The status of each task."""
        return [str(task["status"]) for task in self.tasks]

    @property
    def active(self) -> bool:
        """Whether the hooks look at it."""
        return (self.repo.path / ".harness-active").exists()

    @property
    def log(self) -> str:
        """The progress log."""
        return self.repo.read("harness-progress.txt").decode()

    def kinds(self, *wanted: str) -> list[str]:
        """The kinds of the log's lines, of those that are asked for."""
        found = [line.split()[2] for line in self.log.splitlines()]
        return [kind for kind in found if kind in wanted]


def intruded(island: Island, work: TaskList) -> tuple[str, str]:
    """Two scripts: while the first session works on a task, the second tries to begin, to claim and to close."""
    claimed, tried = work.repo.path / ".harness" / "claimed", work.repo.path / ".harness" / "tried"
    begin = [{"run": "harness session start"}, ONE_TASK[0], {"run": f"touch {claimed}; {until(tried)}"}]
    island.script("first", [*begin, *ONE_TASK[1:]])
    tries = ("session start", "task claim", "task complete task-001", "task fail task-001 --category CONFIG no")
    commands = [until(claimed), *(f"harness {words}" for words in tries), f"touch {tried}"]
    island.script("second", [*({"run": command} for command in commands), "I leave it to them."])
    return "first", "second"


def both(client: Client, work: TaskList, *scripts: str, words: Sequence[str] = ()) -> None:
    """Sessions at the same time, in one work tree, which no hook keeps going."""
    together(*(partial(unhooked, client, work.repo.path, name, words=words) for name in scripts))


def unhooked(client: Client, place: Path, name: str, *, words: Sequence[str] = (), **env: str) -> Run:
    """A session that no hook keeps going."""
    return client.run(f"SCRIPT:{name}", project=place, env={"HARNESS_DISABLE": "1", **env}, words=words)


def together(*sessions: Callable[[], Run]) -> None:
    """Sessions at the same time, to their end."""
    with ThreadPoolExecutor(len(sessions)) as pool:
        for run in [pool.submit(session) for session in sessions]:
            assert run.result().exit_code == 0, run.result().output


def until(file: Path) -> str:
    """A command that waits for a file."""
    return f"until test -e {file}; do sleep 0.1; done"


def decisions(hook_log: Path) -> list[tuple[str, str]]:
    """What each call of a Stop hook came to, and why."""
    calls = [json.loads(line) for line in hook_log.read_text().splitlines()]
    return [(call["decision"], call["why"]) for call in calls if "stop" in call["hook_script"]]


def heard(island: Island, text: str) -> int:
    """In how many requests the model was told this."""
    return sum(text in json.dumps(body, ensure_ascii=False) for body in island.conversations())
