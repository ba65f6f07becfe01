"""Tests of ``scripts/structure.py``: each loss of shape is found, and the present source has none."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STRUCTURE = ROOT / "scripts" / "structure.py"
PACKAGE = "src/agent_harness"

LAZY = "def late() -> None:\n    from agent_harness.kernel import {0}\n"
TYPED = "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from agent_harness.kernel.{0} import Thing\n"

SIX = "".join(f"    def m{number}(self): ...\n" for number in range(6))

BROKEN: dict[str, tuple[dict[str, str], str]] = {
    "21 files in a folder": ({f"kernel/m{number}.py": "" for number in range(20)}, "kernel: 21 files, at most 20"),
    "a circle of lazy imports": (
        {"kernel/a.py": LAZY.format("b"), "kernel/b.py": LAZY.format("a")},
        "imports in a circle: agent_harness.kernel.a, agent_harness.kernel.b",
    ),
    "a circle of imports for types": (
        {"kernel/a.py": TYPED.format("b"), "kernel/b.py": TYPED.format("c"), "kernel/c.py": TYPED.format("a")},
        "imports in a circle: agent_harness.kernel.a, agent_harness.kernel.b, agent_harness.kernel.c",
    ),
    "one class name for two things": (
        {"kernel/a.py": "class Thing: ...", "kernel/b.py": "\nclass Thing: ..."},
        "kernel/b.py:2: the class Thing has another meaning in",
    ),
    "a function of 71 lines": (
        {"kernel/a.py": "def long():\n" + "    pass\n" * 70},
        "kernel/a.py:1: long has 71 lines, at most 70",
    ),
    "two classes with the same six methods": (
        {"kernel/a.py": f"class One:\n{SIX}\n\nclass Other:\n{SIX}"},
        "kernel/a.py:10: Other repeats 6 methods of One (src/agent_harness/kernel/a.py:1)",
    ),
    "a room over its budget": ({"kernel/a.py": "x = 1\n" * 301}, "kernel: 301 lines, at most 300"),
    "a room far below its budget": ({"kernel/a.py": "x = 1\n" * 199}, "kernel: 199 lines; lower its budget of 300"),
}

FINE = f"""\
class Base:
{SIX}

class Child(Base):
{SIX}

class Port(Protocol):
    def m0(self): ...


class Answers:
{SIX.replace("m1", "n1")}

class AnswersToo:
{SIX.replace("m2", "n2")}"""


def structure(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(STRUCTURE)], cwd=folder, capture_output=True, text=True, check=False)


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in {"__init__.py": "", "kernel/__init__.py": "", **files}.items():
        path = folder / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    lines = sum(text.count("\n") for text in files.values())
    budget = 300 if 199 <= lines <= 301 else lines + 20
    (folder / "scripts").mkdir()
    (folder / "scripts/room-lines.toml").write_text(f'"." = 0\nkernel = {budget}\n')


@pytest.mark.parametrize("what", BROKEN)
def test_what_loses_its_shape_is_named(what: str, tmp_path: Path) -> None:
    files, why = BROKEN[what]
    write(tmp_path, files)
    done = structure(tmp_path)
    assert done.returncode == 1
    assert why in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_twenty_files_and_imports_in_one_direction_are_fine(tmp_path: Path) -> None:
    files = {f"kernel/m{number}.py": f"class Thing{number}: ..." for number in range(18)}
    write(tmp_path, {**files, "kernel/m1.py": FINE, "kernel/top.py": LAZY.format("m1")})
    assert structure(tmp_path).returncode == 0


@pytest.mark.scenario
def test_this_tree_keeps_its_shape() -> None:
    done = structure(ROOT)
    assert done.returncode == 0, done.stderr
