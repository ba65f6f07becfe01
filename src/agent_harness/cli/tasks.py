"""Runs the verbs that agents call on a task list: ``harness task …``, ``harness session …``, ``harness rescue …``.

They answer with one JSON object on stdout, ``--text`` for people; nothing here loads what takes long to load. Source:
``tasklist.md`` 13.3.
"""

from __future__ import annotations

from agent_harness.cli.verbs.options import HelpAsked
from agent_harness.cli.verbs.tasks import LIST_NAMES, PROGRAMS
from agent_harness.errors import Interrupted, UsageError
from agent_harness.protocols.tasklist.api import TaskList

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.cli.verbs.options import Program

    Record = dict[str, Any]

__all__ = ["main", "open_list", "show"]

_SAID = ("rescues", "tasks", "pruned")  # also when there are none
_LONG = ("task", "validation", "stats", "plan", "tail", "files", "recovered", "tasks", "rescues", "pruned")


def main(words: list[str]) -> int:
    """Runs a command line that begins with a word of ``PROGRAMS``; every ending is an exit code, never a traceback."""
    group, *rest = words
    as_json = "--json" in rest or "--text" not in rest
    verb = " ".join(rest[:1] if group == "task" else words[:2]) or None
    try:
        return _run(group, rest)
    except BrokenPipeError:
        raise  # whoever was to read the answer has gone away
    except (Exception, KeyboardInterrupt) as error:  # a person never meets a traceback
        from agent_harness.cli import failure

        shown = error if isinstance(error, Exception) else Interrupted("Interrupted")
        return failure.show_any(shown, as_json=as_json, verb=verb)


def _run(group: str, words: list[str]) -> int:
    program = PROGRAMS[group]
    if not words:
        return _help(program, "", code=2)
    try:
        name = program.verb(words[0])
        parsed = program.parse(name, words[1:])
    except HelpAsked as asked:
        return _help(program, asked.verb, code=0)
    given: dict[str, Any] = {key.replace("-", "_"): value for key, value in parsed.items()}
    as_text = given.pop("text", False) and not given.pop("json", False)
    given.pop("json", None)
    task_list = open_list(**{key: given.pop(key) for key in LIST_NAMES if key in given})
    prefix = "" if group == "task" else f"{group}_"
    act = program.verbs[name].act or getattr(TaskList, f"{prefix}{name.replace('-', '_')}")
    show(name if group == "task" else f"{group} {name}", act(task_list, **given), as_text=as_text)
    return 0


def _help(program: Program, verb: str, *, code: int) -> int:
    from agent_harness.cli.verbs import usage

    print(usage.usage(program, verb), end="")
    return code


def open_list(*, now: str | None = None, **named: Any) -> TaskList:
    """The task list that the options name: ``root``, ``worker``, ``session``, ``token``, ``lock_timeout``, ``now``."""
    root = named.pop("root", None)
    if not now:
        return TaskList.open(root, **named)
    from agent_harness.kernel import clock

    at = clock.parse(now)
    if at is None:
        raise UsageError(f"--now {now!r} is no time", hint="--now 2026-01-31T09:30:00Z")
    return TaskList.open(root, now=at, **named)


def show(name: str, answer: Record, *, as_text: bool) -> None:
    """Prints an answer: one JSON object, or lines for a person."""
    if not as_text:
        from agent_harness.kernel.json import jsontext

        print(jsontext.spaced({"ok": True, "verb": name, **answer}))
        return
    import json

    from agent_harness.kernel.terminal import printable

    for key, value in answer.items():
        if key == "next" or value in (None, {}) or (value == [] and key not in _SAID):
            continue
        plain = not isinstance(value, (dict, list)) or key not in _LONG
        told = f"{key}: {value if plain else json.dumps(value, ensure_ascii=False, indent=2) if value else 'none'}"
        print("\n".join(map(printable, told.split("\n"))))
    print(printable(f"next: {answer.get('next', 'harness status')}"))
