"""The summary of a run at its end, from the records."""

import json
from pathlib import Path

from agent_harness.testing.task_list_project import TaskListProject, task

USAGE = """echo '{"type": "usage", "input_tokens": 10, "output_tokens": 5, "cost_usd": 0.25}'"""


def test_what_was_proven_claimed_spent_and_kept_and_what_comes_next(tmp_path: Path) -> None:
    """F-RUN-2: of this run alone, beside the totals; kept in the log of the run too."""
    project = TaskListProject(
        tmp_path / "list",
        task("task-001", title="Make it", validation={"command": "test -f done.txt"}),
        task("task-002", title="Sell it", validation={"command": "test -f sold.txt"}, max_attempts=1),
        task("task-003", title="Tell it", validation={"command": "true"}),
        git=True,
    )
    first = project.harness("run", "--once", "--agent", project.agent(f"{USAGE}\ntouch done.txt"))
    assert first.out.splitlines()[-5:] == [
        "proven     1 in this run: task-001; 1 of 3 in all",
        "claims     1, none rejected",
        first.out.splitlines()[-3],
        "needs you  nothing",
        "next: harness run",
    ]
    assert first.out.splitlines()[-3].startswith("cost       $0.25 in 1 session, ")
    assert first.out.splitlines()[-3].endswith("; $0.25 in all")
    second = project.harness("run", "--once", "--agent", project.agent(f"{USAGE}\ntouch else.txt", name="liar.sh"))
    proven, claims, cost, kept, needs, following = second.out.splitlines()[-6:]
    assert proven == "proven     none in this run; 1 of 3 in all"
    assert claims.endswith(" rejected: task-002")
    assert claims.startswith("claims     ")
    assert cost.endswith("; $1.00 in all")
    assert kept == "kept       1 rolled back: harness rescue list"
    failed = "needs you  1 failed for good: task-002 (harness task reset --failed)"
    assert (needs, following) == (failed, "next: harness run")
    assert [line.split(" ", 1)[1] for line in Path(project.layout.run_log).read_text().splitlines()][-6:] == [
        proven,
        claims,
        cost,
        kept,
        needs,
        following,
    ]


def test_a_run_that_did_nothing_says_what_is_next_and_an_answer_in_json_stays_one_object(tmp_path: Path) -> None:
    project = TaskListProject(tmp_path / "list", task("task-001", title="Make it", validation={"command": "true"}))
    assert project.harness("pause").code == 0
    refused = project.harness("run", "--agent", project.agent("true"))
    assert "proven  " not in refused.text
    assert project.harness("resume").code == 0
    found = project.harness("run", "--json", "--agent", project.agent("true"))
    assert json.loads(found.out)["attempts"][0]["result"] == "completed"
    assert "checked    task-001: the check did not run on the base commit" in found.err
    assert found.err.splitlines()[-1] == "next: harness status"
    again = project.harness("run", "--agent", project.agent("true"))
    assert again.out.splitlines()[-2:] == ["Every task is completed.", "next: harness status"]
