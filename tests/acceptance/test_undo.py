"""An accepted feature is taken back: one new commit that the whole suite has seen, and nothing else is touched."""

import pytest

from .calc import CalcProject
from .script import claim, honest, proof_ids, proof_path, proof_text, prove, report, sh, turn, write

MUL_ON_TOP = sh(
    "python3 -c \"import pathlib; p = pathlib.Path('src/calc.py'); "
    "p.write_text('def mul(a, b):\\n    return a * b\\n\\n\\n' + p.read_text())\""
)


def test_the_last_feature_is_taken_back_and_open_again(calc: CalcProject) -> None:
    """F-STORY-2: the verdict gets a person's line, the baseline follows, the next session can build it again."""
    calc.run([turn(honest(1))])
    calc.run([turn(honest(2))])
    before, shown = calc.head, calc.harness("undo", "2", "--dry-run", "--json").json
    assert (shown["undone"], shown["feature_id"], shown["session"]) == (False, 2, 2)
    assert set(proof_ids(2)) <= set(shown["tests"])
    assert "src/calc.py" in shown["paths"]
    assert calc.head == before

    declined = calc.harness("undo", "2")
    assert calc.head == before, declined
    ran = calc.harness("undo", "S2", "--yes")
    assert ran.code == 0, ran.text
    assert calc.passing() == [1]
    assert calc.git("rev-list", "--count", f"{before}..HEAD").strip() == "1"
    assert calc.git("show", "HEAD:src/calc.py") == calc.git("show", f"{shown['accepted_at']}~1:src/calc.py")
    assert not set(proof_ids(2)) & set(calc.baseline["passing_tests"])
    assert set(proof_ids(1)) <= set(calc.baseline["passing_tests"])
    assert calc.changes() == []
    told = calc.harness("why", "2", "--json").json
    assert (told["state"], told["claims"][-1]["by"], told["claims"][-1]["word"]) == ("open", "person", "undo")
    assert calc.harness("undo", "2", "--yes").code == 4
    calc.run([turn(honest(2))])
    assert calc.passing() == [1, 2]


@pytest.mark.scenario
def test_what_others_stand_on_stays(calc: CalcProject) -> None:
    """Refused with everything as it was: tests of others would break; later work changed the same lines; own files."""
    helped = [write("src/helper.py", "def one():\n    return 1\n"), *honest(2)]
    uses = f"{proof_text(3)}\n\ndef test_helped():\n    import helper\n\n    assert helper.one() == 1\n"
    third = [MUL_ON_TOP, write(proof_path(3), uses), *prove(3), claim(3), *report(3)]
    for steps in (honest(1), helped, third):
        assert calc.run([turn(steps)]).code == 0, calc.progress
    before = calc.head
    broken = calc.harness("undo", "2", "--yes")
    assert broken.code != 0
    assert "Feature #3 would break" in broken.text
    same = calc.harness("undo", "1", "--yes")
    assert same.code == 4
    assert "same lines: src/calc.py" in same.text
    assert (calc.head, calc.changes()) == (before, [])

    (calc.root / "src/calc.py").write_text("mine\n")
    own = calc.harness("undo", "3", "--yes")
    assert own.code == 4
    assert "not committed: src/calc.py" in own.text
    assert (calc.root / "src/calc.py").read_text() == "mine\n"
    calc.git("checkout", "--", "src/calc.py")
    assert calc.harness("undo", "9", "--yes").code == 2
    assert calc.harness("undo", "nix", "--yes").code == 2
    assert calc.harness("undo", "S9", "--yes").code == 2
    assert calc.passing() == [1, 2, 3]
