"""A pointer into a contract leads to a heading of it or to an id of a table of requirements, or is named."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

CONTRACT = """# The contract

## 9 Locks

### 9.1 One of them

### M. Sessions

### `S11` A scenario
"""
PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import pointers
print(*pointers.problems(Path.cwd(), ["UAH-101", "UAH-102", "TL-9.1-1"]), sep="\\n")
"""


def problems(folder: Path, docstring: str, page: str = "") -> list[str]:
    (folder / "docs" / "contracts").mkdir(parents=True)
    (folder / "docs" / "contracts" / "rules.md").write_text(CONTRACT)
    (folder / "docs" / "page.md").write_text(f"# Page\n\n{page}\n")
    (folder / "src").mkdir()
    (folder / "src" / "one.py").write_text(f'"""One.\n\n{docstring}\n"""\nNUMBER = 1  # rules.md 77\n')
    command = [sys.executable, "-c", PROGRAM, str(ROOT / "scripts")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    "docstring",
    [
        "Source: ``rules.md`` 9, 9.1 and M; UAH-101.",
        "Source:\n``rules.md``\n9.1.",
        "(rules.md sections 9 to 9.1, S11 b)",
        "Source: rules.md UAH-101..102, TL-9.1-1.",
        "Source: rules.md; other.md 12.",
        "Source: ``rules.md`` 9 (12 rows).",
    ],
)
def test_what_leads_somewhere(tmp_path: Path, docstring: str) -> None:
    assert problems(tmp_path, docstring) == [""]


@pytest.mark.parametrize(
    ("docstring", "named"),
    [
        ("``rules.md`` 9.2.", ["9.2"]),
        ("``rules.md`` 9, 10 and 9.1, 11.", ["10", "11"]),
        ("rules.md 8-9.1", ["8"]),
        ("rules.md section N, S12.", ["N", "S12"]),
        ("rules.md UAH-101 to 103, TL-9.1-2.", ["UAH-103", "TL-9.1-2"]),
    ],
)
def test_what_leads_nowhere_is_named(tmp_path: Path, docstring: str, named: list[str]) -> None:
    lines = problems(tmp_path, docstring)
    wanted = [f"src/one.py:1: rules.md {each} is no heading" for each in named]
    assert [line.partition(" of docs/")[0] for line in lines] == wanted


def test_a_page_that_is_named_is_there(tmp_path: Path) -> None:
    found = problems(tmp_path, "See docs/page.md, docs/gone.md, other/docs/away.md; house\nplan, section 4.")
    assert found == ["src/one.py:1: house plan is no page of this project", "src/one.py:1: docs/gone.md is not there"]


def test_pages_are_looked_at_too(tmp_path: Path) -> None:
    found = problems(
        tmp_path, "", "See [rules.md](contracts/rules.md) 9.1.\n\nAnd [`rules.md`](contracts/rules.md) 9.7."
    )
    assert [line.partition(": ")[0] for line in found] == ["docs/page.md:5"]
