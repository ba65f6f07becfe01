"""One worker that has ended: its output file, what that says, and the event and the answer that tell of it."""

from __future__ import annotations

from agent_harness.kernel import clock
from agent_harness.protocols.longtask import schema
from agent_harness.protocols.longtask.run import classifier, outcome, worker_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from agent_harness.protocols.longtask.records import Contract
    from agent_harness.protocols.longtask.run.worker_process import Ran

    Record = dict[str, Any]

__all__ = ["WorkerResult"]


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
        self.text = worker_process.failure_text(ran, prompt)
        self.classification = classifier.classify(
            self.text,
            exit_code=ran.exit_code,
            source=self.worker if self.worker in schema.SOURCES else None,
            fallback_wait_seconds=task.fallback_wait_seconds,
            now=clock.now(),
        )
        if self.limited and self.worker == "codex-cli":
            at, began = ran.finished_at, ran.started_at
            self.items += outcome.session_evidence(task, options, self.text, base, at, began=began, ended=at)
        return self.classification

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
