"""Push target of a task list's landings: a person's setting, which an agent's change of the list does not affect.

    session_config.parallel.push   REMOTE, or REMOTE/BRANCH; by default the name of the landing's own branch
    parallel/push.json             the same, outside the project, during a run

A remote is one that the repository has: a list cannot name an address. The setting at the start of the run counts; a
run that continues a killed one has its setting, regardless of the list. SC-39.
"""

import os
import re

from agent_harness.errors import ConfigurationError
from agent_harness.kernel import files
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.joining import PushTarget
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.tasklist.records import State, json_object
from agent_harness.protocols.tasklist.store import TaskListChange

FILE = "push.json"


def setting_of_run(folder: str, change: TaskListChange) -> None:
    """Restore the setting of a run that was killed; else record the present one, before any agent is started."""
    path = os.path.join(folder, FILE)
    if not os.path.lexists(path):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        files.write_json(path, {"push": _given(change.state)})
        return
    config = config_of_run(folder, change.state)
    if config != change.state.raw.get("session_config"):
        change.state.raw["session_config"] = config
        told = _given(change.state)
        change.note(
            "WARN", f"session_config.parallel.push is {told} as when the run began that was killed; set it anew later"
        )
        change.touch()


def config_of_run(folder: str, state: State) -> JsonObject:
    """Return ``session_config`` of the list, with the push target at the start of a killed run."""
    config = json_object(state.raw.get("session_config")) or {}
    kept = files.read_json_if_any(os.path.join(folder, FILE))
    if "push" not in kept or kept["push"] == _given(state):
        return config
    return {**config, "parallel": {**(json_object(config.get("parallel")) or {}), "push": kept["push"]}}


def forget(folder: str) -> None:
    """Delete the record at the end of the run: the next one has the list's setting of that time."""
    files.unlink(os.path.join(folder, FILE))


def keep_config(change: TaskListChange, before: JsonObject) -> None:
    """Restore ``session_config`` of the start of the run: changes are made between two runs."""
    if change.state.raw.get("session_config") != before:
        change.state.raw["session_config"] = before
        change.note("WARN", "session_config was changed while agents worked, and is put back")
        change.touch()


def target_of(git: Git, push: str | None, branch: str, folder: str | None = None) -> PushTarget | None:
    """Return the push target of landings on ``branch``; None if it is not checked out: its owner pushes another branch.

    Raise ``ConfigurationError`` for a text that names no remote of the repository, or no branch; the record in the
    run's ``folder`` is then deleted.
    """
    if push is None or branch != git.branch():
        return None
    recorded = git.record_config()
    found = (re.fullmatch(r"remote\.(.+)\.(?:url|pushurl)", key, re.DOTALL) for key in recorded)
    remotes = sorted({match[1] for match in found if match}, key=len, reverse=True)
    remote = next((each for each in remotes if push == each or push.startswith(f"{each}/")), None)
    name = push[len(remote) + 1 :] if remote else ""
    there = f"refs/heads/{name}" if name else branch
    if remote is None or push.endswith("/") or not git.ok("check-ref-format", there):
        told = f"session_config.parallel.push is {push!r}, and must be REMOTE or REMOTE/BRANCH"
        if folder:
            forget(folder)
        known = f" of: {', '.join(remotes)}" if remotes else "; this repository has no remote"
        raise ConfigurationError(told + known, hint="git remote -v")
    return PushTarget(remote=remote, branch=there, recorded=recorded)


def _given(state: State) -> object:
    config = json_object(state.raw.get("session_config")) or {}
    return (json_object(config.get("parallel")) or {}).get("push")
