"""Modules that an agent's commands load: a few of the standard library; exact, so independent of timing."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import agent_harness

PROGRAM = """
import sys
before = set(sys.modules)
sys.path.insert(0, sys.argv.pop(1))
from agent_harness.cli.main import main
code = main()
after = sorted(set(sys.modules) - before)
import json
print(json.dumps([code, after]), file=sys.stderr)
"""
READING = {
    *("__future__", "_collections_abc", "_datetime", "_json", "_operator", "_stat", "errno", "genericpath", "os"),
    *("os.path", "posixpath", "stat", "time"),
}
WRITING = READING | {"_blake2", "_sha256", "_sha2", "fcntl"}
LOGGING = WRITING | {  # what is written into the log may hold a secret, which is looked for by patterns
    *("_collections", "_functools", "_sre", "collections", "collections.abc", "copyreg", "enum", "functools"),
    *("itertools", "keyword", "operator", "re", "re._casefix", "re._compiler", "re._constants", "re._parser"),
    *("reprlib", "types"),
}
HEAVY = {"click", "rich", "pydantic", "pydantic_core", "ruamel", "asyncio", "importlib.metadata"}
HELD = {
    "claimed_by": "w",
    "claimed_at": "2026-01-01T00:00:00Z",
    "claim_token": "t",
    "lease_expires_at": "2099-01-01T00:00:00Z",
    "lease_seconds": 60.0,
    "status": "in_progress",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tasks = [{"id": "a", "title": "A", "status": "pending", "validation": {"command": "true"}}]
    (tmp_path / "harness-tasks.json").write_text(json.dumps({"version": 2, "tasks": tasks}))
    return tmp_path


def loaded(folder: Path, *words: str, code: int = 0) -> set[str]:
    """Return the modules that a command loads in a bare interpreter, except the harness's own."""
    source = str(Path(agent_harness.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", PROGRAM, source, *words],
        cwd=folder,
        env={**os.environ, "HARNESS_SESSION_ID": "s", "HARNESS_WORKER_ID": "w"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    answered, modules = json.loads(done.stderr.splitlines()[-1])
    assert answered == code, done
    return {each for each in modules if not each.startswith("agent_harness")}


@pytest.mark.parametrize(
    ("words", "held", "allowed"),
    [
        (["task", "next"], False, READING),
        (["task", "claim"], False, WRITING),
        (["task", "checkpoint", "a", "1/2", "half"], True, LOGGING),
        (["task", "renew", "a"], True, WRITING),
        (["task", "stats"], False, LOGGING),
        (["session", "end"], False, LOGGING),
    ],
)
def test_a_verb_of_every_step_loads_only_what_it_needs(
    folder: Path, words: list[str], held: bool, allowed: set[str]
) -> None:
    if held:
        state: dict[str, Any] = json.loads((folder / "harness-tasks.json").read_text())
        state["tasks"][0] |= HELD
        (folder / "harness-tasks.json").write_text(json.dumps(state))
    assert loaded(folder, *words) <= allowed


@pytest.mark.parametrize("leave", [Path.mkdir, Path.touch])
def test_an_empty_entry_named_git_above_is_no_repository(folder: Path, leave: Callable[[Path], None]) -> None:
    leave(folder / ".git")  # as the sandboxes of agents do in /tmp
    (folder / "list").mkdir()
    (folder / "harness-tasks.json").rename(folder / "list/harness-tasks.json")
    assert loaded(folder / "list", "task", "claim") <= WRITING


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["session", "start"], 0),
        (["task", "validate", "a"], 8),
        (["task", "complete", "a"], 8),
        (["task", "fail", "a", "why", "--category", "TEST_FAIL"], 8),
        (["task", "recover"], 0),
        (["rescue", "list"], 0),
        (["task", "--help"], 0),
        (["task", "claim", "--help"], 0),
        (["task", "nxet"], 2),
        (["mcp"], 0),
        (["mcp", "--help"], 0),
    ],
)
def test_no_verb_of_an_agent_loads_a_library(folder: Path, words: list[str], code: int) -> None:
    assert not loaded(folder, *words, code=code) & HEAVY


@pytest.mark.parametrize(
    ("words", "never"),
    [
        (["costs"], {"re", "shlex", "json", "pathlib", "subprocess", "typing", "dataclasses"}),
        (["why", "a"], {"shlex", "json", "pathlib", "subprocess", "typing", "dataclasses"}),
    ],
)
def test_a_story_loads_neither_git_nor_what_it_does_not_show(folder: Path, words: list[str], never: set[str]) -> None:
    """F-STORY-4."""
    assert not loaded(folder, *words) & never


def test_the_version_loads_nothing(folder: Path) -> None:
    assert loaded(folder, "--version") == set()
