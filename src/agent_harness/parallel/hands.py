"""The process that carries one order out: ``python -m agent_harness.parallel.hands ORDER_FOLDER``.

It has the place for itself, makes it what the order asks for, lets the protocol work there, and takes home what came of
it: a candidate under a ref of its own, all other work as rescues. ``result.json`` is the last thing it writes, by
rename; without it nothing has happened but what is in the project's refs. SC-11..13, SC-29.
"""

import os
import sys
import traceback
from importlib import import_module

from agent_harness.errors import HarnessError
from agent_harness.kernel import files
from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel import places
from agent_harness.parallel.items import ACCEPTED, ATTEMPT, FAILED, WorkOrder
from agent_harness.parallel.places import Workplace

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
        result |= {"exit_code": error.exit_code}
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
        place.prepare(home, order.base, order.branch)
        hands = getattr(import_module(module), name)
        result: JsonObject = hands(place, order, folder)
        if order.kind != ATTEMPT:
            return result
        if result["status"] == ACCEPTED:
            ref = f"{places.WORK_REFS}/{order.name}/{order.fence}"
            places.take_home(place.git, home, result["commit"], ref)
        result["rescues"] = place.rescue(home, order.name, order.own)
        place.at_rest = True
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
