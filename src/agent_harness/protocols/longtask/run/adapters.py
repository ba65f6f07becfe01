"""Plans for starting each kind of agent. A setting on the command line overrides the contract, and the contract
overrides the default.

    codex-cli (codex, openclaw-codex-cli)   `codex exec`, read-only unless the contract allows more
    kimi-cli (kimi)                         `kimi` in print mode
    claude-code (claude)                    `claude --print`, which reports its usage with its answer
    local-command (local)                   shell command
    KIND:TEXT                               built-in agent under the supervisor (``agents.registry``)

`lth run` refuses all other names. They stand for work that a person or OpenClaw itself does. The ends of rate limits
are recorded for each account, and all tasks share this record (``kernel/rate_limits.py``). The checkpoint file contains
the end that was known when the provider refused the request. A shell command has no account, so its limit is recorded
only in the checkpoint file. Source: ``longtask.md`` 9, 10.1, 10.4."""

from __future__ import annotations

import os

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock
from agent_harness.protocols.longtask import lifecycle, records, schema
from agent_harness.protocols.longtask.options import LONGEST_SECONDS
from agent_harness.protocols.longtask.records import Checkpoint, Cooldown, RecordView, moment
from agent_harness.protocols.longtask.run import forbidden

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.options import RunOptions
    from agent_harness.protocols.longtask.records import Contract


ALIASES = {
    "codex": "codex-cli",
    "openclaw-codex-cli": "codex-cli",
    "kimi": "kimi-cli",
    "claude": "claude-code",
    "local": "local-command",
}
CONFIGS = {
    "codex-cli": "codexWorker",
    "kimi-cli": "kimiWorker",
    "claude-code": "claudeWorker",
    "local-command": "localWorker",
}

DIRECT = "openclaw-direct-model"
DEFAULT_TIMEOUT_SECONDS = 1800
DEFAULT_MAX_COST_USD = 10.0
DEFAULT_WINDOW_TOKENS = 200_000
LOCAL_PROVIDERS = ("lmstudio", "ollama")
_BARE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:=@+-")


class PlanRefused(HarnessError):
    """Error for settings that forbid the start of an agent."""

    code = "worker_plan"


class Plan:
    """Command, folder and limits for the start of an agent."""

    # ``run`` is None for a built-in agent, text for a shell, or a program with its arguments
    def __init__(self, worker: str, run: str | list[str] | None, cwd: str) -> None:
        self.worker = worker
        self.run = run
        self.cwd = cwd
        self.timeout_seconds = DEFAULT_TIMEOUT_SECONDS
        self.reads_only = False
        self.wrapped = False
        self.max_cost_usd = DEFAULT_MAX_COST_USD
        self.window_tokens = DEFAULT_WINDOW_TOKENS
        self.response_seconds: float | None = None  # without output
        self.model: str | None = None
        self.command = run if isinstance(run, str) else quoted(*run) if run else quoted("agent", worker)


def normalised(name: str) -> str:
    return ALIASES.get(name.strip(), name.strip())


def config_name(worker: str) -> str:
    """Return the ``task.json`` member that configures the agent with the canonical name ``worker``."""
    return CONFIGS.get(worker, "agentWorker")


def is_runnable(worker: str) -> bool:
    """Return True if `lth run` can start the agent with the canonical name ``worker``."""
    if worker in _PLANNERS:
        return True
    kind = worker.partition(":")[0]
    if not kind or kind in (DIRECT, "manual-review"):
        return False
    from agent_harness.agents import registry

    return kind in registry.KINDS


def spends(worker: str) -> bool:
    """Return True if the agent costs money."""
    return worker.partition(":")[0] not in _FREE


def unfilled_for(worker: str, task: Contract) -> str | None:
    """Return a message about fields to fill in before the agent starts, or None."""
    # only a paid agent has to wait for them
    named = records.unfilled(task.raw) if spends(worker) else []
    if not named:
        return None
    fields = ", ".join(each.partition(" ")[0] for each in named)
    return f"{worker} costs money and is not started until a person has filled in {fields} (task.json)"


_FREE = frozenset(("local-command", "command", "replay", "scripted"))


def quoted(*words: str) -> str:
    return " ".join(
        word if word and _BARE.issuperset(word) else "'" + word.replace("'", "'\\''") + "'" for word in words
    )


def plan(worker: str, task: Contract, layout: LongTaskLayout, options: RunOptions) -> Plan:
    """Return the plan of an agent start. Raise ``PlanRefused`` or ``ForbiddenFolder`` if the start is not allowed."""
    if not is_runnable(worker):
        raise PlanRefused(f"Unsupported worker adapter: {worker}")
    config = task.section(config_name(worker))
    cwd = forbidden.expanded(_folder(worker, config, task, options), layout.root)
    patterns = forbidden.patterns(task, config, options.forbidden_cwd_patterns)
    # before anything accesses the folder
    forbidden.refuse(worker, cwd, patterns, layout.root)
    made = _PLANNERS.get(worker, _agent)(worker, config, options, cwd)
    own = schema.whole(config.raw.get("timeoutSeconds"), DEFAULT_TIMEOUT_SECONDS)
    made.timeout_seconds = min(options.timeout_seconds or own, LONGEST_SECONDS)
    _set_bounds(made, task.policy, options)
    made.reads_only = reads_only(worker, task, options.sandbox)
    if not os.path.isdir(cwd):
        raise PlanRefused(f"The working directory of {worker} is not a directory: {cwd}")
    return made


def _set_bounds(made: Plan, policy: RecordView, options: RunOptions) -> None:
    given = options.max_cost
    made.max_cost_usd = _above_zero("--max-cost", given, made.max_cost_usd)
    if given is None:
        made.max_cost_usd = _above_zero("workerPolicy.maxCostUsd", policy.raw.get("maxCostUsd"), made.max_cost_usd)
    tokens = _above_zero("workerPolicy.windowTokens", policy.raw.get("windowTokens"), made.window_tokens)
    made.window_tokens = int(tokens)
    if "responseSeconds" in policy.raw:
        made.response_seconds = _above_zero("workerPolicy.responseSeconds", policy.raw["responseSeconds"], 0.0)


def _above_zero(name: str, given: object, otherwise: float) -> float:
    if given is None:
        return otherwise
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < 1e12:
        raise PlanRefused(f"{name} must be a number above 0: {given}")
    return float(given)


def reads_only(worker: str, task: Contract, sandbox: str | None = None) -> bool:
    """Return True if the agent's configuration forbids all writes to files."""
    config = task.section(config_name(worker))
    if worker == "codex-cli":
        return _sandbox(config, sandbox) == "read-only"
    may_write = config.raw.get("permissionMode") not in (None, "default", "plan") or config.texts("extraArgs")
    return worker == "claude-code" and not may_write


def _codex(worker: str, config: RecordView, options: RunOptions, cwd: str) -> Plan:
    from agent_harness.agents.codex import command

    provider = options.local_provider or config.text("localProvider")
    words = command.print_words(
        cwd,
        sandbox=_sandbox(config, options.sandbox),
        model=options.model or config.text("model"),
        oss=(config.raw.get("oss") if options.oss is None else options.oss) is True,
        local_provider=provider and _one_of("local provider", provider, LOCAL_PROVIDERS),
        more=config.texts("extraArgs"),
    )
    return Plan(worker, words, cwd)


def _kimi(worker: str, config: RecordView, options: RunOptions, cwd: str) -> Plan:
    from agent_harness.agents import kimi

    model = options.kimi_model or config.text("model")
    return Plan(worker, kimi.print_words(cwd, model, config.texts("extraArgs")), cwd)


def _claude(worker: str, config: RecordView, options: RunOptions, cwd: str) -> Plan:
    from agent_harness.agents import claude_code

    more, model = config.texts("extraArgs"), options.model or config.text("model")
    made = Plan(worker, claude_code.print_words(model, config.text("permissionMode"), more), cwd)
    made.wrapped = claude_code.wraps(more)
    return made


def _local(worker: str, config: RecordView, options: RunOptions, cwd: str) -> Plan:
    command = options.command or config.text("command")
    if command is None:
        raise PlanRefused(f"{worker} needs a command: give --command or set localWorker.command in task.json.")
    return Plan(worker, command, cwd)


def _agent(worker: str, config: RecordView, options: RunOptions, cwd: str) -> Plan:
    from pathlib import Path

    from agent_harness.agents import registry

    agent = registry.from_spec(worker, source="--worker")
    if problem := agent.problem():
        raise PlanRefused(problem)
    if refusal := agent.refusal(Path(cwd)):
        raise refusal
    made = Plan(worker, None, cwd)
    made.model = options.model or config.text("model")
    return made


_PLANNERS: dict[str, Callable[[str, RecordView, RunOptions, str], Plan]] = {
    "codex-cli": _codex,
    "kimi-cli": _kimi,
    "claude-code": _claude,
    "local-command": _local,
}


def _folder(worker: str, config: RecordView, task: Contract, options: RunOptions) -> str:
    named = options.cwd or config.text("cwd") or task.repo_path
    if named:
        return named
    if worker == "local-command":
        return "."
    member = config_name(worker)
    raise PlanRefused(f"{worker} needs a cwd: give --cwd, or set {member}.cwd or context.repoPath in task.json.")


def _sandbox(config: RecordView, given: str | None) -> str:
    named = given or config.text("sandbox") or "read-only"
    return _one_of("sandbox", named, schema.SANDBOXES)


def _one_of(what: str, given: str, allowed: tuple[str, ...]) -> str:
    if given not in allowed:
        raise PlanRefused(f"Unsupported {what}: {given}. Expected one of {', '.join(allowed)}.")
    return given


_KINDS = {"codex-cli": "codex", "claude-code": "claude-code", "kimi-cli": "kimi"}
"""Kinds of agents (``agents.registry``) that run the same client, and so use the same account."""


def account_of(worker: str) -> str | None:
    """Return the account of an agent, or None if it has none."""
    if worker == "local-command":
        return None
    from agent_harness.agents import registry

    try:
        return registry.from_spec(_KINDS.get(worker, worker), source="--worker").account
    except HarnessError:
        return None


def told(task: Contract, checkpoint: Checkpoint) -> Checkpoint:
    """Return a copy of the checkpoint with the latest rate limits of the agents' accounts."""
    raw, blocked = dict(checkpoint.raw), _is_rate_limited(checkpoint)
    if not blocked and not checkpoint.cooldowns:
        return checkpoint
    for worker, each in checkpoint.cooldowns.items():
        if at := _decided_since(worker, each.raw.get("observedAt"), checkpoint):
            raw["workerCooldowns"] = {**raw["workerCooldowns"], worker: {**each.raw, "blockedUntil": at}}
    if blocked and (until := _window(task, checkpoint, Checkpoint(raw))):
        raw["blockedUntil"] = until
    return Checkpoint(raw)


def _is_rate_limited(checkpoint: Checkpoint) -> bool:
    blocker = checkpoint.blocker
    return checkpoint.status == "blocked" and blocker is not None and blocker.raw.get("type") == "rate_limit"


def _blocking(task: Contract, checkpoint: Checkpoint) -> str:
    """Return the agent whose rate limit has blocked the task."""
    named = checkpoint.blocker or RecordView({})
    source = named.text("source") or ""
    return named.text("worker") or (source if source in _KINDS else normalised(task.policy.preferred or ""))


def _window(task: Contract, checkpoint: Checkpoint, cooling: Checkpoint) -> str | None:
    """Return the time at which a blocked task can continue, or None if no rate limit changed."""
    observed = checkpoint.blocker and checkpoint.blocker.raw.get("observedAt")
    workers = dict.fromkeys([_blocking(task, checkpoint), *cooling.cooldowns])
    ends = {worker: _decided_since(worker, observed, checkpoint) for worker in workers}
    if not any(ends.values()):
        return None
    written = {worker: each.text("blockedUntil") for worker, each in cooling.cooldowns.items()}
    known = [found for worker, end in ends.items() if (found := end or written.get(worker))]
    return min((at, text) for text in known if (at := moment(text)))[1]


def _decided_since(worker: str, observed: object, checkpoint: Checkpoint) -> str | None:
    """Return the new end of the agent's rate limit, or None without changes since ``observed``."""
    from agent_harness.kernel.rate_limits import LimitClock

    seen = moment(observed) or moment(checkpoint.raw.get("updatedAt"))
    account = account_of(worker) if seen else None
    at = LimitClock().decided_since(account, seen) if account and seen else None
    return clock.timestamp(at, fraction=True) if at else None


def limits(
    layout: LongTaskLayout, task: Contract, checkpoint: Checkpoint, now: datetime, *workers: str
) -> list[JsonObject]:
    """Return the active rate limits of the task's agents, each with the command that removes the limit.

    ``checkpoint`` must contain the current ends of rate limits (see ``told``)."""
    from agent_harness.kernel.rate_limits import LimitClock, clearing

    blocked = _blocking(task, checkpoint) if _is_rate_limited(checkpoint) else ""
    named = (*workers, blocked, task.policy.preferred or "", task.policy.fallback or "", *checkpoint.cooldowns)
    found: list[JsonObject] = []
    for worker in dict.fromkeys(normalised(each) for each in named if each):
        waits = cooldown(checkpoint, worker, now)
        until = waits.until if waits else moment(checkpoint.blocked_until) if worker == blocked else None
        if until and until > now:
            account = account_of(worker)
            known = LimitClock().in_force(account) if account else None
            kept = waits.raw if waits else checkpoint.blocker.raw if checkpoint.blocker else {}
            told = known.told_until if known else moment(kept.get("toldUntil"))
            found.append(
                {
                    "worker": worker,
                    "account": account,
                    "until": clock.timestamp(until, fraction=True),
                    "untilLocal": clock.local(until),
                    "lift": clearing(account)
                    if account and known
                    else f"lth record {quoted(layout.root)} --status active",
                    **({"toldUntil": clock.timestamp(told, fraction=True)} if told else {}),
                }
            )
    return found


def cooldown(checkpoint: Checkpoint, worker: str, now: datetime) -> Cooldown | None:
    """Return the agent's active rate limit, or None. ``checkpoint`` must contain the current ends (see ``told``)."""
    if lifecycle.is_cooling(checkpoint, worker, now):
        return checkpoint.cooldowns[worker]
    from agent_harness.kernel.rate_limits import LimitClock

    account = account_of(worker)
    limit = LimitClock().in_force(account) if account else None
    if limit is None or limit.until <= now:
        return None
    return Cooldown(
        {
            "type": "rate_limit",
            "source": "scheduler",
            "message": str(limit),
            "observedAt": clock.timestamp(limit.noted_at, fraction=True),
            "blockedUntil": clock.timestamp(limit.until, fraction=True),
            "retryAfterSeconds": lifecycle.seconds_until(limit.until, limit.noted_at),
            "evidence": [],
        }
    )


class Prepared:
    """Plan and prompt for the agent that the run will start."""

    def __init__(self, answer: JsonObject, task: Contract) -> None:
        self.answer = answer
        self.task = task
        # without a plan, the run only prints the answer
        self.plan: Plan | None = None
        self.prompt = ""
        self.before = Checkpoint({})  # the checkpoint at the moment the worker starts
        self.requested = ""
        self.fallback: str | None = None  # takes over if the worker is rate-limited
        self.waited_for: str | None = None  # end of the requested worker's rate limit, if another one runs
