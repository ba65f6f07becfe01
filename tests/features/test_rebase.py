"""Commits put on top of other ones, as objects; real repositories."""

import subprocess
from pathlib import Path

from agent_harness.kernel.git import Git
from agent_harness.kernel.git.joining import on_top_of
from agent_harness.protocols.features import repository


def sh(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path, name: str, text: str, message: str, *words: str) -> str:
    (folder / name).write_text(text)
    sh(folder, "add", "-A")
    sh(folder, "commit", "-qm", message, *words)
    return sh(folder, "rev-parse", "HEAD")


def two_lines(folder: Path, theirs: str, ours: str) -> tuple[Git, str, str]:
    """A repository whose branch ``theirs`` and whose main have each gone on from the same commit."""
    repository.make_repository(folder)
    commit(folder, "a.txt", "one\n", "start")
    sh(folder, "switch", "-qc", "theirs")
    base = commit(folder, theirs, "theirs\n", "Theirs")
    sh(folder, "switch", "-q", "main")
    tip = commit(folder, ours, "ours\n", "Ours\n\nWith a body.", "--author", "Agent <agent@localhost>")
    return Git(folder), base, tip


def test_commits_keep_author_and_message_and_nothing_else_moves(tmp_path: Path) -> None:
    """C30, UAH-380."""
    git, base, first = two_lines(tmp_path, "b.txt", "c.txt")
    second = commit(tmp_path, "c.txt", "ours, more\n", "Ours again")
    joined = on_top_of(git, base, second)
    assert joined.problem is None
    assert sh(tmp_path, "rev-parse", "HEAD") == second
    assert sh(tmp_path, "status", "--porcelain") == ""
    assert set(joined.renamed or {}) == {first, second}
    lines = sh(tmp_path, "log", "--format=%an|%B", f"{base}..{joined.tip}").split("\n")
    assert [line for line in lines if line] == ["Test Person|Ours again", "Agent|Ours", "With a body."]
    assert sh(tmp_path, "ls-tree", "--name-only", joined.tip).split() == ["a.txt", "b.txt", "c.txt"]
    assert sh(tmp_path, "show", f"{joined.tip}:c.txt") == "ours, more"


def test_a_conflict_is_an_answer_and_leaves_the_repository_alone(tmp_path: Path) -> None:
    """UAH-379 C30."""
    git, base, tip = two_lines(tmp_path, "a.txt", "a.txt")
    joined = on_top_of(git, base, tip)
    assert joined.problem == f"commit {tip[:10]} conflicts with the remote branch"
    assert git.operation_under_way() is None
    assert sh(tmp_path, "status", "--porcelain") == ""


def test_a_merge_of_our_own_becomes_one_commit(tmp_path: Path) -> None:
    """C30: the line stays straight, and nothing of the merge is lost."""
    git, base, tip = two_lines(tmp_path, "b.txt", "c.txt")
    sh(tmp_path, "switch", "-qc", "side", f"{tip}~1")
    commit(tmp_path, "d.txt", "side\n", "Side")
    sh(tmp_path, "switch", "-q", "main")
    sh(tmp_path, "merge", "-q", "--no-edit", "side")
    joined = on_top_of(git, base, sh(tmp_path, "rev-parse", "HEAD"))
    assert sh(tmp_path, "rev-list", "--merges", f"{base}..{joined.tip}") == ""
    assert sh(tmp_path, "ls-tree", "--name-only", joined.tip).split() == ["a.txt", "b.txt", "c.txt", "d.txt"]


def test_two_histories_without_a_common_commit_are_not_joined(tmp_path: Path) -> None:
    """C30."""
    git, _, tip = two_lines(tmp_path, "b.txt", "c.txt")
    sh(tmp_path, "switch", "-q", "--orphan", "other")
    other = commit(tmp_path, "x.txt", "x\n", "Other")
    assert on_top_of(git, other, tip).problem == "the local and the remote branch have no common commit"


def test_a_landing_of_several_stays_a_merge_over_the_commits_of_its_members(tmp_path: Path) -> None:
    """SC-37, SC-39."""
    git, base, tip = two_lines(tmp_path, "b.txt", "c.txt")
    sh(tmp_path, "switch", "-qc", "chain")
    one = commit(tmp_path, "d.txt", "d\n", "One\n\nHarness-Item: d")
    two = commit(tmp_path, "e.txt", "e\n", "Two")
    sh(tmp_path, "switch", "-q", "main")
    sh(tmp_path, "merge", "-q", "--no-ff", "-m", "Land d, e", "chain")
    merge = sh(tmp_path, "rev-parse", "HEAD")
    joined = on_top_of(git, base, merge)
    assert {*joined.renamed} == {tip, one, two, merge}
    assert sh(tmp_path, "log", "--first-parent", "--format=%s", f"{base}..{joined.tip}").split("\n") == [
        "Land d, e",
        "Ours",
    ]
    assert sh(tmp_path, "log", "--format=%(trailers:key=Harness-Item,valueonly)", joined.renamed[one]).split() == ["d"]
    assert sh(tmp_path, "rev-parse", f"{joined.tip}^2") == joined.renamed[two]
