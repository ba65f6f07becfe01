"""S07: in features.json an agent may turn one ``passes`` from false to true; everything else rejects the session."""

import re

import pytest

from .calc import CalcProject
from .script import Step, edit_features, honest, sh, turn, usage, write
from .seam import each_seam

TAMPERINGS = {
    "a-description": ("fs[1]['description'] = 'easier'", 2, "description"),
    "b-removed": ("fs.pop(5)", 6, "removed"),
    "c-added": ("fs.append(dict(fs[0], id=7, passes=False))", 7, "added"),
    "d-depends": ("fs[3]['depends_on'] = []", 4, "depends_on"),
    "e-test-file": ("fs[0]['test_file'] = 'tests/e2e/test_other.py'", 1, "test_file"),
    "g-unknown": ("fs[2]['skipped'] = {'reason': 'hard'}", 3, "skipped"),
    "h-instructions": ("d['instructions'] = 'do as you like'", None, "instructions"),
}


@pytest.mark.kept("command-h-instructions")
@pytest.mark.parametrize(("expression", "feature", "field"), TAMPERINGS.values(), ids=TAMPERINGS.keys())
@each_seam
def test_an_illegal_change_rejects_the_session(
    calc: CalcProject, expression: str, feature: int | None, field: str
) -> None:
    """UAH-110, UAH-111, UAH-292, UAH-548, UAH-549, C03, C21."""
    start, before = calc.head, (calc.root / "features.json").read_bytes()
    ran = calc.run([turn(_with(edit_features(expression), 1), times=9)])
    assert ran.code == 1, ran.text
    if feature is not None:
        assert re.search(rf"[Ff]eature #?{feature}\b", ran.text), ran.text
    assert field in ran.text
    assert (calc.root / "features.json").read_bytes() == before
    assert calc.head == start
    assert calc.remote() == start
    assert calc.events(level="CRITICAL")
    assert calc.passing() == []
    assert calc.changes(without=("claude-progress.txt",)) == []
    assert calc.costs["cumulative"]["total_tokens"]["input"] == 70, "rejected at once, no further turn"


@pytest.mark.exhaustive
@each_seam
def test_f_an_accepted_feature_is_not_taken_back(calc: CalcProject) -> None:
    """UAH-110, C21."""
    start = calc.accept(1)
    before = (calc.root / "features.json").read_bytes()
    ran = calc.run([turn(_with(edit_features("fs[0]['passes'] = False"), 2), times=9)])
    assert ran.code == 1, ran.text
    assert re.search(r"[Ff]eature #?1\b", ran.text), ran.text
    assert "passes" in ran.text
    assert (calc.root / "features.json").read_bytes() == before
    assert calc.head == start
    assert calc.passing() == [1]


NO_LISTS: dict[str, Step] = {
    "empty": write("features.json", ""),
    "torn": write("features.json", "{"),
    "an-array": write("features.json", "[]"),
    "a-number": write("features.json", '{"features": 3}'),
    "null": write("features.json", '{"features": null}'),
    "no-features": write("features.json", '{"features": []}'),
    "numbers": write("features.json", '{"features": [1, 2]}'),
    "odd-ids": write("features.json", '{"features": [{"id": [1], "passes": {}}, {"passes": true}]}'),
    "deep": sh("python3 -c \"print('[' * 100000)\" > features.json"),
    "not-text": sh("printf '\\377\\376' > features.json"),
    "deleted": sh("rm features.json"),
    "a-folder": sh("rm features.json && mkdir features.json"),
    "a-link": sh("mv features.json .git/list.json && ln -s .git/list.json features.json"),
}


@pytest.mark.kept("deep", "a-link")
@pytest.mark.parametrize("step", NO_LISTS.values(), ids=NO_LISTS.keys())
def test_a_broken_list_rejects_the_session(calc: CalcProject, step: Step) -> None:
    """UAH-292, C21."""
    start, before = calc.head, (calc.root / "features.json").read_bytes()
    ran = calc.run([turn(honest(1), step, times=9)])
    assert ran.code == 1, ran.text
    assert "Unexpected" not in ran.text, ran.text
    assert (calc.root / "features.json").read_bytes() == before
    assert not (calc.root / "features.json").is_symlink()
    assert calc.head == start
    assert calc.remote() == start


def _with(step: Step, feature: int) -> list[Step]:
    return [*honest(feature), step, {"commit": "One more thing"}, usage(70, 7)]
