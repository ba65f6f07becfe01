"""Two task lists in one repository, whose items and slots are called alike: ``scale.md`` SC-14, SC-29."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness.parallel.ledger import project_id
from agent_harness.testing import HARNESS
from agent_harness.testing.repo import Repo
from agent_harness.testing.task_list_project import TaskListProject, task

from .test_parallel import until
from .test_parallel_fresh_start import DYING, folder_of

NAMES = ("one", "two")
AGENT = """\
cd "$HARNESS_STATE_ROOT"; mkdir -p out; echo "$HARNESS_TASK_ID" > out/$HARNESS_TASK_ID
echo $$ >> {folder}/starts.$(basename "$PWD")
touch {folder}/at.$(basename "$PWD").$HARNESS_TASK_ID; {waits}"""


def neighbours(path: Path, *tasks: str) -> list[TaskListProject]:
    """Two lists in folders of one repository, each with these tasks."""
    repo = Repo.with_files(path, {f"{name}/app.py": "one\n" for name in NAMES}, user_settings=True)
    (path / ".git/info/exclude").write_text("harness-*\n.harness*\ntools\n")
    found = []
    for name in NAMES:
        jobs = [task(each, validation={"command": f"grep -q . out/{each}", "timeout_seconds": 60}) for each in tasks]
        found.append(TaskListProject(path / name, *jobs, session_count=0))
        found[-1].repo = repo
    return found


def refs(repo: Repo, *folders: str) -> dict[str, str]:
    words = ("for-each-ref", "--format=%(refname) %(objectname)", *(f"refs/harness/{each}" for each in folders))
    return dict(line.split() for line in repo.git(*words).splitlines())


def died(work: TaskListProject, moment: str, *words: str) -> None:
    done = subprocess.run([sys.executable, str(DYING), moment, *words], cwd=work.root, capture_output=True, check=False)
    assert done.returncode == -9, done.stdout.decode() + done.stderr.decode()


def begun(folder: Path) -> int:
    """Return how many times an agent has begun."""
    return sum(each.read_text().count("\n") for each in folder.glob("starts.*"))


def items(repo: Repo) -> list[str]:
    return sorted(repo.git("log", "--format=%(trailers:key=Harness-Item,valueonly)").split())


def test_a_run_leaves_what_a_neighbour_has_proven_of_an_item_of_the_same_name(tmp_path: Path) -> None:
    """The first is killed once its task is proven; the other lands its own; then the first lands what it had."""
    one, two = neighbours(tmp_path / "shared", "task-001")
    words = ["run", "--workers", "1", "--agent", one.agent(AGENT.format(folder=tmp_path, waits="true"))]
    died(one, "before:ended", *words)
    proven = str(one.task("task-001").raw["landing"]["commit"])
    assert two.harness(*words).code == 0
    one.repo.git("gc", "-q", "--prune=now")
    ran = one.harness(*words)
    assert (ran.code, one.statuses()) == (0, ["completed"]), ran
    assert begun(tmp_path) == 2  # one of each list
    candidates = one.repo.git("log", "--format=%(trailers:key=Harness-Candidate,valueonly)").split()
    assert (proven in candidates, len(candidates)) == (True, 2)
    assert refs(one.repo, "work", "mend", "batch", "rescue") == {}


@pytest.mark.exhaustive
@pytest.mark.scenario
@pytest.mark.parametrize(
    "moment",
    ["before:ended", "before:batched", "gone", "merged-gone", "over"],
)
def test_what_a_version_before_had_proven_under_a_name_without_the_project_lands(tmp_path: Path, moment: str) -> None:
    """Upgraded in between: nobody is asked again; names that may be another project's are said, and stay.

    ``over``: another project's run of that version has written over the name.
    """
    (one, _) = neighbours(tmp_path / "shared", "task-001")
    words = ["run", "--workers", "1", "--agent", one.agent(AGENT.format(folder=tmp_path, waits="true"))]
    died(one, {"before:batched": moment, "merged-gone": "moved"}.get(moment, "before:ended"), *words)
    foreign = one.repo.git("commit-tree", "HEAD^{tree}", "-m", "Proven in another list")
    ((new, proven),) = refs(one.repo, "work").items()
    one.repo.git("update-ref", "-d", new)
    old = "refs/harness/work/task-001"
    one.repo.git("update-ref", f"{old}/1", foreign if moment == "over" else proven)
    one.repo.git("update-ref", f"{old}/5", foreign)
    (job,) = (folder_of(one) / "orders").glob("*/order.json")
    job.write_text(json.dumps({k: v for k, v in json.loads(job.read_text()).items() if k != "project"}))
    if moment.endswith("gone"):
        (folder_of(one) / "ledger.jsonl").unlink()
    if moment == "merged-gone":
        one.repo.write("one/out/task-001", "By a person\n").stage("one/out").commit("By a person", stage=False)
    ran = one.harness(*words)
    assert (ran.code, one.statuses(), begun(tmp_path)) == (0, ["completed"], 1), ran
    assert one.repo.git("log", "--format=%(trailers:key=Harness-Candidate,valueonly)").split() == [proven]
    assert {*refs(one.repo, "work")} == ({f"{old}/1", f"{old}/5"} if moment == "over" else {f"{old}/5"})
    assert refs(one.repo, "mend", "batch", "rescue") == {}
    assert f"{old}/5" in ran.out


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_two_lists_that_are_worked_on_at_once_land_all_of_both(tmp_path: Path) -> None:
    """Each attempt of the one meets one of the other; none is asked for twice."""
    names = ["task-001", "task-002", "task-003"]
    lists = neighbours(tmp_path / "shared", *names)
    met = f"until [ $(ls {tmp_path} | grep -c at...*$HARNESS_TASK_ID) -ge 2 ]; do sleep 0.05; done"
    words = ["run", "--workers", "2", "--agent", lists[0].agent(AGENT.format(folder=tmp_path, waits=met)), "--json"]
    runs = [subprocess.Popen([*HARNESS, *words], cwd=each.root, stdout=-1, stderr=-1, text=True) for each in lists]
    ended = [each.communicate(timeout=300) for each in runs]
    answers = [json.loads(out) for out, _ in ended]
    assert [each.returncode for each in runs] == [0, 0], ended
    assert [each.statuses() for each in lists] == [["completed"] * 3] * 2
    assert [each["attempts"] for each in answers] == [3, 3], ended
    assert items(lists[0].repo) == sorted(names * 2)
    assert lists[0].repo.git("ls-tree", "-r", "--name-only", "HEAD", "one/out", "two/out").count("\n") == 5
    assert lists[0].repo.status() == []
    ids = [project_id(str(folder_of(each))) for each in lists]
    assert {ref.split("/")[3] for ref in refs(lists[0].repo, "place")} == {*ids}
    assert refs(lists[0].repo, "work", "mend", "batch", "rescue") == {}


# ---- one after the other, each list in a work tree of its own --------------------------------------------------------


def in_two_work_trees(path: Path, command: str) -> tuple[TaskListProject, TaskListProject]:
    """Two lists of one repository, with a task of the same id; ``command`` proves the one in the first work tree."""
    repo = Repo.with_files(path / "one", {"app.py": "one\n"}, user_settings=True)
    (path / "one/.git/info/exclude").write_text("harness-*\n.harness*\ntools\n")
    repo.git("worktree", "add", "-q", "-b", "two", str(path / "two"))
    found = []
    for name, proof in (("one", command), ("two", "test -e two.txt")):
        job = task("task-001", validation={"command": proof, "timeout_seconds": 100}, max_attempts=1)
        found.append(TaskListProject(path / name, job, session_count=0))
        found[-1].edit(session_config={**found[-1].raw["session_config"], "fix_rounds": 0})
        found[-1].repo = Repo(path / name, init=False)
    return found[0], found[1]


@pytest.mark.scenario
def test_what_is_judged_is_kept_whatever_a_neighbour_of_the_same_name_does_and_collects(tmp_path: Path) -> None:
    """The other list proves its own task, and ends, while this one is judged; then the repository is collected."""
    at, go = tmp_path / "at", tmp_path / "go"
    one, two = in_two_work_trees(tmp_path, f"test -e one.txt && touch {at} && until [ -e {go} ]; do sleep 0.05; done")
    words = [*HARNESS, "run", "--agent", one.agent("echo 1 > one.txt")]
    with subprocess.Popen(words, cwd=one.root, stdout=-1, stderr=-1, text=True) as running:
        try:
            until(at.exists)
            judged = refs(one.repo, "candidates")
            assert two.harness("run", "--agent", two.agent("echo 2 > two.txt")).code == 0
            assert (len(judged), refs(one.repo, "candidates")) == (1, judged)
            one.repo.git("gc", "-q", "--prune=now")
        finally:
            go.touch()
        out, err = running.communicate(timeout=120)
    assert (running.returncode, one.statuses(), two.statuses()) == (0, ["completed"], ["completed"]), out + err
    assert (one.repo.git("show", "HEAD:one.txt"), two.repo.git("show", "HEAD:two.txt")) == ("1", "2")
    assert refs(one.repo, "candidates", "rescue") == {}


@pytest.mark.scenario
def test_a_task_names_no_rescue_of_a_neighbour_that_is_called_alike(tmp_path: Path) -> None:
    """Both fail; each list names, and tells the next agent of, what was taken back from its own attempt."""
    lists = in_two_work_trees(tmp_path, "test -e never")
    for each in lists:
        assert each.harness("run", "--agent", each.agent(f"echo {each.root.name} > wrong.txt")).code == 1
    for each in lists:
        (rescue,) = each.task("task-001").rescues
        assert each.repo.git("show", f"{rescue}:wrong.txt").strip() == each.root.name
