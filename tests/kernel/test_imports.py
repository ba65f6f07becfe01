"""What hooks and ``status`` pay for: the modules that each hot part of the kernel loads, in a bare interpreter."""

import subprocess
import sys
from pathlib import Path

import pytest

_SOURCE = Path(__file__).parents[2] / "src"

_OWN = {"agent_harness", "agent_harness.errors", "agent_harness.kernel", "__future__"}
_OS = {"os", "stat", "_stat", "posixpath", "genericpath", "os.path", "_collections_abc", "abc", "_abc", "posix"}
_CLOCK = {"datetime", "_datetime", "time", "math", "operator", "_operator", "agent_harness.kernel.clock"}
_JSON = {"agent_harness.kernel.json", "agent_harness.kernel.json.jsontext", "_json"}
_FILES = (
    _OS
    | _CLOCK
    | {f"agent_harness.kernel.{name}" for name in ("files", "json", "json.jsontext", "owner")}
    | {"errno", "_json"}
)
_LOCK = _FILES | {f"agent_harness.kernel.{name}" for name in ("digest", "lock", "lock_directory")} | {"fcntl"}

_ALLOWED = {
    "agent_harness.errors": set[str](),
    "agent_harness.kernel.clock": _OS | _CLOCK,
    "agent_harness.kernel.digest": {"agent_harness.kernel.digest"},
    "agent_harness.kernel.json.list_file": _FILES | {"agent_harness.kernel.json.list_file"},
    "agent_harness.kernel.files": _FILES,
    "agent_harness.kernel.graph": {"agent_harness.kernel.graph"},
    "agent_harness.kernel.journal": _FILES | {"agent_harness.kernel.journal"},
    "agent_harness.kernel.json.jsontext": _JSON,
    "agent_harness.kernel.lease": _OS | _CLOCK | {"agent_harness.kernel.lease"},
    "agent_harness.kernel.lock": _LOCK,
    "agent_harness.kernel.owner": _OS | {"agent_harness.kernel.owner"},
    "agent_harness.kernel.root": _OS | {"agent_harness.kernel.project_signs", "agent_harness.kernel.root"},
}
"""The library's own modules grow with its versions, so names are allowed here, not required."""

_USE = """
import os
from agent_harness.kernel.json import list_file
from agent_harness.kernel import files, journal, lock, owner, root
os.chdir(sys.argv[2])
with lock.Lock(".") as held:
    files.write_json("harness-tasks.json", {"n": 1.5}, backup=True, before=held.verify)
    files.write_json("harness-tasks.json", files.read_json("harness-tasks.json"), backup=True, before=held.verify)
    document = list_file.read("harness-tasks.json", "tasks")
    list_file.write("harness-tasks.json", document, before=held.verify)
    journal.append("log", {"n": 1})
    journal.tail("log", 1)
    owner.state(owner.current())
    lock.holder(".")
root.find()
"""


def loaded(script: str, *arguments: object) -> set[str]:
    """What a script adds to the modules of a bare interpreter."""
    before = "import sys; sys.path.insert(0, sys.argv[1]); known = set(sys.modules)\n"
    after = "\nprint(*sorted(set(sys.modules) - known))"
    command = [sys.executable, "-S", "-E", "-c", before + script + after, _SOURCE, *arguments]
    return set(subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize("module", _ALLOWED)
def test_a_hot_module_loads_what_it_is_allowed_to(module: str) -> None:
    assert loaded(f"import {module}") - _OWN <= _ALLOWED[module]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere psutil tells processes apart")
def test_a_whole_change_of_state_loads_only_hashing_besides(tmp_path: Path) -> None:
    assert loaded(_USE, tmp_path) - _OWN <= _LOCK | {"_sha256", "_sha2"} | {
        "agent_harness.kernel.json.list_file",
        "agent_harness.kernel.journal",
        "agent_harness.kernel.project_signs",
        "agent_harness.kernel.root",
    }
