"""Where a task list's landings are pushed to: a person's setting, which no agent's change of the list makes another.

    session_config.parallel.push   REMOTE, or REMOTE/BRANCH; the name of the landing's own branch where none is given
    parallel/push.json             the same, outside the project, while a run is under way

A remote is one that the repository has: a list cannot name an address. What counts is what was set when the run began;
a run that goes on where one was killed has the setting of that one, whatever the list says meanwhile. SC-39.
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
    """Gives the list the setting of a run that was killed; else keeps what it says, before any agent is started."""
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
    """``session_config`` of the list, with the push that a run which was killed began with."""
    config = json_object(state.raw.get("session_config")) or {}
    kept = files.read_json_if_any(os.path.join(folder, FILE))
    if "push" not in kept or kept["push"] == _given(state):
        return config
    return {**config, "parallel": {**(json_object(config.get("parallel")) or {}), "push": kept["push"]}}


def forget(folder: str) -> None:
    """The run is over: the next one has what the list says then."""
    files.unlink(os.path.join(folder, FILE))


def keep_config(change: TaskListChange, before: JsonObject) -> None:
    """``session_config`` as it was when the run began: whoever wants another one says so between two runs."""
    if change.state.raw.get("session_config") != before:
        change.state.raw["session_config"] = before
        change.note("WARN", "session_config was changed while agents worked, and is put back")
        change.touch()


def target_of(git: Git, push: str | None, branch: str, folder: str | None = None) -> PushTarget | None:
    """Where landings on ``branch`` go; nowhere if it is not checked out: another branch is its owner's to push.

    ``ConfigurationError`` for what names no remote of the repository, or no branch; what was kept of it in the run's
    ``folder`` is forgotten then.
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
        told = f"session_config.parallel.push is {push!r}, and has to be REMOTE or REMOTE/BRANCH"
        if folder:
            forget(folder)
        known = f" of: {', '.join(remotes)}" if remotes else "; this repository has no remote"
        raise ConfigurationError(told + known, hint="git remote -v")
    return PushTarget(remote=remote, branch=there, recorded=recorded)


def _given(state: State) -> object:
    config = json_object(state.raw.get("session_config")) or {}
    return (json_object(config.get("parallel")) or {}).get("push")
