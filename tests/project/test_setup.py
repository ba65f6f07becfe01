"""`make` sets the project up by itself, says in one line why it cannot, and takes only what is pinned."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PINS = sorted((ROOT / "requirements").glob("*.txt"))


def make(*words: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run(
        ["make", *words], cwd=cwd, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )


def test_an_old_interpreter_is_one_line_that_says_what_to_type(tmp_path: Path) -> None:
    """UAH-019."""
    old = tmp_path / "python3"
    old.write_text('#!/bin/sh\nif [ "$1" = -V ]; then echo Python 3.9.1; exit 0; fi\nexit 1\n')
    old.chmod(0o755)
    said = make("setup", f"PYTHON={old}").stderr.splitlines()
    assert "needs Python 3.11 or newer" in said[0]
    assert "Python 3.9.1" in said[0]
    assert "make PYTHON=" in said[0]
    assert len([line for line in said if not line.startswith("make")]) == 1


def test_a_missing_interpreter_is_the_same_line(tmp_path: Path) -> None:
    said = make("setup", f"PYTHON={tmp_path}/nowhere").stderr.splitlines()
    assert "needs Python 3.11 or newer" in said[0]
    assert "not there" in said[0]


@pytest.mark.parametrize("part", ["ensurepip", "venv"])
def test_an_interpreter_without_venv_is_one_line(part: str, tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "requirements").mkdir()
    for name in ("scripts/setup.py", "requirements/build.txt", "requirements/dev.txt", "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    hidden = f"import sys, runpy; sys.modules[{part!r}] = None; runpy.run_path('scripts/setup.py', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", hidden], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(rf"agent-harness: Python .* comes without {part}; install it .*\n", done.stderr)
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize("path", PINS, ids=lambda path: path.name)
def test_pins_are_exact_have_hashes_and_name_no_address(path: Path) -> None:
    text = path.read_text()
    pins = re.findall(r"^[a-z].*$", text, re.MULTILINE)
    assert pins
    assert [pin for pin in pins if not re.match(r"[a-z0-9-]+==[\w.]+( ;.*)? \\$", pin)] == []
    assert len(re.findall(r"^[a-z].*\\\n    --hash=sha256:", text, re.MULTILINE)) == len(pins)
    assert "://" not in text
    assert not re.search(r"^-", text, re.MULTILINE)


def test_the_build_backend_is_pinned_within_what_pyproject_asks_for() -> None:
    assert re.search(r"^uv-build==0\.13\.\d+ ", (ROOT / "requirements" / "build.txt").read_text(), re.MULTILINE)
    assert 'requires = ["uv_build>=0.13,<0.14"]' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.slow
def test_a_fresh_clone_with_a_fresh_home_sets_itself_up(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    fresh = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    made = subprocess.run(["make", "setup"], cwd=clone, env=fresh, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    told = subprocess.run(
        [str(clone / ".venv/bin/harness"), "--version"], env=fresh, capture_output=True, text=True, check=True
    )
    assert told.stdout
    again = subprocess.run(["make", "setup"], cwd=clone, env=fresh, capture_output=True, text=True, check=True)
    assert again.stdout == ""
