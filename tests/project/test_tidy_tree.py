"""What must not be in the tree is found, and is not there."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TIDY = ROOT / "scripts" / "tidy.py"

# Written in two halves, so that this file is tidy itself.
UNWANTED = {
    "uv.lock": ("version = 1", "a lock file"),
    "requirements/dev.txt": ("--index-" + "url https://example.invalid/simple", "a registry address"),
    "docs/install.md": ("from pypi" + ".org", "a registry address"),
    "notes.md": ("see /ro" + "ot/notes.md", "a path of one machine"),
    "src/agent_harness/clock.py": ("# TO" + "DO: later", "a loose end"),
    "src/agent_harness/later.py": ("def later() -> None:\n    raise NotImplemented" + "Error", "a loose end"),
    "src/agent_harness/utils.py": ("", "the name utils says too little"),
    "src/agent_harness/locks.py": ("class LockManager: ...", "the name LockManager says too little"),
    "src/agent_harness/text.py": ("def common_words() -> None: ...", "the name common_words says too little"),
    "src/agent_harness/jobs.py": ("class Lander: ...", "Lander: write merge queue for lander"),
}


def tidy(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(TIDY)], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", UNWANTED)
def test_what_must_not_be_there_is_named(name: str, tmp_path: Path) -> None:
    text, why = UNWANTED[name]
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")
    done = tidy(tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(name)
    assert why in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_ignored_file_is_nobody_s_business(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("uv.lock\n")
    (tmp_path / "uv.lock").write_text("version = 1\n")
    assert tidy(tmp_path).returncode == 0


def test_this_tree_is_tidy() -> None:
    done = tidy(ROOT)
    assert done.returncode == 0, done.stderr
