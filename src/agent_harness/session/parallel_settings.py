"""Settings of parallel runs, which task lists and feature projects share.

They are read from ``parallel:`` in ``.harness.yaml``, or ``session_config.parallel`` in ``harness-tasks.json``.
``HARNESS_PARALLEL__KEY`` overrides both files. An invalid setting is ignored and reported.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from agent_harness.errors import ConfigurationError
from agent_harness.kernel.json import JsonObject

MOST_WORKERS = 256
REFS = "refs/harness"
REFS_PATTERN = r"refs/(?:harness|heads/[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*)"
_VARIABLE = "HARNESS_PARALLEL__"
_SWITCHES = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def _setting(default: Any, means: str, *, least: int = 0) -> Any:
    return field(default=default, metadata={"means": means, "least": least})


@dataclass(frozen=True, kw_only=True)
class ParallelSettings:
    workers: int = _setting(1, "Number of parallel agents in harness run without --workers.", least=1)
    batch_max: int = _setting(8, "Maximum number of candidates that are merged together.", least=1)
    test_runs: int = _setting(0, "Number of parallel check runs before merging; 0: half the number of cores.")
    window: int = _setting(
        0, "Number of batches verified in parallel, each on top of the previous batch; 0: two, if test_runs allows two."
    )
    mends: int = _setting(
        2, "Attempts to fix a change that the merge queue rejected, before the item starts again from the branch."
    )
    lend: bool = _setting(True, "Copy installed dependencies that git ignores into workspaces.")
    links: tuple[str, ...] = _setting((), "Ignored folders to copy into workspaces. Default: verification.links.")
    copy: tuple[str, ...] = _setting((), "Further ignored files to copy into workspaces, for example .env.local.")
    union: tuple[str, ...] = _setting(
        (), "Files for which a merge keeps the lines of both sides, such as CHANGELOG.md."
    )
    setup: str | None = _setting(
        None, "Command that prepares a new workspace; it runs again when a file of setup_key changes."
    )
    setup_key: tuple[str, ...] = _setting(
        (), "Files whose change requires setup to run again. Default: the usual lock files."
    )
    setup_minutes: int = _setting(10, "Time limit of setup and of teardown, in minutes.", least=1)
    teardown: str | None = _setting(None, "Command that runs in a workspace before the workspace is removed.")
    fresh: bool = _setting(False, "Use a new workspace for every attempt.")
    ports: int = _setting(20, "Number of ports reserved for each agent slot.")
    min_free_mb: int = _setting(
        2048, "Free memory in MB that is needed to start another agent. The start also needs 2 GB of free disk."
    )
    push: str | None = _setting(None, "REMOTE or REMOTE/BRANCH to push to after each merge; task lists only.")
    refs: str = _setting(
        REFS, "Ref folder for remote jobs on the git remote. Use refs/heads/NAME if the remote accepts only branches."
    )
    check: str | None = _setting(None, "Command that must pass on each merged commit; task lists only.")

    @property
    def lent(self) -> tuple[str, ...]:
        """Ignored files and folders that are copied into each workspace."""
        return (*self.links, *self.copy)


TABLE: Mapping[str, Any] = {each.name: each for each in fields(ParallelSettings)}


def means(name: str) -> str:
    return str(TABLE[name].metadata["means"])


def default(name: str) -> Any:
    return TABLE[name].default


def read(
    given: Mapping[str, object], environ: Mapping[str, str], *, where: str, say: Callable[[str], None] | None = None
) -> ParallelSettings:
    """Return the parallel settings from a file. Environment variables override the file.

    Invalid settings in the file are ignored and reported through ``say``. Raise ``ConfigurationError`` for an invalid
    environment variable. ``where`` is the prefix of the settings in reports.
    """
    found: JsonObject = {}
    for name in TABLE:
        value = given.get(name)
        if value is None:
            continue
        if (problem := _problem(name, value)) and say:
            say(f"{where}.{name} {problem}; using the default, {json.dumps(default(name))}")
        if not problem:
            found[name] = tuple(value) if isinstance(value, list) else value
    for name in TABLE:
        text = environ.get(f"{_VARIABLE}{name.upper()}", "")
        if not text.strip():
            continue
        value = _from_text(default(name), text)
        if problem := _problem(name, value):
            raise ConfigurationError(f"{_VARIABLE}{name.upper()} {problem}", hint=f"unset it (its value is {text!r})")
        found[name] = tuple(value) if isinstance(value, list) else value
    if say and (unknown := [name for name in given if name not in TABLE]):
        say(f"{where} has unknown settings: {', '.join(map(str, unknown))}")
    return ParallelSettings(**found)


def _problem(name: str, value: object) -> str | None:
    """Return why the value is invalid for the setting; None if the value is valid."""
    usual, least = default(name), TABLE[name].metadata["least"]
    if isinstance(usual, bool):
        return None if isinstance(value, bool) else "must be true or false"
    if isinstance(usual, int):
        if name == "workers" and value in range(1, MOST_WORKERS + 1) and type(value) is int:
            return None
        if name == "workers":
            return f"must be a number from 1 to {MOST_WORKERS}"
        return None if type(value) is int and value >= least else f"must be a number from {least}"
    if isinstance(usual, tuple):
        texts = value if isinstance(value, list) else [None]
        return None if all(isinstance(each, str) for each in texts) else "must be a list of strings"
    is_well = isinstance(value, str) and value.strip() and (name != "refs" or re.fullmatch(REFS_PATTERN, value))
    other = f"is neither {REFS} nor a folder of branches, such as refs/heads/harness"
    return None if is_well else other if name == "refs" else "must be a string"


def _from_text(usual: object, text: str) -> object:
    """Return the value of an environment variable, of the same type as ``usual``. A list is JSON or comma-separated."""
    if isinstance(usual, bool):
        return _SWITCHES.get(text.strip().lower(), text)
    if isinstance(usual, int):
        return int(text) if text.strip().isascii() and text.strip().isdecimal() else text
    if isinstance(usual, tuple):
        try:
            return json.loads(text)
        except ValueError:
            return [each.strip() for each in text.split(",") if each.strip()]
    return text
