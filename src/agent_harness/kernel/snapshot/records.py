"""What a snapshot is, and what is written down with it. Records only: how one is taken is in ``kernel/snapshot.py``."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from agent_harness.errors import StateDamaged

__all__ = ["Notes", "Rescue", "Snapshot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A work tree as it was: files, index, HEAD and ignore rules.

    The three digests name kept indexes (``kernel/git/operation_lock.py``); they make a way back fast, and are not
    needed for it.
    """

    ref: str  # keeps everything below from being collected as garbage
    commit: str  # its tree holds the files as bytes; parents: HEAD if there was one, then the notes
    head: str | None  # None on a branch without a commit
    branch: str  # refs/heads/… or "detached"
    index_tree: str  # what was staged
    index_exact: str  # the index itself
    index_plain: str  # the same without flags that hide changes
    index_full: str  # an index of the commit's tree

    def as_record(self) -> dict[str, str | None]:
        """The members of the JSON record."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, object]) -> Self:
        """The snapshot that a record names; ``StateDamaged`` when a member is missing or no text. Extra ones pass."""
        members: dict[str, Any] = {each.name: record.get(each.name) for each in fields(cls)}
        for name, value in members.items():
            if not isinstance(value, str) and not (name == "head" and value is None):
                raise StateDamaged(f"the record of a snapshot has no usable {name}", hint="harness doctor")
        return cls(**members)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescue:
    """What going back has done."""

    ref: str | None  # names the commit below; None when there was nothing to rescue
    commit: str | None  # the files as they were before going back; parents: all that was checked out
    rolled_back_commits: tuple[tuple[str, str], ...]  # id and subject, newest first; they stay reachable from the ref
    left_in_place: tuple[str, ...]  # too large, other repositories, pipes, tools' own caches
    moved: tuple[str, ...]  # paths whose content went below the folder for rescued files


@dataclass(slots=True, kw_only=True)
class Notes:
    """What a tree cannot hold, written into the message of a commit.

    Paths are text as ``os.fsdecode`` gives it; folders in ``ignored`` end in a slash.
    """

    ignored: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)  # tracked, and not there
    info_exclude: str = ""
    user_excludes: str = ""
    info_attributes: str = ""
    user_attributes: str = ""  # where the user's own attributes are
    settings: dict[str, str] = field(default_factory=dict)  # harmless settings of the repository that shape content
    identity: list[str] = field(default_factory=list)
    flags: dict[str, str] = field(default_factory=dict)  # path -> assume, skip or "assume skip"
    away: list[str] = field(default_factory=list)  # flagged files that are not there, as in a sparse checkout
    hidden: dict[str, str] = field(default_factory=dict)  # flagged files -> object id of their bytes
    intended: list[str] = field(default_factory=list)  # `git add -N`
    young_plain: dict[str, str] | None = field(default_factory=dict)  # entries to be read again; None: all of them
    young_full: dict[str, str] | None = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)  # permissions that git would not restore

    def as_text(self) -> str:
        """One JSON object on one line, in ASCII."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The notes that ``as_text`` wrote; members of a later version are left out."""
        record: dict[str, Any] = json.loads(text)
        return cls(**{each.name: record[each.name] for each in fields(cls) if each.name in record})

    def away_by_path(self) -> dict[bytes, str]:
        """The flags of files that were not there, by path as the file system has it."""
        return {os.fsencode(path): self.flags[path] for path in self.away}

    def flags_by_path(self) -> dict[bytes, str]:
        """The flags, by path as the file system has it."""
        return {os.fsencode(path): words for path, words in self.flags.items()}

    def ignored_places(self) -> set[bytes]:
        """The ignored paths as the file system has them."""
        return {os.fsencode(path) for path in self.ignored}
