"""Leases: ownership until an end time. Rules state when the holder must stop and when another process may take over. A
grace period precedes the end of a lease, and another follows the end. If clocks differ by less than the grace period,
two holders never rely on the same lease. Source: ``tasklist.md`` 10.2."""

from __future__ import annotations

import os

from agent_harness.errors import LeaseLost
from agent_harness.kernel.clock import timedelta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

LONGEST_SECONDS = 31 * 86_400.0
"""Maximum length of a lease, in seconds."""


class Lease:
    """Time-limited ownership of an item. Before each use of the item, the holder must call ``must_stop``."""

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
    """Return 32 random hexadecimal digits as the token of a new claim."""
    return os.urandom(16).hex()


def grace_seconds(lease: Lease) -> float:
    """Return the grace period of a lease in seconds: 2 % of its length, but at least 30 s."""
    return max(30.0, 0.02 * _length(lease.seconds))


def expired(lease: Lease, now: datetime) -> bool:
    """Return True after the lease's end and grace period, when another process may take the item."""
    return now - timedelta(seconds=grace_seconds(lease)) >= lease.expires_at


def must_stop(lease: Lease, now: datetime) -> bool:
    """Return True shortly before the lease's end, when the holder must stop."""
    margin = min(grace_seconds(lease), _length(lease.seconds) / 3)
    return now + timedelta(seconds=margin) >= lease.expires_at


def renewed(lease: Lease, now: datetime, seconds: float) -> Lease:
    """Return the lease with an end at least ``seconds`` after ``now``. Raise ``LeaseLost`` if the lease has expired."""
    if expired(lease, now):
        # another process may own the item
        raise LeaseLost(
            f"the lease of {lease.holder} expired at {lease.expires_at.isoformat()}",
            hint="claim the item again before you continue",
            holder=lease.holder,
        )
    end = now + timedelta(seconds=_length(seconds))
    if end <= lease.expires_at:
        return lease
    return Lease(lease.holder, lease.token, lease.claimed_at, end, _length(seconds))


def _length(seconds: float) -> float:
    return min(seconds, LONGEST_SECONDS) if seconds > 0 else 0.0
