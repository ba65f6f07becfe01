"""What the refs of one project are called, in a repository that several projects may share.

Items are called alike in every list, slots in every run: so each name has the id of the project in it, which is made
once for each (``ledger.project_id``). Rescues have none: their numbers are only ever given once
(``workspaces.kept_as``), whoever gives them. SC-14, SC-29, SC-51.
"""

from dataclasses import dataclass

WORK = "refs/harness/work/"


@dataclass(frozen=True)
class ProjectRefs:
    """Of the project with this id; an empty one gives the names that versions up to 1.2.1 had for all projects."""

    project: str

    @property
    def work(self) -> str:
        """The folder of all candidates."""
        return WORK + self._own

    def candidate(self, name: str, fence: int | str) -> str:
        """Keeps what an order of an item has proven until it has landed; the name as it is in ref names."""
        return f"{self.work}{name}/{fence}"

    def fix(self, name: str) -> str:
        """Keeps the tree that a fix of the item begins with."""
        return f"refs/harness/mend/{self._own}{name}"

    def workspace(self, slot: str) -> str:
        """Keeps the commit that a workspace borrows."""
        return f"refs/harness/place/{self._own}{slot}"

    @property
    def landing(self) -> str:
        """Keeps the objects of the batch under way."""
        return self._of_batch("landing")

    @property
    def joined(self) -> str:
        """Keeps those of what has landed, on top of what the remote has."""
        return self._of_batch("joined")

    @property
    def incoming(self) -> str:
        """The folder of what the remote has, while it is looked at."""
        return f"refs/harness/incoming/{self.project}"

    @property
    def _own(self) -> str:
        return f"{self.project}/" if self.project else ""

    def _of_batch(self, what: str) -> str:
        return f"refs/harness/batch/{self.project}/{what}" if self.project else f"refs/harness/{what}"


BEFORE = ProjectRefs("")
"""The names that have no id in them."""


def is_before(ref: str) -> bool:
    """Whether it is a candidate's name with no id in it: nobody but its commit says whose it is."""
    return ref.startswith(WORK) and ref.count("/") == BEFORE.candidate("NAME", 1).count("/")
