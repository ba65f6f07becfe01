"""Changes of a turn in git's own files are repaired at its end, without loss of work."""

import os
import shlex
from pathlib import Path

import pytest

from agent_harness.kernel.git import Git, repair
from agent_harness.session import turn_end
from agent_harness.testing.repo import Repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path).write("a", "one\n").stage("a").commit("First", stage=False)


DISORDER = {
    "index.lock": "touch .git/index.lock",
    "locks of refs": "touch .git/HEAD.lock .git/refs/heads/main.lock .git/packed-refs.lock",
    "packed-refs": "git pack-refs --all; echo >>.git/packed-refs",
    "the index": "echo junk >.git/index",
    "HEAD": "echo junk >.git/HEAD",
    "no HEAD": "rm .git/HEAD",
    "the branch": "echo junk >.git/refs/heads/main",
    "core.worktree": "git config core.worktree /nonexist",
    "core.bare": "git config core.bare true",
    "an extension": "git config extensions.foo bar; git config core.repositoryformatversion 1",
    "settings": "echo '[core' >.git/config",
}


@pytest.mark.parametrize("commands", DISORDER.values(), ids=DISORDER)
def test_git_works_again_and_the_work_is_there(repo: Repo, commands: str) -> None:
    git, base = Git(repo.path), repo.head
    before, settings = repair.remember(git), turn_end.settings_of(git)
    repo.write("a", "two\n").write("new", "work\n")
    repo.git("-c", f"alias.disorder=!{commands}", "disorder")
    told = turn_end.put_back(git, before, settings)
    assert told
    assert repo.head == base
    assert repo.git("symbolic-ref", "HEAD") == "refs/heads/main"
    assert repo.git("status", "--porcelain").split() == ["M", "a", "??", "new"]
    repo.stage().commit("Later", stage=False)
    assert turn_end.block(Git(repo.path)) is None
    assert turn_end.settings_of(git) == settings
    assert turn_end.put_back(git, before, settings) == []


def test_refs_of_the_turn_outlive_a_damaged_list_of_them(repo: Repo) -> None:
    git = Git(repo.path)
    before, settings = repair.remember(git), turn_end.settings_of(git)
    repo.write("a", "two\n").commit("Of the turn").git("branch", "side")
    mine = repo.head
    repo.git("pack-refs", "--all")
    with (repo.path / ".git/packed-refs").open("a") as file:
        file.write("junk\n")
    assert turn_end.put_back(git, before, settings)
    assert repo.head == repo.git("rev-parse", "side") == mine


def test_a_lock_that_was_there_before_is_a_persons(repo: Repo) -> None:
    git, lock = Git(repo.path), repo.path / ".git/index.lock"
    lock.touch()
    before, settings = repair.remember(git), turn_end.settings_of(git)
    assert turn_end.put_back(git, before, settings) == []
    assert lock.exists()


def test_everyday_settings_stay(repo: Repo) -> None:
    git = Git(repo.path)
    before, settings = repair.remember(git), turn_end.settings_of(git)
    repo.git("config", "branch.main.remote", "origin")
    assert turn_end.put_back(git, before, settings) == []
    assert repo.git("config", "branch.main.remote") == "origin"


@pytest.mark.parametrize(
    ("commands", "command"),
    [
        ("git config extensions.foo bar; git config core.repositoryformatversion 1", "--unset-all extensions.foo"),
        ("git pack-refs --all; echo junk >>.git/packed-refs", "sed -i 3d"),
        ("echo junk >.git/HEAD", "echo 'ref: refs/heads/main' >"),
    ],
)
def test_a_block_names_the_command_that_helps(repo: Repo, commands: str, command: str) -> None:
    repo.git("-c", f"alias.disorder=!{commands}", "disorder")
    found = turn_end.block(Git(repo.path))
    assert found
    assert command in found.command
    os.system(f"cd {shlex.quote(str(repo.path))} && {found.command}")
    assert turn_end.block(Git(repo.path)) is None


@pytest.mark.parametrize("link", ["harness/left", "refs"])
def test_nothing_is_written_through_a_link_in_gits_folder(
    repo: Repo, tmp_path_factory: pytest.TempPathFactory, link: str
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    git = Git(repo.path)
    before, settings = repair.remember(git), turn_end.settings_of(git)
    place = repo.path / ".git" / link
    place.parent.mkdir(exist_ok=True)
    if place.exists():
        place.rename(repo.path / ".git/moved")
        (outside / "heads").mkdir()
    place.symlink_to(outside)
    (repo.path / ".git/index").write_text("junk\n")
    (repo.path / ".git/hooks").mkdir(exist_ok=True)
    (repo.path / ".git/hooks/post-commit").write_text("#!/bin/sh\n")
    turn_end.put_back(git, before, settings)
    assert [path for path in outside.rglob("*") if path.name != "heads"] == []
