"""Report where the source loses its shape. Print one line for each finding; the exit status is 1 if there is one.

Findings: crowded folders, import cycles, class names with two meanings, long functions, two classes of a room with the
same methods, and rooms with more lines than ``scripts/room-lines.toml`` allows. Source: ``src/agent_harness`` of the
current folder.
"""

import ast
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from pathlib import Path

SOURCE = Path("src")
BUDGETS = Path("scripts/room-lines.toml")
MOST_FILES = 20
"""Python files in one folder."""
MOST_LINES = 70
"""Lines of one function."""
MOST_SHARED = 5
"""Methods that two classes of a room may have in common without a common base."""
SLACK = 100
"""Lines by which a budget may exceed its room before it must be lowered."""


def main() -> int:
    """Return 1 if something is found, else 0."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(SOURCE.glob("agent_harness/**/*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    found = [*crowded_folders(trees), *import_cycles(imports(trees)), *repeated_classes(trees)]
    found += [*long_functions(trees), *same_methods(trees)]
    found += over_budget(texts, tomllib.loads(BUDGETS.read_text(encoding="utf-8")))
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


def crowded_folders(paths: Iterable[Path]) -> Iterator[str]:
    """Folders that hold more than twenty Python files."""
    files = defaultdict[Path, int](int)
    for path in paths:
        files[path.parent] += 1
    for folder, number in files.items():
        if number > MOST_FILES:
            yield f"{folder}: {number} files, at most {MOST_FILES}; give the ones of one concept a folder"


def repeated_classes(trees: Mapping[Path, ast.Module]) -> Iterator[str]:
    """Class names that are defined in more than one place."""
    places = defaultdict[str, list[str]](list)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path}:{node.lineno}")
    for name, found in places.items():
        if len(found) > 1:
            yield f"{found[1]}: the class {name} has another meaning in {found[0]}"


def long_functions(trees: Mapping[Path, ast.Module]) -> Iterator[str]:
    """Yield a finding for each function that is longer than ``MOST_LINES``."""
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MOST_LINES:
                    yield f"{path}:{node.lineno}: {node.name} has {lines} lines, at most {MOST_LINES}"


def room_of(path: Path) -> str:
    """Return the folder below ``agent_harness``; for the protocols, the folder of one protocol."""
    folders = path.relative_to(SOURCE).parts[1:-1]
    return "/".join(folders[: 2 if folders[:1] == ("protocols",) else 1]) or "."


def same_methods(trees: Mapping[Path, ast.Module]) -> Iterator[str]:
    """Yield a finding for two classes of a room that share six methods which no interface or base class declares."""
    rooms = defaultdict[str, list[tuple[str, ast.ClassDef]]](list)
    for path, tree in trees.items():
        rooms[room_of(path)] += [(f"{path}:{n.lineno}", n) for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    declared = set[str]()
    for _, node in (each for found in rooms.values() for each in found):
        if {ast.unparse(base) for base in node.bases} & {"ABC", "Protocol"}:
            declared |= methods(node)
    for found in rooms.values():
        for (place, one), (other_place, other) in combinations(found, 2):
            bases = [{node.name, *map(ast.unparse, node.bases)} for node in (one, other)]
            shared = (methods(one) & methods(other)) - declared
            if len(shared) > MOST_SHARED and not bases[0] & bases[1]:
                yield f"{other_place}: {other.name} repeats {len(shared)} methods of {one.name} ({place})"


def methods(node: ast.ClassDef) -> set[str]:
    """Return the names of a class's own methods, without special methods."""
    names = (each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    return {each for each in names if not each.startswith("__")}


def over_budget(texts: Mapping[Path, str], budgets: Mapping[str, int]) -> list[str]:
    """Return a finding for each room that exceeds its budget, or whose budget must be lowered."""
    lines = Counter[str]()
    for path, text in texts.items():
        lines[room_of(path)] += text.count("\n")
    found = [f"{BUDGETS}: there is no room {room}" for room in budgets.keys() - lines.keys()]
    for room, number in sorted(lines.items()):
        budget = budgets.get(room, 0)
        if number > budget:
            found.append(f"{room}: {number} lines, at most {budget}; a higher budget needs a record in docs/decisions/")
        elif number < budget - SLACK:
            found.append(f"{room}: {number} lines; lower its budget of {budget} in {BUDGETS}")
    return found


def imports(trees: Mapping[Path, ast.Module]) -> dict[str, set[str]]:
    """The modules of ours that each module imports, in functions and for types included."""
    modules = {module_of(path): tree for path, tree in trees.items()}
    return {name: {each for each in imported(tree, modules) if each != name} for name, tree in modules.items()}


def module_of(path: Path) -> str:
    """The dotted name of a source file."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def imported(tree: ast.Module, modules: Mapping[str, object]) -> Iterator[str]:
    """What one module imports, of the modules there are."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            names = {f"{node.module}.{each.name}" for each in node.names}
            yield from names & modules.keys()
            if names - modules.keys():
                yield node.module


def import_cycles(graph: Mapping[str, set[str]]) -> Iterator[str]:
    """Groups of modules that import one another."""
    cycles = {group for group in groups(graph) if len(group) > 1}
    yield from (f"{group[0]}: imports in a circle: {', '.join(group)}" for group in sorted(cycles))


def groups(graph: Mapping[str, set[str]]) -> Iterator[tuple[str, ...]]:
    """The modules in groups that reach one another (strongly connected components)."""
    reach = {name: reachable(graph, name) for name in graph}
    seen = set[str]()
    for name in sorted(graph):
        if name not in seen:
            group = {other for other in reach[name] if name in reach[other]} | {name}
            seen |= group
            yield tuple(sorted(group))


def reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """Every module that an import of this one can lead to."""
    found, waiting = set[str](), [start]
    while waiting:
        for each in graph[waiting.pop()] - found:
            found.add(each)
            waiting.append(each)
    return found


if __name__ == "__main__":
    sys.exit(main())
