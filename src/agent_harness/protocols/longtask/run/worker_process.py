"""One worker, started and watched to its end: its own process group, bounded output, a file that keeps it.

Source: ``longtask.md`` 10.2. Nothing of the worker is left when ``execute`` returns, nor when this process is killed.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from agent_harness.errors import HarnessError, ToolMissing
from agent_harness.kernel import clock, process
from agent_harness.kernel.redact import redact
from agent_harness.protocols.longtask.run import usage
from agent_harness.protocols.longtask.run.output import HeadTail, environment, exit_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agent_harness.agents.events import Event
    from agent_harness.protocols.longtask.run.adapters import Plan
    from agent_harness.supervision.outcome import Outcome

__all__ = ["Ran", "execute", "failure_text", "output_file"]

GRACE_SECONDS = 5.0
TIMED_OUT, NOT_FOUND, NOT_STARTED, STOPPED = 124, 127, 126, 1
_CLASSIFIED = 65_536  # characters at the end of each stream
_SHORTEST_ECHO = 12


class Ran:
    """How one worker went. ``stopped``: it was ended because ``stop`` said so."""

    __slots__ = ("error", "exit_code", "finished_at", "plan", "started_at", "stderr", "stdout", "stopped", "usage")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.started_at = clock.timestamp(fraction=True)
        self.finished_at = ""
        self.exit_code = 0
        self.error: str | None = None
        self.stdout = ""
        self.stderr = ""
        self.stopped = False
        self.usage: dict[str, Any] | None = None  # ``None`` when the worker does not say it


def execute(plan: Plan, prompt: str, *, told: Mapping[str, str], run_id: str, stop: Callable[[], bool]) -> Ran:
    """Runs the worker to its end, its time limit, or until ``stop`` says so; a worker that cannot start is a failure.

    The prompt goes to its standard input; ``told`` is added to its environment.
    """
    ran = Ran(plan)
    try:
        if stop():
            ran.stopped, ran.exit_code, ran.error = True, STOPPED, "stopped before it started"
        elif plan.run is None:
            _supervise(ran, prompt, told, run_id, stop)
        else:
            _run(ran, prompt, told, run_id, stop)
    except ToolMissing as error:
        missing = f"{plan.run[0]}: command not found ({error.message})" if isinstance(plan.run, list) else error.message
        ran.exit_code, ran.error = NOT_FOUND, missing
    except HarnessError as error:
        ran.exit_code, ran.error = NOT_STARTED, f"cannot be started: {error.message}"
    ran.stdout, ran.stderr = redact(ran.stdout), redact(ran.stderr)
    ran.finished_at = clock.timestamp(fraction=True)
    return ran


def _run(ran: Ran, prompt: str, told: Mapping[str, str], run_id: str, stop: Callable[[], bool]) -> None:
    out, err = HeadTail(), HeadTail()
    done = process.run(
        ran.plan.run or [],
        cwd=ran.plan.cwd,
        env=environment(told),
        timeout_seconds=ran.plan.timeout_seconds,
        input=prompt.encode("utf-8", "replace"),
        keep_bytes=0,
        on_output=out.add,
        on_errors=err.add,
        stop=stop,
        grace_seconds=GRACE_SECONDS,
        run_id=run_id,
    )
    ran.stdout, ran.stderr, ran.stopped = out.text(), err.text(), done.stopped
    ran.usage = usage.of_worker(ran.plan.worker, ran.stdout, ran.stderr)
    if ran.plan.wrapped:
        ran.stdout = usage.unwrapped(ran.stdout)
    if done.timed_out:
        ran.exit_code, ran.error = TIMED_OUT, _timeout(ran.plan)
    elif done.exit_code is None:
        ran.exit_code, ran.error = STOPPED, "stopped" if done.stopped else "the worker went away; nobody saw its end"
    else:
        ran.exit_code = exit_status(done.exit_code)
        ran.error = f"killed by {_signal_name(-done.exit_code)}" if done.exit_code < 0 else None


def _timeout(plan: Plan) -> str:
    return f"timed out after {plan.timeout_seconds} s; its whole process group was ended"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# ---- agents of ours


def _supervise(ran: Ran, prompt: str, told: Mapping[str, str], run_id: str, stop: Callable[[], bool]) -> None:
    from pathlib import Path

    from agent_harness.agents import registry
    from agent_harness.agents.base import Brief
    from agent_harness.supervision.monitors import WallClock
    from agent_harness.supervision.supervisor import supervise
    from agent_harness.supervision.transcript import KeyMask, rendered

    plan, printed, mask = ran.plan, HeadTail(), KeyMask()

    def take(event: Event) -> None:
        printed.add(f"{mask.mask(rendered(event))}\n".encode("utf-8", "replace"))

    seconds = float(plan.timeout_seconds)
    outcome = supervise(
        registry.from_spec(plan.worker, source="--worker"),
        Brief(
            prompt=prompt,
            cwd=Path(plan.cwd),
            session=1,
            prompt_type="coding",
            model=plan.model,
            environment=told,
            run_id=run_id,
        ),
        monitors=(WallClock(timeout_seconds=seconds, warning_seconds=seconds * 0.8),),
        transcript=Path(os.devnull),
        on_started=lambda process: None,
        on_event=take,
        stop_requested=lambda: "stopped" if stop() else None,
        grace_seconds=GRACE_SECONDS,
    )
    ran.stdout = printed.text()
    _judge(ran, outcome)


def _judge(ran: Ran, outcome: Outcome) -> None:
    ran.stopped = outcome.reason == "user_pause"
    used = outcome.usage
    if used.reported:
        ran.usage = usage.made(used.input_tokens, used.output_tokens, used.cached_tokens, used.cost_usd)
    if outcome.ok:
        return
    code = outcome.exit_code
    ran.exit_code = TIMED_OUT if outcome.reason == "timeout" else exit_status(code) if code else STOPPED
    ran.error = _timeout(ran.plan) if outcome.reason == "timeout" else outcome.message or outcome.reason
    if outcome.reason == "rate_limited" and outcome.rate_limit:
        until = f"; resets at {outcome.rate_limit.resets_at}" if outcome.rate_limit.resets_at else ""
        ran.error = f"rate limit reached: {outcome.rate_limit.message}{until}"


# ---- what is kept and judged


def output_file(ran: Ran) -> str:
    """The content of ``evidence/worker-output-STAMP.txt``; its labels are part of the contract."""
    head = [
        f"worker: {ran.plan.worker}",
        f"command: {' '.join(redact(ran.plan.command).splitlines())}",
        f"cwd: {ran.plan.cwd}",
        f"exitCode: {ran.exit_code}",
        f"startedAt: {ran.started_at}",
        f"finishedAt: {ran.finished_at}",
        *([f"error: {' '.join(redact(ran.error).split())}"] if ran.error else []),
    ]
    return "\n".join([*head, "## stdout", ran.stdout.rstrip("\n"), "## stderr", ran.stderr.rstrip("\n"), ""])


def failure_text(ran: Ran, prompt: str) -> str:
    """What a failed worker said: the ends of both streams without the prompt that it may have echoed, and the error."""
    parts = [_without_echo(stream, prompt)[-_CLASSIFIED:] for stream in (ran.stdout, ran.stderr)]
    return "\n".join([*parts, ran.error or ""]).strip()


def _without_echo(text: str, prompt: str) -> str:
    prompt = redact(prompt).strip()
    text = text.replace(prompt, "")[-4 * _CLASSIFIED :]
    told = {line.strip() for line in prompt.splitlines() if len(line.strip()) >= _SHORTEST_ECHO}
    return "\n".join(line for line in text.split("\n") if line.strip() not in told)
