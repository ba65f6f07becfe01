"""Which test proves which requirement: the tables ``docs/requirements*.toml`` against the tests.

Every table becomes the page of the same name, so one more file is one more page, and nothing here changes for it::

    title = "Requirements of task lists"                 # the heading of the page
    introduction = "Every rule of ..."                   # its first paragraph

    ["10.2 Leases"]                                      # an area: one heading, one Markdown table
    "TL-10.2-1" = "The rule, in a few words"             # proven by test functions that name the id
    "TL-10.2-2" = { rule = "Another", tests = [          # proven by the tests that are named here, and by those
        "tasklist/test_claims.py::test_a_renewal_never_shortens",
    ] }

    ["Reasons"]                                          # why no test is there, or what the tests leave open
    "TL-10.2-3" = "What the agent does by itself"

A test is a function. The table names it as ``FOLDER/FILE::TEST`` or ``FOLDER/FILE::CLASS::TEST``, from ``tests/``.
Instead, the function names what it proves, one id after the other: ``UAH-402``, ``C34``, in its docstring or in the id
of a case. What a module or a class says of itself proves nothing, and a range of ids is an error in a function, since
nobody sees whether each of them is asserted. An id without a test and without a reason is an error, and so is a test
that is not there.
"""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

NAMED = re.compile(r"\b(?:UAH-\d{3}|C\d\d)\b")
RANGE = re.compile(r"\b(?:UAH-\d{3}|C\d\d)\.\.(?:UAH-|C)?\d+")
REASONS = "Reasons"
SHOWN = 4

Tests = Mapping[str, Sequence[str]]
Function = ast.FunctionDef | ast.AsyncFunctionDef


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


def test_functions(tests: Path) -> dict[str, str]:
    """Every test function by its name, in the order of the files, with its docstring and the ids of its cases."""
    found: dict[str, str] = {}
    for path in sorted(tests.rglob("test_*.py")):
        where = path.relative_to(tests).as_posix()
        for name, node in _functions(ast.parse(path.read_text(encoding="utf-8")).body):
            found[f"{where}::{name}"] = "\n".join([ast.get_docstring(node) or "", *_cases(node)])
    return found


def _functions(body: Iterable[ast.stmt]) -> Iterator[tuple[str, Function]]:
    """The tests of a module, or of a class of tests."""
    for node in body:
        if isinstance(node, Function) and node.name.startswith("test"):
            yield node.name, node
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from ((f"{node.name}::{name}", inner) for name, inner in _functions(node.body))


def _cases(function: Function) -> Iterator[str]:
    """The ids that the decorators of a function give its cases."""
    calls = (node for each in function.decorator_list for node in ast.walk(each) if isinstance(node, ast.Call))
    values = (keyword.value for call in calls for keyword in call.keywords if keyword.arg in ("id", "ids"))
    for value in values:
        for node in ast.walk(value):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def named(tests: Mapping[str, str]) -> dict[str, list[str]]:
    """The test functions that name each id."""
    found: dict[str, list[str]] = {}
    for test, text in tests.items():
        for each in dict.fromkeys(NAMED.findall(RANGE.sub("", text))):
            found.setdefault(each, []).append(test)
    return found


def problems(table: Requirements, tests: Mapping[str, str]) -> list[str]:
    """One line for each id without a test or a reason, each reason without an id, and each test that is not there."""
    proofs = {*named(tests), *(each for each, claimed in table.tests.items() if claimed)}
    lines = [
        f"{each} has neither a test nor a written reason"
        for each in table.ids
        if each not in proofs and each not in table.reasons
    ]
    lines += [f"{each} has a reason and is no requirement" for each in table.reasons if each not in table.ids]
    lines += [
        f"{each} names {test}, which is no test function"
        for each, claimed in table.tests.items()
        for test in claimed
        if test not in tests
    ]
    return lines


def strange(tables: Iterable[Requirements], tests: Mapping[str, str]) -> list[str]:
    """One line for each id that a test names and no table has, and for each range of ids."""
    known = {each for table in tables for each in table.ids}
    lines = [f"{each} is named by a test and is no requirement" for each in named(tests) if each not in known]
    ranges = [(test, each) for test, text in tests.items() for each in RANGE.findall(text)]
    return lines + [f"{test} names the range {each}: name each id that it asserts" for test, each in ranges]


def rows(table: Requirements, area: str, tests: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """The rows of one area: id, requirement, tests and reason."""
    by_name = named(tests)
    for each, text in table.areas[area].items():
        found = list(dict.fromkeys([*table.tests.get(each, ()), *by_name.get(each, ())]))
        shown = [f"`{name}`" for name in found[:SHOWN]]
        more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
        yield each, text, "<br>".join([*shown, *more, *([table.reasons[each]] if each in table.reasons else [])])
