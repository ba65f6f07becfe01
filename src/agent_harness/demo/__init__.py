"""``harness demo``: a scripted agent builds a small program, and the harness catches its lie before your eyes."""

from pathlib import Path

__all__ = ["demo_command"]


def demo_command(path: Path | None, plain: bool, as_json: bool) -> int:
    """Runs the demo in a new folder and returns the exit code: 0 only when everything ended as promised.

    ``path`` must not exist or be empty; without it a folder below the system's temporary folder is made. The folder is
    kept. ``plain`` prints lines instead of a live view, as happens anyway when stdout is not a terminal. ``as_json``
    prints one object on stdout and the lines on stderr. Raises ``UsageError`` for a folder that is in use and
    ``ToolMissing`` when git or pytest is not there; nothing is started then.
    """
    from agent_harness.demo.show import show

    return show(path, plain=plain, as_json=as_json)
