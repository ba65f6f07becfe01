"""The fixture itself is what the scenario document says."""

import subprocess

import pytest

from .calc import CalcProject
from .script import NAMES, proof_path, proof_text, stub_text


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


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
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


def test_what_must_hold_after_every_scenario_is_looked_at(calc: CalcProject) -> None:
    """Also where the same test files have passed before, with other code."""
    calc.checked = False
    calc.accept(1)
    calc.cross_cutting()
    code, state = calc.root / "src/calc.py", calc.root / ".harness/session_state.json"
    whole, text = code.read_text(), state.read_text()
    code.write_text(whole.replace("a + b", "a - b"))
    calc.commit("Broken")
    code.write_text(whole)  # what is not committed counts for nothing
    with pytest.raises(AssertionError, match="passes without a green test file"):
        calc.cross_cutting()
    calc.commit("Mended")
    calc.put(
        {
            proof_path(2): proof_text(2),
            "features.json": (calc.root / "features.json").read_text().replace("false", "true"),
        }
    )
    calc.commit("All of it is done")
    with pytest.raises(AssertionError, match="passes without a green test file"):
        calc.cross_cutting()
    calc.git("reset", "-q", "--hard", "HEAD~1")
    calc.cross_cutting()
    state.write_text(text[:9])
    with pytest.raises(ValueError):
        calc.cross_cutting()
    state.write_text(text)
    digest = calc.git("rev-parse", "HEAD~1:src/calc.py")  # of the history only
    lost = calc.root / ".git/objects" / digest[:2] / digest[2:]
    lost.unlink()
    with pytest.raises(AssertionError):
        calc.cross_cutting()
