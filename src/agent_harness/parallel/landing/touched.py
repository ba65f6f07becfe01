"""What of the project itself changes while agents work, each of which has a place of its own to work in.

An agent can reach the project by its absolute path. Its refs and index are looked at after each attempt; who changed
them is not known, since a person may work there, too. The branch that the run lands on is not looked at here: what is
put on it is verified before anything lands on top (SC-38). ``scale.md`` 12, ``home_touched``.
"""

from agent_harness.kernel import files
from agent_harness.kernel.git import Git

_REFS = ("refs/heads/", "refs/tags/", "refs/remotes/", "refs/notes/")


class HomeWatch:
    """Compares the project with how it was when it was looked at last; refs of the harness's own are left out."""

    def __init__(self, git: Git, branch: str) -> None:
        self._git = git
        self._branch = branch
        self._stamp: object = None  # of the index
        self._staged: frozenset[str] = frozenset()
        self._seen: dict[str, str] = {}
        self.changed()

    def changed(self) -> list[str]:
        """What is not as it was: names of refs, HEAD, and files that were staged, or are not any more."""
        before, staged = self._seen, self._staged
        self._seen, self._staged = self._refs(), self._in_index()
        names = [name for name in {**before, **self._seen} if before.get(name) != self._seen.get(name)]
        return [*names, *(f"staged: {path}" for path in sorted(staged ^ self._staged))]

    def _refs(self) -> dict[str, str]:
        git = self._git
        found = {ref: oid for folder in _REFS for ref, oid in git.refs_below(folder).items() if ref != self._branch}
        return {**found, "refs/stash": git.commit_of("refs/stash") or "", "HEAD": git.branch() or "detached"}

    def _in_index(self) -> frozenset[str]:
        """The files whose content in the index is not that of the commit; asked again once the index was written."""
        stamp = files.stamp_of(self._git.git_dir() / "index")
        if stamp == self._stamp:
            return self._staged
        self._stamp = stamp
        found = self._git.text("diff-index", "--cached", "--name-only", "--no-renames", "-z", "HEAD", check=False)
        return frozenset(filter(None, found.split("\0")))
