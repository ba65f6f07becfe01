"""Search for the functions that an item's text mentions.
The tests of the item must detect an error in each of them. A name counts if it is in backticks (``slugify``,
``Basket.total``), precedes a parenthesis (``slugify(text)``), or contains an underscore. The search begins with new and
changed functions and module names. It continues with placeholders, then with the whole product."""

import ast
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from agent_harness.verification import sources
from agent_harness.verification.changes import FileChange, Tree
from agent_harness.verification.command.put_back import is_code
from agent_harness.verification.noticing import mutants
from agent_harness.verification.runner_config import TEST_FOLDERS, is_test_file

_CALLED = re.compile(r"([A-Za-z_][\w.]*)\(")
_NAMED = re.compile(rf"`\s*(?:[a-z]+ )?([A-Za-z_][\w.]*)\s*`|{_CALLED.pattern}|\b([A-Za-z]\w*_\w+)\b")
_VERB = re.compile(r"\b(?:add|build|create|implement|introduce|offer|provide|write)s?\b", re.IGNORECASE)
_CLAUSE_END = re.compile(
    r"[.;:]\s|\b(?:after|as|at|before|by|for|from|in|instead|into|like|of|on|so|than|that|to|using|when|where|which|with)\b",
    re.IGNORECASE,
)
_ABSTRACT = frozenset({"abstractmethod", "overload", "abstractproperty"})
_MOST_FILES = 2000  # of the product that are looked through for a name


@dataclass(frozen=True, slots=True)
class NamedFunction:
    """Function that an item mentions, or all methods with the mentioned name."""

    name: str  # as it is named
    functions: frozenset[mutants.Named] = frozenset()
    rebound: mutants.Mutant | None = None  # a name of a module that is bound to something else than a function
    problem: str = ""  # why there is nothing to be tested

    @property
    def where(self) -> str:
        return ", ".join(f"{path}::{name}" for path, name in sorted(self.functions)[:3]) or self.name


def named_in(text: str, work: Sequence[FileChange], tree: Tree, *, gone: Collection[str]) -> list[NamedFunction]:
    """Return the functions that ``text`` mentions, including requested functions that are missing."""
    found: list[NamedFunction] = []
    read = [(c, sources.parse(c.before), sources.parse(c.after)) for c in work if c.path.endswith(".py")]
    trees = [(change, before, after) for change, before, after in read if after is not None]
    for name in dict.fromkeys(filter(None, (part for each in _NAMED.findall(text) for part in each))):
        groups = _among_functions(name.strip("."), text, trees) or _among_bindings(name.strip("."), trees)
        found += [each for each in groups if each not in found]
    known = {each.name for each in found}
    missing = (_not_made(name, work, tree, gone) for name in _to_be_made(text) if name not in known)
    return [*found, *filter(None, missing)]


def _to_be_made(text: str) -> list[str]:
    """Return the functions that the text asks the agent to create, for example after the verb "add"."""
    first = _CALLED.match(text.lstrip(" `"))
    clauses = (_CLAUSE_END.split(text[verb.end() :], maxsplit=1)[0] for verb in _VERB.finditer(text))
    names = [*([first[1]] if first else []), *(name for clause in clauses for name in _CALLED.findall(clause))]
    return list(dict.fromkeys(names))


# ---- functions and methods -------------------------------------------------------------------------------------------

_Read = tuple[FileChange, ast.Module | None, ast.Module]


def _among_functions(name: str, text: str, read: Sequence[_Read]) -> list[NamedFunction]:
    """Return the new or changed functions with this name. All methods with the name form one group."""
    own = name.rpartition(".")[2]
    found: dict[mutants.Named, bool] = {}  # whether it is a placeholder
    for change, before, after in read:
        older = (
            {(each, ast.dump(function)) for each, function in mutants.functions_in(before.body)} if before else set()
        )
        for each, function in mutants.functions_in(after.body):
            if each.rpartition(".")[2] == own and (each, ast.dump(function)) not in older:
                found[change.path, each] = is_placeholder(function)
    dotted = {each: f"{mutants.dotted_path(each[0])}.{each[1]}" for each in found}
    near = {each for each in found if "." in name and dotted[each].endswith(f".{name}")}
    near = near or {each for each in found if any(place in text for place in _places(each[0]))} or {*found}
    methods = frozenset(each for each in near if "." in each[1])
    groups = [*(frozenset({each}) for each in sorted(near - methods)), *([methods] if methods else [])]
    return [NamedFunction(name, each, problem=_left(each) if all(found[e] for e in each) else "") for each in groups]


def _left(functions: Iterable[mutants.Named]) -> str:
    path, name = sorted(functions)[0]
    return f"{path}::{name} is only a placeholder"


def _places(path: str) -> list[str]:
    """Return the names that can mean a module: its path and dotted names such as ``words.slugs``."""
    parts = mutants.dotted_path(path).lstrip(".").split(".")
    return [path, *(".".join(parts[at:]) for at in range(len(parts) - 1))]


def is_placeholder(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    if any(sources.dotted(each).rpartition(".")[2] in _ABSTRACT for each in function.decorator_list):
        return False
    return all(mutants.is_idle(each) or sources.is_to_come(each) for each in function.body)


# ---- other names of modules ------------------------------------------------------------------------------------------


def _among_bindings(name: str, read: Sequence[_Read]) -> list[NamedFunction]:
    """Return the name if a changed module binds it to a new value, as in ``f = partial(...)``."""
    own = name.rpartition(".")[2]
    written_out = ast.Constant | ast.List | ast.Tuple | ast.Dict | ast.Set | ast.JoinedStr | None
    for change, before, after in read:
        older = {ast.dump(each) for each in before.body} if before else set()
        for statement in after.body:
            is_function = isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            if not is_function and own in sources.bound(statement) and ast.dump(statement) not in older:
                if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(statement.value, written_out):
                    continue
                content = (change.after or b"") + f"\n\n{own} = lambda *_, **__: None\n".encode()
                mutant = mutants.Mutant(what=f"{change.path}::{own} returns None", files={change.path: content})
                return [NamedFunction(name, rebound=mutant)]
    return []


# ---- what is not there -----------------------------------------------------------------------------------------------


def _not_made(name: str, work: Sequence[FileChange], tree: Tree, gone: Collection[str]) -> NamedFunction | None:
    """Return the function that the item requests if it is missing or a placeholder, otherwise None."""
    own = name.rpartition(".")[2]
    found = False
    for path in _paths(tree, gone):
        content = tree.read(path) or b""
        module = sources.parse(content) if f"def {own}".encode() in content else None
        for each, function in mutants.functions_in(module.body) if module else ():
            if each.rpartition(".")[2] == own:
                found = True
                if is_placeholder(function):
                    return NamedFunction(name, frozenset({(path, each)}), problem=_left([(path, each)]))
    said = re.compile(re.escape(own).encode(), re.IGNORECASE)
    is_unread = any(change.after is None and change.status != "D" and is_code(change.path) for change in work)
    if found or is_unread or any(said.search(change.after or b"") for change in work):
        return None
    if any(said.search(tree.read(path) or b"") for path in _paths(tree, gone)):
        return None
    return NamedFunction(name, problem=f"nothing in the code has the name {own}")


def _paths(tree: Tree, gone: Collection[str]) -> list[str]:
    kept = (path for path in sorted(tree.paths) if path.endswith(".py") and path not in gone)
    return [p for p in kept if not (is_test_file(p) or TEST_FOLDERS & {*PurePosixPath(p).parts[:-1]})][:_MOST_FILES]
