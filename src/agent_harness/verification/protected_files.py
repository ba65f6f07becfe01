"""Protected files of each protocol. These are the base commit's files that affect the verdict on an item. The
candidate's version of a protected file is never used. ``of_session`` returns the protected files of a feature.
``of_command`` returns the protected files of an item with a check command, for task lists and long tasks."""

import posixpath
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from agent_harness.kernel.shell.reader import read
from agent_harness.verification import sources
from agent_harness.verification.changes import CandidateChanges, Tree
from agent_harness.verification.command.named_files import Named, joined, named_by
from agent_harness.verification.guard import ALLOWED_BY, ProtectedFiles, Words, belongs, file_of
from agent_harness.verification.runner_config import JS_SUFFIXES, SETTINGS_FILES, is_test_file, settings

_VARIABLE = re.compile(rb"\b[A-Z][A-Z0-9_]{2,}\b")
_PLUGIN = re.compile(r"(?:^|\s)-p\s*([A-Za-z_][\w.]*)")
_WORDS = re.compile(r"[\s;|&()<>'\"=]+")
_IMPORTS = re.compile(r"\bPYTHONPATH=([^\s;|&]+)")
_MOST_MOVED = 10  # test files; each costs a run
_MOST_OTHERS = 200


def behind(commands: Iterable[str], tree: Tree, *, sets_up: bool = False) -> Named:
    return joined([named_by(each, tree, sets_up=sets_up) for each in dict.fromkeys(commands)])


@dataclass(frozen=True, kw_only=True)
class SessionClaim:
    """Facts about a session's work on a feature that the harness knows before verification."""

    base: str  # the last accepted commit
    candidate: str
    proof: str | None = None  # runs the feature's own tests
    suite: str | None = None
    lint: str | None = None
    asked: str = ""  # what the feature says in words
    others: Collection[str] = ()  # further commands that check the project: what they run or read is not free
    environment_commands: Collection[str] = ()  # set the environment up, reset it or look after it: no more is theirs
    test_files: Collection[str] = ()  # of the feature: files, folders or node ids
    protected: Collection[str] = ()  # those of features that pass already
    baseline: Collection[str] = ()  # ids known to pass
    files_read: Collection[str] = ()  # what else their code opens
    story: Collection[str] = ()  # files in which the session tells of itself
    may_change: Collection[str] = ()  # patterns of protected files that a person released; their tests may be gone
    own_may_change: bool = False  # and the feature's own tests that the base has: an agent wrote them, proven once

    @property
    def commands(self) -> list[str]:
        return [command for command in (self.proof, self.suite) if command]


def of_session(
    tree: Tree,
    changes: CandidateChanges,
    claim: SessionClaim,
    *,
    checks: Named,
    environment: Named,
    import_roots: Iterable[str],
) -> ProtectedFiles:
    older, examples = _by_ids(tree, changes, claim.baseline)
    own_files = list(map(_clean, claim.test_files))
    own = [c for c in changes.files if belongs(c.path, own_files)]
    passed = {file_of(node) for node in claim.baseline if not file_of(node).endswith(".py")}  # no placeholder passes
    python = {c.path: sources.parse(c.before) for c in own if c.path.endswith(".py")}
    given = (p.path for p in own if (sources.has_tests(code) if (code := python.get(p.path)) else p.path in passed))
    named = {word.removeprefix("./") for command in claim.commands for word in _WORDS.split(command) if word}
    named &= changes.before | changes.after
    return ProtectedFiles(
        **_runner(tree, claim.commands, import_roots),
        given=frozenset() if claim.own_may_change else frozenset(given),
        older=older,
        examples=examples,
        read=frozenset(claim.files_read),
        story=frozenset(claim.story),
        asked=claim.asked,
        test_files=frozenset(own_files),
        protected=frozenset(map(_clean, claim.protected)),
        may_change=tuple(claim.may_change),
        checks=checks,
        environment=environment,
        runner_files=frozenset(
            path
            for path in named - checks.files - environment.files
            if not (is_test_file(path) or belongs(path, claim.test_files))
        ),
    )


def of_command(
    tree: Tree,
    named: Named,
    *,
    may_change: Collection[str] = (),
    import_roots: Iterable[str] = (),
    follows_moves: bool = False,
    asked: str = "",
    item: str = "this task",
) -> ProtectedFiles:
    """Return the protected files of an item that a command verifies."""
    is_python = named.python or any("pytest" in text for text in named.texts)
    return ProtectedFiles(
        **(_runner(tree, named.texts, import_roots) if is_python else {}),
        tests=named.tests,
        checks=named,
        may_change=tuple(may_change),
        asked=asked,
        python=named.python,
        alone=True,
        most_moved=_MOST_MOVED if follows_moves else 0,
        words=Words(
            check_code="check_changed",
            check=f"{{}} proves {item} and existed before the work began, but {{}}",
            new_check="{} is new, and {}",
            given=f"{{}} contains tests of {item} and existed before the work began, but {{}}",
            support=f"{{}} is used by the tests of {item} and existed before the work began, but {{}}",
            allowed_by=ALLOWED_BY,
            notes_allowed=False,
        ),
    )


def of_later(tree: Tree, commands: Sequence[str], *, may_change: Collection[str], asked: str) -> ProtectedFiles | None:
    named = behind(commands[:_MOST_OTHERS], tree)
    item = "another task of the list"
    protection = of_command(tree, named, may_change=may_change, asked=asked, item=item)
    return replace(protection, most_moved=None) if named.texts else None


def _runner(tree: Tree, texts: Sequence[str], import_roots: Iterable[str]) -> dict[str, Any]:
    """Return the fields of ``ProtectedFiles`` that describe the base commit's pytest settings."""
    names = [(path, path.rpartition("/")[2].lower()) for path in tree.paths]
    written = {path: tree.read(path) or b"" for path, name in names if name in SETTINGS_FILES}
    found = {path: settings(path, text) or {} for path, text in written.items()}
    conftests = {path: tree.read(path) or b"" for path, name in names if name == "conftest.py"}
    plugins = [name for text in conftests.values() for name in sources.plugins_named(sources.parse(text))]
    commands = [[" ".join(each.plain) for each, _ in read(text).every() if each.words] for text in texts]
    said = [each for parts in commands for each in parts if len(parts) == 1 or "pytest" in each.lower()]
    said += [str(each.get("addopts", "")) for each in found.values()]
    loaded = [name for text in said for name in _PLUGIN.findall(re.sub(r"[\[\],'\"]", " ", text)) if name != "no"]
    roots = [*import_roots, *_python_paths(found), *_search_paths(texts)]
    return {
        "conftests": frozenset(conftests),
        "variables": frozenset(
            name.decode() for text in (*written.values(), *conftests.values()) for name in _VARIABLE.findall(text)
        ),
        "plugins": frozenset((*plugins, *loaded)),
        "import_roots": frozenset({"", *("" if root == "." else posixpath.normpath(root) for root in roots)}),
    }


def _python_paths(found: dict[str, dict[str, Any]]) -> list[str]:
    roots: list[str] = []
    for path, options in found.items():
        value = options.get("pythonpath", [])
        entries = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
        roots += [str(PurePosixPath(path).parent / str(entry)) for entry in entries]
    return roots


def _search_paths(texts: Iterable[str]) -> list[str]:
    entries = [entry for text in texts for value in _IMPORTS.findall(text) for entry in value.strip("'\"").split(":")]
    return [entry for entry in entries if entry and "$" not in entry and not entry.startswith("/")]


def _by_ids(
    tree: Tree, changes: CandidateChanges, baseline: Collection[str]
) -> tuple[frozenset[str], dict[str, set[str]]]:
    """Return the changed files that contain baseline tests, and the baseline doctests in each file."""
    touched = {change.path for change in changes.files if change.path in changes.before}
    names: dict[str, set[str]] = {}
    for node in baseline:
        file, _, name = node.partition("::")
        if file in touched and not is_test_file(file):
            names.setdefault(file, set()).add(name.partition("[")[0])
    older, examples = set[str](), dict[str, set[str]]()
    for path, known_ids in names.items():
        code = sources.parse(tree.read(path)) if path.endswith(".py") else None
        known = {name for statement in (code.body if code else ()) for name in sources.bound(statement)}
        # a test runner may take a file without tests of its own for one test
        is_other = PurePosixPath(path).suffix in {*JS_SUFFIXES, ".java", ".kt", ".groovy"}
        is_test = is_other and any(known_ids) and b"import.meta.vitest" not in (tree.read(path) or b"")
        if is_test or any(name.partition("::")[0] in known for name in known_ids):
            older.add(path)
        else:
            examples[path] = known_ids
    return frozenset(older), examples


def _clean(node: str) -> str:
    file, colons, name = node.partition("::")
    return posixpath.normpath(file) + colons + name
