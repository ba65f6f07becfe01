"""The entry point of ``lth``, the command for long tasks."""

import sys

HELP = """\
lth: long tasks, one bounded slice at a time

This version has no long-task commands yet; `harness` runs feature projects.

  lth --version
  lth --help
"""


def main() -> int:
    """Answers ``--version`` and ``--help``; any other word is a usage error."""
    words = sys.argv[1:]
    if words in (["--version"], ["-v"]):
        from agent_harness import __version__

        print(f"lth {__version__}")
        return 0
    if not words or words[0] in ("--help", "-h", "help"):
        print(HELP, end="")
        return 0
    print(f"lth: unknown command {words[0]!r}\nnext: lth --help", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
