"""Git runs nothing that was written into the repository, and nothing in there hides a change.

Each trap is shown to work on git as it is, and then not to work on us.
"""

import hashlib
import os
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_harness.errors import HarnessError, TimedOut, UnsafeTree
from agent_harness.kernel.git import Git, GitFailed
from agent_harness.kernel.snapshot import adopt, candidate, restore, take
from agent_harness.testing.repo import Repo

MAIN = "refs/heads/main"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "project").write("a", "one\n").write("d/b", "two\n").commit("First").write("a", "changed\n")


class Trap:
    """A program that leaves a mark when it runs; as a filter it lets its input pass."""

    def __init__(self, folder: Path) -> None:
        self.mark = folder / "sprung"
        self.program = folder / "trap"
        self.program.write_text(f"#!/bin/sh\n: > '{self.mark}'\nexec cat \"$@\"\n")
        self.program.chmod(0o755)

    def sprung(self) -> bool:
        found = self.mark.exists()
        self.mark.unlink(missing_ok=True)
        return found


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


def hook(repo: Repo, trap: Trap, name: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).symlink_to(trap.program)


def hooks(repo: Repo, trap: Trap) -> None:
    for name in ("reference-transaction", "post-index-change", "pre-commit", "post-checkout"):
        hook(repo, trap, name, repo.path / ".git" / "hooks")


def hooks_path(repo: Repo, trap: Trap) -> None:
    hook(repo, trap, "reference-transaction", repo.path / "githooks")
    repo.config("core.hooksPath", "githooks")


def fsmonitor(repo: Repo, trap: Trap) -> None:
    repo.config("core.fsmonitor", str(trap.program))


def included(repo: Repo, trap: Trap) -> None:
    (repo.path / ".git" / "more").write_text(f"[core]\n\tfsmonitor = {trap.program}\n")
    repo.config("include.path", "more")


def worktree_settings(repo: Repo, trap: Trap) -> None:
    repo.config("extensions.worktreeConfig", "true")
    repo.git("config", "--worktree", "core.fsmonitor", str(trap.program))


def clean_filter(repo: Repo, trap: Trap) -> None:
    repo.config("filter.x.clean", str(trap.program)).write(".gitattributes", "* filter=x\n")


def clean_filter_by_info(repo: Repo, trap: Trap) -> None:
    repo.config("filter.x.clean", str(trap.program))
    (repo.path / ".git" / "info" / "attributes").write_text("* filter=x\n")


def process_filter(repo: Repo, trap: Trap) -> None:
    repo.config("filter.x.process", str(trap.program)).write(".gitattributes", "* filter=x\n")


def smudge_filter(repo: Repo, trap: Trap) -> None:
    repo.config("filter.x.smudge", str(trap.program))
    (repo.path / ".git" / "info" / "attributes").write_text("* filter=x\n")


def text_conversion(repo: Repo, trap: Trap) -> None:
    repo.config("diff.x.textconv", str(trap.program)).write(".gitattributes", "* diff=x\n")


def external_diff(repo: Repo, trap: Trap) -> None:
    repo.config("diff.external", str(trap.program))


def signing(repo: Repo, trap: Trap) -> None:
    repo.config("commit.gpgSign", "true").config("gpg.program", str(trap.program))


def editor(repo: Repo, trap: Trap) -> None:
    repo.config("core.editor", str(trap.program))


def alias(repo: Repo, trap: Trap) -> None:
    repo.config("alias.ci", f"!{trap.program}")


def submodule(repo: Repo, trap: Trap) -> None:
    inner = Repo(repo.path / "inner").write("x").commit()
    repo.git("add", "inner")
    repo.commit("With a submodule")
    inner.config("core.fsmonitor", str(trap.program)).write("x", "more")


def curious_submodule(repo: Repo, trap: Trap) -> None:
    submodule(repo, trap)
    repo.write(".gitmodules", '[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n\tignore = none\n')


def lazy_fetch(repo: Repo, trap: Trap) -> None:
    repo.config("remote.far.url", str(repo.path)).config("remote.far.uploadpack", str(trap.program))
    repo.config("remote.far.promisor", "true").config("extensions.partialClone", "far")


RUNNING: dict[str, tuple[Callable[[Repo, Trap], None], tuple[str, ...]]] = {
    "hooks": (hooks, ("update-ref", "refs/x", "HEAD")),
    "core.hooksPath": (hooks_path, ("update-ref", "refs/x", "HEAD")),
    "core.fsmonitor": (fsmonitor, ("status",)),
    "include.path": (included, ("status",)),
    "worktree settings": (worktree_settings, ("status",)),
    "clean filter": (clean_filter, ("add", "a")),
    "clean filter by info/attributes": (clean_filter_by_info, ("add", "a")),
    "process filter": (process_filter, ("add", "a")),
    "smudge filter": (smudge_filter, ("checkout", "--", "a")),
    "textconv": (text_conversion, ("diff",)),
    "external diff": (external_diff, ("diff",)),
    "signing": (signing, ("commit", "-am", "x")),
    "editor": (editor, ("commit", "-a")),
    "alias": (alias, ("ci",)),
    "a submodule's settings": (submodule, ("status",)),
    "a submodule that wants to be looked at": (curious_submodule, ("status",)),
    "lazy fetch": (lazy_fetch, ("cat-file", "-p", "1" * 40)),
}


@pytest.mark.parametrize("name", RUNNING)
def test_a_trap_that_runs_code_does_not_run_in_our_calls(name: str, repo: Repo, trap: Trap, tmp_path: Path) -> None:
    set_trap, words = RUNNING[name]
    set_trap(repo, trap)
    repo.git(*words, check=False)
    assert trap.sprung(), "git as it is falls into it"
    use_everything(repo, tmp_path)
    assert not trap.sprung()


def use_everything(repo: Repo, folder: Path) -> None:
    """Calls every part of git that the harness uses, with something to do for each."""
    repo.write("a", "as the user left it\n").write("d/new", "new\n")
    git = Git(repo.path)
    head = git.head()
    base = take(git, "refs/harness/base/1")
    repo.write("a", "as the agent left it\n").remove("d/b")
    git.status()
    git.local_filters()
    made = candidate(git, "refs/harness/candidate/1", message="Work", base=base)
    candidate(git, "refs/harness/candidate/2", message="Work")
    git.run("diff", "--no-ext-diff", "--no-textconv", "HEAD")
    git.run("commit", "--all", "--message", "By the harness", check=False)
    git.run("commit", "--amend", check=False)
    git.ok("cat-file", "-e", "2" * 40)
    git.changed_paths(base.commit, made)
    restore(git, base, "refs/harness/rescue/1", rescue_files=folder / "rescued")
    assert git.head() == head
    assert repo.read("a") == b"as the user left it\n"
    adopt(git, candidate(git, "refs/harness/candidate/3", message="Work", base=base), branch=MAIN, expected_head=head)


def assume_unchanged(repo: Repo) -> None:
    repo.git("update-index", "--assume-unchanged", "a", "d/b")


def skip_worktree(repo: Repo) -> None:
    repo.git("update-index", "--skip-worktree", "a", "d/b")


def ignore_stat(repo: Repo) -> None:
    repo.config("core.ignoreStat", "true")
    repo.write("a", "x").write("d/b", "x").git("checkout", "--", ".")


def elsewhere(repo: Repo) -> None:
    other = repo.path.parent / "other"
    other.mkdir()
    repo.git("worktree", "list")
    for name, content in repo.files().items():
        (other / name).parent.mkdir(exist_ok=True)
        (other / name).write_bytes(content)
    repo.config("core.worktree", str(other))


def sparse(repo: Repo) -> None:
    repo.config("core.sparseCheckout", "true").config("sparse.expectFilesOutsideOfPatterns", "true")
    (repo.path / ".git" / "info" / "sparse-checkout").write_text("/nothing\n")
    repo.git("update-index", "--skip-worktree", "a", "d/b")


def private_excludes(repo: Repo) -> None:
    (repo.path / ".git" / "info" / "exclude").write_text("*\n")
    assume_unchanged(repo)


def own_excludes_file(repo: Repo) -> None:
    (repo.path / ".git" / "ignored").write_text("*\n")
    repo.config("core.excludesFile", str(repo.path / ".git" / "ignored"))
    assume_unchanged(repo)


def no_untracked(repo: Repo) -> None:
    repo.config("status.showUntrackedFiles", "no")
    assume_unchanged(repo)


def forged_index(repo: Repo) -> None:
    """Nothing before the change; afterwards the index gets the sizes and times of the changed files."""


HIDING: dict[str, Callable[[Repo], None]] = {
    "assume-unchanged": assume_unchanged,
    "skip-worktree": skip_worktree,
    "core.ignoreStat": ignore_stat,
    "core.worktree": elsewhere,
    "sparse checkout": sparse,
    "info/exclude": private_excludes,
    "core.excludesFile": own_excludes_file,
    "status.showUntrackedFiles": no_untracked,
    "a forged index": forged_index,
}


@pytest.mark.parametrize("name", HIDING)
def test_a_trap_that_hides_changes_hides_nothing_from_a_candidate(name: str, tmp_path: Path) -> None:
    repo = Repo(tmp_path / "project").write("a", "one\n").write("d/b", "two\n").commit("First")
    git = Git(repo.path)
    base = take(git, "refs/harness/base/1")
    HIDING[name](repo)
    new = name in ("info/exclude", "core.excludesFile", "status.showUntrackedFiles")
    repo.write("a", "two words\n").remove("d/b").write(*(("new", "new\n") if new else ("d/b", "changed too\n")))
    if name == "a forged index":
        forge(repo)
    assert repo.git("status", "--porcelain") == "", "git as it is sees nothing"
    made = candidate(git, "refs/harness/candidate/1", message="Work", base=base)
    assert git.show(made, "a") == b"two words\n"
    assert (
        (git.show(made, "new") == b"new\n" and git.show(made, "d/b") is None)
        if new
        else git.show(made, "d/b") == b"changed too\n"
    )
    assert git.dirty() or name in ("info/exclude", "core.excludesFile", "a forged index")
    restore(git, base, "refs/harness/rescue/1", rescue_files=tmp_path / "rescued")
    assert repo.files() == {"a": b"one\n", "d/b": b"two\n"}


def forge(repo: Repo) -> None:
    """Writes an index that holds the old objects with the sizes and times of the files as they are now."""
    repo.git("update-index", "--index-version", "2")
    index = repo.path / ".git" / "index"
    content = bytearray(index.read_bytes()[:-20])
    at = 12
    for _ in range(struct.unpack(">I", content[8:12])[0]):
        end = content.index(b"\0", at + 62)
        found = os.stat(repo.path / os.fsdecode(bytes(content[at + 62 : end])))
        seconds = [part for moment in (found.st_ctime_ns, found.st_mtime_ns) for part in divmod(moment, 10**9)]
        facts = (
            *seconds,
            found.st_dev,
            found.st_ino,
            found.st_mode & 0o755 | 0o100000,
            found.st_uid,
            found.st_gid,
            found.st_size,
        )
        struct.pack_into(">10I", content, at, *(fact & 0xFFFFFFFF for fact in facts))
        at += (end - at) // 8 * 8 + 8
    index.write_bytes(content + hashlib.sha1(content, usedforsecurity=False).digest())
    later = max(path.stat().st_mtime for path in (repo.path / "a", repo.path / "d/b")) + 10
    os.utime(index, (later, later))


def test_same_size_and_time_hide_nothing(repo: Repo, tmp_path: Path) -> None:
    repo.commit().config("core.trustctime", "false").config("core.checkStat", "minimal")
    old = (repo.path / "a").stat()
    os.utime(repo.path / "a", ns=(old.st_atime_ns, old.st_mtime_ns - 10**10))
    repo.git("update-index", "--refresh")
    git = Git(repo.path)
    base = take(git, "refs/harness/base/1")
    old = (repo.path / "a").stat()
    repo.write("a", "CHANGED\n")
    os.utime(repo.path / "a", ns=(old.st_atime_ns, old.st_mtime_ns))
    assert repo.status() == [], "git as it is sees nothing"
    assert git.show(candidate(git, "refs/harness/candidate/1", message="Work", base=base), "a") == b"CHANGED\n"


def test_an_executable_bit_is_seen_whatever_the_settings_say(repo: Repo) -> None:
    repo.commit().config("core.fileMode", "false")
    (repo.path / "a").chmod(0o755)
    assert repo.status() == [], "git as it is sees nothing"
    assert [change.path for change in Git(repo.path).status()] == ["a"]


def test_private_attributes_hide_no_line_endings(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "project").write("a", "one\n").commit()
    git = Git(repo.path)
    base = take(git, "refs/harness/base/1")
    (repo.path / ".git" / "info" / "attributes").write_text("* text\n")
    repo.write("a", "one\r\n")
    assert repo.git("diff") == "", "git as it is sees nothing"
    assert git.show(candidate(git, "refs/harness/candidate/1", message="Work", base=base), "a") == b"one\r\n"


def test_a_replaced_commit_is_read_as_it_is(repo: Repo) -> None:
    first = repo.head
    second = repo.commit("Second").head
    repo.git("replace", second, first)
    assert repo.git("show", f"{second}:a") == "one", "git as it is reads the other one"
    git = Git(repo.path)
    assert git.show(second, "a") == b"changed\n"
    assert [commit.subject for commit in git.commits_between(first, second)] == ["Second"]


def test_a_graft_hides_no_commit(repo: Repo) -> None:
    first = repo.head
    repo.commit("Second").write("a", "more").commit("Third")
    (repo.path / ".git" / "info" / "grafts").write_text(f"{repo.head} {first}\n")
    assert repo.git("rev-list", "--count", "HEAD") == "2", "git as it is sees two commits"
    assert [commit.subject for commit in Git(repo.path).commits_between(first, repo.head)] == ["Third", "Second"]


def test_variables_of_the_environment_lead_nowhere(
    repo: Repo, trap: Trap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Repo(tmp_path / "other").write("a", "other\n").commit()
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.path / ".git" / "index"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(trap.program))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(trap.program))
    git = Git(repo.path)
    assert (
        subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo.path, capture_output=True, check=True)
        .stdout.decode()
        .strip()
        == other.head
    )
    assert git.head() == repo.head
    assert [(change.status, change.path) for change in git.status()] == [(" M", "a")]
    git.run("diff")
    assert not trap.sprung()


def test_a_submodule_that_says_ignore_me_is_seen(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "project").write("a").commit()
    inner = Repo(repo.path / "inner").write("x").commit()
    repo.write(".gitmodules", '[submodule "inner"]\n\tpath = inner\n\turl = ext::sh -c true\n\tignore = all\n').commit()
    git = Git(repo.path)
    base = take(git, "refs/harness/base/1")
    inner.write("x", "new").commit("New")
    assert repo.status() == [], "git as it is sees nothing"
    made = candidate(git, "refs/harness/candidate/1", message="Work", base=base)
    assert [change.path for change in git.changed_paths(base.commit, made)] == ["inner"]
    restore(git, base, "refs/harness/rescue/1", rescue_files=tmp_path / "rescued")
    assert inner.read("x") == b"new"


def test_rules_in_a_pipe_do_not_hang_us(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(repo.path / "d" / ".gitignore")
    os.mkfifo(repo.path / ".git" / "info" / "attributes")
    monkeypatch.setenv("HARNESS_TIME_SCALE", "0.005")
    with pytest.raises(UnsafeTree, match=r"d/\.gitignore is not a regular file") as error:
        Git(repo.path).status()
    assert error.value.hint


def test_a_call_that_takes_too_long_ends_with_all_it_started(repo: Repo, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TimedOut, match="git hash-object took more than"):
        Git(repo.path).run("hash-object", str(tmp_path / "pipe"), timeout_seconds=0.2)


def test_a_link_in_place_of_our_folder_is_refused(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    (repo.path / ".git" / "harness").symlink_to(tmp_path / "away")
    with pytest.raises(UnsafeTree, match="is not a folder"):
        take(Git(repo.path), "refs/harness/base/1")
    assert list((tmp_path / "away").iterdir()) == []


# ---- filters and settings ------------------------------------------------------------------------------------------


def test_the_user_s_own_filters_shape_a_candidate_and_nobody_else_s(repo: Repo, trap: Trap, _own_home: Path) -> None:
    with (_own_home / ".gitconfig").open("a") as file:
        file.write('[filter "loud"]\n\tclean = tr a-z A-Z\n\tsmudge = tr A-Z a-z\n')
    repo.write(".gitattributes", "a filter=loud\nd/b filter=own\n").config(
        "filter.own.clean", str(trap.program)
    ).commit()
    git = Git(repo.path)
    assert git.local_filters() == ["own"]
    base = take(git, "refs/harness/base/1")
    trap.sprung()
    repo.write("a", "new\n").write("d/b", "new\n")
    made = candidate(git, "refs/harness/candidate/1", message="Work", base=base)
    assert (git.show(made, "a"), git.show(made, "d/b")) == (b"NEW\n", b"new\n")
    assert not trap.sprung()


def test_settings_that_were_changed_are_in_the_record(repo: Repo, trap: Trap) -> None:
    git = Git(repo.path)
    before = git.record_config()
    assert git.record_config() == before
    repo.config("core.sshCommand", "evil").config("user.name", "Somebody Else")
    hook(repo, trap, "pre-push", repo.path / ".git" / "hooks")
    (repo.path / ".git" / "objects" / "info" / "alternates").write_text("/nowhere\n")
    (repo.path / ".git" / "shallow").write_text(f"{repo.head}\n")
    names = ["core.sshcommand", "hooks/pre-push", "objects/info/alternates", "shallow", "user.name"]
    after = git.record_config()
    assert sorted(key for key in {*before, *after} if before.get(key) != after.get(key)) == names


def test_damaged_settings_stop_nothing(repo: Repo) -> None:
    (repo.path / ".git" / "config").write_text("[core\nnonsense")
    git = Git(repo.path)
    assert git.head()
    assert [change.path for change in git.status()] == ["a"]


# ---- remotes -------------------------------------------------------------------------------------------------------


def test_a_push_uses_the_settings_as_recorded(repo: Repo, trap: Trap, tmp_path: Path) -> None:
    repo.remote(tmp_path / "server")
    git = Git(repo.path)
    trusted = git.record_config()
    repo.commit("Second").config("remote.origin.receivepack", str(trap.program)).config(
        "remote.origin.url", str(tmp_path / "elsewhere")
    )
    hook(repo, trap, "pre-push", repo.path / ".git" / "hooks")
    repo.git("push", "origin", "main", check=False)
    assert trap.sprung(), "git as it is falls into it"
    assert git.push("origin", f"HEAD:{MAIN}", recorded=trusted).ok
    assert not trap.sprung()
    assert (
        subprocess.run(["git", "rev-parse", "main"], cwd=tmp_path / "server", capture_output=True, check=True)
        .stdout.decode()
        .strip()
        == repo.head
    )


def test_a_push_without_a_record_knows_only_the_address(repo: Repo, trap: Trap, tmp_path: Path) -> None:
    repo.remote(tmp_path / "server").commit("Second").config("remote.origin.receivepack", str(trap.program))
    assert Git(repo.path).push("origin", f"HEAD:{MAIN}").ok
    assert not trap.sprung()


def test_an_address_that_runs_a_program_is_refused(repo: Repo, trap: Trap) -> None:
    repo.config("remote.origin.url", f"ext::{trap.program} /dev/null").config("protocol.ext.allow", "always")
    repo.git("push", "origin", "HEAD", check=False)
    assert trap.sprung(), "git as it is falls into it"
    git = Git(repo.path)
    assert not git.push("origin", "HEAD", recorded=git.record_config()).ok
    assert not trap.sprung()


def test_a_rejected_push_is_a_fact(repo: Repo, tmp_path: Path) -> None:
    repo.remote(tmp_path / "server")
    git = Git(repo.path)
    repo.commit("Theirs").git("push", "-q", "origin", "main")
    repo.git("reset", "-q", "--hard", "HEAD~1")
    repo.write("a", "ours").commit("Ours")
    pushed = git.push("origin", f"HEAD:{MAIN}")
    assert (pushed.ok, pushed.rejected) == (False, True)
    assert git.fetch("origin").ok
    lost = git.push("nowhere", f"HEAD:{MAIN}")
    assert (lost.ok, lost.rejected) == (False, False)
    assert lost.message


# ---- questions -----------------------------------------------------------------------------------------------------


def test_questions_about_an_empty_repository(tmp_path: Path) -> None:
    git = Git(tmp_path)
    assert not git.is_repository
    with pytest.raises(UnsafeTree, match="is not in a git repository"):
        git.head()
    repo = Repo(tmp_path)
    assert git.is_repository
    assert (git.head(), git.branch(), git.status(), git.default_branch()) == (None, MAIN, [], None)
    repo.write("a")
    assert git.status() == [("??", "a")]
    assert (git.dirty(), git.upstream()) == (True, None)


def test_questions_about_history(repo: Repo, tmp_path: Path) -> None:
    git = Git(repo.path / "d")
    first = repo.head
    assert (git.top(), git.prefix()) == (repo.path, b"d")
    repo.remote(tmp_path / "server").write("new", "x").remove("d/b").commit("Second\n\nwith more")
    second = git.head()
    assert second
    assert git.commits_between(first, second) == [(second, "Second", "Test Person <person@localhost>")]
    assert git.changed_paths(first, second) == [("M", "a"), ("D", "d/b"), ("A", "new")]
    assert git.changed_paths(None, first) == [("A", "a"), ("A", "d/b")]
    assert (git.ancestor(first, second), git.ancestor(second, first)) == (True, False)
    assert git.upstream() == ("origin", MAIN)
    assert git.published(None, second) == [first]
    assert git.default_branch() == "main"
    assert git.commit_of("nothing") is None
    with pytest.raises(GitFailed):
        git.tree_of("nothing")
    repo.git("checkout", "-q", "--detach")
    assert git.branch() is None


def test_a_ref_moves_only_from_where_it_is(repo: Repo) -> None:
    git = Git(repo.path)
    first = git.head()
    assert first
    second = git.commit_tree(git.tree_of(first), [first], "Made by hand")
    assert git.commits_between(first, second)[0].author == "Test Person <person@localhost>"
    git.update_ref("refs/harness/x", first, "")
    for old in ("", second):
        with pytest.raises(GitFailed):
            git.update_ref("refs/harness/x", second, old)
    git.update_ref("refs/harness/x", second, first)
    git.update_ref("refs/harness/x", None, second)
    assert git.commit_of("refs/harness/x") is None


@pytest.mark.parametrize(
    ("name", "words"),
    {"a merge": "merge other", "a cherry-pick": "cherry-pick other", "a rebase": "rebase other"}.items(),
)
def test_an_operation_under_way_has_a_name(name: str, words: str, repo: Repo) -> None:
    repo.git("checkout", "-q", "--", "a")
    repo.branch("other").write("a", "theirs").commit().git("checkout", "-q", "main")
    repo.write("a", "ours").commit().git(*words.split(), check=False)
    assert Git(repo.path).operation_under_way() == name


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no list of processes to prove it by")
@pytest.mark.parametrize("seconds", [-60, 3600], ids=["older", "before the clock was set back"])
def test_a_ref_moves_although_a_killed_git_left_its_lock(repo: Repo, seconds: int) -> None:
    git, ref, head, at = Git(repo.path), "refs/harness/place/p/v1", repo.head, time.time() + seconds
    for words in ((ref, head), (ref, None)):
        left = repo.path / ".git" / f"{ref}.lock"
        left.parent.mkdir(parents=True, exist_ok=True)
        left.touch()
        os.utime(left, (at, at))
        git.update_ref(*words)
        assert (git.commit_of(ref), left.exists()) == (words[1], False)


def test_status_sees_through_flags_and_names_odd_files(repo: Repo) -> None:
    odd = os.fsdecode(b"n\xff\n")
    repo.write(odd, "x").write("d/b", "flagged\n").git("update-index", "--assume-unchanged", "d/b")
    assert Git(repo.path).status() == [(" M", "a"), (" M", "d/b"), ("??", odd)]


# ---- work trees ----------------------------------------------------------------------------------------------------


def test_a_linked_work_tree_has_its_own_head_and_snapshots(repo: Repo, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    side = Repo(tmp_path / "side").write("a", "side\n").write("new", "x")
    git = Git(side.path)
    base = take(git, "refs/harness/base/side")
    side.write("a", "agent\n").commit("Agent")
    restore(git, base, "refs/harness/rescue/side", rescue_files=tmp_path / "rescued")
    assert side.files() == {"a": b"side\n", "d/b": b"two\n", "new": b"x"}
    assert git.branch() == "refs/heads/side"
    assert repo.read("a") == b"changed\n"
    with pytest.raises(UnsafeTree, match="checked out in another work tree"):
        restore(Git(repo.path), base, "refs/harness/rescue/x", rescue_files=tmp_path / "rescued")


def test_git_that_is_not_there_has_a_name(tmp_path: Path) -> None:
    program = (
        "from agent_harness.kernel.git import Git; from agent_harness.errors import ToolMissing\n"
        "try: Git('.').status()\n"
        "except ToolMissing as e: print(e, e.hint)"
    )
    Repo(tmp_path / "project")
    import sys

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path / "project",
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("git is not installed, or not on PATH install git")


def test_errors_are_for_people(repo: Repo) -> None:
    with pytest.raises(HarnessError) as error:
        Git(repo.path).run("cat-file", "blob", "nothing")
    assert error.value.exit_code == 4
    assert "\n" not in error.value.message
