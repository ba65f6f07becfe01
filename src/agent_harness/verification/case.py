"""State of one verification in progress: the commits, the rules, and the results so far."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from agent_harness.errors import Interrupted
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.objects import Objects
from agent_harness.verification.changes import CandidateChanges, FileChange, Tree
from agent_harness.verification.guard import Guard, Survey
from agent_harness.verification.remembered import Remembered
from agent_harness.verification.runner.execution import RunAsked, Stop
from agent_harness.verification.runner_config import is_conftest
from agent_harness.verification.runners import Runner
from agent_harness.verification.verdict import (
    CRITICAL,
    NOT_RUN,
    Finding,
    JudgedStep,
    Replayed,
    Run,
    Strictness,
    Verdict,
    what_follows,
)

Step = Callable[[str, str, Run | None], object]
_PART_LEAST_SECONDS, _PART_TIMES = 30.0, 4  # how long the proof may take when it is run once more, against its own time
_UNENDED = frozenset({"regression", "lint_unavailable"})  # messages that no full stop ends


@dataclass(slots=True, kw_only=True)
class Case:
    """Verification of one candidate in progress, with its inputs and its results so far."""

    git: Git
    objects: Objects
    base: str
    candidate: str
    runner: Runner
    guard: Guard
    changes: CandidateChanges
    tree: Tree  # of the base
    strictness: Strictness
    proof: str | None = None
    suite: str | None = None
    lint: str | None = None
    asked: str = ""  # what the item says in words
    baseline: Collection[str] = ()  # the ids that are known to pass
    remembered: Remembered = field(default_factory=lambda: Remembered(None))
    on_step: Step = lambda *_: None
    stop: Stop | None = None
    survey: Survey = field(default_factory=Survey)
    findings: list[Finding] = field(default_factory=list)
    runs: dict[str, Run] = field(default_factory=dict)
    steps: dict[str, JudgedStep] = field(default_factory=dict)
    failed: bool = False  # the proof failed, whatever is found beside that
    regressions: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    alone: bool = False  # the suite ran without the candidate's new tests
    red_before: str = NOT_RUN
    noticed: bool | None = None
    noticed_of: str = ""
    not_asked: str = ""
    replayed: Replayed | None = None
    _noted: int = 0  # findings of the steps that have ended
    _step: str = ""  # under way

    @property
    def ended(self) -> bool:
        return self.failed or any(finding.severity == CRITICAL for finding in self.findings)

    @property
    def work(self) -> list[FileChange]:
        """The changed files, without tests and without files that tests use."""
        side = set(self.survey.test_side)
        return [change for change in self.changes.files if change.path not in side and not is_conftest(change.path)]

    @property
    def short_limit(self) -> float:
        """Time limit in seconds for one more run of the check."""
        return min(self.strictness.timeout_seconds, _PART_LEAST_SECONDS + _PART_TIMES * self.runs["proof"].seconds)

    def find(self, code: str, message: str, *, of_session: bool = False, **data: object) -> None:
        severity = what_follows(code, self.strictness, of_session=of_session)
        end = "" if code in _UNENDED or message.endswith(".") else self.runner.ends_with
        self.findings.append(Finding(code, severity, message + end, data))

    def over_limit(self, what: str, run: Run) -> None:
        message = f"{what} {run.over_limit}, and was stopped; its result does not count"
        self.find("over_limit", message, problem=run.problem)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Run the code of the ``with`` block as the step ``name``. Store the step's result and duration."""
        self._step, began, ran = name, time.monotonic(), len(self.runs)
        self.on_step(name, "started", None)
        yield
        new, self._noted = len(self.findings) > self._noted, len(self.findings)
        state = "failed" if self.ended else "warned" if new else "passed"
        seconds = time.monotonic() - began if len(self.runs) > ran or name in ("twins", "outside") else None
        self.steps[name] = JudgedStep(step=name, state=state, run=self.runs.get(name), seconds=seconds)
        self._step = ""
        self.on_step(name, state, self.runs.get(name))

    def run(self, name: str, command: str, commit: str = "", **asked: object) -> Run:
        """Run a command on ``commit`` (default: the candidate), and store the run in ``runs`` under ``name``."""
        if name != self._step:
            self.on_step(name, "started", None)
        terms = replace(RunAsked(seconds=self.strictness.timeout_seconds), **asked)  # type: ignore[arg-type]
        run = self.runner.run if name != "proof" else self.runner.prove
        done = run(commit or self.candidate, command, terms)
        self.check_stop()
        if not self.runs:
            for note in done.notes:
                self.find("link_refused", note)
        self.runs[name] = done
        return done

    def part(self, command: str, terms: RunAsked) -> Run:
        done = self.runner.run(self.candidate, command, terms)
        self.check_stop()
        return done

    def check_stop(self) -> None:
        """Raise ``Interrupted`` if the verification was asked to stop."""
        if self.stop is not None and self.stop():
            raise Interrupted("verification was stopped")

    def as_they_were(self, paths: Collection[str]) -> list[FileChange]:
        """Return files of the base commit, each as a ``FileChange`` with equal old and new content."""
        known = ((path, self.tree.read(path)) for path in sorted(paths))
        return [FileChange(path=path, status="M", before=text, after=text) for path, text in known if text]

    def verdict(self, passing: Mapping[str, bool] | None = None) -> Verdict:
        outcomes = passing or {}
        trees = [self.objects.tree_of(commit) for commit in (self.base, self.candidate)]
        return Verdict(
            accepted=not self.ended,
            findings=tuple(self.findings),
            base=self.base,
            candidate=self.candidate,
            proof=self.runs.get("proof"),
            suite=self.runs.get("suite"),
            red=self.runs.get("red"),
            lint=self.runs.get("lint"),
            regressions=self.regressions,
            flaky=self.flaky,
            passing=frozenset(node for node, good in outcomes.items() if good),
            total=len(outcomes),
            steps=tuple(self.steps.values()),
            where="in_place" if self.runner.in_place else "worktree",
            red_before=self.red_before,
            unchanged=trees[0] == trees[1]
            or {c.path for c in self.changes.files} <= self.guard.new_checks(self.changes),
            noticed=self.noticed,
            noticed_of=self.noticed_of,
            not_asked=self.not_asked,
            replayed=self.replayed,
        )
