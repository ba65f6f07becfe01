"""The process that carries one order out: ``python -m agent_harness.parallel.hands ORDER_FOLDER``.

It has the place for itself, makes it what the order asks for, lets the protocol work there, and takes home what came of
it: a candidate under a ref of its own, all other work as rescues. ``result.json`` is the last thing it writes, by
rename; without it nothing has happened but what is in the project's refs. SC-11..13, SC-29.
"""

import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module

from agent_harness.errors import HarnessError, PreflightFailed
from agent_harness.kernel import files
from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel import equipment, places
from agent_harness.parallel.equipment import SetUp
from agent_harness.parallel.items import ACCEPTED, ATTEMPT, FAILED, NOT_SET_UP, WorkOrder
from agent_harness.parallel.places import Workplace


class PlaceNotSetUp(PreflightFailed):
    """A place could not be made ready, not even a new one: no agent was started, and its slot is of no use."""

    code = NOT_SET_UP


RESULT = "result.json"
ORDER = "order.json"


def main(folder: str) -> int:
    """Carries out the order in ``folder``; 0 where there is a result."""
    order = WorkOrder.from_record(files.read_json(os.path.join(folder, ORDER)))
    try:
        result = carry_out(order, folder)
    except HarnessError as error:
        traceback.print_exc()
        told = error.hint and f"{error.message} ({error.hint})"
        result = {"status": FAILED, "reason": error.code, "message": told or error.message}
        result |= {"exit_code": error.exit_code, "uncounted": True, "output": error.data.get("output")}
    files.write_json(os.path.join(folder, RESULT), {"v": 1, "id": order.id, "fence": order.fence, **result})
    return 0


def carry_out(order: WorkOrder, folder: str) -> JsonObject:
    """What the protocol says of it, and where the work is."""
    home, place = Git(order.home), Workplace(order.place)
    module, _, name = order.hands.partition(":")
    with place.locked():
        if order.kind == ATTEMPT and not place.at_rest:
            place.rescue(home, place.name, order.own)  # somebody was killed where nobody looked
        place.at_rest = False
        if order.fresh:
            _remove(order, place, home)
        hands = getattr(import_module(module), name)
        result = _worked(order, place, lambda: hands(place, order, folder))
        if order.kind != ATTEMPT:
            return result
        if result["status"] == ACCEPTED:
            ref = f"{places.WORK_REFS}/{order.name}/{order.fence}"
            places.take_home(place.git, home, result["commit"], ref)
        result["rescues"] = place.rescue(home, order.name, order.own)
        place.at_rest = True
    return result


def _worked(order: WorkOrder, place: Workplace, act: Callable[[], JsonObject]) -> JsonObject:
    """What ``act`` answers in the place, once that is set up; where it cannot be, once more in a new one.

    SC-12, SC-17: no agent starts before.
    """
    home = Git(order.home)
    for is_new in (False, True):
        try:
            _set_up(order, place, home)
        except (HarnessError, OSError) as error:
            if is_new:
                raise PlaceNotSetUp(f"{place.folder} cannot be made: {error}") from None
            failed: HarnessError | OSError = error
        else:
            try:
                equipment.set_up(place.git, order.home, SetUp.from_record(order.set_up))
                return act()
            except PreflightFailed as error:  # by the project's own set-up, before an agent
                if is_new:
                    raise PlaceNotSetUp(error.message, output=error.data.get("output")) from None
                failed = error
        sys.stdout.write(f"{failed}; once more in a new place\n")
        _remove(order, place, home)
    raise AssertionError("the second time returns or raises")


def _remove(order: WorkOrder, place: Workplace, home: Git) -> None:
    place.rescue(home, order.name, order.own)
    if said := equipment.tear_down(place.folder):
        sys.stdout.write(f"{said}\n")
    place.clear()


def _set_up(order: WorkOrder, place: Workplace, home: Git) -> None:
    place.prepare(home, order.base, order.branch)
    equipment.lend(order.home, place.git, order.lend)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
