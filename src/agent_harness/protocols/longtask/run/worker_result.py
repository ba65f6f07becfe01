"""One worker that has ended: how, what it printed, its output file, and the event and the answer that tell of it.

Source: ``longtask.md`` 10.2, 10.4.
"""

from __future__ import annotations

from agent_harness.kernel import clock
from agent_harness.kernel.redact import redact
from agent_harness.protocols.longtask import schema
from agent_harness.protocols.longtask.run import classifier, outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from agent_harness.protocols.longtask.records import Contract
    from agent_harness.protocols.longtask.run.ran import Ran

    Record = dict[str, Any]

__all__ = ["WorkerResult", "classified", "failure_text", "output_file"]

_CLASSIFIED = 65_536  # characters at the end of each stream
_SHORTEST_ECHO = 12


class WorkerResult:
    """``prefix`` begins the reason in its event: ``fallback `` for a worker in another one's place, else nothing."""

    __slots__ = ("classification", "items", "path", "prefix", "ran", "text")

    def __init__(self, ran: Ran, path: str, prefix: str) -> None:
        self.ran = ran
        self.path = path
        self.prefix = prefix
        self.items = [outcome.output_item(ran, path)]
        self.text = ""
        self.classification: Record | None = None

    @property
    def worker(self) -> str:
        return self.ran.plan.worker

    @property
    def limited(self) -> bool:
        """Whether it failed by a rate limit."""
        return self.classification is not None and self.classification["class"] == "rate_limit"

    def classify(self, task: Contract, options: Mapping[str, object], prompt: str, base: str) -> Record:
        """Names the failure, and finds the session behind a rate limit of Codex."""
        ran = self.ran
        self.text = failure_text(ran, prompt)
        self.classification = classified(ran, self.text, task)
        if self.limited and self.worker == "codex-cli":
            at, began = ran.finished_at, ran.started_at
            self.items += outcome.session_evidence(task, options, self.text, base, at, began=began, ended=at)
        return self.classification

    @property
    def next_step(self) -> str | None:
        """What is due after an end that a monitor made; ``None`` where the class of the failure says it."""
        return classifier.ENDED_BY[self.ran.ended_by][1] if self.ran.ended_by else None

    def event(self, reason: str | None = None) -> Record:
        """The event of its end: its type and its members."""
        done = self.ran.exit_code == 0 and reason is None
        return {
            "kind": "worker_completed" if done else "worker_failed",
            "worker": self.worker,
            "status": "paused" if done else "needs-human",
            "reason": reason or f"{self.prefix}exit {self.ran.exit_code}",
            "note": self.path,
            "evidence": self.items[:1],
            **({"usage": self.ran.usage} if self.ran.usage else {}),
        }

    def result(self) -> Record:
        """The members of the answer that tell of this worker."""
        plan = self.ran.plan
        return {
            "worker": plan.worker,
            "command": plan.command,
            "cwd": plan.cwd,
            "exitCode": self.ran.exit_code,
            "outputPath": self.path,
            "classification": self.classification,
            **({} if plan.worker == "local-command" else {"usage": self.ran.usage}),
        }


def classified(ran: Ran, text: str, task: Contract) -> Record:
    """The class of a worker's failure, by who ended it or by what it said."""
    source = ran.plan.worker if ran.plan.worker in schema.SOURCES else None
    if ran.ended_by:
        return classifier.of_monitor(ran.ended_by, ran.error or "", source)
    wait = task.fallback_wait_seconds
    return classifier.classify(
        text, exit_code=ran.exit_code, source=source, fallback_wait_seconds=wait, now=clock.now()
    )


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
    lines = {line.strip() for line in prompt.splitlines() if len(line.strip()) >= _SHORTEST_ECHO}
    return "\n".join(line for line in text.split("\n") if line.strip() not in lines)
