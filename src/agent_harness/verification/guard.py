"""Rules on a candidate's changes to the files that affect its verdict. They apply before any code of the candidate
runs. ``survey`` is the entry point. A ``CRITICAL`` finding rejects the candidate. Paths are relative to the project.
Source: features.md C54, features-scenarios.md S08, ``tasklist.md`` 11.5."""

import os
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from agent_harness.kernel.git.status import matcher
from agent_harness.kernel.redact import redact
from agent_harness.verification import sources
from agent_harness.verification.changes import CandidateChanges, FileChange, Tree
from agent_harness.verification.command.bending import bent, weaker_test
from agent_harness.verification.command.named_files import EVERYTHING, JUDGE_NAME, Named
from agent_harness.verification.expecting.compiled import sees_tests, test_modules
from agent_harness.verification.runner_config import (
    JS_SUFFIXES,
    harm,
    in_modules,
    in_test_folder,
    is_conftest,
    is_runner_config,
    is_test_file,
    shadows,
)
from agent_harness.verification.verdict import CRITICAL, IMPORTANT, WARN, Finding

ALLOWED_BY = "list it in validation.may_change if the task is meant to change it"
PROTECTED = frozenset({"runner_config_changed", "protected_test_changed", "check_changed", "differs_in_tests"})
"""Codes of findings on files that an agent must not change unless the user has allowed changes."""

ALLOWABLE = PROTECTED | {"data_changed", "environment_changed", "plugin_needed", "dependency_needed"}
"""Codes of findings whose cause the user may allow."""

_KNOWS_TESTS = re.compile(
    rb"PYTEST_CURRENT_TEST|PYTEST_VERSION|AGENT_HARNESS_WITNESS|\b_pytest\b|['\"]pytest['\"] in sys\.modules|os\._exit"
)
_MOST_OF_CHECK = 50  # files in which expected values are changed
_EXPECTING = re.compile(r"(?i)assert|raises|expect|should|require|\bt\.(Error|Fatal)")
_MOST_SHOWN, _WIDTH = 5, 100  # lines of each version, letters of a line


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    check_code: str = "runner_config_changed"
    check: str = "A session must not change {}: a command that checks the project runs or reads it, and {}"
    new_check: str = check
    environment: str = (
        "A session must not change {}: it sets up, resets or monitors the environment of the tests, and {}"
    )
    given: str = "{} contained tests before the feature was started, and {}; tests may only be added"
    support: str = "{} is used by existing tests, and {}"
    allowed_by: str = ""  # what makes such a change a free one
    notes_allowed: bool = True  # what a person has allowed is told

    @property
    def end(self) -> str:
        return f"; {self.allowed_by}" if self.allowed_by else "."


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedFiles:
    """Files that a session or attempt must not change, and tests that it was given."""

    test_files: Collection[str] = ()  # of the assigned feature: files, folders or node ids
    protected: Collection[str] = ()  # of features that pass already: files, folders or node ids
    tests: Collection[str] = (EVERYTHING,)  # files and folders of all tests that judge; none: no tests do
    checks: Named = field(default_factory=Named)  # what the commands that check the work name or load
    environment: Named = field(default_factory=Named)  # what those of its environment do
    runner_files: Collection[str] = ()  # other files that are words of the test commands
    import_roots: Collection[str] = ("",)  # folders from which the interpreter imports
    plugins: Collection[str] = ()  # module names that the base loads into its test runner
    may_change: Collection[str] = ()  # patterns of protected files that a person has released
    given: Collection[str] = ()  # own test files that held more than placeholders before the work was begun
    older: Collection[str] = ()  # files of tests that are known to pass, whatever their names
    examples: Mapping[str, Collection[str]] = field(default_factory=dict)  # file -> names of its known doctests
    read: Collection[str] = ()  # files that older tests read, such as data beside them
    story: Collection[str] = ()  # files in which the session tells of itself
    conftests: Collection[str] = ()  # of the base
    variables: Collection[str] = ()  # names in them, and in the runner's settings, that variables may have
    python: bool = True  # an interpreter has a part in the checks
    asked: str = ""  # what the item says in words
    alone: bool = False  # one command judges, and no suite of the base: all tests that were there are given with it
    most_moved: int | None = None  # test files that may have moved: the command runs once for each
    words: Words = field(default_factory=Words)

    def frees(self, path: str) -> bool:
        return matcher(tuple(self.may_change))(os.fsencode(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    findings: tuple[Finding, ...] = ()
    test_side: tuple[str, ...] = ()  # changed paths of tests and what they stand on
    kept: tuple[str, ...] = ()  # changed paths of which every run of the suite uses the version from the base
    read: tuple[str, ...] = ()  # changed paths that older tests read
    released: tuple[str, ...] = ()  # changed paths that a person has said may change
    moved: Mapping[str, str] = field(default_factory=dict)  # older test files that are the same under another path
    gained: frozenset[str] = frozenset()  # ids of the tests that older test files gain
    needs_cross_check: bool = False  # new test code may act on older tests, or counts among them: all run together, too


def is_read(path: str) -> bool:
    pure = PurePosixPath(path)
    return (
        pure.suffix in {".py", ".pth", ".rs", ".go", *JS_SUFFIXES}
        or pure.name == "entry_points.txt"
        or is_runner_config(path)
    )


def decides(path: str, protection: ProtectedFiles) -> bool:
    return protection.checks.loads(path) or is_read(path) or is_test_side(path, protection)


def file_of(node: str) -> str:
    return node.partition("::")[0].rstrip("/")


def belongs(path: str, nodes: Collection[str]) -> bool:
    return any(path == file or path.startswith(file + "/") for file in map(file_of, nodes))


def is_test_side(path: str, protection: ProtectedFiles) -> bool:
    if path in protection.tests:  # a runner is given it, whatever it is called
        return True
    if is_test_file(path):
        return EVERYTHING in protection.tests or belongs(path, protection.tests)
    return (is_conftest(path) or in_test_folder(path)) and _above_or_below(path, protection.tests)


def _above_or_below(path: str, tests: Collection[str]) -> bool:
    if EVERYTHING in tests:
        return True
    folder = PurePosixPath(path).parent
    places = [PurePosixPath(each) for each in tests]
    places = [place.parent if place.suffix else place for place in places]
    return any(folder.is_relative_to(place) or place.is_relative_to(folder) for place in places)


def survey(changes: CandidateChanges, protection: ProtectedFiles) -> Survey:
    sides = {change.path: _Kind(change.path, changes, protection) for change in changes.files}
    moved = _moved(changes, sides, protection)
    judged = [change for change in changes.files if change.path not in moved]
    findings = [finding for change in judged for finding in _judge(change, sides[change.path], changes, protection)]
    findings += _own_tests(changes, sides, protection)
    findings = [weighed for each in findings for weighed in _weighed(each, changes, protection)]
    findings += [
        Finding("test_moved", IMPORTANT, f"{old} was moved to {new}.", {"path": new}) for old, new in moved.items()
    ]
    findings += [found for c in judged if protection.frees(c.path) for found in _weakened(c, sides[c.path])]
    texts = {change.path: change.before for change in changes.files}
    olders = {new: texts[old] for old, new in moved.items()}
    side = [replace(c, before=olders.get(c.path, c.before)) for c in changes.files if sides[c.path].test_side]
    grown = [change for change in side if _gains_tests(change, sides[change.path])]
    more = [c for c in side if sides[c.path].test and not sides[c.path].own and c.status == "A"]
    out = [(change.path, reason) for change in side for reason in _reaching(change)]
    if out:
        where = sorted({path for path, _ in out})
        message = f"{where[0]} has effects outside its own tests: {out[0][1]}"
        findings.append(Finding("test_reaches_out", IMPORTANT, message, {"files": where, "reasons": out[:20]}))
    trees = (sources.parse(change.after) for change in side if change.path.endswith(".py"))
    return Survey(
        findings=tuple(findings),
        test_side=tuple(path for path, kind in sides.items() if kind.test_side),
        kept=tuple(p for p, kind in sides.items() if kind.kept and changes.before and not protection.frees(p)),
        released=tuple(path for path in sides if protection.frees(path)),
        moved=moved,
        gained=frozenset(f"{c.path}::{name}" for c in grown for name in sources.new_tests(c.before, c.after)),
        read=tuple(path for path, kind in sides.items() if kind.read and not protection.frees(path)),
        needs_cross_check=bool(out or moved or grown or more)
        or any(tree is not None and sources.acts_at_import(tree) for tree in trees),
    )


@dataclass(frozen=True, slots=True)
class Guard:
    protection: ProtectedFiles
    tree: Tree  # of the base
    later: ProtectedFiles | None = None
    now: Named | None = None  # what the command names of the candidate: of what was there before, as it was

    @property
    def own_tests(self) -> Collection[str]:
        return self.protection.tests if self.protection.alone else self.protection.test_files

    def decides(self, path: str) -> bool:
        return any(decides(path, each) for each in (self.protection, self.later) if each)

    def survey(self, changes: CandidateChanges) -> Survey:
        more = test_modules(changes, self.tree.read) if self.protection.tests else set[str]()
        found = survey(changes, replace(self.protection, older={*self.protection.older, *more}))
        known = {each.data.get("path") for each in found.findings if each.severity == CRITICAL}
        more = survey(changes, self.later).findings if self.later else ()
        others = [each for each in more if each.data.get("path") not in known and each not in found.findings]
        return replace(found, findings=(*found.findings, *others))

    def has_rule(self, path: str) -> bool:
        protection = self.protection
        ruled = (protection.checks.files, protection.runner_files, protection.read, protection.story)
        return protection.frees(path) or any(path in each for each in ruled)

    def is_own(self, path: str) -> bool:
        return (
            is_test_side(path, self.protection) if self.protection.alone else belongs(path, self.protection.test_files)
        )

    def brought(self, changes: CandidateChanges, found: Survey) -> list[str]:
        """Return the changed files that the harness copies from the candidate for a run on the base commit."""
        side = {*found.test_side, *self.new_checks(changes)}
        # a command does not always show which tests it runs
        return [c.path for c in changes.files if c.path in side or is_test_file(c.path)]

    def new_checks(self, changes: CandidateChanges) -> set[str]:
        named = self.now.files if self.now and self.protection.alone else frozenset[str]()
        new = {c.path for c in changes.files if c.status == "A" and not c.link}
        return {path for path in named & new if self._is_check(path)}

    def _is_check(self, path: str) -> bool:
        """Return True if the name of a file, or of a goal in it, is typical for a check."""
        now = self.now or self.protection.checks
        goals = {*now.makefiles.get(path, ()), *now.packages.get(path, ())}
        return any(map(JUDGE_NAME.search, goals or [path]))

    def check_files(self, changes: CandidateChanges) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """Return the contents of the check's files, and of data files that the check may compare."""
        changed, named = {change.path: change for change in changes.files}, self.now or self.protection.checks
        new = self.new_checks(changes)
        own = {path for path in (*named.scripts, *named.makefiles) if not is_runner_config(path)}
        given = (
            {*named.tests} if self.protection.alone else {*self.protection.tests}
        )  # by their paths, whatever they are called
        tests = {path for path in changes.after if is_test_file(path) and (path in changed or self.is_own(path))}
        asked = {path for path in tests if belongs(path, given)}
        paths = ((own | given) & changes.after) | (asked if asked and EVERYTHING not in given else tests)
        known = {*changes.before, *self.protection.tests, *new}
        paths = {path for path in paths if path not in changed or is_test_file(path) or path in known}
        files = self._contents(sorted(paths)[:_MOST_OF_CHECK], changed)
        texts = " ".join((*named.texts, *(text.decode("utf-8", "surrogateescape") for text in files.values())))
        spoken = sorted(path for path in changes.after if path not in changed and _speaks_of(texts, path))
        return files, self._contents(spoken[:_MOST_OF_CHECK], {})

    def _contents(self, paths: Iterable[str], changed: Mapping[str, FileChange]) -> dict[str, bytes]:
        found = ((path, changed[path].after if path in changed else self.tree.read(path)) for path in paths)
        return {path: content for path, content in found if content}


def _speaks_of(texts: str, path: str) -> bool:
    place = PurePosixPath(path)
    folder = place.parent.name
    return place.name in texts or (bool(folder) and any(f"{folder}{end}" in texts for end in ("/", '"', "'")))


def released_by(finding: Finding) -> list[str]:
    several = finding.data.get("paths")
    return [str(each) for each in several] if isinstance(several, list) else [str(finding.data["path"])]


def _weighed(finding: Finding, changes: CandidateChanges, protection: ProtectedFiles) -> Iterator[Finding]:
    """Yield the finding. If the user allows the change, or there are no tests to protect, lower its severity or omit
    it."""
    path, is_product = str(finding.data.get("path")), finding.code == "product_knows_tests"
    if (finding.code in PROTECTED or (is_product and protection.alone)) and protection.frees(path):
        told = replace(finding, severity=IMPORTANT, message=f"{finding.message} The user has allowed this change.")
        yield from [told] if protection.words.notes_allowed else []
    elif finding.code == "runner_config_changed" and path not in changes.before and _begins(changes, protection):
        yield replace(finding, severity=IMPORTANT)
    else:
        yield finding


def _begins(changes: CandidateChanges, protection: ProtectedFiles) -> bool:
    known = changes.before & {*protection.tests} if protection.alone else changes.before
    # tests of Rust lie in the files of the work
    return not (known or any(is_test_file(path) or path.endswith(".rs") for path in changes.before))


def _weakened(change: FileChange, kind: "_Kind") -> Iterator[Finding]:
    """Yield a finding for each older test that can no longer fail, or that no longer asserts anything."""
    is_older = kind.test and (kind.shared or not kind.own) and change.path.endswith(".py")
    before, after = sources.parse(change.before), sources.parse(change.after)
    if not is_older or before is None or after is None:
        return
    for name in sources.emptied(before, after):
        message = f"{change.path}::{name} can no longer fail, whatever the code does."
        yield Finding("test_emptied", CRITICAL, message, {"path": change.path, "test": name})
    for name in sources.weakened(before, after):
        message = (
            f"{change.path}::{name} no longer asserts anything; it fails only if the code that it runs raises an error."
        )
        yield Finding("test_weakened", IMPORTANT, message, {"path": change.path, "test": name})


class _Kind:
    def __init__(self, path: str, changes: CandidateChanges, protection: ProtectedFiles) -> None:
        by_name = is_test_side(path, protection)
        is_plugin = _module_names(path) & set(protection.plugins) != set()
        self.own = belongs(path, protection.test_files)
        self.shared = self.own and belongs(path, protection.protected)
        self.conftest = is_plugin or (is_conftest(path) and _above_or_below(path, protection.tests))
        self.config = bool(protection.tests) and is_runner_config(path)
        self.test = (
            self.own
            or belongs(path, protection.protected)
            or path in protection.older
            or (is_test_file(path) and by_name)
        )
        self.support = by_name and not (self.test or self.conftest or self.config)
        self.was_there = path in changes.before
        self.test_side = self.test or self.conftest or by_name
        self.given = self.was_there and (path in protection.given or (protection.alone and self.test_side))
        folder = f"{posixpath.dirname(path)}/"
        is_gone = self.support and path not in changes.after
        self.left = is_gone and not any(each.startswith(folder) for each in changes.after)
        decides = self.test_side or self.config or path in protection.runner_files
        self.read = path in protection.read and self.was_there and not decides
        self.kept = self.conftest or self.shared or (self.support and self.was_there and not self.left)


def _module_names(path: str) -> set[str]:
    parts = PurePosixPath(path).with_suffix("").parts if path.endswith(".py") else ()
    parts = parts[:-1] if parts[-1:] == ("__init__",) else parts
    return {".".join(parts[at:]) for at in range(len(parts))}


def _judge(change: FileChange, kind: _Kind, changes: CandidateChanges, protection: ProtectedFiles) -> Iterator[Finding]:
    why = shadows(change, changes, protection.import_roots) if protection.python else None
    if protection.tests and (why := why or in_modules(change)):
        message = f"{change.path} is not accepted: {why}. Use another file name."
        yield Finding("shadowing_file", CRITICAL, message, {"path": change.path, "reason": why})
    if change.leads_out and not (kind.test_side or kind.config or change.path in protection.checks.files):
        message = f"{change.path} is not accepted: it is a symbolic link to {change.leads_out}, outside the repository."
        yield Finding("link_leads_out", CRITICAL, message, {"path": change.path})
    yield from _of_compiled(change, changes, protection)
    if loaded := _of_commands(change, kind, protection):
        yield loaded
    elif kind.was_there and not kind.test and change.path in protection.checks.files:
        return  # what commands lead to has its own rules, and keeps to them
    elif kind.conftest:
        yield from conftest_findings(change, protection)
    elif kind.config:
        if why := "it is a link" if change.link else harm(change.path, change.before, change.after):
            yield _config(change, why, protection)
    elif kind.test_side:
        yield from _of_tests(change, kind, protection)
    elif protection.python and protection.tests:
        yield from _of_product(change, kind, protection)


def _of_tests(change: FileChange, kind: _Kind, protection: ProtectedFiles) -> Iterator[Finding]:
    if not kind.own and change.path.endswith(".py") and _picks_tests(change.after) and not _picks_tests(change.before):
        yield _config(change, "it defines load_tests, which picks the tests that run", protection)
    elif kind.shared:
        yield from _shared_test(change, protection)
    elif kind.given:
        yield from _given_test(change, protection)
    elif kind.test and kind.was_there and not kind.own:
        yield from _older_test(change)
    elif kind.support and kind.was_there and not kind.left:
        yield from _support(change)


def _picks_tests(source: bytes | None) -> bool:
    tree = sources.parse(source)
    return tree is not None and any("load_tests" in sources.bound(statement) for statement in tree.body)


def _of_commands(change: FileChange, kind: _Kind, protection: ProtectedFiles) -> Finding | None:
    if change.path in protection.runner_files:
        return _config(change, "a test command runs it", protection)
    if kind.own or (kind.test and change.path.endswith(".py")):
        return None
    words = protection.words
    if why := bent(change, protection.checks, protection.asked):
        text = (words.check if kind.was_there else words.new_check).format(change.path, why)
        return Finding(words.check_code, CRITICAL, text + words.end, {"path": change.path, "reason": why})
    if why := bent(change, protection.environment):
        facts = {"path": change.path, "reason": why, "environment": True}
        return Finding(words.check_code, CRITICAL, words.environment.format(change.path, why) + words.end, facts)
    return None


def _of_compiled(change: FileChange, changes: CandidateChanges, protection: ProtectedFiles) -> Iterator[Finding]:
    is_module = change.path.endswith(".rs") and change.path in protection.older
    if not protection.tests or is_module or any("pytest" in text for text in protection.checks.texts):
        return
    folders = map(str, PurePosixPath(change.path).parents if change.path.endswith(".go") else ())
    inner = next((each for each in folders if f"{each}/go.mod" in changes.after), "")
    if inner and not any(inner in text for text in protection.checks.texts):
        message = f"{change.path} belongs to the module {inner}/go.mod, whose tests the command may not run"
        yield Finding("differs_in_tests", CRITICAL, message + protection.words.end, {"path": change.path})
    if seen := sees_tests(change, changes.files):
        message = (
            f"{change.path} may differ in tests from what is built, or hide tests: {seen[0]}{protection.words.end}"
        )
        yield Finding("differs_in_tests", CRITICAL, message, {"path": change.path, "reasons": seen})


def _of_product(change: FileChange, kind: _Kind, protection: ProtectedFiles) -> Iterator[Finding]:
    yield from product_findings(change, protection)
    if kind.read:
        message = f"{change.path} is read by older tests and has changed; the tests also ran with its base version."
        yield Finding("test_support_changed", IMPORTANT, message, {"path": change.path})
    if change.path in protection.examples:
        after, known = None if change.link else change.after, protection.examples[change.path]
        if reasons := sources.changed_examples(change.before, after, known):
            what = ", ".join(reasons[:5])
            message = f"The session changes examples in {change.path} ({what}), which are older tests."
            yield _protected(change, message, reasons)


def _moved(changes: CandidateChanges, sides: Mapping[str, _Kind], protection: ProtectedFiles) -> dict[str, str]:
    """Return the test files that the work moved, as a mapping from old to new path."""
    named = [each for each in protection.tests if PurePosixPath(each).suffix]
    named += [*protection.protected, *protection.test_files, *protection.checks.files]
    gone = [c for c in changes.files if c.status == "D" and c.path.endswith(".py")]
    new = [c for c in changes.files if c.status == "A" and c.path.endswith(".py") and not c.link]
    if any(_stands_in(each, gone, changes) for each in new):
        return {}
    found: dict[str, str] = {}
    for change in gone:
        moved = [e.path for e in new if is_test_file(e.path) and sources.is_moved(change.before, e.after)]
        if (
            is_test_file(change.path)
            and not belongs(change.path, named)
            and len(moved) == 1
            and moved[0] not in found.values()
        ):
            found[change.path] = moved[0]
    found = {old: new for old, new in found.items() if sides[new].test_side}
    return found if protection.most_moved is None or len(found) <= protection.most_moved else {}


def _stands_in(new: FileChange, gone: Sequence[FileChange], changes: CandidateChanges) -> bool:
    if is_conftest(new.path):
        return True
    if is_test_file(new.path) or not in_test_folder(new.path):
        return False
    if any(each.name == new.name and sources.same(each.before, new.after) for each in gone):
        return False
    return bool((new.after or b"").strip()) and any(
        PurePosixPath(path).name == new.name and in_test_folder(path) for path in changes.before
    )


def _gains_tests(change: FileChange, kind: "_Kind") -> bool:
    if change.status != "M" or change.link or not (kind.test and not kind.own and change.path.endswith(".py")):
        return False
    return not sources.same(change.before, change.after) and sources.only_gains_tests(change.before, change.after)


def _older_test(change: FileChange) -> Iterator[Finding]:
    is_plain = change.status == "M" and not change.link and not _reaching(change)
    if is_plain and (sources.only_gains_tests(change.before, change.after) or _is_longer(change)):
        return
    word = "deletes" if change.status == "D" else "changes"
    yield _protected(change, f"The session {word} {change.path}, a test that does not belong to its feature.")


def _is_longer(change: FileChange) -> bool:
    """Return True if a module for tests of Rust, or a helper of Go's tests, only has new lines."""
    is_compiled = change.path.endswith((".rs", ".go")) and not is_test_file(change.path)
    return is_compiled and not weaker_test(change, alone=False)


def _protected(change: FileChange, message: str, reasons: Collection[str] = ()) -> Finding:
    facts = {"path": change.path, "reasons": list(reasons), "shown": _expectations(change)}
    return Finding("protected_test_changed", CRITICAL, message, facts)


def _expectations(change: FileChange) -> list[str]:
    """Return the lines that only one version of a test file has: at most five of each, and assertions before others."""
    old, new = ((content or b"").decode("utf-8", "replace").split("\n") for content in (change.before, change.after))
    found: list[str] = []
    for name, lines, others in (("old", old, {*new}), ("new", new, {*old})):
        rows = [(n, line.strip()) for n, line in enumerate(lines, 1) if line.strip() and line not in others]
        rows = [(n, line) for n, line in rows if _EXPECTING.search(line)] or rows
        found += [f"{name} {change.path}:{n}: {redact(line)[:_WIDTH]}" for n, line in rows[:_MOST_SHOWN]]
    return found


def _shared_test(change: FileChange, protection: ProtectedFiles) -> Iterator[Finding]:
    """Yield findings on changed tests of verified features."""
    if change.status == "A":
        return
    if not change.path.endswith(".py"):
        if why := weaker_test(change, alone=True):
            yield _protected(change, f"{change.path} also contains tests of verified features, and {why}.", [why])
        return
    before, after = sources.parse(change.before), sources.parse(change.after)
    if change.link or before is None or after is None:
        yield _protected(change, f"{change.path} also contains tests of verified features and can no longer be parsed.")
        return
    own = {node.partition("::")[2].split("[")[0] for node in protection.test_files if file_of(node) == change.path}
    reasons = sources.changed(before, after, free=own - {""})
    if reasons:
        message = f"{change.path} also contains tests of verified features, and {', '.join(reasons[:5])} changed."
        yield _protected(change, message, reasons)


def _given_test(change: FileChange, protection: ProtectedFiles) -> Iterator[Finding]:
    if why := weaker_test(change, alone=protection.alone):
        text = protection.words.given if is_test_file(change.path) or not protection.alone else protection.words.support
        yield _protected(change, text.format(change.path, why) + protection.words.end, [why])


def _support(change: FileChange) -> Iterator[Finding]:
    """Yield findings on a changed support file that older tests use."""
    if PurePosixPath(change.path).suffix != ".py":
        message = f"{change.path} changed; older tests ran with its base version."
        yield Finding("test_support_changed", IMPORTANT, message, {"path": change.path})
        return
    before, after = sources.parse(change.before), sources.parse(change.after)
    if change.link or before is None or after is None:
        yield _protected(change, f"{change.path} is used by older tests and can no longer be parsed.")
    elif reasons := sources.changed(before, after):
        message = f"{change.path} is used by older tests, and {', '.join(reasons[:5])} changed."
        yield _protected(change, message, reasons)


def _config(change: FileChange, why: str, protection: ProtectedFiles) -> Finding:
    message = f"{change.path} configures the test runner and must not change in a session: {why}{protection.words.end}"
    return Finding("runner_config_changed", CRITICAL, message, {"path": change.path, "reason": why})


def conftest_findings(change: FileChange, protection: ProtectedFiles) -> Iterator[Finding]:
    """Yield findings on a ``conftest.py`` with more than plain imports, fixtures, helpers and constants. (C54)"""
    if change.status == "D":
        yield _config(change, "it was deleted", protection)
        return
    after = sources.parse(change.after)
    before = sources.parse(change.before) if change.status == "M" else None
    if change.link or after is None or (change.status == "M" and before is None):
        yield _config(change, "it cannot be read", protection)
        return
    older = before.body if before else []
    reasons = sources.changed(before, after) if before else []
    reasons += sources.harm_in_conftest(sources.added(older, after.body), after)
    if reasons:
        yield _config(change, "; ".join(reasons[:3]), protection)


def product_findings(change: FileChange, protection: ProtectedFiles) -> Iterator[Finding]:
    """Yield findings on compiled files, and on product code that can detect the test runner."""
    if PurePosixPath(change.path).suffix == ".pyc":
        yield Finding(
            "compiled_file",
            WARN,
            f"{change.path} is compiled code and was omitted from the checkout.",
            {"path": change.path},
        )
    if change.after is None or not change.path.endswith(".py"):
        return
    new = {m.decode() for m in _KNOWS_TESTS.findall(change.after)} - {
        m.decode() for m in _KNOWS_TESTS.findall(change.before or b"")
    }
    if new:
        names, ends = sorted(new), protection.alone and "os._exit" in new  # its status is then the one that it likes
        message = f"{change.path} can detect the test runner or ends the process itself: {', '.join(names)}"
        facts = {"path": change.path, "names": names}
        message += protection.words.end if ends else "."
        yield Finding("product_knows_tests", CRITICAL if ends else IMPORTANT, message, facts)


def _reaching(change: FileChange) -> list[str]:
    is_python = change.path.endswith(".py")
    return sources.newly_reaching(sources.parse(change.before), sources.parse(change.after)) if is_python else []


def _own_tests(changes: CandidateChanges, sides: Mapping[str, _Kind], protection: ProtectedFiles) -> Iterator[Finding]:
    touched = {c.path: c for c in changes.files if c.status != "D" and c.path.endswith(".py")}
    trees = {path: sources.parse(change.after) for path, change in touched.items()}
    for path, tree in trees.items():
        if sides[path].test and not sides[path].conftest and sources.plugins_named(tree):
            message = f"{path} loads plugins into the test runner (pytest_plugins)"
            facts = {"path": path, "reason": "pytest_plugins"}
            yield Finding("runner_config_changed", CRITICAL, message + protection.words.end, facts)
    for node in sorted(set(protection.test_files)):
        tree = trees.get(file_of(node))
        if tree is not None and sources.asserts_nothing(tree, node.partition("::")[2] or None):
            message = f"{node} asserts nothing that could fail."
            yield Finding("trivial_test", IMPORTANT, message, {"test_file": node})


def read_by_tests(opened: Collection[tuple[str, str]]) -> list[str]:
    """Return the non-test files that test code opened. ``opened`` holds pairs of a file and its opener."""
    everywhere = ProtectedFiles()
    rows = [(path, by) for path, by in opened if is_test_side(by, everywhere)]
    return sorted({path for path, _ in rows if not is_test_side(path, everywhere)})


def read_by_product(opened: Collection[tuple[str, str]]) -> set[str]:
    everywhere = ProtectedFiles()
    return {path for path, by in opened if not is_test_side(by, everywhere)}
