"""Which test proves which requirement: the ids of ``docs/requirements.toml`` against the docstrings of the tests.

A test names what it proves in its docstring, or in that of its class or module: ``UAH-402``, ``C34``, and
``UAH-328..356`` for each from one to the other.
"""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

NAMED = re.compile(r"\b(UAH-(?=\d{3}\b)|C(?=\d\d\b))(\d+)(?:\.\.(?:UAH-|C)?(\d+))?")
REASONS = "Reasons"
SHOWN = 4


def areas(path: Path) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """The titles of the requirements by area, and what is written where no test can be, or beside the tests."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    reasons = found.pop(REASONS, {})
    return found, reasons


def ids(text: str) -> Iterator[str]:
    """Every id that a text names, ranges counted out."""
    for kind, first, last in NAMED.findall(text):
        for number in range(int(first), int(last or first) + 1):
            yield f"{kind}{number:0{len(first)}}"


def named(tests: Path) -> dict[str, list[str]]:
    """The tests that name each id, as ``FOLDER/FILE`` or ``FOLDER/FILE::TEST``, in the order of the files."""
    found: dict[str, list[str]] = {}
    for path in sorted(tests.rglob("test_*.py")):
        where = path.relative_to(tests).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name, node in _documented(tree):
            for each in dict.fromkeys(ids(ast.get_docstring(node) or "")):
                found.setdefault(each, []).append(f"{where}::{name}" if name else where)
    return found


Documented = ast.Module | ast.ClassDef | ast.FunctionDef


def _documented(tree: ast.Module) -> Iterator[tuple[str, Documented]]:
    """The module, its tests, its classes of tests and theirs; nothing else proves anything."""
    yield "", tree
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            yield node.name, node
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield node.name, node
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and inner.name.startswith("test"):
                    yield f"{node.name}::{inner.name}", inner


Titles = Mapping[str, Mapping[str, str]]


def problems(titles: Titles, reasons: Mapping[str, str], tests: Mapping[str, object]) -> list[str]:
    """One line for each id without a test or a reason, and for each that is no requirement."""
    known = {each for area in titles.values() for each in area}
    lines = [f"{each} has neither a test nor a written reason" for each in sorted(known - set(tests) - set(reasons))]
    strange = {**dict.fromkeys(tests, "a test"), **dict.fromkeys(reasons, "a reason")}
    lines += [f"{each} is named by {by} and is no requirement" for each, by in strange.items() if each not in known]
    return lines


def rows(
    titles: Mapping[str, str], reasons: Mapping[str, str], tests: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, str, str]]:
    """The rows of one area: id, requirement, tests and reason."""
    for each, title in titles.items():
        found = sorted(tests.get(each, ()), key=lambda name: "::" not in name)
        shown = [f"`{name}`" for name in found[:SHOWN]]
        more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
        yield each, title, "<br>".join([*shown, *more, *([reasons[each]] if each in reasons else [])])
