"""The table of requirements: ids in docstrings count, comments and code do not, and what is unproven is named."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

TESTS = '''"""UAH-001..003, and C07."""
# UAH-009
WORDS = "UAH-008"

def test_one() -> None:
    """UAH-004 UAH-005..UAH-006: with text behind; no id: UAH-12, C1, C123, XC10."""

def plain() -> None:
    """UAH-007"""

class TestMore:
    """UAH-004"""

    def test_two(self) -> None:
        """C08."""

async def test_later() -> None: ...
'''
PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import proven
tests = proven.tests_and_docstrings(Path("tests"))
by_id = proven.named(tests)
for each in sorted(by_id):
    print(each, *by_id[each])
table = proven.load(Path("requirements.toml"))
print("--")
print(table.title, table.introduction)
print("--")
print(*proven.problems(table, tests), *proven.strange([table], tests), sep="\\n")
print("--")
for area in table.areas:
    print(*proven.rows(table, area, tests), sep="\\n")
"""
TABLE = """
title = "Rules"
introduction = "All of them."
["One"]
UAH-001 = "first"
UAH-004 = "fourth"
UAH-011 = "alone"
UAH-012 = "told"
["10.2 Two"]
"TL-10.2-1" = { rule = "named here", tests = [
    "a/test_it.py::test_later",
    "a/test_it.py::TestMore::test_two",
] }
"TL-10.2-2" = { rule = "not there", tests = ["a/test_it.py::plain"] }
"TL-10.2-3" = { rule = "empty", tests = [] }
["Reasons"]
UAH-012 = "why"
UAH-013 = "of what"
"""


def test_what_counts_as_a_proof(tmp_path: Path) -> None:
    (tmp_path / "tests" / "a").mkdir(parents=True)
    (tmp_path / "tests" / "a" / "test_it.py").write_text(TESTS)
    (tmp_path / "tests" / "a" / "yard.py").write_text('"""UAH-010"""\n')
    (tmp_path / "requirements.toml").write_text(TABLE)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT / "scripts")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    by_id, heading, problems, rows = (part.splitlines() for part in done.stdout.split("--\n"))
    assert by_id == [
        "C07 a/test_it.py",
        "C08 a/test_it.py::TestMore::test_two",
        "UAH-001 a/test_it.py",
        "UAH-002 a/test_it.py",
        "UAH-003 a/test_it.py",
        "UAH-004 a/test_it.py::test_one a/test_it.py::TestMore",
        "UAH-005 a/test_it.py::test_one",
        "UAH-006 a/test_it.py::test_one",
    ]
    assert heading == ["Rules All of them."]
    assert problems[:4] == [
        "UAH-011 has neither a test nor a written reason",
        "TL-10.2-3 has neither a test nor a written reason",
        "UAH-013 has a reason and is no requirement",
        "TL-10.2-2 names a/test_it.py::plain, which is no test",
    ]
    assert "UAH-002 is named by a test and is no requirement" in problems[4:]
    assert "('UAH-004', 'fourth', '`a/test_it.py::test_one`<br>`a/test_it.py::TestMore`')" in rows
    assert "('UAH-012', 'told', 'why')" in rows
    assert "('TL-10.2-1', 'named here', '`a/test_it.py::test_later`<br>`a/test_it.py::TestMore::test_two`')" in rows


def test_the_list_is_whole() -> None:
    """Every number of both series is there once; the check of the pages needs it to name what is unproven."""
    program = "import sys; sys.path.insert(0, 'scripts'); import proven; from pathlib import Path; "
    program += "print(*proven.load(Path('docs/requirements.toml')).ids)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    wanted = [f"UAH-{n:03}" for n in range(1, 564)] + [f"C{n:02}" for n in range(1, 67)]
    assert done.stdout.split() == wanted
