"""Code with which a hook script finds the package: first next to the script, then at the path that ``harness hooks
install`` has recorded.

The hook does nothing if the package is not found. It also does nothing if the interpreter is too old and no newer
interpreter is known. This file runs under any Python 3."""

# ruff: noqa: PTH100, PTH111, PTH113, PTH118, PTH120, PTH123, S606

import gc
import os
import sys

OLDEST = (3, 11)


def find() -> bool:
    """Make the package importable, and return True on success.
    If this interpreter is too old, restart the hook with the recorded interpreter."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    beside = os.path.isfile(os.path.join(here, "hooks", "dispatch.py"))
    if beside and sys.version_info >= OLDEST:
        sys.path[:1] = []
        sys.path.append(os.path.dirname(here))
        return True
    interpreter, folder = recorded()
    if sys.version_info < OLDEST:
        newer = interpreter and os.path.realpath(interpreter) != os.path.realpath(sys.executable)
        if newer and os.access(interpreter, os.X_OK) and not os.environ.get("HARNESS_HOOK_STARTED"):
            os.environ["HARNESS_HOOK_STARTED"] = "1"
            os.execv(interpreter, [interpreter, "-S", "-E", os.path.abspath(sys.argv[0])])
        return False
    if not folder or not os.path.isfile(os.path.join(folder, "agent_harness", "hooks", "dispatch.py")):
        return False
    sys.path[:1] = []
    sys.path.append(folder)
    return True


def recorded() -> "tuple[str, str]":
    """Return the interpreter and the package folder that the last install recorded.
    Return empty texts if there is no record, or if another user owns it."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    path = os.path.join(home, "agent-harness", "hooks-path")
    try:
        with open(path, encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return "", ""
            lines = file.read(8192).split("\n")
    except (OSError, ValueError):
        return "", ""
    return (lines[0], lines[1]) if len(lines) > 1 and lines[0][:1] == lines[1][:1] == "/" else ("", "")


def be_quick() -> None:
    """Disable garbage collection and OpenSSL, because a process of a few milliseconds needs neither.
    ``hashlib`` works without OpenSSL."""
    gc.disable()
    sys.modules["_hashlib"] = None  # type: ignore[assignment]


def hook(name: str) -> None:
    """Answer one hook event and exit the process with status 0 or 2."""
    try:
        if find():
            be_quick()
            from agent_harness.hooks.dispatch import call_and_exit

            call_and_exit(name)
    except BaseException:
        os._exit(0)
    os._exit(0)


def script(name: str) -> None:
    """Run a task script, and exit the process with status 0. In every case, the script prints one JSON object."""
    done = {"claim": "claimed", "renew": "renewed"}[name]
    why = "the agent-harness package was not found; run: harness hooks install"
    try:
        if find():
            be_quick()
            from agent_harness.hooks.task_scripts import call_and_exit

            call_and_exit(name)
    except BaseException as error:
        why = "unexpected: " + type(error).__name__
    os.write(1, ('{"' + done + '": false, "error": "' + why + '"}\n').encode())
    os._exit(0)
