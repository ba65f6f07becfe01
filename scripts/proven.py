"""Which test proves which requirement: the tables ``docs/requirements*.toml`` against the tests.

Every table becomes the page of the same name, so one more file is one more page, and nothing here changes for it::

    title = "Requirements of task lists"                 # the heading of the page
    introduction = "Every rule of ..."                   # its first paragraph

    ["10.2 Leases"]                                      # an area: one heading, one Markdown table
    "TL-10.2-1" = "The rule, in a few words"             # proven by tests whose docstring names the id
    "TL-10.2-2" = { rule = "Another", tests = [          # proven by the tests that are named here, and by those
        "tasklist/test_claims.py::test_a_renewal_never_shortens",
    ] }

    ["Reasons"]                                          # why no test is there, or what the tests leave open
    "TL-10.2-3" = "What the agent does by itself"

A test is named as ``FOLDER/FILE``, ``FOLDER/FILE::TEST`` or ``FOLDER/FILE::CLASS::TEST``, from ``tests/``. Instead, its
docstring, or that of its class or module, may name what it proves: ``UAH-402``, ``C34``, and ``UAH-328..356`` for each
from one to the other. An id without a test and without a reason is an error, and so is a test that is not there.
"""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

NAMED = re.compile(r"\b(UAH-(?=\d{3}\b)|C(?=\d\d\b))(\d+)(?:\.\.(?:UAH-|C)?(\d+))?")
REASONS = "Reasons"
SHOWN = 4

Tests = Mapping[str, Sequence[str]]
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Requirements:
    """One table: the requirements by area, the tests that it names for them, and what is written beside the tests."""

    title: str
    introduction: str
    areas: Mapping[str, Mapping[str, str]]
    tests: Tests
    reasons: Mapping[str, str]

    @property
    def ids(self) -> list[str]:
        """Every id, in the order of the file."""
        return [each for area in self.areas.values() for each in area]


def load(path: Path) -> Requirements:
    """The table in a file."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    title, introduction, reasons = found.pop("title"), found.pop("introduction"), found.pop(REASONS, {})
    rows = {each: row for area in found.values() for each, row in area.items()}
    return Requirements(
        title=title,
        introduction=introduction,
        areas={
            name: {each: row if isinstance(row, str) else row["rule"] for each, row in area.items()}
            for name, area in found.items()
        },
        tests={each: row["tests"] for each, row in rows.items() if not isinstance(row, str)},
        reasons=reasons,
    )


def ids(text: str) -> Iterator[str]:
    """Every id that a text names, ranges counted out."""
    for kind, first, last in NAMED.findall(text):
        for number in range(int(first), int(last or first) + 1):
            yield f"{kind}{number:0{len(first)}}"


def tests_and_docstrings(tests: Path) -> dict[str, str]:
    """Every test module, class and function by its name, in the order of the files, with its docstring."""
    found: dict[str, str] = {}
    for path in sorted(tests.rglob("test_*.py")):
        where = path.relative_to(tests).as_posix()
        for name, node in _documented(ast.parse(path.read_text(encoding="utf-8"))):
            found[f"{where}::{name}" if name else where] = ast.get_docstring(node) or ""
    return found


def _documented(tree: ast.Module) -> Iterator[tuple[str, Documented]]:
    """The module, its tests, its classes of tests and theirs; nothing else proves anything."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    yield "", tree
    for node in tree.body:
        if isinstance(node, functions) and node.name.startswith("test"):
            yield node.name, node
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield node.name, node
            for inner in node.body:
                if isinstance(inner, functions) and inner.name.startswith("test"):
                    yield f"{node.name}::{inner.name}", inner


def named(docstrings: Mapping[str, str]) -> dict[str, list[str]]:
    """The tests whose docstring names each id."""
    found: dict[str, list[str]] = {}
    for test, text in docstrings.items():
        for each in dict.fromkeys(ids(text)):
            found.setdefault(each, []).append(test)
    return found


def problems(table: Requirements, docstrings: Mapping[str, str]) -> list[str]:
    """One line for each id without a test or a reason, each reason without an id, and each test that is not there."""
    proofs = {*named(docstrings), *(each for each, tests in table.tests.items() if tests)}
    lines = [
        f"{each} has neither a test nor a written reason"
        for each in table.ids
        if each not in proofs and each not in table.reasons
    ]
    lines += [f"{each} has a reason and is no requirement" for each in table.reasons if each not in table.ids]
    lines += [
        f"{each} names {test}, which is no test"
        for each, tests in table.tests.items()
        for test in tests
        if test not in docstrings
    ]
    return lines


def strange(tables: Iterable[Requirements], docstrings: Mapping[str, str]) -> list[str]:
    """One line for each id that a docstring of a test names and no table has."""
    known = {each for table in tables for each in table.ids}
    return [f"{each} is named by a test and is no requirement" for each in named(docstrings) if each not in known]


def rows(table: Requirements, area: str, docstrings: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """The rows of one area: id, requirement, tests and reason."""
    by_docstring = named(docstrings)
    for each, text in table.areas[area].items():
        proofs = dict.fromkeys([*table.tests.get(each, ()), *by_docstring.get(each, ())])
        found = sorted(proofs, key=lambda name: "::" not in name)
        shown = [f"`{name}`" for name in found[:SHOWN]]
        more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
        yield each, text, "<br>".join([*shown, *more, *([table.reasons[each]] if each in table.reasons else [])])
