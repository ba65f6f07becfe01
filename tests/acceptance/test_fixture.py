"""The fixture itself is what the scenario document says."""

import subprocess

from .calc import CalcProject
from .script import NAMES, proof_path, stub_text


def test_a_fresh_project(calc: CalcProject) -> None:
    calc.checked = False
    assert calc.git("rev-parse", "--abbrev-ref", "HEAD") == "main"
    assert calc.remote() == calc.head
    assert calc.changes() == []
    assert [(r["id"], r.get("depends_on", [])) for r in calc.features["features"]] == [
        (1, []),
        (2, []),
        (3, []),
        (4, [3]),
        (5, [3]),
        (6, [1, 4]),
    ]
    assert all((calc.root / proof_path(n)).read_text() == stub_text(n) for n in range(1, 7))
    assert calc.pytest() == 1
    assert calc.processes() == []


def test_honest_code_is_green_and_nothing_else(calc: CalcProject) -> None:
    calc.checked = False
    for feature in range(1, len(NAMES) + 1):
        assert calc.pytest(proof_path(feature)) == 1
        calc.accept(feature)
        assert calc.pytest(proof_path(feature)) == 0
    assert calc.pytest() == 0
    assert calc.remote() == calc.head
    assert calc.state["last_session"] == 6
    assert calc.baseline["total_passing"] == 12


def test_the_programs_around_it(calc: CalcProject) -> None:
    calc.checked = False
    for words in (
        ["poetry", "run", "python", "-m", "pytest", "--version"],
        ["./init.sh"],
        ["python", "tools/lint.py", "src/"],
    ):
        subprocess.run(words, cwd=calc.root, env=calc.environ, check=True, capture_output=True)
    sleeper = subprocess.Popen(["sleep", "60"], env=calc.environ)
    assert sleeper.pid in calc.processes()
    sleeper.kill()
    sleeper.wait()
    assert calc.processes() == []
