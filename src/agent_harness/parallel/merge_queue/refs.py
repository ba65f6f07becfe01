"""Names of the refs of one project, in a repository that several projects may share.

Items have the same names in every list, and slots in every run: so each ref has the id of the project in it, which is
created once (``ledger.project_id``). Rescues have no id: their numbers are unique (``workspaces.kept_as``), whoever
creates them. SC-14, SC-29, SC-51.
"""

from dataclasses import dataclass

WORK = "refs/harness/work/"


@dataclass(frozen=True)
class ProjectRefs:
    """Refs of the project with this id; an empty id gives the names of versions up to 1.2.1."""

    project: str

    @property
    def work(self) -> str:
        """The folder of all candidates."""
        return WORK + self._own

    def candidate(self, name: str, fence: int | str) -> str:
        """Return the ref that keeps a proven job of an item until it has landed; ``name`` is valid in refs."""
        return f"{self.work}{name}/{fence}"

    def fix(self, name: str) -> str:
        """Return the ref that keeps the first tree of a fix of the item."""
        return f"refs/harness/mend/{self._own}{name}"

    def workspace(self, slot: str) -> str:
        """Return the ref that keeps the base commit of a workspace."""
        return f"refs/harness/place/{self._own}{slot}"

    @property
    def landing(self) -> str:
        """The ref that keeps the objects of the current batch."""
        return self._of_batch("landing")

    @property
    def joined(self) -> str:
        """The ref that keeps landed commits on top of the remote's."""
        return self._of_batch("joined")

    @property
    def incoming(self) -> str:
        """The folder for the remote's commits while they are inspected."""
        return f"refs/harness/incoming/{self.project}"

    @property
    def _own(self) -> str:
        return f"{self.project}/" if self.project else ""

    def _of_batch(self, what: str) -> str:
        return f"refs/harness/batch/{self.project}/{what}" if self.project else f"refs/harness/{what}"


BEFORE = ProjectRefs("")
"""Names without an id."""


def is_before(ref: str) -> bool:
    """Return True if it is a candidate's name without an id: only its commit tells the owner."""
    return ref.startswith(WORK) and ref.count("/") == BEFORE.candidate("NAME", 1).count("/")
