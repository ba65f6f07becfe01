"""Changes that the harness makes to a work tree outside of sessions; real repositories."""

import subprocess
from pathlib import Path

import pytest

from agent_harness.errors import UnsafeTree
from agent_harness.kernel.git import Git
from agent_harness.protocols.features.repository import (
    commit_files,
    dirty_paths,
    keep_out_of_sight,
    line_counts,
    make_repository,
    set_aside,
)


def sh(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def repository(folder: Path) -> Git:
    make_repository(folder)
    (folder / "kept.py").write_text("a = 1\n")
    sh(folder, "add", "-A")
    sh(folder, "commit", "-qm", "start")
    return Git(folder)


def test_changes_set_aside_are_in_one_named_stash_and_come_back_whole(tmp_path: Path) -> None:
    git = repository(tmp_path)
    (tmp_path / "kept.py").write_text("a = 2\n")
    (tmp_path / "new ü\n.txt").write_text("mine\n")
    (tmp_path / "story.txt").write_text("stays\n")
    set_aside(git, "harness session 4", ["story.txt"])
    assert dirty_paths(git) == ["story.txt"]
    assert (tmp_path / "kept.py").read_text() == "a = 1\n"
    assert "harness session 4" in sh(tmp_path, "stash", "list")
    sh(tmp_path, "stash", "pop")
    assert (tmp_path / "kept.py").read_text() == "a = 2\n"
    assert (tmp_path / "new ü\n.txt").read_text() == "mine\n"


def test_one_file_is_committed_and_the_rest_stays_staged_as_it_was(tmp_path: Path) -> None:
    git = repository(tmp_path)
    (tmp_path / "features.json").write_text("{}")
    (tmp_path / "other.py").write_text("b = 1\n")
    sh(tmp_path, "add", "other.py", "features.json")
    commit_files(git, ["features.json"], "harness: Feature #1 skipped")
    assert sh(tmp_path, "show", "--stat", "--format=%s", "HEAD").startswith("harness: Feature #1 skipped")
    assert sh(tmp_path, "diff", "--cached", "--name-only").split() == ["other.py"]


def test_lines_are_counted_from_the_commit_and_not_from_the_folder(tmp_path: Path) -> None:
    git = repository(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "odd name.py").write_text("1\n2\n3\n")
    (tmp_path / "data.bin.py").write_bytes(b"\0\1\2\n")
    (tmp_path / "notes.md").write_text("x\n")
    sh(tmp_path, "add", "-A")
    sh(tmp_path, "commit", "-qm", "more")
    (tmp_path / "kept.py").write_text("changed\n" * 50)
    head = git.head()
    assert head
    assert line_counts(git, head, (".py",)) == {"data.bin.py": 0, "kept.py": 1, "src/odd name.py": 3}


def test_a_staged_rename_is_set_aside_and_comes_back(tmp_path: Path) -> None:
    git = repository(tmp_path)
    sh(tmp_path, "mv", "kept.py", "renamed.py")
    (tmp_path / "new.txt").write_text("mine\n")
    set_aside(git, "harness session 5", ["story.txt"])
    assert dirty_paths(git) == []
    sh(tmp_path, "stash", "pop", "--index")
    assert (tmp_path / "renamed.py").read_text() == "a = 1\n"
    assert (tmp_path / "new.txt").read_text() == "mine\n"


def test_what_cannot_be_set_aside_is_named_and_nothing_is_called_clean(tmp_path: Path) -> None:
    git = repository(tmp_path)
    (tmp_path / "kept.py").write_text("changed\n")
    (tmp_path / ".git/index.lock").touch()
    with pytest.raises(UnsafeTree, match=r"kept\.py"):
        set_aside(git, "harness session 6", [])


def test_another_repository_below_the_project_is_nobodys_dirt(tmp_path: Path) -> None:
    git = repository(tmp_path)
    (tmp_path / "nested").mkdir()
    repository(tmp_path / "nested")
    sh(tmp_path, "worktree", "add", "-q", ".claude/worktrees/one", "-b", "side")
    assert dirty_paths(git) == []
    (tmp_path / "kept.py").write_text("changed\n")
    set_aside(git, "harness session 6", [])
    assert dirty_paths(git) == []
    assert (tmp_path / "nested/kept.py").is_file()


def test_the_state_is_out_of_sight_wherever_it_is(tmp_path: Path) -> None:
    """UAH-083, UAH-205, C26: also without its line in .gitignore; a line that is there is enough."""
    git = repository(tmp_path)
    (tmp_path / ".state").mkdir()
    (tmp_path / ".state/session_state.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("mine")
    for _ in range(2):
        keep_out_of_sight(git, ".state")
    assert dirty_paths(git) == ["notes.txt"]
    rules = tmp_path / ".git/info/exclude"
    assert rules.read_text().count("/.state/\n") == 1
    (tmp_path / ".gitignore").write_text(".other/\n")
    keep_out_of_sight(git, ".other")
    assert "/.other/" not in rules.read_text()
