"""A feature project to measure on: planned by `harness init` with a small program as its agent."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HARNESS = str(Path(sys.executable).with_name("harness"))
FEATURES = 30

SETTINGS = f"""\
project:
  name: measured
environment:
  init: "true"
  reset: "true"
testing:
  full: {sys.executable} -m pytest tests -q
quality:
  lint_command: "true"
"""


def planned(folder: Path, env: Mapping[str, str]) -> Path:
    """A git repository with a plan of features, none of them built."""
    folder.mkdir(parents=True)
    (folder / "SPEC.md").write_text("# Measured\n\nThirty small things.\n")
    git = ("git", "-c", "user.name=Bench", "-c", "user.email=bench@localhost")
    for words in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "The specification")):
        subprocess.run([*git, *words], cwd=folder, env=dict(env), check=True)
    agent = f"command:{sys.executable} {Path(__file__).resolve()}"
    command = [HARNESS, "init", "--spec", "SPEC.md", "--agent", agent]
    done = subprocess.run(command, cwd=folder, env=dict(env), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the project to measure on cannot be planned: {done.stdout}{done.stderr}")
    return folder


def plan() -> None:
    """What the agent does: writes the plan, a stub of a test for each feature, and the scripts."""
    features = [feature(number) for number in range(1, FEATURES + 1)]
    write("features.json", json.dumps({"project": "measured", "features": features}, indent=2))
    write(".harness.yaml", SETTINGS)
    write("claude-progress.txt", "# Progress\n")
    for name in ("init.sh", "reset.sh"):
        write(name, "#!/bin/sh\nexit 0\n").chmod(0o755)
    for each in features:
        write(each["test_file"], 'import pytest\n\n\ndef test_it():\n    pytest.fail("Not implemented")\n')


def feature(number: int) -> dict[str, Any]:
    """One planned feature."""
    return {
        "id": number,
        "category": "core",
        "description": f"Thing number {number} works",
        "test_file": f"tests/test_thing_{number}.py",
        "verification_steps": ["It is there", "It does what it says"],
        "size_estimate": "small",
        "depends_on": [],
        "passes": False,
    }


def write(name: str, text: str) -> Path:
    """Writes one file of the project in the current folder."""
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


if __name__ == "__main__":
    sys.stdin.read()
    plan()
