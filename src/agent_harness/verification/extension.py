"""Rules that recognize changes that only add to Python test code, so that existing code keeps its meaning.
The rules compare syntax trees. They import and run nothing. A change is accepted only if it is clearly an addition."""

import ast
import copy
from collections.abc import Collection, Iterator, Sequence
from typing import TypeGuard

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_OPTIONS_OF_PYTEST = frozenset(  # kept under names that are spelled otherwise on the command line
    {"assertmode", "cacheclear", "cacheshow", "capture", "collectonly", "doctestglob", "doctestmodules"}
    | {"doctestreport", "failedfirst", "file_or_dir", "fold_skipped", "fulltrace", "importmode", "inifilename"}
    | {"keyword", "logger_disable", "markexpr", "maxfail", "newfirst", "plugins", "reportchars", "showcapture"}
    | {"show_fixtures_per_test", "showfixtures", "showlocals", "tbstyle", "usepdb", "usepdb_cls", "verbose", "xmlpath"}
)
_AWAITING = frozenset({"raises", "warns", "deprecated_call", "assertRaises", "assertRaisesRegex", "assertWarns"})
_LEAVING = frozenset({"skip", "skipTest", "SkipTest", "importorskip", "xfail", "exit", "_exit", "Skipped"})
_COMPARING = frozenset({"len", "isinstance", "type", "assertEqual", "assertNotEqual", "assertTrue", "assertFalse"})
_COMPARING |= {"assertIs", "assertIsNot", "assertIsNone", "assertIsNotNone", "assertIsInstance"}
_PATCHING = frozenset({"setattr", "setitem", "delattr", "delitem", "setenv", "delenv", "patch", "syspath_prepend"})
_LOOKING = frozenset({"locals", "vars", "eval", "exec", "dir"})
_OPTION_WORDS = frozenset({"action", "default", "type", "choices", "help", "metavar", "nargs", "const"})
_OPTION_ACTIONS = frozenset({"store", "store_true", "store_false", "append", "count"})
_OPTION_TYPES = frozenset({"int", "str", "float", "bool"})


def extends(before: _Function, after: _Function) -> bool:
    """Return True if existing calls of a function have the same effect after its change."""
    added = _added_parameters(before.args, after.args)
    if added is None or type(before) is not type(after):
        return False
    if any(_binds(statement, set(added)) for statement in after.body):
        return False
    try:
        old, new = _without_wording(before), _without_wording(after)
        old.body = _with(old.body, {})
        new.body = _with(new.body, added)
        new.args = old.args
        return ast.dump(old) == ast.dump(new)
    except RecursionError:  # a copy stands deeper than what it is a copy of
        return False


def gains_assertions(before: _Function, after: _Function) -> bool:
    """Return True if a function gained only assertions, and they change no value that an older statement
    reads after them."""
    if _head(before) != _head(after):
        return False
    used = {node.id for statement in before.body for node in ast.walk(statement) if isinstance(node, ast.Name)}
    own, rest = _own_names(before), [*before.body]
    for statement in after.body:
        if rest and ast.dump(statement) == ast.dump(rest[0]):
            rest.pop(0)
        elif (
            not (is_text(statement) or _asserts(statement))
            or _binds(statement, used)
            or (
                own
                & {node.id for each in rest for node in ast.walk(each) if isinstance(node, ast.Name)}
                & _used_up(statement)
            )
        ):
            return False
    return not rest


def _used_up(statement: ast.stmt) -> set[str]:
    """Return the names whose values a statement may change, because it does more than compare them."""
    found = set[str]()
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and _last_name(node) not in _COMPARING:
            parts = [*node.args, *(each.value for each in node.keywords), node.func]
        elif isinstance(node, ast.Compare):  # an iterator is used up by it
            parts = [
                each
                for how, each in zip(node.ops, node.comparators, strict=True)
                if isinstance(how, ast.In | ast.NotIn)
            ]
        else:
            parts = [node.iter] if isinstance(node, ast.comprehension) else []
            parts += [node.value] if isinstance(node, ast.Starred | ast.Await) else []
        found |= {each.id for part in parts for each in ast.walk(part) if isinstance(each, ast.Name)}
    return found


def _own_names(function: _Function) -> set[str]:
    """Return the arguments and local variables of a function."""
    own = {each.arg for each in ast.walk(function) if isinstance(each, ast.arg)}
    return own | {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}


def continues(before: _Function, after: _Function) -> bool:
    """Return True if the only change to a test is new statements at its end, which cannot skip or affect the older
    ones."""
    older, newer = ([ast.dump(statement) for statement in one.body] for one in (before, after))
    if _head(before) != _head(after) or newer[: len(older)] != older:
        return False
    named = {each.id for each in ast.walk(before) if isinstance(each, ast.Name)}
    outer = named - _own_names(before)  # a name that is bound anywhere in a function means no other one in it
    kinds = (ast.Yield, ast.YieldFrom, ast.Global, ast.Nonlocal)
    return not any(
        _binds(statement, outer)
        or any(isinstance(node, kinds) or _last_name(node) in _LEAVING for node in ast.walk(statement))
        for statement in after.body[len(older) :]
    )


def _head(function: _Function) -> list[str]:
    parts = (function.args, *function.decorator_list, *([function.returns] if function.returns else []))
    return [type(function).__name__, *(ast.dump(part) for part in parts)]


def _asserts(statement: ast.stmt) -> bool:
    if any(_last_name(node) in _LEAVING | _PATCHING for node in ast.walk(statement)):
        return False
    if isinstance(statement, ast.With):
        awaited = [_last_name(item.context_expr) for item in statement.items]
        plain = all(isinstance(part, ast.Expr | ast.Assert) for part in statement.body)
        return plain and all(name in _AWAITING for name in awaited)
    call = statement.value if isinstance(statement, ast.Expr) else None
    is_call = isinstance(call, ast.Call) and _last_name(call).lower().startswith("assert")
    return isinstance(statement, ast.Assert) or is_call


def _last_name(node: ast.AST) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def imports_more(before: ast.stmt, after: ast.stmt) -> bool:
    """Return True if an import still imports all old names from the same module."""
    if not (isinstance(before, ast.ImportFrom) and isinstance(after, ast.ImportFrom)):
        return False
    older, newer = ({(each.name, each.asname) for each in one.names} for one in (before, after))
    return (before.module, before.level) == (after.module, after.level) and older <= newer and ("*", None) not in newer


def _added_parameters(before: ast.arguments, after: ast.arguments) -> dict[str, ast.Constant] | None:
    """Return the defaults of new parameters, or None if the change could affect existing calls."""
    if before.vararg or before.kwarg or after.vararg or after.kwarg:
        same = ast.dump(before) == ast.dump(after)  # a new name could have been caught by them
        return {} if same else None
    old, new = [*before.posonlyargs, *before.args], [*after.posonlyargs, *after.args]
    olders = [ast.dump(each) for each in old]
    if [ast.dump(each) for each in new[: len(old)]] != olders or len(before.posonlyargs) != len(after.posonlyargs):
        return None
    behind = new[len(old) :]
    older_defaults = after.defaults[: len(after.defaults) - len(behind)]
    if len(after.defaults) < len(behind) or [ast.dump(d) for d in older_defaults] != [
        ast.dump(d) for d in before.defaults
    ]:
        return None
    by_name = dict(zip((each.arg for each in after.kwonlyargs), after.kw_defaults, strict=True))
    for each, default in zip(before.kwonlyargs, before.kw_defaults, strict=True):
        now = by_name.pop(each.arg, ast.Pass())
        if (default is None) != (now is None) or (default and now and ast.dump(default) != ast.dump(now)):
            return None
    added = dict(zip((each.arg for each in behind), after.defaults[len(older_defaults) :], strict=True))
    found = {name: value for name, value in {**added, **by_name}.items() if isinstance(value, ast.Constant)}
    return found if len(found) == len(added) + len(by_name) else None


def _binds(statement: ast.stmt, names: Collection[str]) -> bool:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            if node.id in _LOOKING or (node.id in names and not isinstance(node.ctx, ast.Load)):
                return True
        elif isinstance(node, ast.alias | ast.arg | ast.Global | ast.Nonlocal):
            if {each.partition(".")[0] for each in _called(node)} & set(names):
                return True
        elif getattr(node, "name", None) in names:  # of functions, classes, handlers and patterns
            return True
    return False


def _called(node: ast.alias | ast.arg | ast.Global | ast.Nonlocal) -> list[str]:
    if isinstance(node, ast.alias):
        return [node.asname or node.name]
    return [node.arg] if isinstance(node, ast.arg) else node.names


def _without_wording(function: _Function) -> _Function:
    found = copy.deepcopy(function)
    if found.body and is_text(found.body[0]):
        found.body = found.body[1:]
    for node in ast.walk(found):
        if isinstance(node, ast.Assert):
            node.msg = None
    return found


def is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


class _Filled(ast.NodeTransformer):
    """Transformer that replaces names by constants, and then evaluates the conditions that became constant."""

    def __init__(self, values: dict[str, ast.Constant]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(self._values[node.id].value) if node.id in self._values else node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        value = node.operand
        return ast.Constant(not value.value) if isinstance(node.op, ast.Not) and _is_constant(value) else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        left, operators, rights = node.left, node.ops, node.comparators
        if len(operators) == 1 and _is_constant(left) and _is_constant(rights[0]) and rights[0].value is None:
            if isinstance(operators[0], ast.Is):
                return ast.Constant(left.value is None)
            if isinstance(operators[0], ast.IsNot):
                return ast.Constant(left.value is not None)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        first, *rest = node.values
        if not _is_constant(first):
            return node
        decided = bool(first.value) == isinstance(node.op, ast.Or)
        return first if decided else rest[0] if len(rest) == 1 else self.visit(ast.BoolOp(node.op, rest))

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        return (node.body if node.test.value else node.orelse) if _is_constant(node.test) else node


def _with(body: Sequence[ast.stmt], values: dict[str, ast.Constant]) -> list[ast.stmt]:
    return list(_settled([_Filled(values).visit(part) for part in body])) or [ast.Pass()]


def _is_constant(node: ast.expr) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant)


def _settled(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.If) and _is_constant(statement.test):
            yield from _settled(statement.body if statement.test.value else statement.orelse)
        elif not (isinstance(statement, ast.Pass) or is_text(statement)):
            for field in ("body", "orelse", "finalbody"):
                inner = getattr(statement, field, None)
                if isinstance(inner, list) and inner and isinstance(inner[0], ast.stmt):
                    setattr(statement, field, list(_settled(inner)) or ([ast.Pass()] if field == "body" else []))
            yield statement


# ---- options of a test run -----------------------------------------------------------------------------------------


def adds_options(before: _Function | None, after: _Function) -> bool:
    if isinstance(after, ast.AsyncFunctionDef) or after.decorator_list or len(after.args.args) != 1:
        return False
    if before is not None and (ast.dump(before.args) != ast.dump(after.args) or before.decorator_list):
        return False
    older = [ast.dump(statement) for statement in before.body] if before else []
    parser, groups = after.args.args[0].arg, set[str]()
    for statement in after.body:
        group = _group(statement, parser)
        if group is not None:
            groups.add(group)
        if older and ast.dump(statement) == older[0]:
            older.pop(0)
        elif group == parser or not (group or is_text(statement) or _is_option(statement, {parser, *groups})):
            return False
    return not older


def _group(statement: ast.stmt, parser: str) -> str | None:
    if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1):
        return None
    target, call = statement.targets[0], statement.value
    if isinstance(target, ast.Name) and isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        owner = call.func.value
        is_parser = isinstance(owner, ast.Name) and owner.id == parser
        if is_parser and call.func.attr == "getgroup" and all(isinstance(each, ast.Constant) for each in call.args):
            return target.id if all(isinstance(each.value, ast.Constant) for each in call.keywords) else None
    return None


def _is_option(statement: ast.stmt, owners: Collection[str]) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "addoption"):
        return False
    if not (isinstance(call.func.value, ast.Name) and call.func.value.id in owners):
        return False
    names = [each.value if isinstance(each, ast.Constant) else None for each in call.args]
    if not names or not all(isinstance(name, str) and name.startswith("--") for name in names):
        return False
    if any(str(name)[2:].replace("-", "_") in _OPTIONS_OF_PYTEST for name in names):
        return False
    return all(_is_option_word(keyword) for keyword in call.keywords)


def _is_option_word(keyword: ast.keyword) -> bool:
    value = keyword.value
    if keyword.arg == "type":
        return isinstance(value, ast.Name) and value.id in _OPTION_TYPES
    if keyword.arg == "action":
        return isinstance(value, ast.Constant) and value.value in _OPTION_ACTIONS
    return keyword.arg in _OPTION_WORDS and all(
        isinstance(node, ast.Constant | ast.List | ast.Tuple | ast.expr_context) for node in ast.walk(value)
    )


# ---- whole files ---------------------------------------------------------------------------------------------------


def without_levels(tree: ast.Module) -> ast.Module:
    # to compare modules of different folders
    found = copy.deepcopy(tree)
    for node in ast.walk(found):
        if isinstance(node, ast.ImportFrom) and node.level:
            node.level = 1
    return found


def is_test_code(statement: ast.stmt) -> bool:
    """Return True if the statement is an import, a test, a helper or a constant."""
    if isinstance(statement, _Function):
        return not any(_names_fixture(each) for each in statement.decorator_list)
    if isinstance(statement, ast.ClassDef):
        inner = [part for part in statement.body if isinstance(part, _Function)]
        return all(is_test_code(part) for part in inner)
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return all(isinstance(target, ast.Name) for target in targets) and not _names_fixture(statement)
    if isinstance(statement, ast.ImportFrom):
        return not any("fixture" in each.name for each in statement.names)
    return isinstance(statement, ast.Import) or is_text(statement)


def _names_fixture(node: ast.AST) -> bool:
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    names |= {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    return any("fixture" in name for name in names)
