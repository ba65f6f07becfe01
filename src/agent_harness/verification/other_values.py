"""What is asked of a check of which only the exit status is known: whether it notices.

The check is changed, not the work: with other values expected it has to fail. Then data that was there and that the
work changed is put back, while the code stays. Then the tests are run without the mark of their runner. The first alarm
ends it; each is one run of the check, or two.
"""

import posixpath
import re
import shlex
from collections.abc import Collection, Mapping

from agent_harness.kernel.git.status import matcher
from agent_harness.verification.case import Case
from agent_harness.verification.changes import Tree, tree_at
from agent_harness.verification.command.guard import ALLOWED_BY, CommandGuard
from agent_harness.verification.command.named_files import named_by
from agent_harness.verification.expectations import ChangedCheck, with_other_values
from agent_harness.verification.expecting.records import is_record
from agent_harness.verification.runner.execution import RunAsked
from agent_harness.verification.runner_config import is_runner_config
from agent_harness.verification.verdict import Run
from agent_harness.verification.workspace import Edits

BY_EXIT_STATUS = "by exit status alone"
_MOST_SINGLE = 2  # data files that are put back one by one; of more, all at once
_MOST_OF_CHECK, _MOST_DATA = 200, 20  # files that are read
_SETTINGS = re.compile(
    r"(?:.*/)?(?:package(?:-lock)?|[tj]sconfig.*|composer|deno|Cargo|\..*)\.\w+|.*\.(?:toml|ya?ml|ini|cfg|conf|lock|env|md|rst)"
    r"|(?:.*/)?(?:requirements.*|CMakeLists|CHANGELOG.*|README.*|LICENSE.*|VERSION.*|robots)\.txt"
)
_TABLES = frozenset({".db", ".sqlite", ".sqlite3", ".pkl", ".pickle", ".npy", ".npz", ".parquet", ".bin", ".dbm"})
_TEMPLATES = frozenset({".html", ".xml", ".svg"})
_NODE = re.compile(r"node\s+--test(?P<files>(?:\s+[\w./-]+\.[cm]?[jt]s)+)")
_OF_RUST = b"#[cfg(test)]"


def ask(case: Case, command: str) -> None:
    """Whether the check notices, as far as its exit status can say so."""
    guard = case.guard
    if not isinstance(guard, CommandGuard):
        case.not_asked = BY_EXIT_STATUS
        return
    now = tree_at(case.git, case.objects, case.candidate)
    files = _of_check(case, guard, command, now)
    versions = with_other_values(command, files, _compared_with(case, command, files, now))
    returned = _put_back(case, guard, files)
    if not versions:
        case.not_asked = f"{BY_EXIT_STATUS}: it expects no value that could be changed"
    if not (versions or returned):
        return
    with case.step("twins"):
        if versions:
            _expects_others(case, versions)
        if not case.ended and returned:
            _stands_on_changed_values(case, command, returned)
        if not case.ended:
            _without_mark(case, command)


# ---- other values ----------------------------------------------------------------------------------------------------


def _of_check(case: Case, guard: CommandGuard, command: str, now: Tree) -> dict[str, bytes]:
    """The check's own files as the candidate has them: what its command names or reaches, and its tests."""
    named = named_by(command, now)
    own = guard.named.files | named.files
    paths = [path for path in sorted(now.paths) if path in own or guard.is_own(path)]
    if named.tests and re.search(r"\bcargo\b", command):
        rust = (change.path for change in case.changes.files if change.path.endswith(".rs"))
        paths += [path for path in rust if _OF_RUST in (now.read(path) or b"")]
    read = ((path, now.read(path)) for path in dict.fromkeys(paths[:_MOST_OF_CHECK]))
    return {path: content for path, content in read if content is not None and path not in now.links}


def _compared_with(case: Case, command: str, files: Mapping[str, bytes], now: Tree) -> dict[str, bytes]:
    """Unchanged data that the check speaks of."""
    changed = {change.path for change in case.changes.files}
    texts = [command.encode(), *files.values()]
    found: dict[str, bytes] = {}
    for path in sorted(now.paths):
        if len(found) >= _MOST_DATA:
            break
        is_data = is_record(path) and path not in changed and path not in files and not _SETTINGS.fullmatch(path)
        if is_data and any(path.rpartition("/")[2].encode() in text for text in texts):
            found |= {path: content} if (content := now.read(path)) is not None else {}
    return found


def _expects_others(case: Case, versions: list[ChangedCheck]) -> None:
    """The check with other values, all at once; where it stays green, one kind after the other."""
    total = versions[0].places
    for at, version in enumerate(versions):
        run = _run(case, version.command, version.files)
        if run.over_limit:
            case.not_asked = f"the changed check {run.over_limit}"
            return
        if run.exit_code != 0:
            case.noticed = True
            case.noticed_of = f"{version.places} of {total} expected values changed"
            return
        if at == 0 and len(versions) == 2:
            break  # one kind is all there is
    case.noticed, case.noticed_of = False, f"0 of {total} expected values changed"
    message = f"{case.runner.subject} cannot fail: it passes also when {versions[0].what}"
    case.find("weak_test", message, of_session=True, twins=[versions[0].what], files=sorted(versions[0].files))


# ---- data of before --------------------------------------------------------------------------------------------------


def _put_back(case: Case, guard: CommandGuard, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Data of the base that the work changed beside code, as it was; not what a person has said may change."""
    is_free = matcher(guard.may_change)
    work = [change for change in case.work if not change.link and change.path not in files]
    data = [change for change in work if change.status == "M" and _holds_values(change.path)]
    if not any(_is_code(change.path) for change in work):
        return {}
    read = ((each.path, case.tree.read(each.path)) for each in data)
    return {
        path: before
        for path, before in read
        if before is not None and not is_free(path.encode("utf-8", "surrogateescape"))
    }


def _holds_values(path: str) -> bool:
    """Whether a file holds values: settings, pages for people and templates are part of the work."""
    suffix = posixpath.splitext(path)[1].lower()
    return (is_record(path) or suffix in _TABLES) and suffix not in _TEMPLATES and not _SETTINGS.fullmatch(path)


def _is_code(path: str) -> bool:
    suffix = posixpath.splitext(path)[1]
    return bool(suffix) and not (_holds_values(path) or _SETTINGS.fullmatch(path) or is_runner_config(path))


def _stands_on_changed_values(case: Case, command: str, returned: Mapping[str, bytes]) -> None:
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


def _without_mark(case: Case, command: str) -> None:
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
