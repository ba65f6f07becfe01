"""One command on one commit: started in a checkout of our own, bounded, and believed only with its report.

``run_tests`` is the plain use; ``execute`` and ``execute_plain`` work in a checkout that is already there.
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from agent_harness.errors import Refused
from agent_harness.kernel import process
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.locate import locate
from agent_harness.kernel.process.launch_spec import Sandbox
from agent_harness.kernel.process.sandbox import AUTO, LOOPBACK, OPEN, SandboxSettings, of_check
from agent_harness.kernel.redact import redact
from agent_harness.kernel.temporary import TemporaryFolder
from agent_harness.verification.check import Command, parse, report_options, with_report
from agent_harness.verification.runner.check_home import kept_of_home, variables_of_check
from agent_harness.verification.runner.environment import IN_PLACE, RunEnvironment
from agent_harness.verification.runner.testreport import (
    WITNESS_VARIABLE,
    RecordedCall,
    Report,
    ReportProblem,
    Witness,
    WitnessedSession,
    believed,
    check_sessions,
    merged,
    read_cases,
    read_junit,
    witness_settings,
)
from agent_harness.verification.verdict import Run
from agent_harness.verification.workspace import Edits, Overlay, Workspace, in_place, workspace

OUTPUT_BYTES = 65536
_WANTED = re.compile(
    rb"Connection refused|ECONNREFUSED|Network is unreachable|ENETUNREACH|name resolution|EAI_AGAIN|ENOTFOUND"
    rb"|Could not resolve host|getaddrinfo failed|no such host"
)
_NO_NETWORK = b"\n[the harness ran this in a sandbox whose only network is a loopback of its own: sandbox.network]\n"
_NO_HOME = b'\n[the harness ran this with a home folder made anew; to give checks yours: sandbox.writable: ["~"]]\n'
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
    """Runs a test command on a commit and says what passed; nothing that it started is left when it returns.

    ``git.root`` is the project. ``keep_going`` is for whole suites: neither a failure nor a test module that cannot be
    imported ends the run. A run that cannot be believed has a ``problem``, never half a report (C61).
    """
    with place_for(git, commit, environment=environment, overlays=overlays) as space:
        return execute(
            space, command, environment=environment, timeout_seconds=timeout_seconds, keep_going=keep_going, stop=stop
        )


@contextmanager
def place_for(
    git: Git,
    commit: str,
    *,
    environment: RunEnvironment,
    overlays: Sequence[Overlay | Edits] = (),
    neutral: bool = False,
) -> Iterator[Workspace]:
    """Where to run commands on a commit: a fresh checkout, or the project itself with ``isolation: in_place``.

    The path of a ``neutral`` one says nothing of whose it is.
    """
    if environment.isolation == IN_PLACE:
        with in_place(git, commit) as space:
            yield space
    else:
        with workspace(
            git, commit, overlays=overlays, links=environment.links, neutral=neutral, base=environment.base
        ) as space:
            yield space


def execute(
    space: Workspace,
    command: str,
    *,
    environment: RunEnvironment,
    timeout_seconds: float,
    keep_going: bool = False,
    select: Collection[str] = (),
    watched: Mapping[str, Mapping[str, str]] | None = None,
    again: Sequence[RecordedCall] = (),
    stop: Stop | None = None,
) -> Run:
    """Runs a test command in a checkout. ``select`` keeps only these pytest node ids.

    Calls of the functions ``watched`` (by path in the project and first line) are recorded. With ``again`` no test is
    run: these calls are made in the place of one, and the run has their answers and no report.
    """
    parsed = parse(command)
    environment = environment.completed(parsed)
    private = Path(tempfile.mkdtemp(prefix="run-", dir=space.private))
    report = private / "report.xml"
    root = None if space.has_settings or "--rootdir" in command else str(space.cwd)
    cache, blocked = str(private / "cache"), environment.blocked
    options = report_options(str(report), cache, keep_going=keep_going, root=root, blocked=blocked)
    variables = environment.variables_for(parsed, space)
    words = environment.words(parsed, space.cwd)
    started, extra = with_report(parsed, words, str(report), options, imports=variables["PYTHONPATH"])
    variables |= extra
    begun = partial(
        run_command,
        started,
        cwd=space.cwd,
        timeout_seconds=timeout_seconds,
        stop=stop,
        reach=reach_of(space, environment),
    )
    if not parsed.pytest and (parsed.reports_itself or environment.report):  # another runner, with a report of its own
        report = _fresh_report(space, environment, report)
        done = begun(variables=variables)
        found = _judged(done, lambda: read_junit(report), timeout_seconds, "")
        return _test_run(parsed, space, environment, done, found)
    with Witness(private) as seen:
        variables[WITNESS_VARIABLE] = witness_settings(
            seen.address,
            project=None if environment.isolation == IN_PLACE else environment.root,
            keep=environment.kept,
            select=selection(private, select),
            reads_below=space.cwd if keep_going and not select else None,
            watched={os.path.realpath(space.cwd / path): lines for path, lines in (watched or {}).items()},
            again=calls_file(private, again),
            root=space.cwd,
        )
        done = begun(variables=variables)
    sessions = seen.sessions
    where = next((session.last for session in reversed(sessions.values()) if session.finished is None), "")
    found = _judged(done, lambda: _believed(sessions, report, done, plain=parsed.pytest), timeout_seconds, where)
    if found[0] is not None and environment.isolation != IN_PLACE and (changed := space.disturbed()):
        found = None, f"the run changed the tests themselves: {changed[0]}"
    run = _test_run(parsed, space, environment, done, found)
    return replace(
        run,
        calls=tuple(each.calls for each in sessions.values()),
        seen=merged(sessions),
        started=any(each.takes_options for each in sessions.values()),
    )


def calls_file(private: Path, calls: Sequence[RecordedCall]) -> Path | None:
    """A file that names the calls to be made in the place of tests; none where there are none."""
    if not calls:
        return None
    file = private / "calls.json"
    file.write_text(json.dumps([[call.module, call.name, call.arguments] for call in calls]), encoding="utf-8")
    return file


def execute_plain(
    space: Workspace, command: str, *, environment: RunEnvironment, timeout_seconds: float, stop: Stop | None = None
) -> Run:
    """Runs a command of which only the exit status counts, such as a linter."""
    parsed = parse(command)
    environment = environment.completed(parsed)
    started = environment.words(parsed, space.cwd) or command
    variables = environment.variables_for(parsed, space)
    variables |= {name: value for name, value in parsed.variables if name != "PYTHONPATH"}
    done = run_command(
        started,
        cwd=space.cwd,
        variables=variables,
        timeout_seconds=timeout_seconds,
        stop=stop,
        reach=reach_of(space, environment),
    )
    problem = f"it ran into its limit of {timeout_seconds:g} s" if done.timed_out else None
    problem = f"it {done.over_limit}" if done.over_limit else problem
    return _test_run(parsed, space, environment, done, (None, problem))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAsked:
    """What is asked of one run of a check."""

    seconds: float  # its limit
    overlays: Sequence[Overlay | Edits] = ()  # what is other in the checkout
    keep_going: bool = False  # neither a failure nor a test module that cannot be imported ends it
    most_failures: int = 0  # after which it ends; 0: as the command says
    select: Collection[str] = ()  # the ids of the only tests that are run
    watched: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # functions whose calls are noted
    again: Sequence[RecordedCall] = ()  # calls that are made in the place of tests
    plain: bool = False  # only the exit status counts

    @property
    def ends_early(self) -> list[str]:
        """The option of pytest for the most failures."""
        return [f"--maxfail={self.most_failures}"] if self.most_failures else []


class Reach(NamedTuple):
    """Which folders a run may change, and which it must not, wherever they lie."""

    own: Sequence[Path]
    reads: Sequence[Path] = ()
    sandbox: SandboxSettings = AUTO


def reach_of(space: Workspace, environment: RunEnvironment) -> Reach:
    """The reach of a test run; in place it is the project."""
    if environment.isolation == IN_PLACE:
        own = [space.private, space.top, environment.root]
        return Reach(own, _repository_of(environment.root), environment.sandbox)
    return reach_of_checkout(space, environment.root, environment.links, environment.sandbox)


def reach_of_checkout(space: Workspace, project: Path, lent: Iterable[str], sandbox: SandboxSettings) -> Reach:
    """The checkout, and what is lent to it, since tools keep caches in dependencies; no Python environment."""
    folders = (project / link for link in lent)
    own = [space.private, *(each for each in folders if not (each / "pyvenv.cfg").exists())]
    return Reach(own, [project, *_repository_of(project), *([space.borrowed] if space.borrowed else [])], sandbox)


def _repository_of(project: Path) -> list[Path]:
    """Git's own folder, which lies elsewhere for a linked work tree."""
    found = locate(project)
    return [Path(found.shared_dir)] if found else []


def _fresh_report(space: Workspace, environment: RunEnvironment, private: Path) -> Path:
    """Where another runner writes its report; what is there already, committed or left over, is taken away first."""
    if not environment.report:
        return private
    place = space.cwd / environment.report
    if not Path(os.path.realpath(place.parent)).is_relative_to(os.path.realpath(space.cwd)):
        return private
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    return place


def selection(private: Path, ids: Collection[str]) -> Path | None:
    """A file that names the only tests to be run; none where all are."""
    if not ids:
        return None
    file = private / "select.json"
    file.write_text(json.dumps(sorted(ids)), encoding="utf-8")
    return file


def run_command(
    command: str | list[str],
    *,
    cwd: Path,
    variables: dict[str, str],
    timeout_seconds: float,
    stop: Callable[[], bool] | None,
    reach: Reach,
    plain: bool = False,
    at_home: bool = False,
    network: str = OPEN,
) -> process.Completed:
    """The command's run; a folder that is not there is a command that cannot be found.

    Its home and its temporary files have a folder of their own, which is gone afterwards; of the rest of the disk it
    changes what ``reach`` says, where there is a sandbox. ``plain``: as in a person's shell; it finds a place for
    temporary files by itself, and has the ``network``; ``at_home``: its home is the person's, to be read. What looks
    like the want of a network, or of something in the person's home, is explained at the end of the output. ``Refused``
    where a sandbox must be, and cannot.
    """
    with TemporaryFolder() as temporary:
        confined, inside = of_check(
            reach.own,
            temporary=temporary.path,
            settings=reach.sandbox,
            environ=variables,
            reads=reach.reads,
            names=[command] if isinstance(command, str) else command,
            namespaces=not plain,
            network=network,
            of_home=kept_of_home(variables),
            at_home=at_home,
        )
        own = variables
        if not at_home or confined.kind == "none":  # where nothing keeps it from the person's home, it has its own
            own = variables_of_check(
                variables,
                temporary.path,
                reach.sandbox,
                inside=inside,
                shielded=confined.kind != "none",
                plain=plain,
            )
        done = _completed(
            command,
            cwd=cwd,
            env=own if plain and _has_temporary(confined) else {**own, "TMPDIR": inside},
            timeout_seconds=timeout_seconds,
            stop=stop,
            sandbox=confined,
        )
    if done.exit_code and confined.network == LOOPBACK and _WANTED.search(done.output):
        done = replace(done, output=done.output + _NO_NETWORK)
    if done.exit_code and (home := own.get("HOME")) != variables.get("HOME") and f"{home}/".encode() in done.output:
        done = replace(done, output=done.output + _NO_HOME)
    return done


def _has_temporary(confined: Sandbox) -> bool:
    """Whether a command may use the folder for temporary files that programs take by themselves."""
    usual = os.path.realpath(tempfile.gettempdir())
    return confined.kind != "landlock" or any(mode == "rw" and path == usual for mode, path, _ in confined.rules)


def _completed(command: str | list[str], **terms: Any) -> process.Completed:
    try:
        return process.run(command, keep_bytes=OUTPUT_BYTES, **terms)
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
    """The report, or why there is none that counts."""
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


def _believed(sessions: dict[int, WitnessedSession], report: Path, done: process.Completed, *, plain: bool) -> Report:
    if not sessions and not plain:
        raise ReportProblem("no test report was written; another runner than pytest writes JUnit XML to {report}")
    check_sessions(sessions)
    found = believed(sessions, *read_cases(report))
    ended = {session.finished for session in sessions.values()}
    if plain and done.exit_code == 0 and ended != {0}:
        raise ReportProblem(f"the process ended with 0 although pytest ended with {max(e or 0 for e in ended)}")
    return found


def _test_run(
    command: Command, space: Workspace, environment: RunEnvironment, done: process.Completed, found: _Found
) -> Run:
    report, problem = found
    output = done.output.decode("utf-8", "replace").replace(str(space.cwd), str(environment.root))
    return Run(
        command=command.text,
        commit=space.commit,
        exit_code=done.exit_code,
        report=report,
        problem=problem,
        output=redact(output),
        seconds=done.seconds,
        timed_out=done.timed_out,
        stopped=done.stopped,
        over_limit=done.over_limit,
        notes=space.notes,
    )
