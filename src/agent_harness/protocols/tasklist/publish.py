"""Push target for the merged work of a task list. Only the user can set the target. An agent's edits have no effect.

    session_config.parallel.push   REMOTE or REMOTE/BRANCH; the default branch name is that of the local branch
    parallel/push.json             a copy of the setting outside the project, during a run

REMOTE must be the name of an existing remote of the repository, not an address. A run uses the setting at its start. If
it continues a killed run, it uses the killed run's setting. (SC-39)"""

import os
import re

from agent_harness.errors import ConfigurationError
from agent_harness.kernel import files
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.joining import PushTarget
from agent_harness.kernel.json import JsonObject, members_of
from agent_harness.protocols.tasklist.records import State
from agent_harness.protocols.tasklist.store import TaskListChange

FILE = "push.json"


def setting_of_run(folder: str, change: TaskListChange) -> None:
    """Restore the push setting of a killed run, or record the present setting."""
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
            "WARN", f"session_config.parallel.push is {told} again, as in the killed run; change it after this run"
        )
        change.touch()


def config_of_run(folder: str, state: State) -> JsonObject:
    config = members_of(state.raw.get("session_config"))
    kept = files.read_json_if_any(os.path.join(folder, FILE))
    if "push" not in kept or kept["push"] == _given(state):
        return config
    return {**config, "parallel": {**members_of(config.get("parallel")), "push": kept["push"]}}


def forget(folder: str) -> None:
    files.unlink(os.path.join(folder, FILE))


def keep_config(change: TaskListChange, before: JsonObject) -> None:
    # the user may change it only between runs
    if change.state.raw.get("session_config") != before:
        change.state.raw["session_config"] = before
        change.note("WARN", "session_config was changed while agents were working; restored")
        change.touch()


def target_of(git: Git, push: str | None, branch: str, folder: str | None = None) -> PushTarget | None:
    """Return the push target for ``branch``, or None. Raise ``ConfigurationError`` for an invalid setting."""
    if push is None or branch != git.branch():
        return None
    recorded = git.record_config()
    found = (re.fullmatch(r"remote\.(.+)\.(?:url|pushurl)", key, re.DOTALL) for key in recorded)
    remotes = sorted({match[1] for match in found if match}, key=len, reverse=True)
    remote = next((each for each in remotes if push == each or push.startswith(f"{each}/")), None)
    name = push[len(remote) + 1 :] if remote else ""
    there = f"refs/heads/{name}" if name else branch
    if remote is None or push.endswith("/") or not git.ok("check-ref-format", there):
        told = f"session_config.parallel.push must be REMOTE or REMOTE/BRANCH, got {push!r}"
        if folder:
            forget(folder)
        known = f"; the remotes are: {', '.join(remotes)}" if remotes else "; this repository has no remote"
        raise ConfigurationError(told + known, hint="git remote -v")
    return PushTarget(remote=remote, branch=there, recorded=recorded)


def _given(state: State) -> object:
    config = members_of(state.raw.get("session_config"))
    return members_of(config.get("parallel")).get("push")
