"""Ownership with an end: when a holder may rely on a claim, and when somebody else may take it.

Between the two lies the grace on either side of the end. Clocks that differ by up to the grace never let two holders
rely on one claim. Source: ``tasklist.md`` 10.2.
"""

from __future__ import annotations

import os

from agent_harness.errors import LeaseLost
from agent_harness.kernel.clock import timedelta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Lease", "expired", "grace_seconds", "must_stop", "new_token", "renewed"]

LONGEST_SECONDS = 31 * 86_400.0
"""Longest lease."""


class Lease:
    """One claim. It does not stop its holder: the holder asks ``must_stop`` before it relies on the claim."""

    __slots__ = ("claimed_at", "expires_at", "holder", "seconds", "token")

    def __init__(self, holder: str, token: str, claimed_at: datetime, expires_at: datetime, seconds: float) -> None:
        self.holder = holder  # worker id, stable across restarts
        self.token = token  # fresh for every claim
        self.claimed_at = claimed_at
        self.expires_at = expires_at
        self.seconds = seconds  # its length, which determines its grace

    def __repr__(self) -> str:
        return f"Lease({self.holder!r}, until {self.expires_at.isoformat()})"


def new_token() -> str:
    """Return a claim token that nobody else has: 32 hexadecimal digits."""
    return os.urandom(16).hex()


def grace_seconds(lease: Lease) -> float:
    """Return the harmless difference between clocks: 2 % of the lease, at least 30 s."""
    return max(30.0, 0.02 * _length(lease.seconds))


def expired(lease: Lease, now: datetime) -> bool:
    """Return True if somebody else may take the work: the grace after the end is over."""
    return now - timedelta(seconds=grace_seconds(lease)) >= lease.expires_at


def must_stop(lease: Lease, now: datetime) -> bool:
    """Return True if the holder may no longer rely on it: the grace before the end has begun.

    A short lease gives up a third of its length, and keeps the use of the rest.
    """
    margin = min(grace_seconds(lease), _length(lease.seconds) / 3)
    return now + timedelta(seconds=margin) >= lease.expires_at


def renewed(lease: Lease, now: datetime, seconds: float) -> Lease:
    """Return the lease with its end moved forward, never back, also if the clock jumped back.

    ``LeaseLost`` if it had expired: the work may already be somebody else's.
    """
    if expired(lease, now):
        raise LeaseLost(
            f"the lease of {lease.holder} expired at {lease.expires_at.isoformat()}",
            hint="claim the work again before going on with it",
            holder=lease.holder,
        )
    end = now + timedelta(seconds=_length(seconds))
    if end <= lease.expires_at:
        return lease
    return Lease(lease.holder, lease.token, lease.claimed_at, end, _length(seconds))


def _length(seconds: float) -> float:
    """Return a usable length, whatever the state holds; 0 for one that is not positive."""
    return min(seconds, LONGEST_SECONDS) if seconds > 0 else 0.0
