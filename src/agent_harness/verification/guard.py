"""Rules on what a candidate changes around its tests, before anything of it is run.

Values in, findings out; ``survey`` is the front door. A ``CRITICAL`` finding rejects. Paths are relative to the
project.
Source: features.md C54, features-scenarios.md S08.
"""

import ast
import os
import posixpath
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from agent_harness.kernel.git import Git
from agent_harness.kernel.git.status import matcher
from agent_harness.verification import sources
from agent_harness.verification.changes import CandidateChanges, FileChange, contents
from agent_harness.verification.runner_config import (
    harm,
    is_conftest,
    is_runner_config,
    is_test_file,
    settings,
    shadows,
)
from agent_harness.verification.verdict import CRITICAL, IMPORTANT, WARN, Finding

TEST_FOLDERS = frozenset({"tests", "test", "__tests__", "spec", "specs"})
_KNOWS_TESTS = re.compile(
    rb"PYTEST_CURRENT_TEST|PYTEST_VERSION|AGENT_HARNESS_WITNESS|\b_pytest\b|['\"]pytest['\"] in sys\.modules|os\._exit"
)
_LINE = re.compile(r"^line \d+ ")
_VARIABLE = re.compile(rb"\b[A-Z][A-Z0-9_]{2,}\b")
_SETTINGS_DEPTH = 2
_PLUGIN = re.compile(r"(?:^|\s)-p\s*([A-Za-z_][\w.]*)")
_WORDS = re.compile(r"[\s;|&()<>'\"=]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """What the session was given to do, and what it must leave alone."""

    test_files: Collection[str] = ()  # of the assigned feature: files, folders or node ids
    protected: Collection[str] = ()  # of features that pass already: files, folders or node ids
    import_roots: Collection[str] = ("",)  # folders from which the interpreter imports
    runner_files: Collection[str] = ()  # other files that the test commands themselves name
    about_loaded: Callable[[FileChange], Finding | None] = lambda _: None  # what the project's commands run or read
    plugins: Collection[str] = ()  # module names that the base loads into its test runner
    may_change: Collection[str] = ()  # patterns of protected files that a person has released
    given: Collection[str] = ()  # own test files that held more than placeholders before the work was begun
    older: Collection[str] = ()  # files of tests that are known to pass, whatever their names
    examples: Mapping[str, Collection[str]] = field(default_factory=dict)  # file -> names of its known doctests
    read: Collection[str] = ()  # files that older tests read, such as data beside them
    story: Collection[str] = ()  # files in which the session tells of itself
    conftests: Collection[str] = ()  # of the base
    variables: Collection[str] = ()  # names in them, and in the runner's settings, that variables may have

    def frees(self, path: str) -> bool:
        """Whether a person has said that this protected file may change."""
        return matcher(tuple(self.may_change))(os.fsencode(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What the rules say, and which files belong to the test side."""

    findings: tuple[Finding, ...] = ()
    test_side: tuple[str, ...] = ()  # changed paths of tests and what they stand on
    kept: tuple[str, ...] = ()  # changed paths of which every run of the suite uses the version from the base
    read: tuple[str, ...] = ()  # changed paths that older tests read
    released: tuple[str, ...] = ()  # changed paths that a person has said may change
    moved: Mapping[str, str] = field(default_factory=dict)  # older test files that are the same under another path
    gained: frozenset[str] = frozenset()  # ids of the tests that older test files gain
    needs_cross_check: bool = False  # new test code may act on older tests, or counts among them: all run together, too

    @property
    def rejects(self) -> bool:
        return any(finding.severity == CRITICAL for finding in self.findings)


def is_read(path: str) -> bool:
    """True for paths whose content the rules look at."""
    pure = PurePosixPath(path)
    return pure.suffix in {".py", ".pth"} or pure.name == "entry_points.txt" or is_runner_config(path)


def file_of(node: str) -> str:
    """The file of a node id (``tests/test_a.py::test_x``)."""
    return node.partition("::")[0].rstrip("/")


def belongs(path: str, nodes: Collection[str]) -> bool:
    """True when ``path`` is one of the files of these nodes, or lies in one of their folders."""
    return any(path == file or path.startswith(file + "/") for file in map(file_of, nodes))


def survey(changes: CandidateChanges, duty: Duty) -> Survey:
    """The findings on a candidate, and the classification of its changed files."""
    sides = {change.path: _Kind(change.path, changes, duty) for change in changes.files}
    moved = moved_tests(changes, (*duty.protected, *duty.test_files))
    judged = [change for change in changes.files if change.path not in moved]
    findings = [finding for change in judged for finding in _judge(change, sides[change.path], changes, duty)]
    findings += [test_moved(old, new) for old, new in moved.items()]
    findings += _own_tests(changes, duty)
    findings = [_released(finding, duty) for finding in findings]
    findings += [found for c in judged if duty.frees(c.path) for found in _weakened(c, sides[c.path])]
    if not changes.before:  # the first commit of all: there is no earlier runner to protect, only to be looked at
        findings = [replace(f, severity=IMPORTANT) if f.code == "runner_config_changed" else f for f in findings]
    texts = {change.path: change.before for change in changes.files}
    olders = {new: texts[old] for old, new in moved.items()}
    side = [replace(c, before=olders.get(c.path, c.before)) for c in changes.files if sides[c.path].test_side]
    grown = [change for change in side if _gains_tests(change, sides[change.path])]
    more = [c for c in side if sides[c.path].test and not sides[c.path].own and c.status == "A"]
    out = [(change.path, reason) for change in side for reason in _reaching(change)]
    if out:
        where = sorted({path for path, _ in out})
        message = f"{where[0]} does things beyond its own tests: {out[0][1]}"
        findings.append(Finding("test_reaches_out", IMPORTANT, message, {"files": where, "reasons": out[:20]}))
    return Survey(
        findings=tuple(findings),
        test_side=tuple(path for path, kind in sides.items() if kind.test_side),
        kept=tuple(p for p, kind in sides.items() if kind.kept and changes.before and not duty.frees(p)),
        released=tuple(path for path in sides if duty.frees(path)),
        moved=moved,
        gained=frozenset(f"{c.path}::{name}" for c in grown for name in sources.new_tests(c.before, c.after)),
        read=tuple(path for path, kind in sides.items() if kind.read and not duty.frees(path)),
        needs_cross_check=bool(out or moved or grown or more) or any(map(_acts, side)),
    )


class Guard(ABC):
    """The rules on what a candidate changes of the files that decide about it: protected files in, findings out."""

    own_tests: Collection[str] = ()  # files and folders of the tests of this item
    runs_moved = False  # the item's own check runs older tests that have moved

    @property
    @abstractmethod
    def conftests(self) -> Collection[str]:
        """Those of the base."""

    @property
    @abstractmethod
    def variables(self) -> Collection[str]:
        """Names in them, and in the runner's settings, that variables may have."""

    @abstractmethod
    def survey(self, changes: CandidateChanges) -> Survey:
        """What speaks against the changes, and to which side they belong."""

    @abstractmethod
    def has_rule(self, path: str) -> bool:
        """Whether a changed path is judged by a rule of its own, or a person has said that it may change."""

    @abstractmethod
    def is_own(self, path: str) -> bool:
        """Whether a changed path is one of the tests of this item, or what they stand on."""

    def check_files(self, changes: CandidateChanges) -> tuple[Mapping[str, bytes], Mapping[str, bytes]]:
        """The files of the check as the candidate has them, and unchanged data that it may compare with."""
        return {}, {}

    def brought(self, changes: CandidateChanges, found: Survey) -> Collection[str]:
        """The changed paths that a run on the code before takes from the candidate."""
        return found.test_side


class FeatureGuard(Guard):
    """The rules of a session, which was given a duty."""

    def __init__(self, duty: Duty) -> None:
        self.duty = duty
        self.own_tests = duty.test_files

    @property
    def conftests(self) -> Collection[str]:
        return self.duty.conftests

    @property
    def variables(self) -> Collection[str]:
        return self.duty.variables

    def survey(self, changes: CandidateChanges) -> Survey:
        return survey(changes, self.duty)

    def has_rule(self, path: str) -> bool:
        duty = self.duty
        return duty.frees(path) or path in duty.runner_files or path in duty.read or path in duty.story

    def is_own(self, path: str) -> bool:
        return belongs(path, self.duty.test_files)


PROTECTED = frozenset({"runner_config_changed", "protected_test_changed", "check_changed"})
"""Findings on files that a session, or an attempt, leaves alone unless a person has said that they may change."""

ALLOWABLE = PROTECTED | {"data_changed", "environment_changed", "plugin_needed", "dependency_needed"}
"""These, and what is installed where tests run: what a person may allow when all else holds."""


def released_by(finding: Finding) -> list[str]:
    """The paths that a person releases who allows what a finding is about."""
    several = finding.data.get("paths")
    return [str(each) for each in several] if isinstance(several, list) else [str(finding.data["path"])]


def _released(finding: Finding, duty: Duty) -> Finding:
    """The finding, as a note where a person has said that its file may change."""
    if finding.code not in PROTECTED or not duty.frees(str(finding.data["path"])):
        return finding
    return replace(finding, severity=IMPORTANT, message=f"{finding.message} A person has allowed it.")


def _weakened(change: FileChange, kind: "_Kind") -> Iterator[Finding]:
    """What an older test file that may change asks for no longer: a person has allowed another test, and not none."""
    is_older = kind.test and (kind.shared or not kind.own) and change.path.endswith(".py")
    before, after = sources.parse(change.before), sources.parse(change.after)
    if not is_older or before is None or after is None:
        return
    for name in sources.emptied(before, after):
        message = f"{change.path}::{name} can no longer fail, whatever the code does."
        yield Finding("test_emptied", CRITICAL, message, {"path": change.path, "test": name})
    for name in sources.weakened(before, after):
        message = f"{change.path}::{name} asserts nothing any more; it fails only where what it runs raises."
        yield Finding("test_weakened", IMPORTANT, message, {"path": change.path, "test": name})


class _Kind:
    """To which side a changed path belongs."""

    def __init__(self, path: str, changes: CandidateChanges, duty: Duty) -> None:
        self.own = belongs(path, duty.test_files)
        self.shared = self.own and belongs(path, duty.protected)
        self.conftest = is_conftest(path) or _module_names(path) & set(duty.plugins) != set()
        self.config = is_runner_config(path)
        self.runner = path in duty.runner_files
        self.test = is_test_file(path) or self.own or belongs(path, duty.protected) or path in duty.older
        folders = set(PurePosixPath(path).parts[:-1])
        self.support = not (self.test or self.conftest or self.config) and bool(folders & TEST_FOLDERS)
        self.was_there = path in changes.before
        self.test_side = self.test or self.conftest or self.support
        self.left = self.support and path not in changes.after and not _holds_files(path, changes.after)
        self.read = path in duty.read and self.was_there and not (self.test_side or self.config or self.runner)
        self.kept = self.conftest or self.shared or (self.support and self.was_there and not self.left)


def _holds_files(path: str, paths: Collection[str]) -> bool:
    """Whether the folder of a path has files, at any depth."""
    return any(each.startswith(f"{posixpath.dirname(path)}/") for each in paths)


def _module_names(path: str) -> set[str]:
    """The dotted names by which a Python file can be imported, from any folder above it."""
    parts = PurePosixPath(path).with_suffix("").parts if path.endswith(".py") else ()
    parts = parts[:-1] if parts[-1:] == ("__init__",) else parts
    return {".".join(parts[at:]) for at in range(len(parts))}


def _judge(change: FileChange, kind: _Kind, changes: CandidateChanges, duty: Duty) -> Iterator[Finding]:
    """The findings on one changed path."""
    if why := shadows(change, changes, duty.import_roots):
        message = f"{change.path} is not accepted: {why}; another name avoids this."
        yield Finding("shadowing_file", CRITICAL, message, {"path": change.path, "reason": why})
    if loaded := _of_commands(change, kind, duty):
        yield loaded
    elif kind.conftest:
        yield from conftest_findings(change)
    elif kind.config:
        yield from settings_findings(change)
    elif kind.shared:
        yield from _shared_test(change, duty)
    elif change.path in duty.given:
        yield from _given_test(change)
    elif kind.test and kind.was_there and not kind.own:
        yield from _older_test(change)
    elif kind.support and kind.was_there and not kind.left:
        yield from _support(change)
    elif not kind.test_side:
        yield from _of_product(change, kind, duty)


def _of_commands(change: FileChange, kind: _Kind, duty: Duty) -> Finding | None:
    """What speaks against the change of a file that the project's commands name, run or read; tests aside."""
    if kind.runner:
        return _config(change, "a test command runs it")
    return None if kind.test else duty.about_loaded(change)


def _of_product(change: FileChange, kind: _Kind, duty: Duty) -> Iterator[Finding]:
    """The findings on a changed path of the product, which may be data of older tests or hold some."""
    yield from product_findings(change)
    if kind.read:
        message = f"{change.path} changed, which older tests read; they were run with the version before, too."
        yield Finding("test_support_changed", IMPORTANT, message, {"path": change.path})
    if change.path in duty.examples:
        yield from _examples(change, duty.examples[change.path])


def moved_tests(changes: CandidateChanges, named: Collection[str]) -> dict[str, str]:
    """Older test files that are gone, each with the new one that says the same, by their paths.

    Those that somebody names, by these nodes, stay where they are named.
    """
    gone = [c for c in changes.files if c.status == "D" and c.path.endswith(".py")]
    new = [c for c in changes.files if c.status == "A" and c.path.endswith(".py") and not c.link]
    if any(_stands_in(each, gone, changes) for each in new):
        return {}
    found: dict[str, str] = {}
    for change in gone:
        twins = [e.path for e in new if is_test_file(e.path) and sources.is_moved(change.before, e.after)]
        if (
            is_test_file(change.path)
            and not belongs(change.path, named)
            and len(twins) == 1
            and twins[0] not in found.values()
        ):
            found[change.path] = twins[0]
    return found


def test_moved(old: str, new: str) -> Finding:
    """The note that an older test file has another path now."""
    return Finding("test_moved", IMPORTANT, f"{old} is {new} now.", {"path": new})


def _stands_in(new: FileChange, gone: Sequence[FileChange], changes: CandidateChanges) -> bool:
    """Whether moved tests could find this new file where they found another one before, and it says something else."""
    pure = PurePosixPath(new.path)
    if is_conftest(new.path):
        return True
    if is_test_file(new.path) or not TEST_FOLDERS & set(pure.parts[:-1]):
        return False
    if any(each.name == new.name and sources.same(each.before, new.after) for each in gone):
        return False
    others = (PurePosixPath(path) for path in changes.before if path.endswith(".py"))
    return bool((new.after or b"").strip()) and any(
        each.name == pure.name and TEST_FOLDERS & set(each.parts[:-1]) for each in others
    )


def _gains_tests(change: FileChange, kind: "_Kind") -> bool:
    """Whether an older test file, not of this feature, says more than it said, and all that it said."""
    if change.status != "M" or change.link or not (kind.test and not kind.own and change.path.endswith(".py")):
        return False
    return not sources.same(change.before, change.after) and sources.only_gains_tests(change.before, change.after)


def _older_test(change: FileChange) -> Iterator[Finding]:
    is_plain = change.status == "M" and not change.link and not _reaching(change)
    if is_plain and sources.only_gains_tests(change.before, change.after):
        return
    word = "deletes" if change.status == "D" else "changes"
    yield _protected(change, f"The session {word} {change.path}, a test that does not belong to its feature.")


def _protected(change: FileChange, message: str, reasons: Collection[str] = ()) -> Finding:
    return Finding("protected_test_changed", CRITICAL, message, {"path": change.path, "reasons": list(reasons)})


def _shared_test(change: FileChange, duty: Duty) -> Iterator[Finding]:
    """A file that also holds tests of features that pass already: only additions and the own tests may differ."""
    if change.status == "A":
        return
    before, after = sources.parse(change.before), sources.parse(change.after)
    if change.link or before is None or after is None:
        yield _protected(change, f"{change.path} also holds tests of verified features and can no longer be read.")
        return
    own = {node.partition("::")[2].split("[")[0] for node in duty.test_files if file_of(node) == change.path}
    reasons = sources.changed(before, after, free=own - {""})
    if reasons:
        message = f"{change.path} also holds tests of verified features, and {', '.join(reasons[:5])} changed."
        yield _protected(change, message, reasons)


def _given_test(change: FileChange) -> Iterator[Finding]:
    """An own test file in which somebody has said before what is asked for: it may ask for more."""
    before, after = sources.parse(change.before), sources.parse(change.after)
    is_read = before is not None and after is not None and not change.link
    reasons = sources.changed(sources.begun(before, after), after) if is_read else [change.path]
    if reasons:
        what = ", ".join(reasons[:5])
        message = (
            f"{change.path} held tests before the feature was begun, and {what} changed: more may be added to them."
        )
        yield _protected(change, message, reasons)


def _support(change: FileChange) -> Iterator[Finding]:
    """What older tests stand on: Python may only be added to; other files are kept as they were and named."""
    if PurePosixPath(change.path).suffix != ".py":
        message = f"{change.path} changed; older tests were run with the version before."
        yield Finding("test_support_changed", IMPORTANT, message, {"path": change.path})
        return
    before, after = sources.parse(change.before), sources.parse(change.after)
    if change.link or before is None or after is None:
        yield _protected(change, f"{change.path} stands under older tests and can no longer be read.")
    elif reasons := sources.changed(before, after):
        message = f"{change.path} stands under older tests, and {', '.join(reasons[:5])} changed."
        yield _protected(change, message, reasons)


def _examples(change: FileChange, known: Collection[str]) -> Iterator[Finding]:
    """The examples of a documentation that pass: more may follow, what they say may not change."""
    reasons = sources.changed_examples(change.before, None if change.link else change.after, known)
    if reasons:
        message = f"The session changes examples in {change.path} ({', '.join(reasons[:5])}), which are older tests."
        yield _protected(change, message, reasons)


def _config(change: FileChange, why: str) -> Finding:
    message = f"{change.path} steers the test runner and may not change in a session: {why}."
    return Finding("runner_config_changed", CRITICAL, message, {"path": change.path, "reason": why})


def conftest_findings(change: FileChange) -> Iterator[Finding]:
    """What a changed ``conftest.py`` does beyond plain imports, fixtures, helpers and constants (C54)."""
    if change.status == "D":
        yield _config(change, "it was deleted")
        return
    after = sources.parse(change.after)
    before = sources.parse(change.before) if change.status == "M" else None
    if change.link or after is None or (change.status == "M" and before is None):
        yield _config(change, "it cannot be read")
        return
    older = before.body if before else []
    reasons = sources.changed(before, after) if before else []
    reasons += sources.harm_in_conftest(sources.added(older, after.body), after)
    if reasons:
        yield _config(change, "; ".join(reasons[:3]))


def settings_findings(change: FileChange) -> Iterator[Finding]:
    """What a change of a test runner's settings steers (C54)."""
    if change.link:
        yield _config(change, "it is a link")
        return
    why = harm(change.path, change.before, change.after)
    if why:
        yield _config(change, why)


def product_findings(change: FileChange) -> Iterator[Finding]:
    """Product code that can tell whether it is being tested is worth a person's look."""
    if PurePosixPath(change.path).suffix == ".pyc":
        yield Finding("compiled_file", WARN, f"{change.path} is compiled code; it was left out.", {"path": change.path})
    if change.after is None or not change.path.endswith(".py"):
        return
    new = {m.decode() for m in _KNOWS_TESTS.findall(change.after)} - {
        m.decode() for m in _KNOWS_TESTS.findall(change.before or b"")
    }
    if new:
        message = f"{change.path} knows about the test runner or ends the process by itself: {', '.join(sorted(new))}."
        yield Finding("product_knows_tests", IMPORTANT, message, {"path": change.path, "names": sorted(new)})


def _reaching(change: FileChange) -> list[str]:
    after = sources.parse(change.after) if change.path.endswith(".py") else None
    if after is None:
        return []
    before = sources.parse(change.before)
    known = {_LINE.sub("", reason) for reason in sources.reaches_out(before)} if before else set()
    return [reason for reason in sources.reaches_out(after) if _LINE.sub("", reason) not in known]


def _acts(change: FileChange) -> bool:
    after = sources.parse(change.after) if change.path.endswith(".py") else None
    return after is not None and sources.acts_at_import(after)


def _own_tests(changes: CandidateChanges, duty: Duty) -> Iterator[Finding]:
    """What the assigned feature's own tests look like, as far as this session wrote them."""
    touched = {change.path: change for change in changes.files if change.status != "D"}
    trees = {path: sources.parse(c.after) for path, c in touched.items() if path.endswith(".py")}
    yield from _loading_plugins(trees, duty)
    for node in sorted(set(duty.test_files)):
        tree = trees.get(file_of(node))
        if tree is not None and sources.asserts_nothing(tree, node.partition("::")[2] or None):
            message = f"{node} asserts nothing that could fail."
            yield Finding("trivial_test", IMPORTANT, message, {"test_file": node})


def _loading_plugins(trees: Mapping[str, ast.Module | None], duty: Duty) -> Iterator[Finding]:
    for path, tree in trees.items():
        if tree is None or is_conftest(path) or not (is_test_file(path) or belongs(path, duty.test_files)):
            continue
        if sources.plugins_named(tree):
            message = f"{path} loads plugins into the test runner (pytest_plugins)."
            yield Finding("runner_config_changed", CRITICAL, message, {"path": path, "reason": "pytest_plugins"})


def duty_of(
    git: Git,
    base: str,
    changes: CandidateChanges,
    *,
    commands: Iterable[str],
    loaded: Collection[str],
    about_loaded: Callable[[FileChange], Finding | None],
    test_files: Collection[str],
    protected: Collection[str],
    import_roots: Iterable[str],
    may_change: Collection[str] = (),
    baseline: Collection[str] = (),
    files_read: Collection[str] = (),
    story: Collection[str] = (),
    own_may_change: bool = False,
) -> Duty:
    """The duty of a session, with everything that ``base`` says about how tests are run.

    Never the candidate: an agent does not choose what is protected from it. ``loaded`` are files that the project's
    commands run or read, ``about_loaded`` says what speaks against a change of one. ``baseline`` are the ids known to
    pass.
    ``own_may_change``: what own tests said before was proven once, and is no more than what an agent said.
    """
    near = [p for p in changes.before if is_runner_config(p) and len(PurePosixPath(p).parts) <= _SETTINGS_DEPTH]
    written = contents(git, base, near)
    found = {path: settings(path, text) or {} for path, text in written.items()}
    conftests = contents(git, base, [path for path in changes.before if is_conftest(path)])
    plugins = [name for text in conftests.values() for name in sources.plugins_named(sources.parse(text))]
    words = list(commands)
    older, examples = _by_ids(git, base, changes, baseline)
    own = [(c.path, sources.parse(c.before)) for c in changes.files if belongs(c.path, list(map(_clean, test_files)))]
    return Duty(
        conftests=frozenset(conftests),
        variables=frozenset(name for text in (*written.values(), *conftests.values()) for name in variables_in(text)),
        given=frozenset(p for p, tree in own if tree and sources.has_tests(tree) and not own_may_change),
        older=older,
        examples=examples,
        read=frozenset(files_read),
        story=frozenset(story),
        test_files=frozenset(map(_clean, test_files)),
        protected=frozenset(map(_clean, protected)),
        may_change=tuple(may_change),
        import_roots=frozenset({"", *import_roots, *_python_paths(found)}),
        runner_files=_runner_files(words, changes.before | changes.after, test_files).difference(loaded),
        about_loaded=about_loaded,
        plugins=frozenset(
            (*plugins, *_plugins([*words, *(str(options.get("addopts", "")) for options in found.values())]))
        ),
    )


def variables_in(text: bytes) -> list[str]:
    """The words of a file that variables of the environment may be called."""
    return [name.decode() for name in _VARIABLE.findall(text)]


def _by_ids(
    git: Git, base: str, changes: CandidateChanges, baseline: Collection[str]
) -> tuple[frozenset[str], dict[str, set[str]]]:
    """What only the ids of known tests tell: changed files that hold such tests, and by file names of doctests."""
    touched = {change.path for change in changes.files if change.path in changes.before}
    names: dict[str, set[str]] = {}
    for node in baseline:
        file, _, name = node.partition("::")
        if file in touched and not is_test_file(file):
            names.setdefault(file, set()).add(name.partition("[")[0])
    older, examples = set[str](), dict[str, set[str]]()
    for path, text in contents(git, base, names).items():
        tree = sources.parse(text) if path.endswith(".py") else None
        known = {name for statement in (tree.body if tree else ()) for name in sources.bound(statement)}
        if any(name.partition("::")[0] in known for name in names[path]):
            older.add(path)
        else:
            examples[path] = names[path]
    return frozenset(older), examples


def read_by_tests(opened: Collection[tuple[str, str]]) -> list[str]:
    """Of files that were opened, each with the file whose code did it, those that tests read and that are no tests."""
    return sorted({path for path, by in opened if _is_of_tests(by) and not _is_of_tests(path)})


def read_by_product(opened: Collection[tuple[str, str]]) -> set[str]:
    """Of files that were opened, those that code opened which is none of tests."""
    return {path for path, by in opened if not _is_of_tests(by)}


def _is_of_tests(path: str) -> bool:
    return is_test_file(path) or is_conftest(path) or bool(TEST_FOLDERS & set(PurePosixPath(path).parts[:-1]))


def _clean(node: str) -> str:
    """A node id whose file is written as git writes it."""
    file, colons, name = node.partition("::")
    return posixpath.normpath(file) + colons + name


def _python_paths(found: Mapping[str, dict[str, object]]) -> list[str]:
    roots: list[str] = []
    for path, options in found.items():
        value = options.get("pythonpath", [])
        entries = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
        roots += [str(PurePosixPath(path).parent / str(entry)) for entry in entries]
    return ["" if root == "." else root for root in roots]


def _plugins(texts: Iterable[str]) -> list[str]:
    return [name for text in texts for name in _PLUGIN.findall(re.sub(r"[\[\],'\"]", " ", text)) if name != "no"]


def _runner_files(commands: Iterable[str], paths: Collection[str], test_files: Collection[str]) -> frozenset[str]:
    """Files of the project that are words of the commands, other than tests."""
    named = {word.removeprefix("./") for command in commands for word in _WORDS.split(command) if word}
    return frozenset(p for p in named if p in paths and not (is_test_file(p) or belongs(p, test_files)))
