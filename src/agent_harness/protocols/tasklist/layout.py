"""Paths of all files of a task list. No other module contains these file names.

    ROOT/
      harness-tasks.json        the state; its folder is the root
      harness-tasks.json.bak    the state before the last write
      harness-progress.txt      the log, append-only
      harness-init.sh           sets up the environment at each session start; optional
      .harness-active           hooks act only if this file exists
      .harness-pause            hooks and runs pause while this file exists
      .harness-lock             the kernel's lock
      .harness/
        now                     touched to read the disk's clock
        parallel.json           progress of the run with several agents
        stops.json              number of times that the Stop hook has kept a session running
        claims/ID.json          the state when a task was claimed
        validate/ID.N.log       the output of a validation
        rescue-files/ID/N/      files that no commit can contain, moved away by a rollback
        sessions/               output of the agents of `harness run`
        logs/run.log            messages of `harness run` itself
        logs/verdicts/          output of the verification steps

Source: ``tasklist.md`` 1."""

from __future__ import annotations

import os

STATE_FILE = "harness-tasks.json"

HARNESS_FILES = (
    "harness-tasks.json",
    "harness-tasks.json.*",
    "harness-progress.txt",
    "harness-init.sh",
    ".harness-active",
    ".harness-pause",
    ".harness-stop-counter",
    ".harness-reflect",
    ".harness-lock",
    ".harness-lock.d",
    ".harness",
)
"""Patterns of files below the root that are never included in a snapshot, a rescue or a task's commit."""

_URL = "file://"  # no absolute path begins so
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


def safe_name(task_id: str) -> str:
    """Return the task id in a form that can be a file name or a git ref."""
    raw = task_id.encode("utf-8", "surrogateescape")
    name = "".join(chr(byte) if chr(byte) in _PLAIN else f"%{byte:02X}" for byte in raw)
    if 0 < len(name) <= 120:
        return name
    from hashlib import sha256

    return f"{name[:80]}%{sha256(raw).hexdigest()[:16]}"


def written(path: str) -> str:
    """Return a path in a form that a state file can contain."""
    try:
        path.encode()
    except UnicodeEncodeError:
        from urllib.parse import quote

        # a path that is not UTF-8 becomes a URL
        return f"{_URL}{quote(os.fsencode(path))}"
    return path


def path_of(text: str) -> str:
    if not text.startswith(_URL):
        return text
    from urllib.parse import unquote_to_bytes

    return os.fsdecode(unquote_to_bytes(text.removeprefix(_URL)))


def _path(*names: str) -> str:
    return property(lambda self: os.path.join(self.root, *names))  # type: ignore[return-value]  # text, when it is read


class TaskListLayout:
    """Paths of one task list's files, as plain strings, so that hooks start within milliseconds."""

    __slots__ = ("root",)

    tasks = _path(STATE_FILE)
    backup = _path(f"{STATE_FILE}.bak")
    progress = _path("harness-progress.txt")
    init_script = _path("harness-init.sh")
    marker = _path(".harness-active")
    pause = _path(".harness-pause")
    reflect = _path(".harness-reflect")
    state_dir = _path(".harness")
    stops = _path(".harness", "stops.json")
    parallel = _path(".harness", "parallel.json")
    clock_file = _path(".harness", "now")
    claims = _path(".harness", "claims")
    sessions = _path(".harness", "sessions")
    costs = _path(".harness", "sessions", "costs.jsonl")
    logs = _path(".harness", "logs")
    run_log = _path(".harness", "logs", "run.log")
    verdicts = _path(".harness", "logs", "verdicts")  # saved output of validations

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = os.path.realpath(root)

    def _at(self, *names: str) -> str:
        return os.path.join(self.root, *names)

    def init_script_of(self, task_id: str) -> str:
        return self._at(".harness", f"harness-init-{safe_name(task_id)}.sh")

    def linked(self) -> str | None:
        """Return the first of the harness's folders that is a symbolic link, or None."""
        own = ("", "claims", "logs", "logs/verdicts", "validate", "rescue-files", "sessions")
        return next((path for name in own if os.path.islink(path := self._at(".harness", name).rstrip("/"))), None)

    def claim(self, task_id: str) -> str:
        return os.path.join(self.claims, f"{safe_name(task_id)}.json")

    def validation_log(self, task_id: str, attempt: int) -> str:
        return self._at(".harness", "validate", f"{safe_name(task_id)}.{attempt}.log")

    def rescue_files(self, task_id: str, number: int) -> str:
        return self._at(".harness", "rescue-files", safe_name(task_id), str(number))
