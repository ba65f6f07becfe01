"""What a new journal takes from a damaged one, from the budget and from the refs."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from agent_harness.kernel.git import Git
from agent_harness.parallel.budget import SharedBudget
from agent_harness.parallel.fresh_start import where_unreadable
from agent_harness.parallel.ledger import Ledger, project_id
from agent_harness.parallel.merge_queue.refs import ProjectRefs
from agent_harness.parallel.plan import RunPlan
from agent_harness.testing.repo import Repo

MAIN = "refs/heads/main"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.with_files(tmp_path / "home", {"app.py": "one\n"}, user_settings=True)


def damaged(repo: Repo, *events: dict[str, Any], branch: str = MAIN) -> str:
    """Returns the folder of a run whose journal has these events and a line that is none."""
    folder = str(repo.path.parent / "parallel")
    found = Ledger(folder)
    known = {"v": 1, "run": "r1", "project": project_id(folder), "branch": branch, "head": repo.head, "workers": 1}
    found.append("run", **known, batch_max=8, mends=2)
    for each in events:
        found.append(each.pop("type"), **each)
    found.folded()
    found.close()
    with Path(found.path).open("ab") as file:
        file.write(b"torn\n")
    return folder


def begun(folder: str, repo: Repo, **claims: str) -> tuple[RunPlan, str]:
    said: list[str] = []
    where_unreadable(folder, Git(repo.path), MAIN, claims, say=said.append)
    return Ledger(folder, only_read=True).folded(), "".join(said)


def ordered(item: str, base: str) -> dict[str, Any]:
    job = {"item": item, "order": f"r1/{item}/1", "fence": 1, "slot": "w1", "base": base}
    return {"type": "ordered", **job, "touches": []}


def test_what_waits_for_a_person_still_does(repo: Repo) -> None:
    given_up = {"type": "ended", "item": "a", "order": "r1/a/1", "status": "parked", "reason": "too large"}
    lost = {"type": "lost", "item": "c", "order": "r1/c/1", "fence": 1}
    parked = {"type": "parked", "item": "b", "reason": "why"}
    folder = damaged(repo, ordered("a", "x"), given_up, parked, ordered("c", "x"), lost)
    plan, said = begun(folder, repo)
    assert plan.work("c").lost == 1
    assert {item: plan.work(item).why for item in plan.in_state("parked")} == {"a": "too large", "b": "why"}
    assert "Waiting for you: a (too large), b (why)." in said


def test_what_an_attempt_cost_that_is_given_back_counts_though_it_was_not_settled(repo: Repo) -> None:
    folder = damaged(repo)
    SharedBudget(folder).elsewhere("r1/a/1", 0.9)
    plan, said = begun(folder, repo)
    assert (plan.spent_usd, "The $0.90 spent so far counts toward the budget." in said) == (0.9, True)


def merged(repo: Repo, name: str, content: str) -> tuple[str, str]:
    """Returns a candidate of an item and the commit that has merged it."""
    candidate = repo.write(name, content).commit(f"Work on {name}").head
    repo.git("commit", "-q", "--amend", "-m", f"Work\n\nHarness-Item: {name}\nHarness-Candidate: {candidate}")
    return candidate, repo.head


def broken(repo: Repo) -> tuple[str, str, dict[str, Any]]:
    """Returns a run whose merged item a has broken z, its commit on the branch, and what is to be fixed."""
    base, (candidate, commit) = repo.head, merged(repo, "a", "x\n")
    fix = {"why": "red", "failing": ["z"], "met": ["z"]}
    folder = damaged(
        repo,
        ordered("a", base),
        {"type": "ended", "item": "a", "order": "r1/a/1", "status": "accepted", "commit": candidate},
        {"type": "batched", "members": ["a"], "commits": [commit], "base": base, "vouched": False},
        {"type": "landing", "batch": 1, "commit": commit, "count": 1},
        {"type": "landed", "batch": 1, "commit": commit},
        {"type": "reopened", "items": ["a"], "mend": fix},
    )
    return folder, commit, fix


def test_merged_work_that_is_to_be_fixed_still_is(repo: Repo) -> None:
    folder, commit, fix = broken(repo)
    work = begun(folder, repo)[0].work("a")
    assert (work.state, work.own, work.fix, work.breaks) == ("open", commit, fix, ("z",))


def test_what_was_fixed_and_merged_in_the_lost_part_is_not_broken(repo: Repo) -> None:
    folder, *_ = broken(repo)
    merged(repo, "a", "y\n")
    plan, _ = begun(folder, repo)
    assert (plan.work("a").fix, plan.broken) == (None, {})


def left_job(folder: str, repo: Repo, item: str, branch: str = MAIN) -> str:
    """Writes a job with its proven result, and returns its candidate."""
    job = Path(folder, "orders", f"r1.{item}.1")
    job.mkdir(parents=True)
    base, commit = repo.head, repo.git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", f"Work on {item}")
    known = {"id": f"r1/{item}/1", "item": item, "base": base, "branch": branch, "place": "/places/w1"}
    job.joinpath("order.json").write_text(json.dumps(known))
    job.joinpath("result.json").write_text(json.dumps({"status": "accepted", "commit": commit}))
    Git(repo.path).update_ref(ProjectRefs(project_id(folder)).candidate(item, 1), commit)
    return commit


def test_proven_work_keeps_the_order_of_its_proofs(repo: Repo) -> None:
    folder = damaged(repo)
    for at, item in enumerate("cab"):
        left_job(folder, repo, item)
        os.utime(Path(folder, f"orders/r1.{item}.1/result.json"), (at, at))
    plan, said = begun(folder, repo, **{item: f"r1/{item}/1" for item in "abc"})
    assert (plan.queue, "Proven, and merged next: c, a, b." in said) == (["c", "a", "b"], True)


@pytest.mark.parametrize("how", ["branch", "jobs"])
def test_proven_work_without_its_branch_or_job_becomes_a_rescue(repo: Repo, how: str) -> None:
    """It is not merged to a branch for which nobody has asked, and no later job takes the place of its ref."""
    folder = damaged(repo)
    commit = left_job(folder, repo, "a", branch="refs/heads/gone")
    if how == "jobs":
        Path(folder, "ledger.jsonl").unlink()
        shutil.rmtree(Path(folder, "orders"))
    plan, said = begun(folder, repo, a="r1/a/1")
    assert (plan.queue, plan.branch, "refs/harness/rescue/a" in said) == ([], MAIN, True)
    assert Git(repo.path).refs_below("refs/harness/") == {"refs/harness/rescue/a/1": commit}


@pytest.mark.parametrize("is_claimed", [True, False])
def test_files_of_a_merge_are_no_changes_of_a_person_unless_it_was_rejected(repo: Repo, is_claimed: bool) -> None:
    """The branch of a run that died between the two is moved, whatever else a person has staged."""
    folder, base = damaged(repo), repo.head
    candidate, landing = merged(repo, "a", "x\n")
    ahead = merged(repo, "b", "x\n")[1]
    repo.git("reset", "-q", "--hard", base)
    left_job(folder, repo, "a")
    refs = ProjectRefs(project_id(folder))
    result = Path(folder, "orders/r1.a.1/result.json")
    result.write_text(json.dumps({"status": "accepted", "commit": candidate}))
    for ref, commit in ((refs.candidate("a", 1), candidate), (refs.landing, ahead)):
        Git(repo.path).update_ref(ref, commit)
    repo.git("read-tree", "-m", "-u", base, landing)
    repo.write("mine", "x\n").stage("mine")
    plan, _ = begun(folder, repo, **({"a": "r1/a/1"} if is_claimed else {}))
    assert repo.head == (landing if is_claimed else base)
    assert repo.git("diff", "--cached", "--name-only").split() == (["mine"] if is_claimed else ["a", "mine"])
    assert plan.moving == ((base, landing) if is_claimed else None)


def test_a_link_in_place_of_the_next_journal_is_not_followed(repo: Repo, tmp_path: Path) -> None:
    folder, there = damaged(repo), tmp_path / "there"
    there.mkdir()
    mine = there / "ledger.jsonl.new"
    mine.write_text("mine\n")
    Path(folder, "anew").symlink_to(there)
    begun(folder, repo)
    assert mine.read_text() == "mine\n"


def test_what_is_not_pushed_belongs_to_the_branch_of_the_dead_run(repo: Repo) -> None:
    repo.git("branch", "other")
    assert begun(damaged(repo, branch="refs/heads/other"), repo)[0].branch == "refs/heads/other"


def test_the_line_is_said_before_the_old_journal_is_moved(repo: Repo) -> None:
    """A kill afterwards costs nobody the names of the rescues."""
    folder, seen = Path(damaged(repo)), list[bool]()
    kept = folder / "runs/damaged-1.jsonl"
    where_unreadable(
        str(folder), Git(repo.path), MAIN, {}, say=lambda line: seen.append(str(kept) in line and not kept.exists())
    )
    assert (seen, kept.exists()) == ([True], True)
