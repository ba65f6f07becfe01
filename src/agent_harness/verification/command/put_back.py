"""What is asked of a check of which only the exit status is known, when it has noticed other values.

Data that was there and that the work changed is put back, while the code stays: a check that fails then passes only
since the work changed what it is asked. Then the tests are run without the mark of their runner.
"""

import posixpath
import re
import shlex
from collections.abc import Collection, Mapping

from agent_harness.verification.case import Case
from agent_harness.verification.command.guard import ALLOWED_BY, CommandGuard
from agent_harness.verification.command.parsing import simple_commands
from agent_harness.verification.expecting.records import is_record, is_settings
from agent_harness.verification.runner.execution import RunAsked
from agent_harness.verification.runner_config import is_runner_config
from agent_harness.verification.verdict import Run
from agent_harness.verification.workspace import Edits

_MOST_SINGLE = 2  # data files that are put back one by one; of more, all at once
_TABLES = frozenset(
    {".db", ".sqlite", ".sqlite3", ".pkl", ".pickle", ".npy", ".npz", ".parquet", ".bin", ".dbm", ".gdbm", ".ndbm"}
    | {".pck", ".shelve", ".dump", ".feather", ".arrow", ".msgpack", ".cbor", ".gz", ".zip", ".xlsx", ".mo", ".po"}
)
_DATA_FOLDERS = frozenset({"data", "expected", "fixtures", "golden", "snapshots", "tables", "testdata"})
_SEARCHES = frozenset({"[", "cat", "egrep", "fgrep", "git", "grep", "head", "ls", "rg", "sed", "tail", "test", "wc"})
_TEMPLATES = frozenset({".html", ".xml", ".svg"})
_NODE = re.compile(r"node\s+--test(?P<files>(?:\s+[\w./-]+\.[cm]?[jt]s)+)")


def changed_values(case: Case) -> dict[str, bytes]:
    """Data of the base that the work changed beside code, as it was; not what a person has said may change."""
    work = [change for change in case.work if not change.link and not case.guard.has_rule(change.path)]
    data = [change.path for change in work if change.status == "M" and holds_values(change.path)]
    if not data or not (any(is_code(change.path) for change in work) or _is_compared(case, data)):
        return {}
    read = ((path, case.tree.read(path)) for path in data)
    return {path: before for path, before in read if before is not None}


def _is_compared(case: Case, data: Collection[str]) -> bool:
    """Whether one program of the check is given changed data together with another file of the work.

    A search is given files and compares none of them with another.
    """
    if not isinstance(case.guard, CommandGuard):
        return False
    changed = {change.path for change in case.changes.files if change.status != "D"}
    scripts = (case.tree.read(path) or b"" for path in sorted(case.guard.named.scripts))
    texts = [case.proof or "", *(each.decode("utf-8", "replace") for each in scripts)]
    for each in (each for text in texts for each in simple_commands(text)):
        named = {posixpath.normpath(word) for word in each.words[1:]} & changed
        if len(named) > 1 and named & {*data} and posixpath.basename(each.words[0]) not in _SEARCHES:
            return True
    return False


def holds_values(path: str) -> bool:
    """Whether a file holds values: settings, pages for people and templates are part of the work."""
    suffix = posixpath.splitext(path)[1].lower()
    if not suffix:
        return bool(_DATA_FOLDERS & {*path.split("/")[:-1]})
    return (is_record(path) or suffix in _TABLES) and suffix not in _TEMPLATES and not is_settings(path)


def is_code(path: str) -> bool:
    """Whether a file is part of the product, and holds neither values nor settings."""
    suffix = posixpath.splitext(path)[1]
    return bool(suffix) and not (holds_values(path) or is_settings(path) or is_runner_config(path))


def put_values_back(case: Case, command: str, returned: Mapping[str, bytes]) -> None:
    """The check once more with older data: red says that it passes only since the work changed what it is asked."""
    singles = [{path: content} for path, content in sorted(returned.items())]
    for files in singles if len(singles) <= _MOST_SINGLE else [returned]:
        if not _fails_with(case, command, files):
            continue
        paths = sorted(files)
        shown = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
        message = (
            f"The command passes only with {shown} as the work has changed it, and fails with what was there before; "
            f"{ALLOWED_BY}"
        )
        case.find("data_changed", message, path=paths[0], paths=paths)
        return


def _fails_with(case: Case, command: str, files: Mapping[str, bytes]) -> bool:
    """Whether the check fails with older data; of tests that report, those count that the work has not changed."""
    if not case.runs["proof"].report:
        return _run(case, command, files).exit_code not in (0, None)
    run = case.part(command, RunAsked(seconds=case.short_limit, keep_going=True, overlays=(Edits(files),)))
    return not case.runner.files_of(run.seen.failing) <= {change.path for change in case.changes.files}


# ---- the mark of a runner --------------------------------------------------------------------------------------------


def without_mark(case: Case, command: str) -> None:
    """Test files as plain programs: code that knows its test runner by a variable or an option answers otherwise."""
    found = _NODE.fullmatch(command.strip())
    if not found:
        return
    plain = " && ".join(f"node {shlex.quote(file)}" for file in found["files"].split())
    run = _run(case, plain, {})
    if run.exit_code not in (0, None):
        message = f"The tests pass under 'node --test' and fail as plain programs: '{plain}' ends with {run.exit_code}"
        case.find("answers_differ", message, calls=[plain])


def _run(case: Case, command: str, files: Mapping[str, bytes]) -> Run:
    overlays: Collection[Edits] = [Edits(files)] if files else []
    return case.part(command, RunAsked(seconds=case.short_limit, overlays=tuple(overlays), plain=True))
