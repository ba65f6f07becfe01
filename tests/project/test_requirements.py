"""The table of requirements: a test function proves what it names itself, one id at a time; the rest is named."""

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

@pytest.mark.parametrize("text", ["UAH-020", pytest.param("UAH-021", id="UAH-014")], ids=["UAH-015 and more", None])
@pytest.mark.skipif("UAH-022")
async def test_later() -> None: ...
'''
PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import proven
tests = proven.test_functions(Path("tests"))
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
"TL-10.2-4" = { rule = "a file, a class", tests = ["a/test_it.py", "a/test_it.py::TestMore"] }
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
        "C08 a/test_it.py::TestMore::test_two",
        "UAH-004 a/test_it.py::test_one",
        "UAH-014 a/test_it.py::test_later",
        "UAH-015 a/test_it.py::test_later",
    ]
    assert heading == ["Rules All of them."]
    assert problems[:7] == [
        "UAH-001 has neither a test nor a written reason",
        "UAH-011 has neither a test nor a written reason",
        "TL-10.2-3 has neither a test nor a written reason",
        "UAH-013 has a reason and is no requirement",
        "TL-10.2-2 names a/test_it.py::plain, which is no test function",
        "TL-10.2-4 names a/test_it.py, which is no test function",
        "TL-10.2-4 names a/test_it.py::TestMore, which is no test function",
    ]
    assert problems[7:] == [
        "C08 is named by a test and is no requirement",
        "UAH-015 is named by a test and is no requirement",
        "UAH-014 is named by a test and is no requirement",
        "a/test_it.py::test_one names the range UAH-005..UAH-006: name each id that it asserts",
    ]
    assert "('UAH-004', 'fourth', '`a/test_it.py::test_one`')" in rows
    assert "('UAH-012', 'told', 'why')" in rows
    assert "('TL-10.2-1', 'named here', '`a/test_it.py::test_later`<br>`a/test_it.py::TestMore::test_two`')" in rows


def test_the_list_is_whole() -> None:
    """Every number of both series is there once; the check of the pages needs it to name what is unproven."""
    program = "import sys; sys.path.insert(0, 'scripts'); import proven; from pathlib import Path; "
    program += "print(*proven.load(Path('docs/requirements.toml')).ids)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    wanted = [f"UAH-{n:03}" for n in range(1, 564)] + [f"C{n:02}" for n in range(1, 67)]
    assert done.stdout.split() == wanted
