"""Whose rate limit a worker shares: what one task learns about an account holds for every task and harness of the user.

The checkpoint has the cooldowns of its own task; the clock of the user (``kernel/rate_limits.py``) those of accounts. A
shell command has no account. Source: ``longtask.md`` 10.1, 10.4.
"""

from __future__ import annotations

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock
from agent_harness.kernel.rate_limits import LimitClock
from agent_harness.protocols.longtask import lifecycle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from agent_harness.protocols.longtask.records import Checkpoint
    from agent_harness.protocols.longtask.run.worker_process import Ran

    Record = dict[str, Any]

__all__ = ["account_of", "cooldown", "refused", "worked"]

_KINDS = {"codex-cli": "codex", "claude-code": "claude-code"}
_NAMES = {"codex-cli": "codex", "claude-code": "claude-code", "kimi-cli": "kimi"}
_NO_ACCOUNT = ("local-command",)


def account_of(worker: str) -> str | None:
    """The account of a (normalised) worker; ``None`` for a worker that has none."""
    if worker in _NO_ACCOUNT:
        return None
    from agent_harness.agents import registry

    kind = _KINDS.get(worker, worker)
    if kind.partition(":")[0] not in registry.KINDS:
        return _NAMES.get(worker)
    try:
        return registry.from_spec(kind, source="--worker").account
    except HarnessError:
        return _NAMES.get(worker)


def cooldown(checkpoint: Checkpoint, worker: str, now: datetime) -> Record | None:
    """Why a worker has to wait, in the form of ``workerCooldowns``; ``None`` when it may start."""
    if lifecycle.is_cooling(checkpoint, worker, now):
        return checkpoint.cooldowns[worker]
    account = account_of(worker)
    limit = LimitClock().in_force(account) if account else None
    if limit is None or limit.until <= now:
        return None
    return {
        "type": "rate_limit",
        "source": "scheduler",
        "message": str(limit),
        "observedAt": clock.timestamp(limit.noted_at, fraction=True),
        "blockedUntil": clock.timestamp(limit.until, fraction=True),
        "retryAfterSeconds": lifecycle.seconds_until(limit.until, limit.noted_at),
        "evidence": [],
    }


def refused(ran: Ran, found: Record) -> None:
    """Keeps a rate limit for everybody; what an agent of ours ran into is kept already by its supervisor."""
    account = account_of(ran.plan.worker) if ran.plan.run is not None else None
    if account:
        LimitClock().note(account, said=str(found["summary"]), retry_after_seconds=found.get("retryAfterSeconds"))


def worked(ran: Ran) -> None:
    """Forgets the limit of an account whose worker ended well, unless it was noted since."""
    account = account_of(ran.plan.worker) if ran.plan.run is not None else None
    if account:
        LimitClock().forget(account, noted_before=clock.parse(ran.started_at))
