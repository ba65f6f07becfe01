"""Runner for any validation command, in a separate checkout. If the command may start pytest, each pytest process loads
the run recorder of ``runner``, if possible. Exit status 0 is accepted only if the recorded runs are complete. A test
that is skipped while it runs proves nothing, unless the user's own tests mention skipping."""

import os
import posixpath
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Self

from agent_harness.kernel import process
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.status import matcher
from agent_harness.kernel.process.sandbox import AUTO, INTERFACE, OPEN, SandboxSettings, can_lay
from agent_harness.kernel.shell.reader import read
from agent_harness.kernel.shell.wrappers import program_at
from agent_harness.kernel.temporary import TemporaryFolder
from agent_harness.verification.changes import Tree
from agent_harness.verification.check import Command, parse
from agent_harness.verification.checkout import Checkout, Edits, Overlay, make_checkout
from agent_harness.verification.command.marks import unmarked
from agent_harness.verification.command.named_files import Named
from agent_harness.verification.command.watched import judged
from agent_harness.verification.guard import ALLOWED_BY, file_of
from agent_harness.verification.noticing.mutants import is_one
from agent_harness.verification.runner.environment import IN_PLACE, WORKTREE, search_path
from agent_harness.verification.runner.execution import (
    FolderAccess,
    RunAsked,
    Stop,
    TestStart,
    access_of_checkout,
    run_command,
    run_of,
)
from agent_harness.verification.runner.installed_changes import Differences
from agent_harness.verification.runner.linked_paths import (
    Mapped,
    ignored_paths,
    import_folders,
    left_behind,
    linkable,
    mapped_in,
    without,
)
from agent_harness.verification.runner.no_tests import ran_no_test
from agent_harness.verification.runner.testreport import PLUGIN_FOLDER
from agent_harness.verification.runner_config import is_test_file
from agent_harness.verification.runners import Runner, Told
from agent_harness.verification.verdict import CRITICAL, FAST, NORMAL, OFF, STRICT, TELL, Finding, Run, Strictness

_RUNS_NOTHING = frozenset({"--collect-only", "--co", "--fixtures", "--markers", "--version", "--help", "-h"})
_PYTEST = re.compile(r"(?<![\w-])py\.?test(-3(\.\d+)?)?(?![\w/-])")  # a word, and no folder
_WITHOUT_PYTEST = (
    "pytest did not start with the harness plugin, as it did on the base commit. If the task is meant to change how "
    "tests are run, list the files that start them in validation.may_change"
)
_WENT_ON = "a pytest run failed and the command continued, which it did not do on the base commit"
_UNTAGGED = "unset HARNESS_RUN_ID\n"
_SHOWN = 3  # names written out in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCheck:
    """Settings of a check, such as its command, time limit and strictness."""

    command: str  # for ``sh -c``
    timeout_seconds: float = 300.0
    isolation: str = WORKTREE
    requires_red: str = TELL  # consequence of a command that passes on the base commit: OFF, TELL, REJECT
    may_change: tuple[str, ...] = ()  # patterns of files that the work is meant to change
    sandbox: SandboxSettings = AUTO
    in_place_setting: str = "isolation: in_place"  # for people: what makes the command run in the folder
    asked: str = ""  # what the item says in words
    others: tuple[str, ...] = ()  # commands that prove what comes later: what they stand on is not free either
    trust: str = NORMAL  # FAST: no mutants; STRICT: what they show rejects whoever wrote the tests
    installed: Differences = field(
        default_factory=Differences
    )  # what changed where tests run since the work began, but for may_change

    @property
    def strictness(self) -> Strictness:
        return Strictness(
            requires_red=self.requires_red,
            mutants=self.trust != FAST,
            replay=self.trust != FAST,
            weak_rejects=self.trust == STRICT,
            timeout_seconds=self.timeout_seconds,
        )

    @property
    def alone(self) -> "CommandCheck":
        return replace(self, requires_red=OFF, trust=FAST)

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that keep pytest from loading plugins that were installed during the work."""
        return {"PYTEST_ADDOPTS": self.installed.blocking} if self.installed.plugins else {}

    @property
    def on_installed(self) -> list[Finding]:
        return [
            replace(each, message=f"{each.message.rstrip('.')}; {ALLOWED_BY}") if each.severity == CRITICAL else each
            for each in self.installed.findings
        ]


class CommandRunner(Runner):
    """Runner for any check command, also in a folder without git."""

    subject, passes_only, allowed_by = "The command", "The command passes only", ALLOWED_BY
    tests, item, ends_with = "The tests", "task", ""
    by_exit_status = True
    has_submodules = False  # which a checkout leaves empty
    asks_folder = True  # where it fails in a checkout, the folder is asked as well

    def __init__(
        self,
        git: Git,
        check: CommandCheck,
        *,
        base: str = "",
        named: Named | None = None,
        tree: Tree | None = None,
        stop: Stop | None = None,
    ) -> None:
        self.git, self.check, self._stop = git, check, stop
        self.changed: Collection[str] = ()  # what the candidate changes
        self.in_place = check.isolation == IN_PLACE
        self._base, self._named = base, named or Named()
        self._tree = tree or Tree((), lambda _: None)
        self._ignored: list[str] | None = None
        self._before: Run | None = None  # with the run recorder on the base commit
        self.watches = self._may_run_pytest(parse(check.command))

    def look_around(self) -> list[Finding]:
        return self.check.on_installed

    # ---- runs ----------------------------------------------------------------------------------------------------

    @contextmanager
    def place(
        self, commit: str, overlays: Sequence[Overlay | Edits] = (), *, neutral: bool = False
    ) -> Iterator[Checkout]:
        with make_checkout(
            self.git,
            commit,
            overlays=overlays,
            linked=self._linked(),
            neutral=neutral,
            base=self._base or None,
            without=self.left_out,
        ) as checkout:
            yield checkout

    def prove(self, commit: str, command: str, terms: RunAsked) -> Run:
        return self.run_here(terms.seconds) if self.in_place else super().prove(commit, command, terms)

    def run_here(self, seconds: float | None = None) -> Run:
        root = Path(self.git.root)
        with TemporaryFolder() as compiled:
            # compiled files that lay in the folder would be part of the next commit
            variables = process.scrubbed_environment({"PYTHONPYCACHEPREFIX": compiled.path} | self.check.variables)
            access = FolderAccess((root, Path(compiled.path)), (), self.check.sandbox)
            place = Checkout(commit="", top=root, cwd=root, private=Path(compiled.path))
            terms = RunAsked(seconds=self.check.timeout_seconds if seconds is None else seconds)
            return self._unwatched(place, self.check.command, terms, variables, access)

    def start(self, checkout: Checkout, command: str, terms: RunAsked) -> Run:
        """Run a command in the checkout. Load the run recorder if the command may start pytest."""
        parsed = parse(command)
        if terms.plain:
            return self._unwatched(checkout, command, terms)
        if not self._may_run_pytest(parsed):
            return self._with_ids(parsed, checkout, terms) or self._unwatched(checkout, command, terms)
        run = self._watched(parsed, checkout, terms)
        if terms.again:
            return run
        # a command may ignore failed tests only if it also does so on the base commit
        if run.started and run.exit_code == 0 and run.goes_on and not (parsed.pytest or run.problem):
            run = run if self._known_before.goes_on else replace(run, report=None, problem=_WENT_ON)
        elif not run.started and run.ended:
            run = self._unwatched(checkout, command, terms) if run.exit_code else run
            if run.exit_code == 0 and self._has_to_start:
                run = replace(run, problem=_WITHOUT_PYTEST)
        if run.report and run.exit_code == 0 and (changed := checkout.disturbed()):
            return replace(run, report=None, problem=f"the run changed the tests themselves: {changed[0]}")
        return run

    def _unwatched(
        self,
        checkout: Checkout,
        command: str,
        terms: RunAsked,
        variables: dict[str, str] | None = None,
        access: FolderAccess | None = None,
    ) -> Run:
        done = run_command(
            command,
            cwd=checkout.cwd,
            variables=variables or self._variables(checkout),
            timeout_seconds=terms.seconds,
            stop=self._stop,
            access=access or self.access(checkout),
        )
        run = run_of(command, checkout, done, (None, None), Path(self.git.root))
        return replace(run, problem=_ran_nothing(command, run.output)) if run.exit_code == 0 else run

    def _with_ids(self, command: Command, checkout: Checkout, terms: RunAsked) -> Run | None:
        """Run a command whose test runner reports test ids. Without a usable report, the exit status counts."""
        told = self._test_start(command, checkout, self._variables(checkout)).with_ids(terms)
        if told is None:
            return None
        done, (report, untold) = told
        run = run_of(command.text, checkout, done, (report, None), Path(self.git.root))
        problem = _ran_nothing(command.text, run.output) if run.exit_code == 0 else None
        if run.exit_code == 0 and report and report.failing:
            problem = f"its report shows {len(report.failing)} failed tests"
        if run.exit_code == 0 and (changed := checkout.disturbed()):
            problem = f"the run changed the tests themselves: {changed[0]}"
        return replace(run, by_runner=True, untold=untold or "", problem=problem)

    def run_plainly(
        self,
        checkout: Checkout,
        command: str,
        seconds: float,
        *,
        at_home: bool,
        marks: bool | None = None,
        checks: Mapping[str, bytes] | None = None,
    ) -> Run:
        """Run the command as in a user's terminal, at the project's own path if possible."""
        texts = [command.encode(), *(checks or {}).values()]
        names_project = any(os.fsencode(self.git.root) in text for text in texts)  # and what is in no commit there
        laid: dict[str, tuple[str, str]] = {} if names_project else self._laid_over_project(checkout)
        access = self.access(checkout)
        variables = (
            {**process.scrubbed_environment(), "PWD": str(self.git.root)} if laid else self.plain_variables(checkout)
        )
        cwd = Path(self.git.root) if laid else checkout.cwd
        # False hides from code what started it; True loads the same programs, which hide nothing
        if marks is not None:
            variables |= unmarked(checkout.private, variables, cwd, checks or {}, marks=marks)
        done = run_command(
            f"{_UNTAGGED}{command}",
            cwd=cwd,
            variables=variables,
            timeout_seconds=seconds,
            stop=self._stop,
            access=access._replace(own=[checkout.top, *access.own]),
            plain=True,
            at_home=at_home,
            needs_temporary=True,
            network=OPEN if self.check.sandbox.network == OPEN else INTERFACE,
            laid=laid,
        )
        return run_of(command, checkout, done, (None, None), checkout.cwd)

    def _laid_over_project(self, checkout: Checkout) -> dict[str, tuple[str, str]]:
        """Return mounts that place the checkout at the project's path, or an empty mapping if mounting is
        impossible."""
        top, root = os.path.realpath(self.git.top()), Path(self.git.root)
        used = [checkout.private, Path.home(), Path(tempfile.gettempdir())]
        if (
            self.left_out
            or any(Path(os.path.realpath(path)).is_relative_to(top) for path in used)
            or not can_lay(self.check.sandbox)
        ):
            return {}
        laid = {top: ("rw", str(checkout.top))}
        # the mounted checkout hides the project, so its links to dependencies become mount points
        for name in self._linked():
            place, source = checkout.cwd / name, root / name
            if place.is_symlink():
                place.unlink()
                place.mkdir() if source.is_dir() else place.touch()
                laid[os.path.realpath(source)] = ("ro" if (source / "pyvenv.cfg").exists() else "rw", str(source))
        return laid

    def _watched(self, command: Command, checkout: Checkout, terms: RunAsked) -> Run:
        root = Path(self.git.root)
        folders = (str(PLUGIN_FOLDER), *import_folders(self._mapped, checkout))
        imports = search_path(folders, command, process.scrubbed_environment(), root, checkout)
        start = self._test_start(command, checkout, {**self._variables(checkout), "PYTHONPATH": imports})
        watched = start.watched(terms)
        run = judged(command, watched, run_of(command.text, checkout, watched.done, (None, None), root))
        for each in run.calls:
            each.python = each.python.replace(str(checkout.cwd), str(root))  # of what is lent
        return run

    def _test_start(self, command: Command, checkout: Checkout, variables: dict[str, str]) -> TestStart:
        root = Path(self.git.root)
        return TestStart(
            command=command,
            words=command.words,
            checkout=checkout,
            variables=variables,
            project=root,
            kept=[str(root / each) for each in self._linked()],
            access=self.access(checkout),
            blocked=self.check.installed.blocked,
            by_shell=True,
            scripts=self._named.files,
            notes_reads=False,
            stop=self._stop,
        )

    @property
    def _has_to_start(self) -> bool:
        """True if pytest starts on the base commit, unless the user allows changes to the files that start it."""
        is_free = matcher(self.check.may_change)
        leading = [path.encode("utf-8", "surrogateescape") for path in self.changed if self._named.loads(path)]
        return not any(map(is_free, leading)) and self._known_before.started

    @property
    def _known_before(self) -> Run:
        if self._before is None:
            terms = RunAsked(seconds=self.check.timeout_seconds, keep_going=True)
            with self.place(self._base) as checkout:
                self._before = self._watched(parse(self.check.command), checkout, terms)
        return self._before

    def _may_run_pytest(self, command: Command) -> bool:
        """Return True if the command, or a script or makefile that it uses, mentions pytest."""
        if _RUNS_NOTHING & {*command.words}:
            return False
        if command.pytest or any(_PYTEST.search(text) for text in self._named.texts):
            return True
        read = (self._tree.read(path) or b"" for path in sorted(self._named.scripts))
        return any(_PYTEST.search(content.decode("utf-8", "replace")) for content in read)

    # ---- what the end of a run says ------------------------------------------------------------------------------

    def passed(self, run: Run) -> bool:
        return run.exit_code == 0 and run.problem is None and (run.report is None or bool(run.report.passing))

    def on_failure(self, run: Run) -> Told | None:
        """Return a finding if a failed check exited with 0, or passes in the project folder."""
        if run.exit_code == 0:
            problem = run.problem or "no test passed"
            message = f"The command exited with 0, but its run is not trusted: {problem}"
            return Told("proof_failed", message, {"problem": problem})
        if (
            self.in_place
            or not (run.ended and self.asks_folder)
            or not self._folder_differs
            or not self.passed(self.run_here())
        ):
            return None
        missing = left_behind(self._ignored or (), self._linked())
        names = ", ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
        why = f"; the checkout lacks ignored files: {names}" if missing else ""
        message = (
            f"The command fails in a checkout of the work (exit {run.exit_code}) and passes in the project "
            f"folder{why}. Commit the files that it needs, or run it in the project folder: "
            f"{self.check.in_place_setting}"
        )
        return Told("passes_only_in_place", message, {"missing": missing[:50]})

    def on_pass(self, run: Run) -> Told | None:
        """Return a finding if tests were skipped although their base version mentions no skipping."""
        report = run.report
        silent = {
            node
            for node in (report.gave_up if report else ())
            if not any(self._speaks_of_skips(path) for path in (file_of(node), *self.files_of([node])))
        }
        if silent:  # what a plugin, or a module beside the tests, skips was skipped before
            silent -= self._known_before.seen.gave_up
        if not silent:
            return None
        shown = ", ".join(sorted(silent)[:_SHOWN])
        message = (
            f"Tests were skipped while they ran, so they prove nothing: {shown}; only a mark on a test may skip it"
        )
        return Told("proof_failed", message, {"failing": sorted(silent)[:50]})

    def is_green(self, run: Run, proven: Collection[str]) -> bool:
        return run.exit_code == 0 and run.problem is None  # without a test it says nothing

    def files_of(self, nodes: Collection[str]) -> set[str]:
        files = {file_of(node) for node in nodes}
        return {path for path in self._tree.paths for file in files if is_test_file(path) and is_one(path, file)}

    def _speaks_of_skips(self, file: str) -> bool:
        folders = [str(each) for each in PurePosixPath(file).parents]
        above = [posixpath.normpath(posixpath.join(each, "conftest.py")) for each in folders]
        tree = self._tree
        return any(b"skip" in (tree.read(path) or b"") for path in (file, *above) if path in tree.paths)

    @property
    def _folder_differs(self) -> bool:
        texts = " ".join(self._named.texts)
        speaks_of_it = str(self.git.root) in texts or "git" in texts or bool(self._named.outside)
        more = bool(self._linked() or left_behind(self._ignored or (), ()))
        return more or speaks_of_it or self.has_submodules

    # ---- what came with the work ---------------------------------------------------------------------------------

    @property
    def blocked(self) -> tuple[Sequence[str], Sequence[str]]:
        plugins = self.check.installed.plugins
        return (self.check.installed.blocked if plugins else ()), sorted(each.path for each in plugins.values())

    @property
    def left_out(self) -> Sequence[str]:
        return without(self.check.installed.lent.values(), self.changed)

    def with_what_came(self) -> Self:
        check = replace(self.check, installed=replace(self.check.installed, plugins={}, lent={}))
        found = type(self)(self.git, check, base=self._base, named=self._named, tree=self._tree, stop=self._stop)
        found.changed = self.changed
        return found

    # ---- places --------------------------------------------------------------------------------------------------

    def _linked(self) -> tuple[str, ...]:
        if self._ignored is None:
            self._ignored = ignored_paths(self.git)
        return linkable(Path(self.git.root), self._ignored)

    def _variables(self, checkout: Checkout) -> dict[str, str]:
        variables = self.plain_variables(checkout) | self.check.variables
        if self.check.installed.compiled:
            variables["PYTHONPYCACHEPREFIX"] = str(checkout.private / "compiled")
        return variables

    def plain_variables(self, checkout: Checkout) -> dict[str, str]:
        """Return the user's environment variables, with checkout paths in place of project paths."""
        root, variables = Path(self.git.root), process.scrubbed_environment()
        search = variables.get("PATH", os.defpath)
        if imports := search_path(import_folders(self._mapped, checkout), Command(text=""), variables, root, checkout):
            variables["PYTHONPATH"] = imports
        variables["PATH"] = os.pathsep.join(checkout.moved(entry, root) for entry in search.split(os.pathsep))
        return {**variables, "PWD": str(checkout.cwd)}

    def python_of(self, command: Command, said: str) -> str:
        known = self.check.installed.pythons
        return "" if known and said not in known else said

    @property
    def _mapped(self) -> Mapped:
        """Project folders from which the Python environments of the command import modules."""
        search = process.scrubbed_environment().get("PATH", os.defpath)
        return mapped_in(Path(self.git.root), self._linked(), search)

    @property
    def import_roots(self) -> Collection[str]:
        return self._mapped.roots

    def imports(self, checkout: Checkout) -> list[str]:
        return import_folders(self._mapped, checkout)

    def access(self, checkout: Checkout) -> FolderAccess:
        return access_of_checkout(checkout, Path(self.git.root), self._linked(), self.check.sandbox)


def _ran_nothing(command: str, output: str) -> str | None:
    started = (each.plain for each, _ in read(command).every())
    heads = [head for words in started for head in words[program_at(words) :][:1]]
    alone = [head for head in heads if head not in ("cd", "export", "set", "true", ":")]
    # the output of several programs does not tell which of them ran a test
    return ran_no_test(command, output) if len(alone) == 1 else None


def needs_what_came(runner: Runner) -> Told:
    names, paths = runner.blocked
    if not names:
        paths = sorted(runner.left_out)
        message = (
            f"{runner.passes_only} with files in installed dependencies that are in no commit, such as {paths[0]}: "
            f"install it with a lock file, or {runner.allowed_by}"
        )
        return Told("dependency_needed", message, {"path": paths[0], "paths": paths[:50]})
    message = (
        f"{runner.passes_only} with the pytest plugin {', '.join(names)}, which was installed during the work and is "
        f"loaded in every test run: remove it ({paths[0]}), or {runner.allowed_by}"
    )
    return Told("plugin_needed", message, {"path": paths[0], "paths": list(paths)})
