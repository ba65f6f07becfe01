"""Paths of all files of a long task.

TASK_DIR/
  task.json                 contract; written by `lth init` and by people
  checkpoint.json           state from which any agent can continue
  harness.md                operating rules for people and agents
  runs/YYYY-MM-DD.jsonl     event log, by the UTC date of the event; append-only
  runs/verdicts/            output of criteria commands
  sessions/STAMP/           one agent session: transcript, recording, rescue point
  evidence/                 agent output, manifests, archive, handoff notes, user files
  artifacts/                generated results
  .lth.lock                 lease of the current run
$XDG_STATE_HOME/agent-harness/projects/NAME/     outside the task: ``kernel/trusted_state.py``
  contract.json             ``task.json`` as accepted by a person: ``evidence``
  course.jsonl              events that decide whether the task is done, and its cost: ``log``
  slice.json                criteria files at the start of the current slice: ``criteria_guard``
  installed.json            installed software at the start of a slice: ``criteria_guard``
  starts.jsonl              every agent start: ``supervision/dispatch.py``
  words.jsonl               evidence confirmed by people: ``evidence``
  verdicts.jsonl            verdict on each claim, kept forever: ``session/ledger.py``
  now.json                  current slice
  place.json                path of the task

Source: ``longtask.md`` 1."""

from __future__ import annotations

import os

from agent_harness.errors import HarnessError

ARCHIVE = "evidence/checkpoint-evidence-archive.jsonl"
"""Default path, relative to the task directory, of the archive for evidence that no longer fits in the checkpoint
file.
"""


class OutsideTask(HarnessError):
    """Error for a path that leads outside the task directory."""

    code = "outside_task"


def file_stamp(timestamp: str) -> str:
    """Return a timestamp in the form that file names use: ``2026-05-17T12-35-54-111Z``."""
    return timestamp.replace(":", "-").replace(".", "-")


def _path(*names: str) -> str:
    return property(lambda self: os.path.join(self.root, *names))  # type: ignore[return-value]  # text, when it is read


class LongTaskLayout:
    """Absolute paths of one task's files."""

    task = _path("task.json")
    checkpoint = _path("checkpoint.json")
    operating_rules = _path("harness.md")
    runs = _path("runs")
    verdicts = _path("runs", "verdicts")  # output of criteria commands
    sessions = _path("sessions")
    evidence = _path("evidence")
    artifacts = _path("artifacts")
    lock = _path(".lth.lock")
    said = _path("runs", "run.log")  # the messages that runs printed for people

    # plain strings: `lth next` must start within milliseconds
    def __init__(self, task_dir: str | os.PathLike[str]) -> None:
        self.root = os.path.abspath(task_dir)

    def __repr__(self) -> str:
        return f"LongTaskLayout({self.root!r})"

    def _at(self, *names: str) -> str:
        return os.path.join(self.root, *names)

    def ledger(self, *, make: bool = True) -> str:
        """Return the path of the verdict ledger. With ``make``, create the state folder for it."""
        from agent_harness.kernel import trusted_state

        home = trusted_state.existing(self.task, self.root)
        if home is None and make:
            home = trusted_state.make(self.task, self.root)[0]
        return os.path.join(home or self.runs, "verdicts.jsonl")

    def outside(self, name: str, *, make: bool = False) -> str | None:
        """Return a path in the task's state folder, or None if that folder does not exist."""
        home = self.home(make=make)
        return os.path.join(home, name) if home else None

    def home(self, *, make: bool = False) -> str | None:
        from agent_harness.kernel import trusted_state

        # outside the task: agents cannot see it
        if make:
            return trusted_state.make(self.task, self.root)[0]
        return trusted_state.existing(self.task, self.root, writable=False)

    def run_log(self, date: str) -> str:
        return self._at("runs", f"{date[:10]}.jsonl")

    def inside(self, path: str, what: str = "path") -> str:
        """Return the absolute path of a file in the task. Raise ``OutsideTask`` if the path leads elsewhere."""
        refusal = OutsideTask(f"{what} must stay inside the task directory: {path}")
        if "\0" in path:
            raise refusal
        absolute = os.path.normpath(self._at(path))
        # as written, and with symbolic links resolved
        for root, place in ((self.root, absolute), (os.path.realpath(self.root), os.path.realpath(absolute))):
            if place == root or os.path.commonpath([root, place]) != root:
                raise refusal
        return absolute

    def relative(self, path: str) -> str:
        return os.path.relpath(path, self.root)
