"""Entry point of ``harness``. Fast commands start in milliseconds, because only the other commands import click.

This module imports only modules that Python has already loaded. The module ``commands`` lists the fast commands."""

import codecs
import sys

from agent_harness.cli import leave


def main() -> int:
    """Run the command line in ``sys.argv`` and return its exit code (``docs/exit-codes.md``)."""
    show_every_letter()
    try:
        code = run(sys.argv[1:])
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except OSError:  # the reader has gone away, or its disk is full
        import os

        for stream in (1, 2):  # the rest of a buffer fails once more when Python ends, with another status
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        return 1


def show_every_letter() -> None:
    """Make stdout and stderr replace each character that their encoding does not contain."""
    codecs.register_error("agent-harness", _stand_in)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="agent-harness")


def _stand_in(error: UnicodeError) -> "tuple[str | bytes, int]":
    from agent_harness.kernel import terminal

    return terminal.stand_in(error)


def run(words: list[str]) -> int:
    """Run one command line and return its exit code. Internal errors are raised to the caller."""
    if words in (["--version"], ["-V"]):
        from agent_harness import __version__

        print(f"harness {__version__}")
        return 0
    first = words[0] if words else ""
    if first == "__complete":  # a shell waits for it
        from agent_harness.cli import complete

        return complete.main(words)
    from agent_harness.cli.commands import is_fast, loaded

    if is_fast(first):
        return int(loaded(first)(words))
    from agent_harness.cli import app

    return app.main(words)


def process() -> int:
    return leave(main())


if __name__ == "__main__":
    sys.exit(process())
