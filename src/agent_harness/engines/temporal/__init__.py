"""Jobs over Temporal: ``engine`` runs on the coordinator, ``worker`` on other machines, and ``workflow`` on the server.

This package needs the extra ``temporal``. The harness imports it only for a ``temporal:`` URL. Temporal's own
``TEMPORAL_*`` variables and profile file configure TLS, keys and profiles."""

from importlib.util import find_spec

from agent_harness.errors import ToolMissing
from agent_harness.installation import command_for_extra

JOB = "harness.Order.v1"
CARRY_OUT = "harness.carry_out.v1"
SLICE = "harness.Slice.v1"
SLICE_ACTIVITY = "harness.lth_slice.v1"
PLAN_QUEUE = "harness.plan"
REFUSED = "OrderRefused"
WORKER_LEFT = "HandsLeft"


def work_queue(pool: str) -> str:
    return f"harness.work.{pool}"


def slice_queue(host: str) -> str:
    """Return the name of the Temporal task queue for a machine's slices of long tasks."""
    return f"harness.lth.{host}"


def require_extra() -> None:
    if find_spec("temporalio") is None:
        raise ToolMissing("the extra 'temporal' is not installed", hint=command_for_extra("temporal"))
