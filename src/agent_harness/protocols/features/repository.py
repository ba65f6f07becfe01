"""Changes to the repository outside a session. Git cannot create the ref ``…/4`` if ``…/4/x`` exists. In this case, the
harness uses the most similar free name. Source: features.md C25, C26, C48, C65."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from agent_harness.errors import ToolMissing, UnsafeTree
from agent_harness.kernel.git import Git, GitFailed, locate, own_output
from agent_harness.kernel.git.isolated import IsolatedView
from agent_harness.kernel.git.objects import ABSENT
from agent_harness.kernel.git.status import Links
from agent_harness.kernel.process import scrubbed_environment


def dirty_paths(git: Git) -> list[str]:
    """Return the paths that differ from HEAD. Ignored files and nested repositories are left out."""
    # git shows a nested repository with a final slash, and never stashes its content
    return [change.path for change in git.status() if not change.path.endswith("/")]


def keep_out_of_sight(git: Git, folder: str) -> None:
    """Make git ignore the state folder, because ``git stash`` could otherwise move it."""
    if not git.is_repository:
        return
    own_output.keep_out_of_sight(git.repository)
    if not git.ok("check-ignore", "--quiet", f"{folder}/state"):
        ignore_always(git, folder)


def ignore_always(git: Git, folder: str) -> None:
    """Make git ignore a folder in a way that agents cannot undo through .gitignore."""
    own_output.ignore(git.repository, f"/{folder}/")


def refuse_tracked(git: Git, folder: str) -> None:
    """Raise ``UnsafeTree`` if git tracks the state folder, because sessions would push state files."""
    head = git.head()
    with git.objects() as objects:
        held = head is not None and objects.at(objects.tree_of(head), os.fsencode(folder)) != ABSENT
    if held:
        raise UnsafeTree(
            f"{folder}/ (the harness state) is committed; it must stay on this machine only",
            hint=f"git rm -r -q --cached {folder} && git commit -q -m 'Keep the harness state out of git'",
            check="git_state",
        )


def make_repository(root: Path) -> None:
    try:
        done = subprocess.run(
            ["git", "init", "--quiet"], cwd=root, env=scrubbed_environment(), capture_output=True, check=False
        )
    except FileNotFoundError:
        raise ToolMissing("git is not installed", hint="install git and try again") from None
    if done.returncode:
        raise UnsafeTree(f"git init failed: {done.stderr.decode(errors='replace').strip()}", hint="git init")


def set_aside(git: Git, name: str, free_paths: Sequence[str]) -> None:
    """Stash all changes outside ``free_paths``. Raise ``UnsafeTree`` if other changes remain."""
    before = git.commit_of("refs/stash")
    words = ("stash", "push", "--quiet", "--include-untracked", "--message", name, "--", ".")
    stays = [*free_paths, *map(os.fsdecode, own_output.among(os.fsencode(git.top())))]
    problem = ""
    try:
        git.run(*words, *[f":(exclude,literal){path}" for path in stays], env=git.identity_variables())
    except GitFailed as error:
        problem = error.message.splitlines()[-1][:200]
    left = [path for path in dirty_paths(git) if path not in free_paths]
    if not problem and not left:
        return
    kept = git.commit_of("refs/stash") != before
    raise UnsafeTree(
        f"The work tree could not be cleaned: {', '.join(left[:3])} {problem}".strip()
        + (f"; the stashed files are in stash@{{0}} ({name})" if kept else ""),
        hint="commit, move or ignore these files, then: harness run",
        check="git_state",
    )


def other_work_tree(git: Git, branch: str) -> str | None:
    shared = Path(git.shared_dir())
    bare = git.settings().get("core.bare") == "true"
    for folder in [*([] if bare else [shared]), *sorted((shared / "worktrees").glob("*"))]:
        if folder.resolve() == Path(git.git_dir()).resolve():
            continue
        if locate.text_of(folder / "HEAD").strip() == f"ref: refs/heads/{branch}":
            place = locate.text_of(folder / "gitdir").strip()
            return str(Path(place).parent if place else shared.parent)
    return None


def commit_files(git: Git, paths: Sequence[str], message: str) -> None:
    """Commit only the given files. New files are allowed."""
    env = git.identity_variables()
    git.run("add", "--", *paths)
    git.run("commit", "--quiet", "--no-verify", "--only", "--message", message, "--", *paths, env=env)


def index_lock(git: Git) -> str | None:
    """Wait until git's index lock is gone. Return the lock's path if it stays."""
    path = os.path.join(git.git_dir(), "index.lock")
    for _ in range(20):
        if not os.path.lexists(path):
            return None
        time.sleep(0.1)
    return path


def line_counts(git: Git, commit: str, suffixes: Sequence[str]) -> dict[str, int]:
    """Return the number of lines in each file of a commit. The keys are paths."""
    globs = [f":(glob)**/*{suffix}" for suffix in suffixes]
    names = os.fsdecode(git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)).split("\0")
    text = os.fsdecode(git.run("grep", "-I", "-z", "-c", "-e", "", commit, "--", *globs, check=False))
    counts = {name: 0 for name in names if name.endswith(tuple(suffixes))}
    for line in text.split("\n"):
        name, _, count = line.partition("\0")
        if count.isdigit():
            counts[name.removeprefix(f"{commit}:")] = int(count)
    return counts


# -- commits made as objects, and files taken from them ----------------------------------------------------------------


def tree_with(git: Git, tree: str, contents: Mapping[str, bytes]) -> str:
    with git.room() as room, IsolatedView(git.repository, raw=True) as view, git.objects() as objects:
        index = room.path("tree-with")
        view.call("read-tree", tree, index=index)
        for path, content in contents.items():
            oid = os.fsdecode(view.call("hash-object", "-w", "--stdin", input=content).stdout).strip()
            found = objects.at(objects.tree_of(tree), os.fsencode(path))
            mode = "100644" if found == ABSENT else found.mode
            view.call("update-index", "--add", "--cacheinfo", f"{mode},{oid},{path}", index=index)
        return os.fsdecode(view.call("write-tree", index=index).stdout).strip()


def write_changes(git: Git, base: str | None, commit: str, *, now: str, free: Sequence[str] = ()) -> None:
    """Write the files that differ between ``base`` and ``commit``. ``now`` is the tree of the current files.

    Write nothing and raise ``UnsafeTree`` if a file outside ``free`` has other changes, or a file is in the way."""
    wanted = git.differences(base, commit)
    # after a crash, the call can be repeated: files that are already written are not in `left`
    left = {path: entries for path, entries in git.differences(now, commit).items() if path in wanted}
    links = Links(os.fsencode(git.top()))
    # before anything is written
    for path, (found, _) in left.items():
        in_the_way = links.above(path) or (found == ABSENT and os.path.lexists(git.file(path)))
        if (found != wanted[path][0] and os.fsdecode(path) not in free) or in_the_way:
            raise UnsafeTree(f"{os.fsdecode(path)} has changes that are not committed", hint="git stash -u")
    with git.room() as room, IsolatedView(git.repository, head=commit) as view:
        index = room.path("kept")
        view.call("read-tree", commit, index=index)
        for path, (_, new) in left.items():
            if new == ABSENT:
                os.unlink(git.file(path))
        there = b"".join(path + b"\0" for path, (_, new) in left.items() if new != ABSENT)
        view.call("checkout-index", "--force", "-z", "--stdin", input=there, index=index)


# -- names for private refs --------------------------------------------------------------------------------------------


T = TypeVar("T")

SIBLINGS = 9  # names tried at each level


def named_ref(git: Git, wanted: str, act: Callable[[str], T]) -> tuple[T, str]:
    """Call ``act`` with the ref name ``wanted``. If git refuses that name, use a similar name."""
    try:
        return act(wanted), wanted
    except GitFailed:
        other = free_ref(git, wanted)
        if other == wanted:
            raise
        return act(other), other


def kept_ref(git: Git, wanted: str, commit: str) -> str:
    """Create a ref to ``commit``. Return the ref name that git accepted."""

    def keep(ref: str) -> str:
        if git.commit_of(ref) != commit:
            git.update_ref(ref, commit, "")
        return ref

    return named_ref(git, wanted, keep)[0]


def free_ref(git: Git, wanted: str) -> str:
    """Return ``wanted`` if git accepts this ref name, otherwise a similar name."""
    target = git.head() or git.empty_tree()
    return next((name for name in _ref_names(wanted) if _would_make(git, name, target)), wanted)


def _ref_names(wanted: str) -> Iterator[str]:
    yield wanted
    parts = wanted.split("/")
    for level in range(len(parts) - 1, 0, -1):
        for number in range(2, SIBLINGS + 2):
            yield "/".join([*parts[:level], f"{parts[level]}-{number}", *parts[level + 1 :]])


def _would_make(git: Git, name: str, target: str) -> bool:
    # the transaction is aborted, and writes nothing
    words = f"start\ncreate {name} {target}\nprepare\nabort\n"
    try:
        git.run("update-ref", "--no-deref", "--stdin", input=words.encode())
    except GitFailed:
        return False
    return True
