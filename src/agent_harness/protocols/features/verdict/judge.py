"""The judge of a project: asks verification about a commit, and puts its answer into the words of the protocol.

Everything that the tests need (interpreter, runner, environment) is resolved when the judge is made, before the agent
starts. Source: features.md section O, C03, C22, C23, C54, C55, C61, C62.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from agent_harness.kernel import snapshot
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import private_refs, records
from agent_harness.protocols.features.engine import checkpoints
from agent_harness.protocols.features.engine.open_session import OpenSession
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Feature
from agent_harness.protocols.features.verdict import quality
from agent_harness.verification import engine
from agent_harness.verification.runner import execution
from agent_harness.verification.verdict import Finding, TestRun, Verdict, passed


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What was established about an accepted candidate."""

    passing: tuple[str, ...] = ()
    total: int = 0
    lint_errors: int | None = None
    file_sizes: JsonObject | None = None


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """Accepted with its proof; or not, with the reason and what the harness saw."""

    accepted: bool
    final: bool = False  # rolled back at once; otherwise the agent may repair it (C03)
    asks: bool = False  # proven but for the evidence that the agent must show (C20)
    judged: bool = True  # by the tests; a rule that was broken is refused without them
    code: str = ""
    failure: str = ""
    output: str = ""
    commit: str = ""
    proof: Proof = field(default_factory=Proof)
    broken_features: tuple[int, ...] = ()
    regressions: tuple[str, ...] = ()  # tests that passed before and do not now

    @classmethod
    def unproven(cls, failure: str, *, code: str, output: str = "") -> "Ruling":
        """A claim that the agent may repair."""
        return cls(accepted=False, code=code, failure=failure, output=output)

    def of(self, commit: str) -> "Ruling":
        """The same ruling for another commit of the very same tree."""
        return replace(self, commit=commit)


FIXABLE = frozenset({"proof_failed", "proof_not_red", "proof_missing"})
"""Findings that the agent may fix in the same session; any other CRITICAL one is rolled back at once (C03)."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What the whole suite says about one commit."""

    passing: frozenset[str]
    failing: frozenset[str]
    total: int
    problem: str | None = None


class Judge:
    """Judges commits of one project; made before the agent starts."""

    def __init__(self, project: Project) -> None:
        config = project.config
        self._project = project
        self._seconds = config.verification.timeout_minutes * 60
        self._lint = config.quality.lint_command
        commands = [config.testing.full, config.testing.feature, self._lint]
        self._environment = engine.resolve(
            project.root,
            [c for c in commands if c],
            links=config.verification.links,
            isolation=config.verification.isolation,
            report=config.verification.report,
        )

    # -- runs ------------------------------------------------------------------------------------------------------

    def suite(self, commit: str) -> Suite:
        """Runs the whole suite on a commit."""
        run = engine.run_tests(
            self._project.git,
            commit,
            str(self._project.config.testing.full),
            environment=self._environment,
            timeout_seconds=self._seconds,
            keep_going=True,
        )
        return _suite(run)

    def suite_of_tree(self) -> Suite:
        """Runs the whole suite on what is in the work tree; nothing is changed."""
        with self.tree() as commit:
            return self.suite(commit)

    @contextmanager
    def tree(self, name: str = "all") -> Iterator[str]:
        """A commit of what is in the work tree, on a private ref until the end of the block."""
        git, excluded = self._project.git, self._project.excluded
        commit, ref = private_refs.named(
            git,
            f"refs/harness/verify/{name}",
            lambda ref: snapshot.candidate(git, ref, exclude=excluded, message="verify", base=None),
        )
        try:
            yield commit
        finally:
            git.update_ref(ref, None)

    def lint(self, commit: str) -> quality.Lint:
        """What the linter says about a commit; no finding where there is no linter."""
        if not self._lint:
            return quality.Lint(problem="no linter is configured: quality.lint_command")
        with execution.place_for(self._project.git, commit, environment=self._environment) as space:
            run = execution.execute_plain(
                space, self._lint, environment=self._environment, timeout_seconds=self._seconds
            )
        if run.exit_code in (None, 126, execution.NOT_FOUND) or "No module named" in run.output[-400:]:
            return quality.Lint(problem=f"lint unavailable: {self._lint}")
        return quality.lint_counts(run.output, run.exit_code or 0)

    def still_failing(self, commit: str, ids: Iterable[str]) -> set[str]:
        """Which of these tests fail once more when they are run again on their own suite (C62)."""
        return set(ids) - self.suite(commit).passing

    def red_tests(self, under_way: OpenSession) -> list[str]:
        """Baseline tests that the unfinished work leaves failing, on the commit that it would become (C15)."""
        known = under_way.baseline.passing
        if not known:
            return []
        rollback_point = checkpoints.rollback_point(under_way.checkpoint)
        commit = self._project.candidate(f"{under_way.session}-wip", "WIP", rollback_point)
        facts = self.suite(commit)
        return sorted(known - facts.passing)

    def report(self, feature: Feature) -> JsonObject:
        """`harness verify`: one feature's tests on a checkout of what is in the work tree; nothing is changed."""
        project = self._project
        file = feature.test_file
        command = project.config.test_command(file)
        with self.tree(str(feature.id)) as commit:
            project.say(f"Running verification for Feature #{feature.id}...")
            project.say(f"Test file: {file}\n\n$ {command}")
            run = engine.run_tests(
                project.git, commit, command, environment=self._environment, timeout_seconds=self._seconds
            )
        cases = dict(run.report.cases) if run.report else {}
        for name, outcome in cases.items():
            project.say(f"{name} {outcome.upper()}")
        if run.problem:
            project.say(f"No result: {run.problem}")
        good = passed(run)
        if not good:
            project.say(run.output[-4000:])
        project.say(f"\nFeature #{feature.id} verification: {'PASSED' if good else 'FAILED'}")
        return {
            "feature_id": feature.id,
            "test_file": file,
            "command": command,
            "passed": good,
            "problem": run.problem,
            "tests": cases,
            "commit": commit,
        }

    # -- the verdict -----------------------------------------------------------------------------------------------

    def rule(self, under_way: OpenSession, candidate: str) -> Ruling:
        """The ruling on a claim of the session's feature; every step is said as it is known."""
        verdict = self._verdict(under_way, candidate)
        self._note_findings(under_way, verdict)
        if not verdict.accepted:
            return self._rejection(under_way, verdict)
        return Ruling(accepted=True, commit=candidate, proof=self._proof(under_way, verdict))

    def _verdict(self, under_way: OpenSession, candidate: str) -> Verdict:
        project = self._project
        file = under_way.feature.test_file
        config = project.config
        by_tests = config.verification.harness_verify and under_way.feature.verification_type != "manual"
        if file and not config.verification.harness_verify:
            project.say("Warning: verification.harness_verify is off; the agent's own run of the tests counts.")
        return engine.judge(
            project.git,
            base=checkpoints.rollback_point(under_way.base).head or project.git.empty_tree(),
            candidate=candidate,
            environment=self._environment,
            proof=config.test_command(file) if file and by_tests else None,
            suite=str(config.testing.full) if config.verification.regression_check else None,
            lint=self._lint,
            test_files=[file] if file else [],
            protected=[f.test_file for f in under_way.features.passing],
            baseline=records.texts(under_way.baseline.record["passing_tests"]),
            options=engine.Strictness(
                requires_red=under_way.feature.requires_red,
                lint_rejects=not config.quality.warn_on_lint_errors,
                timeout_seconds=self._seconds,
            ),
            on_step=_Steps(project, file).on_step,
        )

    def _rejection(self, under_way: OpenSession, verdict: Verdict) -> Ruling:
        reasons = verdict.reasons
        final = any(f.code not in FIXABLE for f in reasons)
        first = next((f for f in reasons if f.code not in FIXABLE), reasons[0])
        failure = first.message
        if verdict.regressions:
            failure = "Regression: " + ", ".join(verdict.regressions[:5]) + " now failing"
        run = verdict.suite if verdict.regressions else verdict.proof
        return Ruling(
            accepted=False,
            final=final,
            code=first.code,
            failure=failure,
            output=run.output if run else "",
            broken_features=self._broken(under_way, verdict.regressions),
            regressions=tuple(verdict.regressions),
        )

    def _proof(self, under_way: OpenSession, verdict: Verdict) -> Proof:
        project = self._project
        files = [f.test_file for f in under_way.features.features]
        before = project.store.file_sizes()
        sizes = quality.file_sizes(project.git, verdict.candidate, under_way.session, before, files)
        for line in quality.warnings(sizes, before, project.config.quality.max_file_lines):
            project.say(f"Warning: {line}")
        lint = verdict.lint
        errors = None if lint is None else (0 if lint.exit_code == 0 else max(1, lint.output.count("\n")))
        return Proof(passing=tuple(sorted(verdict.passing)), total=verdict.total, lint_errors=errors, file_sizes=sizes)

    def _note_findings(self, under_way: OpenSession, verdict: Verdict) -> None:
        for finding in verdict.findings:
            self._project.store.event(
                finding.code,
                _level(finding),
                session=under_way.session,
                feature_id=under_way.feature_id,
                message=finding.message,
            )
            if finding.severity != "CRITICAL":
                self._project.say(f"Warning: {finding.message}")

    def _broken(self, under_way: OpenSession, regressions: Iterable[str]) -> tuple[int, ...]:
        """Features whose own test file holds one of the tests that broke."""
        files = {i.split("::", 1)[0] for i in regressions}
        found = under_way.features.features
        return tuple(f.id for f in found if f.test_path in files)


class _Steps:
    """Says each step of a verdict as it is known (UAH-046)."""

    def __init__(self, project: Project, test_file: str) -> None:
        self._say = project.say
        self._counted = frozenset({"suite"})
        self._names = {
            "proof": f"running {test_file}",
            "suite": "checking for regressions",
            "red": "checking that the tests fail without the work",
            "lint": "lint check",
        }

    def on_step(self, step: str, state: str, run: TestRun | None) -> None:
        """One line for each step that has ended."""
        name = self._names.get(step)
        if name and state != "started":
            self._say(f"Verifying: {name}... {state.upper()}{self._counts(step, run)}")

    def _counts(self, step: str, run: TestRun | None) -> str:
        if step not in self._counted or run is None or run.report is None:
            return ""
        return f" ({len(run.report.passing)}/{len(run.report.cases)} tests)"


def _suite(run: TestRun) -> Suite:
    cases = dict(run.report.cases) if run.report else {}
    return Suite(
        passing=frozenset(i for i, outcome in cases.items() if outcome == "passed"),
        failing=frozenset(i for i, outcome in cases.items() if outcome in ("failed", "error")),
        total=len(cases),
        problem=run.problem,
    )


def _level(finding: Finding) -> str:
    return "critical" if finding.severity == "CRITICAL" else "important"
