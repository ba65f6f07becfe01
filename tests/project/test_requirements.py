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
'''
PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import proven
tests = proven.named(Path("tests"))
for each in sorted(tests):
    print(each, *tests[each])
titles, reasons = proven.areas(Path("requirements.toml"))
print("--")
print(*proven.problems(titles, reasons, tests), sep="\\n")
for area in titles.values():
    print(*proven.rows(area, reasons, tests), sep="\\n")
"""


def test_what_counts_as_a_proof(tmp_path: Path) -> None:
    (tmp_path / "tests" / "a").mkdir(parents=True)
    (tmp_path / "tests" / "a" / "test_it.py").write_text(TESTS)
    (tmp_path / "tests" / "a" / "yard.py").write_text('"""UAH-010"""\n')
    (tmp_path / "requirements.toml").write_text(
        '["One"]\nUAH-001 = "first"\nUAH-004 = "fourth"\nUAH-011 = "alone"\nUAH-012 = "told"\n'
        '["Reasons"]\nUAH-012 = "why"\n'
    )
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT / "scripts")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    named, _, rest = done.stdout.partition("--\n")
    assert named.splitlines() == [
        "C07 a/test_it.py",
        "C08 a/test_it.py::TestMore::test_two",
        "UAH-001 a/test_it.py",
        "UAH-002 a/test_it.py",
        "UAH-003 a/test_it.py",
        "UAH-004 a/test_it.py::test_one a/test_it.py::TestMore",
        "UAH-005 a/test_it.py::test_one",
        "UAH-006 a/test_it.py::test_one",
    ], done.stderr
    lines = rest.splitlines()
    assert lines[0] == "UAH-011 has neither a test nor a written reason"
    assert "UAH-002 is named by a test and is no requirement" in lines
    assert "('UAH-004', 'fourth', '`a/test_it.py::test_one`<br>`a/test_it.py::TestMore`')" in lines
    assert "('UAH-012', 'told', 'why')" in lines


def test_the_list_is_whole() -> None:
    """Every number of both series is there once; the check of the pages needs it to name what is unproven."""
    program = "import sys; sys.path.insert(0, 'scripts'); import proven; from pathlib import Path; "
    program += "print(*(i for a in proven.areas(Path('docs/requirements.toml'))[0].values() for i in a))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    wanted = [f"UAH-{n:03}" for n in range(1, 564)] + [f"C{n:02}" for n in range(1, 67)]
    assert done.stdout.split() == wanted
