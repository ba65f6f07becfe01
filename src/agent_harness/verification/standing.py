"""Proof that a changed test file still asserts all that it asserted before. The proof compares syntax trees, and runs
nothing. Every assertion of the older version stands in the newer one, in an equal or a stricter form, and the same
statements run before it. ``renamed`` gives up at each difference that it cannot explain, so that a person decides."""

import ast
import copy
import difflib
import operator
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from agent_harness.kernel.redact import redact
from agent_harness.verification import sources
from agent_harness.verification.extension import continues, is_text

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Import = ast.Import | ast.ImportFrom
_OPERATORS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_REFLECTING = frozenset(  # names of what may find a statement, or a local variable, that was not there before
    {"locals", "globals", "vars", "dir", "eval", "exec", "getfixturevalue", "getsource", "currentframe", "_getframe"}
)
_EXPECTS_FAILURE = frozenset({"xfail", "expectedFailure"})  # a stricter assertion fails there, and is content
_PLAIN_FIXTURES = frozenset({"self", "tmp_path", "tmpdir", "capsys", "capfd", "caplog", "monkeypatch", "recwarn"})
_EXPECTING = re.compile(r"(?i)assert|raises|expect|should|require|\bt\.(Error|Fatal)")
_TAKEN = ("pytest_", "__", "setup", "teardown", "setUp", "tearDown")  # how names of hooks begin
_MOST_SHOWN, _WIDTH = 5, 100
_ONCE = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.keyword)
_INLINED = (ast.Assert, ast.Expr, ast.Assign, ast.Compare, ast.Call, ast.BinOp, ast.UnaryOp, ast.Subscript)
_INLINED += (ast.Attribute, ast.Await, ast.Tuple, ast.List)


def renamed(before: bytes | None, after: bytes | None, acting: Collection[str] = ()) -> dict[str, str] | None:
    """Return the tests that have another name in ``after``, or None if an assertion of ``before`` may be gone.
    ``acting`` contains the names of changed modules. An added import may run their code."""
    one, two = sources.parse(before), sources.parse(after)
    if one is None or two is None or sources.newly_reaching(one, two) or sources.automatic_fixtures(one, two):
        return None
    if {*_names(one)} & (_REFLECTING | _EXPECTS_FAILURE):
        return None
    try:
        return _File(one, two, acting).renamed()
    except RecursionError:  # a copy stands deeper than what it is a copy of
        return None


class _File:
    """Two versions of a test file."""

    def __init__(self, old: ast.Module, new: ast.Module, acting: Collection[str]) -> None:
        self._old, self._new, self._acting = old, new, acting
        self._names = Counter(_names(old))
        self._texts = {w for n in ast.walk(old) if isinstance(n, ast.Constant) for w in _words(n.value)}
        self._renamed: dict[str, str] = {}

    def renamed(self) -> dict[str, str] | None:
        """Return the new names of tests, or None."""
        old, new = ([s for s in tree.body if not isinstance(s, _Import)] for tree in (self._old, self._new))
        helpers = {s.name: s for s in new if _is_helper(s)}
        mine = [s for s in old if _is_helper(s)]
        if not (_is_unique(self._new.body) and self._imports()):
            return None
        if any(s.name not in helpers or not _same(s, helpers.pop(s.name)) for s in mine):
            return None
        rest = [s for s in new if not _is_helper(s) or s.name in helpers]
        return self._renamed if self._statements([s for s in old if s not in mine], rest, "") else None

    def _imports(self) -> bool:
        """Return True if each name means what it meant, and added imports run no code that comes with the change."""
        old, new = ([s for s in tree.body if isinstance(s, _Import)] for tree in (self._old, self._new))
        if [ast.dump(s) for s in old] == [ast.dump(s) for s in new]:
            return True
        plain = (_Import, _Function, ast.ClassDef, ast.Assign, ast.AnnAssign)
        was, now = _imported(old), _imported(new)
        known = {module for module, _ in was.values()}
        gone = [name for name in was if now.get(name) != was[name]]
        more = [(name, *now[name]) for name in now if name not in was]
        return (
            all(isinstance(s, plain) or is_text(s) for s in self._old.body)  # nothing else depends on the order
            and all(name not in now and not self._names[name.split(".")[0]] - 1 for name in gone)
            and all(_is_quiet(was[name][0]) for name in gone)
            and all(module in known or _is_quiet(module) for _, module, _ in more)
            and all(self._is_free(name.split(".")[0], _is_quiet(module)) for name, module, _ in more)
            and not any(part in self._acting for _, _, meant in more for part in meant)
        )

    def _is_free(self, name: str, is_quiet: bool = False) -> bool:
        is_used = self._names[name] or (name in self._texts and not is_quiet)
        return not (is_used or name in sources.STEERING or name.startswith(_TAKEN))

    def _statements(self, old: Sequence[ast.stmt], new: Sequence[ast.stmt], inside: str) -> bool:
        """Return True if the older statements stand in their order, and the added ones cannot affect them."""
        names, rest = {name for statement in new for name in sources.bound(statement)}, [*old]
        for statement in new:
            if rest and self._stands(rest[0], statement, inside, names):
                rest.pop(0)
            elif not self._is_new(statement, inside):
                return False
        return not rest

    def _stands(self, old: ast.stmt, new: ast.stmt, inside: str, names: Collection[str]) -> bool:
        if _same(old, new):
            return True
        if isinstance(old, ast.ClassDef) and isinstance(new, ast.ClassDef):
            may_grow = self._names[old.name] == 1 and _is_test_case(old)
            return (
                _same(_with_body(old, []), _with_body(new, []))
                and (may_grow or len(old.body) == len(new.body))
                and _is_unique(new.body)
                and self._statements(old.body, new.body, f"{inside}{old.name}::")
            )
        is_test = isinstance(old, _Function) and old.name.startswith("test") and self._names[old.name] == 1
        if not (is_test and isinstance(new, _Function) and type(old) is type(new)):
            return False
        if old.name == new.name:
            return _Test(old, new, {*sources.bound(self._new)}).stands()
        moved = copy.copy(new)
        moved.name = old.name
        is_free = old.name not in names and new.name.startswith("test_") and self._is_free(new.name)
        if is_free and _same(old, moved) and _arguments(old) <= _PLAIN_FIXTURES | _parameters(old):
            self._renamed[inside + old.name] = inside + new.name
            return True
        return False

    def _is_new(self, statement: ast.stmt, inside: str) -> bool:
        """Return True if an added statement only defines tests, helpers or constants of new names."""
        names = sources.bound(statement)
        if not all(map(self._is_free, names)) or (inside and not all(name.startswith("test") for name in names)):
            return False
        if isinstance(statement, ast.ClassDef):
            parts = [each for each in statement.body if not (is_text(each) or isinstance(each, ast.Pass))]
            return _is_test_case(statement) and all(isinstance(e, _Function) and _is_inert(e) for e in parts)
        return _is_inert(statement)


class _Test:
    """Two versions of a test function."""

    def __init__(self, old: _Function, new: _Function, bound: Collection[str]) -> None:
        self._old, self._new = old, new
        self._known = {*_names(old)}
        self._stored = Counter(
            n.id for n in ast.walk(new) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
        )
        self._own = {n.id for n in ast.walk(old) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        self._own |= _arguments(old)
        self._harmless = {"len", "isinstance", "type"} - {*bound, *self._stored, *_arguments(new)}

    def stands(self) -> bool:
        old, new = _without_annotations(self._old), _without_annotations(self._new)
        if ast.dump(old.args) != ast.dump(new.args) or len(old.decorator_list) != len(new.decorator_list):
            return False
        if not all(_extends_cases(*pair) for pair in zip(old.decorator_list, new.decorator_list, strict=True)):
            return False
        return self._block(old.body, new.body, old)

    def _block(self, old: Sequence[ast.stmt], new: Sequence[ast.stmt], function: _Function | None = None) -> bool:
        """Return True if the older statements stand, each with the same statements before it."""
        rest, steps = [*_steps(old)], [*_steps(new)]
        waiting: list[tuple[str, ast.expr]] = []  # local variables whose value has taken no older place yet
        begin = 0  # of the statements that have no older one after them
        for at, statement in enumerate(steps):
            now, left = self._inlined(statement, waiting)
            if not rest:
                break
            if now is not None and self._is_sharper(rest[0], now) and all(_is_literal(value) for _, value in left):
                rest.pop(0)
                waiting, begin = [], at + 1
            elif (name := self._new_local(statement)) is not None:
                waiting.append(name)
            elif not self._only_asserts(statement):
                return False
        if rest:
            return False
        more = steps[begin:]
        return all(map(self._only_asserts, more)) or (
            function is not None and continues(function, _with_body(function, [*function.body, *more]))
        )

    def _new_local(self, statement: ast.stmt) -> tuple[str, ast.expr] | None:
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if isinstance(statement, ast.Assign) and isinstance(target, ast.Name):
            is_new = target.id not in self._known and self._stored[target.id] == 1
            return (target.id, statement.value) if is_new else None
        return None

    def _inlined(
        self, statement: ast.stmt, waiting: Sequence[tuple[str, ast.expr]]
    ) -> tuple[ast.stmt | None, list[tuple[str, ast.expr]]]:
        """Return the statement with values in place of the local variables that took them just before it."""
        left: list[tuple[str, ast.expr]] = []
        for name, value in reversed(waiting):
            places = [n for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id == name]
            if len(places) == 1 and (_is_literal(value) or self._is_first(statement, places[0])):
                statement = _Replaced(name, value).visit(copy.deepcopy(statement))
            else:
                left.append((name, value))
        return statement, left

    def _is_first(self, statement: ast.AST, place: ast.Name) -> bool:
        """Return True if the statement evaluates nothing before the name but constants and local variables."""
        node: ast.AST = statement
        while node is not place:
            if not isinstance(node, _INLINED) or (isinstance(node, ast.Compare) and len(node.ops) > 1):
                return False
            parts = [node.value] if isinstance(node, ast.Assign) else [*ast.iter_child_nodes(node)]
            parts = [node.test] if isinstance(node, ast.Assert) else parts
            inner = next((n for n, part in enumerate(parts) if any(each is place for each in ast.walk(part))), None)
            if inner is None or not all(map(self._is_settled, parts[:inner])):
                return False
            node = parts[inner]
        return True

    def _is_settled(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self._own or node.id not in self._known
        return _is_literal(node) or isinstance(node, _ONCE[:-1])

    # ---- what is stricter --------------------------------------------------------------------------------------------

    def _is_sharper(self, old: ast.stmt, new: ast.stmt) -> bool:
        if ast.dump(old) == ast.dump(new):
            return True
        if isinstance(old, ast.Expr):
            if isinstance(new, ast.Assert):
                return self._is_quiet(new.msg) and self._asks_of(new.test, old.value)
            return self._new_local(new) is not None and _same(old.value, new.value)
        if isinstance(old, ast.Assert) and isinstance(new, ast.Assert):
            same_words = old.msg is not None and new.msg is not None and _same(old.msg, new.msg)
            return (same_words or self._is_quiet(new.msg)) and _implies(new.test, old.test)
        if isinstance(old, ast.With) and isinstance(new, ast.With):
            same = [ast.dump(s) for s in _steps(old.body)] == [ast.dump(s) for s in _steps(new.body)]
            return same and len(old.items) == len(new.items) == 1 and self._awaits_more(old.items[0], new.items[0])
        if isinstance(old, ast.For | ast.If) and type(old) is type(new):
            heads = (_with_body(each, []) for each in (old, new))
            return _same(*heads) and self._block(old.body, new.body)
        return False

    def _asks_of(self, test: ast.expr, value: ast.expr) -> bool:
        """Return True if an expression evaluates the older value first, and then only compares it."""
        if _same(test, value):
            return True
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._asks_of(test.operand, value)
        return isinstance(test, ast.Compare) and _same(test.left, value) and all(map(self._is_quiet, test.comparators))

    def _awaits_more(self, old: ast.withitem, new: ast.withitem) -> bool:
        """Return True if a test awaits the same exception, and in addition its text or a name for it."""
        one, two = old.context_expr, new.context_expr
        named = new.optional_vars
        is_named = (old.optional_vars is None and isinstance(named, ast.Name) and named.id not in self._known) or (
            (old.optional_vars and ast.dump(old.optional_vars)) == (named and ast.dump(named))
        )
        if not is_named or not (isinstance(one, ast.Call) and isinstance(two, ast.Call)):
            return False
        if ast.unparse(one.func) not in ("pytest.raises", "raises"):
            return False
        words = two.keywords if not one.keywords else []
        is_match = len(words) == 1 and words[0].arg == "match" and _is_text(words[0].value)
        return _same(one, two) or (is_match and _same(one, ast.Call(two.func, two.args, [])))

    def _only_asserts(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.Assert):
            return self._is_quiet(statement.test) and self._is_quiet(statement.msg)
        return False

    def _is_quiet(self, node: ast.expr | None) -> bool:
        """Return True if to evaluate an expression changes nothing, such as the position of an iterator."""
        if isinstance(node, ast.Compare):
            looks_up = any(isinstance(op, ast.In | ast.NotIn) for op in node.ops)
            parts = [node.left, *node.comparators]
            return all(map(self._is_quiet, parts)) and (not looks_up or all(map(_is_literal, node.comparators)))
        if isinstance(node, ast.BoolOp):
            return all(map(self._is_quiet, node.values))
        if isinstance(node, ast.UnaryOp):
            return self._is_quiet(node.operand)
        if isinstance(node, ast.Attribute):
            return node.attr in self._known and self._is_quiet(node.value)
        if isinstance(node, ast.Call):
            is_harmless = isinstance(node.func, ast.Name) and node.func.id in self._harmless and not node.keywords
            return is_harmless and all(map(self._is_quiet, node.args))
        return node is None or isinstance(node, ast.Name) or _is_literal(node)


def _implies(new: ast.expr, old: ast.expr) -> bool:
    """Return True if the older condition holds wherever the newer one does, and both evaluate the same."""
    if _same(new, old):
        return True
    if not (isinstance(new, ast.Compare) and len(new.ops) == 1 and isinstance(new.ops[0], ast.Eq | ast.Is)):
        return False
    asked, literal = new.left, new.comparators[0]
    asked, literal = (literal, asked) if _is_literal(asked) else (asked, literal)
    if isinstance(new.ops[0], ast.Eq) and _is_nearer(asked, literal, old):
        return True
    is_one = isinstance(literal, ast.Constant) and (literal.value is None or isinstance(literal.value, bool))
    if not _is_literal(literal) or _is_literal(asked) or (isinstance(new.ops[0], ast.Is) and not is_one):
        return False
    replaced = _Replaced(ast.dump(asked), literal)
    condition = replaced.visit(copy.deepcopy(old))
    try:
        return replaced.times == 1 and bool(_value(condition))
    except (ValueError, TypeError, LookupError):
        return False


def _is_nearer(asked: ast.expr, now: ast.expr, old: ast.expr) -> bool:
    """Return True if the older condition compared the same value with a larger tolerance."""
    if not (isinstance(old, ast.Compare) and len(old.ops) == 1 and isinstance(old.ops[0], ast.Eq)):
        return False
    was = old.comparators[0]
    if not (_same(old.left, asked) and isinstance(was, ast.Call) and ast.unparse(was.func) == "pytest.approx"):
        return False
    if not (isinstance(now, ast.Call) and _same(was.func, now.func) and len(was.args) == len(now.args) == 1):
        return False
    sizes = [{str(each.arg): _number(each.value) for each in call.keywords} for call in (was, now)]
    return (
        _same(was.args[0], now.args[0])
        and sizes[0].keys() == sizes[1].keys() <= {"rel", "abs"}
        and all(0 <= now_ <= sizes[0][name] for name, now_ in sizes[1].items())
    )


def _number(node: ast.expr) -> float:
    value = node.value if isinstance(node, ast.Constant) else None
    return float(value) if isinstance(value, int | float) else float("nan")


def _value(node: ast.expr) -> Any:
    """Return the value of a condition that consists of literals. Raise ``ValueError`` for anything else."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = _value(node.left), node.comparators[0]
        if isinstance(node.ops[0], ast.IsNot) and isinstance(right, ast.Constant) and right.value is None:
            return left is not None
        if type(node.ops[0]) not in _OPERATORS:
            raise ValueError(ast.dump(node))
        return _OPERATORS[type(node.ops[0])](left, _value(right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _value(node.operand)
    if isinstance(node, ast.Subscript):
        return _value(node.value)[_value(node.slice)]
    return ast.literal_eval(node)


class _Replaced(ast.NodeTransformer):
    """Transformer that puts a value in the place of a local variable, or of an expression."""

    def __init__(self, what: str, value: ast.expr) -> None:
        self._what, self._value, self.times = what, value, 0

    def visit(self, node: ast.AST) -> Any:
        is_name = isinstance(node, ast.Name) and node.id == self._what
        if is_name or (isinstance(node, ast.expr) and ast.dump(node) == self._what):
            self.times += 1
            return self._value
        return self.generic_visit(node)


# ---- what code consists of -------------------------------------------------------------------------------------------


def _same(one: ast.AST, two: ast.AST) -> bool:
    return ast.dump(one) == ast.dump(two)


def _names(tree: ast.AST) -> Iterator[str]:
    """Yield each name in the code, as often as it occurs."""
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node) if not isinstance(node, ast.Constant) else ():
            for each in value if isinstance(value, list) else (value,):
                if isinstance(each, str) and field != "type_comment":
                    yield from each.split(".")


def _words(value: object) -> list[str]:
    return (
        "".join(c if c.isidentifier() or c.isdigit() else " " for c in value).split() if isinstance(value, str) else []
    )


def _steps(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements without their descriptions, and the parts of a joined assertion one by one."""
    for statement in body:
        if isinstance(statement, ast.Assert) and isinstance(statement.test, ast.BoolOp):
            is_joined = isinstance(statement.test.op, ast.And)
            yield from (
                _steps(ast.Assert(each, statement.msg) for each in statement.test.values) if is_joined else [statement]
            )
        elif not _is_description(statement):
            yield statement


def _is_description(statement: ast.stmt) -> bool:
    return is_text(statement) and ">>>" not in ast.dump(statement)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_literal(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return all(map(_is_literal, node.elts))
    if isinstance(node, ast.Dict):
        return all(each is not None and _is_literal(each) for each in (*node.keys, *node.values))
    return isinstance(node, ast.Constant)


def _imported(imports: Iterable[_Import]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the module of each imported name, and the further names that it may run."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for statement in imports:
        for each in statement.names:
            if isinstance(statement, ast.ImportFrom):
                row = (f"{'.' * statement.level}{statement.module or ''}", (each.name,))
            else:
                row = (each.name, tuple(each.name.split(".")))
            name = each.asname or each.name
            found[name] = row if found.get(name, row) == row and name != "*" else (f"?{statement.lineno}", ("*",))
    return found


def _is_quiet(module: str) -> bool:
    return module.partition(".")[0] in {*sys.stdlib_module_names, "pytest"}


def _is_unique(body: Iterable[ast.stmt]) -> bool:
    bound = [name for s in body if not isinstance(s, _Import) for name in sources.bound(s)]
    bound += {name for s in body if isinstance(s, _Import) for name in sources.bound(s)}
    return len(bound) == len(set(bound))


def _is_helper(statement: ast.stmt) -> bool:
    is_plain = isinstance(statement, _Function) and not statement.name.startswith("test")
    return is_plain and not statement.decorator_list and _is_inert(statement)


def _is_test_case(statement: ast.ClassDef) -> bool:
    is_plain = not (statement.keywords or statement.decorator_list)
    return is_plain and all(ast.unparse(each) == "unittest.TestCase" for each in statement.bases)


def _is_inert(statement: ast.stmt) -> bool:
    """Return True if a definition runs nothing, apart from marks of pytest."""
    if isinstance(statement, ast.Assign):
        is_name = all(isinstance(target, ast.Name) for target in statement.targets)
        return is_name and _is_literal(statement.value)
    if not isinstance(statement, _Function):
        return False
    marks = statement.decorator_list
    around = [*statement.args.defaults, *filter(None, statement.args.kw_defaults), *map(_call_arguments, marks)]
    around += [each for each in (statement.returns, *_annotations(statement)) if each]
    return all(ast.unparse(mark).startswith("pytest.mark.") for mark in marks) and not any(
        isinstance(n, ast.Call | ast.NamedExpr) for part in around for n in ast.walk(part)
    )


def _call_arguments(mark: ast.expr) -> ast.expr:
    call = mark if isinstance(mark, ast.Call) else None
    return ast.List([*call.args, *(each.value for each in call.keywords)], ast.Load()) if call else ast.Constant(0)


def _annotations(function: _Function) -> list[ast.expr]:
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return [each.annotation for each in arguments if each.annotation]


def _arguments(function: _Function) -> set[str]:
    return {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}


def _parameters(function: _Function) -> set[str]:
    found = (_cases(mark) for mark in function.decorator_list)
    return {name for row in found if row for name in _words(getattr(row[0], "value", ""))}


def _with_body(node: Any, body: Sequence[ast.stmt]) -> Any:
    found = copy.copy(node)
    found.body = [*body]
    return found


def _without_annotations(function: _Function) -> _Function:
    if function.decorator_list or any(isinstance(n, ast.Call) for a in _annotations(function) for n in ast.walk(a)):
        return function
    found = copy.copy(function)
    found.args, found.returns = copy.deepcopy(function.args), None
    for each in ast.walk(found.args):
        if isinstance(each, ast.arg):
            each.annotation = None
    return found


def _cases(mark: ast.expr) -> tuple[ast.expr, list[ast.expr]] | None:
    """Return the names and the cases of a parametrized test, if its mark says nothing else."""
    if not (isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.parametrize"):
        return None
    is_plain = len(mark.args) == 2 and not mark.keywords and isinstance(mark.args[1], ast.List | ast.Tuple)
    return (mark.args[0], mark.args[1].elts) if is_plain else None


def _extends_cases(old: ast.expr, new: ast.expr) -> bool:
    """Return True if a decorator is the same, or a list of cases that gained some and lost none."""
    if _same(old, new):
        return ast.unparse(old).startswith("pytest.mark.")
    was, now = _cases(old), _cases(new)
    if was is None or now is None or not _same(was[0], now[0]):
        return False
    rest = [ast.dump(each) for each in was[1]]
    for each in now[1]:
        if rest and ast.dump(each) == rest[0]:
            rest.pop(0)
        elif any(isinstance(n, ast.Call | ast.Starred | ast.NamedExpr) for n in ast.walk(each)):
            return False
    return not rest


def expectations(path: str, before: bytes | None, after: bytes | None) -> list[str]:
    """Return the lines that only one version has, at most five of each, and assertions rather than others."""
    texts = [(content or b"").decode("utf-8", "replace").splitlines() for content in (before, after)]
    matcher = difflib.SequenceMatcher(None, *texts)
    places = [each for each in matcher.get_opcodes() if each[0] != "equal"]
    found: list[str] = []
    for side, (name, lines) in enumerate(zip(("old", "new"), texts, strict=True)):
        rows = [(n, lines[n].strip()) for each in places for n in range(*each[1 + 2 * side : 3 + 2 * side])]
        rows = [(n, text) for n, text in rows if text and not text.startswith(("#", "//"))]
        rows = [(n, text) for n, text in rows if _EXPECTING.search(text)] or rows
        found += [f"{name} {path}:{n + 1}: {redact(text)[:_WIDTH]}" for n, text in rows[:_MOST_SHOWN]]
    return found
