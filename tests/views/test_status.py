"""``harness status``: the answer first, in the same words for every kind of project, and a line for status bars."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_harness.session import ledger, run_snapshot, status_summary
from agent_harness.session.ledger import ClaimVerdict
from agent_harness.testing.feature_list_project import FeatureListProject
from agent_harness.testing.task_list_project import TaskListProject, task

from .terminal import Terminal


def head(text: str) -> list[str]:
    """Return the lines before the details."""
    return text.split("\n\n", 1)[0].splitlines()


def test_a_task_list_answers_first(tmp_path: Path) -> None:
    """F-STORY-1: proven items, questions for a person, costs, rejected claims, next step."""
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
    assert lines[:2] == [
        "shop: 1 of 2 proven.",
        "needs you  1 failed for good: task-002 (harness task reset --failed)",
    ]
    assert lines[2].startswith("cost       $")
    assert lines[2].endswith("for each proven")
    assert lines[3].startswith("claims     4, 3 rejected")
    assert lines[-1] == "next       harness task reset --failed"
    assert listed.harness("status", "--line").out.startswith("shop 1/2 needs you $")
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
    assert lines[-1] == "next       harness task set task-001 validation.command='...'"
    listed.harness("task", "set", "task-001", "validation.command=true")
    assert head(listed.harness("status").out)[-1] == "next       harness resume"
    assert listed.harness("status", "--line").out.strip() == "shop 0/1 needs you"


@pytest.mark.parametrize(
    ("state", "line", "following"),
    [
        ({}, "calc 1/2 idle", "next       harness run"),
        ({"handoff": {"at": "x"}}, "calc 1/2 needs you", "next       harness hand-back"),
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
    """Rule c: an unknown value is named."""
    listed = TaskListProject(tmp_path / "shop", task("task-001", validation={"command": "test -f made"}), git=True)
    listed.harness("run", "--agent", listed.agent("touch made\n"))
    text = listed.harness("status").out
    assert "cost       not reported by the agent" in text
    assert "$0.00" not in "\n".join(head(text)).replace("counted as $0.00", "")
    assert listed.harness("status", "--line").out.strip() == "shop 1/1 done cost unknown"


def test_the_glance_fits_and_keeps_its_numbers() -> None:
    for name in ("shop", "a-project-with-a-name-that-is-longer-than-any-status-bar-has-room-for", "界" * 80):
        line = status_summary.glance(name=name, proven=199, total=200, doing="task-001 judging", cost="$1234.56")
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
    found = status_summary.claims(path)
    assert (
        found
        == {"judged": len(judged), "rejected": sum(not each.accepted for each in judged)}
        == {"judged": 2, "rejected": 1}
    )
    assert status_summary.claims(str(tmp_path / "none")) == {"judged": 0, "rejected": 0}


@pytest.mark.parametrize("columns", ["60", "100"])
def test_a_long_list_answers_within_a_screen_and_shows_what_matters(tmp_path: Path, columns: str) -> None:
    """F-STORY-1: running, failed, next; then the command that shows all, which JSON always holds."""
    rows = [
        task(
            f"task-{n:03}",
            title=f"Thing number {n} of 200 answers within {n} ms on port {8000 + n}, day and night, in every weather",
            status={7: "in_progress", 90: "failed", 91: "failed", 150: "completed"}.get(n, "pending"),
            validation={"command": f"test -f {n}"},
            priority="P0" if n == 120 else "P1",
            depends_on=["gone"] if n > 180 else [],
        )
        for n in range(1, 201)
    ]
    listed = TaskListProject(tmp_path / "shop", *rows)
    seen = Terminal(listed.root, "status", columns=int(columns))
    assert seen.ended() == 0
    lines = [line for line in seen.all_lines if line]
    assert len(lines) <= 30, lines
    text = "\n".join(lines)
    assert lines[0].startswith("shop: 1 of 200 proven.")
    for said in ("[in_progress] task-007", "[failed] task-090", "[failed] task-091", "[pending] task-120", "task-001"):
        assert said in text
    assert "... and 188 more: harness status --all" in text
    assert "CONFIG" in text
    every = listed.harness("status", "--all").out
    assert [f"task-{n:03}: Thing number {n} of 200" in every for n in range(1, 201)] == [True] * 200
    assert len(listed.harness("status", "--json").json["tasks"]) == 200
    assert listed.harness("status", "--all", "--json").json == listed.harness("status", "--json").json


def test_a_short_list_is_shown_as_it_is(tmp_path: Path) -> None:
    listed = TaskListProject(tmp_path / "shop", *(task(f"task-{n:03}") for n in range(1, 13)))
    text = listed.harness("status").out
    assert text.count("[pending] ") == 12
    assert "--all" not in text


def test_much_that_waits_in_a_feature_project_stays_within_a_screen(tmp_path: Path) -> None:
    calc = FeatureListProject.made(tmp_path / "calc", *[False] * 60)
    document = calc.features
    for row in document["features"]:
        row.update({"skipped": {"reason": "later"}} if row["id"] <= 30 else {"awaiting_manual": True})
    calc.put({"features.json": json.dumps(document)})
    (calc.root / ".harness/quality.json").write_text(
        json.dumps({"file_alerts": [f"src/{n}.py has 900 lines" for n in range(40)]})
    )
    short, every = calc.harness("status").out, calc.harness("status", "--all").out
    assert len(short.splitlines()) <= 32, short
    assert "and 25 more: harness status --all" in short
    assert (every.count("Skipped: "), "harness status --all" in every) == (30, False)
    assert "#35 and 25 more (harness manual-verify)" in short


def test_a_run_of_many_agents_names_the_first_of_them() -> None:
    workers = [{"slot": f"w{n}", "item": f"t{n}", "title": "x", "phase": "agent"} for n in range(1, 65)]
    found = {"run": "r", "alive": True, "age_seconds": 0, "workers": workers, "hands": {"have": 64}}
    assert len(run_snapshot.lines(found)) == 65
    short = run_snapshot.lines(found, most=5)
    assert (len(short), short[-1]) == (7, "  ... and 59 more agents: harness status --all")
