"""The few things that the harness does to a work tree outside of a session, each through git's own commands.

Source: features.md C25, C26, C48, C65.
"""

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from agent_harness.errors import ToolMissing, UnsafeTree
from agent_harness.kernel import files
from agent_harness.kernel.git import Git, GitFailed
from agent_harness.kernel.process import scrubbed_environment

LOCK_CHECKS = 20
LOCK_LOOK_SECONDS = 0.1


def dirty_paths(git: Git) -> list[str]:
    """Every path that is not as in HEAD, ignored files aside."""
    return [change.path for change in git.status()]


def exclude(git: Git, line: str) -> None:
    """Adds a line to the repository's own ignore rules, where it is missing."""
    path = os.path.join(git.shared_dir(), "info", "exclude")
    try:
        text = files.read_bytes(path).decode("utf-8", "replace")
    except FileNotFoundError:
        text = ""
    if line not in text.splitlines():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        gap = "" if not text or text.endswith("\n") else "\n"
        files.replace(path, f"{text}{gap}{line}\n".encode())


def keep_out_of_sight(git: Git, folder: str) -> None:
    """Git does not see the harness's state, also where a person has taken its line out of .gitignore.

    A state that git sees would be stashed with a person's changes.
    """
    if git.is_repository and not git.ok("check-ignore", "--quiet", f"{folder}/state"):
        exclude(git, f"/{folder}/")


def make_repository(root: Path) -> None:
    """``git init`` in a folder that is in no repository."""
    try:
        done = subprocess.run(
            ["git", "init", "--quiet"], cwd=root, env=scrubbed_environment(), capture_output=True, check=False
        )
    except FileNotFoundError:
        raise ToolMissing("git is not installed", hint="install git and try again") from None
    if done.returncode:
        raise UnsafeTree(f"git init failed: {done.stderr.decode(errors='replace').strip()}", hint="git init")


def set_aside(git: Git, name: str, free_paths: Sequence[str]) -> None:
    """Stashes every change but those of ``free_paths`` under a name, untracked files included.

    ``UnsafeTree`` when git cannot, or when something stays: what is in a new stash by then is said.
    """
    before = git.commit_of("refs/stash")
    words = ("stash", "push", "--quiet", "--include-untracked", "--message", name, "--", ".")
    problem = ""
    try:
        git.run(*words, *[f":(exclude,literal){path}" for path in free_paths], env=git.identity_variables())
    except GitFailed as error:
        problem = error.message.splitlines()[-1][:200]
    left = [path for path in dirty_paths(git) if path not in free_paths]
    if not problem and not left:
        return
    kept = git.commit_of("refs/stash") != before
    raise UnsafeTree(
        f"The work tree could not be cleaned: {', '.join(left[:3])} {problem}".strip()
        + (f"; what was stashed is in stash@{{0}} ({name})" if kept else ""),
        hint="commit, move or ignore it, then harness run",
        check="git_state",
    )


def switch(git: Git, branch: str) -> None:
    """Checks a branch out; git refuses where that would overwrite anything."""
    git.run("switch", "--quiet", branch)


def commit_files(git: Git, paths: Sequence[str], message: str) -> None:
    """One commit of these files, new ones too; whatever else is staged or changed stays as it is."""
    env = git.identity_variables()
    git.run("add", "--", *paths)
    git.run("commit", "--quiet", "--no-verify", "--only", "--message", message, "--", *paths, env=env)


def index_lock(git: Git) -> str | None:
    """The lock on the index that another git process holds, or has left; ``None`` once it goes away by itself."""
    path = os.path.join(git.git_dir(), "index.lock")
    for _ in range(LOCK_CHECKS):
        if not os.path.lexists(path):
            return None
        time.sleep(LOCK_LOOK_SECONDS)
    return path


def line_counts(git: Git, commit: str, suffixes: Sequence[str]) -> dict[str, int]:
    """Lines of every file of a commit with one of these suffixes; empty and binary ones have none."""
    globs = [f":(glob)**/*{suffix}" for suffix in suffixes]
    names = os.fsdecode(git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)).split("\0")
    text = os.fsdecode(git.run("grep", "-I", "-z", "-c", "-e", "", commit, "--", *globs, check=False))
    counts = {name: 0 for name in names if name.endswith(tuple(suffixes))}
    for line in text.split("\n"):
        name, _, count = line.partition("\0")
        if count.isdigit():
            counts[name.removeprefix(f"{commit}:")] = int(count)
    return counts
