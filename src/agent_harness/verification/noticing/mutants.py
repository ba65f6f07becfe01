"""Mutants of a candidate. A mutant is a version with a deliberate error, on which a good test fails. In a mutant of the
work, each changed function returns a fixed answer. In a mutant of the tests, the expected values of assertions are
changed. Code that is too dynamic for the rules stays unchanged."""

import ast
import codecs
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from agent_harness.verification import sources
from agent_harness.verification.changes import FileChange
from agent_harness.verification.extension import is_text
from agent_harness.verification.runner.testreport import RecordedCall
from agent_harness.verification.verdict import listed

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Edit = tuple[int, int, bytes]  # from, to, what stands there instead; offsets in bytes
Named = tuple[str, str]  # a function: its path, and its qualified name there

ANSWERS = {"returns None": "None", "returns one text": "'0'"}
"""Return values of the mutants of the work, by their descriptions for the user."""

_LIKE = (
    "(lambda g: lambda v: g(g, v))(lambda g, v: (not v) if isinstance(v, bool) else -v - 1 "
    "if isinstance(v, (int, float)) else v[::-1] + type(v)('~') if isinstance(v, str) else v[::-1] + b'~' "
    "if isinstance(v, bytes) else v[1:] + v[:1] * 2 or type(v)(['~']) if isinstance(v, (list, tuple)) "
    "else {k: '~' if w is None else g(g, w) for k, w in v.items()} or {'~': '~'} if isinstance(v, dict) "
    "else type(v)([*v, '~']) if isinstance(v, (set, frozenset)) "
    "else [(c, [object.__setattr__(c, n, g(g, getattr(v, n))) for n in v.__dataclass_fields__])[0] "
    "for c in [__import__('copy').copy(v)]][0] if hasattr(type(v), '__dataclass_fields__') else v)"
)
"""Source of a function that changes plain values and dataclasses within their type, and no other object."""

OTHERWISE = {
    "answers otherwise": (
        f"(lambda f: lambda *a, **k: {_LIKE}(f(*a, **k)))",
        f"(lambda f: lambda *a, **k: map({_LIKE}, f(*a, **k)))",
    ),
    "gives its first answer to every call": (
        "(lambda f: (lambda c: lambda *a, **k: c[0] if c else (c.append(f(*a, **k)) or c[0]))([]))",
        "",
    ),
}
"""Source of the decorators that make a function or a generator give a wrong answer of the right type."""

_EQUAL = frozenset(
    {"assertEqual", "assertEquals", "assertIn", "assertCountEqual", "assertAlmostEqual", "assertMultiLineEqual"}
    | {f"assert{kind}Equal" for kind in ("List", "Dict", "Tuple", "Set", "Sequence")}
    | {"assertRegex", "assert_array_equal", "assert_equal", "assert_allclose", "assert_almost_equal"}
)
"""Assertions of unittest and numpy that compare their first two arguments."""

_CALLED = frozenset({"assert_called_with", "assert_called_once_with", "assert_any_call", "assert_awaited_with"})
_RAISING = frozenset({"raises", "warns", "assertRaisesRegex", "assertWarnsRegex"})
_WRAPPING = frozenset({"approx", "Decimal", "Fraction", "OrderedDict", "dict", "frozenset", "list", "set", "tuple"})
_RELATIVE = frozenset({"rel", "rtol", "rel_tol"})
_OTHER_NUMBER = 1_000_003
_FAILING = re.compile(
    r"(?:\w*fail\w*|\w*err(?:or)?s?|die|abort|bad\w*|wrong\w*|mismatch\w*|broken|problems?)", re.IGNORECASE
)
_PASSING = re.compile(r"(?:ok|pass(?:ed)?|success|good|same|right|correct)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    what: str  # for people: what is other in it
    files: Mapping[str, bytes]  # by path, their whole new content
    tests: frozenset[str] = frozenset()  # the functions, as pytest names them, in which other values are expected
    lines: Mapping[str, str] = field(default_factory=dict)  # where, by function, for people; of single values
    work: frozenset["Named"] = frozenset()  # the functions of the work that are other ones

    def asked(self, nodes: Iterable[str]) -> list[str]:
        """Return those test ids of ``nodes`` whose expected values this mutant changes."""
        by_name: dict[str, list[str]] = {}
        for test in self.tests:
            by_name.setdefault(test.rpartition("::")[2], []).append(test)
        found = ((node, function_of(node)) for node in nodes)
        return [
            node for node, test in found if any(is_one(test, own) for own in by_name.get(test.rpartition("::")[2], ()))
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkMutants:
    """Mutants of the work, one for each kind of wrong result in ``ANSWERS``."""

    mutants: tuple[Mutant, ...] = ()
    beyond: bool = False  # what is in no function was changed too, such as a table: tests may ask for that alone


def functions_by_line(files: Iterable[FileChange]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for change in files:
        tree = sources.parse(change.after) if change.path.endswith(".py") else None
        for name, function in functions_in(tree.body) if tree else ():
            line = min(part.lineno for part in (function, *function.decorator_list))
            found.setdefault(change.path, {})[str(line)] = name
    return found


def of_work(files: Iterable[FileChange], only: Collection[Named] | None = None) -> WorkMutants:
    read = [(c, sources.parse(c.before), sources.parse(c.after)) for c in files if _is_plain(c.after)]
    changed = [(c, _picked(c, before, after, only)) for c, before, after in read if after]
    named = frozenset((c.path, name) for c, functions in changed for name in functions)
    if not named:
        return WorkMutants()
    return WorkMutants(
        mutants=tuple(
            Mutant(
                what=f"{_listed_functions(named)} {does}",
                files={
                    c.path: _edited(c.after or b"", [_body(c.after or b"", f, answer) for f in functions.values()])
                    for c, functions in changed
                    if functions
                },
                work=named,
            )
            for does, answer in ANSWERS.items()
        ),
        beyond=any(
            {*_outside(after.body)} - {*_outside(before.body if before else ())} for _, before, after in read if after
        ),
    )


def of_answers(
    files: Iterable[FileChange], calls: Iterable[RecordedCall], only: Collection[Named] | None = None
) -> tuple[Mutant, ...]:
    """Return mutants in which changed functions return wrong values of the right types."""
    known: dict[tuple[str, str], str] = {}
    for call in calls:
        if (other := _other_answer(call.answer)) is not None:
            known.setdefault((call.module, call.name), other)
    found: list[tuple[FileChange, str, _Function, str]] = []
    for change in files:
        before, after = sources.parse(change.before), sources.parse(change.after) if _is_plain(change.after) else None
        for name, function in (_picked(change, before, after, only) if after else {}).items():
            other = next(
                (text for (module, own), text in known.items() if own == name and _is_module(change, module)), None
            )
            if other or (other is not None and isinstance(function, ast.FunctionDef)):
                found.append((change, name, function, other))
    if not found:
        return ()
    named = frozenset((change.path, name) for change, name, _, _ in found)
    edits = {
        "answers another value of its type": [(c, _body(c.after or b"", f, other)) for c, _, f, other in found if other]
    }
    for does, (of_function, of_generator) in OTHERWISE.items():
        ways = ((c, f, of_generator if _generates(f) else of_function) for c, _, f, _ in found)
        edits[does] = [
            (c, _decorated(c.after or b"", f, by)) for c, f, by in ways if by and isinstance(f, ast.FunctionDef)
        ]
    told = _listed_functions(named)
    made = ((f"{told} {does}", _all_edited(each)) for does, each in edits.items() if each)
    return tuple(Mutant(what=what, files=files, work=named) for what, files in made)


def _picked(
    change: FileChange, before: ast.Module | None, after: ast.Module, only: Collection[Named] | None
) -> dict[str, _Function]:
    older = {(name, _doing(function)) for name, function in functions_in(before.body)} if before else set()
    found = {name: each for name, each in functions_in(after.body) if (name, _doing(each)) not in older}
    found = {name: each for name, each in found.items() if not all(map(is_idle, each.body))}
    return found if only is None else {name: each for name, each in found.items() if (change.path, name) in only}


def _listed_functions(named: Collection[Named]) -> str:
    return listed([f"{path}::{name}" for path, name in named], 3)


def _all_edited(edits: Sequence[tuple[FileChange, _Edit]]) -> dict[str, bytes]:
    by_path: dict[str, tuple[FileChange, list[_Edit]]] = {}
    for change, edit in edits:
        by_path.setdefault(change.path, (change, []))[1].append(edit)
    return {path: _edited(change.after or b"", own) for path, (change, own) in by_path.items()}


def _is_module(change: FileChange, module: str) -> bool:
    return change.path.endswith(".py") and dotted_path(change.path).endswith(f".{module}")


def dotted_path(path: str) -> str:
    """Return the dotted module name of a Python file, with a dot in front."""
    return f".{path.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"


_SET = re.compile(r"(set|frozenset)\((\[.*\])\)", re.DOTALL)
_OBJECT = re.compile(r"[A-Za-z_][\w.]*\(\w+=")


def _other_answer(text: str) -> str | None:
    """Return Python source for a different value of the same type, or None if the type is unsupported."""
    for told in (text, *(text[: each.start()] for each in re.finditer(" on ", text))):
        if found := _SET.fullmatch(told):
            return f"{found[1]}(['~'])"
        try:
            value: Any = ast.literal_eval(told)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        other = _other_value(value)
        return None if other is None or other == value else repr(other)
    # "" stands for a dataclass
    return "" if _OBJECT.match(text) else None


def _other_value(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + _OTHER_NUMBER if value >= 0 else value - _OTHER_NUMBER
    if isinstance(value, str | bytes):
        return "~" if isinstance(value, str) else b"~"
    if type(value) in (list, tuple):
        return type(value)(each if (other := _other_value(each)) is None else other for each in value or "~")
    if type(value) is dict:
        return {key: "~" if each is None else _other_value(each) for key, each in value.items()} or {"~": "~"}
    return None


def _decorated(source: bytes, function: _Function, by: str) -> _Edit:
    at = _line_offsets(source)[function.lineno - 1]
    return at, at, source[at : at + function.col_offset] + f"@{by}\n".encode()


def of_tests(files: Iterable[FileChange]) -> Mutant | None:
    """Return a mutant in which the tests expect other values, or None if the tests expect no literal."""
    edited: dict[str, bytes] = {}
    places: list[str] = []
    names: set[str] = set()
    for change in files:
        tree = sources.parse(change.after) if _is_plain(change.after) else None
        by_function = _other_values(change.after or b"", tree) if tree else {}
        edits = {place: edit for each in by_function.values() for place, edit in each.items()}
        if edits:
            edited[change.path] = _edited(change.after or b"", list(edits.values()))
            places += [f"{change.path}:{line}" for line in sorted({line for line, _ in edits})]
            names |= {f"{change.path}::{name}" for name in by_function}
    if not edited:
        return None
    what = f"other values are expected at {listed(places, 3)}"
    return Mutant(what=what, files=edited, tests=frozenset(names))


def function_of(node: str) -> str:
    file, colons, name = node.partition("::")
    # parameters may contain expected values
    return file + colons + name.partition("[")[0]


def is_one(first: str, second: str) -> bool:
    """Return True if two paths or test ids may mean the same file or test."""
    return first == second or first.endswith(f"/{second}") or second.endswith(f"/{first}")


# ---- the work ----------------------------------------------------------------------------------------------------


def functions_in(body: Sequence[ast.stmt], inside: str = "") -> Iterator[tuple[str, _Function]]:
    """Yield each function and method with its qualified name. Omit nested functions."""
    for statement in body:
        if isinstance(statement, _Function):
            yield inside + statement.name, statement
        elif isinstance(statement, ast.ClassDef):
            yield from functions_in(statement.body, f"{inside}{statement.name}.")
        elif isinstance(statement, ast.If | ast.Try | ast.With):
            yield from functions_in([*statement.body, *getattr(statement, "orelse", ())], inside)


def _doing(function: _Function) -> str:
    if len(function.body) < 2 or not is_text(function.body[0]):
        return ast.dump(function)
    said, function.body = function.body, function.body[1:]
    try:
        return ast.dump(function)
    finally:
        function.body = said


def is_idle(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass) or is_text(statement)


def _outside(body: Sequence[ast.stmt]) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _outside(statement.body)
        elif isinstance(statement, _Function | ast.Import | ast.ImportFrom) or is_idle(statement):
            continue
        elif not any(name.startswith("__") for name in sources.bound(statement)):
            yield ast.dump(statement)


def _body(source: bytes, function: _Function, answer: str) -> _Edit:
    statements = function.body[1:] if len(function.body) > 1 and is_idle(function.body[0]) else function.body
    first, last = statements[0], statements[-1]
    lines = _line_offsets(source)
    start = lines[first.lineno - 1] + first.col_offset
    if isinstance(first, _Function | ast.ClassDef) and first.decorator_list:
        top = first.decorator_list[0]
        start = lines[top.lineno - 1] + top.col_offset - 1
    end = lines[(last.end_lineno or last.lineno) - 1] + (last.end_col_offset or 0)
    if _generates(function):
        return start, end, (b"return; yield" if answer == "None" else f"yield {answer}".encode())
    return start, end, f"return {answer}".encode()


def _generates(function: _Function) -> bool:
    open_nodes: list[ast.AST] = list(function.body)
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, _Function | ast.Lambda | ast.ClassDef):
            open_nodes += ast.iter_child_nodes(node)
    return False


# ---- the tests ---------------------------------------------------------------------------------------------------


def _other_values(source: bytes, tree: ast.Module) -> dict[str, dict[tuple[int, int], _Edit]]:
    lines = _line_offsets(source)
    found: dict[str, dict[tuple[int, int], _Edit]] = {}
    module = assigned(tree.body)
    for owner, function in with_classes(tree):
        edits: dict[tuple[int, int], _Edit] = {}
        is_near = any(isinstance(node, ast.keyword) and node.arg in _RELATIVE for node in ast.walk(function))
        for node, is_pattern in values_in(function, owner, module):
            other = _another(node, is_pattern=is_pattern, is_near=is_near)
            edits[node.lineno, node.col_offset] = _instead(source, lines, node, other.encode())
        if edits:
            found[_in_class(owner, function)] = edits
    return found


def _in_class(owner: ast.ClassDef | None, function: _Function) -> str:
    return f"{owner.name}::{function.name}" if owner else function.name


def _instead(source: bytes, lines: Sequence[int], node: ast.expr, other: bytes) -> _Edit:
    start = lines[node.lineno - 1] + node.col_offset
    end = lines[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
    if source[start : start + 1] == b'"' and other[:1] == b"'" and b'"' not in other:
        other = b'"' + other[1:-1] + b'"'
    return start, end, other


def of_fields(tests: Iterable[FileChange], work: Iterable[FileChange]) -> list[Mutant]:
    """Return mutants of the tests. Each mutant changes one value in an expected object."""
    trees = (sources.parse(change.after) for change in work if change.path.endswith(".py"))
    classes = {each.name for tree in trees if tree for each in ast.walk(tree) if isinstance(each, ast.ClassDef)}
    read = [(c, tree) for c in tests if classes and _is_plain(c.after) and (tree := sources.parse(c.after))]
    # work can define how its objects are compared
    found = (_with_one_value(read, classes, at) for at in (0, -1))
    mutants = {tuple(sorted(each.files.items())): each for each in found if each.tests}
    return list(mutants.values())


def _with_one_value(read: Sequence[tuple[FileChange, ast.Module]], classes: Collection[str], at: int) -> Mutant:
    files: dict[str, bytes] = {}
    places: dict[str, str] = {}
    for change, tree in read:
        source, edits, module = change.after or b"", list[_Edit](), assigned(tree.body)
        lines = _line_offsets(source)
        for owner, function in with_classes(tree):
            objects = list(_objects(function, owner, module, classes))
            if objects:
                node = objects[-1][at]
                edits.append(_instead(source, lines, node, _another(node, is_pattern=False, is_near=True).encode()))
                places[f"{change.path}::{_in_class(owner, function)}"] = f"line {node.lineno} of {change.path}"
        files |= {change.path: _edited(source, edits)} if edits else {}
    return Mutant(what="one value of an object is changed", files=files, tests=frozenset(places), lines=places)


def _objects(
    function: _Function, owner: ast.ClassDef | None, module: Mapping[str, ast.expr], classes: Collection[str]
) -> Iterator[list[ast.Constant | ast.JoinedStr]]:
    """Yield the literals of each expected object whose class is in ``classes``."""
    in_scope = {**module, **assigned(function.body)}
    one_of = {id(each) for node in ast.walk(function) for each in _one_of(node)}
    queue = [each for each, _ in _expected(function) if id(each) not in one_of]
    for each in queue:
        if isinstance(each, ast.Name):
            queue += _bound_to(each.id, function, owner, in_scope)
        elif isinstance(each, ast.Call) and sources.dotted(each.func).rpartition(".")[2] in classes:
            given = [*each.args, *(keyword.value for keyword in each.keywords)]
            if values := [node for value in given for node in written_out(value, function, owner, {})]:
                yield values
        else:
            queue += _parts(each)


def _one_of(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below ``or``, and the right side of each ``in``."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        yield from ast.walk(node)
    elif isinstance(node, ast.Compare):
        yield from (each for sign, each in zip(node.ops, node.comparators, strict=True) if isinstance(sign, ast.In))


def values_in(
    function: _Function, owner: ast.ClassDef | None, module: Mapping[str, ast.expr]
) -> Iterator[tuple[ast.Constant | ast.JoinedStr, bool]]:
    """Yield each literal that a function expects. The flag is True for a regular expression."""
    in_scope = {**module, **assigned(function.body)}
    for expected, is_pattern in _expected(function):
        yield from ((node, is_pattern) for node in written_out(expected, function, owner, in_scope))


def expected_sides(function: _Function) -> Iterator[ast.expr]:
    return (each for each, _ in _expected(function))


def compared_names(function: _Function) -> set[str]:
    return {each.id for each, _ in _expected(function) if isinstance(each, ast.Name)}


def with_classes(tree: ast.Module) -> Iterator[tuple[ast.ClassDef | None, _Function]]:
    for statement in tree.body:
        if isinstance(statement, _Function):
            yield None, statement
        elif isinstance(statement, ast.ClassDef):
            yield from ((statement, part) for part in statement.body if isinstance(part, _Function))


def _expected(function: _Function) -> Iterator[tuple[ast.expr, bool]]:
    """Yield each expression that an assertion expects. The flag is True for a regular expression."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            yield from ((each, False) for each in _compared(node.test))
        elif isinstance(node, ast.If):
            yield from ((each, False) for each in _guarded(node))
        elif isinstance(node, ast.Call):
            name = sources.dotted(node.func).split(".")[-1]
            if name in _EQUAL:
                yield from ((each, name == "assertRegex") for each in node.args[:2])
            elif name in _CALLED:
                yield from ((each, False) for each in (*node.args, *(keyword.value for keyword in node.keywords)))
            elif name in _RAISING:
                yield from ((k.value, True) for k in node.keywords if k.arg in ("match", "expected_regex"))
                yield from ((each, True) for each in (node.args[1:2] if name.endswith("Regex") else ()))


def _compared(test: ast.expr) -> Iterator[ast.expr]:
    if isinstance(test, ast.Compare):
        for left, operator, right in zip([test.left, *test.comparators], test.ops, test.comparators, strict=False):
            if isinstance(operator, ast.Eq | ast.In):
                yield from (left, right)
    elif isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from _compared(value)
    elif isinstance(test, ast.Call) and sources.dotted(test.func) == "all" and test.args:
        argument = test.args[0]
        yield from _compared(argument.elt) if isinstance(argument, ast.GeneratorExp | ast.ListComp) else ()


def _guarded(node: ast.If) -> Iterator[ast.expr]:
    """Yield both sides of each comparison in a guard such as ``if x != 3: raise``."""
    failing, otherwise = fails(node.body), fails(node.orelse)
    if failing == otherwise:
        return
    tests = node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
    for test in tests:
        turned = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        compared = test.operand if isinstance(test, ast.UnaryOp) and turned else test
        if isinstance(compared, ast.Compare) and len(compared.ops) == 1:
            wanted = ast.NotEq | ast.NotIn if failing != turned else ast.Eq | ast.In
            if isinstance(compared.ops[0], wanted):
                yield from (compared.left, compared.comparators[0])


def fails(body: Sequence[ast.stmt]) -> bool:
    """Return True if the statements let a test fail through an error, an exit or a report."""
    return any(_fails(node) for statement in body for node in ast.walk(statement))


def _fails(node: ast.AST) -> bool:
    if isinstance(node, ast.Raise):
        return True
    if isinstance(node, ast.Call):
        names = sources.dotted(node.func).split(".")
        leaving = names[-1] in ("exit", "_exit") and bool(node.args) and _is_failure(node.args[0])
        return leaving or any(map(_FAILING.fullmatch, names))
    if isinstance(node, ast.Return):
        return node.value is not None and _is_failure(node.value)
    if isinstance(node, ast.Assign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        failed = isinstance(node.value, ast.Constant) and bool(node.value.value)
        spoken = _FAILING if failed else _PASSING
        return any(isinstance(target, ast.Name) and spoken.fullmatch(target.id) for target in targets)
    return False


def _is_failure(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return value.value is False or (value.value is not True and value.value not in (None, 0, ""))
    return isinstance(value, ast.JoinedStr) or (isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub))


def written_out(
    expected: ast.expr, function: _Function, owner: ast.ClassDef | None, in_scope: Mapping[str, ast.expr]
) -> Iterator[ast.Constant | ast.JoinedStr]:
    """Yield the literals of an expected expression. Replace each name in it by its values."""
    if isinstance(expected, ast.Constant):
        if isinstance(expected.value, str | bytes | int | float) and not isinstance(expected.value, bool):
            yield expected
    elif isinstance(expected, ast.JoinedStr):
        yield expected
    elif isinstance(expected, ast.Name):
        for value in _bound_to(expected.id, function, owner, in_scope):
            yield from written_out(value, function, owner, {})
    else:
        for part in _parts(expected):
            yield from written_out(part, function, owner, in_scope)


def _parts(expected: ast.expr) -> Iterable[ast.expr]:
    if isinstance(expected, ast.Tuple | ast.List | ast.Set):
        return expected.elts
    if isinstance(expected, ast.Dict):
        return expected.values
    if isinstance(expected, ast.UnaryOp):
        return [expected.operand]
    if isinstance(expected, ast.Call) and sources.dotted(expected.func).split(".")[-1] in _WRAPPING:
        return [*expected.args[:1], *(keyword.value for keyword in expected.keywords if not expected.args)]
    return ()


def _wrapped(expected: ast.expr) -> Iterator[ast.expr]:
    yield expected
    for part in _parts(expected):
        yield from _wrapped(part)


def _bound_to(
    name: str, function: _Function, owner: ast.ClassDef | None, in_scope: Mapping[str, ast.expr]
) -> list[ast.expr]:
    """Return the possible values of a name, or [] if code other than assertions uses the name."""
    otherwise, loops = _uses(function)
    if name in otherwise:
        return []
    found = [in_scope[name]] if name in in_scope else []
    for loop in loops.get(name, ()):
        found += _in_rows(_names(loop.target), name, _resolved(loop.iter, in_scope))
    for decorator in (*function.decorator_list, *(owner.decorator_list if owner else ())):
        if isinstance(decorator, ast.Call) and sources.dotted(decorator.func).endswith("parametrize"):
            names, rows = (*decorator.args[:2], None, None)[:2]
            if names is not None and rows is not None:
                found += _in_rows(_names(names), name, _resolved(rows, in_scope))
    return found


@lru_cache(maxsize=8)
def _uses(function: _Function) -> tuple[set[str], dict[str, list[ast.For]]]:
    """Return the names that code outside assertions uses, and the loops that bind each name."""
    compared = {id(part) for each, _ in _expected(function) for part in _wrapped(each)}
    otherwise, loops = set[str](), dict[str, list[ast.For]]()
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in compared:
            otherwise.add(node.id)
        elif isinstance(node, ast.For):
            for name in dict.fromkeys(_names(node.target)):
                loops.setdefault(name, []).append(node)
    return otherwise, loops


def _names(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [name.strip() for name in node.value.split(",") if name.strip()]
    if isinstance(node, ast.Tuple | ast.List):
        return [name for part in node.elts for name in (_names(part) or [""])]
    return [node.id] if isinstance(node, ast.Name) else []


def _resolved(node: ast.expr, in_scope: Mapping[str, ast.expr]) -> ast.expr:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "items":
        table = _resolved(node.func.value, in_scope)
        if isinstance(table, ast.Dict):
            pairs = [ast.Tuple([k, v], ast.Load()) for k, v in zip(table.keys, table.values, strict=True) if k]
            return ast.List(list[ast.expr](pairs), ast.Load())
    return in_scope.get(node.id, node) if isinstance(node, ast.Name) else node


def _in_rows(names: Sequence[str], name: str, rows: ast.expr) -> list[ast.expr]:
    """Return the values that a name gets from the rows of a literal table."""
    if name not in names or not isinstance(rows, ast.List | ast.Tuple | ast.Set):
        return []
    at, found = names.index(name), list[ast.expr]()
    for row in rows.elts:
        cells = row.args if isinstance(row, ast.Call) and sources.dotted(row.func).endswith("param") else [row]
        if len(names) > 1 and len(cells) == 1 and isinstance(cells[0], ast.Tuple | ast.List):
            cells = cells[0].elts
        if len(cells) == len(names):
            found.append(cells[at])
    return found


def assigned(body: Sequence[ast.stmt]) -> dict[str, ast.expr]:
    """Return the value of each name that these statements assign exactly once."""
    found: dict[str, list[ast.expr]] = {}
    for statement in body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Name):
                found.setdefault(target.id, []).append(statement.value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _another(node: ast.Constant | ast.JoinedStr, *, is_pattern: bool, is_near: bool) -> str:
    value = node.value if isinstance(node, ast.Constant) else ""
    if isinstance(value, str):
        return repr(value + (value[-1] if len(set(value)) > 1 and not is_pattern else "~"))
    if isinstance(value, bytes):
        return repr(value + (value[-1:] if len(set(value)) > 1 and not is_pattern else b"~"))
    if isinstance(value, int | float):
        return repr(type(value)(value * 1.5) + 1 if is_near else value + _OTHER_NUMBER)
    return repr(value)


# ---- edits -------------------------------------------------------------------------------------------------------


def _is_plain(source: bytes | None) -> bool:
    # only then are the offsets of the syntax tree offsets in the file
    try:
        return source is not None and not source.startswith(codecs.BOM_UTF8) and bool(source.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def _line_offsets(source: bytes) -> list[int]:
    offsets = [0]
    for line in source.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    return offsets


def _edited(source: bytes, edits: Iterable[_Edit]) -> bytes:
    parts, at = list[bytes](), 0
    for start, end, text in sorted(edits):
        if start >= at:
            parts += [source[at:start], text]
            at = end
    return b"".join((*parts, source[at:]))
