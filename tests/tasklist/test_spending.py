"""Costs of attempts: one row each, summed up for status; unknown costs are named."""

from pathlib import Path

from agent_harness.agents.events import Usage
from agent_harness.agents.usage import Totals, add
from agent_harness.protocols.tasklist import costs, status
from agent_harness.testing.task_list_project import TaskListProject, task


def used(*calls: Usage) -> Totals:
    totals = Totals()
    for call in calls:
        totals = add(totals, call)
    return totals


def test_a_list_on_which_no_agent_was_started_says_nothing_of_costs(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list", task("a"))
    found = status.read(project.layout)
    assert found["costs"] is None
    assert not [line for line in status.lines(found) if "ost" in line]


def test_what_a_completed_task_costs(tmp_path: Path) -> None:
    """All that was paid, for failed attempts too, over the tasks that were completed; unknown is not 0."""
    project = TaskListProject.at_noon(tmp_path / "list", *(task(name, status="completed") for name in "abcd"))
    attempts = [
        ("a", "failed", used(Usage(cost_usd=0.5))),
        ("a", "completed", used(Usage(cost_usd=0.25), Usage(cost_usd=0.25))),
        ("b", "completed", used(Usage(cost_usd=0.5))),
    ]
    for task_id, result, totals in attempts:
        costs.note_cost(project.layout, session=1, task_id=task_id, result=result, used=totals)
    found = status.read(project.layout)
    assert found["costs"]["by_task"] == {"a": 1.0, "b": 0.5}
    assert "cost       $1.50, $0.75 for each proven" in status.lines(found)

    costs.note_cost(project.layout, session=2, task_id="c", result="completed", used=Totals())  # said nothing
    unknown = used(Usage(input_tokens=100_000, output_tokens=10_000, model="no-such-model"))
    costs.note_cost(project.layout, session=2, task_id="b", result="failed", used=unknown)
    found = status.read(project.layout)
    assert found["costs"]["by_task"] == {"a": 1.0, "b": None, "c": None}
    (cost,) = (line for line in status.lines(found) if line.startswith("cost"))
    assert cost.endswith("at least $0.50 for each proven; 2 of 5 attempts without a cost, counted as $0.45")


def test_what_nobody_knows_is_no_amount(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list", task("a", status="completed"))
    costs.note_cost(project.layout, session=1, task_id="a", result="completed", used=Totals())
    lines = [line for line in status.lines(status.read(project.layout)) if "cost" in line]
    assert lines == ["cost       not reported by the agent; counted as $0.00"]


def test_a_row_that_somebody_damaged_counts_as_unknown(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list", task("a"))
    Path(project.layout.sessions).mkdir(parents=True)
    Path(project.layout.costs).write_text('{"cost_usd": "x"}\n{"cost_usd": -1, "task_id": []}\nhalf a li')
    found = status.read(project.layout)["costs"]
    assert found
    assert (found["total_usd"], found["attempts_of_unknown_cost"]) == (0, 2)


def test_a_dry_run_says_what_the_rest_will_cost(tmp_path: Path) -> None:
    """By what the completed tasks have cost, rejected attempts included; without any, that it is not known."""
    project = TaskListProject(tmp_path / "list", *(task(f"t-{n}") for n in range(4)), session_count=0)
    before = Path(project.layout.tasks).read_bytes()
    first = project.harness("run", "--dry-run")
    assert (first.code, "Estimate for 4 open tasks: unknown: no session yet" in first.out) == (0, True), first
    assert Path(project.layout.tasks).read_bytes() == before
    done = TaskListProject(
        tmp_path / "more", task("a", status="completed"), task("b", status="completed"), task("c"), task("d")
    )
    for name, result, cost in (("a", "completed", 0.4), ("b", "failed", 0.2), ("b", "completed", 0.6)):
        totals = used(Usage(cost_usd=cost))
        costs.note_cost(done.layout, session=1, task_id=name, result=result, used=totals)
    told = done.harness("run", "--dry-run")
    assert "Next: c: Title of c" in told.out
    assert "Estimate for 2 open tasks: $1.00 to $1.40 (based on 2 proven at $0.50 to $0.70 each" in told.out
    assert done.harness("run", "--dry-run", "--json").json["estimate"]["total_usd"] == [1.0, 1.4]
