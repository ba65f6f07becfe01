"""Output of an error: one line and the next command on stderr, or one JSON object on stdout if JSON was requested."""

import os
import sys

from agent_harness.errors import (
    ConfigurationError,
    HarnessError,
    Refused,
    StateDamaged,
    ToolMissing,
    UnsafeTree,
    UsageError,
)
from agent_harness.kernel.terminal import laid_out, one_line, printable

TAIL_LINES = 20
_USUAL_HINTS = (
    (ConfigurationError, "harness config"),
    (UsageError, "harness help commands"),
    (UnsafeTree, "git status"),
    (ToolMissing, "harness doctor"),
    (StateDamaged, "harness doctor"),
)
"""Hint for each class of error: the next command if the error itself names none."""


def show(error: HarnessError, *, as_json: bool, verb: str | None = None) -> int:
    if as_json:
        from agent_harness.kernel.json import jsontext

        named = {"verb": verb} if verb else {}
        print(jsontext.spaced({"ok": False, **named, "error": error.as_json()}))
        return error.exit_code
    print("\n".join(laid_out([f"harness: {one_line(error.message)}"], stream=sys.stderr)), file=sys.stderr)
    tail, reasons = error.data.get("tail"), error.data.get("reasons")
    if isinstance(tail, list) and tail != reasons:  # last output of a validation
        for line in tail[-TAIL_LINES:]:
            print(f"    {printable(str(line))}", file=sys.stderr)
    usual = (command for kind, command in _USUAL_HINTS if isinstance(error, kind))
    if hint := error.hint or next(usual, None):
        print(f"next: {one_line(hint)}", file=sys.stderr)
    return error.exit_code


def show_any(error: Exception, *, as_json: bool, verb: str | None = None) -> int:
    """Print an error in one line and return its exit code. With ``HARNESS_DEBUG=1``, also print the traceback."""
    cause = error.__cause__ if isinstance(error, HarnessError) else error
    if cause is not None and os.environ.get("HARNESS_DEBUG"):
        import traceback

        traceback.print_exception(cause, file=sys.stderr)
    return show(for_people(error), as_json=as_json, verb=verb)


def for_people(error: Exception) -> HarnessError:
    """Return the error to show to the user for an exception."""
    if isinstance(error, HarnessError):
        return error
    if isinstance(error, OSError) and (refused := _refusal(error)):
        return refused
    where = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return HarnessError(
        f"Unexpected error: {where}", hint="repeat the command with HARNESS_DEBUG=1, to see where the error occurred"
    )


def _refusal(error: OSError) -> Refused | None:
    from agent_harness.kernel import files

    if refused := files.disk_refusal(error):
        return refused
    if error.filename:
        return Refused(f"{error.filename}: {error.strerror}", hint=f"ls -ld {error.filename}")
    try:
        os.getcwd()
    except FileNotFoundError:
        return Refused("The current folder no longer exists", hint="cd to an existing folder")
    return None
