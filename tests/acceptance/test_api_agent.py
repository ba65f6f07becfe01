"""A session of the api agent, from the prompt to the verified commit, against a provider on loopback."""

import pytest

from .script import honest, turn, usage
from .world import World


@pytest.mark.parametrize("seam", ["api"], indirect=True)
def test_a_session_from_the_prompt_to_the_verified_commit(calc: World) -> None:
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
