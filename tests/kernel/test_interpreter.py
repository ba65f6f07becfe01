"""Modules that Python keeps to itself are used where they are, and missed nowhere."""

import subprocess
import sys
from pathlib import Path

import pytest

_SOURCE = Path(__file__).parents[2] / "src"

_VALUES = """
from agent_harness.kernel import clock, digest
from agent_harness.kernel.json import edit, jsontext, list_file
document = list_file.parse(b'{"tasks": [{"n": 1.10}, {"n": 2}], "m": 1}', "tasks")
document.value["tasks"][1]["n"] = "\\u00e9\\n"
print(ascii(b"".join(document.parts())))
print(ascii(jsontext.dumps(jsontext.loads('{"a": [1e400, -0, 1.10, null, "\\\\u00e9"], "b": {}}'))))
print(jsontext.loads("[1.10, -0, true]", exact=False), ascii(jsontext.spaced({"a": (1, {2}), "b": "\\u00e9"})))
print(edit.put('{"a": [0, {"b":1}]}', ["a", 1, "b"], "x"))
for damaged in ("", "[1,", '{"a": 1, "a": 2}', "NaN", '"x', "[" * 200 + "]" * 200, "{} {}"):
    try:
        print(jsontext.loads(damaged))
    except ValueError:
        print("damaged", damaged[:9])
print(digest.sha256(b"x"), digest.blake2b(b"x", 16), clock.timestamp(clock.parse("2026-01-02T03:04:05Z")))
"""
_CHILDREN = """
from agent_harness.kernel.process import supervisor
import os, signal
supervisor.find_prctl()(36, 0, 0, 0, 0)
print(supervisor.signal.SIGTERM == signal.SIGTERM, supervisor.children() == supervisor.children_by_scan(os.getpid()))
"""


_MISSING = """
import builtins, sys
real, missing, refused = builtins.__import__, sys.argv[2:], set()
def load(name, around=None, *rest):
    if name in missing and (around or {}).get("__name__", "").startswith("agent_harness."):
        refused.add(name)
        raise ImportError(name)
    return real(name, around, *rest)
builtins.__import__ = load
sys.path.insert(0, sys.argv[1])
"""


def printed(program: str, *missing: str) -> str:
    """What a program prints where the interpreter has other names for these modules, as our code sees it."""
    command = [sys.executable, "-S", "-E", "-c", f"{_MISSING}{program}print(*sorted(refused))", str(_SOURCE), *missing]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("missing", [["_json"], ["_datetime"], ["_blake2"], ["_sha256", "_sha2"]])
def test_state_is_read_and_written_the_same_without_them(missing: list[str]) -> None:
    plain = printed(_VALUES)
    assert "damaged [1," in plain
    assert printed(_VALUES, *missing) == f"{plain.rstrip()}\n{' '.join(sorted(missing))}\n"


@pytest.mark.parametrize("missing", ["_signal", "_ctypes"])
def test_commands_are_watched_the_same_without_them(missing: str) -> None:
    assert printed(_CHILDREN, missing) == f"True True\n{missing}\n"
