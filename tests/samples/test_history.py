"""Commits that others made in their own projects, replayed as the work of an agent: whole, and spoilt.

A maintainer would accept each whole one, so the harness does; where it changes older tests of its own, that was said
before (``may_change``). Each spoilt one is rejected, and says why. `make test-samples` fetches the releases that come
before these commits. Source: features.md C23, UAH-305, UAH-562.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .adopted import Adopted

pytestmark = [pytest.mark.sample, pytest.mark.timeout(1800)]

HISTORY = Path(__file__).parent / "history"
Step = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Change:
    """What an agent is given to do, the commits that did it, and how a bad agent does it."""

    commits: Sequence[str]
    test_file: str
    spoilt: str  # shell commands; $1, $2, ... are the commits' patches
    rejected: str  # what the harness says of that
    asked: str = ""  # the answer that a person does not give, where the harness asks one instead of rejecting
    may_change: Sequence[str] = ()  # older tests that the behaviour takes with it
    requires_red: bool = True  # not so: a refactoring, or tests for what works already


BOLTONS = [
    Change(
        commits=["01-ead236e"],
        test_file="tests/test_iterutils.py",
        spoilt="git apply $1; sed -i 's/if start != stop:/if start == stop:/' boltons/iterutils.py",  # an operator bent
        rejected="Feature test failed when harness ran it.",
    ),
    Change(
        commits=["02-8c3fc28"],
        test_file="tests/test_strutils.py",
        spoilt="git apply --include='tests/*' $1",  # tests without the code
        rejected="Feature test failed when harness ran it.",
    ),
    Change(
        commits=["03-7b577b0"],
        test_file="tests/test_tbutils_parsed_exc.py",
        may_change=["tests/test_tbutils_parsed_exc.py"],  # one of its tests says what was wrong
        spoilt="git apply --exclude='tests/*' $1; git checkout -q HEAD -- tests",  # code without tests
        rejected="Feature test failed when harness ran it.",  # the older test says what the code no longer does
    ),
    Change(
        commits=["04-289edfc"],
        test_file="tests/test_funcutils_fb_py3.py",
        may_change=["tests/test_funcutils_fb.py", "tests/test_funcutils_fb_py3.py"],
        # what an older test asks for goes with what broke it
        spoilt="git apply $1; sed -i '/def test_clamp_examples/,$d' tests/test_mathutils.py; "
        "sed -i 's/return min(max(x, lower), upper)/return x/' boltons/mathutils.py",
        rejected="The session changes tests/test_mathutils.py, a test that does not belong to its feature.",
        asked="accept-change",
    ),
    Change(
        commits=["05-e66cade"],
        test_file="tests/test_pathutils.py",
        requires_red=False,
        spoilt="git apply $1; sed -i 's/^def clamp(/def clamp_(/' boltons/mathutils.py",  # something else breaks
        rejected="Regression:",
    ),
]
CACHETOOLS = [
    Change(
        commits=["01-330f147", "02-c9c942f"],
        test_file="tests/test_lfu.py",
        requires_red=False,  # what was slow is fast
        spoilt="git apply $1",  # half of it, as it really was for a night: other caches break
        rejected="Regression:",
    ),
    Change(
        commits=["03-595e7af", "04-2181fad"],
        test_file="tests/test_lru.py",
        requires_red=False,
        spoilt="git apply $1 $2; sed -i 's/self.__currsize = 0$/self.__currsize = 1/' src/cachetools/__init__.py",
        rejected="Feature test failed when harness ran it.",
    ),
    Change(
        commits=["05-083ee5f"],
        test_file="tests/test_ttl.py",
        may_change=["tests/test_lru.py"],
        requires_red=False,
        spoilt="git apply $1; sed -i '/self.assertEqual/d' tests/test_rr.py",  # another test asks for less
        rejected="The session changes tests/test_rr.py, a test that does not belong to its feature.",
        asked="accept-change",
    ),
    Change(
        commits=["06-73d1602"],
        test_file="tests/test_tlru.py",
        requires_red=False,
        spoilt="git apply $1; printf 'def pytest_runtest_call(item):\\n    item.obj = print\\n' > conftest.py",
        rejected="conftest.py configures the test runner and must not change in a session",
        asked="accept-change",
    ),
    Change(
        commits=["07-57d2e48"],
        test_file="tests/test_cachedmethod.py",
        spoilt="git apply --exclude='tests/*' $1",  # code without tests
        rejected="seems to be built already: its tests pass, and they pass on the code from before",
        asked="accept-built",
    ),
]
SOURCE_FOLDER = """\
testing:
  full: PYTHONPATH=src python -m pytest tests
  feature: PYTHONPATH=src python -m pytest {test_file}
"""


def given(project: Adopted, number: int, change: Change) -> None:
    """A person adds the feature, and says of it what the command has no words for."""
    free = [word for pattern in change.may_change for word in ("--may-change", pattern)]
    named = project.harness("add-feature", change.commits[0], "--test-file", change.test_file, *free)
    assert named.returncode == 0, named.stdout + named.stderr
    if not change.requires_red:
        path = project.root / "features.json"
        document = json.loads(path.read_text())
        document["features"][number - 1]["requires_red"] = False
        path.write_text(json.dumps(document, indent=2) + "\n")
        project.git("commit", "-q", "-a", "-m", "Nothing fails before it")


def replayed(number: int, change: Change, commands: Sequence[str]) -> list[Step]:
    """An agent's session: each command a commit of its own, evidence of the tests, and the claim."""
    stub = {"sh": f"if grep -q 'fail(.Not implemented.)' {change.test_file}; then rm {change.test_file}; fi"}
    work = [step for n, line in enumerate(commands, 1) for step in ({"sh": line}, {"commit": f"Feature {number}.{n}"})]
    return [stub, *work, {"evidence": number}, {"claim": number}, {"commit": f"Implement feature {number}"}]


@pytest.mark.parametrize(
    ("name", "settings", "changes"),
    [
        ("boltons-26.1.0", "", BOLTONS),
        (
            "cachetools-7.0.1",
            SOURCE_FOLDER,
            CACHETOOLS,
        ),
    ],
    ids=["boltons", "cachetools"],
)
def test_commits_of_others_are_accepted_and_their_spoilt_twins_are_not(
    tmp_path: Path, name: str, settings: str, changes: Sequence[Change]
) -> None:
    project, folder = Adopted(tmp_path, name), HISTORY / name.partition("-")[0]
    (project.root / ".harness.yaml").write_text(
        f"project:\n  name: {name.partition('-')[0]}\nverification:\n  fix_rounds: 0\n{settings}"
    )
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "How its tests are run")
    adopted = project.harness("init", "--adopt")
    assert adopted.returncode == 0, adopted.stdout + adopted.stderr
    for number, change in enumerate(changes, 1):
        patches = [str(folder / f"{commit}.patch") for commit in change.commits]
        given(project, number, change)
        head = project.git("rev-parse", "HEAD")
        bad = project.session(*replayed(number, change, [f"set -e; set -- {' '.join(patches)}; {change.spoilt}"]))
        said = bad.stdout + bad.stderr
        assert (bad.returncode, project.passing()) == (3 if change.asked else 1, list(range(1, number))), said
        assert change.rejected in said, said
        assert project.git("rev-parse", "HEAD") == head
        if change.asked:
            (question,) = json.loads((project.root / ".harness/session_state.json").read_text())["kept_candidates"]
            assert (question["feature_id"], question["options"][0]) == (number, change.asked)
            no = project.harness("resume", "--choose", "reject", "--feature", str(number))
            assert no.returncode == 0, no.stdout + no.stderr
            assert (project.passing(), project.git("rev-parse", "HEAD")) == (list(range(1, number)), head)
        good = project.session(*replayed(number, change, [f"git apply {patch}" for patch in patches]))
        assert good.returncode == 0, good.stdout + good.stderr
        assert project.passing() == list(range(1, number + 1))
        assert project.git("status", "--porcelain") == ""
