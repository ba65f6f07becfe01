"""Feature projects for tests, each in a separate folder.

    project = FeatureListProject.made(tmp_path / "calc", True, False)
    assert project.harness("status").code == 0
    assert project.passing() == [1]

Each command is a process with the environment of the project. Agents are scripted, or named by a SPEC."""

import hashlib
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from agent_harness.protocols.features.config import load
from agent_harness.protocols.features.project import Project
from agent_harness.testing import HARNESS, CommandResult, run_process
from agent_harness.testing.repo import Repo

__all__ = [
    "CommandResult",
    "FeatureListProject",
    "fingerprint",
    "module_code",
    "module_work",
    "whole_lines",
]

Record = dict[str, Any]

SETTINGS = "project:\n  name: calc\n"
OF_MODULES = f"""\
project: {{name: shop}}
environment: {{init: 'true', reset: 'true'}}
testing:
  full: {sys.executable} -m pytest tests -q
  feature: {sys.executable} -m pytest {{test_file}} -q
"""
STUB = 'import pytest\n\n\ndef test_it():\n    pytest.fail("no")\n'


class FeatureListProject:
    """Test project with a feature list."""

    # base: folder of the remote origin.git, of scripts and of output; environ: environment of every command

    def __init__(self, root: Path, *, base: Path | None = None, environ: Mapping[str, str] | None = None) -> None:
        self.root, self.base = root, base or root.parent
        self.environ = dict(os.environ if environ is None else environ)
        self.said: list[str] = []

    @classmethod
    def made(cls, root: Path, *passes: bool, settings: str = SETTINGS) -> Self:
        """Create a repository with one commit. Its feature list has one feature for each flag in ``passes``."""
        return cls._begun(root, {".harness.yaml": settings, "features.json": _features_text(passes)})

    @classmethod
    def of_modules(
        cls,
        root: Path,
        *names: str,
        settings: str = "",
        files: Mapping[str, str] | None = None,
        members: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Self:
        """Create a project with one feature for each name. Each feature is a Python module that an agent must write."""
        # settings and files are added to the defaults; members: further members of features, by name
        rows = [
            {
                "id": number,
                "description": f"User can ask for {name}",
                "test_file": f"tests/test_{name}.py",
                "passes": False,
                **(members or {}).get(name, {}),
            }
            for number, name in enumerate(names, 1)
        ]
        sources = {
            ".harness.yaml": OF_MODULES + settings,
            ".gitignore": ".harness/\n__pycache__/\n.pytest_cache/\n",
            "features.json": json.dumps({"project": "shop", "features": rows}, indent=2) + "\n",
            "pytest.ini": "[pytest]\npythonpath = .\naddopts = --disable-plugin-autoload\n",
            **{f"tests/test_{name}.py": STUB for name in names},
            **(files or {}),
        }
        return cls._begun(root, sources)

    @classmethod
    def _begun(cls, root: Path, sources: Mapping[str, str]) -> Self:
        usual = {".gitignore": ".harness/\n", "claude-progress.txt": "SESSION 0\n"}
        Repo.with_files(root, {**usual, **sources}, message="Start")
        made = cls(root)
        (root / ".harness/logs").mkdir(parents=True)
        made.put(
            {
                ".harness/session_state.json": '{"last_session": 0, "stuck_count": 0}',
                ".harness/test_baseline.json": '{"passing_tests": []}',
                ".harness/costs.yaml": "{}",
            }
        )
        return made

    @classmethod
    def planned(cls, root: Path, *passes: bool, settings: str = SETTINGS) -> Self:
        """Create a project that has settings and features, but no real git repository."""
        (root / ".git").mkdir(parents=True)
        made = cls(root)
        made.put({".harness.yaml": settings})
        made.plan(*passes)
        return made

    # -- acting ------------------------------------------------------------------------------------------------------

    def agent(self, turns: Sequence[Mapping[str, object]]) -> str:
        return f"scripted:{self.script(turns)}"

    def script(self, turns: Sequence[Mapping[str, object]]) -> Path:
        """Write a new script for the scripted agent next to the project, and return its path."""
        names = (self.base / f"script-{number}.json" for number in itertools.count(1))
        script = next(name for name in names if not name.exists())
        script.write_text(json.dumps({"turns": list(turns)}, indent=2))
        return script

    def command(self, *args: str, agent: Sequence[Mapping[str, object]] | str | None = None) -> list[str]:
        # agent: the SPEC of an agent, or the turns of a scripted agent
        spec = self.agent(agent) if not isinstance(agent, str | None) else agent
        return [*HARNESS, *args, *([] if spec is None else ["--agent", spec])]

    def variables(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        return {**self.environ, **(more or {})}

    def start(
        self,
        *args: str,
        agent: Sequence[Mapping[str, object]] | str | None = None,
        launcher: str | None = None,
    ) -> "subprocess.Popen[bytes]":
        """Start ``harness``, or ``launcher`` in its place, and do not wait for its end."""
        words = self.command(*args, agent=agent)
        if launcher is not None:
            words = [launcher, *words[len(HARNESS) :]]
        with (self.base / "started.out").open("ab") as out:
            return subprocess.Popen(
                words, cwd=self.root, env=self.variables(), stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def harness(
        self,
        *args: str,
        agent: Sequence[Mapping[str, object]] | str | None = None,
        timeout: float = 280,
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
        after_kill: bool = False,
        agent_pushes: bool = False,
    ) -> CommandResult:
        """Run a command to its end. Assert that the command pushed nothing if no work was accepted."""
        # after_kill: a killed harness may still push a verified commit; agent_pushes: the agent pushes unaccepted work
        before = (self.remote(), self.completed())
        words = self.command(*args, agent=agent)
        ran = run_process(words, cwd=cwd or self.root, environ=self.variables(environ), seconds=timeout)
        if self.completed() == before[1] and not after_kill and not agent_pushes:
            assert self.remote() == before[0], f"pushed without an accepted session\n{ran.text}"
        return ran

    def run(self, turns: Sequence[Mapping[str, object]], *args: str) -> CommandResult:
        return self.harness("run", *args, agent=turns)

    @property
    def repo(self) -> Repo:
        return Repo(self.root, environ=self.environ, init=False)

    def git(self, *args: str, check: bool = True) -> str:
        return self.repo.git_bytes(*args, check=check).decode("utf-8", "replace").rstrip("\n")

    def put(self, files: Mapping[str, str]) -> None:
        """Write files into the project. Make ``.sh`` files executable."""
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            if name.endswith(".sh"):
                path.chmod(0o755)

    def plan(self, *passes: bool, **members: Any) -> None:
        """Overwrite ``features.json`` with one feature for each flag in ``passes``. Add ``members`` to each feature."""
        self.put({"features.json": _features_text(passes, **members)})

    def commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.head

    def configure(self, settings: str) -> str:
        """Append ``settings`` to .harness.yaml, commit, and push. Return the new HEAD."""
        with (self.root / ".harness.yaml").open("a") as file:
            file.write(settings)
        head = self.commit("Settings")
        self.git("push", "-q")
        return head

    # -- looking -----------------------------------------------------------------------------------------------------

    @property
    def project(self) -> Project:
        return Project.open(self.root, load(self.root), self.said.append)

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def remote(self) -> str | None:
        """Commit id of the remote branch ``main``, or ``None`` if there is no such branch."""
        place = os.fspath(self.base / "origin.git")
        words = ["git", "--git-dir", place, "rev-parse", "-q", "--verify", "refs/heads/main"]
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip() or None

    def read(self, name: str) -> Any:
        return json.loads((self.root / name).read_text())

    @property
    def features(self) -> Record:
        return self.read("features.json")

    def passing(self) -> list[int]:
        return [record["id"] for record in self.features["features"] if record["passes"]]

    @property
    def state(self) -> Record:
        return self.read(".harness/session_state.json")

    @property
    def baseline(self) -> Record:
        return self.read(".harness/test_baseline.json")

    @property
    def progress(self) -> str:
        return (self.root / "claude-progress.txt").read_text()

    def log(self, name: str) -> list[Record]:
        path = self.root / ".harness/logs" / name
        return list(whole_lines(path)) if path.exists() else []

    def events(self, kind: str | None = None, level: str | None = None) -> list[Record]:
        rows = self.log("events.jsonl")
        return [row for row in rows if kind in (None, row["type"]) and (level is None or row["level"].upper() == level)]

    def completed(self) -> int:
        """Return the number of accepted features and cleanups."""
        verified = sum(1 for row in self.events("session_ended") if row.get("feature_completed"))
        return verified + len(self.events("cleanup_completed")) + len(self.events("awaiting_manual"))

    def changes(self, *, without: Sequence[str] = ()) -> list[str]:
        """Return the lines of ``git status`` whose path is not in ``without``."""
        rows = self.git("status", "--porcelain", "--untracked-files=all").splitlines()
        return [row for row in rows if row[3:] not in without]

    def fingerprint(self, *, without: Sequence[str] = (".git/index",)) -> dict[str, str]:
        """Return a digest of each file in the project folder, by path."""
        return fingerprint(self.root, without=without)

    def wait_until(self, condition: Callable[[], object], what: str, seconds: float = 200) -> None:
        """Wait until a condition is true. Raise ``AssertionError`` after ``seconds``."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"never: {what}\n{self.started()}"
            time.sleep(0.02)

    def started(self) -> str:
        path = self.base / "started.out"
        return path.read_text(errors="replace") if path.exists() else ""


def module_code(name: str) -> str:
    return f"def answer(times):\n    return '{name}' * times\n"


def module_work(number: int, name: str, *more: Mapping[str, Any]) -> list[Record]:
    """Return the script steps with which an agent writes and claims a module."""
    proof = f"import {name}\n\n\ndef test_{name}():\n    assert {name}.answer(2) == '{name}' * 2\n"
    return [
        {"write": {"path": f"{name}.py", "text": module_code(name)}},
        {"write": {"path": f"tests/test_{name}.py", "text": proof}},
        *map(dict, more),
        {"evidence": number},
        {"claim": [number]},
    ]


def _features_text(passes: Sequence[bool], **members: Any) -> str:
    rows = [
        {"id": n, "description": f"Feature of number {n}", "test_file": f"tests/t{n}.py", "passes": done, **members}
        for n, done in enumerate(passes, 1)
    ]
    return json.dumps({"project": "calc", "features": rows})


def whole_lines(path: Path) -> Iterable[Record]:
    """Yield the rows of a log. Omit a truncated row."""
    for line in path.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def fingerprint(root: Path, *, without: Sequence[str] = ()) -> dict[str, str]:
    """Return a text that describes the content of each path below a folder, by path."""
    found: dict[str, str] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if name in without:
            continue
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name] = f"{path.stat().st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        else:
            found[name] = "folder"
    return found
