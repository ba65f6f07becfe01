"""The same three features, worked on through every adapter, come to the same code and the same verdicts."""

from pathlib import Path
from typing import Any

import pytest

from acceptance.calc import CalcProject, make
from acceptance.script import honest, proof_path, turn, usage

from .client import LIMIT_SECONDS, ClaudeCode, Client
from .features import ClientProject, client_project

pytestmark = [pytest.mark.client, pytest.mark.timeout(1800)]

FEATURES = (1, 2, 3)
VERDICTS = ("feature_claimed", "verification_passed", "verification_failed", "feature_completed", "rollback_completed")


def outcome(calc: CalcProject) -> dict[str, Any]:
    """The code and its proofs as they are committed and pushed, and what the harness found."""
    assert calc.remote() == calc.head
    verdicts = [(row["type"], row.get("feature_id")) for row in calc.events() if row["type"] in VERDICTS]
    tree = calc.git("ls-tree", "-r", "HEAD", "--", "src", "tests")
    return {"tree": tree, "passing": calc.passing(), "verdicts": verdicts}


def by_script(base: Path, client: Client) -> dict[str, Any]:
    """What the scripted agent, a program at the seam of the command agent, comes to."""
    base.mkdir()
    calc = make(base, client.env, features=FEATURES)
    ran = calc.harness(
        "run",
        "--until-done",
        agent=[turn(honest(feature), usage(10, 1), feature=feature) for feature in FEATURES],
        timeout=LIMIT_SECONDS * 4,
    )
    assert ran.code == 0, ran.text
    return outcome(calc)


def by_model(base: Path, client: Client, agent: str) -> dict[str, Any]:
    """What a model that does the same comes to, through an adapter."""
    base.mkdir()
    calc: ClientProject = client_project(base, client, FEATURES)
    for feature in FEATURES:
        client.island.script(f"work-{feature}", calc.honest(feature), start=f"pytest {proof_path(feature)}")
    ran = calc.harness("run", "--until-done", agent=agent, timeout=LIMIT_SECONDS * 4)
    assert ran.code == 0, ran.text
    return outcome(calc)


def test_a_client_comes_to_the_same(client: Client, tmp_path: Path) -> None:
    wanted = by_script(tmp_path / "script", client)
    assert wanted["passing"] == [1, 2, 3]
    assert [kind for kind, _ in wanted["verdicts"]].count("verification_passed") == len(FEATURES)
    assert by_model(tmp_path / "model", client, client.name) == wanted


@pytest.mark.parametrize("client", [ClaudeCode.name], indirect=True)
def test_a_key_alone_comes_to_the_same(client: Client, tmp_path: Path) -> None:
    """The built-in loop, with nothing but the address and the key that the client would have."""
    wanted = by_script(tmp_path / "script", client)
    assert by_model(tmp_path / "model", client, "api:anthropic/claude-sonnet-4-6") == wanted
