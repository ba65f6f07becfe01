"""The entry point of ``lth``, the command for long tasks: parse, call one method of the front door, render.

Every error is plain lines on stderr and exit status 1; stdout carries the answer alone. Source: ``longtask.md`` 2.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.errors import HarnessError


def main() -> int:
    """Runs the command line in ``sys.argv``; never a traceback."""
    try:
        code = _run(sys.argv[1:])
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except OSError as error:  # whoever was to read the answer has gone away, or its disk is full
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1 if isinstance(error, BrokenPipeError) else _complain(f"The answer cannot be written: {error.strerror}")
    except KeyboardInterrupt:
        return 130


def _run(words: list[str]) -> int:
    if not words or words[0] in ("--help", "-h", "help"):
        return _help(words[1:])
    if words[0] in ("--version", "-v"):
        from agent_harness import __version__

        return _show(f"lth {__version__}")
    return _call(words)


def _help(words: list[str]) -> int:
    from agent_harness.cli.verbs.lth import LTH
    from agent_harness.cli.verbs.usage import usage

    command = LTH.aliases.get(words[0], words[0]) if words else ""
    return _show(usage(LTH, command if command in LTH.verbs else ""))


def _call(words: list[str]) -> int:
    from agent_harness.cli.verbs.lth import LTH
    from agent_harness.cli.verbs.options import HelpAsked
    from agent_harness.errors import HarnessError

    try:
        command = LTH.verb(words[0])
        options = LTH.parse(command, words[1:])
        from agent_harness.protocols.longtask.api import LongTask

        task = LongTask(str(options.pop("folder")))
        answer, code = getattr(task, command.replace("-", "_"))(options)
    except HelpAsked as asked:
        return _help([asked.verb])
    except HarnessError as error:
        return _failed(error)
    except Exception as error:  # a fault of ours is one line too
        return _fault(error)
    _show(answer)
    return int(code)


def _show(answer: object) -> int:
    """Prints a text as lines, and everything else as JSON."""
    if answer is None or sys.stdout is None:
        return 0
    if isinstance(answer, str):
        text = answer if answer.endswith("\n") else f"{answer}\n"
    else:
        from agent_harness.kernel.json import jsontext

        text = jsontext.dumps(answer)
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    return 0


def _failed(error: "HarnessError") -> int:
    """An error of the work: each problem of a task is a line, a report follows the line that it explains."""
    from agent_harness.kernel.terminal import one_line

    problems: Any = getattr(error, "errors", None)
    if problems:
        return _complain(*(f"- {one_line(each)}" for each in problems))
    _complain(one_line(f"{error.message}; {error.hint}" if error.hint else error.message))
    report = error.data.get("report")
    if report:
        from agent_harness.kernel.json import jsontext

        _complain(jsontext.dumps(report).rstrip("\n"))
    return 1 if error.exit_code < 128 else error.exit_code


def _fault(error: Exception) -> int:
    import os

    from agent_harness.kernel.terminal import one_line

    if os.environ.get("HARNESS_DEBUG"):
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    named = getattr(error, "filename", None)
    if isinstance(error, OSError) and named:
        return _complain(one_line(f"{os.fsdecode(named)}: {error.strerror}"))
    return _complain(one_line(f"Unexpected: {type(error).__name__}: {error}; HARNESS_DEBUG=1 shows where"))


def _complain(*lines: str) -> int:
    """Lines on stderr; 1, the exit status of every error."""
    if sys.stderr is not None:
        sys.stderr.flush()
        sys.stderr.buffer.write("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
        sys.stderr.flush()
    return 1


if __name__ == "__main__":
    sys.exit(main())
