"""Says where the shape of the source is lost: crowded folders, import cycles, class names with two meanings.

Reads the sources below ``src/agent_harness`` of the current folder. One line a finding; exit status 1 when there is
one.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

SOURCE = Path("src")
MOST_FILES = 20
"""Python files in one folder."""


def main() -> int:
    """1 when something is found, else 0."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.glob("agent_harness/**/*.py"))}
    found = [*crowded_folders(trees), *import_cycles(imports(trees)), *repeated_classes(trees)]
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
