"""Search for expected values in the syntax tree of Python test files, checking scripts and one-line programs."""

import ast
import re
from collections.abc import Iterator, Mapping

from agent_harness.verification import sources
from agent_harness.verification.expecting.edits import Edit, other_number, other_pattern, other_text, searched_number
from agent_harness.verification.noticing import mutants

_Value = ast.Constant | ast.JoinedStr
_OPENING = re.compile(r"(?i)[rbuf]{0,2}('''|\"\"\"|'|\")")
_BRACES = re.compile(r"\{[^{}]*\}")
_LEAVING = frozenset({"sys.exit", "exit", "os._exit", "SystemExit"})
_STATUS = re.compile(r"(?i)\w*(?:fail|err|bad|wrong|status|code|exit|rc)\w*")


def expected_in_python(text: str) -> list[Edit]:
    """Return the edits that change the expected values in Python code."""
    source = text.encode("utf-8", "surrogateescape")
    tree = sources.parse(source)
    if tree is None:
        return []
    lines = _Lines(text)
    statuses, searched = set(_statuses(tree)), set(_searched(tree))
    values = {
        (node.lineno, node.col_offset): (node, pattern) for node, pattern in _values(tree) if id(node) not in statuses
    }
    return [
        edit
        for node, pattern in values.values()
        for edit in lines.edits(node, is_pattern=pattern, is_searched=id(node) in searched)
    ]


def _values(tree: ast.Module) -> Iterator[tuple[_Value, bool]]:
    """Yield each literal that a module expects. The flag is True if the literal is a regular expression."""
    module = mutants.assigned(tree.body)
    owners = {id(part): each for each in ast.walk(tree) if isinstance(each, ast.ClassDef) for part in each.body}
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    compared: dict[str, tuple[list[str], set[str]]] = {}
    for function in functions:
        yield from mutants.values_in(function, owners.get(id(function)), module)
        names = [each.arg for each in function.args.args]
        wanted = mutants.compared_names(function) & {*names}
        if wanted:
            compared[function.name] = names, wanted
    defining = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    script = _as_function([each for each in tree.body if not isinstance(each, defining)])
    yield from mutants.values_in(script, None, module)
    denied = set(map(id, _denied(tree)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and id(node) not in denied:
            yield from ((value, False) for value in _compared(node, ast.Eq))
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            yield from ((value, False) for value in _gathered(node, module))
        elif isinstance(node, ast.Call) and sources.dotted(node.func) in _LEAVING and node.args:
            yield from ((value, False) for value in _compared(node.args[0], ast.NotEq))
        elif isinstance(node, ast.Call) and sources.dotted(node.func) in compared:
            names, wanted = compared[sources.dotted(node.func)]
            given = [*zip(names, node.args, strict=False), *((k.arg or "", k.value) for k in node.keywords)]
            for value in (value for name, value in given if name in wanted):
                yield from ((each, False) for each in mutants.written_out(value, script, None, {}))


def _gathered(node: ast.expr, module: Mapping[str, ast.expr]) -> Iterator[_Value]:
    """Yield the expected values in a comprehension that collects differences, such as ``[n for n in T if f(n) !=
    T[n]]``."""
    assert isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp)
    tests = [test for each in node.generators for test in each.ifs]
    tests += [node.elt] if isinstance(node, ast.GeneratorExp) else []
    loops = [ast.For(each.target, each.iter, [], []) for each in node.generators]
    for test in tests:
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.NotEq):
            kept = ast.Assert(ast.Compare(test.left, [ast.Eq()], test.comparators))
            function = _as_function([*loops, kept])
            yield from (value for value, _ in mutants.values_in(function, None, module))


def _as_function(body: list[ast.stmt]) -> ast.FunctionDef:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.FunctionDef(name="__main__", args=nothing, body=body, decorator_list=[], lineno=1, col_offset=0)


def _denied(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes in which a comparison may be false without a failure, such as conditions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.While | ast.comprehension):
            tests = node.ifs if isinstance(node, ast.comprehension) else [node.test]
            yield from (each for test in tests for each in ast.walk(test))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield from ast.walk(node)
        elif isinstance(node, ast.Call) and sources.dotted(node.func).rpartition(".")[2] in ("assertFalse", "exit"):
            plain = [argument for argument in node.args if not isinstance(argument, ast.IfExp)]
            yield from (each for argument in plain for each in ast.walk(argument))
        elif isinstance(node, ast.IfExp) and isinstance(node.body, ast.Constant) and node.body.value == 1:
            yield from ast.walk(node.test)


def _compared(node: ast.expr, operator: type[ast.cmpop]) -> Iterator[_Value]:
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], operator):
        return
    left, right = node.left, node.comparators[0]
    if isinstance(left, ast.Name) and left.id == "__name__":
        return
    for value, other in ((left, right), (right, left)):
        literal = isinstance(value, ast.Constant) and not isinstance(other, ast.Constant)
        if literal and isinstance(value, ast.Constant) and isinstance(value.value, str | bytes | int | float):
            yield from () if isinstance(value.value, bool) else (value,)


def _statuses(tree: ast.Module) -> Iterator[int]:
    """Yield the ``id()`` of each literal 0 that is compared with an exit status or failure count."""
    for node in ast.walk(tree):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        sides = node.args[:2] if isinstance(node, ast.Call) else sides
        if any(_STATUS.fullmatch(sources.dotted(side).rpartition(".")[2]) for side in sides):
            yield from (id(side) for side in sides if isinstance(side, ast.Constant) and side.value == 0)


def _searched(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In):
            yield id(node.left)
        elif isinstance(node, ast.Call) and sources.dotted(node.func).endswith("assertIn") and node.args:
            yield id(node.args[0])


class _Lines:
    """Source text, with an index that turns byte columns of a syntax tree into character offsets."""

    def __init__(self, text: str) -> None:
        self.lines = text.encode("utf-8", "surrogateescape").splitlines(keepends=True)
        self.text, self.starts = text, [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line.decode("utf-8", "surrogateescape")))
        self.letters: dict[
            int, list[int]
        ] = {}  # of lines with letters of several bytes: by column, how many are before

    def place(self, line: int, column: int) -> int:
        """Return the character offset in the text for a line and a byte column."""
        content = self.lines[line - 1]
        if len(content) == self.starts[line] - self.starts[line - 1]:
            return self.starts[line - 1] + column
        if line not in self.letters:
            widths = [
                len(each.encode("utf-8", "surrogateescape")) for each in content.decode("utf-8", "surrogateescape")
            ]
            self.letters[line] = [at for at, width in enumerate(widths) for _ in range(width)] + [len(widths)]
        return self.starts[line - 1] + self.letters[line][min(column, len(content))]

    def edits(self, node: _Value, *, is_pattern: bool, is_searched: bool) -> list[Edit]:
        start = self.place(node.lineno, node.col_offset)
        end = self.place(node.end_lineno or node.lineno, node.end_col_offset or 0)
        written = self.text[start:end]
        if isinstance(node, ast.Constant) and not isinstance(node.value, str | bytes):
            return (searched_number if is_searched else other_number)(written, start)
        opening = _OPENING.match(written)
        if not opening:
            return []
        close = written.find(opening[1], opening.end())
        inside = written[opening.end() : close if close >= 0 else len(written)]
        if isinstance(node, ast.JoinedStr):
            inside = _BRACES.sub(lambda found: " " * len(found[0]), inside)
        return (other_pattern if is_pattern else other_text)(inside, start + opening.end())
