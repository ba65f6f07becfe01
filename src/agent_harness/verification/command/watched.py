"""One run of a command that may start pytest, by whatever way, with the witness of ``runner`` in it.

A plain pytest command gets our options as words, any other one through ``PYTEST_ADDOPTS``. What a command makes of
that is its own affair: where no pytest with the witness has started, the run says so, and nothing else.
"""

import os
import re
import shlex
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent_harness.kernel import process
from agent_harness.verification.check import Command, report_options, with_report
from agent_harness.verification.runner.execution import Reach, Stop, calls_file, run_command, selection
from agent_harness.verification.runner.testreport import (
    PLUGIN_FOLDER,
    WITNESS_VARIABLE,
    Calls,
    RecordedCall,
    Report,
    ReportProblem,
    Witness,
    WitnessedSession,
    believed,
    check_sessions,
    merged,
    read_cases,
    witness_settings,
)
from agent_harness.verification.workspace import Workspace

_USAGE = 4  # with which pytest refuses its options
_IMPORTS = re.compile(rb"(?<![\w$({])(PYTHONPATH[ \t]*[:?+]?=[ \t]*)(?=[^\s=])")
_OURS = (b"agent_harness_witness", b"--junitxml")  # what a pytest speaks of that does not take our options
_STARTED_WITHOUT = "pytest did not start, or not with our plugin; on the code before it did"


@dataclass(frozen=True, slots=True)
class WatchedRun:
    """A run of the command, with its report where pytest ran."""

    done: process.Completed
    report: Report | None = None
    problem: str | None = None  # why there is no report that could be believed
    refused: bool = False  # no pytest began with the witness: our options may be the reason
    calls: Calls = field(default_factory=Calls)

    @property
    def unwatched(self) -> "WatchedRun":
        """The same where the command starts pytest with the witness on the code before."""
        return WatchedRun(self.done, problem=_STARTED_WITHOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """What is asked of one run."""

    options: Sequence[str] = ()  # for pytest
    seconds: float
    select: Collection[str] = ()  # the ids of the only tests that are run
    watched: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # functions whose calls are noted
    again: Sequence[RecordedCall] = ()  # calls that are made in the place of tests


def run_watched(
    command: Command,
    space: Workspace,
    variables: Mapping[str, str],
    asked: Watching,
    *,
    project: Path,
    kept: Sequence[str],
    scripts: Collection[str],
    blocked: Sequence[str],
    reach: Reach,
    stop: Stop | None,
) -> WatchedRun:
    """Runs a command in a checkout. ``scripts`` are files that it runs, and ``kept`` the folders lent to it."""
    private = Path(tempfile.mkdtemp(prefix="run-", dir=space.private))
    path = private / "report.xml"
    own_root = not command.pytest or space.has_settings or "--rootdir" in command.text
    wished = f"{dict(command.variables).get('PYTHONPATH', '')}{os.pathsep}{variables.get('PYTHONPATH', '')}"
    imports = os.pathsep.join(dict.fromkeys((str(PLUGIN_FOLDER), *filter(None, wished.split(os.pathsep)))))
    root = None if own_root else str(space.cwd)
    options = report_options(str(path), str(private / "cache"), keep_going=False, root=root, blocked=blocked)
    started, own = with_report(command, command.words, str(path), [*options, *asked.options], imports=imports)
    with Witness(private) as seen, _led_to_ours(space.cwd, () if command.pytest else scripts):
        told = witness_settings(
            seen.address,
            project=project,
            keep=kept,
            select=selection(private, asked.select),
            watched={os.path.realpath(space.cwd / path): lines for path, lines in asked.watched.items()},
            again=calls_file(private, asked.again),
            root=space.cwd,
        )
        done = run_command(
            started if isinstance(started, str) else shlex.join(started),
            cwd=space.cwd,
            variables={**variables, **own, "PYTHONPATH": imports, WITNESS_VARIABLE: told},
            timeout_seconds=asked.seconds,
            stop=stop,
            reach=reach,
        )
    return _judged(command, done, seen.sessions, path)


def _judged(
    command: Command, done: process.Completed, sessions: Mapping[int, WitnessedSession], path: Path
) -> WatchedRun:
    """Of a command that is not pytest alone, the exit status is its own affair, and what each pytest did is not."""
    calls = next(iter(sessions.values())).calls if len(sessions) == 1 else Calls()
    if not command.pytest and not sessions:
        return WatchedRun(done, refused=done.exit_code == 0 or any(word in done.output for word in _OURS))
    if done.exit_code and not done.timed_out and not any(each.began for each in sessions.values()):
        return WatchedRun(done, refused=not sessions or done.exit_code == _USAGE, calls=calls)
    try:
        check_sessions(sessions)
        if command.pytest and done.exit_code == 0 and {each.finished for each in sessions.values()} != {0}:
            raise ReportProblem("the process ended with 0, and pytest did not")
        report = believed(sessions, *read_cases(path)) if command.pytest or len(sessions) == 1 else merged(sessions)
    except ReportProblem as problem:
        return WatchedRun(done, problem=str(problem), calls=calls)
    nothing = not (command.pytest or report.passing or done.exit_code)
    return WatchedRun(done, None if nothing else report, calls=calls)


@contextmanager
def _led_to_ours(place: Path, scripts: Collection[str]) -> Iterator[None]:
    """While scripts that set their own search path for modules have the folder of the witness on it, too."""
    ours, inside = os.fsencode(f"{PLUGIN_FOLDER}{os.pathsep}"), os.path.realpath(place)
    kept: dict[Path, bytes] = {}
    for script in (place / each for each in scripts):
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
