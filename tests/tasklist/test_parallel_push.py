"""Landings of a task list are pushed: forward only, on top of what the remote has, where a person has said. SC-39."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness.testing.task_list_project import TaskListProject

from .test_parallel import WORKS, job, landed, project, run

DYING = Path(__file__).parents[1] / "parallel/dying.py"


def with_remote(work: TaskListProject, push: str = "origin", **parallel: object) -> Path:
    """A bare remote that has what the project has, named in the list's settings."""
    workspace = work.root.parent / "origin.git"
    work.repo.git("init", "-q", "--bare", "-b", "main", str(workspace))
    work.repo.git("remote", "add", "origin", str(workspace))
    work.repo.git("push", "-q", "origin", "HEAD:main")
    work.edit(session_config={**work.raw["session_config"], "parallel": {"push": push, **parallel}})
    return workspace


def colleague(work: TaskListProject, workspace: Path, **files: str) -> str:
    """A commit that somebody else has pushed."""
    theirs = work.root.parent / "theirs"
    work.repo.git("clone", "-q", str(workspace), str(theirs))
    for name, text in files.items():
        (theirs / name).write_text(text)
    work.repo.git("-C", str(theirs), "add", ".")
    work.repo.git("-C", str(theirs), "commit", "-qm", "A colleague's")
    work.repo.git("-C", str(theirs), "push", "-q", "origin", "HEAD:main")
    return work.repo.git("-C", str(theirs), "rev-parse", "HEAD")


def tip(workspace: Path, branch: str = "main") -> str:
    words = ["git", "-C", str(workspace), "rev-parse", f"refs/heads/{branch}"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def test_landings_go_on_top_of_what_the_remote_has_and_tasks_name_the_new_commits(tmp_path: Path) -> None:
    """Two land, the second perhaps with the first; the remote has a colleague's commit that nobody here knows."""
    work = project(tmp_path, job("a"), job("b"))
    workspace = with_remote(work)
    theirs = colleague(work, workspace, **{"theirs.txt": "theirs\n"})
    ran = run(work, WORKS, 2, "--json")
    assert ran.code == 0, ran
    assert work.statuses() == ["completed"] * 2
    assert tip(workspace) == work.repo.git("rev-parse", "HEAD")
    assert work.repo.git("merge-base", theirs, "HEAD") == theirs
    assert sorted(landed(work)) == ["a", "b"]
    assert work.repo.read("theirs.txt") == b"theirs\n"
    assert work.repo.status() == []
    known = work.repo.git("rev-list", "HEAD").split()
    assert all(work.task(name).completed_commit in known for name in "ab")
    assert work.repo.git("for-each-ref", "refs/harness/batch", "refs/harness/incoming") == ""
    of_report = {each["id"]: each for each in json.loads(work.harness("report", "--json").out)["done"]}
    for name in "ab":
        found = json.loads(work.harness("why", name, "--json").out)
        commit = found["proven"]["commit"]
        assert (commit, of_report[name]["proven"]["commit"]) == (work.task(name).completed_commit,) * 2
        assert f" {commit[:12]} && " in found["check"][0]["command"]
        shell = [f"{each['command']}; test $? {'=' if each['must'] == 'pass' else '!='} 0" for each in found["check"]]
        checked = subprocess.run(["sh", "-c", " && ".join(shell)], cwd=work.root, capture_output=True, check=False)
        assert checked.returncode == 0, (shell, checked)
        shown = json.loads(work.harness("diff", name, "--json").out)
        landing = (shown["state"], shown["tip"], shown["base"])
        assert landing == ("accepted", commit, work.repo.git("rev-parse", f"{commit}^1")), shown
        assert [each["path"] for each in shown["files"]] == [f"out/{name}"], (
            "what another item has brought is none of it"
        )
        of_session = json.loads(work.harness("diff", f"S{found['proven']['session']}", "--json").out)
        assert of_session["tip"] in known, of_session
    for name in "ab":
        undone = work.harness("undo", name, "--yes")
        assert (undone.code, work.task(name).status) == (0, "pending"), undone
    assert work.repo.read("theirs.txt") == b"theirs\n"
    assert not (work.root / "out").exists()


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_agents_begin_and_end_while_a_push_goes_on(tmp_path: Path) -> None:
    """The remote answers only once an agent has worked that begins on what is pushed."""
    work = project(tmp_path, job("a"), job("b", depends_on=["a"]))
    workspace, flag = with_remote(work), tmp_path / "worked"
    hook = workspace / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nuntil test -e {flag}; do sleep 0.1; done\n")
    hook.chmod(0o755)
    ran = run(work, f"{WORKS}\n[ $HARNESS_TASK_ID = a ] || touch {flag}\n", 2, "--json")
    assert ran.code == 0, ran
    assert work.statuses() == ["completed"] * 2
    assert tip(workspace) == work.repo.git("rev-parse", "HEAD")


@pytest.mark.scenario
def test_what_does_not_prove_itself_on_top_of_the_remote_pauses_and_agents_go_on(tmp_path: Path) -> None:
    """The colleague's file fails the check of every landing; a person mends it, and the rest is pushed."""
    work = project(tmp_path, job("a"), job("b"))
    workspace = with_remote(work, check="test ! -e bad.txt")
    theirs = colleague(work, workspace, **{"bad.txt": "bad\n"})
    starts = tmp_path / "starts"
    agent = f"{WORKS}; echo $HARNESS_TASK_ID >> {starts}"
    ran = run(work, agent, 1, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["reason"], answer["next"]) == (5, "landing_blocked", "harness resume"), ran
    assert "these checks fail: the check of every landing" in answer["message"]
    assert [each["item"] for each in answer["landed"]] == ["a"]
    assert starts.read_text().split() == ["a", "b"]
    assert (tip(workspace), work.repo.status()) == (theirs, [])
    assert "push" in work.harness("status").out
    other = tmp_path / "theirs"
    work.repo.git("-C", str(other), "rm", "-q", "bad.txt")
    work.repo.git("-C", str(other), "commit", "-qm", "Mended")
    work.repo.git("-C", str(other), "push", "-q", "origin", "HEAD:main")
    assert work.harness("resume").code == 0
    ran = run(work, agent, 1, "--json")
    assert (ran.code, work.statuses(), starts.read_text().split()) == (0, ["completed"] * 2, ["a", "b"]), ran
    assert tip(workspace) == work.repo.git("rev-parse", "HEAD")
    assert sorted(landed(work)) == ["a", "b"]


@pytest.mark.scenario
@pytest.mark.parametrize("why", ["refused", "conflict"])
def test_a_push_that_cannot_be_says_why_and_changes_nothing_at_the_remote(tmp_path: Path, why: str) -> None:
    work = project(tmp_path, job("a"), job("b"))
    workspace = with_remote(work)
    if why == "refused":
        hook = workspace / "hooks/pre-receive"
        hook.write_text("#!/bin/sh\necho not on a friday\nexit 1\n")
        hook.chmod(0o755)
    else:
        colleague(work, workspace, a="theirs\n")
    before = tip(workspace)
    ran = run(work, f"{WORKS}; echo $HARNESS_TASK_ID > a", 1, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["reason"]) == (5, "landing_blocked"), ran
    assert ("friday" if why == "refused" else "conflicts with the remote") in answer["message"]
    assert (tip(workspace), work.task("a").status) == (before, "completed")
    assert work.repo.git("rev-parse", f"{work.task('a').completed_commit}") == work.repo.git("rev-parse", "HEAD")


@pytest.mark.scenario
def test_a_remote_that_is_away_stops_nobody_and_the_next_run_takes_along_what_it_misses(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"))
    workspace = with_remote(work, "origin/release")
    workspace.rename(tmp_path / "away.git")
    ran = run(work, WORKS, 1)
    assert (ran.code, work.statuses()) == (0, ["completed"]), ran
    assert "Not pushed: origin cannot be reached (" in ran.out
    (tmp_path / "away.git").rename(workspace)
    work.edit(tasks=[*work.raw["tasks"], job("never", depends_on=["never"])])
    run(work, "true", 1)
    assert tip(workspace, "release") == work.repo.git("rev-parse", "HEAD")


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_an_agent_writes_into_list_and_settings_sends_nothing_elsewhere(tmp_path: Path) -> None:
    """The remote and its address are those of the beginning; the list has the person's again, and says so."""
    work = project(tmp_path, job("a"), job("b"))
    workspace = with_remote(work)
    evil = tmp_path / "evil.git"
    work.repo.git("clone", "-q", "--bare", str(workspace), str(evil))
    before = tip(evil)
    work.repo.git("remote", "add", "other", str(evil))
    listed, settings = work.root / "harness-tasks.json", work.root / ".git/config"
    agent = f"{WORKS}; sed -i 's/\"origin\"/\"other\"/' {listed}; sed -i 's#{workspace}#{evil}#' {settings}"
    ran = run(work, agent, 1, HARNESS_SANDBOX="off")
    assert ran.code == 0, ran
    assert (tip(workspace), tip(evil)) == (work.repo.git("rev-parse", "HEAD"), before)
    assert work.raw["session_config"]["parallel"]["push"] == "origin"
    told = [line for line in work.log() if "during this attempt" in line]
    assert told
    assert all("remote.origin.url" in line and "harness-tasks.json. Restored: config" in line for line in told)


@pytest.mark.kept("joined")
@pytest.mark.scenario
@pytest.mark.parametrize(
    "moment", ["after:landed", "before:pushed", "after:joined", "after:join_proven", "joined", "after:join_moved"]
)
def test_a_coordinator_that_dies_while_it_pushes_pushes_once_what_has_landed(tmp_path: Path, moment: str) -> None:
    """SC-5, SC-39: also of a run whose list says another remote since."""
    work = project(tmp_path, job("a"))
    workspace = with_remote(work)
    theirs = colleague(work, workspace, **{"theirs.txt": "theirs\n"})
    words = ["run", "--workers", "2", "--agent", work.agent(WORKS)]
    died = subprocess.run([sys.executable, str(DYING), moment, *words], cwd=work.root, capture_output=True, check=False)
    assert died.returncode == -9, died
    work.edit(session_config={**work.raw["session_config"], "parallel": {}})
    work.edit(tasks=[*work.raw["tasks"], job("b")])
    ran = work.harness(*words)
    assert (ran.code, work.statuses()) == (0, ["completed"] * 2), ran
    assert tip(workspace) == work.repo.git("rev-parse", "HEAD")
    assert work.repo.git("merge-base", theirs, "HEAD") == theirs
    assert sorted(landed(work)) == ["a", "b"]
    assert work.repo.status() == []
    known = work.repo.git("rev-list", "HEAD").split()
    assert all(work.task(name).completed_commit in known for name in "ab")


@pytest.mark.parametrize(
    ("push", "says"),
    [("https://x.invalid/y", "REMOTE/BRANCH"), ("upstream/main", "are: origin"), ("origin/a..b", "REMOTE/BRANCH")],
)
def test_what_names_no_remote_is_refused_before_any_agent(tmp_path: Path, push: str, says: str) -> None:
    work = project(tmp_path, job("a"))
    with_remote(work, push)
    before = work.files()
    for words in (("--dry-run",), ()):
        ran = run(work, "exit 1", 2, *words)
        assert (ran.code, says in ran.err, "git remote -v" in ran.err) == (3, True, True), ran
        assert work.files() == before


@pytest.mark.scenario
def test_what_an_agent_writes_into_settings_lets_nothing_else_land(tmp_path: Path) -> None:
    """SC-32: `check` counts as a person has set it, also while the agent that has changed it is still at work."""
    work = project(tmp_path, job("a"), job("b"))
    work.edit(session_config={**work.raw["session_config"], "parallel": {"check": "test ! -e out/b", "mends": 0}})
    listed, edited, again = work.root / "harness-tasks.json", tmp_path / "edited", tmp_path / "again"
    landed_b = f"git -C {work.root} log --format=%B | grep -q 'Harness-Item: b'"
    agent = f"""
        if [ $HARNESS_TASK_ID = a ]; then
            sed -i 's/test ! -e/true || test ! -e/' {listed}; touch {edited}
            until [ -e {again} ] || {landed_b}; do sleep 0.05; done
        else
            until [ -e {edited} ]; do sleep 0.05; done
            [ ! -e {edited}.b ] || touch {again}; touch {edited}.b
        fi
        {WORKS}"""
    ran = run(work, agent, 2, "--json", HARNESS_SANDBOX="off")
    answer = json.loads(ran.out)
    assert (ran.code, [each["item"] for each in answer["parked"]]) == (3, ["b"]), ran
    assert (landed(work), work.task("a").status) == (["a"], "completed")
    assert work.raw["session_config"]["parallel"]["check"] == "test ! -e out/b"
