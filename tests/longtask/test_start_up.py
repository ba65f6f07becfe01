"""Imports of the calls of a scheduler and a worker: few, standard library only; exact, so free of timing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import agent_harness
from agent_harness.testing.long_task_project import LongTaskProject

PROGRAM = """
import json, sys
before = set(sys.modules)
sys.path.insert(0, sys.argv.pop(1))
from agent_harness.cli import lth
code = lth.main()
print(json.dumps([code, sorted(set(sys.modules) - before)]), file=sys.stderr)
"""
ALLOWED = {
    *("__future__", "_collections_abc", "_datetime", "_json", "_operator", "_stat", "datetime", "errno", "fcntl"),
    *("genericpath", "math", "operator", "os", "os.path", "posixpath", "stat", "time"),
}
SLOW_ROOMS = {
    *("runner", "work", "slice", "outcome", "classifier", "session_folder", "worker"),
    *("init", "health", "recipe", "rescue", "status", "criteria_guard"),
}


@pytest.mark.parametrize(
    "words",
    [
        *(["validate"], ["next"], ["tick", "--dry-run"], ["tick"], ["verify"]),
        ["record", "--status", "paused", "--note", "go on"],
        ["evidence", "--type", "test", "--criterion-id", "it-works"],
    ],
    ids=" ".join,
)
def test_only_what_is_needed_is_loaded(project: LongTaskProject, words: list[str]) -> None:
    project.lth("evidence", "--type", "test", "--criterion-id", "it-works")
    source = str(Path(agent_harness.__file__).parent.parent)
    command = [sys.executable, "-S", "-E", "-c", PROGRAM, source, words[0], str(project.root), *words[1:]]
    by_worker = {**os.environ, "LTH_TASK_DIR": str(project.root)}
    done = subprocess.run(command, capture_output=True, check=True, env=by_worker)
    code, loaded = json.loads(done.stderr.splitlines()[-1])
    assert code == 0
    assert {name for name in loaded if not name.startswith("agent_harness")} <= ALLOWED
    assert not {name.rpartition(".")[2] for name in loaded} & SLOW_ROOMS
