"""Names of one project's git refs, in a repository that several projects may share.

Two projects can have the same item names, and two runs have the same slot names. Therefore, each ref contains the id of
its project (``ledger.project_id``). Rescue refs contain no id, because their numbers are unique in the repository
(``workspaces.kept_as``). (SC-14, SC-29, SC-51)
"""

from dataclasses import dataclass

WORK = "refs/harness/work/"


@dataclass(frozen=True)
class ProjectRefs:
    """Names of the git refs of one project."""

    # empty: the names up to version 1.2.1
    project: str

    @property
    def work(self) -> str:
        """Beginning of the names of the project's candidate refs."""
        return WORK + self._own

    def candidate(self, name: str, fence: int | str) -> str:
        """Return the ref that keeps an item's proven work until its merge."""
        return f"{self.work}{name}/{fence}"

    def fix(self, name: str) -> str:
        return f"refs/harness/mend/{self._own}{name}"

    def workspace(self, slot: str) -> str:
        """Return the ref that keeps the base commit of a slot's workspace."""
        return f"refs/harness/place/{self._own}{slot}"

    @property
    def landing(self) -> str:
        """Ref that keeps the git objects of the batch that is being merged."""
        return self._of_batch("landing")

    @property
    def joined(self) -> str:
        """Ref that keeps the merged commits after a rebase onto the remote's commits."""
        return self._of_batch("joined")

    @property
    def incoming(self) -> str:
        """Beginning of the names of the refs that keep the remote's commits during an inspection."""
        return f"refs/harness/incoming/{self.project}"

    @property
    def _own(self) -> str:
        return f"{self.project}/" if self.project else ""

    def _of_batch(self, what: str) -> str:
        return f"refs/harness/batch/{self.project}/{what}" if self.project else f"refs/harness/{what}"


BEFORE = ProjectRefs("")
"""Ref names of versions up to 1.2.1, which contain no project id."""


def is_before(ref: str) -> bool:
    """Return True if a candidate ref's name contains no project id."""
    return ref.startswith(WORK) and ref.count("/") == BEFORE.candidate("NAME", 1).count("/")
