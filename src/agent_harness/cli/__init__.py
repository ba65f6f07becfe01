"""Command lines of ``harness`` and ``lth``. Each parses its arguments, calls one API method and prints."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.json import JsonObject
    from agent_harness.kernel.root import Root

NOTHING_HERE = "No project in this folder or above: no harness-tasks.json, and no features.json with .harness.yaml"
HOW_TO_BEGIN = "harness init .  # a task list; a feature project: harness init --spec FILE"


def project_here() -> "Root":
    """Return the nearest project of any kind. If there is none, raise ``NotAProject`` with commands that create a
    project."""
    from agent_harness.errors import NotAProject
    from agent_harness.kernel import root

    found = root.find()
    if found is None:
        raise NotAProject(NOTHING_HERE, hint=HOW_TO_BEGIN)
    return found


def say_json(verb: str, found: "JsonObject") -> None:
    """Print the JSON answer of a command."""
    from agent_harness.kernel.json import jsontext

    print(jsontext.spaced({"ok": True, "verb": verb, **found}))


def leave(code: int) -> int:
    """Flush the output and end the process at once. Return ``code`` if the process cannot end at once."""
    # A normal exit costs a short command an eighth of its time. Temporal's threads can crash or block it.
    if "threading" not in sys.modules or "temporalio.bridge" in sys.modules:
        try:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
        except (OSError, ValueError):
            return code  # the interpreter has its own way with a stream that is gone
        import os

        os._exit(code)
    return code
