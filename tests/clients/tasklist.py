"""A task list in a real git project, and the model as the agent that works it down."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_harness.testing.repo import Repo

from .client import SCRIPTS
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


class TaskList:
    """An active task list, whose tasks pass once there is a file of their name."""

    def __init__(self, repo: Repo, env: Mapping[str, str]) -> None:
        self.repo, self._env = repo, env
        self.harness("init", ".")

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


def decisions(hook_log: Path) -> list[tuple[str, str]]:
    """What each call of a Stop hook came to, and why."""
    calls = [json.loads(line) for line in hook_log.read_text().splitlines()]
    return [(call["decision"], call["why"]) for call in calls if "stop" in call["hook_script"]]


def heard(island: Island, text: str) -> int:
    """In how many requests the model was told this."""
    return sum(text in json.dumps(body, ensure_ascii=False) for body in island.conversations())
