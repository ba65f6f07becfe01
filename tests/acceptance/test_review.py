"""A second agent reads proven work: its objections go back to the agent, and it accepts nothing."""

import json
from typing import Any

import pytest

from .arranging import with_settings
from .calc import CalcProject
from .script import Turn, claim, commit, honest, prompt_to, prove, say, sh, turn, usage, write

OBJECTS = "I looked.\n- OBJECTION: src/calc.py: it says nothing of floats"
AGREES = "It is what was asked for.\nNO OBJECTION"


def reviewed(calc: CalcProject, *reviews: Turn, **more: object) -> None:
    """Settings with a reviewer who plays these turns, one a review."""
    (calc.base / "review.json").write_text(json.dumps({"turns": list(reviews)}))
    agent = {"kind": "scripted", "script": str(calc.base / "review.json")}
    with_settings(calc, f"review: {json.dumps({'agent': agent, **more})}\n")


def mended(calc: CalcProject, told: str = "told.txt") -> Turn:
    """The agent's turn after an objection."""
    return turn(
        prompt_to(calc.base / told),
        sh("printf '# also of floats\\n' >> src/calc.py"),
        prove(1),
        claim(1),
        commit("Mend add"),
        usage(100, 10, cost=0.5),
    )


def rows(calc: CalcProject) -> list[dict[str, Any]]:
    return [*calc.events("reviewed"), *calc.events("review_objected")]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_review_without_objections_is_told_and_paid(calc: CalcProject) -> None:
    asked = calc.base / "asked.txt"
    tries = [write("src/calc.py", "spoilt\n"), sh("git push origin HEAD:main; echo x > features.json")]
    reviewed(calc, turn(prompt_to(asked), *tries, say(AGREES), usage(100, 10, cost=0.25)))
    ran = calc.run([turn(honest(1), usage(100, 10, cost=0.5))])
    assert ran.code == 0, ran.text
    assert calc.passing() == [1]
    assert "spoilt" not in (calc.root / "src/calc.py").read_text()
    assert calc.changes() == []
    assert calc.remote() == calc.head
    text = asked.read_text()
    assert "Feature #1" in text
    assert "+def add(a, b):" in text
    assert "proof: passed" in text
    assert [(row["type"], row["cost_usd"]) for row in rows(calc)] == [("reviewed", 0.25)]
    assert calc.log("sessions.jsonl")[-1]["cost_usd"] == 0.75


@pytest.mark.scenario
def test_an_objection_goes_back_once_and_is_then_told(calc: CalcProject) -> None:
    reviewed(calc, turn(say(OBJECTS)), turn(say(OBJECTS)))
    ran = calc.run([turn(honest(1)), mended(calc)])
    assert ran.code == 0, ran.text
    assert calc.passing() == [1]
    assert "it says nothing of floats" in (calc.base / "told.txt").read_text()
    assert [row["type"] for row in rows(calc)] == ["review_objected"] * 2


@pytest.mark.scenario
def test_an_objection_that_stays_rejects_where_the_settings_say_so(calc: CalcProject) -> None:
    reviewed(calc, turn(say(OBJECTS), times=9), on_objection="reject")
    ran = calc.run([turn(honest(1)), mended(calc), mended(calc), mended(calc)])
    assert (ran.code, calc.passing()) == (1, []), ran.text
    assert "a second agent that read the work objects" in ran.text
    assert calc.git("rev-parse", "refs/harness/rolled-back/1")


@pytest.mark.kept("agent0-exit")
@pytest.mark.scenario
@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ({"kind": "command", "command": ["false"]}, "exit"),
        ({"kind": "command", "command": ["echo", "fine by me"]}, "names no objection"),
        ({"kind": "command", "command": ["no-such-reviewer"]}, "no-such-reviewer"),
    ],
)
def test_a_review_that_cannot_be_held_stops_nobody(calc: CalcProject, agent: dict[str, Any], said: str) -> None:
    with_settings(calc, f"review: {json.dumps({'agent': agent})}\n")
    ran = calc.run([turn(honest(1))])
    assert ran.code == 0, ran.text
    assert calc.passing() == [1]
    assert "No review took place" in ran.text
    assert said in rows(calc)[0]["message"]
