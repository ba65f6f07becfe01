"""Beginnings of scenarios: other settings, features and files, committed and pushed as a person would."""

import json
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

from agent_harness.testing import CommandResult

from .calc import CalcProject
from .script import honest, turn


def commit_and_push(calc: CalcProject, message: str) -> str:
    """The new HEAD, which the remote has as well."""
    head = calc.commit(message)
    calc.git("push", "-q")
    return head


def with_settings(calc: CalcProject, text: str) -> str:
    """More lines of ``.harness.yaml``."""
    path = calc.root / ".harness.yaml"
    path.write_text(path.read_text() + text)
    return commit_and_push(calc, "Settings")


def with_files(calc: CalcProject, files: Mapping[str, str]) -> str:
    """Other files of the project, the scripts executable."""
    calc.put(files)
    return commit_and_push(calc, "Other files")


def with_features(calc: CalcProject, edit: Callable[[list[dict[str, Any]]], None]) -> str:
    """features.json after ``edit`` of its list."""
    document = calc.features
    edit(document["features"])
    calc.put({"features.json": json.dumps(document, indent=2) + "\n"})
    return commit_and_push(calc, "Other features")


def with_costs(calc: CalcProject, **cumulative: object) -> None:
    """costs.yaml as earlier sessions would have left it."""
    costs = calc.costs
    costs["cumulative"] |= cumulative
    (calc.root / ".harness/costs.yaml").write_text(json.dumps(costs))


def refused(calc: CalcProject, *words: str, code: int = 4) -> CommandResult:
    """`harness run` with an honest agent that is never started: its exit code, one line of each of these words."""
    before = (calc.head, calc.changes())
    ran = calc.run([turn(honest(1))])
    assert ran.code == code, ran.text
    for word in words:
        assert word in ran.text
    assert not calc.events("agent_started"), "no agent before the checks"
    assert (calc.head, calc.changes()) == before
    assert calc.costs["cumulative"]["total_sessions"] == 0
    return ran


def by_a_colleague(calc: CalcProject, files: Mapping[str, str], *, message: str = "A colleague's work") -> str:
    """A commit that somebody else has pushed to the remote meanwhile; its id."""
    place = calc.base / "colleague"

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=place, env=calc.environ, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    if not place.exists():
        subprocess.run(
            ["git", "clone", "-q", calc.base / "origin.git", place], env=calc.environ, check=True, capture_output=True
        )
    git("pull", "-q", "--ff-only")
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    git("add", "-A")
    git("commit", "-q", "-m", message)
    git("push", "-q")
    return git("rev-parse", "HEAD")
