"""Whose rate limit a worker shares: what one task learns about an account holds for every task and harness of the user.

The checkpoint has the cooldowns of its own task; the clock of the user (``kernel/rate_limits.py``), in which the
supervisor keeps what a worker runs into, those of accounts. A shell command has no account.
Source: ``longtask.md`` 10.1, 10.4.
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

    Record = dict[str, Any]

__all__ = ["account_of", "cooldown"]

_CLIENTS = {
    "codex-cli": "agent_harness.agents.codex.command",
    "claude-code": "agent_harness.agents.claude_code.command",
    "kimi-cli": "agent_harness.agents.kimi",
}
"""Worker → the module that knows whose limits its client shares; only the one that is asked for is loaded."""


def account_of(worker: str) -> str | None:
    """The account of a (normalised) worker; ``None`` for a worker that has none."""
    if worker == "local-command":
        return None
    if worker in _CLIENTS:
        from importlib import import_module

        name: str = import_module(_CLIENTS[worker]).account()
        return name
    from agent_harness.agents import registry

    try:
        return registry.from_spec(worker, source="--worker").account
    except HarnessError:
        return None


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
