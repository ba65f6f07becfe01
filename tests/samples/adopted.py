"""Somebody else's project in a repository of its own, and the harness as a program."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

FETCHED = Path(__file__).resolve().parents[2] / ".samples"


class Adopted:
    """A released project as its only commit, adopted; the test is skipped where nobody has fetched it."""

    def __init__(self, place: Path, name: str) -> None:
        if not (FETCHED / name).is_dir():
            pytest.skip("it is fetched by `make test-samples`")
        self.root = place / "project"
        shutil.copytree(FETCHED / name, self.root)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environ = {**os.environ, "PATH": path}
        self.git("init", "-q", "-b", "main")
        (self.root / ".gitignore").write_text("__pycache__/\n.pytest_cache/\n")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "As released")

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=self.root, env=self.environ, capture_output=True, check=True)
        return done.stdout.decode().strip()

    def harness(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "agent_harness.cli.main", *words]
        return subprocess.run(
            command,
            cwd=self.root,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def session(self, *steps: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
        """One session of a scripted agent, the same steps in each of its turns."""
        script = self.root.parent / "script.json"
        script.write_text(json.dumps({"turns": [{"do": list(steps)}]}))
        return self.harness("run", "--agent", f"scripted:{script}")

    def passing(self) -> Sequence[int]:
        found = json.loads((self.root / "features.json").read_text())["features"]
        return [one["id"] for one in found if one["passes"]]
