"""What test code does beyond itself: patched modules, hooks, plugins, text that is run; read from its syntax tree.

Rules for ``guard.py``, and only a first net: a module that such code imports can do anything when it is imported.
"""

import ast
from collections.abc import Collection, Iterable, Iterator

from agent_harness.verification.sources import STEERING, bound, dotted, is_text

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_RUNNER_MODULES = frozenset({"_pytest", "pluggy", "gc", "ctypes", "builtins", "atexit"})
_RUNNER_NAMES = frozenset({"pytest", "_pytest", "pluggy", "unittest", "sys", "builtins"})
_CALLS = frozenset(
    {"exec", "eval", "compile", "__import__", "setattr", "delattr", "globals"}
    | {"os._exit", "pytest.exit", "importlib.reload", "sys.settrace", "sys.modules.update"}
)
_INSIDES = frozenset({"__dict__", "__globals__", "__code__", "__subclasses__"})
_DECORATORS = frozenset({"pytest.fixture", "fixture", "contextmanager", "contextlib.contextmanager", "staticmethod"})


def reaches_out(tree: ast.AST, *, roots: Collection[str] | None = None) -> list[str]:
    """What test code does to things outside itself, one line each; ``roots`` limits whose attributes count.

    ``monkeypatch`` and ``mock.patch`` used as a context or decorator undo themselves and do not count.
    """
    imported = frozenset(_imported_names(tree) if roots is None else roots)
    return [reason for node in ast.walk(tree) for reason in _reaching(node, imported)]


def acts_at_import(tree: ast.Module) -> bool:
    """True when importing this test module does something to what is there already, such as setting a variable.

    Definitions, imports, assignments to names of its own, and additions to ``sys.path`` do not.
    """
    return any(_acts(statement) for statement in tree.body)


def _acts(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return not all(isinstance(target, ast.Name) for target in targets)
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Call) and not dotted(statement.value.func).startswith("sys.path.")
    if isinstance(statement, ast.If | ast.Try | ast.With | ast.For | ast.While):
        return any(
            _acts(inner) for inner in ast.walk(statement) if isinstance(inner, ast.stmt) and inner is not statement
        )
    return isinstance(statement, ast.Delete)


def _reaching(node: ast.AST, imported: frozenset[str]) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        yield from (f"line {node.lineno} imports {m}" for m in modules if m.split(".")[0] in _RUNNER_MODULES)
    elif isinstance(node, ast.Assign | ast.Delete):
        yield from _assigning(node.targets, imported)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        yield from _assigning([node.target], imported)
    elif isinstance(node, ast.Call):
        yield from _calling(node)
    elif isinstance(node, ast.Attribute) and node.attr in _INSIDES:
        yield f"line {node.lineno} uses {node.attr}"


def _assigning(targets: Iterable[ast.expr], imported: frozenset[str]) -> Iterator[str]:
    for target in targets:
        if dotted(target) == "pytest_plugins":
            yield "pytest_plugins loads plugins"
        elif _root(target) in imported and _patches(target):
            yield f"line {target.lineno} changes {dotted(target) or _root(target)}, which is not its own"


def _patches(target: ast.expr) -> bool:
    """An attribute of an imported name, or ``sys.modules[...]``; ``os.environ[...]`` and other items are data."""
    if isinstance(target, ast.Attribute):
        return True
    return isinstance(target, ast.Subscript) and dotted(target.value) == "sys.modules"


def _calling(node: ast.Call) -> Iterator[str]:
    name = dotted(node.func)
    if name in _CALLS:
        yield f"line {node.lineno} calls {name}"
    elif name.endswith(".start") and "patch" in name:
        yield f"line {node.lineno} starts a patch that nothing ends"


def _imported_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def harm_in_conftest(statements: Iterable[ast.stmt]) -> list[str]:
    """Why new statements of a ``conftest.py`` are more than plain imports, fixtures, helpers and constants.

    Empty means harmless: no hook, no automatic fixture, no plugin, nothing called or patched at import (C54).
    """
    return [reason for statement in statements for reason in _conftest_statement(statement)]


def _conftest_statement(statement: ast.stmt) -> Iterator[str]:
    yield from reaches_out(statement, roots=_RUNNER_NAMES)
    if isinstance(statement, ast.Import | ast.ImportFrom):
        yield from _conftest_import(statement)
    elif isinstance(statement, _Function):
        if _steering(statement):
            yield f"{statement.name} is a hook of the test runner"
        yield from _conftest_decorators(statement)
    elif isinstance(statement, ast.ClassDef):
        yield from _at_import(statement.decorator_list, "a class decorator")
        for part in statement.body:
            yield from _conftest_statement(part)
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if not all(isinstance(target, ast.Name) for target in targets) or _steering(statement):
            yield f"line {statement.lineno} assigns to something else than a plain new name"
        yield from _at_import([statement.value] if statement.value else [], "an assignment")
    elif not (is_text(statement) or isinstance(statement, ast.Pass)):
        yield f"line {statement.lineno} does something at import"


def _steering(statement: ast.stmt) -> bool:
    return any(name.startswith("pytest_") or name in STEERING for name in bound(statement))


def _conftest_import(statement: ast.Import | ast.ImportFrom) -> Iterator[str]:
    for alias in statement.names:
        if alias.name == "*":
            yield f"line {statement.lineno} imports every name of a module, hooks among them"
    if _steering(statement):
        yield f"line {statement.lineno} imports what the test runner takes for a hook"


def _conftest_decorators(function: _Function) -> Iterator[str]:
    for decorator in function.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        name = dotted(call.func if call else decorator)
        if name not in _DECORATORS:
            yield f"{function.name} carries the decorator {name or 'of line ' + str(decorator.lineno)}"
        for keyword in call.keywords if call else ():
            if keyword.arg in ("autouse", None) and not _is_false(keyword.value):
                yield f"{function.name} is a fixture that every test gets (autouse)"
    defaults = [d for d in (*function.args.defaults, *function.args.kw_defaults) if d is not None]
    yield from _at_import(defaults, f"a default of {function.name}")


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _at_import(expressions: Iterable[ast.expr], place: str) -> Iterator[str]:
    for expression in expressions:
        for node in ast.walk(expression):
            if isinstance(node, ast.Call):
                yield f"{place} calls {dotted(node.func) or 'something'} at import"
