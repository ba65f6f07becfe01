"""Refs and objects that are read from their files, or through one process: always what git itself says."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from agent_harness.errors import HarnessError, UnsafeTree
from agent_harness.kernel.git import DETACHED, Git, GitFailed
from agent_harness.kernel.git.batch import Batch
from agent_harness.kernel.git.objects import Objects
from agent_harness.kernel.git.operation_lock import stored_entries
from agent_harness.testing.repo import Repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """Four commits, one of them a merge, with files of every kind, tags of both kinds and odd names."""
    repo = (
        Repo(tmp_path / "project").write("a", "one\n").write("dir/b", "two\n").write("dir/c", "three\n").commit("First")
    )
    repo.write("a", "changed\n").write("dir/deep/d", "new\n").remove("dir/c").commit("Second")
    repo.git("tag", "light")
    repo.git("tag", "-a", "-m", "A tag", "heavy")
    repo.branch("side").write("side.txt", "s\n").commit("Beside")
    repo.git("checkout", "--quiet", "main")
    repo.write("name with spaces", "x").write("new\nline", "y").write("dir/b", "two\nmore\n").commit("Third")
    (repo.path / "run.sh").write_text("#!/bin/sh\n")
    (repo.path / "run.sh").chmod(0o755)
    (repo.path / "link").symlink_to("a")
    repo.stage().git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    repo.commit("Kinds", stage=False)
    repo.git("merge", "--quiet", "--no-ff", "-m", "Both", "side")
    (repo.path / "a").unlink()
    (repo.path / "a").symlink_to("dir/b")
    (repo.path / "run.sh").chmod(0o644)
    repo.stage("a", "run.sh").commit("Other kinds", stage=False)
    return repo


def packed(repo: Repo) -> None:
    repo.git("repack", "-q", "-a", "-d")
    repo.git("pack-refs", "--all")
    repo.git("prune-packed")


def half_packed(repo: Repo) -> None:
    packed(repo)
    repo.write("later", "l").commit("Later")
    repo.git("tag", "-f", "light")
    repo.git("update-ref", "-d", "refs/heads/side")


def detached(repo: Repo) -> None:
    repo.git("checkout", "--quiet", "HEAD^1")


def borrowed(repo: Repo) -> None:
    other = repo.path.with_name("other")
    os.rename(repo.path / ".git/objects", other)
    (repo.path / ".git/objects/info").mkdir(parents=True)
    (repo.path / ".git/objects/info/alternates").write_text(f"{other}\n")


def shallow(repo: Repo) -> None:
    tips = [repo.git("rev-parse", f"HEAD~{back}") for back in (1, 2)]
    (repo.path / ".git/shallow").write_text("".join(f"{tip}\n" for tip in sorted(tips)))


def symbolic(repo: Repo) -> None:
    repo.git("symbolic-ref", "refs/heads/other", "refs/heads/main")
    repo.git("symbolic-ref", "HEAD", "refs/heads/other")


STATES: dict[str, Callable[[Repo], None]] = {
    "loose": lambda _: None,
    "packed": packed,
    "half packed": half_packed,
    "detached": detached,
    "objects of another repository": borrowed,
    "shallow": shallow,
    "a branch that is another": symbolic,
}
NAMES = (
    *("HEAD", "HEAD^1", "HEAD^2", "HEAD^1^2", "HEAD^1^3", "HEAD~2", "main", "side", "light", "heavy", "@"),
    *("refs/heads/main", "refs/heads/side", "refs/heads/side^1", "refs/tags/light", "refs/tags/heavy", "refs/heads/no"),
    *("refs/heads/other", "refs/heads/", "refs/heads", "refs", "", "-x", "no such name", "refs/../HEAD", "HEAD:dir"),
    *("1" * 40, "1" * 39, "g" * 40),
)


def test_loose_objects_that_are_borrowed_cost_no_process(repo: Repo) -> None:
    """As in a place of a parallel run, whose objects are the project's."""
    head, tree = repo.git("rev-parse", "HEAD", "HEAD^{tree}").split()
    borrowed(repo)

    def ask() -> AbstractContextManager[Batch]:
        raise AssertionError("a process was started")

    with Objects(Git(repo.path).repository, ask) as objects:
        assert objects.named("HEAD") == head
        assert objects.tree_of(head) == tree
        assert b"run.sh" in objects.tree(tree)


def by_git(repo: Repo, *words: str) -> str | None:
    return repo.git("rev-parse", "--verify", "--quiet", "--end-of-options", *words, check=False) or None


@pytest.fixture(params=STATES)
def state(request: pytest.FixtureRequest, repo: Repo) -> Repo:
    """The repository in one of the forms that git may give it."""
    STATES[request.param](repo)
    return repo


def test_names_mean_what_git_says(state: Repo) -> None:
    git = Git(state.path)
    ids = state.git("rev-list", "--all").split()
    trees = [state.git("rev-parse", f"{oid}^{{tree}}") for oid in ids]
    for name in (*NAMES, *ids, *trees, *(oid[:9] for oid in ids), *(f"{oid}^1" for oid in ids)):
        assert git.commit_of(name) == by_git(state, f"{name}^{{commit}}"), name
        expected = by_git(state, f"{name}^{{tree}}")
        if expected:
            assert git.tree_of(name) == expected
        else:
            with pytest.raises(GitFailed):
                git.tree_of(name)


def test_head_is_what_git_says(state: Repo) -> None:
    head = Git(state.path).look()
    assert (head.commit, head.tree) == (state.git("rev-parse", "HEAD"), state.git("rev-parse", "HEAD^{tree}"))
    assert head.branch == (state.git("symbolic-ref", "--quiet", "HEAD", check=False) or DETACHED)


def test_trees_differ_as_git_says(state: Repo) -> None:
    git = Git(state.path)
    commits = state.git("rev-list", "--all").split()
    for old in commits:
        for new in commits:
            raw = state.git_bytes("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new).split(
                b"\0"
            )
            found = git.differences(old, new)
            expected = list(raw[1::2])
            assert list(found) == expected
            assert [change.status for change in git.changed_paths(old, new)] == [
                row.decode()[-1:] for row in raw[:-1:2]
            ]
            for row, (before, after) in zip(raw[:-1:2], found.values(), strict=True):
                words = row.decode().removeprefix(":").split()
                assert [before.mode, after.mode] == words[:2]
                assert [before.oid or "0" * 40, after.oid or "0" * 40] == words[2:4]
    everything = state.git_bytes("ls-tree", "-r", "-z", "--name-only", "HEAD").split(b"\0")[:-1]
    assert list(git.differences(None, "HEAD")) == everything


def test_trees_differ_at_any_depth(repo: Repo) -> None:
    path = "d/" * 1500 + "f"
    repo.git("update-index", "--add", "--cacheinfo", f"100644,{repo.git('rev-parse', 'HEAD:dir/b')},{path}")
    tree = repo.git("write-tree")
    git = Git(repo.path)
    assert list(git.differences("HEAD", tree)) == [path.encode()]
    assert git.show(tree, path) == git.show("HEAD", "dir/b")


def test_files_hold_what_git_says(state: Repo) -> None:
    git = Git(state.path)
    paths = [
        os.fsdecode(path) for path in state.git_bytes("ls-tree", "-r", "-z", "--name-only", "HEAD").split(b"\0")[:-1]
    ]
    for path in (*paths, "dir", "dir/", "no", "a/b", "dir/b/c", "", "./a", "../a"):
        done = subprocess.run(
            ["git", "cat-file", "blob", f"HEAD:{path}"], cwd=state.path, capture_output=True, check=False
        )
        expected = done.stdout if done.returncode == 0 and not path.startswith(".") else None
        assert git.show("HEAD", path) == expected, path
    assert git.show("refs/heads/no", "a") is None


def test_ancestors_are_those_that_git_knows(repo: Repo) -> None:
    git = Git(repo.path)
    commits = repo.git("rev-list", "--all").split()
    for older in commits:
        for newer in commits:
            done = subprocess.run(["git", "merge-base", "--is-ancestor", older, newer], cwd=repo.path, check=False)
            assert git.ancestor(older, newer) == (done.returncode == 0)
    assert not git.ancestor("1" * 40, "HEAD")
    assert git.commits_between(commits[0], commits[0]) == []


def test_refs_below_a_folder_are_those_that_git_lists(state: Repo) -> None:
    git = Git(state.path)
    for folder in ("refs/tags/", "refs/heads/", "refs/none/"):
        rows = state.git("for-each-ref", "--format=%(refname) %(objectname)", folder).splitlines()
        assert git.refs_below(folder) == dict(row.split(" ") for row in rows)


def test_a_linked_work_tree_has_a_head_of_its_own_and_shares_refs(repo: Repo, tmp_path: Path) -> None:
    repo.git("worktree", "add", "--quiet", "-b", "linked", str(tmp_path / "linked"), "HEAD^1")
    git = Git(tmp_path / "linked")
    assert git.branch() == "refs/heads/linked"
    assert git.head() == repo.git("rev-parse", "HEAD^1")
    assert git.commit_of("refs/heads/main") == repo.git("rev-parse", "HEAD")
    subprocess.run(["git", "update-ref", "refs/worktree/own", "HEAD"], cwd=tmp_path / "linked", check=True)
    assert git.commit_of("refs/worktree/own") == git.head()
    assert Git(repo.path).commit_of("refs/worktree/own") is None


def test_ids_of_another_length_are_read_too(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", "--object-format=sha256", str(tmp_path)], check=True)
    repo = Repo(tmp_path).write("dir/a", "one\n").commit().write("dir/a", "two\n").commit()
    git = Git(tmp_path)
    assert git.head() == repo.git("rev-parse", "HEAD")
    assert git.tree_of("HEAD^1") == repo.git("rev-parse", "HEAD^1^{tree}")
    assert git.show("HEAD", "dir/a") == b"two\n"
    assert [tuple(change) for change in git.changed_paths("HEAD^1", "HEAD")] == [("M", "dir/a")]


QUESTIONS = """\
import sys
from agent_harness.kernel.git import Git
git = Git(".")
with git.view():
    print(git.head(), git.branch(), git.tree_of("HEAD^1"), git.commit_of("refs/tags/light"), git.commit_of("refs/no"))
    print(git.show("HEAD", "dir/b"), [c.path for c in git.changed_paths("HEAD^1", "HEAD")])
    print(git.ancestor("HEAD^1", "HEAD"), git.commits_between("HEAD", "HEAD"))
"""


def answers(repo: Repo, path: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", QUESTIONS],
        cwd=repo.path,
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_loose_objects_are_read_where_there_is_no_git(repo: Repo, tmp_path: Path) -> None:
    assert repo.git("rev-parse", "HEAD") in answers(repo, str(tmp_path))


def test_packed_objects_take_one_process_for_all_questions_within_a_view(repo: Repo, tmp_path: Path) -> None:
    loose = answers(repo, os.environ["PATH"])
    packed(repo)
    log, program = tmp_path / "log", tmp_path / "bin" / "git"
    program.parent.mkdir()
    real = subprocess.run(["sh", "-c", "command -v git"], capture_output=True, text=True, check=True).stdout.strip()
    program.write_text(f'#!/bin/sh\necho "$1" >>"{log}"\nexec "{real}" "$@"\n')
    program.chmod(0o755)
    assert answers(repo, f"{program.parent}:{os.environ['PATH']}") == loose
    assert log.read_text().split() == ["cat-file"]


def test_questions_that_follow_a_change_see_it(repo: Repo) -> None:
    packed(repo)
    git = Git(repo.path)
    with git.view():
        before = git.tree_of("HEAD")
        assert git.show("HEAD", "later") is None
        repo.write("later", "l\n").commit("Later")
        packed(repo)
        assert git.show("HEAD", "later") == b"l\n"
        assert git.tree_of("HEAD") != before


def test_an_object_that_is_not_what_its_name_says_is_not_believed(repo: Repo) -> None:
    oid = repo.git("rev-parse", "HEAD:dir/b")
    other = repo.git("rev-parse", "HEAD:side.txt")
    objects = repo.path / ".git/objects"
    target = objects / oid[:2] / oid[2:]
    target.unlink()
    target.write_bytes((objects / other[:2] / other[2:]).read_bytes())
    with pytest.raises(HarnessError):
        Git(repo.path).show("HEAD", "dir/b")


@pytest.mark.parametrize("place", ["HEAD", "refs/heads/main", "packed-refs"])
def test_a_pipe_in_the_place_of_a_ref_makes_nobody_wait(place: str, repo: Repo) -> None:
    packed(repo)
    path = repo.path / ".git" / place
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    with pytest.raises(UnsafeTree, match="not a regular file"):
        Git(repo.path).commit_of("HEAD")


def test_a_head_that_names_a_file_outside_is_not_read(repo: Repo) -> None:
    (repo.path / "outside").write_text(repo.git("rev-parse", "HEAD") + "\n")
    (repo.path / ".git/HEAD").write_text("ref: refs/heads/../../../outside\n")
    with pytest.raises(HarnessError):
        Git(repo.path).look()


@pytest.mark.parametrize("version", [2, 3, 4])
def test_an_index_is_read_as_git_reads_it(version: int, repo: Repo) -> None:
    repo.write("long/" + "/".join(["x" * 200] * 19), "l").stage()
    repo.git("update-index", f"--index-version={version}")
    if version == 3:
        repo.git("update-index", "--skip-worktree", "dir/b")
    found = stored_entries(repo.path / ".git/index")
    if version == 4:
        assert found is None
        return
    listed = repo.git_bytes("ls-files", "-s", "-z").split(b"\0")[:-1]
    rows = [(record.partition(b"\t")[2], *record.decode().split()[:2]) for record in listed]
    assert [(entry.path, f"{entry.mode:06o}", entry.oid) for entry in found or []] == rows


def test_an_index_in_two_parts_is_left_to_git(repo: Repo) -> None:
    repo.git("update-index", "--split-index")
    repo.write("more", "m").stage()
    assert stored_entries(repo.path / ".git/index") is None
