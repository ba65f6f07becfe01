"""Settings of parallel runs, which task lists and feature projects share.

The settings are in ``parallel:`` in ``.harness.yaml``, or in ``session_config.parallel`` in ``harness-tasks.json``.
``HARNESS_PARALLEL__KEY`` overrides both files. The harness ignores and reports an invalid setting.
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
    workers: int = _setting(1, "Number of concurrent agents of `harness run` without the option --workers.", least=1)
    batch_max: int = _setting(8, "Maximum number of candidates (commits of proven work) in one merge batch.", least=1)
    test_runs: int = _setting(0, "Maximum number of concurrent test runs before merges. 0: half of the cores.")
    window: int = _setting(
        0, "Maximum number of batches that the harness verifies at the same time. 0: two, if test_runs is at least two."
    )
    mends: int = _setting(
        2, "Number of attempts to fix a rejected candidate before the harness starts the item from the beginning."
    )
    lend: bool = _setting(True, "Copy git-ignored installed packages, such as .venv, into each workspace.")
    links: tuple[str, ...] = _setting(
        (), "Git-ignored folders that the harness copies into each workspace. Default: verification.links."
    )
    copy: tuple[str, ...] = _setting(
        (), "Additional git-ignored files that the harness copies into each workspace, for example .env.local."
    )
    union: tuple[str, ...] = _setting(
        (), "Files in which a merge keeps the changed lines of both sides, such as CHANGELOG.md."
    )
    setup: str | None = _setting(
        None, "Command that prepares a new workspace. The harness runs setup again after a change of a setup_key file."
    )
    setup_key: tuple[str, ...] = _setting(
        (), "Files that setup depends on. If one of these files changes, setup runs again. Default: usual lock files."
    )
    setup_minutes: int = _setting(10, "Time limit of the commands setup and teardown, in minutes.", least=1)
    teardown: str | None = _setting(None, "Command that runs in a workspace before the harness removes the workspace.")
    fresh: bool = _setting(False, "Use a new workspace for every attempt.")
    ports: int = _setting(20, "Number of network ports that the harness reserves for each agent slot.")
    min_free_mb: int = _setting(
        2048, "Minimum free memory in MB for an additional agent. The agent also needs 2 GB of free disk space."
    )
    push: str | None = _setting(None, "REMOTE or REMOTE/BRANCH to push to after each merge. Only for task lists.")
    refs: str = _setting(
        REFS, "Prefix of git refs for remote jobs. If the remote accepts only branches, use refs/heads/NAME."
    )
    check: str | None = _setting(None, "Command that must pass on each merged commit. Only for task lists.")

    @property
    def lent(self) -> tuple[str, ...]:
        """Ignored files and folders that the harness copies into each workspace."""
        return (*self.links, *self.copy)


TABLE: Mapping[str, Any] = {each.name: each for each in fields(ParallelSettings)}


def means(name: str) -> str:
    return str(TABLE[name].metadata["means"])


def default(name: str) -> Any:
    return TABLE[name].default


def read(
    given: Mapping[str, object], environ: Mapping[str, str], *, where: str, say: Callable[[str], None] | None = None
) -> ParallelSettings:
    """Return the parallel settings. Environment variables override the settings in the file."""
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
