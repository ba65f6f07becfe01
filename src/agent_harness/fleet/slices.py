"""Long tasks in a fleet. Each task has at most one agent, which runs slice after slice while ``lth next`` answers
``run``.

A slice is one bounded run of a long task. The task's checkpoint file and lease remain authoritative. Therefore, a
schedule or the user may start slices too."""

import os
import sys
from collections.abc import Sequence

from agent_harness.errors import HarnessError
from agent_harness.fleet.roster import Member
from agent_harness.kernel import files
from agent_harness.kernel.json import JsonObject, dollars, jsontext
from agent_harness.session import now
from agent_harness.views.reading import reader_of

KIND = "longtask"
_STATES = {"run": "open", "wait": "waits", "done": "done", "needs-human": "needs you"}


def command(member: Member) -> list[str]:
    """Return the command for one slice of a long task."""
    # without agents in fleet.yaml, ``lth`` uses those of the task
    words = [sys.executable, "-P", "-m", "agent_harness.cli.lth", "run", member.path, "--no-wait"]
    for option, spec in zip(("--worker", "--fallback-worker"), member.agents, strict=False):
        words += [option, spec]
    return words


def under_way(path: str) -> JsonObject | None:
    """Return the running slice of a long task, in the format of a run's snapshot, or None."""
    told = next((each for each in now.told(reader_of(KIND, path).home) if each["alive"]), None)
    if told is None:
        return None
    workers = [told] if told.get("phase") != "waiting" else None
    return {"alive": True, "owner": told["owner"], "workers": workers, "budget": {"spent": told.get("cost_usd")}}


def stamp(path: str) -> object:
    return [files.stamp_of(os.path.join(path, name)) for name in ("task.json", "checkpoint.json")]


def due(path: str) -> tuple[str, str, float | None]:
    """Return the long task's fleet state, the reason for this state, and the waiting time in seconds."""
    from agent_harness.protocols.longtask.api import LongTask

    answer, _ = LongTask(path).next()
    state = _STATES[str(answer["decision"])]
    why = str(answer["nextStep"] if state == "needs you" else answer["reason"])
    seconds = answer["waitSeconds"]
    return state, "" if state in ("open", "done") else why, float(seconds) if state == "waits" and seconds else None


def account(member: Member) -> str:
    """Return the account of the agent that runs the next slice, or an empty text."""
    from agent_harness.protocols.longtask.run import adapters

    try:
        policy = files.read_json(os.path.join(member.path, "task.json"), exact=False).get("workerPolicy")
    except (HarnessError, OSError):
        return ""
    preferred = policy.get("preferred") if isinstance(policy, dict) else None
    named = next(iter(member.agents), str(preferred or "local-command"))
    return adapters.account_of(adapters.normalised(named)) or ""


def answer(printed: Sequence[str]) -> JsonObject:
    """Return the JSON answer that ``lth run`` printed, or an empty object."""
    if "{" not in printed or "}" not in printed:
        return {}
    first = len(printed) - 1 - [*reversed(printed)].index("{")
    last = len(printed) - [*reversed(printed)].index("}")
    try:
        found = jsontext.loads("\n".join(printed[first:last]), exact=False)
    except ValueError:
        return {}
    return found if isinstance(found, dict) and "decision" in found else {}


def cost_usd(answered: JsonObject) -> float:
    used = [each.get("usage") for each in (answered, answered.get("fallback")) if isinstance(each, dict)]
    return sum(dollars(each.get("costUsd")) or 0.0 for each in used if isinstance(each, dict))
