"""``harness run --workers N`` on a feature project: real agents in real places, and what becomes of their work."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_harness.testing import CommandResult
from agent_harness.testing.feature_list_project import FeatureListProject

SETTINGS = f"""\
project: {{name: shop}}
environment: {{init: 'true', reset: 'true'}}
testing:
  full: {sys.executable} -m pytest tests -q
  feature: {sys.executable} -m pytest {{test_file}} -q
"""
PYTEST = "[pytest]\npythonpath = .\naddopts = --disable-plugin-autoload\n"

Steps = list[dict[str, Any]]


def project(base: Path, *names: str, settings: str = "", **members: Any) -> FeatureListProject:
    """One feature a name: the module of that name answers with it, and its test asks for that."""
    made = FeatureListProject.made(base / "shop", *(False for _ in names), settings=SETTINGS + settings)
    rows = [
        {
            "id": number,
            "description": f"User can ask for {name}",
            "test_file": f"tests/test_{name}.py",
            "passes": False,
            **members.get(name, {}),
        }
        for number, name in enumerate(names, 1)
    ]
    stubs = {f"tests/test_{name}.py": 'import pytest\n\n\ndef test_it():\n    pytest.fail("no")\n' for name in names}
    features = json.dumps({"project": "shop", "features": rows}, indent=2) + "\n"
    ignored = ".harness/\n__pycache__/\n.pytest_cache/\n"
    made.put(
        {**stubs, "features.json": features, "pytest.ini": PYTEST, ".gitignore": ignored, "shared.py": "ALL = []\n"}
    )
    made.commit("Plan")
    return made


def proof(name: str) -> str:
    return f"import {name}\n\n\ndef test_{name}():\n    assert {name}.answer(2) == '{name}' * 2\n"


def code(name: str) -> str:
    return f"def answer(times):\n    return '{name}' * times\n"


def work(number: int, name: str, *more: dict[str, Any]) -> Steps:
    """The code and the tests of a feature, and its claim."""
    return [
        {"write": {"path": f"{name}.py", "text": code(name)}},
        {"write": {"path": f"tests/test_{name}.py", "text": proof(name)}},
        *more,
        {"evidence": number},
        {"claim": [number]},
    ]


def turn(number: int, steps: Steps, **more: Any) -> dict[str, Any]:
    return {"when": {"feature": number}, "do": steps, **more}


def run(made: FeatureListProject, turns: Any, workers: int = 2, *words: str) -> CommandResult:
    return made.harness("run", "--workers", str(workers), *words, agent=turns)


def landed(made: FeatureListProject) -> list[str]:
    return made.git("log", "--format=%(trailers:key=Harness-Item,valueonly)").split()


def green_all_along(made: FeatureListProject) -> None:
    """At each commit of the first-parent history the tests of all features that are marked by then pass."""
    for commit in made.git("rev-list", "--first-parent", "HEAD").split():
        marked = [row for row in json.loads(made.git("show", f"{commit}:features.json"))["features"] if row["passes"]]
        place = made.base / "then" / commit
        made.git("worktree", "add", "-q", "--detach", str(place), commit)
        if marked:
            words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(r["test_file"] for r in marked)]
            ran = subprocess.run(words, cwd=place, capture_output=True, check=False)
            assert ran.returncode == 0, ran.stdout.decode()
        made.git("worktree", "remove", "--force", str(place))


def test_two_features_land_once_with_two_workers(tmp_path: Path) -> None:
    """SC-1, SC-32, SC-33."""
    made = project(tmp_path, "ham", "egg")
    turns = [
        turn(n, [*work(n, name), {"usage": {"input_tokens": 5, "output_tokens": 5, "cost_usd": 0.25}}])
        for n, name in ((1, "ham"), (2, "egg"))
    ]
    ran = run(made, turns, 2, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["exit_code"]) == (0, 0), ran.text
    assert sorted(each["item"] for each in answer["landed"]) == ["1", "2"]
    assert sorted(landed(made)) == ["1", "2"]
    assert made.passing() == [1, 2]
    assert made.changes() == []
    green_all_along(made)
