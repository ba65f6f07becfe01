"""The fixture project ``calc`` of the scenario document, and what a person can see of it from outside."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import psutil

from agent_harness.cli.main import main
from agent_harness.testing import HARNESS, CommandResult, run_in_process
from agent_harness.testing.feature_list_project import FeatureListProject

from .script import CODE, NAMES, name_of, proof_ids, proof_path, proof_text, stub_text
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
QUICK_PYTEST = "[pytest]\npythonpath = src\ntestpaths = tests\naddopts = --disable-plugin-autoload\n"  # half its start
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

_SHOWN: set[tuple[str, ...]] = set()
"""Test files, and all files of the commit in which they have passed, with their digests."""


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


class CalcProject(FeatureListProject):
    """The project ``calc``. What must hold after every scenario is checked, unless ``checked`` is false."""

    def __init__(
        self, base: Path, root: Path, environ: Mapping[str, str], *, checked: bool = True, seam: Seam | None = None
    ) -> None:
        super().__init__(root, base=base, environ=environ)
        self.checked = checked
        self.seam = seam or CommandSeam(base)

    def agent(self, turns: Sequence[Mapping[str, object]]) -> str:
        """The agent SPEC of a new script, played through this project's seam."""
        return self.seam.spec(self.script(turns))

    def variables(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a command: the project's, with what its seam needs."""
        return super().variables({**self.seam.environ, **(more or {})})

    def here(
        self,
        *args: str,
        agent: Sequence[Mapping[str, object]] | str | None = None,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> CommandResult:
        """Run a command in this process, with no other variables than those of the project.

        This is for commands that only look, or that refuse at once: most of their price is the start of a process.
        """
        words = FeatureListProject.command(self, *args, agent=agent)[len(HARNESS) :]  # the network of this process
        with mock.patch.dict(os.environ, self.variables(environ), clear=True):
            return run_in_process(main, "harness", *words, cwd=cwd or self.root)

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

    @property
    def costs(self) -> dict[str, Any]:
        return yaml(self.root / ".harness/costs.yaml")

    def told(self) -> list[str]:
        """Return the watch's messages to the agent, in order.

        They are told if the seam can tell them, else on record as not told.
        """
        return [row["message"] for row in self.events("agent_steered" if self.seam.steers else "agent_not_told")]

    def processes(self) -> list[int]:
        """Live processes that were started from this calc: they carry its mark in their environment."""
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
        assert not green or self.shown(green), "a feature passes without a green test file"
        status = self.here("status")
        assert status.code == 0, status.text

    def shown(self, green: Sequence[str]) -> bool:
        """Return True if these test files pass in a clone of HEAD.

        Of equal files they are run once in a process of tests: the code of ``calc`` knows no time, and no machine.
        """
        records = ("\tfeatures.json", "\tclaude-progress.txt")  # what the harness writes in them has a time
        files = [row for row in self.git("ls-tree", "-r", "HEAD").splitlines() if not row.endswith(records)]
        asked = (*green, "", *files)
        if asked not in _SHOWN and self.clone().pytest(*green) == 0:
            _SHOWN.add(asked)
        return asked in _SHOWN

    def clone(self) -> "CalcProject":
        """Clone HEAD into a fresh folder."""
        place = self.base / "clone"
        shutil.rmtree(place, ignore_errors=True)
        self.git("clone", "-q", "--no-local", str(self.root), str(place))
        return CalcProject(self.base, place, self.environ)

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


def yaml(path: Path) -> Any:
    from ruamel.yaml import YAML

    return YAML(typ="safe", pure=True).load(path.read_text())


def environment(base: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of every command: our Python first on PATH, and a ``poetry`` that runs what it is told."""
    tools = base / "tools"
    tools.mkdir(exist_ok=True)
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
) -> CalcProject:
    """A fresh project ``calc`` with its bare remote, on main, upstream set, and the state of a finished session 0."""
    calc = empty(base, inherited, seam=seam)
    calc.git("init", "-q", "-b", "main")
    calc.put(project_files(features))
    calc.commit("Initial project setup by initializer agent")
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", base / "origin.git"], check=True)
    calc.git("remote", "add", "origin", str(base / "origin.git"))
    calc.git("push", "-q", "-u", "origin", "main")
    state = calc.root / ".harness"
    (state / "logs").mkdir(parents=True)
    for name, text in state_files(len(features)).items():
        (state / name).write_text(text)
    return calc


def empty(base: Path, inherited: Mapping[str, str], *, seam: Seam | None = None) -> CalcProject:
    """A folder with nothing in it."""
    root = base / "calc"
    root.mkdir()
    return CalcProject(base, root, environment(base, inherited), seam=seam or CommandSeam(base))
