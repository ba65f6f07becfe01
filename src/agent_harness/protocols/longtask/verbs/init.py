"""`init`: a new task from a template, or a whole example; nothing of an older task is lost.

Source: ``longtask.md`` 5.
"""

from __future__ import annotations

import os

from agent_harness.errors import Busy, HarnessError, UsageError
from agent_harness.kernel import clock, files
from agent_harness.protocols.longtask import records
from agent_harness.protocols.longtask.layout import file_stamp
from agent_harness.protocols.longtask.lock import DirectoryLock
from agent_harness.protocols.longtask.run import adapters, forbidden
from agent_harness.protocols.longtask.schema import SANDBOXES
from agent_harness.protocols.longtask.store import InvalidTask
from agent_harness.protocols.longtask.values import flag, one_of, positive, text
from agent_harness.protocols.longtask.verbs import templates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.protocols.longtask.layout import LongTaskLayout

    Options = dict[str, object]
    Record = dict[str, Any]

__all__ = ["AlreadyThere", "init"]

_WITH_EXAMPLES = frozenset(("template", "check", "strict", "force"))
_NOT_STARTED = (adapters.DIRECT, "manual-review")


class AlreadyThere(HarnessError):
    """The folder holds a task already; nothing was written."""

    code = "already_there"


def init(layout: LongTaskLayout, options: Options) -> tuple[Record | str, int]:
    """Makes the task and answers with one line, or with its health. Every refusal comes before the first write."""
    template = text(options, "template") or "coding"
    if template in templates.EXAMPLES:
        content = _example(template, options)
    elif template in templates.TEMPLATES:
        content = _made(_choices(layout, template, options))
    else:
        raise UsageError(f"Unsupported template: {template}")
    _write(layout, content, force=flag(options, "force"))
    if flag(options, "check"):
        return _checked(layout, flag(options, "strict"))
    return f"Initialized {template} task at {layout.root}", 0


# ---- what is asked for


def _choices(layout: LongTaskLayout, template: str, options: Options) -> templates.Choices:
    words = templates.TEMPLATES[template]
    worker = _worker(options, "worker") or words["worker"]
    scheduler = _scheduler(options) or words["scheduler"]
    task_id = templates.task_id(os.path.basename(layout.root))
    choices = templates.Choices(template, task_id, scheduler, worker, _worker(options, "fallback-worker"))
    choices.cwd = _folder(options)
    choices.command = _full(options, "command")
    choices.sandbox = one_of(options, "sandbox", SANDBOXES)
    model = _full(options, "model")
    own = dict.fromkeys((each for each in choices.workers if each != "kimi-cli"), model)
    kimi, job = _full(options, "kimi-model"), _full(options, "scheduler-model")
    choices.models = {**own, "kimi-cli": kimi, scheduler: job, "local-command": None}
    choices.timeout_seconds = positive(options, "timeout-seconds")
    choices.every = _full(options, "every") or choices.every
    choices.name = _full(options, "name") or choices.name
    seconds = positive(options, "scheduler-timeout-seconds")
    choices.scheduler_timeout_seconds = seconds or choices.scheduler_timeout_seconds
    return choices


def _full(options: Options, name: str) -> str | None:
    found = text(options, name)
    if found is not None and not found.strip():
        raise UsageError(f"option --{name} needs a value")
    return found


def _worker(options: Options, name: str) -> str | None:
    found = text(options, name)
    if found is None:
        return None
    worker = adapters.normalised(found)
    if worker in _NOT_STARTED or adapters.is_runnable(worker):
        return worker
    known = ", ".join([*adapters.CONFIGS, *_NOT_STARTED])
    raise UsageError(f"Unknown worker: {found}. Expected one of {known}, or an agent of the harness by its kind")


def _scheduler(options: Options) -> str | None:
    found = text(options, "scheduler")
    if found is None or found in templates.SCHEDULERS:
        return found and templates.SCHEDULERS[found]
    raise UsageError(f"Unknown scheduler: {found}. Expected one of openclaw-cron, manual")


def _folder(options: Options) -> str | None:
    found = _full(options, "cwd")
    return found and forbidden.expanded(found, os.getcwd())


# ---- what is written: path relative to the task -> content


def _made(choices: templates.Choices) -> dict[str, bytes]:
    now = clock.timestamp(fraction=True)
    task, checkpoint = templates.task(choices, now), templates.checkpoint(choices.task_id, now)
    errors = records.problems(task, checkpoint)
    if errors:
        raise InvalidTask(errors)
    return {
        "harness.md": templates.operating_rules(choices.template).encode(),
        "task.json": files.dumps(task).encode(),
        "checkpoint.json": files.dumps(checkpoint).encode(),
    }


def _example(template: str, options: Options) -> dict[str, bytes]:
    others = sorted(options.keys() - _WITH_EXAMPLES)
    if others:
        raise UsageError(f"--{others[0]} cannot be used with the example {template}: edit its task.json instead")
    import agent_harness

    home = os.path.join(os.path.dirname(agent_harness.__file__), "examples", "longtask", template)
    found: dict[str, bytes] = {}
    for folder, _, names in os.walk(home):
        for name in names:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, home)] = files.read_bytes(path)
    return found


def _write(layout: LongTaskLayout, content: dict[str, bytes], *, force: bool) -> None:
    _refuse_existing(layout, force=force)
    _refuse_running(layout)
    for folder in (layout.root, layout.runs, layout.artifacts, layout.evidence):
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise files.refusal(folder, "made", error) from None
    with DirectoryLock(layout.root):
        _refuse_existing(layout, force=force)
        _refuse_running(layout)
        stamp = file_stamp(clock.timestamp(fraction=True))
        for name, each in content.items():
            path = layout.inside(name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if os.path.lexists(path):
                files.replace(f"{path}.bak-{stamp}", files.read_bytes(path))
            files.replace(path, each)


def _refuse_existing(layout: LongTaskLayout, *, force: bool) -> None:
    for path in (layout.task, layout.checkpoint):
        if os.path.lexists(path) and not force:
            raise AlreadyThere(f"{path} already exists", hint="--force replaces it and keeps a copy")


def _refuse_running(layout: LongTaskLayout) -> None:
    """A task whose run goes on is not replaced under it."""
    if not os.path.lexists(layout.lock):
        return
    from agent_harness.protocols.longtask.run import lease_file

    found = lease_file.look(layout, clock.now())
    if found is not None and found.held:
        raise Busy(f"a run holds the lease {layout.lock}", hint="wait until it has ended")


def _checked(layout: LongTaskLayout, strict: bool) -> tuple[Record, int]:
    from agent_harness.protocols.longtask.store import LongTaskStore
    from agent_harness.protocols.longtask.verbs import health

    report, _ = health.health(layout, {})
    task, _ = LongTaskStore(layout).load()
    policy = task.section("workerPolicy")
    answer = {
        "initialized": True,
        "taskDir": layout.root,
        "taskId": task.id,
        "scheduler": task.section("scheduler").get("type"),
        "worker": policy.get("preferred"),
        "fallbackWorker": policy.get("fallbackOnRateLimit"),
        "health": report,
    }
    return answer, 1 if strict and report["status"] == "fail" else 0
