"""Commands for parallel runs, parsed without click: ``harness workspace``, ``queue``, ``scale`` and ``cancel``."""

from __future__ import annotations

from agent_harness.cli.verbs import JSON, STYLE, Argument, Program, Subcommand, guarded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from agent_harness.kernel.json import JsonObject
    from agent_harness.parallel.people import ParallelRuns

__all__ = ["PROGRAMS", "main"]


def main(words: list[str]) -> int:
    """Run a command line of this module and return its exit code. Never print a traceback."""
    return guarded(PROGRAMS.get(words[0], REQUESTS), _run, words)


def _run(words: list[str]) -> int:
    program = PROGRAMS.get(words[0], REQUESTS)
    rest = words if program is REQUESTS else words[1:]
    if not rest or rest[0] == "--json":
        rest = ["list", *rest]
    verb = program.verb(rest[0])
    given: dict[str, Any] = program.parse(verb, rest[1:])
    as_json = given.pop("json", False)
    act = program.verbs[verb].act
    assert act is not None
    found, lines = act(_here(), **given)
    _show(verb if program is REQUESTS else f"{words[0]} {verb}", found, lines, as_json=as_json)
    return 0


def _here() -> ParallelRuns:
    from agent_harness.cli.shared import kind_here

    kind, folder = kind_here()
    if kind == "features":
        from agent_harness.cli.features import opened

        return opened(True).parallel_runs()
    from agent_harness.protocols.tasklist.api import TaskList

    return TaskList.open(folder).parallel_runs()


def _show(verb: str, found: JsonObject, lines: list[str], *, as_json: bool) -> None:
    if as_json:
        from agent_harness.kernel.json import jsontext

        print(jsontext.spaced({"ok": True, "verb": verb, **found}))
        return
    from agent_harness.kernel.terminal import printable

    for line in lines:
        print(printable(line))


# ---- workspaces


def _workspace_list(runs: ParallelRuns) -> tuple[JsonObject, list[str]]:
    found = runs.workspace_list()
    lines = [
        f"{each['place']:<4} {each['state']:<7} {_megabytes(each['bytes']):>10}  {_ago(each['age_seconds']):>8}  "
        f"{each['item'] or ''}".rstrip()
        for each in found["places"]
    ]
    lines += [f"Set aside, and never changed by the harness: {path}" for path in found["set_aside"]]
    return found, [*(lines or ["No workspaces."]), f"next: {found['next']}"]


def _workspace_path(runs: ParallelRuns, workspace: str) -> tuple[JsonObject, list[str]]:
    found = runs.workspace_path(workspace)
    return found, [found["path"]]


def _workspace_prune(runs: ParallelRuns) -> tuple[JsonObject, list[str]]:
    found = runs.prune()
    lines: list[str] = []
    for each in found["removed"]:
        kept = f"; its unmerged work is in {', '.join(each['rescues'])}" if each["rescues"] else ""
        lines.append(f"Removed {each['place']}{kept}")
    lines += [f"Not removed: {each['place']}: {each['why']}" for each in found["kept"]]
    return found, [*(lines or ["No workspaces."]), f"next: {found['next']}"]


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


def _ago(seconds: int) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


# ---- the queue


def _queue_list(runs: ParallelRuns) -> tuple[JsonObject, list[str]]:
    found = runs.queue()
    lines = [
        f"{each['item']}  {each['state']}  attempt {each['fence']}, since {_local(each['since'])}"
        for each in found["queue"]
    ]
    lines = lines or ["The merge queue is empty."]
    lines += [found["unpushed"]["message"]] if found["unpushed"] else []
    return found, [*lines, *([] if found["alive"] else ["No run is running."]), f"next: {found['next']}"]


def _local(at: object) -> str:
    from agent_harness.kernel import clock

    moment = clock.parse(at)
    return clock.local(moment) if moment else "?"


# ---- requests


def _asked(verb: str) -> Callable[..., tuple[JsonObject, list[str]]]:
    def act(runs: ParallelRuns, **args: Any) -> tuple[JsonObject, list[str]]:
        found = runs.ask(verb, **args)
        return found, [found["said"], f"next: {found['next']}"]

    return act


def _number(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and 1 <= int(word[:9]) <= 256):
        raise ValueError(f"{word!r} must be a number from 1 to 256.")
    return int(word)


_ITEM = Argument("item", "ITEM", str)

REQUESTS = Program(
    "harness",
    "Change a parallel run while it runs.",
    {
        "scale": Subcommand(
            "Change the number of agents in this project's parallel run. If the number grows, new slots open "
            "immediately. If it shrinks, a slot closes when its attempt ends.\n\n"
            "Exit code: 7 there is no run, 5 the run does not answer.",
            Argument("workers", "N", _number),
            JSON,
            example="harness scale 6",
            act=_asked("scale"),
        ),
        "cancel": Subcommand(
            "End one attempt after its current operation. The harness keeps the work, and does not count the attempt. "
            "The item is open again, and a free slot may start a new attempt.\n\n"
            "Exit code: 7 there is no run, 5 the run does not answer, 2 no attempt with that name is running.",
            Argument("item", "SLOT|ITEM", str),
            JSON,
            example="harness cancel w3",
            act=_asked("recall"),
        ),
    },
    STYLE,
)

PROGRAMS = {
    "workspace": Program(
        "harness workspace",
        "Show and remove the workspaces of parallel runs. Each workspace is a separate repository of one agent.",
        {
            "list": Subcommand(
                "List the workspaces.",
                JSON,
                purpose="Show each workspace with its state, its size, the time since an agent started there, and the "
                "agent's item. `in use`: an agent works in the workspace. `left`: a run was killed. The harness "
                "rescues the work before it reuses the workspace. `free`: the project already contains all work of "
                "the workspace.",
                example="harness workspace list",
                act=_workspace_list,
            ),
            "path": Subcommand(
                "Print the folder of a workspace.",
                Argument("workspace", "WORKSPACE", str),
                JSON,
                purpose="Print the folder of a workspace, and nothing else.",
                example='cd "$(harness workspace path w3)"',
                act=_workspace_path,
            ),
            "prune": Subcommand(
                "Remove unused workspaces.",
                JSON,
                purpose="Remove unused workspaces. First, the harness keeps work that the project does not contain in "
                "a rescue (`harness rescue list`). Files that git ignores, such as installed packages, are deleted. "
                "While a run exists, the command is refused.",
                example="harness workspace prune",
                act=_workspace_prune,
            ),
        },
        STYLE,
        examples=["harness workspace", 'cd "$(harness workspace path w3)"', "harness workspace prune"],
    ),
    "queue": Program(
        "harness queue",
        "Show and change the merge queue: the proven work that waits to be merged into the branch.",
        {
            "list": Subcommand(
                "List the merge queue.",
                JSON,
                purpose="Show the proven items that wait to be merged, in order, each with its attempt and time. The "
                "list includes items of a run that was killed.",
                example="harness queue list --json",
                act=_queue_list,
            ),
            "hold": Subcommand(
                "Hold an item, so that it is not merged.",
                _ITEM,
                JSON,
                purpose="Hold an item that is proven or in progress. The harness does not merge the item until you "
                "release it. Other items are merged as usual.",
                example="harness queue hold task-003",
                act=_asked("hold"),
            ),
            "release": Subcommand(
                "Release a held item, so that it can be merged.",
                _ITEM,
                JSON,
                purpose="Release a held item. The harness merges the item when its turn comes.",
                example="harness queue release task-003",
                act=_asked("release"),
            ),
            "drop": Subcommand(
                "Remove a candidate from the queue, and keep it in a rescue.",
                _ITEM,
                JSON,
                purpose="Remove the candidate of an item from the queue. The harness keeps the candidate in a rescue "
                "(`harness rescue list`), and the item is open again.",
                example="harness queue drop task-003",
                act=_asked("drop"),
            ),
            "first": Subcommand(
                "Move an item to the front of the queue.",
                _ITEM,
                JSON,
                purpose="Move a proven item to the front of the merge queue.",
                example="harness queue first task-003",
                act=_asked("first"),
            ),
        },
        STYLE,
        examples=["harness queue", "harness queue hold task-003", "harness queue first '#5'"],
    ),
}
