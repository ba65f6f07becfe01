"""Execution of one command on one commit, with limits, in a checkout made by the harness. A result counts only with a
valid report. ``run_tests`` is the usual entry point. ``execute`` and ``execute_plain`` use an existing checkout."""

import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from agent_harness.errors import Refused
from agent_harness.kernel import process
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.locate import locate
from agent_harness.kernel.process.launch_spec import Sandbox
from agent_harness.kernel.process.sandbox import AUTO, OPEN, SandboxSettings, of_check
from agent_harness.kernel.redact import redact
from agent_harness.kernel.temporary import TemporaryFolder
from agent_harness.verification.check import Command, parse, report_options, with_report
from agent_harness.verification.checkout import Checkout, Edits, Overlay, in_place, make_checkout
from agent_harness.verification.runner import reporters
from agent_harness.verification.runner.check_home import kept_of_home, variables_of_check
from agent_harness.verification.runner.environment import IN_PLACE, RunEnvironment
from agent_harness.verification.runner.runner_reports import reader_of
from agent_harness.verification.runner.testreport import (
    PLUGIN_FOLDER,
    RECORDER_VARIABLE,
    RecordedCall,
    RecordedSession,
    Report,
    ReportProblem,
    RunRecorder,
    believed,
    check_sessions,
    merged,
    read_cases,
    read_junit,
    recorder_settings,
)
from agent_harness.verification.verdict import Run

OUTPUT_BYTES = 65536
_WANTED = re.compile(
    rb"Connection refused|ECONNREFUSED|Network is unreachable|ENETUNREACH|name resolution|EAI_AGAIN|ENOTFOUND"
    rb"|Could not resolve host|getaddrinfo failed|no such host"
)
_NO_NETWORK = b"\n[the harness ran this in a sandbox whose only network is a loopback of its own: sandbox.network]\n"
_NO_HOME = b'\n[the harness ran this with a home folder made anew; to give checks yours: sandbox.writable: ["~"]]\n'
_OPTIONS = "PYTEST_ADDOPTS"
_IMPORTS = re.compile(rb"(?<![\w$({])(PYTHONPATH[ \t]*[:?+]?=[ \t]*)(?=[^\s=])")
CANNOT_RUN, NOT_FOUND = 126, 127
Stop = Callable[[], bool]
_Found = tuple[Report | None, str | None]  # the report, or why there is none


def run_tests(
    git: Git,
    commit: str,
    command: str,
    *,
    environment: RunEnvironment,
    overlays: Sequence[Overlay | Edits] = (),
    timeout_seconds: float = 1800.0,
    keep_going: bool = False,
    stop: Stop | None = None,
) -> Run:
    """Run a test command on a commit. Then end all processes that the command started. (C61)"""
    with place_for(git, commit, environment=environment, overlays=overlays) as checkout:
        asked = RunAsked(seconds=timeout_seconds, keep_going=keep_going)
        return execute(checkout, command, asked, environment=environment, stop=stop)


@contextmanager
def place_for(
    git: Git,
    commit: str,
    *,
    environment: RunEnvironment,
    overlays: Sequence[Overlay | Edits] = (),
    neutral: bool = False,
) -> Iterator[Checkout]:
    """Yield a new checkout. If ``isolation`` is ``in_place``, yield the project folder instead."""
    if environment.isolation == IN_PLACE:
        with in_place(git, commit) as checkout:
            yield checkout
    else:
        with make_checkout(
            git, commit, overlays=overlays, links=environment.links, neutral=neutral, base=environment.base
        ) as checkout:
            yield checkout


class Watched(NamedTuple):
    done: process.Completed
    sessions: dict[int, RecordedSession]
    report: Path

    def seen(self, run: Run) -> Run:
        sessions = self.sessions.values()
        started = any(each.takes_options for each in sessions)
        return replace(run, calls=tuple(each.calls for each in sessions), seen=merged(self.sessions), started=started)


@dataclass(frozen=True, slots=True, kw_only=True)
class TestStart:
    """Test command whose pytest processes load the harness's plugin and options."""

    __test__ = False  # a name for people, not a test class for pytest

    command: Command
    words: Sequence[str]  # of the command, with the program that is meant
    checkout: Checkout
    variables: Mapping[str, str]  # with the whole search path for modules
    project: Path | None  # modules that come from there are not believed
    kept: Iterable[str]  # folders of it from which they may come
    access: "FolderAccess"
    blocked: Sequence[str] = ()  # plugins of pytest that are not loaded
    by_shell: bool = False  # a shell finds the program, and what it leads to says where ids begin
    scripts: Collection[str] = ()  # that the command runs, and that may set the search path for modules
    notes_reads: bool = True  # files that tests open, in a run of all of them
    stop: Stop | None = None

    def watched(self, asked: "RunAsked") -> "Watched":
        report = self._report()
        private, checkout = report.parent, self.checkout
        scripts = () if self.command.pytest else self.scripts
        with RunRecorder(private) as seen, _led_to_ours(checkout.cwd, scripts):
            calls = [[each.module, each.name, each.arguments] for each in asked.again]
            told = recorder_settings(
                seen.address,
                project=self.project,
                keep=self.kept,
                select=_written(private / "select.json", sorted(asked.select)),
                reads_below=checkout.cwd if self.notes_reads and asked.keep_going and not asked.select else None,
                watched={os.path.realpath(checkout.cwd / path): lines for path, lines in asked.watched.items()},
                again=_written(private / "calls.json", calls),
                root=checkout.cwd,
            )
            done = self._run(asked, report, {RECORDER_VARIABLE: told})
        return Watched(done, seen.sessions, report)

    def with_own_report(self, asked: "RunAsked", named: str | None) -> tuple[process.Completed, _Found]:
        report = self._report()
        place = _fresh_report(self.checkout, named, report)
        done = self._run(asked, report, {})
        return done, _judged(done, lambda: read_junit(place), asked.seconds, "")

    def with_ids(self, asked: "RunAsked") -> tuple[process.Completed, _Found] | None:
        """Run the command so that its test runner reports test ids. Return None for a runner that is not known."""
        report = self._report()
        command = replace(self.command, words=tuple(self.words))
        told = reporters.asked(command, report, reader_of(self.checkout.cwd), keep_going=asked.keep_going)
        if told is None:
            return None
        own = {name: text for name, text in self.command.variables if name != "PYTHONPATH"}
        done = run_command(
            shlex.join(told.words) if self.by_shell else [*told.words],
            cwd=self.checkout.cwd,
            variables=told.variables({**self.variables, **own}),
            timeout_seconds=asked.seconds,
            stop=self.stop,
            access=self.access,
            keep_bytes=told.keeps,
        )
        if told.refused(done):
            return None
        found = _judged(done, lambda: told.report(done, report, self.checkout.cwd), asked.seconds, "")
        return replace(done, output=told.shown(done.output)[-OUTPUT_BYTES:]), found

    def _report(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="run-", dir=self.checkout.private), "report.xml")

    def _run(self, asked: "RunAsked", report: Path, more: Mapping[str, str]) -> process.Completed:
        command, checkout = self.command, self.checkout
        said = (self.by_shell and not command.pytest) or checkout.has_settings or "--rootdir" in command.text
        root, cache = None if said else str(checkout.cwd), str(report.parent / "cache")
        options = report_options(str(report), cache, keep_going=asked.keep_going, root=root, blocked=self.blocked)
        options += [f"--maxfail={asked.most_failures}"] if asked.most_failures else []
        imports = self.variables["PYTHONPATH"]
        started, own = with_report(command, self.words, str(report), options, imports=imports)
        if _OPTIONS in own:
            given = dict(command.variables).get(_OPTIONS, self.variables.get(_OPTIONS, ""))
            own[_OPTIONS] = f"{given} {own[_OPTIONS]}".lstrip()
        return run_command(
            shlex.join(started) if self.by_shell and not isinstance(started, str) else started,
            cwd=checkout.cwd,
            variables={**self.variables, **own, **more},
            timeout_seconds=asked.seconds,
            stop=self.stop,
            access=self.access,
        )


def execute(
    checkout: Checkout, command: str, asked: "RunAsked", *, environment: RunEnvironment, stop: Stop | None = None
) -> Run:
    parsed = parse(command)
    environment, in_place = environment.completed(parsed), environment.isolation == IN_PLACE
    start = TestStart(
        command=parsed,
        words=environment.words(parsed, checkout.cwd),
        checkout=checkout,
        variables=environment.variables_for(parsed, checkout),
        project=None if in_place else environment.root,
        kept=environment.kept,
        access=access_of(checkout, environment),
        blocked=environment.blocked,
        stop=stop,
    )
    if not parsed.pytest and (parsed.reports_itself or environment.report):
        done, found = start.with_own_report(asked, environment.report)
        known = reporters.knows(command, reader_of(checkout.cwd))
        return replace(run_of(command, checkout, done, found, environment.root), by_runner=known)
    if told := start.with_ids(asked):
        done, found = told
        if found[0] is not None and not in_place and (changed := checkout.disturbed()):
            found = None, f"the run changed the tests themselves: {changed[0]}"
        return replace(run_of(command, checkout, done, found, environment.root), by_runner=True)
    watched = start.watched(asked)
    done, sessions, report = watched
    where = next((session.last for session in reversed(sessions.values()) if session.finished is None), "")
    found = _judged(done, lambda: _believed(sessions, report, done, plain=parsed.pytest), asked.seconds, where)
    if found[0] is not None and not in_place and (changed := checkout.disturbed()):
        found = None, f"the run changed the tests themselves: {changed[0]}"
    return watched.seen(run_of(command, checkout, done, found, environment.root))


def _written(file: Path, rows: Sequence[object]) -> Path | None:
    if not rows:
        return None
    file.write_text(json.dumps(rows), encoding="utf-8")
    return file


@contextmanager
def _led_to_ours(place: Path, scripts: Collection[str]) -> Iterator[None]:
    """Add the plugin's folder to each ``PYTHONPATH`` in scripts. Restore the scripts after the block."""
    ours, inside = os.fsencode(f"{PLUGIN_FOLDER}{os.pathsep}"), os.path.realpath(place)
    kept: dict[Path, bytes] = {}
    for script in (place / each for each in scripts if not each.endswith(".py")):
        if script.is_file() and Path(os.path.realpath(script)).is_relative_to(inside):
            text = script.read_bytes()
            led = _IMPORTS.sub(lambda found: found[1] + ours, text)
            if led != text:
                kept[script] = text
                script.write_bytes(led)
    try:
        yield
    finally:
        for script, text in kept.items():
            script.write_bytes(text)


def execute_plain(
    checkout: Checkout, command: str, asked: "RunAsked", *, environment: RunEnvironment, stop: Stop | None = None
) -> Run:
    """Run a command that writes no test report, such as a linter, and return the run."""
    parsed = parse(command)
    environment = environment.completed(parsed)
    started = environment.words(parsed, checkout.cwd) or command
    variables = environment.variables_for(parsed, checkout)
    variables |= {name: value for name, value in parsed.variables if name != "PYTHONPATH"}
    done = run_command(
        started,
        cwd=checkout.cwd,
        variables=variables,
        timeout_seconds=asked.seconds,
        stop=stop,
        access=access_of(checkout, environment),
    )
    problem = f"it ran into its limit of {asked.seconds:g} s" if done.timed_out else None
    problem = f"it {done.over_limit}" if done.over_limit else problem
    return run_of(command, checkout, done, (None, problem), environment.root)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAsked:
    seconds: float  # its limit
    overlays: Sequence[Overlay | Edits] = ()  # what is other in the checkout
    keep_going: bool = False  # neither a failure nor a test module that cannot be imported ends it
    most_failures: int = 0  # after which it ends; 0: as the command says
    select: Collection[str] = ()  # the ids of the only tests that are run
    watched: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # functions whose calls are noted
    again: Sequence[RecordedCall] = ()  # calls that are made in the place of tests
    plain: bool = False  # only the exit status counts


class FolderAccess(NamedTuple):
    """Folders that a run may change (``own``) and folders that it may only read (``reads``)."""

    own: Sequence[Path]
    reads: Sequence[Path] = ()
    sandbox: SandboxSettings = AUTO


def access_of(checkout: Checkout, environment: RunEnvironment) -> FolderAccess:
    if environment.isolation == IN_PLACE:
        own = [checkout.private, checkout.top, environment.root]
        return FolderAccess(own, _repository_of(environment.root), environment.sandbox)
    return access_of_checkout(checkout, environment.root, environment.links, environment.sandbox)


def access_of_checkout(
    checkout: Checkout, project: Path, linked: Iterable[str], sandbox: SandboxSettings
) -> FolderAccess:
    folders = (project / link for link in linked)
    own = [checkout.private, *(each for each in folders if not (each / "pyvenv.cfg").exists())]
    return FolderAccess(
        own, [project, *_repository_of(project), *([checkout.borrowed] if checkout.borrowed else [])], sandbox
    )


def _repository_of(project: Path) -> list[Path]:
    found = locate(project)
    return [Path(found.shared_dir)] if found else []


def _fresh_report(checkout: Checkout, named: str | None, private: Path) -> Path:
    if not named:
        return private
    place = checkout.cwd / named
    if not Path(os.path.realpath(place.parent)).is_relative_to(os.path.realpath(checkout.cwd)):
        return private
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    return place


def run_command(
    command: str | list[str],
    *,
    cwd: Path,
    variables: dict[str, str],
    timeout_seconds: float,
    stop: Callable[[], bool] | None,
    access: FolderAccess,
    plain: bool = False,
    at_home: bool = False,
    needs_temporary: bool = False,
    network: str = OPEN,
    laid: dict[str, tuple[str, str]] | None = None,
    keep_bytes: int = OUTPUT_BYTES,
) -> process.Completed:
    """Run a command with a temporary home folder in a sandbox. Raise ``Refused`` if a required sandbox is missing."""
    with TemporaryFolder() as temporary:
        confined, inside = of_check(
            access.own,
            temporary=temporary.path,
            settings=access.sandbox,
            environ=variables,
            reads=access.reads,
            names=[command] if isinstance(command, str) else command,
            namespaces=not plain,
            network=network,
            of_home=kept_of_home(variables),
            at_home=at_home,
            laid=laid,
        )
        own = variables
        if not at_home or confined.kind == "none":  # where nothing keeps it from the person's home, it has its own
            own = variables_of_check(
                variables, temporary.path, access.sandbox, inside=inside, shielded=confined.kind != "none", plain=plain
            )
        finds = plain and (not needs_temporary or _has_temporary(confined, own))
        done = _completed(
            command,
            cwd=cwd,
            env=own if finds else {**own, "TMPDIR": inside},
            timeout_seconds=timeout_seconds,
            stop=stop,
            sandbox=confined,
            keep_bytes=keep_bytes,
        )
    if done.exit_code and confined.network != OPEN and _WANTED.search(done.output):
        done = replace(done, output=done.output + _NO_NETWORK)
    if done.exit_code and (home := own.get("HOME")) != variables.get("HOME") and f"{home}/".encode() in done.output:
        done = replace(done, output=done.output + _NO_HOME)
    return done


def _has_temporary(confined: Sandbox, variables: Mapping[str, str]) -> bool:
    usual = os.path.realpath(variables.get("TMPDIR") or "/tmp")  # noqa: S108
    return confined.kind != "landlock" or any(mode == "rw" and path == usual for mode, path, _ in confined.rules)


def _completed(command: str | list[str], **terms: Any) -> process.Completed:
    try:
        return process.run(command, **terms)
    except Refused as error:
        return process.Completed(
            exit_code=NOT_FOUND,
            output=f"{error.message}\n".encode(),
            truncated=False,
            timed_out=False,
            stopped=False,
            seconds=0.0,
            total_bytes=0,
        )


def _judged(done: process.Completed, read: Callable[[], Report], limit_seconds: float, where: str) -> _Found:
    if done.over_limit:
        return None, f"it {done.over_limit}{f' in {where}' if where else ''}"
    if done.timed_out:
        return None, f"it ran into its limit of {limit_seconds:g} s{f' in {where}' if where else ''}"
    if done.stopped:
        return None, "it was stopped"
    if done.exit_code == NOT_FOUND:
        return None, "the command was not found"
    try:
        return read(), None
    except ReportProblem as problem:
        return None, str(problem)


def _believed(sessions: dict[int, RecordedSession], report: Path, done: process.Completed, *, plain: bool) -> Report:
    if not sessions and not plain:
        raise ReportProblem("no test report was written; another runner than pytest writes JUnit XML to {report}")
    check_sessions(sessions)
    found = believed(sessions, read_cases(report))
    ended = {session.finished for session in sessions.values()}
    if plain and done.exit_code == 0 and ended != {0}:
        raise ReportProblem(f"the process ended with 0 although pytest ended with {max(e or 0 for e in ended)}")
    return found


def run_of(command: str, checkout: Checkout, done: process.Completed, found: _Found, project: Path) -> Run:
    report, problem = found
    return Run(
        command=command,
        commit=checkout.commit,
        exit_code=done.exit_code,
        report=report,
        problem=problem,
        output=redact(done.output.decode("utf-8", "replace").replace(str(checkout.cwd), str(project))),
        seconds=done.seconds,
        timed_out=done.timed_out,
        stopped=done.stopped,
        over_limit=done.over_limit,
        notes=checkout.notes,
    )
