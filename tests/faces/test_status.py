"""``harness status``: the answer first, in the same words for every kind of project, and a line for status bars."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_harness.session import headline, ledger
from agent_harness.session.ledger import ClaimVerdict
from agent_harness.testing.feature_list_project import FeatureListProject
from agent_harness.testing.task_list_project import TaskListProject, task


def head(text: str) -> list[str]:
    """The lines before the details."""
    return text.split("\n\n", 1)[0].splitlines()


def test_a_task_list_answers_first(tmp_path: Path) -> None:
    """F-STORY-1: what is proven, what needs a person, what it cost, what was claimed falsely, what comes next."""
    listed = TaskListProject(
        tmp_path / "shop",
        task("task-001", validation={"command": "test -f made"}),
        task("task-002", validation={"command": "test -f other"}, max_attempts=1),
        git=True,
    )
    assert head(listed.harness("status").out) == [
        "shop: 0 of 2 proven.",
        "needs you  nothing",
        "next       harness run",
    ]
    usage = '{"type": "usage", "input_tokens": 1, "output_tokens": 1, "cost_usd": 0.25}'
    listed.harness("run", "--agent", listed.agent(f"touch made; echo '{usage}'\n"))
    lines = head(listed.harness("status").out)
    assert lines[0] == "shop: 1 of 2 proven."
    assert lines[2].startswith("cost       $")
    assert lines[2].endswith("for each proven")
    assert "of them" in lines[3]
    assert lines[-1] == "next       harness task reset --failed"
    assert listed.harness("status", "--line").out.startswith("shop 1/2 idle $")
    found = listed.harness("status", "--json").json
    assert found["claims"]["judged"] > found["claims"]["rejected"] >= 1


def test_a_completion_that_nobody_has_proven_is_not_counted(tmp_path: Path) -> None:
    listed = TaskListProject(tmp_path / "shop", git=True)
    listed.harness("add", "One", "--validate", "true")
    listed.edit("task-001", status="completed")
    assert head(listed.harness("status").out)[0] == "shop: 0 of 1 proven."
    assert listed.harness("status", "--line").out.startswith("shop 0/1 ")


def test_a_halt_needs_a_person(tmp_path: Path) -> None:
    listed = TaskListProject(tmp_path / "shop", task("task-001", validation={"command": None}), git=True)
    listed.harness("run", "--agent", listed.agent("exit 0\n"))
    lines = head(listed.harness("status").out)
    assert lines[1].startswith("needs you  halted, CONFIG")
    assert lines[-1] == "next       harness resume"
    assert listed.harness("status", "--line").out.strip() == "shop 0/1 needs you"


@pytest.mark.parametrize(
    ("state", "line", "following"),
    [
        ({}, "calc 1/2 idle", "next       harness run"),
        ({"handoff": {"at": "x"}}, "calc 1/2 idle", "next       harness takeback"),
    ],
)
def test_a_feature_project_answers_in_the_same_words(
    tmp_path: Path, state: dict[str, Any], line: str, following: str
) -> None:
    calc = FeatureListProject.made(tmp_path / "calc", True, False)
    path = calc.root / ".harness/session_state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **state}))
    lines = head(calc.harness("status").out)
    assert (lines[0], lines[-1]) == ("calc: 1 of 2 proven.", following)
    assert calc.harness("status", "--line").out.strip().startswith(line)


def test_an_unknown_cost_is_never_nothing(tmp_path: Path) -> None:
    """Rule c: unknown is said."""
    listed = TaskListProject(tmp_path / "shop", task("task-001", validation={"command": "test -f made"}), git=True)
    listed.harness("run", "--agent", listed.agent("touch made\n"))
    text = listed.harness("status").out
    assert "cost       unknown" in text
    assert "$0.00" not in "\n".join(head(text))
    assert listed.harness("status", "--line").out.strip() == "shop 1/1 done cost unknown"


def test_the_glance_fits_and_keeps_its_numbers() -> None:
    for name in ("shop", "a-project-with-a-name-that-is-longer-than-any-status-bar-has-room-for", "界" * 80):
        line = headline.glance(name=name, proven=199, total=200, doing="task-001 judging", cost="$1234.56")
        assert len(line) <= 60
        assert line.endswith(" 199/200 task-001 judging $1234.56")


def test_claims_are_counted_as_the_ledger_tells_them(tmp_path: Path) -> None:
    """The quick count is the same as reading every verdict."""
    path = str(tmp_path / "verdicts.jsonl")
    rows = [
        ClaimVerdict(item="1", id="a", verdict=ledger.ACCEPTED, claim=("1",)),
        ClaimVerdict(item="1", id="b", verdict=ledger.REJECTED, claim=("1",), codes=("regression",)),
        ClaimVerdict(item="1", id="c", verdict=ledger.REJECTED),
        ClaimVerdict(item="1", id="d", verdict=ledger.ACCEPTED, claim=("1",), by="person", word="override"),
    ]
    for row in rows:
        ledger.write(path, row)
    judged = [each for each in ledger.newest_first(path) if each.claim and not each.by_person]
    found = headline.claims(path)
    assert (
        found
        == {"judged": len(judged), "rejected": sum(not each.accepted for each in judged)}
        == {"judged": 2, "rejected": 1}
    )
    assert headline.claims(str(tmp_path / "none")) == {"judged": 0, "rejected": 0}
