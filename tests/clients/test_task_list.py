"""A task list and the real clients: kept going by the Stop hook alone, told at the start, let go in the end."""

import json
from functools import partial
from pathlib import Path

import pytest

from agent_harness.testing.repo import Repo

from .client import Client
from .tasklist import (
    FEEDBACK,
    GIVING_UP,
    ONE_TASK,
    TaskList,
    both,
    decisions,
    heard,
    intruded,
    together,
    unhooked,
    until,
)

pytestmark = pytest.mark.client


@pytest.fixture
def work(client: Client, project: Repo) -> TaskList:
    """An empty task list whose hooks are installed for the client."""
    made = TaskList(project, client.env)
    client.install_our_hooks(project.path)
    return made


def test_three_tasks_are_worked_to_the_end_by_the_stop_hook_alone(
    client: Client, work: TaskList, tmp_path: Path
) -> None:
    work.add("Write one", "Write two", "Write three")
    client.island.script("idle", ["I think that I am done."])
    client.island.script("next", ONE_TASK, start=FEEDBACK)
    calls = tmp_path / "hooks.jsonl"
    run = client.run("SCRIPT:idle", project=work.repo.path, env={"HARNESS_HOOK_LOG": str(calls)})
    assert run.exit_code == 0, run.output
    assert work.statuses == ["completed"] * 3, run.output
    assert [task["attempts"] for task in work.tasks] == [1, 1, 1]
    assert decisions(calls) == [("block", "work left")] * 3 + [("allow", "all done")]
    assert not work.active
    subjects = work.repo.git("log", "--format=%s").splitlines()
    assert subjects == ["[task-003] Write three", "[task-002] Write two", "[task-001] Write one", "First"]


def test_the_model_is_told_at_the_start_where_things_stand(client: Client, work: TaskList) -> None:
    work.add("Write one", "Write two")
    work.harness("deactivate")
    client.island.script("hello", ["Hello."])
    client.run("SCRIPT:hello", project=work.repo.path)
    assert heard(client.island, "next=task-001: Write one") == 0
    work.harness("activate")
    client.island.script("next", ONE_TASK, start=FEEDBACK)
    client.run("SCRIPT:hello", project=work.repo.path)
    first = client.island.conversations()[1]
    assert "next=task-001: Write one" in json.dumps(first)
    assert "harness task claim" in json.dumps(first)


@pytest.mark.parametrize("client", ["claude-code"], indirect=True)
def test_the_model_is_told_again_after_its_context_was_summed_up(
    client: Client, work: TaskList, tmp_path: Path
) -> None:
    work.add("Write one")
    client.island.script("hello", ["Hello."])
    client.island.script("next", ["I rest."], start=FEEDBACK)
    calls = tmp_path / "hooks.jsonl"
    env = {"HARNESS_HOOK_LOG": str(calls), "HARNESS_MAX_BLOCKS": "3"}
    first = client.run("SCRIPT:hello", project=work.repo.path, env=env)
    again = ["--resume", first.of("result")[-1]["session_id"]]
    client.run("/compact", project=work.repo.path, env=env, words=again)
    before = len(client.island.conversations())
    client.run("SCRIPT:hello", project=work.repo.path, env=env, words=again)
    told = json.dumps(client.island.conversations()[before]["messages"])
    assert "A summary of the work so far" in told
    assert "HARNESS: pending=1 total=1 next=task-001: Write one" in told
    starts = [call["source"] for call in map(json.loads, calls.read_text().splitlines()) if "source" in call]
    assert starts == ["startup", "resume", "compact", "resume"]


def test_an_agent_that_gets_nowhere_is_let_go_and_the_person_told(
    client: Client, work: TaskList, tmp_path: Path
) -> None:
    work.add("Write one")
    client.island.script("idle", ["I am done."])
    client.island.script("next", ["I am really done."], start=FEEDBACK)
    calls = tmp_path / "hooks.jsonl"
    shown = client.shown("SCRIPT:idle", project=work.repo.path, env={"HARNESS_HOOK_LOG": str(calls)})
    assert decisions(calls) == [("block", "work left")] * 7 + [("allow", "no progress")]
    assert any("the agent may stop after 7 stops without progress" in text for text in shown), shown
    assert (work.statuses, work.active) == (["pending"], True)


def test_a_task_that_can_never_pass_is_let_go_and_the_person_told(
    client: Client, work: TaskList, tmp_path: Path
) -> None:
    work.add("Square the circle", validate="false")
    client.island.script("idle", ["I am done."])
    client.island.script("next", ONE_TASK, start=FEEDBACK)
    calls = tmp_path / "hooks.jsonl"
    shown = client.shown("SCRIPT:idle", project=work.repo.path, env={"HARNESS_HOOK_LOG": str(calls)})
    assert heard(client.island, "the check of task-001 failed") > 0
    assert decisions(calls)[-1] == ("allow", "no progress")
    assert any("the agent may stop after 7 stops without progress" in text for text in shown), shown
    assert (work.statuses, work.tasks[0]["attempts"], work.active) == (["in_progress"], 0, True)


def test_a_task_that_is_given_up_ends_the_list(client: Client, work: TaskList, tmp_path: Path) -> None:
    work.add("Square the circle", validate="false")
    client.island.script("idle", ["I am done."])
    client.island.script("next", GIVING_UP, start=FEEDBACK)
    calls = tmp_path / "hooks.jsonl"
    shown = client.shown("SCRIPT:idle", project=work.repo.path, env={"HARNESS_HOOK_LOG": str(calls)})
    assert (work.statuses, work.tasks[0]["attempts"], work.active) == (["failed"], 3, False)
    assert decisions(calls) == [("block", "work left")] * 3 + [("allow", "all done")]
    assert any("the task list is finished" in text and "failed=1" in text for text in shown), shown
    assert not (work.repo.path / "task-001.txt").exists()


def test_a_second_session_is_kept_out(client: Client, work: TaskList) -> None:
    work.add("Write one", "Write two")
    both(client, work, *intruded(client.island, work))
    assert heard(client.island, "another harness session is active") > 0
    assert work.statuses == ["completed", "pending"]
    assert work.kinds("Starting", "Completed", "ERROR") == ["Starting", "Completed"]


def test_two_workers_share_a_list_but_neither_a_task_nor_a_work_tree(client: Client, project: Repo) -> None:
    work = TaskList(project, client.env, "concurrent")
    work.add("Write one", "Write two")
    other = project.path.parent / "other"
    project.git("worktree", "add", "--quiet", "-b", "other", str(other))
    claimed, met = project.path / ".harness" / "claimed", project.path / ".harness" / "met"
    first = [ONE_TASK[0], {"run": f"touch {claimed}; {until(met)}"}, *ONE_TASK[1:]]
    client.island.script("first", first)
    refused = {"run": f"{until(claimed)}; cd {project.path} && harness task claim"}
    second = [refused, {"run": f"cd {other}"}, ONE_TASK[0], {"run": f"touch {met}"}, *ONE_TASK[1:]]
    client.island.script("second", second)
    root = {"HARNESS_STATE_ROOT": str(project.path)}
    together(
        partial(unhooked, client, project.path, "first", HARNESS_WORKER_ID="worker-1", **root),
        partial(unhooked, client, other, "second", HARNESS_WORKER_ID="worker-2", **root),
    )
    assert work.statuses == ["completed", "completed"]
    assert work.kinds("Starting", "Completed", "ERROR") == ["Starting", "Starting", "Completed", "Completed"]
    assert heard(client.island, "worktree_shared") > 0
    branches = [project.git("log", "-1", "--format=%s", branch) for branch in ("main", "other")]
    assert branches == ["[task-001] Write one", "[task-002] Write two"]
