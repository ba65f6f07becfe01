"""Detection of weak tests among the tests that the work added or changed. The rules use the tests' text and recorded
calls, and run nothing. Each rule detects one way in which a test passes for any result of the work."""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from agent_harness.verification import sources
from agent_harness.verification.changes import FileChange
from agent_harness.verification.noticing import mutants
from agent_harness.verification.runner.testreport import SKIPPED, RecordedCall
from agent_harness.verification.runner_config import is_test_file

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_READS_SOURCE = frozenset({"getsource", "getsourcelines"})
_REACHES_OUT = frozenset({"open", "input", "print"})
"""Tests may replace work functions that call these, because they reach outside the process."""


def weakness(
    own: Iterable[FileChange], work: Sequence[FileChange], calls: Sequence[RecordedCall], outcomes: Mapping[str, str]
) -> str:
    """Return why the changed tests prove nothing about the work, or "" if they prove something."""
    files = [change for change in own if change.path.endswith(".py") and is_test_file(change.path)]
    read = [(change, tree) for change in files if (tree := sources.parse(change.after))]
    functions = ((tree, each) for _, tree in read for each in mutants.functions_in(tree.body))
    tests = [(tree, function) for tree, (name, function) in functions if name.rpartition(".")[2].startswith("test")]
    return (
        _changes_nothing(work)
        or _mostly_skipped([change for change, _ in read], outcomes)
        or _reads_source(tests)
        or _expects_own_table(read, work)
        or _replaces_work(tests, work)
        or _only_raises(calls, work)
    )


def _changes_nothing(work: Sequence[FileChange]) -> str:
    if not work or any(change.status != "M" or not change.path.endswith(".py") for change in work):
        return ""
    trees = [(sources.parse(change.before), sources.parse(change.after)) for change in work]
    same = all(before and after and _undocumented(before) == _undocumented(after) for before, after in trees)
    return f"the work changes no statement of {work[0].path}, only docstrings and comments" if same else ""


def _undocumented(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(node, ast.Module | ast.ClassDef | _Function):
            body[:] = [statement for statement in body if not mutants.is_idle(statement)]
    return ast.dump(tree)


def _mostly_skipped(files: Sequence[FileChange], outcomes: Mapping[str, str]) -> str:
    rows = ((node.partition("::")[0], outcome) for node, outcome in outcomes.items())
    found = [outcome for file, outcome in rows if any(mutants.is_one(file, change.path) for change in files)]
    skipped = found.count(SKIPPED)
    return f"{skipped} of {len(found)} of them are skipped or expected to fail" if skipped * 2 > len(found) else ""


def _reads_source(tests: Iterable[tuple[ast.Module, _Function]]) -> str:
    for _, function in tests:
        for node in (each for each in ast.walk(function) if isinstance(each, ast.Assert)):
            calls = (each for each in ast.walk(node) if isinstance(each, ast.Call))
            if any(sources.dotted(call.func).rpartition(".")[2] in _READS_SOURCE for call in calls):
                return f"{function.name} searches the source of the work instead of checking its results"
    return ""


def _expects_own_table(read: Sequence[tuple[FileChange, ast.Module]], work: Iterable[FileChange]) -> str:
    """Return a reason if the tests only expect values of a table in the work, otherwise ""."""
    tables = {change.path: _tables(change) for change in work if change.path.endswith(".py")}
    found = ""
    for _, tree in read:
        module = mutants.assigned(tree.body)
        imported = {
            alias.asname or alias.name: alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
            if any(
                alias.name in names and mutants.dotted_path(path).endswith(f".{node.module}")
                for path, names in tables.items()
            )
        }
        for owner, function in mutants.with_classes(tree):
            if any(True for _ in mutants.values_in(function, owner, module)):
                return ""
            roots = (_root(side) for side in mutants.expected_sides(function))
            found = found or next((imported[root] for root in roots if root in imported), "")
    return f"they expect the values in {found}, which the work itself defines" if found else ""


def _tables(change: FileChange) -> set[str]:
    tree = sources.parse(change.after)
    values = mutants.assigned(tree.body) if tree else {}
    literal = ast.Dict | ast.List | ast.Tuple | ast.Constant
    return {name for name, value in values.items() if isinstance(value, literal)}


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _replaces_work(tests: Sequence[tuple[ast.Module, _Function]], work: Iterable[FileChange]) -> str:
    """Return a reason if every test replaces a pure function of the work, otherwise ""."""
    brought = {name for change in work if change.path.endswith(".py") for name in _pure_new(change)}
    replaced = [brought & {*_replaced(function)} for _, function in tests]
    return f"each test replaces {min(replaced[0])}, which the work itself added" if all(replaced or [set()]) else ""


def _pure_new(change: FileChange) -> Iterator[str]:
    before, after = sources.parse(change.before), sources.parse(change.after)
    if after is None:
        return
    older = {name for name, _ in mutants.functions_in(before.body)} if before else set[str]()
    imported = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(after)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    for name, function in mutants.functions_in(after.body):
        roots = {
            sources.dotted(node.func).partition(".")[0] for node in ast.walk(function) if isinstance(node, ast.Call)
        }
        if name not in older and not roots & (imported | _REACHES_OUT):
            yield name.rpartition(".")[2]


def _replaced(function: _Function) -> Iterator[str]:
    for node in ast.walk(function):
        if not isinstance(node, ast.Call):
            continue
        name = sources.dotted(node.func)
        if name.rpartition(".")[2] in ("patch", "setattr") or name.endswith("patch.object"):
            yield from (
                each.value.rpartition(".")[2]
                for each in node.args[:2]
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            )


def _only_raises(calls: Sequence[RecordedCall], work: Iterable[FileChange]) -> str:
    """Return a reason if the tests only call functions that raise an error for any input, otherwise ""."""
    called = {call.name for call in calls if call.answer.startswith("raises")}
    answering = {call.name for call in calls} - called
    trees = [sources.parse(change.after) for change in work if change.path.endswith(".py")]
    functions = [each for tree in trees if tree for each in mutants.functions_in(tree.body)]
    always = {name for name, function in functions if any(isinstance(each, ast.Raise) for each in function.body)}
    if called and not answering and called <= always:
        return f"{min(called)} raises an error for any input, and they check nothing else"
    return ""
