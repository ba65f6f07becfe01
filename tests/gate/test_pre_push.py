"""The hook ``pre-push``: what a real ``git push`` does with it, and hooks that are not ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness.cli.main import main
from agent_harness.testing import CommandResult, run_in_process, run_process
from agent_harness.testing.repo import Repo

FILES = {"value.txt": "1\n", "Makefile": "test:\n\ttest -e value.txt\n", ".gitignore": "ignored\n"}
FOREIGN = "#!/bin/sh\necho mine\n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.with_files(tmp_path / "project", FILES).remote(tmp_path / "origin.git")


def hooks(repo: Repo, *words: str, cwd: Path | None = None) -> CommandResult:
    return run_in_process(main, "harness", "hooks", *words, "--git", cwd=cwd or repo.path)


def push(repo: Repo, *words: str) -> CommandResult:
    return run_process(["git", "push", *words], cwd=repo.path, environ={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})


def on_remote(repo: Repo) -> dict[str, str]:
    lines = (line.split() for line in repo.git("ls-remote", "origin").splitlines())
    return {name.removeprefix("refs/heads/"): sha for sha, name in lines if name != "HEAD"}


def test_a_push_of_a_bad_change_is_stopped(repo: Repo) -> None:
    installed = hooks(repo, "install")
    assert (installed.code, "git push --no-verify" in installed.out) == (0, True), installed
    repo.git("switch", "-q", "-c", "work")
    repo.write("value.txt", "2\n").commit("Two")
    good = repo.head
    done = push(repo, "-u", "origin", "work")
    assert (done.code, "ACCEPTED" in done.out, "judges work" in done.err) == (0, True, True), done
    repo.remove("value.txt").commit("Gone")
    done = push(repo, "origin", "work")
    assert (done.code != 0, "REJECTED" in done.out, "git push --no-verify" in done.err) == (True, True, True), done
    assert on_remote(repo)["work"] == good
    assert push(repo, "--no-verify", "origin", "work").code == 0
    repo.write("note.md", "# Note\n").commit("Note")
    assert "only documents were changed" in push(repo, "origin", "work").out, "the base is what the remote has"


def test_what_has_nothing_new_is_not_judged(repo: Repo) -> None:
    hooks(repo, "install")
    repo.git("tag", "v1")
    repo.git("switch", "-q", "-c", "copy")
    for words in (["v1"], ["copy"], [":copy"], ["-f", "HEAD~0:refs/heads/other"]):
        done = push(repo, "origin", *words)
        assert (done.code, "judges" in done.err) == (0, False), done
    assert set(on_remote(repo)) == {"main", "other", "refs/tags/v1"}


def test_what_cannot_be_judged_stops_the_push_and_says_how_to_push(repo: Repo) -> None:
    hooks(repo, "install")
    repo.git("switch", "-q", "--orphan", "alone")
    repo.write("a.c", "int a;\n").commit("Alone")
    done = push(repo, "origin", "alone")
    assert (done.code != 0, "no common commit" in done.err, "git push --no-verify" in done.err) == (True, True, True)
    assert "alone" not in on_remote(repo)


def test_installing_and_removing_twice_leaves_the_repository_as_it_was(repo: Repo) -> None:
    hook = repo.path / ".git/hooks/pre-push"
    exclude = repo.path / ".git/info/exclude"
    before = exclude.read_bytes() if exclude.exists() else None
    assert "installed in" in hooks(repo, "install").out
    first = hook.read_bytes()
    assert "already installed" in hooks(repo, "install").out
    assert (hook.read_bytes(), hook.stat().st_mode & 0o111) == (first, 0o111)
    hook.write_bytes(first.replace(sys.executable.encode(), b"/gone/python"))
    done = subprocess.run(["sh", hook], cwd=repo.path, capture_output=True, text=True, check=False)
    assert (done.returncode, "harness hooks install --git" in done.stderr) == (1, True), done
    hooks(repo, "install")
    assert hook.read_bytes() == first
    assert "removed" in hooks(repo, "uninstall").out
    assert not hook.exists()
    assert (exclude.read_bytes() if exclude.exists() else None) == before
    assert "no hook of the harness" in hooks(repo, "uninstall").out


@pytest.mark.parametrize("kind", ["file", "changed", "link"])
def test_a_hook_that_is_not_ours_stays(repo: Repo, kind: str, tmp_path: Path) -> None:
    hook, outside = repo.path / ".git/hooks/pre-push", tmp_path / "outside"
    outside.write_text(FOREIGN)
    hook.parent.mkdir(exist_ok=True)
    if kind == "changed":
        hooks(repo, "install")
        hook.write_text(hook.read_text() + "echo mine\n")
    elif kind == "link":
        hook.symlink_to(outside)
    else:
        hook.write_text(FOREIGN)
    before = hook.read_bytes()
    done = hooks(repo, "install")
    assert (done.code, "harness hooks print --git" in done.err) == (4, True), done
    assert "no hook of the harness" in hooks(repo, "uninstall").out
    assert (hook.read_bytes(), outside.read_text(), hook.is_symlink()) == (before, FOREIGN, kind == "link")
    assert "hook pre-push" in hooks(repo, "print").out


def test_the_hook_is_where_git_looks(repo: Repo, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    hooks(repo, "install", cwd=tmp_path / "linked")
    assert (repo.path / ".git/hooks/pre-push").exists()
    hooks(repo, "uninstall", cwd=tmp_path / "linked")
    repo.config("core.hooksPath", ".githooks")
    hooks(repo, "install")
    assert (repo.path / ".githooks/pre-push").exists()
    assert repo.status() == [], "it holds a path of this machine, so git does not list it"
    repo.config("core.hooksPath", str(tmp_path))
    done = hooks(repo, "install")
    assert (done.code, "outside of the repository" in done.err) == (4, True), done
    assert not (tmp_path / "pre-push").exists()


def test_doctor_names_the_hook(repo: Repo) -> None:
    def found() -> list[tuple[str, str]]:
        rows = run_in_process(main, "harness", "doctor", "--json", cwd=repo.path).json["checks"]
        return [(each["state"], each["mend"]) for each in rows if each["name"] == "git hook"]

    assert found() == []
    hooks(repo, "install")
    assert found() == [("ok", None)]
    hook = repo.path / ".git/hooks/pre-push"
    hook.write_bytes(hook.read_bytes().replace(sys.executable.encode(), b"/gone/python"))
    assert found() == [("warning", "harness hooks install --git")]
