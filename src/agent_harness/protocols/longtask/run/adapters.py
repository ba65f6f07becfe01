"""How each worker is started: a plan from the command line, the contract and the defaults, in this order.

    codex-cli (codex, openclaw-codex-cli)   `codex exec`, read-only unless the contract says more
    kimi-cli (kimi)                         `kimi` in print mode
    claude-code (claude)                    `claude --print`, which tells its usage beside its answer
    local-command (local)                   a line of shell
    KIND:TEXT                               an agent of ours under the supervisor (``agents.registry``)

Everything else is for people or for OpenClaw itself, and `lth run` refuses it. Source: ``longtask.md`` 9.
"""

from __future__ import annotations

import os

from agent_harness.errors import HarnessError
from agent_harness.protocols.longtask import schema, values
from agent_harness.protocols.longtask.run import forbidden

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from agent_harness.protocols.longtask.layout import LongTaskLayout

    Record = dict[str, Any]
    Options = Mapping[str, object]

__all__ = ["CONFIGS", "DIRECT", "Plan", "PlanRefused", "is_runnable", "normalised", "plan", "quoted", "reads_only"]

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
"""Worker → the member of ``task.json`` that configures it; agents of ours have ``agentWorker``."""

DIRECT = "openclaw-direct-model"
DEFAULT_TIMEOUT_SECONDS = 1800
DEFAULT_MAX_COST_USD = 10.0
DEFAULT_WINDOW_TOKENS = 200_000
LOCAL_PROVIDERS = ("lmstudio", "ollama")
_AGENT_CONFIG = "agentWorker"
_BARE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:=@+-")


class PlanRefused(HarnessError):
    """A worker cannot be started as it is configured; nothing was started."""

    code = "worker_plan"


class Bounds:
    """What bounds a worker besides its time. ``response_seconds``: ``None`` leaves it to the kind of agent."""

    __slots__ = ("max_cost_usd", "response_seconds", "window_tokens")

    def __init__(self) -> None:
        self.max_cost_usd = DEFAULT_MAX_COST_USD
        self.window_tokens = DEFAULT_WINDOW_TOKENS
        self.response_seconds: float | None = None


class Plan:
    """One worker, ready to start: ``run`` is a line of shell, the words of a program, or ``None`` for an agent of ours.

    ``command`` is what is shown to people. ``reads_only``: the worker cannot write the checkpoint itself. ``wrapped``:
    what it says comes in one JSON object.
    """

    __slots__ = (
        *("bounds", "command", "cwd", "model", "reads_only", "run"),
        *("timeout_seconds", "worker", "wrapped"),
    )

    def __init__(self, worker: str, run: str | list[str] | None, cwd: str, timeout_seconds: int) -> None:
        self.worker = worker
        self.run = run
        self.cwd = cwd
        self.timeout_seconds = timeout_seconds
        self.reads_only = False
        self.wrapped = False
        self.bounds = Bounds()
        self.model: str | None = None
        self.command = run if isinstance(run, str) else quoted(*run) if run else quoted("agent", worker)


def normalised(name: str) -> str:
    """The one name of a worker; unknown names stay as they are."""
    return ALIASES.get(name.strip(), name.strip())


def is_runnable(worker: str) -> bool:
    """Whether `lth run` has a way to start a worker of this (normalised) name."""
    return worker in _PLANNERS or _is_agent(worker)


def quoted(*words: str) -> str:
    """Words as a shell reads them back: bare where that is safe, else in single quotes."""
    return " ".join(
        word if word and _BARE.issuperset(word) else "'" + word.replace("'", "'\\''") + "'" for word in words
    )


def plan(worker: str, task: Record, layout: LongTaskLayout, options: Options) -> Plan:
    """The plan of one worker (normalised name).

    ``PlanRefused`` names what is missing or wrong; ``ForbiddenFolder`` comes before the folder is even looked at.
    """
    if not is_runnable(worker):
        raise PlanRefused(f"Unsupported worker adapter: {worker}")
    config = _section(task, CONFIGS.get(worker, _AGENT_CONFIG))
    cwd = forbidden.expanded(_folder(worker, config, task, options), layout.root)
    patterns = forbidden.patterns(task, config, options.get("forbidden-cwd-patterns"))
    forbidden.refuse(worker, cwd, patterns, layout.root)
    seconds = values.positive(options, "timeout-seconds")
    made = _PLANNERS.get(worker, _agent)(worker, config, options, cwd)
    own = schema.whole(config.get("timeoutSeconds"), DEFAULT_TIMEOUT_SECONDS)
    made.timeout_seconds = min(seconds or own, values.LONGEST_SECONDS)
    made.bounds = _bounds(_section(task, "workerPolicy"), options)
    made.reads_only = reads_only(worker, task, options)
    if not os.path.isdir(cwd):
        raise PlanRefused(f"The working directory of {worker} is no directory: {cwd}")
    return made


def _bounds(policy: Record, options: Options) -> Bounds:
    made = Bounds()
    given = values.number(options, "max-cost")
    made.max_cost_usd = _above_zero("--max-cost", given, made.max_cost_usd)
    if given is None:
        made.max_cost_usd = _above_zero("workerPolicy.maxCostUsd", policy.get("maxCostUsd"), made.max_cost_usd)
    tokens = _above_zero("workerPolicy.windowTokens", policy.get("windowTokens"), made.window_tokens)
    made.window_tokens = int(tokens)
    if "responseSeconds" in policy:
        made.response_seconds = _above_zero("workerPolicy.responseSeconds", policy["responseSeconds"], 0.0)
    return made


def _above_zero(name: str, given: object, otherwise: float) -> float:
    if given is None:
        return otherwise
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < 1e12:
        raise PlanRefused(f"{name} must be a number above 0: {given}")
    return float(given)


def reads_only(worker: str, task: Record, options: Options) -> bool:
    """Whether this worker, as it is configured, cannot write files, the checkpoint among them."""
    config = _section(task, CONFIGS.get(worker, _AGENT_CONFIG))
    if worker == "codex-cli":
        return _sandbox(config, options) == "read-only"
    may_write = config.get("permissionMode") not in (None, "default", "plan") or _extra(config)
    return worker == "claude-code" and not may_write


def _codex(worker: str, config: Record, options: Options, cwd: str) -> Plan:
    from agent_harness.agents.codex import printing

    provider = _text(options, "local-provider") or _text(config, "localProvider")
    words = printing.print_words(
        cwd,
        sandbox=_sandbox(config, options),
        model=_text(options, "model") or _text(config, "model"),
        oss=options.get("oss", config.get("oss")) is True,
        local_provider=provider and _one_of("local provider", provider, LOCAL_PROVIDERS),
        more=_extra(config),
    )
    return Plan(worker, words, cwd, 0)


def _kimi(worker: str, config: Record, options: Options, cwd: str) -> Plan:
    from agent_harness.agents import kimi

    model = _text(options, "kimi-model") or _text(config, "model")
    return Plan(worker, kimi.print_words(cwd, model, _extra(config)), cwd, 0)


def _claude(worker: str, config: Record, options: Options, cwd: str) -> Plan:
    from agent_harness.agents.claude_code import printing

    more, model = _extra(config), _text(options, "model") or _text(config, "model")
    made = Plan(worker, printing.print_words(model, _text(config, "permissionMode"), more), cwd, 0)
    made.wrapped = printing.wraps(more)
    return made


def _local(worker: str, config: Record, options: Options, cwd: str) -> Plan:
    command = _text(options, "command") or _text(config, "command")
    if command is None:
        raise PlanRefused(f"{worker} needs a command: give --command or set localWorker.command in task.json.")
    return Plan(worker, command, cwd, 0)


def _agent(worker: str, config: Record, options: Options, cwd: str) -> Plan:
    from agent_harness.agents import registry

    agent = registry.from_spec(worker, source="--worker")
    if problem := agent.problem():
        raise PlanRefused(problem)
    made = Plan(worker, None, cwd, 0)
    made.model = _text(options, "model") or _text(config, "model")
    return made


_PLANNERS: dict[str, Callable[[str, Record, Options, str], Plan]] = {
    "codex-cli": _codex,
    "kimi-cli": _kimi,
    "claude-code": _claude,
    "local-command": _local,
}


def _is_agent(worker: str) -> bool:
    """Whether the name is a kind of agent that the registry knows, with or without a text after a colon."""
    kind = worker.partition(":")[0]
    if not kind or kind in (DIRECT, "manual-review"):
        return False
    from agent_harness.agents import registry

    return kind in registry.KINDS


def _folder(worker: str, config: Record, task: Record, options: Options) -> str:
    context = _section(task, "context")
    named = _text(options, "cwd") or _text(config, "cwd") or _text(context, "repoPath") or _text(context, "repository")
    if named:
        return named
    if worker == "local-command":
        return "."
    member = CONFIGS.get(worker, _AGENT_CONFIG)
    raise PlanRefused(f"{worker} needs a cwd: give --cwd, or set {member}.cwd or context.repoPath in task.json.")


def _sandbox(config: Record, options: Options) -> str:
    named = _text(options, "sandbox") or _text(config, "sandbox") or "read-only"
    return _one_of("sandbox", named, schema.SANDBOXES)


def _one_of(what: str, given: str, allowed: tuple[str, ...]) -> str:
    if given not in allowed:
        raise PlanRefused(f"Unsupported {what}: {given}. Expected one of {', '.join(allowed)}.")
    return given


def _extra(config: Record) -> list[str]:
    found = config.get("extraArgs")
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _section(record: Record, name: str) -> Record:
    found = record.get(name)
    return found if isinstance(found, dict) else {}


def _text(record: Mapping[str, object], name: str) -> str | None:
    found = record.get(name)
    return found if isinstance(found, str) and found.strip() else None
