"""What a new task holds: the contract, the first checkpoint and the operating rules. Pure.

Source: ``longtask.md`` 5.
"""

from __future__ import annotations

from agent_harness.protocols.longtask.run import adapters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Record = dict[str, Any]

__all__ = ["EXAMPLES", "SCHEDULERS", "TEMPLATES", "Choices", "checkpoint", "operating_rules", "task", "task_id"]

TEMPLATES: dict[str, dict[str, str]] = {
    "coding": {
        "title": "Coding long task",
        "scheduler": "openclaw-cron",
        "worker": "codex-cli",
        "objective": "Say in one or two sentences what the code does once this task is done.",
        "criterion": "Tests or a command show the result; put the command here and set metric to command.",
    },
    "video-analysis": {
        "title": "Video analysis long task",
        "scheduler": "manual",
        "worker": "local-command",
        "objective": "Say in one or two sentences what the analysis of the video finds out.",
        "criterion": "Clips, transcripts or notes with time codes support every finding.",
    },
}

EXAMPLES = ("example-coding", "example-video-analysis", "resume-demo")
"""Whole tasks that are shipped and copied as they are."""

SCHEDULERS = {"openclaw": "openclaw-cron", "none": "manual", "openclaw-cron": "openclaw-cron", "manual": "manual"}
"""Every name of a scheduler → its one name."""

_ID = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


class Choices:
    """What the person chose for a new task, checked; everything but the names of template and workers may be absent."""

    def __init__(self, template: str, task_id: str, scheduler: str, worker: str, fallback: str | None) -> None:
        self.template = template
        self.task_id = task_id
        self.scheduler = scheduler
        self.worker = worker
        self.fallback = fallback
        self.cwd: str | None = None  # absolute
        self.command: str | None = None
        self.sandbox: str | None = None
        self.models: dict[str, str | None] = {}  # by worker, and of the scheduler's job by the scheduler
        self.timeout_seconds: int | None = None
        self.every = "30m"
        self.name = f"{task_id}-tick"
        self.scheduler_timeout_seconds = 300

    @property
    def workers(self) -> list[str]:
        """The preferred one, then the fallback."""
        return list(dict.fromkeys([self.worker, *([self.fallback] if self.fallback else [])]))


def task_id(folder: str) -> str:
    """The id of a task by the name of its folder."""
    return "".join(letter if letter in _ID else "-" for letter in folder) or "task"


def task(choices: Choices, now: str) -> Record:
    """The contract."""
    words = TEMPLATES[choices.template]
    criterion = {
        "id": "verified-outcome",
        "description": words["criterion"],
        "metric": "manual",
        "weight": 1,
    }
    constraint = {
        "id": "bounded-runs",
        "description": "Each run does one bounded slice and leaves a checkpoint that another worker can resume.",
        "type": "hard",
        "category": "scope",
    }
    return {
        "schemaVersion": 1,
        "id": choices.task_id,
        "title": words["title"],
        "domain": choices.template,
        "objective": words["objective"],
        "successCriteria": [criterion],
        "constraints": [constraint],
        "context": _present(summary="Say what a worker must know first.", files=[], links=[], repoPath=choices.cwd),
        "scheduler": _scheduler(choices),
        "workerPolicy": _present(
            preferred=choices.worker, allowed=choices.workers, fallbackOnRateLimit=choices.fallback
        ),
        **{_config_name(worker): _config(worker, choices) for worker in choices.workers if _config_name(worker)},
        "rateLimitPolicy": {
            "sources": _sources(choices),
            "fallbackWaitSeconds": 14_400,
            "allowHandoffOnRateLimit": True,
        },
        "createdAt": now,
    }


def checkpoint(task_id: str, now: str) -> Record:
    """The state before the first run."""
    return {
        "schemaVersion": 1,
        "taskId": task_id,
        "status": "active",
        "currentPhase": "setup",
        "nextStep": "Fill in task.json (objective, success criteria, context), then run lth validate.",
        "blockedUntil": None,
        "blocker": None,
        "lastCompletedStep": "",
        "activeFiles": [],
        "openQuestions": [],
        "evidence": [],
        "updatedAt": now,
    }


def operating_rules(template: str) -> str:
    """The text of ``harness.md``."""
    return f"""\
# Operating rules

Template: {template}

For everybody who works on this task, people and workers alike.

1. Read `task.json`, `checkpoint.json` and this file before anything else.
2. Do one bounded slice a run, the one that `nextStep` names; then stop.
3. Prefer edits that can be undone, and small commits.
4. Evidence before claims: record what shows a result (`lth evidence`) before you say that it is there.
5. Write the checkpoint before you stop (`lth record`): what was done last, and the next step.
6. On a rate limit set the status `blocked`, `blockedUntil` and a conservative next step. Do not try again at once.
7. Set the status `needs-human` when judgment, credentials or a decision is needed, and say which.
8. Set `done` only when `lth verify` passes.
"""


def _present(**members: object) -> Record:
    return {name: value for name, value in members.items() if value is not None}


def _scheduler(choices: Choices) -> Record:
    if choices.scheduler != "openclaw-cron":
        return {"type": choices.scheduler}
    return {
        "type": choices.scheduler,
        "every": choices.every,
        "name": choices.name,
        "model": choices.models.get(choices.scheduler) or "minimax/MiniMax-M2.5",
        "timeoutSeconds": choices.scheduler_timeout_seconds,
    }


def _config_name(worker: str) -> str:
    """The member that configures a worker; empty for those that the harness never starts."""
    if worker in adapters.CONFIGS:
        return adapters.CONFIGS[worker]
    return "agentWorker" if adapters.is_runnable(worker) else ""


def _config(worker: str, choices: Choices) -> Record:
    command = choices.command if worker == "local-command" else None
    sandbox = choices.sandbox if worker == "codex-cli" else None
    return _present(
        command=command,
        cwd=choices.cwd,
        model=choices.models.get(worker),
        sandbox=sandbox,
        timeoutSeconds=choices.timeout_seconds,
    )


def _sources(choices: Choices) -> list[str]:
    provider = ["openclaw-provider"] if choices.scheduler == "openclaw-cron" else []
    return [*provider, *(worker for worker in choices.workers if worker in ("codex-cli", "kimi-cli"))]
