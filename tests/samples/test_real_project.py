"""A project of hundreds of tests that nobody here wrote: adopted, broken once, built upon twice; nothing by hand.

`make test-samples` fetches it. Source: features.md C23, UAH-305; `init --adopt`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from .adopted import Adopted

pytestmark = [pytest.mark.sample, pytest.mark.timeout(1800)]

SAMPLE = "boltons-26.1.0"
TESTS = 445

CLAMPED = '''\


def clamped_mean(values, lower, upper):
    """The mean of the values, each kept within the bounds."""
    kept = [min(max(one, lower), upper) for one in values]
    return sum(kept) / len(kept)
'''
CLAMPED_TEST = """\
from boltons.mathutils import clamped_mean


def test_values_are_kept_within_the_bounds():
    assert clamped_mean([0, 5, 100], 1, 10) == 16 / 3


def test_values_within_are_not_changed():
    assert clamped_mean([2, 4], 0, 10) == 3
"""
PAIRS = '''\


def neighbours(items):
    """Each item with the one behind it."""
    found = list(items)
    return list(zip(found, found[1:]))
'''
PAIRS_TEST = """\
from boltons.iterutils import neighbours


def test_each_with_the_next():
    assert neighbours("abc") == [("a", "b"), ("b", "c")]


def test_one_alone_has_none():
    assert neighbours([1]) == []
"""


def feature(test: str, text: str, number: int) -> list[Mapping[str, Any]]:
    """What an honest agent does at the end: its tests, their output, its claim."""
    return [
        {"write": {"path": test, "text": text}},
        {"evidence": number},
        {"claim": number},
        {"commit": f"Implement feature {number}"},
    ]


def test_adopted_broken_and_built_upon(tmp_path: Path) -> None:
    project = Adopted(tmp_path, SAMPLE)
    done = project.harness("init", "--adopt")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Known to pass: {TESTS} tests. Known failures: 0." in done.stdout
    assert project.git("status", "--porcelain") == ""
    for name, test in (("Clamped mean", "tests/test_clamped.py"), ("Neighbours", "tests/test_neighbours.py")):
        assert project.harness("add-feature", name, "--test-file", test).returncode == 0

    head = project.git("rev-parse", "HEAD")
    broken = project.session(
        {"sh": "sed -i 's/^def clamp(/def clamp_(/' boltons/mathutils.py"},
        {"append": {"path": "boltons/mathutils.py", "text": CLAMPED}},
        *feature("tests/test_clamped.py", CLAMPED_TEST, 1),
    )
    assert broken.returncode == 1, broken.stdout + broken.stderr
    assert "Regression:" in broken.stdout, broken.stdout
    assert project.git("rev-parse", "HEAD") == head
    assert project.passing() == []

    first = project.session(
        {"append": {"path": "boltons/mathutils.py", "text": CLAMPED}},
        *feature("tests/test_clamped.py", CLAMPED_TEST, 1),
    )
    assert first.returncode == 0, first.stdout + first.stderr
    second = project.session(
        {"append": {"path": "boltons/iterutils.py", "text": PAIRS}},
        *feature("tests/test_neighbours.py", PAIRS_TEST, 2),
    )
    assert second.returncode == 0, second.stdout + second.stderr
    assert project.passing() == [1, 2]
    assert project.git("status", "--porcelain") == ""
    baseline = json.loads((project.root / ".harness/test_baseline.json").read_text())
    assert baseline["total_passing"] == TESTS + 4
