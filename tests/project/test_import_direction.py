"""Breaking the direction of imports fails `make check`, and the path of the import is shown."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")

# What is written where, and the import that must be named.
FORBIDDEN = {
    "the kernel knows no agent": (
        {"kernel/clock.py": "from agent_harness.agents import events"},
        "agent_harness.kernel.clock -> agent_harness.agents.events",
    ),
    "the kernel knows no agent, not even through a new module": (
        {
            "kernel/lock.py": "from agent_harness.kernel import root",
            "kernel/root.py": "import agent_harness.cli",
        },
        "agent_harness.kernel.root -> agent_harness.cli",
    ),
    "rules never import effects": (
        {"kernel/graph.py": "from agent_harness.kernel import files", "kernel/files.py": "import os"},
        "agent_harness.kernel.graph -> agent_harness.kernel.files",
    ),
    "errors import nothing of ours": (
        {"errors.py": "from agent_harness.kernel import clock"},
        "agent_harness.errors -> agent_harness.kernel.clock",
    ),
    "agents never import verification": (
        {"agents/base.py": "import agent_harness.verification"},
        "agent_harness.agents.base -> agent_harness.verification",
    ),
    "supervision never imports a protocol": (
        {"supervision/watch.py": "from agent_harness.protocols import features"},
        "agent_harness.supervision.watch -> agent_harness.protocols.features",
    ),
    "protocols never import one another": (
        {"protocols/tasklist/__init__.py": "from agent_harness.protocols import features"},
        "agent_harness.protocols.tasklist -> agent_harness.protocols.features",
    ),
    "the command line never imports the demo": (
        {"cli/show.py": "import agent_harness.demo"},
        "agent_harness.cli.show -> agent_harness.demo",
    ),
    "hooks never reach an api, however long the way": (
        {
            "hooks/__init__.py": "",
            "hooks/stop.py": "from agent_harness.protocols.tasklist import store",
            "protocols/tasklist/__init__.py": "",
            "protocols/tasklist/store.py": "from agent_harness.protocols.tasklist import api",
            "protocols/tasklist/api.py": "",
        },
        "agent_harness.protocols.tasklist.store -> agent_harness.protocols.tasklist.api",
    ),
    "the kernel is standard library": (
        {"kernel/journal.py": "def late() -> None:\n    import rich"},
        "agent_harness.kernel.journal -> rich",
    ),
    "stores are standard library": (
        {"protocols/tasklist/__init__.py": "", "protocols/tasklist/store.py": "import pydantic"},
        "agent_harness.protocols.tasklist.store -> pydantic",
    ),
    "only the command line knows click": (
        {"supervision/watch.py": "import click"},
        "agent_harness.supervision.watch -> click",
    ),
}


def lint_copy(folder: Path, written: dict[str, str]) -> subprocess.CompletedProcess[str]:
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for name, text in written.items():
        path = folder / "src" / "agent_harness" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text() if path.exists() else ""
        path.write_text(f"{before}\n{text}\n")
    return subprocess.run(
        [str(LINT_IMPORTS), "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "COLUMNS": "240"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("rule", FORBIDDEN)
def test_a_forbidden_import_is_refused_with_its_path(rule: str, tmp_path: Path) -> None:
    """UAH-012."""
    written, path = FORBIDDEN[rule]
    done = lint_copy(tmp_path, written)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN" in done.stdout
    assert path in done.stdout


def test_a_new_room_must_be_given_its_place(tmp_path: Path) -> None:
    done = lint_copy(tmp_path, {"attic/__init__.py": ""})
    assert done.returncode == 1, done.stdout + done.stderr
    assert "attic" in done.stdout
