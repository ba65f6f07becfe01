"""`lth init`: creates a task from a template or from an example, and keeps backups of a task that it overwrites.

Source: ``longtask.md`` 5."""

from __future__ import annotations

import os
import shlex

from agent_harness.errors import Busy, HarnessError, UsageError
from agent_harness.kernel import clock, files, project_signs
from agent_harness.protocols.longtask import evidence, log, records, schema
from agent_harness.protocols.longtask.layout import file_stamp
from agent_harness.protocols.longtask.records import FILL_IN
from agent_harness.protocols.longtask.run import adapters, forbidden
from agent_harness.protocols.longtask.store import DirectoryLock, InvalidTask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.options import InitOptions


_WITH_EXAMPLES = frozenset(("template", "check", "strict", "force"))
_NOT_STARTED = (adapters.DIRECT, "manual-review")


class AlreadyThere(HarnessError):
    """Error for a folder that already contains a task. It is raised before anything is written."""

    code = "already_there"


def init(layout: LongTaskLayout, options: InitOptions) -> tuple[JsonObject | str, int]:
    """Create a task. Return one line about the task, or its health report."""
    template = options.template
    if template in EXAMPLES:
        content = _example(template, options)
    elif template in TEMPLATES:
        content = _made(_choices(layout, options))
    else:
        known = ", ".join((*TEMPLATES, *EXAMPLES))
        hint = f"lth init {shlex.quote(layout.root)} --template {next(iter(TEMPLATES))}"
        raise UsageError(f"Unsupported template: {template}. Expected one of {known}", hint=hint)
    # every error above leaves the folder unchanged
    _write(layout, content, force=options.force)
    if options.check:
        return _checked(layout, options.strict)
    return f"Initialized {template} task at {layout.root}", 0


# ---- choices


def _choices(layout: LongTaskLayout, options: InitOptions) -> Choices:
    words = TEMPLATES[options.template]
    fallback = _worker(options.fallback_worker)
    for_itself = options.command and fallback != LOCAL  # --command implies its worker, unless the fallback takes it
    worker = _worker(options.worker) or (LOCAL if for_itself else words["worker"])
    if options.scheduler is not None and options.scheduler not in schema.SCHEDULERS:
        raise UsageError(f"Unknown scheduler: {options.scheduler}. Expected one of openclaw-cron, manual")
    scheduler = schema.SCHEDULERS.get(options.scheduler or "") or words["scheduler"]
    task_id = id_of(os.path.basename(layout.root))
    choices = Choices(options, task_id, scheduler, worker, fallback)
    if options.command and LOCAL not in choices.workers:
        log.warn(f"--command was ignored, because the worker {worker} does not use it; use --worker {LOCAL}")
    return choices


def _worker(given: str | None) -> str | None:
    if given is None:
        return None
    worker = adapters.normalised(given)
    if worker in _NOT_STARTED or adapters.is_runnable(worker):
        return worker
    known = ", ".join([*adapters.CONFIGS, *_NOT_STARTED])
    raise UsageError(f"Unknown worker: {given}. Expected one of {known}, or the kind of a built-in agent")


# ---- new files: path relative to the task -> content


def _made(choices: Choices) -> dict[str, bytes]:
    now = clock.timestamp(fraction=True)
    task = contract_of(choices, now)
    checkpoint = first_checkpoint(choices.task_id, now, TO_FILL_IN if records.unfilled(task) else FIRST_SLICE)
    errors = records.problems(task, checkpoint)
    if errors:
        raise InvalidTask(errors)
    return {
        "harness.md": operating_rules(choices.template).encode(),
        "task.json": files.dumps(task).encode(),
        "checkpoint.json": files.dumps(checkpoint).encode(),
    }


def _example(template: str, options: InitOptions) -> dict[str, bytes]:
    others = sorted(options.given - _WITH_EXAMPLES)
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
    log.refuse_workers(layout, "lth init")
    _refuse_existing(layout, force=force)
    _refuse_running(layout)
    if not os.path.lexists(layout.task) and not os.path.lexists(layout.checkpoint):
        from agent_harness.kernel import trusted_state

        if aside := trusted_state.set_aside(layout.task, layout.root):
            log.tell(f"lth: the state of an earlier task in this folder was moved to {aside}")
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
        evidence.accept_contract(layout, None)
        log.begin_anew(layout)


def _refuse_existing(layout: LongTaskLayout, *, force: bool) -> None:
    for kind, other in (("tasklist", "task list"), ("features", "feature project")):
        if project_signs.is_left(layout.root, kind):  # it would hide the task, or be hidden by it
            raise AlreadyThere(
                f"{layout.root} already contains a {other}", hint="lth init DIR  # in a separate folder below it"
            )
    for path in (layout.task, layout.checkpoint):
        if os.path.lexists(path) and not force:
            raise AlreadyThere(f"{path} already exists", hint="--force replaces it and keeps a copy")


def _refuse_running(layout: LongTaskLayout) -> None:
    """Raise ``Busy`` if the task that ``lth init`` would replace has an active run."""
    if not os.path.lexists(layout.lock):
        return
    from agent_harness.protocols.longtask.run import lease_file

    found = lease_file.look(layout, clock.now())
    if found is not None and found.held:
        raise Busy(f"a run holds the lease {layout.lock}", hint="wait until it has ended")


def _checked(layout: LongTaskLayout, strict: bool) -> tuple[JsonObject, int]:
    from agent_harness.protocols.longtask.store import LongTaskStore
    from agent_harness.protocols.longtask.verbs import health

    report, _ = health.health(layout)
    task, _ = LongTaskStore(layout).load()
    policy = task.policy
    answer = {
        "initialized": True,
        "taskDir": layout.root,
        "taskId": task.id,
        "scheduler": task.section("scheduler").text("type"),
        "worker": policy.preferred,
        "fallbackWorker": policy.fallback,
        "health": report,
    }
    return answer, 1 if strict and report["status"] == "fail" else 0


TEMPLATES: dict[str, dict[str, str]] = {
    "coding": {
        "title": "Coding long task",
        "scheduler": "openclaw-cron",
        "worker": "codex-cli",
        "objective": f"{FILL_IN}say in one or two sentences what the code does once this task is done.",
        "criterion": f"{FILL_IN}what a person looks at; or put a command into target and set metric to command.",
    },
    "video-analysis": {
        "title": "Video analysis long task",
        "scheduler": "manual",
        "worker": "local-command",
        "objective": f"{FILL_IN}say in one or two sentences what the analysis of the video finds out.",
        "criterion": f"{FILL_IN}the clips, transcripts or notes with time codes that support every finding.",
    },
}

EXAMPLES = ("example-coding", "example-video-analysis", "resume-demo")
"""Names of the complete example tasks that are shipped. An example is copied unchanged."""

CONSTRAINT = {
    "id": "bounded-runs",
    "description": "Each run does one bounded slice and leaves a checkpoint that another worker can resume.",
    "type": "hard",
    "category": "scope",
}
"""Constraint that is part of every new contract."""

LOCAL = "local-command"
_ID = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


class Choices:
    """Options for a new task. Missing options have their default values."""

    def __init__(self, options: InitOptions, task_id: str, scheduler: str, worker: str, fallback: str | None) -> None:
        self.template = options.template
        self.task_id = task_id
        self.scheduler = scheduler
        self.worker = worker
        self.fallback = fallback
        self.cwd = options.cwd and forbidden.expanded(options.cwd, os.getcwd())
        self.command = options.command
        self.objective = options.objective
        self.proof = options.criterion_command  # decides the criterion
        self.criterion = options.criterion or (self.proof and f"{self.proof} ends with 0")
        self.sandbox = options.sandbox
        own = dict.fromkeys((each for each in self.workers if each != "kimi-cli"), options.model)
        job = {scheduler: options.scheduler_model, "local-command": None}
        self.models = {**own, "kimi-cli": options.kimi_model, **job}  # by worker; of the job by its scheduler
        self.timeout_seconds = options.timeout_seconds
        self.every = options.every or "30m"
        self.name = options.name or f"{task_id}-tick"
        self.scheduler_timeout_seconds = options.scheduler_timeout_seconds or 300

    @property
    def workers(self) -> list[str]:
        return list(dict.fromkeys([self.worker, *([self.fallback] if self.fallback else [])]))


def id_of(folder: str) -> str:
    return "".join(letter if letter in _ID else "-" for letter in folder) or "task"


def contract_of(choices: Choices, now: str) -> JsonObject:
    words = TEMPLATES[choices.template]
    provider = ["openclaw-provider"] if choices.scheduler == "openclaw-cron" else []
    criterion = {
        "id": "verified-outcome",
        "description": choices.criterion or words["criterion"],
        "metric": "manual",
        **({"metric": "command", "target": choices.proof} if choices.proof else {}),
        "weight": 1,
    }
    return {
        "schemaVersion": 1,
        "id": choices.task_id,
        "title": words["title"],
        "domain": choices.template,
        "objective": choices.objective or words["objective"],
        "successCriteria": [criterion],
        "constraints": [{**CONSTRAINT}],
        "context": _present(
            summary=f"{FILL_IN}what a worker must know first.", files=[], links=[], repoPath=choices.cwd
        ),
        "scheduler": _scheduler_section(choices),
        "workerPolicy": _present(
            preferred=choices.worker, allowed=choices.workers, fallbackOnRateLimit=choices.fallback
        ),
        **{
            adapters.config_name(each): _config(each, choices) for each in choices.workers if adapters.is_runnable(each)
        },
        "rateLimitPolicy": {
            "sources": [*provider, *(each for each in choices.workers if each in ("codex-cli", "kimi-cli"))],
            "fallbackWaitSeconds": 14_400,
            "allowHandoffOnRateLimit": True,
        },
        "createdAt": now,
    }


TO_FILL_IN = "Fill in task.json until lth validate warns of nothing; then do the first bounded slice."
FIRST_SLICE = "Do the first bounded slice towards the objective."


def first_checkpoint(task_id: str, now: str, next_step: str) -> JsonObject:
    return {
        "schemaVersion": 1,
        "taskId": task_id,
        "status": "active",
        "currentPhase": "setup",
        "nextStep": next_step,
        "blockedUntil": None,
        "blocker": None,
        "lastCompletedStep": "",
        "activeFiles": [],
        "openQuestions": [],
        "evidence": [],
        "updatedAt": now,
    }


def operating_rules(template: str) -> str:
    """Return the content of ``harness.md``, which contains rules for the task's agents and people."""
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


def _present(**members: object) -> JsonObject:
    return {name: value for name, value in members.items() if value is not None}


def _scheduler_section(choices: Choices) -> JsonObject:
    if choices.scheduler != "openclaw-cron":
        return {"type": choices.scheduler}
    return {
        "type": choices.scheduler,
        "every": choices.every,
        "name": choices.name,
        "model": choices.models.get(choices.scheduler) or "minimax/MiniMax-M2.5",
        "timeoutSeconds": choices.scheduler_timeout_seconds,
    }


def _config(worker: str, choices: Choices) -> JsonObject:
    command = choices.command if worker == "local-command" else None
    sandbox = choices.sandbox if worker == "codex-cli" else None
    return _present(
        command=command,
        cwd=choices.cwd,
        model=choices.models.get(worker),
        sandbox=sandbox,
        timeoutSeconds=choices.timeout_seconds,
    )
