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
from dataclasses import replace
from pathlib import Path

from agent_harness.kernel import process
from agent_harness.kernel.redact import redact
from agent_harness.verification.check import Command, report_options, with_report
from agent_harness.verification.runner.execution import Reach, RunAsked, Stop, calls_file, run_command, selection
from agent_harness.verification.runner.testreport import (
    PLUGIN_FOLDER,
    WITNESS_VARIABLE,
    ReportProblem,
    Witness,
    WitnessedSession,
    believed,
    check_sessions,
    merged,
    read_cases,
    witness_settings,
)
from agent_harness.verification.verdict import Run
from agent_harness.verification.workspace import Workspace

_IMPORTS = re.compile(rb"(?<![\w$({])(PYTHONPATH[ \t]*[:?+]?=[ \t]*)(?=[^\s=])")
_OPTIONS = "PYTEST_ADDOPTS"


def run_watched(
    command: Command,
    space: Workspace,
    variables: Mapping[str, str],
    asked: RunAsked,
    *,
    project: Path,
    kept: Sequence[str],
    scripts: Collection[str],
    blocked: Sequence[str],
    reach: Reach,
    stop: Stop | None,
) -> Run:
    """Runs a command in a checkout. ``scripts`` are files that it runs, and ``kept`` the folders lent to it."""
    private = Path(tempfile.mkdtemp(prefix="run-", dir=space.private))
    path = private / "report.xml"
    own_root = not command.pytest or space.has_settings or "--rootdir" in command.text
    wished = f"{dict(command.variables).get('PYTHONPATH', '')}{os.pathsep}{variables.get('PYTHONPATH', '')}"
    imports = os.pathsep.join(dict.fromkeys((str(PLUGIN_FOLDER), *filter(None, wished.split(os.pathsep)))))
    root = None if own_root else str(space.cwd)
    options = report_options(str(path), str(private / "cache"), keep_going=asked.keep_going, root=root, blocked=blocked)
    started, own = with_report(command, command.words, str(path), [*options, *asked.ends_early], imports=imports)
    if _OPTIONS in own:
        given = dict(command.variables).get(_OPTIONS, variables.get(_OPTIONS, ""))
        own[_OPTIONS] = f"{given} {own[_OPTIONS]}".lstrip()
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
    return _judged(command, space, done, seen.sessions, path)


def run_of(command: str, space: Workspace, done: process.Completed) -> Run:
    """A run of which only the exit status is known."""
    return Run(
        command=command,
        commit=space.commit,
        exit_code=done.exit_code,
        report=None,
        problem=None,
        output=redact(done.output.decode("utf-8", "replace")),
        seconds=done.seconds,
        timed_out=done.timed_out,
        stopped=done.stopped,
        over_limit=done.over_limit,
    )


def _judged(
    command: Command,
    space: Workspace,
    done: process.Completed,
    sessions: Mapping[int, WitnessedSession],
    path: Path,
) -> Run:
    """The run with what can be believed of it.

    Where the command is not pytest alone, what it makes of tests that fail is its own affair, and so is a report.
    """
    run = replace(
        run_of(command.text, space, done),
        started=any(each.takes_options for each in sessions.values()),
        seen=merged(sessions),
        calls=tuple(each.calls for each in sessions.values()),
        goes_on=any(each.finished != 0 for each in list(sessions.values())[: None if done.exit_code == 0 else -1]),
    )
    if not command.pytest and not any(each.takes_options for each in sessions.values()):
        return run
    if done.exit_code and not done.timed_out and not any(each.began for each in sessions.values()):
        return run
    judged = {key: each for key, each in sessions.items() if command.pytest or not each.finished}
    try:
        if judged or command.pytest:
            check_sessions(judged)
        if command.pytest and done.exit_code == 0 and {each.finished for each in sessions.values()} != {0}:
            raise ReportProblem("the process ended with 0, and pytest did not")
        is_ours = command.pytest or (len(sessions) == 1 and path.exists())
        report = believed(sessions, *read_cases(path)) if is_ours else run.seen
    except ReportProblem as problem:
        return replace(run, problem=str(problem))
    nothing = not (command.pytest or report.passing or done.exit_code)
    return run if nothing else replace(run, report=report)


@contextmanager
def _led_to_ours(place: Path, scripts: Collection[str]) -> Iterator[None]:
    """While scripts of shells and make that set the search path for modules have the folder of the witness on it."""
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
