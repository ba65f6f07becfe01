"""Readiness check of a task: files, scheduling decision, scheduler, and the agents' programs and folders.

The check starts no program except `PROGRAM --version`, which is given at most three seconds. Source: ``longtask.md``
17."""

from __future__ import annotations

import os

from agent_harness.errors import HarnessError
from agent_harness.kernel.json import JsonObject, text
from agent_harness.protocols.longtask import claim, schema
from agent_harness.protocols.longtask.options import RunOptions
from agent_harness.protocols.longtask.run import adapters, forbidden
from agent_harness.protocols.longtask.store import LongTaskStore
from agent_harness.session import ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.options import HealthOptions
    from agent_harness.protocols.longtask.records import Checkpoint, Contract


_PROBE_SECONDS = 3.0
_RANK = {"pass": 0, "warn": 1, "fail": 2}


def health(layout: LongTaskLayout, options: HealthOptions | None = None) -> tuple[JsonObject, int]:
    """Return the report of ``lth health`` and the exit status."""
    found = _report(layout)
    return found, 1 if options and options.strict and found["status"] == "fail" else 0


def _report(layout: LongTaskLayout) -> JsonObject:
    store = LongTaskStore(layout)
    errors = store.errors()
    if errors:
        checks = [_check("task-contract", "fail", "; ".join(errors))]
        return {
            "status": "fail",
            "taskId": store.task_id(),
            "scheduler": None,
            "preferredWorker": None,
            "checks": checks,
        }
    task, checkpoint = store.load()
    checks = list(_checks(layout, task, checkpoint, store))
    worst = max(checks, key=lambda each: _RANK[each["status"]])["status"]
    preferred = task.policy.preferred
    return {
        "status": worst,
        "taskId": task.id,
        "scheduler": scheduler_of(task),
        "preferredWorker": adapters.normalised(preferred) if preferred else None,
        "checks": checks,
    }


def scheduler_of(task: Contract) -> str:
    """Return the canonical name of the task's scheduler."""
    if named := task.section("scheduler").text("type"):
        return schema.SCHEDULERS.get(named.strip(), named.strip())
    return "openclaw-cron" if adapters.normalised(task.policy.preferred or "") == adapters.DIRECT else "manual"


def _check(name: str, status: str, message: str, **members: object) -> JsonObject:
    return {"name": name, "status": status, "message": message, **members}


def _checks(
    layout: LongTaskLayout, task: Contract, checkpoint: Checkpoint, store: LongTaskStore
) -> Iterator[JsonObject]:
    yield _check("task-contract", "pass", f"{task.id} is valid")
    found = claim.look(layout, task, checkpoint, store.now()).due
    yield _check(
        "run-decision",
        "warn" if found.decision == "needs-human" else "pass",
        f"{found.decision}: {found.reason}",
        decision=found.decision,
        waitSeconds=found.wait_seconds,
    )
    chain = ledger.check(layout.ledger(make=False))
    if not chain.whole:
        yield _check("verdicts", "fail", chain.sentence)
    yield _scheduler(task)
    policy = task.policy
    preferred = adapters.normalised(policy.preferred) if policy.preferred else None
    fallback = adapters.normalised(policy.fallback) if policy.fallback else None
    named = [each for each in (preferred, *map(adapters.normalised, policy.allowed)) if each]
    if scheduler_of(task) == "openclaw-cron" or adapters.DIRECT in named:
        yield _program("openclaw-cli", "openclaw")
    if "codex-cli" in named:
        yield _program("codex-cli", "codex")
    if "kimi-cli" in [*named, fallback]:
        yield _program("kimi-cli", "kimi")
    if "claude-code" in [*named, fallback]:
        yield _program("claude-code", "claude")
    yield from _repository(layout, task)
    for worker in dict.fromkeys([*named, *([fallback] if fallback else [])]):
        if adapters.is_runnable(worker):
            yield _plan(layout, task, worker)
    sandboxed = preferred == "codex-cli" and adapters.reads_only("codex-cli", task)
    if sandboxed and fallback and fallback != "codex-cli" and adapters.is_runnable(fallback):
        text = f"codex-cli is read-only, but its fallback {fallback} runs without this sandbox"
        yield _check("fallback-sandbox", "warn", text, worker=fallback)


def _scheduler(task: Contract) -> JsonObject:
    name = scheduler_of(task)
    members = {"scheduler": name, "every": text(task.section("scheduler").raw.get("every"))}
    if name in schema.SCHEDULERS.values():
        return _check("scheduler-config", "pass", f"{name} starts the slices", **members)
    return _check("scheduler-config", "warn", f"unknown scheduler type: {name}", **members)


def _program(name: str, program: str) -> JsonObject:
    import shutil

    from agent_harness.kernel import process
    from agent_harness.kernel.process.launch_spec import callers_environment
    from agent_harness.kernel.process.output import clipped

    path = shutil.which(program)
    if path is None:
        return _check(name, "warn", f"{program} is not on PATH")
    try:
        done = process.run([path, "--version"], cwd="/", env=callers_environment({}), timeout_seconds=_PROBE_SECONDS)
    except HarnessError as error:
        return _check(name, "warn", f"{program} --version: {error.message}")
    if done.timed_out:
        return _check(name, "warn", f"{program} --version did not answer within {_PROBE_SECONDS:g} s")
    text = done.output.decode("utf-8", "replace")
    first = clipped(next((line.strip() for line in text.splitlines() if line.strip()), ""), 200)
    if done.exit_code:
        return _check(name, "warn", f"{program} --version exited with status {done.exit_code}: {first}")
    return _check(name, "pass", first or f"{program} is installed")


def _repository(layout: LongTaskLayout, task: Contract) -> Iterator[JsonObject]:
    if task.repo_path is None:
        if task.text("domain") == "coding":
            yield _check("repo-context", "warn", "the coding task has no context.repoPath")
        return
    root = forbidden.expanded(task.repo_path, layout.root)
    if not os.path.isdir(root):
        yield _check("repo-context", "fail", f"the repository path is not a directory: {root}", path=root)
        return
    from agent_harness.kernel.git import Git

    try:
        is_repository = Git(root).is_repository
    except (HarnessError, OSError):
        is_repository = False
    if is_repository:
        yield _check("repo-context", "pass", f"{root} is a git worktree", path=root)
    else:
        yield _check("repo-context", "fail", f"{root} is not a git worktree", path=root)


def _plan(layout: LongTaskLayout, task: Contract, worker: str) -> JsonObject:
    name = f"worker-plan:{worker}"
    try:
        plan = adapters.plan(worker, task, layout, RunOptions())
    except HarnessError as error:
        return _check(name, "fail", error.message, worker=worker, cwd=None)
    return _check(name, "pass", plan.command, worker=worker, cwd=plan.cwd)
