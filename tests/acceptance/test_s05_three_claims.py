"""S05: one feature a session; more claims throw the session away."""

import pytest

from .calc import CalcProject
from .script import claim, commit, honest, implement, prompt_to, proof_path, prove, stub_text, turn, usage
from .seam import each_seam


@pytest.mark.exhaustive
@each_seam
def test_three_claims_are_all_rejected(calc: CalcProject) -> None:
    """UAH-110, UAH-302, UAH-357, UAH-497, UAH-535, UAH-561, C03, C29."""
    start = calc.head
    greedy = turn(
        *[implement(n) for n in (1, 2, 3)],
        *[prove(n) for n in (1, 2, 3)],
        claim(1, 2, 3),
        commit("Implement everything"),
        usage(900, 90),
        times=9,
    )
    ran = calc.run([greedy])
    assert ran.code == 1, ran.text
    assert "Agent claimed multiple features. Max is 1." in ran.text
    assert calc.passing() == []
    assert calc.head == start
    assert calc.remote() == start
    assert all((calc.root / proof_path(n)).read_text() == stub_text(n) for n in (1, 2, 3))
    assert calc.changes(without=("claude-progress.txt",)) == []
    assert calc.events("checkpoint_created")
    assert calc.events("rollback_completed")
    assert calc.costs["cumulative"]["total_tokens"]["input"] == 900, "spent once: no turn after the rejection"

    dry = calc.harness("run", "--dry-run", agent=[turn(honest(1))])
    assert "#1" in dry.out
    prompt = calc.base / "prompt.txt"
    ran = calc.run([turn(prompt_to(prompt), honest(1), usage(100, 10))])
    assert ran.code == 0, ran.text
    assert "Agent working on Feature #1" in ran.out
    assert calc.passing() == [1]
    assert calc.costs["cumulative"]["total_tokens"]["input"] == 1000
