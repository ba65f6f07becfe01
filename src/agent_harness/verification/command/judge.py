"""Judges a plain shell command on a candidate commit: did the work really pass, and by the proof that was agreed on?

The order answers the cheap question first: what the candidate changes of the files that the command names or loads;
then the command on the candidate, in a checkout of our own; where it fails there, the command in the folder itself, so
that a person reads which of the two it is; where it passes, the command on the code before and on sabotaged twins, and
calls of the work outside of tests.

Each pytest that the command starts runs with the witness of ``runner``, where it can be loaded: an exit status of 0 is
believed only with whole runs behind it, and tests that are skipped while they run, by no word of the tests that a
person wrote, are no proof.

In a folder that is in no git work tree nothing can be checked out: what decides about the work there is kept as it was,
and compared; the command runs in the folder itself, and there is no code before to ask.
"""

import base64
import binascii
import hashlib
import os
import posixpath
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Self

from agent_harness.errors import HarnessError
from agent_harness.kernel import files, process
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.objects import Objects
from agent_harness.kernel.git.status import matcher
from agent_harness.kernel.process.sandbox import AUTO, SandboxSettings
from agent_harness.kernel.redact import redact
from agent_harness.kernel.temporary import TemporaryFolder
from agent_harness.verification import twins
from agent_harness.verification.changes import LIMIT_BYTES, CandidateChanges, FileChange, Tree, between, tree_at
from agent_harness.verification.check import KEEP_GOING, Command, parse
from agent_harness.verification.command.guard import ALLOWED_BY, findings_on, is_test_side, moved_under
from agent_harness.verification.command.named_files import Named, joined, named_by
from agent_harness.verification.command.watched import WatchedRun, Watching, run_watched
from agent_harness.verification.guard import file_of, is_read, variables_in
from agent_harness.verification.outside import difference, plain_variables_for, plainly
from agent_harness.verification.runner.environment import IN_PLACE, WORKTREE
from agent_harness.verification.runner.execution import Reach, Stop, reach_of_checkout, run_command
from agent_harness.verification.runner.installed_changes import Differences
from agent_harness.verification.runner.lending import (
    ignored_paths,
    import_folders,
    left_behind,
    lendable,
    mapped_in,
    without,
)
from agent_harness.verification.runner.testreport import PASSED, SKIPPED, Calls, RecordedCall, Report
from agent_harness.verification.runner_config import is_conftest, is_runner_config, is_test_file
from agent_harness.verification.sources import with_failing_tests
from agent_harness.verification.verdict import CRITICAL, WARN, Finding, Replayed
from agent_harness.verification.workspace import Edits, Overlay, Workspace, workspace

__all__ = [
    "CommandCheck",
    "CommandVerdict",
    "FAST",
    "GREEN",
    "KeptFiles",
    "NORMAL",
    "NOT_RUN",
    "OFF",
    "RED",
    "REJECT",
    "Remembered",
    "STRICT",
    "TELL",
    "examine_command",
    "examine_tests",
    "judge_command",
    "judge_folder",
    "keep",
    "run_at",
    "run_in_place",
]
RED, GREEN, NOT_RUN = "red", "green", "not_run"
_MOST_KEPT = 1000  # answers kept, the newest
OFF, TELL, REJECT = "off", "tell", "reject"
STRICT, NORMAL, FAST = "strict", "normal", "fast"
_TWIN_LEAST_SECONDS, _TWIN_TIMES = 30.0, 4  # how long the command may take on a twin, against its own time
_TWIN_FAILURES = 5  # after which a run on a twin of the work ends
_MOST_OTHERS = 200
_MOST_EXPECTING = 5  # test files that are named by themselves, and get a twin that expects other values
_RUNS_NOTHING = frozenset({"--collect-only", "--co", "--fixtures", "--markers", "--version", "--help", "-h"})
_PYTEST = re.compile(r"(?<![\w-])py\.?test(-3(\.\d+)?)?(?![\w/-])")  # a word, and no folder
_WITHOUT_PYTEST = (
    "pytest did not start, or not with our plugin; on the code before it did. A task that is meant to change how its "
    "tests are run names the files that lead to them in validation.may_change"
)
_WENT_ON = "a pytest failed, and the command went on as if it had not; on the code before it never did"
_PARAMETERS = re.compile(r"(\.py::[\w:]+)\[[^\]\s'\"]*\]")  # behind the id of a test
_SHOWN = 3  # names written out in a message
_MOST_MOVED = 10  # test files; each costs a run
_MOST_FILES = 20_000  # paths of a folder that are looked at
_MOST_BYTES = 16 * 1024 * 1024  # contents of a folder that are kept
_PASSED_OVER = frozenset(
    {".git", ".hg", ".svn", ".harness", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox", ".pytest_cache"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFiles:
    """The paths of a folder, and the contents of those that decide."""

    paths: frozenset[str]
    contents: Mapping[str, bytes]

    def as_record(self) -> dict[str, Any]:
        """The members of the JSON record."""
        texts = {path: base64.b64encode(content).decode() for path, content in sorted(self.contents.items())}
        return {"paths": sorted(self.paths), "contents": texts}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self | None:
        """What ``as_record`` wrote; ``None`` for anything else."""
        paths, contents = record.get("paths"), record.get("contents")
        if not isinstance(paths, list) or not isinstance(contents, dict):
            return None
        try:
            kept = {str(path): base64.b64decode(text, validate=True) for path, text in contents.items()}
        except (TypeError, ValueError, binascii.Error):
            return None
        return cls(paths=frozenset(map(str, paths)), contents=kept)


class Remembered:
    """What is known of commands on the code before, in one file; ``None`` as its path remembers nothing.

    Kept outside the project, by tree and command, so that the same question is asked once. A record that is lost or was
    altered costs a run, or at worst a wrong remark: it decides nothing alone unless ``requires_red`` says ``reject``.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._path = os.fspath(path) if path else None

    def get(self, tree: str, folder: str, command: str) -> str | None:
        """``RED`` or ``GREEN`` as it was found before."""
        found = self._read().get(_key(tree, folder, command))
        return found if found in (RED, GREEN) else None

    def put(self, tree: str, folder: str, command: str, answer: str) -> None:
        """Remembers an answer; a folder that cannot be written is passed over."""
        if self._path is None:
            return
        known = self._read()
        known.pop(key := _key(tree, folder, command), None)
        kept = dict(list(known.items())[-_MOST_KEPT + 1 :])
        try:
            files.write_json(self._path, {**kept, key: answer})
        except OSError:
            return

    def _read(self) -> dict[str, Any]:
        try:
            return files.read_json(self._path) if self._path else {}
        except (OSError, HarnessError):
            return {}


def _key(tree: str, folder: str, command: str) -> str:
    return hashlib.sha256("\0".join((tree, folder, command)).encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCheck:
    """A command that proves something, and how strictly."""

    command: str  # for ``sh -c``
    timeout_seconds: float = 300.0
    isolation: str = WORKTREE
    requires_red: str = TELL  # what becomes of a command that passes on the code before: OFF, TELL, REJECT
    may_change: tuple[str, ...] = ()  # patterns of files that the work is meant to change
    sandbox: SandboxSettings = AUTO
    in_place_setting: str = "isolation: in_place"  # for people: what makes the command run in the folder
    others: tuple[str, ...] = ()  # commands that prove what comes later: what they stand on is not free either
    trust: str = NORMAL  # FAST: no sabotaged twins; STRICT: what they show rejects whoever wrote the tests
    installed: Differences = field(
        default_factory=Differences
    )  # what changed where tests run since the work began, but for may_change

    @property
    def variables(self) -> dict[str, str]:
        """What keeps each run from loading code that came with the work, and that is none of it."""
        return {"PYTEST_ADDOPTS": self.installed.blocking} if self.installed.plugins else {}

    @property
    def on_installed(self) -> list[Finding]:
        """What speaks against a run in what is installed now."""
        return [
            replace(each, message=f"{each.message.rstrip('.')}; {ALLOWED_BY}") if each.severity == CRITICAL else each
            for each in self.installed.findings
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandVerdict:
    """What became of the command."""

    passed: bool  # it ended with 0, and no finding rejects
    findings: tuple[Finding, ...] = ()
    output: str = ""  # the last 64 KiB, secrets masked
    seconds: float = 0.0
    exit_code: int | None = None  # None: not run, timed out or stopped
    timed_out: bool = False
    over_limit: str = ""  # what it took of the machine that it may not, as the end of a sentence
    ran: bool = False
    red_before: str = NOT_RUN
    where: str = WORKTREE
    report: Report | None = None  # of a plain pytest command in a checkout
    replayed: Replayed | None = None  # calls of the work, made again outside of its tests

    @property
    def rejected(self) -> tuple[Finding, ...]:
        """The findings that reject, whatever the exit status."""
        return tuple(finding for finding in self.findings if finding.severity == CRITICAL)

    def found(self, code: str) -> Finding | None:
        """The first finding with this code."""
        return next((finding for finding in self.findings if finding.code == code), None)


def judge_command(
    git: Git,
    check: CommandCheck,
    *,
    base: str,
    candidate: str,
    remembered: Remembered | None = None,
    stop: Stop | None = None,
) -> CommandVerdict:
    """The verdict on ``candidate``; ``base`` is a commit of the tree at the claim.

    ``git.root`` is the project, where the command runs. ``remembered`` holds what is known of the code before. ``stop``
    is asked ten times a second while a command runs. Raises ``Refused`` when there is no place for a checkout, and
    ``GitFailed`` when a commit cannot be read.
    """
    with git.objects() as objects:
        case = _Judgement(git, objects, check, base, candidate, remembered or Remembered(None), stop)
        return case.verdict()


def examine_command(git: Git, check: CommandCheck, *, base: str, candidate: str) -> list[Finding]:
    """What speaks against a candidate before anything of it is run."""
    with git.objects() as objects:
        return _Judgement(git, objects, check, base, candidate, Remembered(None), None).look()


def examine_tests(
    git: Git, check: CommandCheck, *, base: str, candidate: str, stop: Stop | None = None
) -> list[Finding]:
    """What speaks against a command that has passed in its folder: run again in a checkout, if it may run pytest.

    A run that is not believed, tests that were skipped, tests that cannot fail. Nothing where it fails in a checkout,
    which lacks what no commit holds.
    """
    with git.objects() as objects:
        case = _Judgement(git, objects, check, base, candidate, Remembered(None), stop)
        case.look()
        if not case.may_run_pytest(parse(check.command)):
            return []
        done = case.in_checkout()
        if done.passed and done.report and check.trust != FAST:
            done = case.sabotaged(done)
            done = case.outside(done) if done.passed else done
    return list(done.rejected)


def run_at(git: Git, commit: str, check: CommandCheck, *, stop: Stop | None = None) -> CommandVerdict:
    """Runs the command in a checkout of a commit, and compares it with nothing: what it proves was agreed on before.

    Raises as ``judge_command``.
    """
    with git.objects() as objects:
        case = _Judgement(git, objects, check, commit, commit, Remembered(None), stop)
        case.look()
        return case.in_checkout()


def judge_folder(
    root: str | os.PathLike[str], check: CommandCheck, *, kept: KeptFiles | None, stop: Stop | None = None
) -> CommandVerdict:
    """The verdict on a folder that is in no work tree; ``kept`` is what decided there at the claim, if known."""
    found = check.on_installed
    if kept is not None:
        named, changes = changes_since(os.fspath(root), check.command, kept)
        found += findings_on(changes, named, may_change=check.may_change)
    if any(finding.severity == CRITICAL for finding in found):
        return CommandVerdict(passed=False, findings=tuple(found), where=IN_PLACE)
    done = run_in_place(root, check, stop=stop)
    if not done.passed and check.installed.plugins and run_in_place(root, _loading(check), stop=stop).passed:
        found.append(_needs(check))
    return replace(done, findings=(*found, *done.findings))


def _loading(check: CommandCheck) -> CommandCheck:
    """The same with what came with the work: plugins of pytest, and files in folders that are lent."""
    return replace(check, installed=replace(check.installed, plugins={}, lent={}))


def _needs(check: CommandCheck) -> Finding:
    """It passes only with what came with the work, which nobody has allowed yet."""
    if check.installed.lent:
        paths = sorted(check.installed.lent.values())
        message = (
            f"The command passes only with what came into installed dependencies and is in no commit, such as "
            f"{paths[0]}: install it with a lock file, or {ALLOWED_BY}"
        )
        return Finding("dependency_needed", CRITICAL, message, {"path": paths[0], "paths": paths[:50]})
    paths = sorted(each.path for each in check.installed.plugins.values())
    names = ", ".join(check.installed.blocked)
    message = (
        f"The command passes only with the plugin {names} of pytest, which came with the work and is loaded in every "
        f"run of tests: do without it, or {ALLOWED_BY} ({paths[0]})"
    )
    return Finding("plugin_needed", CRITICAL, message, {"paths": paths})


def run_in_place(root: str | os.PathLike[str], check: CommandCheck, *, stop: Stop | None = None) -> CommandVerdict:
    """Runs the command in a folder as it is, and asks nothing else: for work that is in nobody's hands."""
    with TemporaryFolder() as compiled:
        # compiled files that lay in the folder would be part of the next commit
        variables = process.scrubbed_environment({"PYTHONPYCACHEPREFIX": compiled.path} | check.variables)
        reach = Reach((Path(root), Path(compiled.path)), (), check.sandbox)
        return _verdict(_ran(check, Path(root), variables, stop, reach), IN_PLACE)


@dataclass(slots=True)
class _Judgement:
    """One judgement while it is made."""

    git: Git
    objects: Objects
    check: CommandCheck
    base: str
    candidate: str
    remembered: Remembered
    stop: Stop | None
    named: Named = field(default_factory=Named)
    tree: Tree | None = None  # of the claim, once it was looked at
    calls: Sequence[Calls] = ()  # of the work, that were noted by each pytest while the command ran
    changes: CandidateChanges | None = None
    moved: Mapping[str, str] = field(default_factory=dict)  # older test files that are the same under another path
    ignored: list[str] | None = None
    known_before: WatchedRun | None = None  # with the witness on the code before

    def verdict(self) -> CommandVerdict:
        """The whole way."""
        found = self.look()
        if any(finding.severity == CRITICAL for finding in found):
            return CommandVerdict(passed=False, findings=tuple(found), where=self.check.isolation)
        if self.check.isolation == IN_PLACE:
            done = run_in_place(self.git.root, self.check, stop=self.stop)
        else:
            done = self.on_candidate()
        came = self.check.installed.plugins or self.check.installed.lent
        if not done.passed and came and self.passes_with_plugins():
            others = [each for each in done.findings if each.code != "passes_only_in_place"]
            done = replace(done, findings=(*others, _needs(self.check)))
        done = replace(done, findings=(*found, *done.findings))
        if done.passed and (lost := self.no_longer_run()):
            return replace(done, passed=False, findings=(*done.findings, lost))
        if done.passed and self.check.requires_red != OFF:
            done = self.weighed(done)
        if done.passed and done.report and done.red_before != GREEN and self.check.trust != FAST:
            done = self.sabotaged(done)
            done = self.outside(done) if done.passed else done
        return done

    def passes_with_plugins(self) -> bool:
        """Whether the command passes with what came with the work: plugins of pytest, and files that are lent."""
        if self.check.isolation == IN_PLACE:
            return run_in_place(self.git.root, _loading(self.check), stop=self.stop).passed
        return replace(self, check=_loading(self.check)).in_checkout().passed

    def look(self) -> list[Finding]:
        """What the candidate changes of the files that decide, and what changed around them."""
        tree = self.tree = tree_at(self.git, self.objects, self.base)
        self.named = named_by(self.check.command, tree)
        named = self.named
        later = joined([named_by(each, tree) for each in self.check.others[:_MOST_OTHERS]])
        self.changes = between(
            self.git,
            self.objects,
            self.base,
            self.candidate,
            wanted=lambda path: _decides(path, named) or _decides(path, later),
        )
        moved = moved_under(self.changes, named)
        if self.check.isolation != IN_PLACE and len(moved) <= _MOST_MOVED:
            self.moved = moved
        found = findings_on(self.changes, named, may_change=self.check.may_change, moved=self.moved)
        known = {each.data.get("path") for each in found if each.severity == CRITICAL}
        gone = moved_under(self.changes, later)
        more = findings_on(self.changes, later, may_change=self.check.may_change, moved=gone) if later.texts else []
        others = (_of_another(each) for each in more if each.data.get("path") not in known)
        return [*self.check.on_installed, *found, *others]

    def no_longer_run(self) -> Finding | None:
        """A test file that moved to where the command does not run its tests: it passes also while they all fail."""
        texts = {change.path: change.after for change in self.changes.files} if self.changes else {}
        for old, new in self.moved.items():
            failing = Edits({new: with_failing_tests(texts[new] or b"")})
            with self.checkout(self.candidate, (failing,)) as (space, variables):
                done = _ran(self.check, space.cwd, variables, self.stop, self.reach(space))
            if done.exit_code == 0 or done.stopped:
                message = f"{old} is {new} now, and the command does not run its tests there: it passes while they fail"
                return Finding("protected_test_changed", CRITICAL, message, {"path": old, "reasons": []})
        return None

    # ---- on the candidate ----------------------------------------------------------------------------------------

    def changes_of_python(self) -> CandidateChanges:
        """What the candidate changes, with the contents of Python files."""
        return between(self.git, self.objects, self.base, self.candidate, wanted=lambda path: path.endswith(".py"))

    def on_candidate(self) -> CommandVerdict:
        """The command in a checkout, and in the folder too where only that can say why it failed."""
        done = self.in_checkout()
        if done.passed or done.exit_code == 0 or done.timed_out or done.over_limit or not self.folder_differs():
            return done
        here = run_in_place(self.git.root, self.check, stop=self.stop)
        return replace(done, findings=(self.only_here(done),)) if here.passed else done

    def in_checkout(self) -> CommandVerdict:
        """The command in a checkout."""
        asks = self.check.trust != FAST and self.may_run_pytest(parse(self.check.command))
        functions = twins.functions_by_line(self.work_of(self.changes_of_python())) if asks else {}
        with self.checkout(self.candidate) as (space, variables):
            asked = Watching(seconds=self.check.timeout_seconds, watched=functions)
            ran = self.tested(space, variables, asked)
            self.calls = ran.calls
            changed = space.disturbed() if ran.report else []
        done = replace(_verdict(ran.done, WORKTREE), report=ran.report)
        done = replace(done, output=done.output.replace(str(space.cwd), str(self.git.root)))
        if not done.passed:
            return done
        problem = f"the run changed the tests themselves: {changed[0]}" if changed else ran.problem
        found = [self.not_believed(problem)] if problem else self.gave_up(ran.report) if ran.report else []
        return replace(done, passed=not found, findings=tuple(found))

    def tested(self, space: Workspace, variables: dict[str, str], asked: Watching | None = None) -> WatchedRun:
        """The command in a checkout; with the witness where it may run pytest, and that can be loaded.

        What it makes of tests that fail is its own affair where it does so on the code before as well. One that fails
        before any pytest has taken our options is run without them, since they may be the reason. One that passes
        without any is believed by its exit status, unless a pytest takes them on the code before.
        """
        command, asked = parse(self.check.command), asked or Watching(seconds=self.check.timeout_seconds)
        if not self.may_run_pytest(command):
            return self.unwatched(space, variables)
        run = self.watched(command, space, variables, asked)
        if run.started and run.done.exit_code == 0 and run.goes_on and not (command.pytest or run.problem):
            return run if self.watched_before(command).goes_on else replace(run, report=None, problem=_WENT_ON)
        if run.started or not run.ended:
            return run
        if run.done.exit_code:
            run = replace(run, done=self.unwatched(space, variables).done)
        return replace(run, problem=_WITHOUT_PYTEST) if run.done.exit_code == 0 and self.has_to_start(command) else run

    def unwatched(self, space: Workspace, variables: dict[str, str]) -> WatchedRun:
        """The command in a checkout as it is."""
        return WatchedRun(_ran(self.check, space.cwd, variables, self.stop, self.reach(space)))

    def has_to_start(self, command: Command) -> bool:
        """Whether pytest begins on the code before, and nobody has released what leads to it there."""
        is_free = matcher(self.check.may_change)
        leading = [path.encode("utf-8", "surrogateescape") for path in self.changed_paths() if self.named.loads(path)]
        return not any(map(is_free, leading)) and self.watched_before(command).started

    def watched_before(self, command: Command) -> WatchedRun:
        """The command with the witness on the code before; run once, where something asks for it."""
        if self.known_before is None:
            with self.checkout(self.base) as (space, variables):
                asked = Watching(options=KEEP_GOING, seconds=self.check.timeout_seconds)
                self.known_before = self.watched(command, space, variables, asked)
        return self.known_before

    def may_run_pytest(self, command: Command) -> bool:
        """Whether the command, or a script or a makefile that it leads to, speaks of pytest."""
        if _RUNS_NOTHING & {*command.words}:
            return False
        if command.pytest or any(_PYTEST.search(text) for text in self.named.texts):
            return True
        read = (self.tree.read(path) or b"" for path in sorted(self.named.scripts)) if self.tree else ()
        return any(_PYTEST.search(content.decode("utf-8", "replace")) for content in read)

    def watched(self, command: Command, space: Workspace, variables: dict[str, str], asked: Watching) -> WatchedRun:
        """The same with the witness."""
        run = run_watched(
            command,
            space,
            variables,
            asked,
            project=Path(self.git.root),
            kept=[str(Path(self.git.root) / each) for each in self.lent()],
            scripts=self.named.files,
            blocked=self.check.installed.blocked,
            reach=self.reach(space),
            stop=self.stop,
        )
        for each in run.calls:
            each.python = each.python.replace(str(space.cwd), str(self.git.root))  # of what is lent
        return run

    def not_believed(self, problem: str) -> Finding:
        """An exit status of 0 without a run of tests behind it."""
        message = f"The command ended with 0, but its run is not believed: {problem}"
        return Finding("proof_failed", CRITICAL, message, {"problem": problem})

    def gave_up(self, report: Report) -> list[Finding]:
        """Tests that were skipped while they ran, where the tests of before do not speak of it; no test at all."""
        if not report.passing:
            return [self.not_believed("no test passed")]
        tree = self.tree or tree_at(self.git, self.objects, self.base)
        silent = {
            node
            for node in report.gave_up
            if not any(_speaks_of_skips(path, tree) for path in (file_of(node), *self.files_of([node])))
        }
        if silent:  # what a plugin, or a module beside the tests, skips was skipped before
            silent -= self.watched_before(parse(self.check.command)).seen.gave_up
        if not silent:
            return []
        shown = ", ".join(sorted(silent)[:_SHOWN])
        message = f"Tests were skipped while they ran, and prove nothing: {shown}; only a mark on a test may skip it"
        return [Finding("proof_failed", CRITICAL, message, {"failing": sorted(silent)[:50]})]

    # ---- on sabotaged twins --------------------------------------------------------------------------------------

    def sabotaged(self, done: CommandVerdict) -> CommandVerdict:
        """The same verdict, with what speaks against tests that cannot fail.

        Tests that a person wrote and that notice nothing are told of; a program that passes whatever they expect, and
        tests that the work brought along, reject.
        """
        changes = self.changes_of_python()
        own = [change for change in changes.files if change.status != "D" and is_test_side(change.path, self.named)]
        work = twins.of_work(self.work_of(changes))
        if not work.twins:
            return done
        given = self.given_tests({change.path for change in own})
        expecting = twins.of_tests([*own, *given])
        blind = [expecting.what] if expecting and self.expects_nothing(expecting, done) else []
        rejects = bool(blind)
        if not blind and not (work.beyond and expecting):
            blind, noticed = self.not_noticed(work.twins, done)
            rejects = self.check.trust == STRICT or any(is_test_file(change.path) for change in own)
            more = twins.of_tests(self.as_they_were(noticed)) if not given else None
            if more and self.expects_nothing(more, done):
                blind, rejects = [more.what], True
        if not blind:
            return done
        message = f"The tests cannot fail: they stay green when {', and when '.join(blind)}"
        finding = Finding("weak_test", CRITICAL if rejects else WARN, message, {"twins": blind})
        return replace(done, passed=not rejects, findings=(*done.findings, finding))

    def work_of(self, changes: CandidateChanges) -> list[FileChange]:
        """The changed Python files that are no tests, and that no test stands on."""
        sides = (change for change in changes.files if not is_conftest(change.path))
        return [change for change in sides if not is_test_side(change.path, self.named)]

    def given_tests(self, known: Collection[str]) -> list[FileChange]:
        """Test files that the command names by themselves, as they were at the claim and are still."""
        named = [path for path in sorted(self.named.tests) if path not in known and is_test_file(path)]
        return self.as_they_were(named)

    def as_they_were(self, paths: Collection[str]) -> list[FileChange]:
        """The first of these files, as they were at the claim."""
        known = [(path, self.tree.read(path)) for path in sorted(paths)[:_MOST_EXPECTING]] if self.tree else []
        return [FileChange(path=path, status="M", before=text, after=text) for path, text in known if text]

    def on_twin(
        self, twin: twins.Twin, done: CommandVerdict, *options: str, select: Collection[str] = ()
    ) -> WatchedRun:
        """The command on a twin; one that hangs has its end."""
        limit = min(self.check.timeout_seconds, _TWIN_LEAST_SECONDS + _TWIN_TIMES * done.seconds)
        with self.checkout(self.candidate, (Edits(twin.files),)) as (space, variables):
            return self.tested(space, variables, Watching(options=options, seconds=limit, select=select))

    def expects_nothing(self, twin: twins.Twin, done: CommandVerdict) -> bool:
        """Whether most of the tests that expect other values in this twin pass nevertheless.

        They are asked for without their parameters, of which those values may be part.
        """
        ours = {twins.function_of(node) for node in twin.asked(done.report.cases)} if done.report else set()
        whole = replace(self, check=replace(self.check, command=_PARAMETERS.sub(r"\1", self.check.command)))
        cases = whole.on_twin(twin, done, "--maxfail=0", select=ours).seen.cases if ours else {}
        asked = [node for node in twin.asked(cases) if cases[node] != SKIPPED]
        return len([node for node in asked if cases[node] == PASSED]) * 2 > len(asked)

    def not_noticed(self, sabotaged: Sequence[twins.Twin], done: CommandVerdict) -> tuple[list[str], set[str]]:
        """The twins of the work that stay green, where no test notices any of them: a crash on the way is no test.

        Else none, and the files of the tests that notice one.
        """
        green: list[str] = []
        for twin in sabotaged:
            run = self.on_twin(twin, done, f"--maxfail={_TWIN_FAILURES}")
            if run.seen.asserted or not (run.report or run.seen.failing):
                return [], self.files_of(run.seen.asserted)
            green += [twin.what] if run.done.exit_code == 0 else []
        return green, set()

    def files_of(self, nodes: Iterable[str]) -> set[str]:
        """The files of the tests with these ids, which may begin in another folder than the project's."""
        files = {file_of(node) for node in nodes}
        known = self.tree.paths if self.tree else ()
        return {path for path in known for file in files if is_test_file(path) and twins.is_one(path, file)}

    # ---- outside of tests ----------------------------------------------------------------------------------------

    def outside(self, done: CommandVerdict) -> CommandVerdict:
        """The same verdict, with what speaks against work that answers otherwise where no test runner is."""
        command, lent, known = parse(self.check.command), self.lent(), self.check.installed.pythons
        at = max(range(len(self.calls)), key=lambda each: len(self.calls[each].recorded), default=0)
        seen = self.calls[at] if self.calls else Calls()
        if not seen.recorded or not seen.python or (known and seen.python not in known):
            return done
        limit = min(self.check.timeout_seconds, _TWIN_LEAST_SECONDS + _TWIN_TIMES * done.seconds)
        root = Path(self.git.root)
        tree = self.tree or tree_at(self.git, self.objects, self.base)
        conftests = [path for path in tree.paths if is_conftest(path)]
        spoken = (tree.read(path) or b"" for path in tree.paths if is_conftest(path) or is_runner_config(path))
        named = {name for text in spoken for name in variables_in(text)}
        with (
            self.checkout(self.candidate) as (judged, variables),
            self.neutral(lent) as plain,
        ):
            around = _variables(root, plain, lent)
            imports = [*import_folders(mapped_in(root, lent, around.get("PATH", "")), plain), *seen.paths]
            own = plain_variables_for(around, command.variables, seen, named)

            def from_a_test(calls: Sequence[RecordedCall]) -> Sequence[str | None]:
                again = self.watched(command, judged, variables, Watching(seconds=limit, again=calls)).calls
                return again[at].answers if len(again) == len(self.calls) else []

            def from_a_program(calls: Sequence[RecordedCall], first: Sequence[str]) -> Sequence[str | None]:
                return plainly(
                    plain,
                    seen.python,
                    calls,
                    imports=imports,
                    variables=own,
                    reach=self.reach(plain),
                    first=first,
                    timeout_seconds=limit,
                    stop=self.stop,
                )

            found = difference(seen, from_a_test, from_a_program, conftests)
        done = replace(done, replayed=found)
        if not found.told:
            return done
        finding = Finding("answers_differ", CRITICAL, found.told, {"calls": list(found.names)})
        return replace(done, passed=False, findings=(*done.findings, finding))

    @contextmanager
    def checkout(
        self, commit: str, overlays: Sequence[Overlay | Edits] = ()
    ) -> Iterator[tuple[Workspace, dict[str, str]]]:
        """A checkout with what the project lends it, and the variables for a command in it."""
        lent = self.lent()
        with workspace(
            self.git, commit, overlays=overlays, lent=lent, base=self.base, without=self.left_out()
        ) as space:
            variables = _variables(Path(self.git.root), space, lent) | self.check.variables
            if self.check.installed.compiled:
                variables["PYTHONPYCACHEPREFIX"] = str(space.private / "compiled")
            yield space, variables

    def neutral(self, lent: Sequence[str]) -> AbstractContextManager[Workspace]:
        """A checkout of the candidate that says nothing of whose it is."""
        return workspace(self.git, self.candidate, lent=lent, neutral=True, base=self.base, without=self.left_out())

    def left_out(self) -> tuple[str, ...]:
        """What of the lent folders came or changed while the work was done, and by no lock file."""
        return without(self.check.installed.lent.values(), self.changed_paths())

    def changed_paths(self) -> list[str]:
        """What the candidate changes."""
        return [change.path for change in (self.changes.files if self.changes else ())]

    def lent(self) -> tuple[str, ...]:
        """Installed dependencies of the project."""
        if self.ignored is None:
            self.ignored = ignored_paths(self.git)
        return lendable(Path(self.git.root), self.ignored)

    def reach(self, space: Workspace) -> Reach:
        """Of a run in a checkout, to which the project lends what is installed."""
        return reach_of_checkout(space, Path(self.git.root), self.lent(), self.check.sandbox)

    def folder_differs(self) -> bool:
        """Whether the folder has anything to the command that a checkout of the same files has not."""
        texts = " ".join(self.named.texts)
        speaks_of_it = str(self.git.root) in texts or "git" in texts or bool(self.named.outside)
        more = bool(self.ignored and (self.lent() or left_behind(self.ignored, ())))
        return more or speaks_of_it or bool(self.changes and self.changes.submodules)

    def only_here(self, done: CommandVerdict) -> Finding:
        """It fails there and passes here: said as exactly that."""
        missing = left_behind(self.ignored or (), self.lent())
        names = ", ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
        why = f"; what is ignored here is not there: {names}" if missing else ""
        message = (
            f"The command fails in a checkout of the work (exit {done.exit_code}) and passes in the folder{why}. "
            f"Commit what it needs, or let it run in the folder: {self.check.in_place_setting}"
        )
        return Finding("passes_only_in_place", CRITICAL, message, {"missing": missing[:50]})

    # ---- on the code before --------------------------------------------------------------------------------------

    def weighed(self, done: CommandVerdict) -> CommandVerdict:
        """The same verdict, with what the command said of the code before."""
        answer = self.before()
        if answer != GREEN:
            return replace(done, red_before=answer)
        rejects = self.check.requires_red == REJECT
        message = "The command passed on the code before as well: that it passes now proves nothing"
        finding = Finding("green_before", CRITICAL if rejects else WARN, message)
        return replace(done, passed=not rejects, red_before=GREEN, findings=(*done.findings, finding))

    def before(self) -> str:
        """What the command says of the tree at the claim; with the candidate's new tests, where it runs tests."""
        trees = [self.objects.tree_of(commit) for commit in (self.base, self.candidate)]
        if trees[0] == trees[1]:
            return GREEN
        answer = self.asked(trees[0], "", ())
        tests = [c.path for c in self.changes.files if is_test_side(c.path, self.named)] if self.changes else []
        if answer == GREEN and tests:
            answer = self.asked(trees[0], trees[1], (Overlay(self.candidate, tests),))
        return answer

    def asked(self, tree: str, tests_of: str, overlays: Sequence[Overlay]) -> str:
        """RED or GREEN, from the record or by a run."""
        folder = f"{os.fsdecode(self.git.prefix())}\0{tests_of}"
        known = self.remembered.get(tree, folder, self.check.command)
        if known is not None:
            return known
        with self.checkout(self.base, overlays) as (space, variables):
            done = _ran(self.check, space.cwd, variables, self.stop, self.reach(space))
        if done.stopped or done.over_limit:
            return NOT_RUN
        answer = GREEN if done.exit_code == 0 else RED
        self.remembered.put(tree, folder, self.check.command, answer)
        return answer


def _of_another(finding: Finding) -> Finding:
    return replace(finding, message=finding.message.replace("this task", "another task of the list"))


# ---- one run -----------------------------------------------------------------------------------------------------


def _speaks_of_skips(file: str, tree: Tree) -> bool:
    """Whether a test file, or a conftest above it, spoke of skipping before the work began."""
    folders = [str(each) for each in PurePosixPath(file).parents]
    above = [posixpath.normpath(posixpath.join(each, "conftest.py")) for each in folders]
    return any(b"skip" in (tree.read(path) or b"") for path in (file, *above) if path in tree.paths)


def _ran(
    check: CommandCheck,
    cwd: Path,
    variables: dict[str, str],
    stop: Callable[[], bool] | None,
    reach: Reach,
) -> process.Completed:
    return run_command(
        check.command,
        cwd=cwd,
        variables=variables,
        timeout_seconds=check.timeout_seconds,
        stop=stop,
        reach=reach,
    )


def _verdict(done: process.Completed, where: str) -> CommandVerdict:
    message = f"The command {done.over_limit}, and was ended: that proves nothing, for the work or against it"
    return CommandVerdict(
        passed=done.exit_code == 0,
        findings=(Finding("over_limit", CRITICAL, message),) if done.over_limit else (),
        over_limit=done.over_limit,
        output=redact(done.output.decode("utf-8", "replace")),
        seconds=done.seconds,
        exit_code=done.exit_code,
        timed_out=done.timed_out,
        ran=True,
        where=where,
    )


def _variables(root: Path, space: Workspace, lent: Sequence[str]) -> dict[str, str]:
    """The variables of a run in a checkout: what leads into the project's folder leads into the checkout instead."""
    variables = process.scrubbed_environment()
    search = variables.get("PATH", os.defpath)
    imports = import_folders(mapped_in(root, lent, search), space)
    own = [space.moved(entry, root) for entry in variables.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if imports or own:
        variables["PYTHONPATH"] = os.pathsep.join(dict.fromkeys((*imports, *own)))
    variables["PATH"] = os.pathsep.join(space.moved(entry, root) for entry in search.split(os.pathsep))
    return {**variables, "PWD": str(space.cwd)}


# -- a folder without git ----------------------------------------------------------------------------------------------


def keep(root: str, command: str) -> KeptFiles:
    """What decides about work in a folder, as it is now; call it before the work begins."""
    tree = _tree(root)
    named = named_by(command, tree)
    contents: dict[str, bytes] = {}
    room = _MOST_BYTES
    for path in sorted(tree.paths):
        content = tree.read(path) if _decides(path, named) else None
        if content is not None and len(content) <= room:
            contents[path] = content
            room -= len(content)
    return KeptFiles(paths=frozenset(tree.paths), contents=contents)


def changes_since(root: str, command: str, kept: KeptFiles) -> tuple[Named, CandidateChanges]:
    """What the command names by the files that were kept, and how the folder differs from them."""
    before = Tree(kept.paths, kept.contents.get)
    named, now = named_by(command, before), _tree(root)
    changed = (_change(path, kept, now) for path in sorted({*kept.contents, *now.paths}) if _decides(path, named))
    changes = CandidateChanges(
        files=tuple(each for each in changed if each), before=kept.paths, after=frozenset(now.paths)
    )
    return named, changes


def _decides(path: str, named: Named) -> bool:
    return named.loads(path) or is_read(path) or is_test_side(path, named)


def _change(path: str, kept: KeptFiles, now: Tree) -> FileChange | None:
    is_link, before = path in now.links, kept.contents.get(path)
    after = now.read(path) if path in now.paths else None
    if path in kept.paths and before is None and not is_link:
        return None  # too large to be kept, or a link then as well
    if before == after and not is_link:
        return None
    status = "A" if path not in kept.paths else "M" if path in now.paths or is_link else "D"
    return FileChange(path=path, status=status, before=before, after=after, link=is_link)


def _tree(root: str) -> Tree:
    """The files of a folder, read without following a link."""
    place = Path(root)
    paths: dict[str, None] = {}
    links: dict[str, str] = {}
    for path in islice(_walk(place), _MOST_FILES):
        paths[path] = None
        if (place / path).is_symlink():
            links[path] = posixpath.normpath(posixpath.join(posixpath.dirname(path), str((place / path).readlink())))

    def read(path: str) -> bytes | None:
        full = place / path
        try:
            plain = stat.S_ISREG(full.lstat().st_mode) and full.stat().st_size <= LIMIT_BYTES
            return files.read_bytes(full) if plain else None
        except (OSError, HarnessError):
            return None

    return Tree(paths.keys(), read, links)


def _walk(root: Path) -> Iterator[str]:
    for folder, names, found in os.walk(root):
        names[:] = sorted(name for name in names if name not in _PASSED_OVER)
        below = Path(folder).relative_to(root)
        yield from (str(below / name) for name in sorted(found))
