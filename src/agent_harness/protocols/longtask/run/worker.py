"""One agent of a run, which does the work, and the agent's result.

The agent is a client's command line, a shell command, or a built-in agent. An agent that cannot be started has failed.
Its exit status is 127 if its program is missing, and 126 for any other reason. The result contains the exit status,
output, usage, output file, event and answer. Source: ``longtask.md`` 9, 10.2, 10.4."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent_harness.agents import registry
from agent_harness.agents.base import Agent, Brief, Turn
from agent_harness.agents.command import CommandLineAgent, Printed, Refusal, no_refusal
from agent_harness.agents.events import Event, Finished
from agent_harness.errors import HarnessError, ToolMissing
from agent_harness.kernel import clock
from agent_harness.kernel.json import dollars
from agent_harness.kernel.redact import redact
from agent_harness.protocols.longtask import records, schema
from agent_harness.protocols.longtask.log import COUNTED
from agent_harness.protocols.longtask.run import adapters, classifier, outcome
from agent_harness.protocols.longtask.run.adapters import Plan
from agent_harness.protocols.longtask.run.outcome import Classification

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.agents.usage import Totals
    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.longtask.records import Contract
    from agent_harness.protocols.longtask.run.outcome import Ran
    from agent_harness.session.ledger import ClaimVerdict


NOT_FOUND, NOT_STARTED, STOPPED = 127, 126, 1
NEVER_STARTED = (STOPPED, "stopped before it started")


def agent_of(plan: Plan, printed: Printed, refusal: Refusal) -> Agent:
    """Return the agent that the plan describes."""
    if plan.run is None:
        return registry.from_spec(plan.worker, source="--worker")
    account = adapters.account_of(plan.worker)
    # without an account, no output counts as a refusal by a provider
    return CommandLineAgent(
        plan.worker,
        plan.run,
        account=account,
        printed=printed,
        refusal=refusal if account else no_refusal,
    )


class Startable(Agent):
    """Agent whose ``start`` reports an error as a failed turn."""

    def __init__(self, agent: Agent, plan: Plan, must_stop: Callable[[], bool]) -> None:
        self.name = agent.name
        self.capabilities = agent.capabilities
        self.failure: tuple[int, str] | None = None
        self._agent = agent
        self._plan = plan
        self._must_stop = must_stop

    @property
    def account(self) -> str:
        return self._agent.account

    def start(self, brief: Brief) -> Turn:
        try:
            if not self._must_stop():
                return self._agent.start(brief)
            self.failure = NEVER_STARTED
        except ToolMissing as error:
            run = self._plan.run
            missing = f"{run[0]}: command not found ({error.message})" if isinstance(run, list) else error.message
            self.failure = NOT_FOUND, missing
        except HarnessError as error:
            self.failure = NOT_STARTED, f"cannot be started: {error.message}"
        return _Failed(*self.failure)


class _Failed(Turn):
    def __init__(self, exit_code: int, message: str) -> None:
        self._end: Finished | None = Finished(ok=False, message=message, exit_code=exit_code)

    @property
    def ended(self) -> bool:
        return self._end is None

    @property
    def process(self) -> Mapping[str, object] | None:
        return None

    def next_event(self, timeout_seconds: float) -> Event | None:
        end, self._end = self._end, None
        return end

    def stop(self, grace_seconds: float = 5.0) -> None:
        self._end = None


_CLASSIFIED = 65_536  # characters at the end of each stream
_SHORTEST_ECHO = 12


class WorkerResult:
    """Result of an agent that has ended."""

    def __init__(self, ran: Ran, path: str, prefix: str) -> None:
        self.ran = ran
        self.path = path
        self.prefix = prefix
        self.items = [outcome.output_item(ran, path)]
        self.text = ""
        self.classification: Classification | None = None

    @property
    def worker(self) -> str:
        return self.ran.plan.worker

    @property
    def known_class(self) -> Classification:
        if self.classification is None:
            raise AssertionError("the failure was used before it was classified")
        return self.classification

    @property
    def limited(self) -> bool:
        return self.classification is not None and self.classification.limited

    def classify(self, task: Contract, session_path: str | None, prompt: str, base: str) -> None:
        ran = self.ran
        self.text = failure_text(ran, prompt)
        self.classification = classified(ran, self.text, task)
        if self.limited and self.worker == "codex-cli":
            at, began = ran.finished_at, ran.started_at
            self.items += outcome.session_evidence(task, session_path, self.text, base, at, began=began, ended=at)

    @property
    def next_step(self) -> str | None:
        return classifier.ENDED_BY[self.ran.ended_by][1] if self.ran.ended_by else None

    def event(self, reason: str | None = None) -> JsonObject:
        done = self.ran.exit_code == 0 and reason is None
        return {
            "kind": "worker_completed" if done else "worker_failed",
            "worker": self.worker,
            "status": "paused" if done else "needs-human",
            "reason": reason or f"{self.prefix}exit {self.ran.exit_code}",
            "note": self.path,
            "evidence": self.items[:1],
            **({"usage": self.ran.usage} if self.ran.usage else {}),
            **self.ran.course,
        }

    def known_of_it(self, task_id: str) -> ClaimVerdict:
        """Return a ledger entry with facts about the agent. It contains no decision."""
        from agent_harness.session.ledger import ClaimVerdict

        ran = self.ran
        began, ended = records.moment(ran.started_at), records.moment(ran.finished_at)
        model = ran.course.get("model")
        return ClaimVerdict(
            item=task_id,
            verdict="",
            agent=self.worker,
            model=model[-1] if isinstance(model, list) else model,
            base=ran.course.get("base"),
            commit=ran.course.get("head"),
            cost_usd=dollars((ran.usage or {}).get("costUsd")),
            seconds=round((ended - began).total_seconds(), 1) if began and ended else None,
        )

    def result(self) -> JsonObject:
        """Return the part of the run's answer that describes this agent."""
        plan = self.ran.plan
        return {
            "worker": plan.worker,
            "command": plan.command,
            "cwd": plan.cwd,
            "exitCode": self.ran.exit_code,
            "outputPath": self.path,
            "classification": self.classification and self.classification.as_record(),
            **({} if plan.worker == "local-command" else {"usage": self.ran.usage}),
        }


def classified(ran: Ran, text: str, task: Contract) -> Classification:
    """Return the class of the agent's failure, by the monitor or by ``text``."""
    source = ran.plan.worker if ran.plan.worker in schema.SOURCES else None
    if ran.ended_by:
        return classifier.of_monitor(ran.ended_by, ran.error or "", source)
    wait = task.fallback_wait_seconds
    return classifier.classify(
        text, exit_code=ran.exit_code, source=source, fallback_wait_seconds=wait, now=clock.now()
    )


def output_file(ran: Ran) -> str:
    """Return the text to save as the agent's output file."""
    # other programs depend on these labels
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
    """Return the last part of a failed agent's output. Copies of the prompt are removed."""
    parts = [_without_echo(stream, prompt)[-_CLASSIFIED:] for stream in (ran.stdout, ran.stderr)]
    return "\n".join([*parts, ran.error or ""]).strip()


def _without_echo(text: str, prompt: str) -> str:
    prompt = redact(prompt).strip()
    text = text.replace(prompt, "")[-4 * _CLASSIFIED :]
    lines = {line.strip() for line in prompt.splitlines() if len(line.strip()) >= _SHORTEST_ECHO}
    return "\n".join(line for line in text.split("\n") if line.strip() not in lines)


# ---- what it used: ``{inputTokens, outputTokens, cachedTokens, totalTokens, costUsd}``; see ``log.COUNTED``


def printed_usage(worker: str, stdout: str, stderr: str) -> JsonObject | None:
    """Return the tokens and cost that a client printed, or None."""
    from agent_harness.agents import claude_code as claude
    from agent_harness.agents.codex import command as codex

    reader = {"codex-cli": codex.usage_of, "claude-code": claude.usage_of}.get(worker)
    used = reader(stdout, stderr) if reader else None
    if used is None:
        return None
    counts = (used.input_tokens, used.output_tokens, used.cached_tokens, used.total_tokens)
    return {**dict(zip(COUNTED, counts, strict=True)), "costUsd": used.cost_usd}


def reported_usage(used: Totals) -> JsonObject | None:
    """Return the tokens and cost that the agent reported, or None without a report."""
    if not used.reported:
        return None
    counts = (used.input_tokens, used.output_tokens, used.cached_tokens, used.input_tokens + used.output_tokens)
    return {**dict(zip(COUNTED, counts, strict=True)), "costUsd": used.cost_usd}
