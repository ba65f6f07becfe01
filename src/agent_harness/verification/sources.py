"""Rules on Python test code that examine its syntax tree. They import and run nothing. ``guard.py`` uses the rules. The
search for effects outside the code (patched modules, hooks, plugins, executed strings) is incomplete. An imported
module can do anything. ``parse`` returns ``None`` for invalid Python, so that nobody mistakes it for empty code."""

import ast
import builtins
import copy
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from agent_harness.verification.extension import (
    adds_options,
    continues,
    extends,
    gains_assertions,
    imports_more,
    is_test_code,
    is_text,
    without_levels,
)

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Import = ast.Import | ast.ImportFrom
_LINE = re.compile(r"^line \d+ ")
_ASSERTING = ("assert", "check", "expect", "verify", "should")
STEERING = frozenset(
    {"pytestmark", "pytest_plugins", "collect_ignore", "collect_ignore_glob", "__test__", "__getattr__"}
    | {"setup_module", "teardown_module", "setup_function", "teardown_function", "setUpModule", "tearDownModule"}
    | {"setUp", "setUpClass", "setup_class", "setup_method", "load_tests"}
    | {"AssertionError"}  # a failed assertion raises what this name means in its module
    | {"*"}  # it may bind any name
)
_PYTEST_ASSERTS = frozenset({"pytest.raises", "pytest.warns", "pytest.deprecated_call", "raises"})
_RUNNER_MODULES = frozenset({"_pytest", "pluggy", "gc", "ctypes", "builtins", "atexit"})
_RUNNER_NAMES = frozenset({"pytest", "_pytest", "pluggy", "unittest", "sys", "builtins"})
_CALLS = frozenset(
    {"exec", "eval", "compile", "__import__", "setattr", "delattr", "globals"}
    | {"os._exit", "pytest.exit", "importlib.reload", "sys.settrace", "sys.modules.update"}
)
_INSIDES = frozenset({"__dict__", "__globals__", "__code__", "__subclasses__"})
_HARMLESS_CALLS = frozenset(  # by their full names: they make a value and do nothing else
    {"pathlib.Path", "pathlib.PurePath", "pathlib.PurePosixPath", "pathlib.Path.cwd", "pathlib.Path.home"}
    | {f"os.path.{name}" for name in ("abspath", "basename", "dirname", "expanduser", "join", "normpath", "realpath")}
    | {"os.environ.get", "os.getenv", "logging.getLogger", "re.compile", "dataclasses.dataclass", "dataclasses.field"}
    | {"datetime.timedelta", "datetime.date", "datetime.datetime", "decimal.Decimal", "frozenset", "tuple"}
)
_OF_A_PATH = frozenset({"absolute", "expanduser", "joinpath", "resolve", "with_name", "with_suffix"})
OPTIONS_HOOK = "pytest_addoption"
_DECORATORS = frozenset({"pytest.fixture", "fixture", "contextmanager", "contextlib.contextmanager", "staticmethod"})


def parse(source: bytes | None) -> ast.Module | None:
    """Return the syntax tree, or None if the source is missing, invalid or nested too deeply."""
    if source is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
        _dump(tree, below=50)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree


def _dump(tree: ast.Module, *, below: int) -> str:
    # a tree that is nested too deeply fails here and not in a later step
    return _dump(tree, below=below - 1) if below else ast.dump(tree)


def same(before: bytes | None, after: bytes | None) -> bool:
    one, two = parse(before), parse(after)
    return one is not None and two is not None and ast.dump(one) == ast.dump(two)


def changed(before: ast.Module, after: ast.Module, *, free: Collection[str] = (), strict: bool = False) -> list[str]:
    """Return the names of statements that ``after`` removes, changes or overrides."""
    # allowed: changed placeholders, tests in ``free``, wider imports, assertions, statements at a test's end
    return list(_changed(before.body, after.body, frozenset(free), "", strict))


def _changed(
    before: Sequence[ast.stmt], after: Sequence[ast.stmt], free: frozenset[str], inside: str, strict: bool
) -> Iterator[str]:
    kept = Counter(ast.dump(statement) for statement in after)
    new = added(before, after)
    mutants = {s.name: s for s in new if isinstance(s, _Function | ast.ClassDef)}
    allowed: set[str] = set()
    needed = _needed(before, after, free, inside)
    for statement in before:
        text = ast.dump(statement)
        if kept[text] > 0:
            kept[text] -= 1
            continue
        name = inside + (_name(statement) or f"line {statement.lineno}")
        may_change = _is_placeholder(statement) or (isinstance(statement, _Import) and not bound(statement) & needed)
        if name in free or (may_change and not strict) or any(imports_more(statement, each) for each in new):
            allowed |= bound(statement)
            continue
        mutant = mutants.get(_name(statement) or "")
        if (
            isinstance(statement, ast.ClassDef)
            and isinstance(mutant, ast.ClassDef)
            and _header(statement) == _header(mutant)
        ):
            allowed.add(statement.name)
            yield from _changed(statement.body, mutant.body, free, f"{name}::", strict)
            yield from (f"{name}::{each}" for each in _inherited(statement, mutant))
        elif isinstance(statement, _Function) and isinstance(mutant, _Function) and _extends(statement, mutant):
            allowed.add(statement.name)
        else:
            yield name
    known = {name for statement in before for name in bound(statement)} | STEERING
    known |= set() if inside else _loaded(before) & set(dir(builtins))
    old_origins, new_origins = _origins(before), _origins(after)
    alike = {name for name, meant in old_origins.items() if new_origins.get(name) == meant}  # `import a`, and now `a.b`
    times = Counter(name for each in new for name in bound(each) if not (isinstance(each, _Import) and name in alike))
    once = {name for name in allowed if times[name] == 1 or inside + name in free}
    yield from (inside + name.replace("*", "import *") for name in sorted((known & times.keys()) - once))


def _needed(before: Sequence[ast.stmt], after: Sequence[ast.stmt], free: Collection[str], inside: str) -> set[str]:
    """Return the names that older code uses and whose import is different in ``after``."""
    old, new = _origins(before), _origins(after)
    different = {name for name, meant in old.items() if new.get(name) != meant}
    staying = [s for s in before if not (isinstance(s, _Import) or _is_placeholder(s))]
    staying = [s for s in staying if inside + (_name(s) or "") not in free]
    taken = {name for statement in after for name in bound(statement)}
    # other files may use the names of a file without tests
    return different & ({"*", *_loaded(staying)} if any(_tests(before, "")) else taken)


def _origins(body: Sequence[ast.stmt]) -> dict[str, set[tuple[int, str, str]]]:
    found: dict[str, set[tuple[int, str, str]]] = {}
    for statement in body:
        if isinstance(statement, _Import):
            level, module = getattr(statement, "level", 0), getattr(statement, "module", None) or ""
            for each in statement.names:
                name = each.asname or (each.name if module or level else each.name.split(".")[0])
                found.setdefault(name, set()).add((level, module, each.name if each.asname or module else name))
    return found


def _loaded(body: Iterable[ast.stmt]) -> set[str]:
    nodes = (node for statement in body for node in ast.walk(statement))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def only_gains_tests(before: bytes | None, after: bytes | None) -> bool:
    """Return True if the only change to a test file is new, independent test code."""
    one, two = parse(before), parse(after)
    if one is None or two is None or changed(one, two, strict=True):
        return False
    asked = {node.arg for node in ast.walk(one) if isinstance(node, ast.arg)}
    more = added(one.body, two.body)
    is_apart = all(is_test_code(new) and not bound(new) & asked and not _steering(new) for new in more)
    rebound = (_globals(two) - _globals(one)) & {name for statement in one.body for name in bound(statement)}
    return is_apart and not rebound and _keeps_order(one, two) and not automatic_fixtures(one, two)


def _globals(tree: ast.Module) -> set[str]:
    return {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}


def _keeps_order(before: ast.Module, after: ast.Module) -> bool:
    """Return True if each older statement that acts at import still has the same older statements before and after
    it. The order of imports and definitions without such a statement between them does not matter."""
    kept = {ast.dump(statement): at for at, statement in enumerate(after.body)}
    rows = [(each, at) for each in before.body if (at := kept.get(ast.dump(each))) is not None]
    highest = [-1, *accumulate((at for _, at in rows), max)]
    lowest = [*reversed([*accumulate((at for _, at in reversed(rows)), min)]), len(after.body)]
    defines = (_Import, _Function, ast.ClassDef)
    return all(
        isinstance(each, defines) or highest[number] < at < lowest[number + 1] for number, (each, at) in enumerate(rows)
    )


def acting_on_older(before: ast.Module, after: ast.Module) -> list[str]:
    """Describe each addition to a test file that may affect older tests."""
    asked = {node.arg for node in ast.walk(before) if isinstance(node, ast.arg)}
    known = {name for statement in before.body for name in bound(statement)}
    found: list[str] = []
    for new in added(before.body, after.body):
        names = bound(new) - known
        if _steering(new) or names & asked:
            found.append(f"{', '.join(sorted(names))} is a hook, or requested by older tests")
        elif _acts(new) and not _is_of_program(new):
            found.append(f"line {new.lineno} does something at import")
    return [*found, *automatic_fixtures(before, after), *newly_reaching(before, after)]


def automatic_fixtures(before: ast.Module, after: ast.Module) -> list[str]:
    """Describe each added or changed fixture that existing tests get without a request."""
    automatic = Counter(_automatic(after)) - Counter(_automatic(before))
    return [f"{name} is a fixture that every test gets (autouse)" for name, _ in automatic]


def _automatic(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, _Function | ast.Assign):
            makers = node.decorator_list if isinstance(node, _Function) else [node.value]
            if any(map(_makes_automatic, makers)):
                yield ", ".join(sorted(bound(node))), ast.dump(node)


def _makes_automatic(maker: ast.expr) -> bool:
    return any(
        keyword.arg == "autouse" or (keyword.arg is None and "fixture" in dotted(call.func))
        for call in ast.walk(maker)
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
    )


def _is_of_program(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__name__" in {
        node.id for node in ast.walk(statement.test) if isinstance(node, ast.Name)
    }


def new_tests(before: bytes | None, after: bytes | None) -> set[str]:
    one, two = parse(before), parse(after)
    return tests(two).keys() - tests(one).keys() if one and two else set()


def is_moved(before: bytes | None, after: bytes | None) -> bool:
    one, two = parse(before), parse(after)
    if one is None or two is None:
        return False
    try:
        return bool(tests(one)) and ast.dump(without_levels(one)) == ast.dump(without_levels(two))
    except RecursionError:  # a copy stands deeper than what it is a copy of
        return False


def changed_examples(before: bytes | None, after: bytes | None, known: Collection[str]) -> list[str]:
    """Return those doctests of ``known`` whose existing examples changed."""
    old, new = _documentation(before), _documentation(after)
    rows = [(name, text) for name, text in old.items() if any(not name or each.endswith(f".{name}") for each in known)]
    return [name or "the module" for name, text in rows if not _continues_examples(text, new.get(name))]


def _documentation(source: bytes | None) -> dict[str, str]:
    tree = parse(source)
    if tree is None:
        return {"": (source or b"").decode("utf-8", "replace")}
    found: dict[str, str] = {"": ast.get_docstring(tree, clean=False) or ""}
    open_nodes: list[tuple[str, ast.stmt]] = [("", statement) for statement in tree.body]
    while open_nodes:
        inside, statement = open_nodes.pop()
        if isinstance(statement, _Function | ast.ClassDef):
            found[inside + statement.name] = ast.get_docstring(statement, clean=False) or ""
        if isinstance(statement, ast.ClassDef):
            open_nodes += [(f"{inside}{statement.name}.", part) for part in statement.body]
    return found


def _continues_examples(before: str, after: str | None) -> bool:
    import doctest  # it is slow to import, and rarely needed

    try:
        old, new = (doctest.DocTestParser().get_examples(text or "") for text in (before, after))
    except ValueError:
        return before == after
    said = [[(each.source, each.want, each.exc_msg, each.options) for each in one] for one in (old, new)]
    return said[1][: len(said[0])] == said[0]


def with_failing_tests(content: bytes) -> bytes:
    """Return the source with all tests changed so that they fail. Raise ``ValueError`` if the source is invalid."""
    tree = parse(content)
    if tree is None:
        raise ValueError("the file cannot be read")
    for test in tests(tree).values():
        test.body = ast.parse("raise AssertionError('is this test run?')").body
    return ast.unparse(tree).encode()


def bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds or deletes in its own scope."""
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


def _inherited(before: ast.ClassDef, after: ast.ClassDef) -> list[str]:
    """Return the new members of a test class that may override inherited members, such as assertions."""
    if not before.bases or not any(_tests(before.body, "")):
        return []
    names = {name for statement in added(before.body, after.body) for name in bound(statement)}
    known = {name for statement in before.body for name in bound(statement)}
    return sorted(name for name in names - known if not name.startswith("test"))


def _extends(before: _Function, after: _Function) -> bool:
    if before.name == OPTIONS_HOOK:
        return adds_options(before, after)
    is_longer = before.name.startswith("test") and continues(before, after)
    return is_longer or extends(before, after) or gains_assertions(before, after)


def _header(node: ast.ClassDef) -> list[str]:
    return [ast.dump(part) for part in (*node.bases, *node.keywords, *node.decorator_list)]


def _name(statement: ast.stmt) -> str | None:
    return statement.name if isinstance(statement, _Function | ast.ClassDef) else None


def _is_placeholder(statement: ast.stmt) -> bool:
    if not isinstance(statement, _Function):
        return False
    body = [part for part in statement.body if not is_text(part)]
    if statement.name.startswith("test"):
        return all(isinstance(part, ast.Pass | ast.Raise) or _gives_up(part) for part in body)
    # tests may need a helper that does nothing
    return bool(body) and all(_gives_up(part) or is_to_come(part) for part in body)


def is_to_come(statement: ast.stmt) -> bool:
    raised = statement.exc if isinstance(statement, ast.Raise) else None
    return raised is not None and dotted(raised) == "NotImplementedError"


def _gives_up(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assert):
        return isinstance(statement.test, ast.Constant) and not statement.test.value
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and dotted(call.func).split(".")[-1] in {"fail", "skip", "xfail", "skipTest"}


def added(before: Sequence[ast.stmt], after: Sequence[ast.stmt]) -> list[ast.stmt]:
    known = Counter(ast.dump(statement) for statement in before)
    new: list[ast.stmt] = []
    for statement in after:
        text = ast.dump(statement)
        known[text] -= 1
        if known[text] < 0:
            new.append(statement)
    return new


def dotted(node: ast.AST) -> str:
    """Return a dotted name such as ``a.b.c``. Omit the arguments of calls in it."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call):
        return dotted(node.func)
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else node.attr
    return ""


def plugins_named(tree: ast.Module | None) -> list[str]:
    named = [
        s.value
        for s in (tree.body if tree else ())
        if isinstance(s, ast.Assign) and any(dotted(target) == "pytest_plugins" for target in s.targets)
    ]
    texts = [n.value for value in named for n in ast.walk(value) if isinstance(n, ast.Constant)]
    return [text for text in texts if isinstance(text, str)]


def tests(tree: ast.Module) -> dict[str, _Function]:
    return dict(_tests(tree.body, ""))


def begun(before: ast.Module, after: ast.Module) -> ast.Module:
    """Return ``before`` without the skip marks that ``after`` removed from unfinished tests."""
    later = tests(after)
    still = any(map(_is_waiting_mark, after.body))
    old = copy.deepcopy(before)
    old.body = [statement for statement in old.body if still or not _is_waiting_mark(statement)]
    for name, test in tests(old).items():
        if name in later and not any(map(_waits, later[name].decorator_list)):
            test.decorator_list = [mark for mark in test.decorator_list if not _waits(mark)]
    return old


def _is_waiting_mark(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and bound(statement) == {"pytestmark"} and _waits(statement.value)


def _waits(mark: ast.expr) -> bool:
    return dotted(mark).split(".")[-1] in {"skip", "skipif", "xfail", "expectedFailure"}


def has_tests(tree: ast.Module) -> bool:
    return any(not _is_placeholder(test) for test in tests(tree).values())


def _tests(body: Sequence[ast.stmt], inside: str) -> Iterator[tuple[str, _Function]]:
    for statement in body:
        if isinstance(statement, _Function) and statement.name.startswith("test"):
            yield inside + statement.name, statement
        elif isinstance(statement, ast.ClassDef):
            yield from _tests(statement.body, f"{inside}{statement.name}::")


# ---- what of a test can fail ---------------------------------------------------------------------------------------


def asserts_nothing(tree: ast.Module, node: str | None = None) -> bool:
    """Return True if no assertion can fail in the file's tests, or in the test ``node``."""
    wanted = node.split("[")[0] if node else None
    known = _KnownFunctions.of(tree)
    found = [n for n in tests(tree) if wanted is None or n == wanted or n.startswith(f"{wanted}::")]
    return bool(found) and not any(known.test(name).asserts for name in found)


def emptied(before: ast.Module, after: ast.Module) -> list[str]:
    """Return the tests that could fail before the change, but can no longer fail."""
    old, new = _KnownFunctions.of(before), _KnownFunctions.of(after)
    both = [name for name in old.tests if name in new.tests]
    asked = {name: _asked(new.tests[name]) - _asked(old.tests[name]) for name in both}
    return [name for name in both if old.test(name).runs and not new.test(name).runs and not asked[name]]


def weakened(before: ast.Module, after: ast.Module) -> list[str]:
    old, new = _KnownFunctions.of(before), _KnownFunctions.of(after)
    both = [name for name in old.tests if name in new.tests and name not in emptied(before, after)]
    return [name for name in both if old.test(name).asserts and not new.test(name).asserts]


def assertions(tree: ast.Module) -> int:
    known = _KnownFunctions.of(tree)
    return sum(known.test(name).asserts for name in known.tests)


@dataclass(frozen=True, slots=True)
class _Failing:
    """Count of the places in code that can fail, and of the assertions among these places."""

    asserts: int = 0
    runs: int = 0

    def __add__(self, other: "_Failing") -> "_Failing":
        return _Failing(self.asserts + other.asserts, self.runs + other.runs)


_NOTHING, _RUNS, _ASSERTS = _Failing(), _Failing(0, 1), _Failing(1, 1)
_BROAD = frozenset({"Exception", "BaseException"})
_HARMLESS_BUILTINS = frozenset(
    {"print", "object", "list", "dict", "set", "tuple", "repr", "id", "type", "isinstance", "range", "bool"}
)
_MOST_CALLS = 20  # helpers behind helpers that are followed


@dataclass(slots=True)
class _KnownFunctions:
    """Tests of a file and the functions that these tests call. Each function is analyzed once."""

    tests: dict[str, _Function]
    functions: dict[str, _Function | ast.Lambda]  # by name, methods by ``Class::name`` and ``::name``
    seen: dict[str, _Failing] = field(default_factory=dict)
    depth: int = 0

    @classmethod
    def of(cls, tree: ast.Module) -> "_KnownFunctions":
        found: dict[str, _Function | ast.Lambda] = {}
        for part in tree.body:
            if isinstance(part, _Function) and not part.decorator_list:  # a fixture is not what its function is
                found[part.name] = part
            elif isinstance(part, ast.Assign) and isinstance(part.value, ast.Lambda):
                found |= {each.id: part.value for each in part.targets if isinstance(each, ast.Name)}
            elif isinstance(part, ast.ClassDef):
                methods = {f.name: f for f in part.body if isinstance(f, _Function) and not f.decorator_list}
                found |= {f"{owner}::{name}": f for name, f in methods.items() for owner in ("", part.name)}
        return cls(tests(tree), found)

    def test(self, name: str) -> _Failing:
        return self._of(self.tests[name], name.rpartition("::")[0])

    def called(self, call: ast.Call, inside: str) -> _Failing | None:
        """Return how many places of a called function can fail, or None for functions of other files."""
        owner, _, name = dotted(call.func).rpartition(".")
        if owner in _OWN:
            name = f"{inside}::{name}" if f"{inside}::{name}" in self.functions else f"::{name}"
        elif owner:
            return None
        if name not in self.functions or self.depth >= _MOST_CALLS:
            return None
        if name not in self.seen:
            self.seen[name] = _NOTHING  # it may call itself
            self.depth += 1
            self.seen[name] = self._of(self.functions[name], inside)
            self.depth -= 1
        return self.seen[name]

    def _of(self, function: _Function | ast.Lambda, inside: str) -> _Failing:
        if isinstance(function, ast.Lambda):
            return _Body(self, inside).expression(function.body)
        if any(dotted(each) in _NEVER_RUN for each in function.decorator_list):
            return _NOTHING
        inner = [each for each in ast.walk(function) if isinstance(each, _Function) and each is not function]
        used = {n.id if isinstance(n, ast.Name) else n.attr for n in ast.walk(function) if isinstance(n, _Named)}
        used |= {each.name for each in inner if each.decorator_list}
        return _Body(self, inside, used, {each.name for each in inner}).block(function.body, is_sure=True)


_Named = ast.Name | ast.Attribute


@dataclass(frozen=True, slots=True)
class _Body:
    """Analysis of a function's reachable statements in execution order."""

    known: _KnownFunctions
    inside: str  # the class
    used: Collection[str] = ()  # names that the function uses: what it defines for nothing is not run
    own: Collection[str] = ()  # functions that it defines, and that are read where they stand

    def block(self, body: Sequence[ast.stmt], *, is_sure: bool) -> _Failing:
        """Return how many places of a block can fail. ``is_sure`` is True if the block always runs."""
        found = _NOTHING
        for statement in body:
            found += self.statement(statement, is_sure=is_sure)
            if isinstance(statement, ast.Return | ast.Raise | ast.Break | ast.Continue) or _gives_up(statement):
                break
        return found

    def statement(self, statement: ast.stmt, *, is_sure: bool) -> _Failing:
        if isinstance(statement, ast.Raise) or _gives_up(statement):
            return _NOTHING if is_sure or _skips(statement) else _ASSERTS
        if isinstance(statement, ast.Assert):
            asked = self.expression(statement.test)
            return asked if _is_always(statement.test) else asked + _ASSERTS
        if isinstance(statement, _Function | ast.ClassDef):
            bodies = [each.body for each in ast.walk(statement) if isinstance(each, _Function)]
            is_run = statement.name in self.used
            return sum((self.block(body, is_sure=False) for body in bodies), _NOTHING) if is_run else _NOTHING
        return self._compound(statement, is_sure=is_sure)

    def _compound(self, statement: ast.stmt, *, is_sure: bool) -> _Failing:
        if isinstance(statement, ast.Try | ast.TryStar):
            return self._try(statement)
        if isinstance(statement, ast.With | ast.AsyncWith):
            return self._with(statement, is_sure=is_sure)
        if isinstance(statement, ast.Match):
            bodies = [each.body for each in statement.cases]
            return sum((self.block(body, is_sure=False) for body in bodies), self.expression(statement.subject))
        if isinstance(statement, ast.If | ast.While | ast.For | ast.AsyncFor):
            return self._branches(statement, is_sure=is_sure)
        return self.expression(statement)

    def _branches(self, statement: ast.If | ast.While | ast.For | ast.AsyncFor, *, is_sure: bool) -> _Failing:
        condition = statement.test if isinstance(statement, ast.If | ast.While) else statement.iter
        bodies = [statement.body, statement.orelse]
        found = self.expression(condition)
        if isinstance(statement, ast.For) and _is_empty(condition):
            return found + self.block(statement.orelse, is_sure=is_sure)
        if isinstance(statement, ast.If | ast.While) and isinstance(condition, ast.Constant):
            return found + self.block(bodies[0 if condition.value else 1], is_sure=is_sure)
        return sum((self.block(body, is_sure=False) for body in bodies), found)

    def _try(self, statement: ast.Try | ast.TryStar) -> _Failing:
        found = self.block(statement.body, is_sure=False)
        for handler in statement.handlers:
            handled = self.block(handler.body, is_sure=False)
            if not handled.asserts:
                found = _swallowed(found, handler.type)
            found += handled
        found += self.block(statement.orelse, is_sure=False)
        if any(isinstance(each, ast.Return) for each in statement.finalbody):  # nothing gets past it
            return _NOTHING
        return found + self.block(statement.finalbody, is_sure=False)

    def _with(self, statement: ast.With | ast.AsyncWith, *, is_sure: bool) -> _Failing:
        found, around = self.block(statement.body, is_sure=is_sure), _NOTHING
        for item in statement.items:
            name, call = dotted(item.context_expr).split(".")[-1], item.context_expr
            if name in _AWAITING:
                found = _ASSERTS if found.runs else _NOTHING
            elif name == "suppress" and isinstance(call, ast.Call):
                for kind in call.args:
                    found = _swallowed(found, kind)
            elif name != "subTest":
                around += self.expression(call) + _RUNS
        return found + around

    def expression(self, node: ast.AST) -> _Failing:
        return sum((self._one(each) for each in ast.walk(node)), _NOTHING)

    def _one(self, node: ast.AST) -> _Failing:
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Attribute):
            is_own = isinstance(node.value, ast.Name) and node.value.id in (*_OWN, *_QUIET)
            return _NOTHING if is_own else _RUNS
        return _RUNS if isinstance(node, _RUNNING) and not _is_written_out(node) else _NOTHING

    def _call(self, call: ast.Call) -> _Failing:
        name = dotted(call.func)
        if name in self.own:
            return _NOTHING
        follows = self.known.called(call, self.inside)
        if follows is not None:
            return _ASSERTS if follows.asserts else _RUNS if follows.runs else _NOTHING
        last = name.split(".")[-1].lower().lstrip("_")
        if last.startswith(_ASSERTING) or name in _PYTEST_ASSERTS:
            return _NOTHING if _asserts_a_constant(call) else _ASSERTS
        is_quiet = name in _HARMLESS_BUILTINS or name.split(".")[0] in _QUIET or name == "time.sleep"
        return _NOTHING if is_quiet else _RUNS


_RUNNING = ast.Import | ast.ImportFrom | ast.Await | ast.YieldFrom | ast.Subscript | ast.BinOp | ast.Compare | ast.For
_AWAITING = frozenset(
    {"raises", "warns", "deprecated_call", "assertRaises", "assertRaisesRegex", "assertWarns", "assertWarnsRegex"}
    | {"assertLogs", "assertNoLogs", "RaisesGroup"}
)
_OWN = ("self", "cls")
_QUIET = frozenset({"logging", "warnings", "pytest", "unittest"})
_NEVER_RUN = frozenset({"pytest.mark.skip", "unittest.skip", "mark.skip", "skip"})


def _asked(function: _Function) -> set[str]:
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return {each.arg for each in arguments}


def _skips(statement: ast.stmt) -> bool:
    raised = statement.exc if isinstance(statement, ast.Raise) else getattr(statement, "value", None)
    names = set(dotted(raised).split(".")) if raised is not None else set()
    return bool(names & {"skip", "skipTest", "SkipTest", "xfail", "importorskip"})


def _swallowed(found: _Failing, kind: ast.expr | None) -> _Failing:
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    names = {dotted(each).split(".")[-1] if each is not None else "Exception" for each in kinds}
    if names & _BROAD:
        return _NOTHING
    return _Failing(0, found.runs - found.asserts) if "AssertionError" in names else found


def _is_empty(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return dotted(node.func) == "range" and [getattr(each, "value", None) for each in node.args] == [0]
    return isinstance(node, ast.Tuple | ast.List) and not node.elts


def _is_always(node: ast.expr) -> bool:
    """Return True if a condition is independent of the product, such as a literal."""
    if isinstance(node, ast.Tuple | ast.List) and node.elts:
        return True
    if isinstance(node, ast.BoolOp):
        literals = [each.value for each in node.values if isinstance(each, ast.Constant)]
        return (isinstance(node.op, ast.Or) and any(literals)) or all(map(_is_always, node.values))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _is_always(node.operand)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], _REFLEXIVE):
        return ast.dump(node.left) == ast.dump(node.comparators[0]) or _is_written_out(node)
    return _is_written_out(node)


def _is_written_out(node: ast.AST) -> bool:
    return isinstance(node, ast.expr) and not any(
        isinstance(n, ast.Name | ast.Call | ast.Await) for n in ast.walk(node)
    )


_REFLEXIVE = (ast.Eq, ast.Is, ast.LtE, ast.GtE)


def _asserts_a_constant(call: ast.Call) -> bool:
    owner, _, last = dotted(call.func).rpartition(".")
    if len(call.args) > 1 and "qual" in last and ast.dump(call.args[0]) == ast.dump(call.args[1]):
        return True
    is_own = owner in _OWN and last in _OF_UNITTEST and bool(call.args)
    return is_own and all(isinstance(each, ast.Constant) for each in call.args)


_OF_UNITTEST = frozenset(
    {"assertTrue", "assertFalse", "assertEqual", "assertEquals", "assertIsNone", "assertIsNotNone"}
)


def reaches_out(tree: ast.AST, *, roots: Collection[str] | None = None) -> list[str]:
    """Describe each effect of test code on its surroundings, such as a patched module."""
    if roots is None:
        named = (
            each for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) for each in node.names
        )
        roots = {(each.asname or each.name).split(".")[0] for each in named}
    imported = frozenset(roots)
    return [reason for node in ast.walk(tree) for reason in _reaching(node, imported)]


def newly_reaching(before: ast.Module | None, after: ast.Module | None) -> list[str]:
    """Return the effects on code outside the test file that only ``after`` has."""
    known = {_LINE.sub("", reason) for reason in reaches_out(before)} if before else set()
    return [reason for reason in (reaches_out(after) if after else ()) if _LINE.sub("", reason) not in known]


def acts_at_import(tree: ast.Module) -> bool:
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
        name = dotted(node.func)
        if name in _CALLS:
            yield f"line {node.lineno} calls {name}"
        elif name.endswith(".start") and "patch" in name:
            yield f"line {node.lineno} starts a patch that is never undone"
    elif isinstance(node, ast.Attribute) and node.attr in _INSIDES:
        yield f"line {node.lineno} uses {node.attr}"


def _assigning(targets: Iterable[ast.expr], imported: frozenset[str]) -> Iterator[str]:
    for target in targets:
        is_module = isinstance(target, ast.Subscript) and dotted(target.value) == "sys.modules"
        if dotted(target) == "pytest_plugins":
            yield "pytest_plugins loads plugins"
        elif _root(target) in imported and (is_module or isinstance(target, ast.Attribute)):
            yield f"line {target.lineno} changes {dotted(target) or _root(target)}, which belongs to another module"


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def harm_in_conftest(statements: Iterable[ast.stmt], module: ast.Module) -> list[str]:
    """Return the reasons why new ``conftest.py`` statements do more than define fixtures and helpers. (C54)"""
    known = _imported(module)
    return [reason for statement in statements for reason in _conftest_statement(statement, known)]


def _imported(module: ast.Module) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for each in node.names:
                name = each.asname or each.name.split(".")[0]
                found.setdefault(name, set()).add(each.name if each.asname else name)
        elif isinstance(node, ast.ImportFrom):
            for each in node.names:
                found.setdefault(each.asname or each.name, set()).add(f"{'.' * node.level}{node.module}.{each.name}")
        else:
            for name in _bound_here(node):
                found.setdefault(name, set()).add("")
    if "*" in found:  # it may bind any name
        return {}
    builtins = {name: {name} for name in ("frozenset", "tuple")}
    return {name: meant for name, (meant, *more) in {**builtins, **found}.items() if meant and not more}


def _bound_here(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        return (node.id,)
    if isinstance(node, _Function | ast.ClassDef | ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        return (node.name,) if node.name else ()
    if isinstance(node, ast.arg):
        return (node.arg,)
    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return (_root(node),)
    if isinstance(node, ast.Global | ast.Nonlocal):
        return tuple(node.names)
    return (node.rest,) if isinstance(node, ast.MatchMapping) and node.rest else ()


def _only_makes_a_value(call: ast.Call, known: Mapping[str, str]) -> bool:
    if isinstance(call.func, ast.Attribute) and call.func.attr in _OF_A_PATH:
        return _is_path(call.func.value, known)
    root, _, rest = _chain(call.func).partition(".")
    meant = known.get(root, "")
    return (f"{meant}.{rest}" if rest else meant) in _HARMLESS_CALLS


def _is_path(node: ast.expr, known: Mapping[str, str]) -> bool:
    while not isinstance(node, ast.Call):
        if (isinstance(node, ast.Attribute) and node.attr in ("parent", "parents")) or isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            node = node.left
        else:
            return False
    makers = {"Path", "PurePath", "PurePosixPath", "cwd", "home", *_OF_A_PATH}
    return _only_makes_a_value(node, known) and _chain(node.func).rpartition(".")[2] in makers


def _chain(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_chain(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _conftest_statement(statement: ast.stmt, known: Mapping[str, str]) -> Iterator[str]:
    yield from reaches_out(statement, roots=_RUNNER_NAMES)
    if isinstance(statement, ast.Import | ast.ImportFrom):
        yield from _conftest_import(statement)
    elif isinstance(statement, _Function):
        if _steering(statement) and not (statement.name == OPTIONS_HOOK and adds_options(None, statement)):
            yield f"{statement.name} is a hook of the test runner"
        yield from _conftest_decorators(statement, known)
    elif isinstance(statement, ast.ClassDef):
        yield from _at_import(statement.decorator_list, "a class decorator", known)
        for part in statement.body:
            yield from _conftest_statement(part, known)
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if not all(isinstance(target, ast.Name) for target in targets) or _steering(statement):
            yield f"line {statement.lineno} assigns to something other than a plain new name"
        yield from _at_import([statement.value] if statement.value else [], "an assignment", known)
    elif not (is_text(statement) or isinstance(statement, ast.Pass)):
        yield f"line {statement.lineno} does something at import"


def _steering(statement: ast.stmt) -> bool:
    """Return True if a statement binds a name that the test runner uses, or binds its name to another module."""
    names = statement.names if isinstance(statement, ast.Import) else []
    plain = {each.name.partition(".")[0] for each in names if each.asname in (None, each.name)}
    return any(
        name.startswith("pytest_") or name in STEERING or (name in ("pytest", "unittest") and name not in plain)
        for name in bound(statement)
    )


def _conftest_import(statement: ast.Import | ast.ImportFrom) -> Iterator[str]:
    for alias in statement.names:
        if alias.name == "*":
            yield f"line {statement.lineno} imports every name of a module, including hooks"
    if _steering(statement):
        yield f"line {statement.lineno} imports a name that the test runner uses as a hook"


def _conftest_decorators(function: _Function, known: Mapping[str, str]) -> Iterator[str]:
    for decorator in function.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        name = dotted(call.func if call else decorator)
        if name not in _DECORATORS:
            yield f"{function.name} has the decorator {name or 'of line ' + str(decorator.lineno)}"
        for keyword in call.keywords if call else ():
            is_off = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            if keyword.arg in ("autouse", None) and not is_off:
                yield f"{function.name} is a fixture that every test gets (autouse)"
    defaults = [d for d in (*function.args.defaults, *function.args.kw_defaults) if d is not None]
    yield from _at_import(defaults, f"a default of {function.name}", known)


def _at_import(expressions: Iterable[ast.expr], place: str, known: Mapping[str, str]) -> Iterator[str]:
    for expression in expressions:
        for node in ast.walk(expression):
            if isinstance(node, ast.Call) and not _only_makes_a_value(node, known):
                yield f"{place} calls {dotted(node.func) or 'something'} at import"
