"""What is asked of a check of which only the exit status is known, when it has noticed other values.

Data that was there and that the work changed is put back, while the code stays: a check that fails then passes only
since the work changed what it is asked. Then the tests are run without the mark of their runner.
"""

import posixpath
import re
import shlex
from collections.abc import Collection, Mapping

from agent_harness.kernel.git.status import matcher
from agent_harness.verification.case import Case
from agent_harness.verification.command.guard import ALLOWED_BY, CommandGuard
from agent_harness.verification.command.parsing import simple_commands
from agent_harness.verification.expecting.records import is_record, is_settings
from agent_harness.verification.runner.execution import RunAsked
from agent_harness.verification.runner_config import is_runner_config
from agent_harness.verification.verdict import Run
from agent_harness.verification.workspace import Edits

_MOST_SINGLE = 2  # data files that are put back one by one; of more, all at once
_TABLES = frozenset({".db", ".sqlite", ".sqlite3", ".pkl", ".pickle", ".npy", ".npz", ".parquet", ".bin", ".dbm"})
_SEARCHES = frozenset({"[", "cat", "egrep", "fgrep", "git", "grep", "head", "ls", "rg", "sed", "tail", "test", "wc"})
_TEMPLATES = frozenset({".html", ".xml", ".svg"})
_GO = re.compile(r"\bgo\s+test\b")
_GO_OK = re.compile(r"(?m)^ok\s+(?P<package>\S+)\s[^\n]*$")
_GO_RAN = re.compile(r"(?m)^\s*--- (?:PASS|SKIP): ")
_GO_PROGRAM = (
    'case $1 in *.test) ;; *) exec "$@" ;; esac; d=$(mktemp -d); cp "$1" "$d/program"; shift; "$d/program" "$@"; e=$?; '
    'rm -r "$d"; exit $e'
)
_GO_ALONE = (
    f"p=$(mktemp -d) && printf '%s\\n' '#!/bin/sh' {shlex.quote(_GO_PROGRAM)} > \"$p/alone\" && "
    'chmod +x "$p/alone" && export GOFLAGS="${GOFLAGS:-} -v -exec=$p/alone" && unset p\n'
)
_NODE = re.compile(r"node\s+--test(?P<files>(?:\s+[\w./-]+\.[cm]?[jt]s)+)")


def changed_values(case: Case) -> dict[str, bytes]:
    """Data of the base that the work changed beside code, as it was; not what a person has said may change."""
    guard = case.guard
    if not isinstance(guard, CommandGuard):
        return {}
    files = guard.named.files
    is_free = matcher(guard.may_change)
    work = [change for change in case.work if not change.link and change.path not in files]
    data = [change for change in work if change.status == "M" and _holds_values(change.path)]
    if not (any(_is_code(change.path) for change in work) or _is_compared(case, guard, {each.path for each in data})):
        return {}
    read = ((each.path, case.tree.read(each.path)) for each in data)
    return {
        path: before
        for path, before in read
        if before is not None and not is_free(path.encode("utf-8", "surrogateescape"))
    }


def _is_compared(case: Case, guard: CommandGuard, data: Collection[str]) -> bool:
    """Whether one program of the check is given changed data together with another file of the work.

    A search is given files and compares none of them with another.
    """
    changed = {change.path for change in case.changes.files if change.status != "D"}
    scripts = (case.tree.read(path) or b"" for path in sorted(guard.named.scripts))
    texts = [case.proof or "", *(each.decode("utf-8", "replace") for each in scripts)]
    for each in (each for text in texts for each in simple_commands(text)):
        named = {posixpath.normpath(word) for word in each.words[1:]} & changed
        if len(named) > 1 and named & {*data} and posixpath.basename(each.words[0]) not in _SEARCHES:
            return True
    return False


def _holds_values(path: str) -> bool:
    """Whether a file holds values: settings, pages for people and templates are part of the work."""
    suffix = posixpath.splitext(path)[1].lower()
    return (is_record(path) or suffix in _TABLES) and suffix not in _TEMPLATES and not is_settings(path)


def _is_code(path: str) -> bool:
    suffix = posixpath.splitext(path)[1]
    return bool(suffix) and not (_holds_values(path) or is_settings(path) or is_runner_config(path))


def put_values_back(case: Case, command: str, returned: Mapping[str, bytes]) -> None:
    """The check once more with older data: red says that it passes only since the work changed what it is asked."""
    singles = [{path: content} for path, content in sorted(returned.items())]
    for files in singles if len(singles) <= _MOST_SINGLE else [returned]:
        run = _run(case, command, files)
        if run.exit_code is None or run.exit_code == 0:
            continue
        paths = sorted(files)
        shown = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
        message = (
            f"The command passes only with {shown} as the work has changed it, and fails with what was there before; "
            f"{ALLOWED_BY}"
        )
        case.find("data_changed", message, path=paths[0], paths=paths)
        return


# ---- the mark of a runner --------------------------------------------------------------------------------------------


def has_mark(case: Case, command: str) -> bool:
    """Whether the check can be run without the mark of its runner."""
    return bool(_NODE.fullmatch(command.strip())) or _runs_go(case, command)


def without_mark(case: Case, command: str) -> None:
    """The tests without what tells that they are run by a test runner: who knows it answers otherwise there."""
    if found := _NODE.fullmatch(command.strip()):
        plain = " && ".join(f"node {shlex.quote(file)}" for file in found["files"].split())
        run = _run(case, plain, {})
        if run.exit_code not in (0, None):
            message = (
                f"The tests pass under 'node --test' and fail as plain programs: '{plain}' ends with {run.exit_code}"
            )
            case.find("answers_differ", message, calls=[plain])
    elif _runs_go(case, command):
        _without_mark_of_go(case, command)


def _runs_go(case: Case, command: str) -> bool:
    guard = case.guard
    texts = [command, *(guard.named.texts if isinstance(guard, CommandGuard) else ())]
    return any(map(_GO.search, texts))


def _without_mark_of_go(case: Case, command: str) -> None:
    """The tests of Go under the name of a plain program; each package that passes has a test that has passed.

    ``go test`` says ``ok`` where the program of the tests ends with 0, also before the first of them.
    """
    run = _run(case, f"{_GO_ALONE}{command}", {})
    if run.exit_code is None or not run.ended or "flag provided but not defined" in run.output:
        return
    if run.exit_code:
        message = "The tests pass under 'go test', and fail where their program has the name of a plain one"
        case.find("answers_differ", message, calls=[command])
    elif missing := [each for each in packages_without_tests(run.output) if _is_of_work(each, case)]:
        message = (
            f"go test says that {missing[0]} is ok, and none of its tests has passed: the program ended before that"
        )
        case.find("proof_failed", message, problem="no test passed")


def _is_of_work(package: str, case: Case) -> bool:
    folders = {posixpath.dirname(change.path) for change in case.changes.files}
    return any(not folder or f"/{package}".endswith(f"/{folder}") for folder in folders)


def packages_without_tests(output: str) -> list[str]:
    """The packages that ``go test -v`` calls ok, though none of their tests has passed or was skipped."""
    found: list[str] = []
    begin = 0
    for line in _GO_OK.finditer(output):
        told = output[begin : line.start()]
        begin = line.end()
        if not _GO_RAN.search(told) and "[no test" not in line[0]:
            found.append(line["package"])
    return found


def _run(case: Case, command: str, files: Mapping[str, bytes]) -> Run:
    overlays: Collection[Edits] = [Edits(files)] if files else []
    return case.part(command, RunAsked(seconds=case.short_limit, overlays=tuple(overlays), plain=True))
