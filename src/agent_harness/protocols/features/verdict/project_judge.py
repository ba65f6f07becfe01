"""Verification of a project's commits. The interpreter, test runner and environment are determined before the agent
starts. Source: features.md section O, C03, C22, C23, C54, C55, C61, C62."""

import ast
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from agent_harness.kernel import snapshot
from agent_harness.kernel.files import own_place
from agent_harness.kernel.json import JsonObject, jsontext
from agent_harness.kernel.process import new_run_id
from agent_harness.kernel.process.sandbox import told
from agent_harness.protocols.features import questions, records, repository
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Feature, FeatureList, Question
from agent_harness.protocols.features.sessions.open_session import OpenSession
from agent_harness.protocols.features.verdict import quality
from agent_harness.session import ledger
from agent_harness.session.ledger import ClaimVerdict, VerdictStep
from agent_harness.verification import guard, judge, sources
from agent_harness.verification.checkout import Overlay
from agent_harness.verification.command import starts_python
from agent_harness.verification.grade import grade_of_verdict
from agent_harness.verification.guard import ALLOWABLE, PROTECTED, belongs, released_by
from agent_harness.verification.protected_files import SessionClaim
from agent_harness.verification.runner import environment, execution
from agent_harness.verification.runner.environment import IN_PLACE, released
from agent_harness.verification.runner.installed_record import InstalledRecord
from agent_harness.verification.runner_config import is_test_file
from agent_harness.verification.verdict import (
    CRITICAL,
    FAST,
    OFF,
    REJECT,
    STRICT,
    JudgedStep,
    Run,
    Strictness,
    Verdict,
    passed,
)


@dataclass(frozen=True, kw_only=True)
class Proof:
    """Test results, lint findings and file sizes of an accepted candidate."""

    passing: tuple[str, ...] = ()
    total: int = 0
    files_read: tuple[str, ...] | None = None  # opened by the code of tests in the suite; unknown without a run
    lint: quality.Lint | None = None
    lint_introduced: Mapping[str, int] = field(default_factory=dict)  # by kind, compared with the commit before
    file_sizes: JsonObject | None = None
    file_alerts: tuple[JsonObject, ...] = ()  # files that are too large or grow fast: ``quality.alerts``


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """Decision on a candidate: accepted with a proof, or rejected with a reason."""

    accepted: bool
    final: bool = False  # rolled back at once; otherwise the agent may repair it (C03)
    asks: bool = False  # proven but for the evidence that the agent must show (C20)
    judged: bool = True  # by the tests; a broken rule is refused without them
    code: str = ""
    failure: str = ""
    output: str = ""
    output_file: str = ""  # path of the output below the project; none if nothing was run
    commit: str = ""
    proof: Proof = field(default_factory=Proof)
    broken_features: tuple[int, ...] = ()
    regressions: tuple[str, ...] = ()  # tests that passed before and do not now
    question: Question | None = None  # for a person; the candidate is kept until the answer
    bent: bool = (
        False  # it changes protected files: fixed in the same session, or rolled back; never a base of further work
    )
    line: ClaimVerdict | None = None  # for the ledger, as far as the judge knows it; none if nothing was run

    @classmethod
    def unproven(cls, failure: str, *, code: str) -> "Ruling":
        """Return a rejection that lets the agent correct its work in the same session."""
        return cls(accepted=False, code=code, failure=failure)

    def of(self, commit: str) -> "Ruling":
        # `commit` must have the same tree as the candidate
        return replace(self, commit=commit, line=self.line and replace(self.line, candidate=commit))


Versions = tuple[ast.Module | None, ast.Module | None]
"""Syntax trees of a file before and after the work. ``None`` means that the file was missing or could not be parsed."""


@dataclass(frozen=True, kw_only=True)
class BuiltAlready:
    """Test results that can show that a feature already worked before its session."""

    passing: tuple[str, ...] = ()  # its tests, that pass now and passed on the code before the session
    placeholder_at: str | None = None  # the commit at which its test file of that time did not pass
    placeholders: tuple[str, ...] = ()  # the failing tests there; none if there was no such file yet
    red_at: str | None = None  # an older commit on whose code the tests of now fail
    red: tuple[str, ...] = ()  # these tests
    changed: tuple[str, ...] = ()  # changes of the session beside tests and the progress log
    hollow: str | None = None  # why the tests prove nothing, regardless of earlier results

    @property
    def problem(self) -> str | None:
        """Reason why these test results are not sufficient evidence, or None if they are."""
        if self.hollow:
            return self.hollow
        return None if self.placeholder_at else "These tests failed on no known commit, not even as placeholders."

    @property
    def lines(self) -> list[str]:
        rows = []
        if self.placeholder_at:
            what = f"{_listed(self.placeholders)} failed" if self.placeholders else "the test file did not exist"
            rows.append(f"Before: {what} (at {self.placeholder_at[:10]}).")
        rows.append(f"Now: {_listed(self.passing)} pass. They also pass on the base commit of the session.")
        if self.red_at:
            rows.append(f"On the older commit {self.red_at[:10]}, {_listed(self.red)} fail: they need later work.")
        else:
            rows.append("No older commit is known on which these tests fail: read the tests before you accept.")
        if self.changed:
            rows.append(f"The session also changed {_listed(self.changed)}, which would be accepted with it.")
        return rows + ([f"Insufficient evidence: {self.problem}"] if self.problem else [])


def _fewer_assertions(versions: Mapping[str, Versions]) -> list[str]:
    both = ((path, old, new) for path, (old, new) in versions.items() if old and new)
    counted = [(path, sources.assertions(old), sources.assertions(new)) for path, old, new in both]
    return [f"{path} had {old} assertions and has {new}." for path, old, new in counted if new < old]


def _listed(ids: Iterable[str]) -> str:
    return records.listed(sorted(ids), 6)


FIXABLE = PROTECTED | {
    *("proof_failed", "proof_missing", "weak_test", "unsteady_test", "answers_differ", "environment_changed"),
    *("over_limit", "plugin_needed", "dependency_needed", "shadowing_file", "link_leads_out", "test_emptied"),
}
"""Finding codes that the agent can still fix in the same session (C03). Others that are CRITICAL roll the work back."""

NOT_RED = frozenset({"proof_not_red"})
_CHANGED = {
    False: "older tests or the way in which tests run",
    True: "the setup, reset or monitoring of the test environment",
}
_MARKS_BACK = 200  # number of versions of the plan to search
MEANT_GREEN = 'a person sets "requires_red": false for a feature whose tests may pass before the work'
"""Advice for a feature whose tests pass from the start, such as a refactoring."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    passing: frozenset[str]
    failing: frozenset[str]
    total: int
    problem: str | None = None
    first_error: str = ""  # the runner's first message about a failing test, otherwise its last line
    files_read: tuple[str, ...] = ()  # files other than tests that the code of tests opened


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """Result of the test suite on the unfinished work of a session."""

    red: tuple[str, ...] = ()  # baseline tests that fail in it (C15)
    failing: tuple[str, ...] = ()  # tests of the feature itself
    passing: int = 0  # of them


class Judge:
    """Verifier of one project's commits. Create it before an agent starts."""

    def __init__(self, project: Project) -> None:
        config = project.config
        self._project = project
        self.on_step: Callable[[str], None] = lambda _step: None  # called with the name of each step that begins
        self._seconds = config.verification.timeout_minutes * 60
        self._lint = config.quality.lint_command
        commands = [config.testing.full, config.testing.feature, self._lint]
        self._resolved = environment.resolve(
            project.root,
            [c for c in commands if c],
            links=config.verification.links,
            isolation=config.verification.isolation,
            report=config.verification.report,
            sandbox=config.sandbox.settings(services=bool(config.environment.health_check)),
            starts_python=starts_python,
            looks=False,
        )
        self._record = InstalledRecord(project.store.installed(), project.first_look)

    @cached_property
    def _environment(self) -> environment.RunEnvironment:
        return self._resolved.begun(self._record, begins=False)

    @contextmanager
    def session(self, may_change: Iterable[str]) -> Iterator[None]:
        """Record the installed packages. After the ``with`` block, accept allowed changes to packages."""
        known = vars(self).get("_environment", self._resolved)
        self._environment = known.begun(self._record, begins=True)
        yield
        self.accept_installed(may_change)

    def accept_installed(self, may_change: Iterable[str]) -> None:
        """Accept the agent's changes to installed packages, except changes that ``may_change`` does not allow."""
        self._record.end(self._environment.before, project=self._project.root, frees=released(may_change))

    # -- runs ------------------------------------------------------------------------------------------------------

    def _run(self, commit: str, command: str | None, **more: Any) -> Run:
        known = {"environment": self._environment, "timeout_seconds": self._seconds}
        return execution.run_tests(self._project.git, commit, str(command), **known, **more)

    def suite(self, commit: str) -> Suite:
        return _suite(self._run(commit, self._project.config.testing.full, keep_going=True))

    def suite_of_tree(self) -> Suite:
        with self.tree() as commit:
            return self.suite(commit)

    @contextmanager
    def tree(self, name: str = "all") -> Iterator[str]:
        """Yield a temporary commit of the current work tree."""
        git, excluded = self._project.git, self._project.excluded
        # the private ref keeps the commit while the `with` block runs
        commit, ref = repository.named_ref(
            git,
            f"refs/harness/verify/{name}",
            lambda ref: snapshot.candidate(git, ref, exclude=excluded, message="verify", base=None),
        )
        try:
            yield commit
        finally:
            git.update_ref(ref, None)

    def lint(self, commit: str) -> quality.Lint:
        if not self._lint:
            return quality.Lint(problem="no linter is configured: quality.lint_command")
        with execution.place_for(self._project.git, commit, environment=self._environment) as space:
            asked = execution.RunAsked(seconds=self._seconds)
            run = execution.execute_plain(space, self._lint, asked, environment=self._environment)
        if run.exit_code in (None, 126, execution.NOT_FOUND) or "No module named" in run.output[-400:]:
            return quality.Lint(problem=f"lint unavailable: {self._lint}")
        return quality.lint_counts(run.output, run.exit_code or 0, str(self._environment.root))

    def still_failing(self, commit: str, ids: Iterable[str]) -> set[str]:
        return set(ids) - self.suite(commit).passing

    def unfinished(self, under_way: OpenSession) -> Unfinished:
        """Commit the unfinished work to a private ref. Return the suite's result on this commit (C15)."""
        known, file = under_way.baseline.passing, under_way.feature.test_path
        if not known and not file:
            return Unfinished()
        commit = self._project.candidate(f"{under_way.session}-wip", "WIP", under_way.checkpoint.snapshot)
        facts = self.suite(commit)
        own = [name for name in sorted(facts.failing) if file and name.partition("::")[0] == file]
        good = sum(name.partition("::")[0] == file for name in facts.passing)
        return Unfinished(red=tuple(sorted(known - facts.passing)), failing=tuple(own), passing=good)

    def report(self, feature: Feature) -> JsonObject:
        """Test one feature on a copy of the work tree, for `harness verify`."""
        project = self._project
        file = feature.test_file
        command = project.config.test_command(file)
        with self.tree(str(feature.id)) as commit:
            project.say(f"Running verification for Feature #{feature.id}...")
            project.say(f"Test file: {file}\n\n$ {command}")
            run = self._run(commit, command)
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
        """Verify the candidate, and return the ruling."""
        verdict = self._verdict(under_way, candidate)
        ruling = self._ruling(under_way, verdict)
        codes = {finding.code for finding in verdict.reasons}
        if ruling.accepted or under_way.feature_id is None or self._environment.isolation == IN_PLACE:
            return ruling
        if codes == NOT_RED:
            return replace(ruling, question=self._about_built(under_way, verdict))
        return self._but_for_change(under_way, verdict, ruling) if codes <= ALLOWABLE else ruling

    def rule_again(self, under_way: OpenSession, candidate: str, asked: Question) -> tuple[Ruling, BuiltAlready | None]:
        """Verify a kept candidate again. Allow the file change that the question asks about."""
        built = asked.kind == "built_already"
        verdict = self._verdict(under_way, candidate, may_change=asked.paths, may_be_green=built, whole=True)
        ruling = self._ruling(under_way, verdict)
        before = asked.record.get("base")
        shown = self.built_already(under_way.feature, verdict, str(before) if before else None) if built else None
        return ruling, shown if ruling.accepted else None

    def doubt(self, feature: Feature, commit: str) -> str | None:
        """Return why ``commit`` does not prove the marked feature, or None if it does.

        Without a recent commit in which the feature was open, nothing is verified, and the result is None."""
        name = self._project.features_name
        commits = self._project.git.text("log", "--format=%H", commit, "--", f":(literal){name}", check=False).split()
        base = next((each for each in commits[:_MARKS_BACK] if self._is_open(feature.id, each)), None)
        if base is None:
            return None
        self._project.say(f"Verifying {feature.name} from {base[:10]}, before it was marked.")
        verdict = judge.judge(
            self._project.git,
            SessionClaim(
                base=base,
                candidate=commit,
                proof=self._project.config.test_command(feature.test_file),
                asked=feature.asked,
                test_files=[feature.test_file],
                may_change=["*"],
                own_may_change=True,
            ),
            environment=self._environment,
            options=Strictness(requires_red=REJECT if feature.requires_red else OFF, timeout_seconds=self._seconds),
        )
        return verdict.reasons[0].message if verdict.reasons else None

    def together(self, check: Mapping[str, Any], commit: str) -> Verdict:
        """Return the suite's verdict on several merged features."""
        config = self._project.config
        # the proof and mutants of each feature were checked before
        return judge.judge(
            self._project.git,
            SessionClaim(
                base=check["base"],
                candidate=commit,
                suite=str(config.testing.full),
                lint=self._lint,
                others=config.check_commands,
                environment_commands=config.environment_commands,
                test_files=check["test_files"],
                protected=check["protected"],
                baseline=check["baseline"],
                files_read=check["files_read"],
                may_change=check["may_change"],
                own_may_change=True,
            ),
            environment=self._environment,
            options=Strictness(
                requires_red=OFF,
                lint_rejects=not config.quality.warn_on_lint_errors,
                mutants=False,
                replay=False,
                timeout_seconds=self._seconds,
            ),
        )

    def _is_open(self, feature_id: int, commit: str) -> bool:
        try:
            listed = jsontext.loads(self._project.git.show(commit, self._project.features_name) or b"")
            found = FeatureList(listed).by_id(feature_id)
        except (ValueError, TypeError, AttributeError):
            return False
        return found is not None and not found.passes

    def _ruling(self, under_way: OpenSession, verdict: Verdict) -> Ruling:
        lint, introduced = self._lint_of(verdict)
        self._note_findings(under_way, verdict, lint, introduced)
        kept = self._keep(verdict)
        line = self._line(under_way, verdict, kept)
        if not verdict.accepted:
            return replace(self._rejection(under_way, verdict, kept), line=line)
        proof = self._proof(under_way, verdict, lint, introduced)
        return Ruling(accepted=True, commit=verdict.candidate, proof=proof, line=line)

    def _verdict(
        self,
        under_way: OpenSession,
        candidate: str,
        *,
        may_change: Iterable[str] = (),
        may_be_green: bool = False,
        whole: bool = False,
    ) -> Verdict:
        project = self._project
        file = under_way.feature.test_file
        config = project.config
        by_tests = config.verification.harness_verify and under_way.feature.verification_type != "manual"
        if file and not config.verification.harness_verify:
            project.say("Warning: verification.harness_verify is off; the agent's own run of the tests counts.")
        return judge.judge(
            project.git,
            SessionClaim(
                base=under_way.base.snapshot.head or project.git.empty_tree(),
                candidate=candidate,
                proof=config.test_command(file) if file and by_tests else None,
                suite=str(config.testing.full) if whole or config.verification.regression_check else None,
                lint=self._lint,
                asked=under_way.feature.asked,
                others=config.check_commands,
                environment_commands=config.environment_commands,
                test_files=[file] if file else [],
                protected=[f.test_file for f in under_way.features.passing],
                baseline=records.texts(under_way.baseline.record["passing_tests"]),
                files_read=under_way.baseline.files_read,
                story=(project.features_name, project.progress_name),
                may_change=(*under_way.feature.may_change, *may_change),
                own_may_change=ledger.was_accepted(project.store.ledger(), item_of(under_way)),
            ),
            environment=self._environment,
            options=Strictness(
                requires_red=REJECT if under_way.feature.requires_red and not may_be_green else OFF,
                lint_rejects=not config.quality.warn_on_lint_errors,
                mutants=config.verification.trust != FAST,
                replay=config.verification.trust != FAST,
                weak_rejects=config.verification.trust == STRICT,
                timeout_seconds=self._seconds,
            ),
            on_step=_Steps(project, file, under_way.baseline.passing, self.on_step).on_step,
        )

    def _rejection(self, under_way: OpenSession, verdict: Verdict, kept: Mapping[str, str]) -> Ruling:
        reasons = verdict.reasons
        final = any(f.code not in FIXABLE for f in reasons)
        first = next((f for f in reasons if f.code not in FIXABLE), reasons[0])
        failure = first.message
        if first.code in NOT_RED:
            failure += f" Was {under_way.feature.name} already built? If not, {MEANT_GREEN}."
        elif first.code in PROTECTED and verdict.base:
            path = str(first.data["path"])
            is_new = self._project.git.show(verdict.base, path) is None
            back = f"Restore the file: git checkout {verdict.base[:10]} -- {path}"
            failure += f" Remove the file: git rm -f -- {path}" if is_new else f" {back}"
        if verdict.regressions:
            failure = "Regression: " + ", ".join(verdict.regressions[:5]) + " now failing"
        broken = {node.partition("::")[0] for node in verdict.regressions}
        failed = next((each for each in verdict.steps if each.state == "failed"), None)
        output_file = kept.get(failed.step, "") if failed else ""
        if output_file:
            self._project.say(f"Output: {output_file}")
        return Ruling(
            accepted=False,
            final=final,
            code=first.code,
            failure=failure,
            output=failed.run.output if failed and failed.run else "",
            output_file=output_file,
            broken_features=tuple(f.id for f in under_way.features.features if f.test_path in broken),
            commit=verdict.candidate,
            regressions=tuple(verdict.regressions),
            bent=any(finding.code in PROTECTED for finding in reasons),
        )

    # -- decisions of a person -------------------------------------------------------------------------------------

    def _about_built(self, under_way: OpenSession, verdict: Verdict) -> Question:
        feature, session = under_way.feature, under_way.session
        found = self.built_already(feature, verdict, under_way.base.snapshot.head)
        return questions.question(
            "built_already",
            f"{feature.name} ({feature.description}) seems to be built already: its tests pass, and they pass on the"
            f" code from before Session {session} as well.",
            feature_id=feature.id,
            session=session,
            commit=verdict.candidate,
            base=under_way.base.snapshot.head,
            details=[*found.lines, f"To avoid this question: in {self._project.features_name}, {MEANT_GREEN}."],
        )

    def _but_for_change(self, under_way: OpenSession, verdict: Verdict, ruling: Ruling) -> Ruling:
        """Verify the candidate again as if its changes to protected files were allowed."""
        paths = sorted({path for each in verdict.reasons for path in released_by(each)})
        self._project.say(f"Verifying again with changes to these files allowed: {', '.join(paths)}")
        again = self._verdict(under_way, verdict.candidate, may_change=paths)
        if not again.reasons:
            asked = self._about_change(under_way, verdict, again, paths)
            mendable = any(finding.code not in PROTECTED for finding in verdict.reasons)
            return replace(ruling, question=asked, final=not mendable)
        self._project.say(f"There is another problem: {again.reasons[0].message}")
        if any(finding.code not in FIXABLE for finding in again.reasons):
            return ruling
        real = tuple(f for f in again.findings if f.code not in PROTECTED or f.severity == CRITICAL)
        told = self._ruling(under_way, replace(again, findings=real))
        keep = "If the feature needs this change, keep it: the harness asks a person when everything else passes."
        return replace(told, failure=f"{told.failure} In addition: {ruling.failure} {keep}", bent=True)

    def _about_change(self, under_way: OpenSession, verdict: Verdict, again: Verdict, paths: Sequence[str]) -> Question:
        feature, session = under_way.feature, under_way.session
        base, candidate = under_way.base.snapshot.head, verdict.candidate
        versions = {p: (self._tree_of(base, p), self._tree_of(candidate, p)) for p in paths if is_test_file(p)}
        owners = [(p, [f.id for f in under_way.features.passing if belongs(p, [f.test_file])]) for p in paths]
        said = [f"{p} (holds tests of Feature {', '.join(f'#{i}' for i in ids)})" if ids else p for p, ids in owners]
        changed = {bool(finding.data.get("environment")) for finding in verdict.reasons}
        what = " and ".join(_CHANGED[each] for each in sorted(changed))
        return questions.question(
            "protected_change",
            f"{feature.name} ({feature.description}) is built and every test passes, but Session {session} also changed"
            f" {what}: {', '.join(said)}. Is that change wanted?",
            feature_id=feature.id,
            session=session,
            commit=verdict.candidate,
            paths=paths,
            details=[
                *(line for finding in verdict.reasons for line in finding.lines),
                *_fewer_assertions(versions),
                self._with_older_versions(under_way, verdict, paths),
                *(f.message for f in again.findings if f.code not in PROTECTED and f.severity != "WARN"),
            ],
        )

    def _tree_of(self, commit: str | None, path: str) -> ast.Module | None:
        return sources.parse(self._project.git.show(commit, path)) if commit and path.endswith(".py") else None

    def _with_older_versions(self, under_way: OpenSession, verdict: Verdict, paths: Iterable[str]) -> str:
        """Run the suite with the old versions of ``paths``. Return the result as text."""
        older = [Overlay(verdict.base, list(paths))]
        run = self._run(verdict.candidate, self._project.config.testing.full, overlays=older, keep_going=True)
        if run.report is None:
            return f"With the old versions of these files, the suite gives no result: {run.problem}."
        if lost := under_way.baseline.passing - run.report.passing:
            return f"With the old versions of these files, {_listed(lost)} {'fail' if len(lost) > 1 else 'fails'}."
        return "With the old versions of these files, every known test passes, too."

    def built_already(self, feature: Feature, verdict: Verdict, before: str | None) -> BuiltAlready:
        """Return the test results that can show that a feature already worked before its session."""
        report = verdict.proof.report if verdict.proof else None
        passing = tuple(sorted(report.passing)) if report else ()
        planned = self._planned(feature, verdict.base)
        path, _, name = feature.test_file.partition("::")
        tests = self._tree_of(verdict.candidate, path)
        is_hollow = tests is not None and sources.asserts_nothing(tests, name or None)
        hollow = f"{feature.test_file} asserts nothing that could fail." if is_hollow else None
        found = BuiltAlready(passing=passing, hollow=hollow, changed=self._product_changes(feature, verdict))
        for commit in dict.fromkeys(filter(None, (before, planned))):
            run = self.own_tests(feature, commit)
            failing = tuple(sorted(run.report.failing)) if run and run.report else ()
            if run is None or failing:
                found = replace(found, placeholder_at=commit, placeholders=failing)
                break
        if planned is None or planned == before:
            return found
        run = judge.run_on_older_code(
            self._project.git,
            planned,
            candidate=verdict.candidate,
            command=self._project.config.test_command(feature.test_file),
            test_files=[feature.test_file],
            environment=self._environment,
            timeout_seconds=self._seconds,
        )
        red = tuple(sorted(set(passing) - (run.report.passing if run.report else frozenset())))
        return replace(found, red_at=planned, red=red) if red and run.report else found

    def _product_changes(self, feature: Feature, verdict: Verdict) -> tuple[str, ...]:
        ours = {self._project.features_name, self._project.progress_name}
        paths = [change.path for change in self._project.git.changed_paths(verdict.base, verdict.candidate)]
        return tuple(p for p in paths if p not in ours and not is_test_file(p) and not belongs(p, [feature.test_file]))

    def _planned(self, feature: Feature, commit: str) -> str | None:
        """Return the commit that first added the feature's test file, or None."""
        words = ("log", "--diff-filter=A", "--format=%H", commit, "--", f":(literal){feature.test_path}")
        added = self._project.git.text(*words, check=False).split()
        return added[-1] if added else None

    def own_tests(self, feature: Feature, commit: str) -> Run | None:
        git = self._project.git
        if git.show(commit, feature.test_path) is None and not git.text("ls-tree", commit, "--", feature.test_path):
            return None
        return self._run(commit, self._project.config.test_command(feature.test_file))

    def _keep(self, verdict: Verdict) -> dict[str, str]:
        """Save the output of the proof and of each failed step. Return the output paths."""
        folder, kept = self._project.layout.verdicts, dict[str, str]()
        for each in verdict.steps:
            if each.run is None or (each.state != "failed" and each.step != "proof"):
                continue
            run = each.run
            own_place(os.path.join(folder, each.step), self._project.layout.root)
            ended = "timed out" if run.timed_out else "over a limit" if run.over_limit else f"exit {run.exit_code}"
            path = ledger.keep_output(
                folder,
                self._project.store.ledger(),
                each.step,
                command=run.command,
                output=run.output,
                problem=run.problem,
                ended=f"{ended}, {run.seconds:.1f} s, {run.commit[:10]}",
            )
            kept[each.step] = self._project.layout.relative(path)
        return kept

    def _line(self, under_way: OpenSession, verdict: Verdict, kept: Mapping[str, str]) -> ClaimVerdict:
        codes = [finding.code for finding in verdict.reasons or verdict.findings]
        if verdict.accepted and verdict.proof is None and under_way.feature_id is not None:
            codes.append("no_proof_run")  # a person looks at it, or the settings let the agent's own run count
        grade = None
        if verdict.accepted and verdict.proof is not None:
            trusted = self._project.config.verification.trust == FAST
            grade = grade_of_verdict(verdict, trusted=trusted, needs_change=False)
        return ClaimVerdict(
            id=new_run_id(),
            item=item_of(under_way),
            verdict=ledger.ACCEPTED if verdict.accepted else ledger.REJECTED,
            codes=tuple(dict.fromkeys(codes)),
            grade=grade.word if grade else None,
            basis=grade.basis if grade else None,
            base=verdict.base,
            candidate=verdict.candidate,
            red_base=verdict.red.commit if verdict.red else None,
            steps=tuple(_step(each, kept.get(each.step)) for each in verdict.steps),
            regressions=verdict.regressions[: ledger.NAMED],
            regressions_total=len(verdict.regressions),
            flaky=verdict.flaky,
            isolation=self._environment.isolation,
            sandbox=told(self._environment.sandbox),
            tools={**self._environment.tools, "git": self._project.git.text("version").split()[2]},
        )

    def _lint_of(self, verdict: Verdict) -> tuple[quality.Lint | None, Mapping[str, int]]:
        run = verdict.lint
        if run is None or verdict.found("lint_unavailable"):
            return None, {}
        lint = quality.lint_counts(run.output, run.exit_code or 0, str(self._environment.root))
        if not lint.total:
            return lint, {}
        before = self.lint(verdict.base)
        return lint, {} if before.problem else lint.introduced_since(before)

    def _proof(
        self, under_way: OpenSession, verdict: Verdict, lint: quality.Lint | None, introduced: Mapping[str, int]
    ) -> Proof:
        project = self._project
        files = [f.test_file for f in under_way.features.features]
        before = project.store.file_sizes()
        sizes = quality.file_sizes(project.git, verdict.candidate, under_way.session, before, files)
        alerts = quality.alerts(sizes, before, project.config.quality.max_file_lines)
        for alert in alerts:
            project.say(f"Warning: {alert['message']}")
        return Proof(
            passing=tuple(sorted(verdict.passing)),
            total=verdict.total,
            files_read=_read(verdict.suite) if verdict.suite and verdict.suite.report else None,
            lint=lint,
            lint_introduced=introduced,
            file_sizes=sizes,
            file_alerts=tuple(alerts),
        )

    def _note_findings(
        self, under_way: OpenSession, verdict: Verdict, lint: quality.Lint | None, introduced: Mapping[str, int]
    ) -> None:
        for finding in verdict.findings:
            message = finding.message
            if finding.code == "lint" and lint is not None:
                new = f"New: {records.shown_kinds(introduced)}; " if introduced else "None is new; "
                message = (message if introduced else "Lint errors.") + f" {new}{lint.total} in all."
            level = "critical" if finding.severity == CRITICAL else "important"
            under_way.event(self._project, finding.code, level, message=message)
            if finding.severity != CRITICAL:
                self._project.say(f"Warning: {message}")


def item_of(under_way: OpenSession) -> str:
    return "cleanup" if under_way.feature_id is None else str(under_way.feature_id)


def _step(judged: JudgedStep, log: str | None) -> VerdictStep:
    run = judged.run
    counted = run.report if run else None
    return VerdictStep(
        step=judged.step,
        result=judged.state,
        command=run.command if run else None,
        exit=run.exit_code if run else None,
        passed=len(counted.passing) if counted else None,
        failed=len(counted.failing) if counted else None,
        seconds=round(judged.seconds, 3) if judged.seconds is not None else None,
        log=log,
    )


class _Steps:
    """Printer that reports the steps of a verification (UAH-046)."""

    def __init__(self, project: Project, test_file: str, known: frozenset[str], began: Callable[[str], None]) -> None:
        self._say = project.say
        self._began = began
        self._known = known
        self._names = {
            "proof": f"running {test_file}",
            "suite": "checking for regressions",
            "older data": "checking for regressions with the data as it was",
            "cross-check": "running old and new tests together",
            "red": "checking that the tests fail without the work",
            "twins": "checking that the tests can fail",
            "outside": "checking that functions answer alike outside of tests",
            "lint": "lint check",
        }

    def on_step(self, step: str, state: str, run: Run | None) -> None:
        if state == "started":
            self._began(step)
        name = self._names.get(step)
        if name and state != "started":
            word = {"warned": "WARNING" if step == "lint" else "PASSED with a warning"}.get(state, state.upper())
            self._say(f"Verifying: {name}... {word}{self._counts(step, state, run)}")

    def _counts(self, step: str, state: str, run: Run | None) -> str:
        if step != "suite" or run is None or run.report is None:
            return ""
        held = len(self._known & run.report.passing)
        if state == "failed":
            return f": {held} of {len(self._known)} known tests still pass"
        still = "known test still passes" if held == 1 else "known tests still pass"
        text = f": {held} {still}" if self._known else ": no test was known to pass before"
        others = len(run.report.failing - self._known)
        does = "does" if others == 1 else "do"
        return text + (f", {others} that did not pass before {does} not count" if others else "")


def _read(run: Run) -> tuple[str, ...]:
    return tuple(guard.read_by_tests(run.report.opened)) if run.report else ()


def _suite(run: Run) -> Suite:
    cases = dict(run.report.cases) if run.report else {}
    lines = [line for line in run.output.splitlines() if line.strip()]
    return Suite(
        passing=frozenset(i for i, outcome in cases.items() if outcome == "passed"),
        failing=frozenset(i for i, outcome in cases.items() if outcome in ("failed", "error")),
        total=len(cases),
        problem=run.problem,
        first_error=next((line[1:].strip() for line in lines if line.startswith("E  ")), "".join(lines[-1:])[:300]),
        files_read=_read(run),
    )
