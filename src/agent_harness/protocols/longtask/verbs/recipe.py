"""Command to paste that creates an OpenClaw job, which starts runs of a task. A variant of the job uses no model.

Source: ``longtask.md`` 17."""

from __future__ import annotations

import os
import shutil
import sys

from agent_harness.kernel.json import jsontext
from agent_harness.protocols.longtask import schema
from agent_harness.protocols.longtask.run import adapters
from agent_harness.protocols.longtask.store import LongTaskStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.options import RecipeOptions
    from agent_harness.protocols.longtask.records import Contract


DEFAULT_EVERY = "30m"
DEFAULT_MODEL = "minimax/MiniMax-M2.5"
DEFAULT_TIMEOUT_SECONDS = 300
DEFAULT_TOOLS = "exec read write"
_MARGIN_SECONDS = 30  # for writing the checkpoint after the worker's time limit
_LEAST_SECONDS = 30


def recipe(layout: LongTaskLayout, options: RecipeOptions) -> tuple[JsonObject, int]:
    """Return the result of ``lth openclaw-recipe`` and the exit status. No file is written."""
    task, _ = LongTaskStore(layout).load()
    job = _job(task, options)
    argv = _argv(layout, task, options, int(job["timeoutSeconds"]))
    shown = adapters.quoted(*argv)
    message = _run_message(shown) if "run" in argv else _tick_message(shown, layout)
    schedule = {**job, "worker": _worker(task, options), "schedulerCommand": shown}
    without_model = {name: value for name, value in job.items() if name not in ("model", "tools")}
    return {
        "taskId": task.id,
        "command": _pasted(job, ("--message", message)),
        "message": message,
        "schedule": schedule,
        "commandNoModel": _pasted(without_model, ("--command-argv", jsontext.line(argv))),
    }, 0


def _job(task: Contract, options: RecipeOptions) -> JsonObject:
    config = task.section("scheduler")
    own = schema.whole(config.raw.get("timeoutSeconds"), DEFAULT_TIMEOUT_SECONDS)

    def chosen(given: str | None, member: str, default: str) -> str:
        return given or config.text(member) or default

    return {
        "every": chosen(options.every, "every", DEFAULT_EVERY),
        "name": chosen(options.name, "name", f"{task.id}-tick"),
        "sessionKey": chosen(options.session_key, "sessionKey", f"agent:main:cron:{task.id}"),
        "model": chosen(options.model, "model", DEFAULT_MODEL),
        "timeoutSeconds": str(options.timeout_seconds or own),
        "tools": chosen(options.tools, "tools", DEFAULT_TOOLS),
    }


def _worker(task: Contract, options: RecipeOptions) -> str | None:
    named = options.worker or task.policy.preferred
    return adapters.normalised(named) if named else None


def _argv(layout: LongTaskLayout, task: Contract, options: RecipeOptions, seconds: int) -> list[str]:
    worker = _worker(task, options)
    if worker is None or not adapters.is_runnable(worker):
        return [*program(), "tick", layout.root]
    more = fallback_words(task, worker, options.fallback_worker)
    limit = str(max(_LEAST_SECONDS, seconds - _MARGIN_SECONDS))
    return [*program(), "run", layout.root, "--no-wait", "--worker", worker, *more, "--timeout-seconds", limit]


def fallback_words(task: Contract, worker: str, named: str | None = None) -> list[str]:
    fallback = adapters.normalised(named or task.policy.fallback or "")
    return ["--fallback-worker", fallback] if fallback and fallback != worker else []


def program() -> list[str]:
    """Return the command that starts `lth`."""
    beside = os.path.join(os.path.dirname(sys.executable or ""), "lth")
    for path in (beside, shutil.which("lth")):
        if path and os.path.isfile(path) and os.access(path, os.X_OK):
            return [os.path.abspath(path)]
    return [sys.executable or "python3", "-m", "agent_harness.cli.lth"]


def _run_message(command: str) -> str:
    return "\n".join(
        (
            "Run exactly this command once and wait until it ends:",
            "",
            command,
            "",
            "Report the JSON result that it prints, then stop. Do not run anything else.",
        )
    )


def _tick_message(command: str, layout: LongTaskLayout) -> str:
    recorded = adapters.quoted(*program(), "record", layout.root, "--status", "paused", "--note", "THE NEXT STEP")
    return "\n".join(
        (
            "Run exactly this command once:",
            "",
            command,
            "",
            'If "decision" in its JSON result is wait, done or needs-human, report it and stop.',
            "Otherwise do exactly one bounded slice, as workerPrompt says.",
            "Then update the checkpoint and the log with this command, and stop:",
            "",
            recorded,
            "",
            "Only when every success criterion is met use --status done, which verifies it first.",
        )
    )


def _pasted(job: JsonObject, last: tuple[str, str]) -> str:
    pairs = [
        ("--name", job["name"]),
        ("--every", job["every"]),
        ("--session", "isolated"),
        ("--session-key", job["sessionKey"]),
        *([("--model", job["model"]), ("--tools", job["tools"])] if "model" in job else []),
        ("--timeout-seconds", job["timeoutSeconds"]),
        last,
    ]
    return " \\\n  ".join(["openclaw cron add", *(f"{name} {adapters.quoted(value)}" for name, value in pairs)])
