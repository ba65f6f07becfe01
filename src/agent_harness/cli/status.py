"""``harness status``: answers from the state files alone. To be fast, it loads as little code as possible."""

from agent_harness.cli import HOW_TO_BEGIN, NOTHING_HERE, say_json
from agent_harness.cli.verbs import JSON, STYLE, Number, Option, Program, Subcommand, guarded
from agent_harness.errors import HarnessError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


STATUS = Program(
    "harness",
    "",
    {
        "status": Subcommand(
            "Show the progress of the project or task list, and the next step. The command only reads, and takes no "
            "lock.\n\nFor a long list, the command shows only running, failed and next tasks.",
            Option("--tail", "N", "Task list: show N lines of the log. [default: 5]", Number(0, int)),
            Option("--line", None, "Print one line of at most 60 characters, for a status bar.", name="glance"),
            Option(
                "--all", None, "Show all tasks of a long list, all pending questions and all agents.", name="everything"
            ),
            JSON,
            example="harness status\nharness status --json\n"
            "harness status --line                      for the status bar of tmux",
        )
    },
    STYLE,
)


def main(words: "list[str]") -> int:
    """Print the state of the project. Return 0 even if no run is active."""
    return guarded(STATUS, _run, words)


def _run(words: "list[str]") -> int:
    given: dict[str, Any] = STATUS.parse("status", words[1:])
    try:
        return _answer(given.pop("json", False), **given)
    except BrokenPipeError:
        raise  # the reader has gone away
    except OSError as error:
        raise HarnessError(f"{error.filename or 'disk'}: {error.strerror}") from error


def _answer(as_json: bool, tail: int = 5, glance: bool = False, everything: bool = False) -> int:
    from agent_harness.kernel import root

    found = root.find()
    if found is not None and found.kind == "tasklist":
        return _task_list(found.path, as_json, tail, glance, everything)
    if found is not None and found.kind == "longtask":
        from agent_harness.errors import NotAProject

        raise NotAProject(f"{found.path} is a long task. Use the lth commands for it", hint="lth status .")
    return _features(as_json, glance, everything)


def missed(kind: str, folder: str) -> "dict[str, Any]":
    """Return the messages and spans of a project that nobody has received."""
    from agent_harness.kernel import trusted_state
    from agent_harness.views import notify

    found: dict[str, Any] = {"undelivered": notify.undelivered(kind, folder), "unexported": None}
    if trusted_state.of_user("otel", make=False):  # if a collector has missed anything
        from agent_harness.views import otel

        found["unexported"] = otel.untaken(kind, folder)
    return found


def _task_list(folder: str, as_json: bool, tail: int, glance: bool, everything: bool) -> int:
    from agent_harness.protocols.tasklist import api

    found = {**api.status(folder, tail=tail), **missed("tasklist", folder)}
    if as_json:
        say_json("status", found)
    else:
        from agent_harness.kernel import terminal

        columns = 0 if terminal.is_plain() else terminal.columns_of_terminal()
        shown = (
            [api.glance(found)]
            if glance
            else api.lines(found, everything=everything, columns=columns, hooks=lambda: has_hooks(folder))
        )
        _show(shown)
    return 0


def has_hooks(folder: str) -> bool:
    import os

    from agent_harness.hooks import places

    return places.any_named(folder, os.environ)


def _features(as_json: bool, glance: bool, everything: bool) -> int:
    from agent_harness.protocols.features import api

    layout = api.find(NOTHING_HERE, HOW_TO_BEGIN)
    found = {**api.status(layout), **missed("features", layout.root)}
    if as_json:
        import json

        print(json.dumps({"ok": True, **found}, ensure_ascii=False))
    else:
        _show([api.glance(found)] if glance else api.lines(found, everything=everything))
    return 0


def _show(lines: "list[str]") -> None:
    from agent_harness.kernel.terminal import laid_out

    # lines with commands are not wrapped, so that users can copy them
    print("\n".join(laid_out(lines, whole=("next", "Answer with"))))
