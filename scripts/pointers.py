"""Pointers from docstrings and pages into ``docs/``: ``tasklist.md`` 10.2 leads to a heading, or is named.

A pointer is the name of a contract and what follows it: numbers of sections, letters of sections, ids of a table of
requirements, with commas, ``and``, ranges. It resolves when a heading of the contract begins with it (``### 10.2
Leases``), or a table ``docs/requirements*.toml`` has the id. A contract counts from the moment its page is there. A
page that a docstring names with its folder (``docs/index.md``) is there.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

CODE = ("src", "tests", "scripts", "bench")
HEADING = re.compile(r"^#{2,6} (?:[Ss]ection )?`?([\w.-]+?)`?[.:]?(?= |$)", re.MULTILINE)
REFERENCE = r"(?:[A-Z]{2}-[\d.]+-\d+|[A-Z]{1,3}-?\d{2,3}|\d+(?:\.\d+)*|[A-Z]{1,2}\b)"
BETWEEN = r"(?:, and |, | and | to | ?- ?|\.\.|; (?:rows |sections? )?)"
FORMER = re.compile(r"\bhouse plan\b|\bdesign/[\w-]+\.md|(?<![\w/-])dependencies\.md")
"""What was never a page of this project."""
PAGE = re.compile(r"(?<![\w/.])docs/[\w/-]+\.md\b")

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def problems(root: Path, ids: Iterable[str]) -> list[str]:
    """One line for each pointer that leads nowhere; ``ids`` are those of the tables of requirements."""
    known = {page.name: {*headings(page), *ids} for page in sorted((root / "docs" / "contracts").glob("*.md"))}
    return [
        f"{path.relative_to(root)}:{line}: {wrong}"
        for path, line, text in texts(root)
        for wrong in (*unresolved(text, known), *(missing(text, root) if path.suffix == ".py" else ()))
    ]


def headings(page: Path) -> set[str]:
    """The numbers, letters or ids with which the headings of a contract begin."""
    return set(HEADING.findall(page.read_text(encoding="utf-8")))


def texts(root: Path) -> Iterator[tuple[Path, int, str]]:
    """Every docstring of the code and every paragraph of the pages: file, line and text."""
    for folder in CODE:
        for path in sorted((root / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, Documented) and (found := ast.get_docstring(node)):
                    yield path, node.body[0].lineno, found
    for path in sorted((root / "docs").rglob("*.md")):
        line = 1
        for paragraph in path.read_text(encoding="utf-8").split("\n\n"):
            yield path, line, paragraph
            line += paragraph.count("\n") + 2


def unresolved(text: str, known: Mapping[str, set[str]]) -> Iterator[str]:
    """What is wrong with the pointers in a text; ``known`` has what may be pointed to, by contract."""
    plain = " ".join(text.split())
    for former in FORMER.findall(plain):
        yield f"{former} is no page of this project"
    for name, where in known.items():
        for reference in references(plain, name):
            if reference not in where:
                yield f"{name} {reference} is no heading of docs/contracts/{name} and no requirement"


def missing(text: str, root: Path) -> Iterator[str]:
    """The pages that a docstring names and that are not there; commands in pages may name pages of examples."""
    return (f"{page} is not there" for page in PAGE.findall(text) if not (root / page).is_file())


def references(text: str, name: str) -> Iterator[str]:
    """What the pointers to one contract name, in a text on one line; of a range both ends."""
    page = rf"(?<![\w/-])\[?`*{re.escape(name)}`*\]?(?:\([^)]*\))?"
    for found in re.finditer(rf"{page} (?:sections? )?({REFERENCE}(?:{BETWEEN}{REFERENCE})*)", text):
        prefix = ""
        for each in re.findall(REFERENCE, found[1]):
            letters = re.match(r"[A-Z]+-", each)
            if letters:
                prefix = letters[0]
            yield each if letters or not each.isdecimal() else prefix + each
