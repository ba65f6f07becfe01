"""A session of the api agent, from the prompt to the verified commit, against a provider on loopback."""

import os
from pathlib import Path

import pytest

from .api_seam import ApiSeam
from .calc import CalcProject, make
from .script import honest, turn, usage
from .seam import CommandSeam, Seam


@pytest.mark.exhaustive
@pytest.mark.parametrize("seam", ["api"], indirect=True)
def test_a_session_from_the_prompt_to_the_verified_commit(calc: CalcProject) -> None:
    """S02 on the API seam, UAH-415, UAH-444: tools, proof, claim, commit, push, tokens; the key is written nowhere."""
    ran = calc.run([turn(honest(1), usage(1450, 320))])
    assert ran.code == 0, ran.text
    assert "Session complete. Feature #1 verified." in ran.out
    assert calc.passing() == [1]
    assert calc.remote() == calc.head
    assert calc.changes() == []
    tokens = calc.costs["cumulative"]["total_tokens"]
    assert (tokens["input"], tokens["output"]) == (1450, 320)
    assert calc.costs["cumulative"]["total_cost_usd"] == 0.0092
    key = calc.seam.environ["ANTHROPIC_API_KEY"].encode()
    holding = [path for path in calc.base.rglob("*") if path.is_file() and key in path.read_bytes()]
    assert holding == []


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_the_same_project_comes_to_the_same_by_every_seam(tmp_path: Path) -> None:
    """The same scripted project of three features: the same verdicts, files and commits by a program and by the api."""
    api = ApiSeam(tmp_path)
    try:
        by_program, by_api = (after_three(tmp_path / seam.name, seam) for seam in (CommandSeam(tmp_path), api))
    finally:
        api.close()
    assert by_program == by_api
    assert by_api[0] == [1, 2, 3]


def after_three(base: Path, seam: Seam) -> tuple[list[int], str, str]:
    """Verdicts, the tree without what holds dates, and the subjects of the commits."""
    base.mkdir()
    calc = make(base, os.environ, seam=seam, features=(1, 2, 3))
    ran = calc.run([turn(honest(number), feature=number) for number in (1, 2, 3)], "--until-done")
    assert ran.code == 0, ran.text
    calc.cross_cutting()
    tree = calc.git("ls-tree", "-r", "HEAD").splitlines()
    dated = ("features.json", "claude-progress.txt")
    kept = "\n".join(row for row in tree if row.partition("\t")[2] not in dated)
    return calc.passing(), kept, calc.git("log", "--format=%s")
