"""Random repositories: a task's commit holds what the attempt changed, and the person's files and index stay."""

import os
import shutil
from pathlib import Path
from random import Random

import pytest

from agent_harness.protocols.tasklist.attempts import commits, rollback
from agent_harness.testing.repo import Repo
from agent_harness.testing.task_list_project import TaskListProject

NAMES = ("a", "b.sh", "d", "d/x", "d/y", "e/z", "f f", "ü")


def change(repo: Repo, random: Random) -> None:
    """One edit, removal or staging of one path."""
    path = random.choice(NAMES)
    what = random.randrange(6)
    if what < 3:
        clear(repo, path)
        repo.write(path, f"{random.randrange(3)}\n", executable=random.random() < 0.2)
    elif what == 3:
        clear(repo, path)
        repo.link(path, f"to {random.randrange(2)}")
    elif what == 4:
        clear(repo, path)
    else:
        repo.git("add", "--all", "--", path, check=False)


def clear(repo: Repo, path: str) -> None:
    """Nothing is at this path, and only folders are above it."""
    for name in (*reversed(Path(path).parents), Path(path)):
        full = repo.path / name
        if full.is_symlink() or full.is_file():
            full.unlink()
    if (repo.path / path).is_dir():
        shutil.rmtree(repo.path / path)


def tree(repo: Repo, name: str) -> dict[str, str]:
    """Paths of a commit, or of the index, with mode and object."""
    words = ("ls-files", "-s", "-z") if name == "index" else ("ls-tree", "-r", "-z", name)
    lines = [line.partition("\t") for line in repo.git(*words).split("\0") if line]
    return {path: " ".join([facts.split()[0], facts.split()[1 if name == "index" else 2]]) for facts, _, path in lines}


def files_of(repo: Repo) -> dict[str, str]:
    """Every file as git would store it."""
    found = {}
    for path, content in repo.files().items():
        if "harness" not in path:
            full = repo.path / path
            mode = "120000" if full.is_symlink() else "100755" if full.stat().st_mode & 0o100 else "100644"
            data = os.fsencode(os.readlink(full)) if full.is_symlink() else content
            found[path] = f"{mode} {repo.git('hash-object', '--stdin', input=data)}"
    return found


@pytest.mark.kept("0", "1")
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.scenario) for n in range(2, 8))])
def test_random_repositories(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    project = TaskListProject.with_sources(tmp_path, root=tmp_path / "list").add()
    repo = project.repo
    for _ in range(8):
        change(repo, random)
    repo.commit("Second")
    for _ in range(6):
        change(repo, random)
    staged, at_claim, base = tree(repo, "index"), files_of(repo), tree(repo, "HEAD")
    caller = project.hold()
    for number in range(8):
        change(repo, random)
        if number == 3 and seed % 3 == 0:
            repo.git("commit", "-q", "-m", "by the agent", check=False)
    head, now = tree(repo, "HEAD"), files_of(repo)
    before = repo.head
    made = commits.commit_work(caller, project.task(), "[task-001] x")
    made_one = made != before
    assert files_of(repo) == now
    commit, index = tree(repo, str(made)), tree(repo, "index")
    new = {path for path in now if at_claim.get(path) != now[path]}
    for path in {*at_claim, *now, *head, *staged, *base}:
        is_own = base.get(path) != at_claim.get(path) == now.get(path) and not in_the_way(path, new)
        assert commit.get(path) == (head if is_own else now).get(path), path
        if not made_one:
            continue
        if base.get(path) == head.get(path) == commit.get(path) and not in_the_way(path, {*commit}):
            assert index.get(path) == staged.get(path), path
        else:
            assert index.get(path) == commit.get(path), path
    assert commits.commit_work(caller, project.task(), "again") == made == repo.head
    assert rollback.evidence(caller, project.task()).known


def in_the_way(path: str, others: set[str]) -> bool:
    """Return True if one of the other paths is above or below this one."""
    return any(other.startswith(f"{path}/") or path.startswith(f"{other}/") for other in others)
