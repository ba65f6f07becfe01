"""Checks and repairs of a repository at the end of a turn, for every kind of work.

    branch, history    the turn's work is placed on the original branch, wherever the agent left HEAD
    rewritten history  only the turn's own changes are taken, not the commits that the turn dropped
    operation          an unfinished merge, rebase or similar that the turn began is reported and set aside
    elsewhere          files in other work trees and repositories below the project are in no commit, and are reported
    git's own files    unreadable files, stale locks, settings and hooks are restored and reported
    settings           other changed git settings are reported, with the old value and the command to undo the change

A protocol passes the commit at which its work began, and the ref or folder for removed work. Source:
``docs/recovery.md``, "The end of a turn"; ``tasklist.md`` 11.3; features.md C25, C31."""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from agent_harness.errors import HarnessError, UnsafeTree
from agent_harness.kernel import snapshot
from agent_harness.kernel.git import DETACHED, Git, Head, repair, settings
from agent_harness.kernel.git.joining import Merged, merged
from agent_harness.kernel.git.locate import OPERATION_FILES, operation_under_way, text_of
from agent_harness.kernel.git.objects import ABSENT, TreeEntry
from agent_harness.kernel.git.settings import OWN_SCOPES, Settings, are_readable, contents
from agent_harness.kernel.git.settings import put_back as put_file_back
from agent_harness.kernel.git.status import GITLINK, shown
from agent_harness.kernel.snapshot.operation import branch_tip, move_head, refuse_elsewhere
from agent_harness.kernel.snapshot.restore import Aside, write_changes

__all__ = [
    "Block",
    "Elsewhere",
    "HISTORY",
    "OPERATION",
    "OnBeginning",
    "Returned",
    "Way",
    "apart",
    "block",
    "changed_keys",
    "changed_settings",
    "come_home",
    "elsewhere",
    "only_here",
    "put_back",
    "refuse_replaced",
    "left_out",
    "left_unfinished",
    "new_elsewhere",
    "on_beginning",
    "settings_of",
    "told_settings",
    "set_operation_aside",
    "stands_on",
    "changed_inside",
    "left_inside",
    "stays_inside",
    "submodules",
    "unfinished",
    "way_home",
]


@dataclass(frozen=True, kw_only=True)
class Block:
    """Problem that the user must fix, with the command that fixes it."""

    reason: str
    command: str


# ---- the repository itself -------------------------------------------------------------------------------------------


def refuse_replaced(before: Git, base: str | None) -> None:
    """Raise ``UnsafeTree`` if a turn removed, moved or replaced the repository."""
    was, now = before.repository, Git(before.repository.top)
    place = was.top / ".git"
    if not now.is_repository or now.top() != was.top:
        message = f"the agent's turn removed the repository: {was.git_dir} is no longer a repository"
        raise UnsafeTree(message, hint=f"restore {place} from a copy or a clone; the harness did not change the files")
    if now.git_dir() != was.git_dir:
        message = f"the agent's turn moved the repository: {place} leads to {now.git_dir()}"
        quoted = [shlex.quote(os.fspath(each)) for each in (place, now.git_dir())]
        raise UnsafeTree(message, hint=f"rm {quoted[0]} && mv {quoted[1]} {quoted[0]}")
    if base and now.commit_of(base) is None:
        message = (
            f"the agent's turn replaced the repository: it does not contain commit {base[:10]}, at which the turn began"
        )
        raise UnsafeTree(message, hint=f"restore {place} from a copy or a clone; the harness did not change the files")


# ---- branch and descent ----------------------------------------------------------------------------------------------


def stands_on(base: str | None, commit: str | None, descends: Callable[[str, str], bool]) -> str | None:
    """Return ``commit`` if it descends from ``base``, otherwise ``base``."""
    if base is None or (commit is not None and descends(base, commit)):
        return commit
    return base


class Way(NamedTuple):
    """Plan to move HEAD back to the original branch."""

    branch: str
    at: str
    # commits that would become unreachable
    kept: tuple[str, ...]
    rewritten: bool  # the checked-out commit does not descend from the base
    moved: bool  # another branch is checked out


def way_home(branch: str, base: str, head: Head, tip: str | None, descends: Callable[[str, str], bool]) -> Way | None:
    """Return the plan to move HEAD back to the original branch, or None if HEAD may stay."""
    at = stands_on(base, head.commit, descends) or base
    moved, rewritten = head.branch != branch, at != head.commit
    if not moved and not rewritten:
        return None
    left = [each for each in dict.fromkeys((head.commit, tip)) if each and not descends(each, at)]
    return Way(branch=branch, at=at, kept=tuple(left), rewritten=rewritten, moved=moved)


HISTORY = "history_conflict"
"""Finding code for work that cannot be verified because it conflicts with commits that the turn removed from the
history.
"""
MOST_COMMITS = 1000


@dataclass(frozen=True, kw_only=True)
class OnBeginning:
    """Changes of a turn, moved to the original history after the turn rewrote the history."""

    tree: str
    changes: Mapping[bytes, tuple[TreeEntry, TreeEntry]]  # from the files as the turn left them to this tree
    conflicts: tuple[str, ...]  # if there are any, nothing of it is to be used

    @property
    def brought_back(self) -> str:
        return _few([path for path, (_, after) in self.changes.items() if after != ABSENT])


def on_beginning(
    git: Git,
    base: str,
    tip: str | None,
    files: str,
    *,
    start: str | None = None,
    leave: Callable[[bytes], bool] = lambda path: False,
) -> OnBeginning:
    """Return the changes of a turn, moved to ``base``, the commit at which the turn began."""
    since = _newest_kept(git, base, tip) if tip else None
    found = Merged(tree=git.tree_of(files)) if since == base else merged(git, start or base, since, files)
    changes = {path: pair for path, pair in git.differences(files, found.tree).items() if not leave(path)}
    conflicts = [path for path in found.conflicts if not leave(os.fsencode(path))]
    conflicts += [os.fsdecode(path) for path in _hidden(git, changes)]
    return OnBeginning(tree=found.tree, changes=changes, conflicts=tuple(dict.fromkeys(conflicts)))


def _newest_kept(git: Git, base: str, tip: str) -> str | None:
    """Return the newest commit in the history of ``base`` that ``tip`` still contains, or None."""
    found = git.text("merge-base", base, tip, check=False) or None
    now = _line(git, found, tip)
    # author and time identify a commit that was amended or rebased
    again = {(each.author, each.at) for each in now if each.at != each.committed}
    same = {(each.author, each.at, each.message) for each in now}
    trees = {each.tree for each in now}
    is_kept = True
    for each in _line(git, found, base, "--first-parent"):
        is_kept &= (each.author, each.at) in again or (each.author, each.at, each.message) in same
        if is_kept or each.tree in trees:
            found = each.sha
    return found


class _CommitOfLine(NamedTuple):
    sha: str
    tree: str
    author: str
    at: str  # the author's time
    committed: str
    message: str


def _line(git: Git, since: str | None, tip: str, *words: str) -> list[_CommitOfLine]:
    """Return the commits in the history of ``tip`` but not of ``since``, oldest first."""
    form = "--format=%H%x00%T%x00%an <%ae>%x00%at%x00%ct%x00%B%x00"
    named = [tip, *([f"^{since}"] if since else [])]
    asked = ("rev-list", "--no-commit-header", "--reverse", f"--max-count={MOST_COMMITS}", *words, form, *named)
    parts = [part.strip("\n") for part in os.fsdecode(git.run(*asked)).split("\0")]
    size = len(_CommitOfLine._fields)
    return [_CommitOfLine(*parts[at : at + size]) for at in range(0, len(parts) - size, size)]


def _hidden(git: Git, changes: Mapping[bytes, tuple[TreeEntry, TreeEntry]]) -> list[bytes]:
    # files that no commit contains must not be overwritten
    back = {path: after for path, (before, after) in changes.items() if before == ABSENT}
    there = [path for path in back if os.path.lexists(git.file(path))]
    return [path for path in there if not _is_file_as(git, path, back[path])]


def _is_file_as(git: Git, path: bytes, wanted: TreeEntry) -> bool:
    at = os.fsdecode(git.file(path))
    plain = os.path.isfile(at) and not os.path.islink(at)
    return plain and git.text("hash-object", "--no-filters", "--", at) == wanted.oid


def apart(
    git: Git, base: str, *, start: str | None = None, leave: Callable[[bytes], bool] = lambda path: False
) -> Block | None:
    """Return a problem if the turn rewrote the history and the turn's work conflicts with ``base``."""
    tip = git.head()
    if tip is not None and git.ancestor(base, tip):
        return None
    found = on_beginning(git, base, tip, snapshot.tree_of_files(git), start=start, leave=leave)
    if not found.conflicts:
        return None
    names = _few([os.fsencode(path) for path in found.conflicts])
    reason = f"the history before {base[:10]} was rewritten, and the work conflicts with the original history: {names}"
    return Block(reason=reason, command=f"git rebase {base[:10]}")


@dataclass(frozen=True, kw_only=True)
class Returned:
    told: str
    refs: tuple[str, ...]  # that keep what no branch of the beginning has any more


def come_home(
    git: Git,
    *,
    branch: str,
    base: str,
    keep: Callable[[str], str],
    start: str | None = None,
    leave: Callable[[bytes], bool] = lambda path: False,
    ends: bool = False,
) -> Returned | None:
    """Check out the original branch again at a commit that contains ``base``. Return None if nothing changed."""
    # must stay safe when it is called again after a crash
    head = git.look()
    tip = branch_tip(git, branch, head)
    way = way_home(branch, base, head, tip, git.ancestor)
    if way is None:
        return None
    refuse_elsewhere(git, branch)
    back, kept = None, way.kept
    if way.rewritten and not ends:
        files = snapshot.tree_of_files(git)
        back = on_beginning(git, base, head.commit, files, start=start, leave=leave)
        if back.conflicts:
            return None
        if back.changes and files != head.tree:
            kept = (git.commit_tree(files, [*kept], "What a turn left of its own history\n"),)
    refs = tuple(keep(each) for each in kept)
    if back and back.changes:
        write_changes(git, git.commit_tree(back.tree, [base], "What a turn did\n"), back.changes)
    with git.room() as room:
        move_head(git, room, branch=branch, commit=way.at, expected=tip, now=head)
    return Returned(told=_told_way(way, head, base, refs, back), refs=refs)


def _told_way(way: Way, head: Head, base: str, refs: Sequence[str], back: OnBeginning | None) -> str:
    home = _short(way.branch)
    said = []
    if way.moved:
        said.append(
            f"the agent's turn checked out {_short(head.branch)}; the harness checked out {home} again, with this work"
        )
    if way.rewritten:
        said.append(f"the agent's turn rewrote the history before {base[:10]}; its work is on top of that commit again")
    if back and back.brought_back:
        said.append(f"restored from that commit: {back.brought_back}")
    if refs:
        said.append(f"the commits of the turn are kept in {', '.join(refs)}")
    return "; ".join(said)


def _short(branch: str) -> str:
    return "no branch" if branch == DETACHED else branch.removeprefix("refs/heads/")


# ---- operations ------------------------------------------------------------------------------------------------------


OPERATION = "operation_unfinished"
"""Finding code for work that cannot be verified because a git operation is unfinished."""


def unfinished(git: Git) -> Block | None:
    """Return a problem if a git operation is unfinished or a conflict is unresolved."""
    if not git.is_repository:
        return None
    if waiting := operation_under_way(git.repository):
        return Block(reason=f"git is in the middle of {waiting[0]}", command=waiting[1])
    paths = _unmerged(git)
    if not paths:
        return None
    quoted = shlex.join(os.fsdecode(path) for path in paths[:5])
    return Block(
        reason=f"{_few(paths)}: git has an unresolved conflict in it", command=f"git checkout HEAD -- {quoted}"
    )


def left_unfinished(git: Git) -> str | None:
    """Return a sentence about an unfinished git operation or conflict of the agent, or None."""
    waiting = git.operation_under_way() if git.is_repository else None
    if waiting:
        return f"The agent left {waiting} unfinished."
    paths = _unmerged(git) if git.is_repository else []
    return f"The agent left a conflict unresolved: {_few(paths)}." if paths else None


def _unmerged(git: Git) -> list[bytes]:
    rows = git.run("ls-files", "--unmerged", "--full-name", "-z", "--", ":/").split(b"\0")
    return [*dict.fromkeys(row.partition(b"\t")[2] for row in rows if row)]


def _few(paths: Sequence[bytes]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return f"{', '.join(shown(path) for path in paths[:3])}{more}"


def set_operation_aside(git: Git, folder: str) -> None:
    """Move the state files of an unfinished git operation into ``folder``."""
    aside = Aside(git, folder)
    for name in OPERATION_FILES:
        path = git.git_dir() / name
        if os.path.lexists(path):
            aside.move_file(os.fsencode(path), b"git-state/" + os.fsencode(name))
    if _unmerged(git):
        git.run("read-tree", "HEAD")  # the files hold both sides


def block(git: Git) -> Block | None:
    """Return the git problem that prevents a run, or None."""
    if not git.is_repository:
        return None
    if damage := repair.damage(git.repository):
        return Block(reason=damage[0], command=damage[1])
    return unfinished(git) or _misled(git) or _refused(git)


def _misled(git: Git) -> Block | None:
    found = git.settings()
    config = shlex.quote(os.fspath(git.shared_dir() / "config"))
    if found.get("core.bare", "").lower() in ("true", "yes", "on", "1"):
        return Block(
            reason="the setting core.bare declares this repository bare",
            command=f"git config --file {config} core.bare false",
        )
    other = found.get("core.worktree")
    if other and os.path.realpath(os.path.join(git.git_dir(), other)) != os.path.realpath(git.top()):
        command = f"git config --file {config} --unset-all core.worktree"
        return Block(reason=f"core.worktree names {shown(os.fsencode(other))}, not this folder", command=command)
    return None


def _refused(git: Git) -> Block | None:
    config = git.shared_dir() / "config"
    if "extensions" not in text_of(config).lower() or settings.is_repository(git.repository):
        return None
    names = [key for key in git.settings() if key.startswith("extensions.") and key not in _KNOWN_EXTENSIONS]
    quoted = shlex.quote(os.fspath(config))
    unset = [f"git config --file {quoted} --unset-all {shlex.quote(name)}" for name in names]
    told = f"git refuses the repository because of the setting {', '.join(names) or 'of an extension'}"
    return Block(reason=told, command=" && ".join(unset) or f"git config --file {quoted} --list")


_KNOWN_EXTENSIONS = frozenset(
    f"extensions.{name}"
    for name in (
        "objectformat",
        "refstorage",
        "worktreeconfig",
        "partialclone",
        "preciousobjects",
        "noop",
        "compatobjectformat",
        "relativeworktrees",
    )
)


# ---- other work trees and repositories -------------------------------------------------------------------------------


class Elsewhere(NamedTuple):
    """Other work tree of the repository, or separate repository below this work tree."""

    path: str  # below the top, else absolute; fit for a terminal
    branch: str | None  # of another work tree of this repository; ``None`` for a separate repository
    commit: str  # that is checked out there, as its files say it
    files: str = ""  # the tree of its files now, of a place below the top

    @property
    def told(self) -> str:
        if self.branch is None:
            return f"{self.path}, a separate repository (without its .git it belongs to this one)"
        return f"{self.path}, another work tree ({f'branch {self.branch}' if self.branch else 'no branch'})"


def elsewhere(git: Git, paths: Iterable[str] | None = None) -> tuple[Elsewhere, ...]:
    """Return the repository's other work trees, and the separate repositories below this work tree."""
    try:
        return tuple(_elsewhere(git, paths)) if git.is_repository else ()
    except HarnessError:  # damage of a repository is reported by the verification
        return ()


def _elsewhere(git: Git, paths: Iterable[str] | None) -> Iterable[Elsewhere]:
    top = os.fspath(git.top())
    found = {each.path: each for each in _work_trees(git, top)}
    names = [each.path for each in git.status() if each.path.endswith("/")] if paths is None else paths
    for name in names:
        entry = os.path.join(top, name, ".git")
        path = shown(os.fsencode(name))
        if path not in found and name.endswith("/") and os.path.lexists(entry):
            found[path] = Elsewhere(path, None, _commit_at(entry))
    return [each._replace(files=_files_at(top, each.path)) for each in found.values()]


def _files_at(top: str, path: str) -> str:
    inner = Git(os.path.join(top, path))
    if os.path.isabs(path) or not inner.is_repository or inner.top() == Path(top):
        return ""
    try:
        return snapshot.tree_of_files(inner)
    except HarnessError:
        return ""


def _work_trees(git: Git, top: str) -> Iterable[Elsewhere]:
    shared, own = git.shared_dir(), os.path.realpath(git.git_dir())
    for folder in sorted((shared / "worktrees").glob("*")):
        place = os.path.dirname(text_of(folder / "gitdir").strip())
        if os.path.realpath(folder) == own or not os.path.isdir(place):
            continue
        head = text_of(folder / "HEAD").strip()
        branch = head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else ""
        at = git.commit_of(f"refs/heads/{branch}") if branch else head
        real = os.path.realpath(place)
        below = os.path.relpath(real, top) + "/" if real.startswith(os.path.join(top, "")) else real
        yield Elsewhere(shown(os.fsencode(below)), branch, at or "")


def _commit_at(entry: str) -> str:
    """Return the commit that is checked out in a repository, read from its files."""
    folder = entry
    if os.path.isfile(entry):
        folder = os.path.join(os.path.dirname(entry), text_of(entry).removeprefix("gitdir:").strip())
    head = text_of(os.path.join(folder, "HEAD")).strip()
    return text_of(os.path.join(folder, head.removeprefix("ref:").strip())).strip() or head


def new_elsewhere(before: Iterable[Elsewhere], now: Iterable[Elsewhere]) -> tuple[Elsewhere, ...]:
    known = {*before}
    return tuple(each for each in now if each not in known)


def only_here(before: Iterable[Elsewhere], now: Sequence[Elsewhere]) -> str:
    """Return a note for the agent about new work in other places, or an empty text."""
    new = new_elsewhere(before, now)
    return (
        f"only work in this folder counts, but there is work in {'; '.join(each.told for each in new[:3])}"
        if new
        else ""
    )


def left_out(places: Sequence[Elsewhere], inside: Sequence[str] = ()) -> str:
    """Return a note about work outside the accepted commit, or an empty text."""
    told = [each.told for each in places[:3]]
    told += [f"changes inside the submodule {path}, which are not committed there" for path in inside[:3]]
    return f"not in the commit: {'; '.join(told)}" if told else ""


# ---- submodules ------------------------------------------------------------------------------------------------------


def submodules(git: Git) -> dict[str, tuple[str | None, str]]:
    """Return each submodule's checked-out commit and the git tree of its files, by path."""
    if not git.is_repository or not os.path.lexists(git.top() / ".gitmodules"):
        return {}
    found: dict[str, tuple[str | None, str]] = {}
    for line in git.text("ls-files", "--stage", "-z").split("\0"):
        about, _, path = line.partition("\t")
        inner = Git(git.top() / path) if about.startswith(GITLINK) else None
        try:
            if inner and inner.is_repository and inner.top() == git.top() / path:
                found[shown(os.fsencode(path))] = (inner.head(), snapshot.tree_of_files(inner))
        except HarnessError:
            continue
    return found


def changed_inside(
    before: Mapping[str, tuple[str | None, str]], now: Mapping[str, tuple[str | None, str]]
) -> list[str]:
    """Return the paths of the submodules whose commit or files have changed."""
    return [path for path, found in now.items() if before.get(path) != found]


def stays_inside(paths: Sequence[str]) -> str:
    """Return a note that a rollback does not change these submodules."""
    if not paths:
        return ""
    return f"changes inside the submodule {', '.join(paths[:3])} were kept: git -C {shlex.quote(paths[0])} status"


def left_inside(git: Git, paths: Iterable[str]) -> list[str]:
    """Return the submodules with uncommitted changes."""
    return [path for path in paths if Git(git.top() / path).dirty()]


# ---- settings --------------------------------------------------------------------------------------------------------

_OWN_AFFAIRS = re.compile(r"(branch|gc|maintenance|lfs|submodule|remote\..*\.fetch)\b|info/|shallow$|objects/")
"""Pattern of the settings and files that everyday git commands write."""


def changed_settings(before: Settings, now: Settings, shared_dir: str) -> list[str]:
    """Return one line for each changed git setting, with the command that restores it."""
    return [_told_setting(key, before.get(key, []), now.get(key, []), shared_dir) for key in changed_keys(before, now)]


def changed_keys(before: Settings, now: Settings) -> list[tuple[str, str]]:
    """Return the changed settings, except those that everyday git commands write."""
    differs = (key for key in sorted({*before, *now}) if before.get(key, []) != now.get(key, []))
    return [key for key in differs if not _OWN_AFFAIRS.match(key[1])]


def _told_setting(key: tuple[str, str], was: Sequence[str], now: Sequence[str], shared_dir: str) -> str:
    scope, name = key
    if scope == "file":
        path = shlex.quote(os.path.join(shared_dir, name))
        how = "was deleted" if not now else "was changed" if was else "is new"
        return f"{path} {how}" + (f"; to undo it: rm {path}" if not was else "; review it before you use git here")
    place = {"local": f"--file {shlex.quote(os.path.join(shared_dir, 'config'))}"}.get(scope, f"--{scope}")
    quoted = [f"git config {place} --add {name} {shlex.quote(each)}" for each in was]
    if len(was) == 1 and len(now) == 1:
        quoted = [f"git config {place} {name} {shlex.quote(was[0])}"]
    elif now:
        quoted = [f"git config {place} --unset-all {name}", *quoted]
    return f"{name} is {_values(now)}, and was {_values(was)}; to undo it: {' && '.join(quoted)}"


def _values(found: Sequence[str]) -> str:
    return ", ".join(shown(os.fsencode(each))[:200] or "empty" for each in found) or "not set"


def put_back(git: Git, before: repair.GitFiles | None, settings: Settings | None) -> list[str]:
    """Restore git's hooks, settings and other files that a turn changed. Return one line for each change."""
    if before is None:
        return []
    told = repair.put_right(before)
    now = settings_of(git) if settings is not None else None
    keys = changed_keys(settings or {}, now or {}) if now is not None else []
    own = [key for key in keys if key[0] in OWN_SCOPES]
    repository = before.repository
    found = contents(repository)
    names = [name for name in {**before.own, **found} if before.own.get(name) != found.get(name)]
    unreadable = not are_readable(repository)
    wanted = [name for name in names if name.startswith("hooks") or own or unreadable]
    kept = {name: put_file_back(repository, before.own, name, repair.aside_folder(repository)) for name in wanted}
    was, is_now = settings or {}, now or {}
    values = [f"{key[1]} was {_values(is_now.get(key, []))} (before: {_values(was.get(key, []))})" for key in own]
    said = values + [f"{name} was changed" for name in wanted if name.startswith("hooks") or not values]
    where = ", ".join(path for path in kept.values() if path)
    if kept:
        told.append(f"{'; '.join(said)}: restored{f', and the changed version is kept in {where}' if where else ''}")
    return told


def settings_of(git: Git) -> Settings | None:
    try:
        return settings.now(git.repository) if git.is_repository else None
    except HarnessError:
        return None


def told_settings(git: Git, before: Settings | None) -> list[str]:
    """Return one line for each git setting that has changed since ``before``."""
    now = settings_of(git) if before else None
    if not before or now is None:
        return []
    shared_dir = os.fspath(git.shared_dir())
    told = changed_settings(before, now, shared_dir)
    if told and not are_readable(git.repository):
        return [f"{shared_dir}/config can no longer be read by git; to see the error: git config --list"]
    return told
