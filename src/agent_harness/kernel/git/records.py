"""What git answers, as values."""

from dataclasses import dataclass
from typing import NamedTuple

DETACHED = "detached"
"""Stands where the name of a branch would, when a commit and no branch is checked out."""


class PathChange(NamedTuple):
    """One path that differs. ``status`` is one letter between commits, two as in ``git status`` for a work tree."""

    status: str
    path: str


class Commit(NamedTuple):
    """One commit of a range."""

    sha: str
    subject: str
    author: str  # name and address


@dataclass(frozen=True, slots=True)
class Head:
    """What is checked out."""

    commit: str | None  # None on a branch without a commit
    tree: str | None
    branch: str  # refs/heads/… or "detached"


class Upstream(NamedTuple):
    """Where a branch is pushed to."""

    remote: str
    branch: str  # refs/heads/… on the remote
    tracking: str  # refs/remotes/… here


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """How a push or a fetch ended. A remote that says no, or cannot be reached, is a fact and no exception."""

    ok: bool
    rejected: bool  # the remote has commits that we do not have, or refuses this ref
    message: str
