"""The fixture project ``calc`` of the scenario document, and what a person can see of it from outside."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from .script import CODE, NAMES, Turn, name_of, proof_ids, proof_path, proof_text, save, stub_text
from .seam import CommandSeam, Seam

DEPENDS = {"div": [3], "pow": [3], "report": [1, 4]}
PROGRESS = (
    f"{'=' * 80}\nCLAUDE PROGRESS LOG - calc\n{'=' * 80}\n\n"
    "This file documents what has been done. The harness will summarize recent\n"
    "entries for you; you don't need to read the whole file.\n\n"
    f"{'-' * 80}\nSESSION 0 - 2026-01-05 09:00\n{'-' * 80}\n\nSet-up. NEXT: Feature #1\n"
)
SETTINGS = """\
project:
  name: calc
environment:
  init: ./init.sh
  reset: ./reset.sh
  health_check: test -f "$CALC_UP"
testing:
  full: python -m pytest tests/ -v
  feature: python -m pytest {test_file} -v
quality:
  lint_command: python tools/lint.py src/
"""
INIT = '#!/bin/sh\nset -e\n: > "$CALC_UP"\n'
QUICK_PYTEST = "[pytest]\npythonpath = src\ntestpaths = tests\naddopts = -p no:hypothesispytest\n"  # half its start
RESET = '#!/bin/sh\nset -e\nrm -f "$CALC_UP"\n'
LINT = """\
import pathlib, sys

faults = 0
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.py")):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line != line.rstrip() or len(line) > 120:
            print(f"{path}:{number}: E501 bad line")
            faults += 1
sys.exit(1 if faults else 0)
"""
IGNORED = ".harness/\n__pycache__/\n.pytest_cache/\n"
INSTRUCTIONS = (
    "IMPORTANT: Only change 'passes' from false to true after the test_file passes. Never remove or edit feature "
    "descriptions. Max 1 feature per session."
)


def feature_record(feature: int) -> dict[str, Any]:
    name = name_of(feature)
    needs = {"depends_on": DEPENDS[name]} if name in DEPENDS else {}
    return {
        "id": feature,
        "category": "core",
        "description": f"User can {name} two numbers",
        "test_file": proof_path(feature),
        "verification_steps": [f"Call {name}", "Compare the result"],
        "size_estimate": "small",
        **needs,
        "passes": False,
    }


def features_text(records: Sequence[Mapping[str, Any]]) -> str:
    whole = {
        "project": "calc",
        "generated_by": "initializer",
        "last_updated": "2026-01-05T09:00:00Z",
        "features": list(records),
        "instructions": INSTRUCTIONS,
    }
    return json.dumps(whole, indent=2) + "\n"


def project_files(features: Sequence[int] = (1, 2, 3, 4, 5, 6)) -> dict[str, str]:
    """Every committed file of a fresh project."""
    return {
        ".harness.yaml": SETTINGS,
        ".gitignore": IGNORED,
        "features.json": features_text([feature_record(n) for n in features]),
        "claude-progress.txt": PROGRESS,
        "init.sh": INIT,
        "reset.sh": RESET,
        "pytest.ini": QUICK_PYTEST,
        "tools/lint.py": LINT,
        "src/calc.py": '"""A calculator."""\n',
        **{proof_path(n): stub_text(n) for n in features},
    }


def state_files(total_tests: int) -> dict[str, str]:
    """The run-time state after session 0."""
    at = "2026-01-05T09:00:00Z"
    return {
        "session_state.json": json.dumps(
            {
                "harness_version": "1.2.1",
                "schema_version": 3,
                "last_session": 0,
                "status": "complete",
                "current_feature": None,
                "termination_reason": None,
                "next_prompt": "coding",
                "stuck_count": 0,
                "timeout_count": 0,
                "timestamp": at,
            },
            indent=2,
        ),
        "test_baseline.json": json.dumps(
            {"session": 0, "timestamp": at, "passing_tests": [], "total_passing": 0, "total_tests": total_tests}
        ),
        "file_sizes.json": json.dumps({"session": 0, "files": {"src/calc.py": {"lines": 1, "session_added": 0}}}),
        "costs.yaml": "cumulative:\n  total_sessions: 0\n  total_tokens:\n    input: 0\n    output: 0\n    cached: 0\n"
        "  total_cost_usd: 0.0\n  by_feature: []\nbudgets:\n  per_session_usd: 10.0\n  per_feature_usd: 25.0\n"
        "  total_project_usd: 200.0\n",
    }


@dataclass(frozen=True)
class Ran:
    """What one command of the harness gave back."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class World:
    """One project folder, its remote, its environment."""

    base: Path
    root: Path
    environ: dict[str, str]
    checked: bool = True
    seam: Seam = field(default_factory=lambda: CommandSeam(Path()))
    _scripts: int = field(default=0, repr=False)

    # -- acting ------------------------------------------------------------------------------------------------------

    def agent(self, turns: Sequence[Turn]) -> str:
        """The agent SPEC of a new script, played through this world's seam."""
        self._scripts += 1
        return self.seam.spec(save(self.base / f"script-{self._scripts}.json", turns))

    def command(self, *args: str, agent: Sequence[Turn] | str | None = None) -> list[str]:
        spec = self.agent(agent) if not isinstance(agent, str | None) else agent
        chosen = [] if spec is None else ["--agent", str(spec)]
        return [sys.executable, "-m", "agent_harness.cli.main", *args, *chosen]

    def _environ(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a command: this world's, with what its seam needs."""
        return {**self.environ, **self.seam.environ, **(more or {})}

    def start(self, *args: str, agent: Sequence[Turn] | str | None = None, launcher: str | None = None) -> Any:
        """The harness, started and left running; stdout and stderr go to files beside the project."""
        words = self.command(*args, agent=agent)
        if launcher is not None:
            words = [launcher, *words[3:]]
        with (self.base / "started.out").open("ab") as out:
            return subprocess.Popen(
                words, cwd=self.root, env=self._environ(), stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def harness(
        self,
        *args: str,
        agent: Sequence[Turn] | str | None = None,
        timeout: float = 280,
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
        after_kill: bool = False,
        agent_pushes: bool = False,
    ) -> Ran:
        """Runs one command of the harness to its end, without a terminal.

        ``after_kill``: the push of a verified commit may end a moment after the harness that began it was killed.
        ``agent_pushes``: the script's agent finds a way to push what nobody has accepted.
        """
        before = (self.remote(), self.completed())
        done = subprocess.run(
            self.command(*args, agent=agent),
            cwd=cwd or self.root,
            env=self._environ(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        ran = Ran(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))
        assert "Traceback (most recent call last)" not in ran.text, ran.text
        if self.completed() == before[1] and not after_kill and not agent_pushes:
            assert self.remote() == before[0], f"pushed without an accepted session\n{ran.text}"
        return ran

    def run(self, turns: Sequence[Turn], *args: str) -> Ran:
        """``harness run`` with a scripted agent."""
        return self.harness("run", *args, agent=turns)

    def git(self, *args: str, check: bool = True) -> str:
        done = subprocess.run(["git", *args], cwd=self.root, env=self.environ, capture_output=True, check=False)
        assert not check or done.returncode == 0, f"git {args}: {done.stderr.decode()}"
        return done.stdout.decode("utf-8", "replace").rstrip("\n")

    def put(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            if name.endswith(".sh"):
                path.chmod(0o755)

    def commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.head

    def configure(self, settings: str) -> str:
        """Adds to .harness.yaml as a person would, committed and pushed; the new HEAD."""
        with (self.root / ".harness.yaml").open("a") as file:
            file.write(settings)
        head = self.commit("Settings")
        self.git("push", "-q")
        return head

    def accept(self, *features: int) -> str:
        """Makes features done as if earlier sessions had done them; the new HEAD."""
        document = self.features
        for record in document["features"]:
            record["passes"] = record["passes"] or record["id"] in features
        code = (self.root / "src/calc.py").read_text() + "".join(f"\n\n{CODE[name_of(n)]}" for n in features)
        self.put(
            {
                "features.json": json.dumps(document, indent=2) + "\n",
                "src/calc.py": code,
                **{proof_path(n): proof_text(n) for n in features},
            }
        )
        head = self.commit("Implement " + ", ".join(name_of(n) for n in features))
        self.git("push", "-q")
        state, baseline = self.state, self.baseline
        passing = sorted({*baseline["passing_tests"], *(i for n in features for i in proof_ids(n))})
        state |= {"last_session": state["last_session"] + len(features), "current_feature": features[-1]}
        baseline |= {"session": state["last_session"], "passing_tests": passing, "total_passing": len(passing)}
        (self.root / ".harness/session_state.json").write_text(json.dumps(state, indent=2))
        (self.root / ".harness/test_baseline.json").write_text(json.dumps(baseline, indent=2))
        return head

    # -- looking -----------------------------------------------------------------------------------------------------

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def remote(self) -> str | None:
        done = subprocess.run(
            ["git", "--git-dir", self.base / "origin.git", "rev-parse", "-q", "--verify", "refs/heads/main"],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip() or None

    @property
    def features(self) -> dict[str, Any]:
        return json.loads((self.root / "features.json").read_text())

    def passing(self) -> list[int]:
        return [record["id"] for record in self.features["features"] if record["passes"]]

    @property
    def state(self) -> dict[str, Any]:
        return json.loads((self.root / ".harness/session_state.json").read_text())

    @property
    def baseline(self) -> dict[str, Any]:
        return json.loads((self.root / ".harness/test_baseline.json").read_text())

    @property
    def costs(self) -> dict[str, Any]:
        return yaml(self.root / ".harness/costs.yaml")

    @property
    def progress(self) -> str:
        return (self.root / "claude-progress.txt").read_text()

    def log(self, name: str) -> list[dict[str, Any]]:
        path = self.root / ".harness/logs" / name
        return list(whole_lines(path)) if path.exists() else []

    def events(self, kind: str | None = None, level: str | None = None) -> list[dict[str, Any]]:
        rows = self.log("events.jsonl")
        return [
            row
            for row in rows
            if (kind is None or row["type"] == kind) and (level is None or row["level"].upper() == level)
        ]

    def told(self) -> list[str]:
        """What the watch had to say to the agent, in order: told where the seam can, else on record as not told."""
        return [row["message"] for row in self.events("agent_steered" if self.seam.steers else "agent_not_told")]

    def completed(self) -> int:
        """Sessions that ended with work that the harness accepted: a verified feature, a cleanup."""
        verified = sum(1 for row in self.events("session_ended") if row.get("feature_completed"))
        return verified + len(self.events("cleanup_completed")) + len(self.events("awaiting_manual"))

    def changes(self, *, without: Sequence[str] = ()) -> list[str]:
        """``git status``: paths that differ from HEAD, untracked ones too."""
        rows = self.git("status", "--porcelain", "--untracked-files=all").splitlines()
        return [row for row in rows if row[3:] not in without]

    def fingerprint(self, *, without: Sequence[str] = (".git/index",)) -> dict[str, str]:
        """Every file of the project folder, git's objects and refs included, with a digest of its content."""
        return fingerprint(self.root, without=without)

    def processes(self) -> list[int]:
        """Live processes that were started from this world: they carry its mark in their environment."""
        mark = self.environ["CALC_UP"]
        found: list[int] = []
        for process in psutil.process_iter():
            try:
                alive = process.status() != psutil.STATUS_ZOMBIE
                if alive and process.pid != os.getpid() and process.environ().get("CALC_UP") == mark:
                    found.append(process.pid)
            except psutil.Error:
                continue
        return found

    def wait_until(self, condition: Callable[[], object], what: str, seconds: float = 200) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"never: {what}\n{self.started()}"
            time.sleep(0.02)

    def started(self) -> str:
        path = self.base / "started.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def pytest(self, *args: str) -> int:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args],
            cwd=self.root,
            env=self.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            check=False,
        ).returncode

    # -- what holds after every scenario -----------------------------------------------------------------------------

    def cross_cutting(self) -> None:
        """The last paragraph of the scenario document."""
        self.state_parses()
        self.wait_until(lambda: not self.processes(), f"the end of {self.processes()}", seconds=60)
        self.git("fsck", "--no-dangling")
        green = [record["test_file"] for record in self.features["features"] if record["passes"]]
        assert not green or self.clone().pytest(*green) == 0, "a feature passes without a green test file"
        status = self.harness("status")
        assert status.code == 0, status.text

    def clone(self) -> "World":
        """What HEAD holds, in a fresh folder."""
        place = self.base / "clone"
        shutil.rmtree(place, ignore_errors=True)
        self.git("clone", "-q", "--no-local", str(self.root), str(place))
        return World(self.base, place, self.environ)

    def state_parses(self) -> None:
        """Every state file is whole."""
        for path in sorted((self.root / ".harness").rglob("*")):
            if path.suffix == ".json":
                assert isinstance(json.loads(path.read_text()), dict), path
            elif path.suffix == ".yaml":
                assert isinstance(yaml(path), dict), path
            elif path.suffix == ".jsonl":
                for line in path.read_text().splitlines():
                    json.loads(line)
        assert isinstance(self.features, dict)


def whole_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a log; a line that a crash has torn is passed over."""
    for line in path.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def yaml(path: Path) -> Any:
    from ruamel.yaml import YAML

    return YAML(typ="safe", pure=True).load(path.read_text())


def fingerprint(root: Path, *, without: Sequence[str] = ()) -> dict[str, str]:
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


def environment(base: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of every command: our Python first on PATH, and a ``poetry`` that runs what it is told."""
    tools = base / "tools"
    tools.mkdir()
    for name, text in (
        ("poetry", '#!/bin/sh\nshift\nexec "$@"\n'),
        ("harness", f"#!{sys.executable}\nimport sys\nfrom agent_harness.cli.main import main\nsys.exit(main())\n"),
    ):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    python = Path(sys.executable).parent
    return {
        **inherited,
        "PATH": os.pathsep.join([str(tools), str(python), inherited.get("PATH", os.defpath)]),
        "CALC_UP": str(base / "calc-is-up"),
        "NO_COLOR": "1",
    }


def make(
    base: Path,
    inherited: Mapping[str, str],
    *,
    features: Sequence[int] = tuple(range(1, len(NAMES) + 1)),
    seam: Seam | None = None,
) -> World:
    """A fresh project ``calc`` with its bare remote, on main, upstream set, and the state of a finished session 0."""
    world = empty(base, inherited, seam=seam)
    world.git("init", "-q", "-b", "main")
    world.put(project_files(features))
    world.commit("Initial project setup by initializer agent")
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", base / "origin.git"], check=True)
    world.git("remote", "add", "origin", str(base / "origin.git"))
    world.git("push", "-q", "-u", "origin", "main")
    state = world.root / ".harness"
    (state / "logs").mkdir(parents=True)
    for name, text in state_files(len(features)).items():
        (state / name).write_text(text)
    return world


def empty(base: Path, inherited: Mapping[str, str], *, seam: Seam | None = None) -> World:
    """A folder with nothing in it."""
    root = base / "calc"
    root.mkdir()
    return World(base, root, environment(base, inherited), seam=seam or CommandSeam(base))


def copy(world: World, base: Path) -> World:
    """The same project at another place, with the same remote address inside."""
    base.mkdir()
    shutil.copytree(world.base, base, dirs_exist_ok=True, symlinks=True)
    return World(base, base / "calc", world.environ | {"CALC_UP": str(base / "calc-is-up")})
