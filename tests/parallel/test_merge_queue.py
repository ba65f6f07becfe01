"""Candidates are put on a head as objects, and the branch is moved without overwriting anyone's files."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness.errors import UnsafeTree
from agent_harness.kernel.git import Git
from agent_harness.parallel import merge_queue
from agent_harness.parallel.merge_queue import Candidate, InTheWay
from agent_harness.testing.repo import Repo

MAIN = "refs/heads/main"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.with_files(tmp_path / "home", {"a": "1\n2\n3\n", "log": "", "old": "x\n"}, user_settings=True)


def made(repo: Repo, base: str, **files: str | None) -> str:
    """Return a commit on ``base`` that is on no branch."""
    repo.git("checkout", "-q", "--detach", base)
    for name, text in files.items():
        if text is None:
            repo.remove(name)
        else:
            repo.write(name, text)
    repo.commit("Work")
    commit = repo.head
    repo.git("checkout", "-q", "main")
    return commit


def test_two_candidates_of_one_base_go_on_top_of_one_another(repo: Repo) -> None:
    """SC-30: no index, no work tree; author and message are kept."""
    base, git = repo.head, Git(repo.path)
    one, two = made(repo, base, b="b\n"), made(repo, base, c="c\n", old=None)
    before = repo.status(), repo.files()
    proven = Candidate(commit=one, message="One\n\nHarness-Item: 1\n")
    first = merge_queue.put_on(git, base, proven, git.tree_of(one))
    both = merge_queue.merged(git, first, base, two)
    second = merge_queue.put_on(git, first, Candidate(commit=two, message="Two\n"), both.tree)
    assert both.conflicts == ()
    assert repo.git("ls-tree", "--name-only", second).split() == ["a", "b", "c", "log"]
    tip = merge_queue.tip_of(git, base, [first, second], ["1", "2"])
    assert repo.git("log", "--first-parent", "--format=%s", tip).splitlines() == ["Land 1, 2", "First"]
    assert (
        repo.git("log", "-1", "--format=%an %(trailers:key=Harness-Item,valueonly)", first).strip() == "Test Person 1"
    )
    assert (repo.status(), repo.files()) == before


def test_a_file_that_was_only_touched_is_in_nobodys_way(repo: Repo) -> None:
    """A copied repository, or a tool that writes the same content: there is nothing that a person could commit."""
    git, base = Git(repo.path), repo.head
    new = made(repo, base, a="new\n")
    os.utime(repo.path / "a", (1, 1))
    merge_queue.move(git, MAIN, base, new)
    assert (repo.head, repo.read("a"), repo.status()) == (new, b"new\n", [])


def test_a_conflict_is_an_answer_with_the_markers_in_its_tree(repo: Repo) -> None:
    """SC-31."""
    base, git = repo.head, Git(repo.path)
    one, two = made(repo, base, a="1\none\n3\n"), made(repo, base, a="1\ntwo\n3\n")
    found = merge_queue.merged(git, one, base, two)
    assert found.conflicts == ("a",)
    commit = git.commit_tree(found.tree, [base], "x")
    assert merge_queue.marked(git, commit, ["a", "old", "not-there"]) == ["a"]
    assert merge_queue.marked(git, one, ["a"]) == []


def test_of_a_union_file_the_lines_of_both_sides_are_kept(repo: Repo) -> None:
    base, git = repo.head, Git(repo.path)
    one, two = made(repo, base, log="one\n"), made(repo, base, log="two\n")
    assert merge_queue.merged(git, one, base, two).conflicts == ("log",)
    found = merge_queue.merged(git, one, base, two, ["log"])
    assert (found.conflicts, repo.git("show", f"{found.tree}:log")) == ((), "one\ntwo")


def test_a_candidate_that_changes_nothing_makes_no_commit(repo: Repo) -> None:
    git = Git(repo.path)
    candidate = Candidate(commit=repo.head, message="Nothing\n")
    assert merge_queue.put_on(git, repo.head, candidate, git.tree_of(repo.head)) == repo.head


def test_the_branch_and_its_files_move_together_and_a_dirty_file_elsewhere_stays(repo: Repo) -> None:
    """SC-36."""
    base = repo.head
    new = made(repo, base, a="new\n", old=None, b="b\n")
    repo.write("mine", "m\n").write("log", "changed\n")
    merge_queue.move(Git(repo.path), MAIN, base, new)
    assert repo.head == new
    assert sorted(repo.status()) == [" M log", "?? mine"]
    merge_queue.move(Git(repo.path), MAIN, base, new)  # once more does nothing


@pytest.mark.parametrize("path", ["a", "b"])
def test_what_a_person_has_there_is_named_and_everything_stays(repo: Repo, path: str) -> None:
    """SC-36."""
    base = repo.head
    new = made(repo, base, a="new\n", b="b\n")
    repo.write(path, "mine\n")
    before = repo.files(), repo.git("ls-files", "-s")
    with pytest.raises(InTheWay, match=path):
        merge_queue.move(Git(repo.path), MAIN, base, new)
    assert (repo.files(), repo.git("ls-files", "-s"), repo.head) == (*before, base)


def test_a_branch_that_somebody_moved_is_left_alone(repo: Repo) -> None:
    base = repo.head
    new = made(repo, base, a="new\n")
    repo.write("p", "p\n").commit("Person")
    with pytest.raises(UnsafeTree, match="moved"):
        merge_queue.move(Git(repo.path), MAIN, base, new)


@pytest.mark.parametrize("written", [["a"], ["b"], ["old"], ["a", "b", "old"]])
def test_a_move_that_was_killed_among_the_files_is_carried_to_its_end(repo: Repo, written: list[str]) -> None:
    """SC-36: some files are written, the index and the branch are as before."""
    base = repo.head
    new = made(repo, base, a="new\n", b="b\n", old=None)
    for path in written:
        if path == "old":
            repo.remove(path)
        else:
            repo.write(path, repo.git_bytes("show", f"{new}:{path}"))
    merge_queue.move(Git(repo.path), MAIN, base, new)
    assert (repo.head, repo.status()) == (new, [])


MOVE = """
import sys
from agent_harness.kernel.git import Git
from agent_harness.parallel import merge_queue
merge_queue.move(Git(sys.argv[1]), "refs/heads/main", *sys.argv[2:])
"""


def test_however_many_files_a_killed_move_has_written_git_is_started_as_often(repo: Repo, tmp_path: Path) -> None:
    """SC-36: also where names are of two lines."""
    log, real = tmp_path / "started", shutil.which("git")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").write_text(f'#!/bin/sh\necho >> {log}\nexec {real} "$@"\n')
    (tmp_path / "bin/git").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    starts: list[int] = []
    for number, many in enumerate((1, 12)):
        base = repo.head
        files = {f"{number}/line\n{each}": f"{each}\n" for each in range(many)}
        new = made(repo, base, **files)
        for name, text in files.items():
            repo.write(name, text)
        log.write_text("")
        subprocess.run([sys.executable, "-c", MOVE, repo.path, base, new], env=environment, check=True)
        starts.append(len(log.read_text().splitlines()))
        assert (repo.head, repo.status()) == (new, [])
    assert starts[0] == starts[1] > 0


def test_a_file_that_is_gone_again_is_none_and_those_after_it_count(repo: Repo) -> None:
    """SC-36: an unreadable file counts as a person's."""
    base, git = repo.head, Git(repo.path)
    new = made(repo, base, a="new\n", b="b\n", c="c\n")
    for name in "abc":
        repo.write(name, repo.git_bytes("show", f"{new}:{name}"))
    wanted = {path: after for path, (_, after) in git.differences(base, new).items()}
    assert merge_queue.already_there(git, wanted) == [b"a", b"b", b"c"]
    (repo.path / "b").chmod(0)
    expected = [b"a", b"b", b"c"] if os.access(repo.path / "b", os.R_OK) else [b"a", b"c"]
    assert merge_queue.already_there(git, wanted) == expected
    repo.write("a", b"other\n")
    assert merge_queue.already_there(git, wanted) == expected[1:]


def test_a_branch_that_is_checked_out_nowhere_moves_as_a_ref(repo: Repo) -> None:
    base = repo.head
    new = made(repo, base, a="new\n")
    repo.git("switch", "-q", "-c", "other")
    merge_queue.move(Git(repo.path), MAIN, base, new)
    assert (repo.git("rev-parse", "main"), repo.read("a"), repo.status()) == (new, b"1\n2\n3\n", [])
