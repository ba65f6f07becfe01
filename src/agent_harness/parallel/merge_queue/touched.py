"""Changes to the project's own folder while agents work in their separate workspaces.

    with a sandbox      agents cannot access the project, so a person made the changes: they are only reported
    without a sandbox   agents can access the project by its absolute path, so the author is unknown: some changes are
                        reverted, their content is kept, and all changes are reported

The harness reverts changes to the repository's settings, hooks, branches, tags and rescue refs. It also reverts tracked
files that were unchanged before, and moves new files aside. Other changes may be a person's own work. The harness only
reports them: checked-out branches, staged changes, HEAD, files that were changed before, and settings outside the
repository. It does not check the target branch here. A commit on this branch is verified before anything is merged on
top (SC-38). ``scale.md`` 12, ``home_touched``."""

import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from agent_harness.kernel import files
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.locate import branches_elsewhere
from agent_harness.kernel.git.settings import OWN_SCOPES, Settings, contents, put_back
from agent_harness.kernel.git.status import matcher
from agent_harness.parallel.workspaces import RESCUE_REFS, kept_as
from agent_harness.session import turn_end

_FETCHED = ("refs/tags/", "refs/remotes/")
_REFS = ("refs/heads/", *_FETCHED, "refs/notes/")
_RESCUES = f"{RESCUE_REFS}/"
_CHANGED = (" M", " D", " T")
"""Git status codes of a file that differs from the index, although its index entry equals the commit."""
_PUT_BACK = ("refs/heads/", "refs/tags/", "refs/notes/", "refs/stash", _RESCUES)


@dataclass(frozen=True, kw_only=True)
class Touched:
    """Changes found in the project, with the paths of the files that the harness replaced."""

    changed: list[str]
    put_back: dict[str, str]
    left: list[str]  # of what changed: what could be put back nowhere, although agents can reach it


@dataclass(frozen=True, kw_only=True)
class _ProjectSeen:
    refs: dict[str, str]
    settings: Settings
    staged: frozenset[str]
    files: dict[str, tuple[str, object]]  # not as committed: what git says of each, and its stamp


class ChangeWatch:
    """Watch for changes in the project since the previous call of ``look``."""

    def __init__(self, git: Git, branch: str, aside: str | None = None, own: Sequence[str] = ()) -> None:
        # aside: folder for reverted files (None: revert nothing); own: patterns of the harness's own files
        self._is_own = matcher(own)
        self._git = git
        self._branch = branch
        self._aside = aside
        self._stamp: object = None  # of the index
        self._staged: frozenset[str] = frozenset()
        self._seen = self._now()
        self._files = contents(git.repository) if aside else {}

    def look(self, name: str, *, fetching: bool) -> Touched:
        """Return the project's changes since the previous call, and revert these changes where possible."""
        before, now = self._seen, self._now()
        # the next check reports changes to tags and remote refs
        if fetching:
            now = replace(now, refs=_with_fetched(now.refs, before.refs))
        moved = [ref for ref in {**before.refs, **now.refs} if before.refs.get(ref) != now.refs.get(ref)]
        moved = [ref for ref in moved if ref in before.refs or not ref.startswith(_RESCUES)]
        keys = turn_end.changed_keys(before.settings, now.settings)
        outside = {key for key in keys if key[0] not in (*OWN_SCOPES, "file")}
        names = [*moved, *(key[1] for key in keys if key not in outside)]
        names += turn_end.changed_settings(_only(before.settings, outside), _only(now.settings, outside), "")
        names += [f"staged: {path}" for path in sorted(before.staged ^ now.staged)]
        put_back: dict[str, str] = {}
        if self._aside:
            put_back = self._put_back_files(keys, self._aside) | self._put_back_refs(moved, before.refs, now.refs, name)
            names += [each for each in put_back if each not in names and not each.startswith("config")]
            found = [path for path, seen in now.files.items() if before.files.get(path) != seen]
            names += [path for path in found if path not in names and f"staged: {path}" not in names]
            put_back |= self._put_back_work(
                [path for path in found if path not in before.files], now.files, self._aside
            )
        refs = {ref: oid for ref, oid in now.refs.items() if ref not in put_back}
        refs |= {ref: before.refs[ref] for ref in put_back if ref in before.refs}
        left = {path: seen for path, seen in now.files.items() if path not in put_back}
        self._seen = replace(now, refs=refs, settings=self._settings() if put_back else now.settings, files=left)
        is_back = {*put_back, *(key[1] for key in keys if key not in outside)}
        left = [each for each in names if each not in is_back] if self._aside else []
        return Touched(changed=names, put_back=put_back, left=left)

    def fetched(self) -> None:
        """Treat the present tags and remote refs as known, because the harness itself has fetched them."""
        self._seen = replace(self._seen, refs=_with_fetched(self._seen.refs, self._now().refs))

    def _put_back_refs(
        self, moved: Sequence[str], before: Mapping[str, str], now: Mapping[str, str], name: str
    ) -> dict[str, str]:
        git = self._git
        kept: dict[str, str] = {}
        in_use = {git.branch(), *branches_elsewhere(git.repository)}
        for ref in moved:
            if not ref.startswith(_PUT_BACK) or ref in in_use:
                continue
            found, was = now.get(ref), before.get(ref)
            commit = git.commit_of(found) if found else None
            is_known = commit is None or git.ancestor(commit, was or self._branch)
            kept[ref] = "" if is_known else kept_as(git, f"{RESCUE_REFS}/{name}", commit)
            git.update_ref(ref, was or None, found or "")
        return kept

    def _put_back_files(self, keys: Sequence[tuple[str, str]], aside: str) -> dict[str, str]:
        """Restore changed hooks and settings of git. Return the path of each replaced file, by file name."""
        found = contents(self._git.repository)
        kept: dict[str, str] = {}
        is_set = any(scope in OWN_SCOPES for scope, _ in keys)
        names = [name for name in {**self._files, **found} if name.startswith("hooks") or is_set]
        for name in (name for name in names if self._files.get(name) != found.get(name)):
            kept[name] = put_back(self._git.repository, self._files, name, aside)
        self._files = contents(self._git.repository)
        return kept

    def _put_back_work(
        self, paths: Sequence[str], found: Mapping[str, tuple[str, object]], aside: str
    ) -> dict[str, str]:
        """Move new files aside, and restore tracked files. Return the path of each saved copy, by file name."""
        if not paths or self._git.operation_under_way():
            return {}
        new = [path for path in paths if found[path][0] == "??"]
        tracked = [path for path in paths if found[path][0] in _CHANGED]
        kept = {path: self._taken_aside(path, aside) for path in [*new, *tracked]}
        if tracked:
            names = os.fsencode("".join(f"{path}\0" for path in tracked))
            Git(self._git.top()).run("checkout-index", "-f", "-q", "-z", "--stdin", input=names)
        return kept

    def _taken_aside(self, path: str, aside: str) -> str:
        at = os.fsdecode(self._git.file(os.fsencode(path.rstrip("/"))))
        if not os.path.lexists(at):
            return ""
        os.makedirs(aside, mode=0o700, exist_ok=True)
        where = files.free_name(os.path.join(aside, path.strip("/").replace("/", "-")))
        shutil.move(at, where)
        return where

    def _now(self) -> _ProjectSeen:
        work = self._work() if self._aside else {}
        return _ProjectSeen(refs=self._refs(), settings=self._settings(), staged=self._in_index(), files=work)

    def _work(self) -> dict[str, tuple[str, object]]:
        """Return git's status and a stamp of each changed file, without the harness's files."""
        git = self._git
        changes = [each for each in git.status() if not self._is_own(os.fsencode(each.path.rstrip("/")))]
        return {
            each.path: (each.status, files.stamp_of(os.fsdecode(git.file(os.fsencode(each.path))))) for each in changes
        }

    def _settings(self) -> Settings:
        return turn_end.settings_of(self._git) or {}

    def _refs(self) -> dict[str, str]:
        git = self._git
        folders = (*_REFS, _RESCUES)
        found = {ref: oid for folder in folders for ref, oid in git.refs_below(folder).items() if ref != self._branch}
        stash = git.commit_of("refs/stash")
        return {**found, **({"refs/stash": stash} if stash else {}), "HEAD": git.branch() or "detached"}

    def _in_index(self) -> frozenset[str]:
        stamp = files.stamp_of(self._git.git_dir() / "index")
        if stamp == self._stamp:
            return self._staged
        self._stamp = stamp
        found = self._git.text("diff-index", "--cached", "--name-only", "--no-renames", "-z", "HEAD", check=False)
        self._staged = frozenset(filter(None, found.split("\0")))
        return self._staged


def _with_fetched(refs: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    kept = {ref: oid for ref, oid in refs.items() if not ref.startswith(_FETCHED)}
    return kept | {ref: oid for ref, oid in others.items() if ref.startswith(_FETCHED)}


def _only(settings: Settings, keys: Collection[tuple[str, str]]) -> Settings:
    return {key: values for key, values in settings.items() if key in keys}
