"""What Python test code does, read from its syntax tree; nothing is imported and nothing is run.

Rules for ``guard.py``. A source that does not parse is told apart from one that is empty: ``parse`` gives ``None``.
"""

import ast
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_ASSERTING = ("assert", "check", "expect", "verify", "should")
STEERING = frozenset(
    {"pytestmark", "pytest_plugins", "collect_ignore", "collect_ignore_glob", "__test__", "__getattr__"}
    | {"setup_module", "teardown_module", "setup_function", "teardown_function", "setUpModule", "tearDownModule"}
    | {"setUp", "setUpClass", "setup_class", "setup_method", "load_tests"}
)
_PYTEST_ASSERTS = frozenset({"pytest.raises", "pytest.warns", "pytest.deprecated_call", "raises"})


def parse(source: bytes | None) -> ast.Module | None:
    """The syntax tree, or ``None`` for what is no Python (too deep, wrong encoding, wrong syntax, missing)."""
    if source is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
        ast.dump(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree


def same(before: bytes | None, after: bytes | None) -> bool:
    """True when only comments and layout differ."""
    one, two = parse(before), parse(after)
    return one is not None and two is not None and ast.dump(one) == ast.dump(two)


def changed(before: ast.Module, after: ast.Module, *, free: Collection[str] = ()) -> list[str]:
    """Names of statements of ``before`` that are gone, different or overridden in ``after``; additions do not count.

    Placeholders, imports and the tests named in ``free`` (``test_x``, ``TestY``, ``TestY::test_z``) may change. Names
    that steer a whole module (``pytestmark``, ``setup_module``) count as overriding it.
    """
    return list(_changed(before.body, after.body, frozenset(free), ""))


def _changed(before: Sequence[ast.stmt], after: Sequence[ast.stmt], free: frozenset[str], inside: str) -> Iterator[str]:
    kept = Counter(ast.dump(statement) for statement in after)
    classes = {s.name: s for s in after if isinstance(s, ast.ClassDef)}
    allowed: set[str] = set()
    for statement in before:
        text = ast.dump(statement)
        if kept[text] > 0:
            kept[text] -= 1
            continue
        name = inside + (_name(statement) or f"line {statement.lineno}")
        if name in free or _is_placeholder(statement) or isinstance(statement, ast.Import | ast.ImportFrom):
            allowed |= bound(statement)
            continue
        twin = classes.get(statement.name) if isinstance(statement, ast.ClassDef) else None
        if isinstance(statement, ast.ClassDef) and twin is not None and _header(statement) == _header(twin):
            allowed.add(statement.name)
            yield from _changed(statement.body, twin.body, free, f"{name}::")
        else:
            yield name
    known = {name for statement in before for name in bound(statement)} | STEERING
    for statement in added(before, after):
        yield from (inside + name for name in sorted((bound(statement) & known) - allowed))


def bound(statement: ast.stmt) -> set[str]:
    """The names that a statement defines, assigns, imports or deletes where it stands."""
    if isinstance(statement, _Function | ast.ClassDef):
        return {statement.name}
    names: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, _Function | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
    return names


def _header(node: ast.ClassDef) -> list[str]:
    return [ast.dump(part) for part in (*node.bases, *node.keywords, *node.decorator_list)]


def _name(statement: ast.stmt) -> str | None:
    return statement.name if isinstance(statement, _Function | ast.ClassDef) else None


def _is_placeholder(statement: ast.stmt) -> bool:
    """A test that waits for its feature: its body only fails, skips or does nothing."""
    if not isinstance(statement, _Function):
        return False
    body = [part for part in statement.body if not is_text(part)]
    return all(isinstance(part, ast.Pass | ast.Raise) or _gives_up(part) for part in body)


def is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _gives_up(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assert):
        return isinstance(statement.test, ast.Constant) and not statement.test.value
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and dotted(call.func).split(".")[-1] in {"fail", "skip", "xfail", "skipTest"}


def added(before: Sequence[ast.stmt], after: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Statements of ``after`` that ``before`` does not have."""
    known = Counter(ast.dump(statement) for statement in before)
    new: list[ast.stmt] = []
    for statement in after:
        text = ast.dump(statement)
        known[text] -= 1
        if known[text] < 0:
            new.append(statement)
    return new


def dotted(node: ast.AST) -> str:
    """``a.b.c`` for a chain of names; the last names after a call (``patch(...).start`` is ``patch.start``)."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call):
        return dotted(node.func)
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else node.attr
    return ""


def plugins_named(tree: ast.Module | None) -> list[str]:
    """The modules that ``pytest_plugins`` of a conftest names, as far as they are written out."""
    named = [s.value for s in (tree.body if tree else ()) if isinstance(s, ast.Assign) and _is_plugins(s)]
    texts = [n.value for value in named for n in ast.walk(value) if isinstance(n, ast.Constant)]
    return [text for text in texts if isinstance(text, str)]


def _is_plugins(statement: ast.Assign) -> bool:
    return any(dotted(target) == "pytest_plugins" for target in statement.targets)


def tests(tree: ast.Module) -> dict[str, _Function]:
    """Test functions by their node name (``test_x``, ``TestY::test_z``), as pytest and unittest find them."""
    return dict(_tests(tree.body, ""))


def _tests(body: Sequence[ast.stmt], inside: str) -> Iterator[tuple[str, _Function]]:
    for statement in body:
        if isinstance(statement, _Function) and statement.name.startswith("test"):
            yield inside + statement.name, statement
        elif isinstance(statement, ast.ClassDef):
            yield from _tests(statement.body, f"{inside}{statement.name}::")


def asserts_nothing(tree: ast.Module, node: str | None = None) -> bool:
    """True when none of the tests (below ``node``, when given) has a statement that could fail for a reason."""
    wanted = node.split("[")[0] if node else None
    found = [f for name, f in tests(tree).items() if wanted is None or name == wanted or name.startswith(f"{wanted}::")]
    return bool(found) and not any(_asserts(function) for function in found)


def _asserts(function: _Function) -> bool:
    return any(_can_fail(node) for node in ast.walk(function))


def _can_fail(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert):
        return not isinstance(node.test, ast.Constant)
    if isinstance(node, ast.Call):
        name = dotted(node.func)
        last = name.split(".")[-1].lower().lstrip("_")
        return last.startswith(_ASSERTING) or name in _PYTEST_ASSERTS
    if isinstance(node, ast.If):
        return any(
            isinstance(part, ast.Raise) or (isinstance(part, ast.stmt) and _gives_up(part)) for part in node.body
        )
    return False
