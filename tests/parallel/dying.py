"""The harness, killed at one moment: ``python dying.py MOMENT WORDS...``.

MOMENT is ``after:TYPE`` or ``before:TYPE``, an event of the ledger. ``files``: the files of a merge are written and the
branch is not yet moved. ``moved``: the branch was moved and nothing is recorded. ``settled``: the item was completed
and the ledger not yet written. ``joined``: the branch was moved to a commit on top of the remote's and nothing is
recorded. ``booked``: the coordinator has the costs of a job. ``paid``: the job's budget was settled. The first such
moment counts; of an event or of the last two, the Nth with ``after:TYPE@N``.
"""

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

from agent_harness.cli.main import process
from agent_harness.kernel.git import Git
from agent_harness.parallel import merge_queue
from agent_harness.parallel.budget import SharedBudget
from agent_harness.parallel.ledger import Ledger
from agent_harness.parallel.merge_queue import objects
from agent_harness.protocols.features.parallel.project_port import FeatureProjectPort
from agent_harness.protocols.tasklist.parallel.project_port import TaskListProjectPort

AFTER = {
    "joined": [(FeatureProjectPort, "joined"), (TaskListProjectPort, "joined")],
    "settled": [(FeatureProjectPort, "finalize"), (TaskListProjectPort, "finalize")],
    "booked": [(FeatureProjectPort, "ended"), (TaskListProjectPort, "ended")],
    "paid": [(SharedBudget, "finalize")],
}
"""Moments that are the end of a method."""


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def then_die(act: Callable[..., Any], number: int = 1) -> Callable[..., Any]:
    calls = count(1)

    def acted(*words: Any, **members: Any) -> Any:
        found = act(*words, **members)
        if next(calls) >= number:
            die()
        return found

    return acted


def arm(moment: str) -> None:
    when, _, kind = moment.partition(":")
    kind, _, number = kind.partition("@")
    when, _, which = when.partition("@")
    moments = count(1)
    append = Ledger.append

    def mortal(self: Ledger, name: str, **members: object) -> Any:
        is_due = kind == name and next(moments) == int(number or 1)
        if is_due and when == "before":
            die()
        event = append(self, name, **members)
        if is_due and when == "after":
            die()
        return event

    Ledger.append = mortal  # type: ignore[method-assign]
    if when == "files":
        update_ref = Git.update_ref

        def cut_off(self: Git, *words: Any, **members: Any) -> None:
            if members.get("message") == "agent-harness: landed":
                die()
            update_ref(self, *words, **members)

        Git.update_ref = cut_off  # type: ignore[method-assign]
    elif when == "moved":
        objects.move = merge_queue.move = then_die(objects.move)
    for of, name in AFTER.get(when, ()):
        setattr(of, name, then_die(getattr(of, name), int(which or 1)))


if __name__ == "__main__":
    arm(sys.argv[1])
    sys.argv = ["harness", *sys.argv[2:]]
    sys.exit(process())
