"""Rules on what a candidate changes of the files that its validation command names or loads.

Values in, findings out; comments and layout never count. What was there at the claim may not be weakened, deleted or
rewritten; tests and assertions may come. A ``CRITICAL`` finding rejects, and its message names the file, the line and
the setting that allows the change.
"""

import ast
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Self

from agent_harness.kernel.git.status import matcher
from agent_harness.verification import sources
from agent_harness.verification.changes import CandidateChanges, FileChange, Tree
from agent_harness.verification.command.named_files import (
    EVERYTHING,
    AbsentFile,
    Named,
    joined,
    named_by,
    package_scripts,
)
from agent_harness.verification.command.parsing import weakened
from agent_harness.verification.guard import (
    TEST_FOLDERS,
    Guard,
    Survey,
    belongs,
    conftest_findings,
    is_read,
    moved_tests,
    product_findings,
    settings_findings,
    test_moved,
    variables_in,
)
from agent_harness.verification.runner_config import is_conftest, is_runner_config, is_test_file, shadows
from agent_harness.verification.verdict import CRITICAL, IMPORTANT, Finding

__all__ = ["ALLOWED_BY", "CommandGuard", "LoadedFiles", "bent", "decides", "findings_on", "is_test_side", "moved_under"]
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_COMMENTS = {
    ".js": "//",
    ".ts": "//",
    ".mjs": "//",
    ".cjs": "//",
    ".go": "//",
    ".rs": "//",
    ".java": "//",
    ".php": "//",
}
_LEAVING_OUT = re.compile(
    r"\b(x(it|test|describe)|f(it|describe)|todo|exit|return|process|Skip|SkipNow|ignore|Ignore|Disabled|pending)\b"
    r"|\.(skip|only|todo|skipIf|runIf)\b|@(skip|disabled)|t\.Skip|/\*|#if\b|=begin|__END__"
)
_RUNNER_MEMBERS = ("jest", "vitest", "mocha", "ava", "type", "nyc", "c8")
_SHOWN = 60
_MOST_OTHERS = 200
_MOST_OF_CHECK = 50  # files in which expected values are changed
_MOST_MOVED = 10  # test files; each costs a run
_Rule = Callable[[str, bytes, bytes], str | None]
ALLOWED_BY = "a task that is meant to change it names it in validation.may_change"


def changed_script(path: str, before: bytes, after: bytes) -> str | None:
    """Where a script that proves something is another one now: ``line 3: 'exit 1' is now 'exit 0'``."""
    if path.endswith(".py") and sources.same(before, after):
        return None
    old, new = _lines(path, before), _lines(path, after)
    return None if [text for _, text in old] == [text for _, text in new] else _first_difference(old, new)


def weakened_test(path: str, before: bytes, after: bytes) -> str | None:
    """What a test file, or what tests stand on, no longer says; additions are free."""
    if PurePosixPath(path).suffix == ".py":
        return _weakened_python(before, after)
    old, new = _lines(path, before), _lines(path, after)
    matcher = difflib.SequenceMatcher(None, [text for _, text in old], [text for _, text in new], autojunk=False)
    for kind, start, end, into, until in matcher.get_opcodes():
        if kind in ("delete", "replace"):
            gone = old[start]
            return f"line {gone[0]} '{gone[1][:_SHOWN]}' is gone or changed"
        if kind == "insert" and (
            line := next((new[at] for at in range(into, until) if _LEAVING_OUT.search(new[at][1])), None)
        ):
            return f"the new line {line[0]} '{line[1][:_SHOWN]}' may leave tests out"
        del end
    return None


def changed_package(names: Sequence[str]) -> Callable[[str, bytes, bytes], str | None]:
    """A rule for package.json: these scripts, and what configures the test runners in it, stay as they were."""

    def rule(_: str, before: bytes, after: bytes) -> str | None:
        old, new = package_scripts(before), package_scripts(after)
        hooks = [f"{side}{name}" for name in names for side in ("pre", "post")]
        different = [name for name in (*names, *hooks) if old.get(name) != new.get(name)]
        if different:
            now = new.get(different[0])
            return f"its script {different[0]} is " + (f"now '{now[:_SHOWN]}'" if now else "gone")
        members = [name for name in _RUNNER_MEMBERS if _member(before, name) != _member(after, name)]
        return f"it sets {', '.join(members)}" if members else None

    return rule


def _member(content: bytes, name: str) -> object:
    import json

    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return "unreadable"
    return document.get(name) if isinstance(document, dict) else None


def _lines(path: str, content: bytes) -> list[tuple[int, str]]:
    """Lines that say something, with their numbers; the first line of a script names its interpreter."""
    sign = _COMMENTS.get(PurePosixPath(path).suffix, "#")
    text = content.decode("utf-8", "surrogateescape").splitlines()
    numbered = ((number, line.strip()) for number, line in enumerate(text, 1))
    return [
        (number, line) for number, line in numbered if line and (not line.startswith(sign) or line.startswith("#!"))
    ]


def _first_difference(old: Sequence[tuple[int, str]], new: Sequence[tuple[int, str]]) -> str:
    for (number, was), (_, now) in zip(old, new, strict=False):
        if was != now:
            return f"line {number}: '{was[:_SHOWN]}' is now '{now[:_SHOWN]}'"
    if len(old) > len(new):
        return f"line {old[len(new)][0]}: '{old[len(new)][1][:_SHOWN]}' is gone"
    return f"line {new[len(old)][0]}: '{new[len(old)][1][:_SHOWN]}' is new"


# ---- Python --------------------------------------------------------------------------------------------------------


def _weakened_python(before: bytes, after: bytes) -> str | None:
    old, new = sources.parse(before), sources.parse(after)
    if old is None:
        return None if before.strip() == after.strip() else "it could not be read before, and is another one now"
    if new is None:
        return "it can no longer be read"
    names = sources.changed(old, new)
    return f"{', '.join(list(dict.fromkeys(names))[:5])} changed or went" if names else None


@dataclass(frozen=True, slots=True)
class _Comparison:
    """One candidate."""

    changes: CandidateChanges
    named: Named

    @property
    def had_tests(self) -> bool:
        return any(is_test_file(path) for path in self.changes.before)


def findings_on(
    changes: CandidateChanges, named: Named, *, may_change: Sequence[str] = (), moved: Mapping[str, str] | None = None
) -> list[Finding]:
    """What speaks against a candidate before it is run; ``may_change`` are patterns of files that are free.

    ``moved`` are test files that are the same under another path, whose tests are shown to be run there.
    """
    is_free = matcher(may_change)
    case = _Comparison(changes, named)
    passed_over = moved or {}
    judged = (
        change
        for change in changes.files
        if change.path not in passed_over and not is_free(change.path.encode("utf-8", "surrogateescape"))
    )
    found = [finding for change in judged for finding in _judge(change, case)]
    return [*found, *(test_moved(old, new) for old, new in passed_over.items())]


def moved_under(changes: CandidateChanges, named: Named) -> dict[str, str]:
    """Older test files that the command finds by itself, each with its new path; none that the command names."""
    found = moved_tests(changes, [each for each in named.tests if PurePosixPath(each).suffix])
    return {old: new for old, new in found.items() if old not in named.files and is_test_side(new, named)}


def is_test_side(path: str, named: Named) -> bool:
    """Whether a path belongs to the tests that the command runs, or to what they stand on."""
    if path in named.tests:  # a runner is given it, whatever it is called
        return True
    return (
        bool(named.tests)
        and (is_test_file(path) or is_conftest(path) or TEST_FOLDERS & {*PurePosixPath(path).parts[:-1]} != set())
        and _near(path, named)
    )


def _judge(change: FileChange, case: _Comparison) -> Iterator[Finding]:
    named, was_there = case.named, change.status != "A"
    if named.python and (why := shadows(change, case.changes, ("",))):
        yield _finding("shadowing_file", change, f"{change.path} is not accepted: {why}; another name avoids this")
    elif (change.path in named.files) if was_there else named.loads(change.path):
        if why := bent(change, named):
            role = "proves this task and was there before it began, but" if was_there else "is new, and"
            yield _finding("check_changed", change, f"{change.path} {role} {why}; {ALLOWED_BY}", reason=why)
    elif named.tests and is_conftest(change.path):
        yield from _weighed(conftest_findings(change), change, case) if _above_or_below(change.path, named) else ()
    elif named.tests and is_runner_config(change.path):
        yield from _weighed(settings_findings(change), change, case)
    elif is_test_side(change.path, named):
        word = "holds tests of this task" if is_test_file(change.path) else "stands under the tests of this task"
        yield from _compared(change, "protected_test_changed", word, weakened_test) if was_there else ()
    elif named.tests and named.python:
        yield from _ending(product_findings(change))


def bent(change: FileChange, named: Named) -> str | None:
    """What a change makes of a file that commands load, or would load if it were there; ``None`` when nothing of it."""
    if change.status == "A":
        found = (each for each in named.absent if each.matches(change.path))
        return next(filter(None, (_comes(change, each) for each in found)), None)
    return _by_rule(change, _rule_for(change.path, named)) if change.path in named.files else None


def _comes(change: FileChange, absent: AbsentFile) -> str | None:
    """What a new file changes of the way to a proof."""
    if absent.instead_of:
        return f"it is read in the place of {absent.instead_of}"
    if change.link or change.after is None:
        return "it cannot be compared"
    if absent.goals is not None:
        why = weakened(absent.beside, f"{absent.beside}\n{_text(_unified(change.after))}", absent.goals)
        return f"a makefile includes it, and {why}" if why else None
    return "a script runs it where it is there" if _lines(change.path, change.after) else None


class CommandGuard(Guard):
    """The rules of an item that any command proves; what ``others`` stand on, which prove what comes later, too."""

    runs_moved = True

    def __init__(
        self, tree: Tree, command: str, *, others: Sequence[str], may_change: Sequence[str], follows_moves: bool
    ) -> None:
        self.named = named_by(command, tree)
        self.own_tests = self.named.tests
        self._later = joined([named_by(each, tree) for each in others[:_MOST_OTHERS]])
        self.may_change = may_change
        self._tree, self._follows_moves = tree, follows_moves

    def decides(self, path: str) -> bool:
        """Whether the rules look at the content of a file."""
        return decides(path, self.named) or decides(path, self._later)

    def survey(self, changes: CandidateChanges) -> Survey:
        moved = moved_under(changes, self.named)
        moved = moved if self._follows_moves and len(moved) <= _MOST_MOVED else {}
        found = findings_on(changes, self.named, may_change=self.may_change, moved=moved)
        known = {each.data.get("path") for each in found if each.severity == CRITICAL}
        if self._later.texts:
            gone = moved_under(changes, self._later)
            more = findings_on(changes, self._later, may_change=self.may_change, moved=gone)
            others = (replace(e, message=e.message.replace("this task", "another task of the list")) for e in more)
            found += [each for each in others if each.data.get("path") not in known]
        side = tuple(change.path for change in changes.files if self.is_own(change.path))
        return Survey(findings=tuple(found), test_side=side, moved=moved)

    def is_own(self, path: str) -> bool:
        return is_test_side(path, self.named)

    def check_files(self, changes: CandidateChanges) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """Never files of the work: what is new counts where it is a test by its name."""
        changed = {change.path: change for change in changes.files}
        own = {path for path in (*self.named.scripts, *self.named.makefiles) if not is_runner_config(path)}
        given = {*self.named.tests}  # by their paths, whatever they are called
        paths = (own | given) & changes.after
        paths |= {path for path in changes.after if is_test_file(path) and (path in changed or self.is_own(path))}
        paths = {path for path in paths if path not in changed or is_test_file(path) or path in changes.before | given}
        files = self._contents(sorted(paths)[:_MOST_OF_CHECK], changed)
        texts = " ".join((*self.named.texts, *map(_text, files.values())))
        spoken = sorted(path for path in changes.after if path not in changed and _speaks_of(texts, path))
        return files, self._contents(spoken[:_MOST_OF_CHECK], {})

    def _contents(self, paths: Iterable[str], changed: Mapping[str, FileChange]) -> dict[str, bytes]:
        found = ((path, changed[path].after if path in changed else self._tree.read(path)) for path in paths)
        return {path: content for path, content in found if content}

    def brought(self, changes: CandidateChanges, found: Survey) -> list[str]:
        """Test files by their names as well: which of them a command runs is not always to be read from it."""
        return [c.path for c in changes.files if c.path in found.test_side or is_test_file(c.path)]

    @property
    def conftests(self) -> list[str]:
        return [path for path in self._tree.paths if is_conftest(path)]

    @property
    def variables(self) -> set[str]:
        settings = (path for path in self._tree.paths if is_conftest(path) or is_runner_config(path))
        return {name for path in settings for name in variables_in(self._tree.read(path) or b"")}


def _speaks_of(texts: str, path: str) -> bool:
    """Whether a check names a file, or the folder in which it lies."""
    place = PurePosixPath(path)
    folder = place.parent.name
    return place.name in texts or (bool(folder) and any(f"{folder}{end}" in texts for end in ("/", '"', "'")))


def decides(path: str, named: Named) -> bool:
    """Whether the content of a file says something about the proof."""
    return named.loads(path) or is_read(path) or is_test_side(path, named)


@dataclass(frozen=True, slots=True)
class LoadedFiles:
    """What stands behind the commands of a project in one tree: those that check it, and those of its environment."""

    checks: Named
    environment: Named

    @classmethod
    def of(cls, tree: Tree, checks: Iterable[str], environment: Iterable[str]) -> Self:
        """What these commands name or load."""
        return cls(
            joined([named_by(each, tree) for each in dict.fromkeys(checks)]),
            joined([named_by(each, tree, sets_up=True) for each in dict.fromkeys(environment)]),
        )

    @property
    def files(self) -> frozenset[str]:
        """All of it that is there."""
        return self.checks.files | self.environment.files

    def loads(self, path: str) -> bool:
        """Whether it is one of them, or would be if it were there."""
        return self.checks.loads(path) or self.environment.loads(path)

    def finding(self, change: FileChange) -> Finding | None:
        """What speaks against the change of one of these files."""
        of_checks, of_environment = bent(change, self.checks), bent(change, self.environment)
        why = of_checks or of_environment
        if why is None:
            return None
        role = "a command that checks the project runs or reads it"
        role = role if of_checks else "it sets up, resets or looks after the environment of the tests"
        message = f"{change.path} is not a session's to change: {role}, and {why}."
        facts = {"path": change.path, "reason": why, "environment": of_checks is None}
        return Finding("runner_config_changed", CRITICAL, message, facts)


def _rule_for(path: str, named: Named) -> _Rule:
    if path in named.makefiles:
        goals, others = named.makefiles[path], named.beside.get(path, "")
        return lambda _, before, after: weakened(f"{_text(before)}\n{others}", f"{_text(after)}\n{others}", goals)
    return changed_package(sorted(named.packages[path])) if path in named.packages else changed_script


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _compared(change: FileChange, code: str, role: str, rule: _Rule) -> Iterator[Finding]:
    """A file that was there at the claim, by the rule for its kind."""
    if why := _by_rule(change, rule):
        message = f"{change.path} {role} and was there before it began, but {why}; {ALLOWED_BY}"
        yield _finding(code, change, message, reason=why)


def _by_rule(change: FileChange, rule: _Rule) -> str | None:
    why = _obviously(change)
    if why is None and change.before is not None and change.after is not None:
        why = rule(change.path, _unified(change.before), _unified(change.after))
    return why


def _obviously(change: FileChange) -> str | None:
    if change.status == "D":
        return "it was deleted"
    if change.link:
        return "it is a link now"
    return "it is too large to be compared, and is another one" if None in (change.before, change.after) else None


def _unified(content: bytes) -> bytes:
    """A snapshot keeps bytes, a commit may not: line endings are no difference."""
    return content.replace(b"\r\n", b"\n")


def _weighed(found: Iterator[Finding], change: FileChange, case: _Comparison) -> Iterator[Finding]:
    """Settings steer the tests of the claim; where there were none, they are only named."""
    for each in found:
        severity = CRITICAL if case.had_tests or change.status != "A" else IMPORTANT
        yield Finding(each.code, severity, f"{each.message.rstrip('.')}; {ALLOWED_BY}", each.data)


def _ending(found: Iterator[Finding]) -> Iterator[Finding]:
    """No plugin watches these tests: code that ends their process by itself ends it with the status that it likes."""
    for each in found:
        ends = "os._exit" in str(each.data.get("names", ()))
        yield Finding(each.code, CRITICAL, f"{each.message.rstrip('.')}; {ALLOWED_BY}", each.data) if ends else each


def _finding(code: str, change: FileChange, message: str, **facts: object) -> Finding:
    return Finding(code, CRITICAL, message, {"path": change.path, **facts})


# ---- where -----------------------------------------------------------------------------------------------------------


def _near(path: str, named: Named) -> bool:
    """A test that the command runs, or something else in the same folders of tests."""
    if EVERYTHING in named.tests or belongs(path, named.tests):
        return True
    return not is_test_file(path) and _above_or_below(path, named)


def _above_or_below(path: str, named: Named) -> bool:
    """Whether a file's folder lies above or below one of the places where tests are."""
    if EVERYTHING in named.tests:
        return True
    folder = PurePosixPath(path).parent
    places = [PurePosixPath(each) for each in named.tests]
    places = [place.parent if place.suffix else place for place in places]
    return any(folder.is_relative_to(place) or place.is_relative_to(folder) for place in places)
