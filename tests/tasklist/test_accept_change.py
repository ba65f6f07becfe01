"""``harness task accept``: a person takes work that was refused for the files that it changes, judged again."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_harness.protocols.tasklist import proven
from agent_harness.testing.task_list_project import TaskListProject, task

CHECK = ". ./env.sh\ngrep -q done work.txt\n"
WORKS = "echo done > work.txt\n"
CHANGES = f"{WORKS}echo 'LANG=C' >> env.sh\n"
FAILS = 1


def project(path: Path, **members: Any) -> TaskListProject:
    """A list with one task, whose check sources another script; both are committed."""
    job = task("a", validation={"command": "sh check.sh", "timeout_seconds": 60}, **{"max_attempts": 1, **members})
    config = {"isolation": "worktree", "fix_rounds": 0}
    work = TaskListProject(path / "list", job, git=True, session_count=0, session_config=config)
    work.repo.write("check.sh", CHECK).write("env.sh", "# nothing yet\n").commit("Checks")
    return work


def refused(work: TaskListProject, agent: str = CHANGES) -> str:
    """Return the output of a run that ends with the refusal of this agent's work."""
    ran = work.harness("run", "--agent", work.agent(agent))
    assert (ran.code, work.statuses()) == (FAILS, ["failed"]), ran
    return ran.out + ran.err


def test_refused_work_is_taken_by_a_persons_word(tmp_path: Path) -> None:
    """The run says the command; the work comes out of its rescue, is judged, and committed with the other script."""
    work = project(tmp_path)
    said = refused(work)
    assert "env.sh proves this task and existed before the work began, but line 2: 'LANG=C' is new" in said
    assert "to accept this work as it is: harness task accept a env.sh" in said
    assert any("harness task accept a env.sh" in line for line in work.log())
    assert work.repo.status() == []
    done = work.harness("task", "accept", "a", "env.sh")
    assert (done.code, work.statuses()) == (0, ["completed"]), done
    assert work.repo.read("env.sh") == b"# nothing yet\nLANG=C\n"
    assert work.repo.git("show", "HEAD:work.txt") == "done"
    assert work.repo.status() == []
    assert json.loads(done.out)["verb"] == "accept"
    *_, line = map(json.loads, Path(proven.ledger(work.layout)).read_text().splitlines())
    assert (line["verdict"], line["by"], line["word"], line["of"]) == (
        "accepted",
        "person",
        "accept-change",
        line["n"] - 1,
    )


@pytest.mark.kept("echo done > work.txt\\necho 'LANG=C' >> env.sh\\n-other.sh-1-env.sh proves this task")
@pytest.mark.scenario
@pytest.mark.parametrize(
    ("agent", "pattern", "code", "said"),
    [
        (CHANGES, "other.sh", 1, "env.sh proves this task"),
        (CHANGES.replace("done", "half"), "env.sh", 1, "the check of a failed"),
        ("true\n", "env.sh", 4, "No work on a is saved in a rescue"),
    ],
)
def test_only_what_is_allowed_differs_and_the_rest_is_judged(
    tmp_path: Path, agent: str, pattern: str, code: int, said: str
) -> None:
    """If it does not hold, the task is as it was, and the work is in a rescue."""
    work = project(tmp_path)
    refused(work, agent)
    before, head = work.task("a"), work.repo.head
    done = work.harness("task", "accept", "a", pattern)
    assert done.code == code, done
    assert said in done.out
    now = work.task("a")
    for name in ("status", "attempts", "max_attempts", "may_change"):
        assert getattr(now, name) == getattr(before, name), name
    assert (work.repo.head, work.repo.status()) == (head, [])


@pytest.mark.scenario
def test_what_has_changed_since_is_not_overwritten(tmp_path: Path) -> None:
    work = project(tmp_path)
    refused(work)
    work.repo.write("env.sh", "TZ=UTC\n").commit("A person's")
    done = work.harness("task", "accept", "a", "env.sh")
    assert done.code == 4, done
    assert work.repo.read("env.sh") == b"TZ=UTC\n"
    assert work.repo.status() == []


@pytest.mark.scenario
def test_an_agent_cannot_accept_its_own_change(tmp_path: Path) -> None:
    work = project(tmp_path, max_attempts=2)
    ran = work.harness("run", "--agent", work.agent(f"harness task accept a env.sh >../answer\n{CHANGES}"))
    assert (ran.code, work.statuses()) == (FAILS, ["failed"]), ran
    assert "a decision for the user" in (tmp_path / "answer").read_text()


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_work_that_fails_by_itself_is_offered_to_nobody(tmp_path: Path) -> None:
    work = project(tmp_path)
    assert "harness task accept" not in refused(work, "echo half > work.txt\n")


# ---- the script that sets the environment up -------------------------------------------------------------------------


@pytest.mark.kept("None")
@pytest.mark.parametrize("before", [None, "#!/bin/sh\necho ready\n"])
@pytest.mark.scenario
def test_an_init_script_that_an_agent_has_changed_is_put_back_and_kept(tmp_path: Path, before: str | None) -> None:
    """It runs at each session's start, with more reach than an agent has."""
    work = project(tmp_path)
    script = work.repo.path / "harness-init.sh"
    if before:
        script.write_text(before)
        script.chmod(0o755)
    agent = f"{WORKS}printf '#!/bin/sh\\ntouch ran\\n' > harness-init.sh; chmod 700 harness-init.sh\n"
    ran = work.harness("run", "--agent", work.agent(agent))
    assert (ran.code, work.statuses()) == (0, ["completed"]), ran
    assert (script.read_text() if script.exists() else None) == before
    assert before is None or script.stat().st_mode & 0o777 == 0o755
    assert (work.repo.path / ".harness/harness-init-a.sh").read_text() == "#!/bin/sh\ntouch ran\n"
    assert any("harness-init.sh was changed while an agent was working" in line for line in work.log())


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_task_may_be_meant_to_change_the_init_script(tmp_path: Path) -> None:
    work = project(tmp_path)
    work.edit("a", validation={"command": "sh check.sh", "may_change": ["harness-init.sh"]})
    ran = work.harness("run", "--agent", work.agent(f"{WORKS}echo true > harness-init.sh\n"))
    assert (ran.code, (work.repo.path / "harness-init.sh").read_text()) == (0, "true\n"), ran
