"""The program that the demo's scripted agent writes: replayed without the harness, feature after feature."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from agent_harness.agents.scripted import ScriptedAgent
from agent_harness.demo.children import bundled_script, sample

ENTRIES: list[dict[str, Any]] = YAML(typ="safe", pure=True).load(bundled_script())["turns"]


class Replay:
    """A folder in which the steps of the script are taken as a person would take them by hand."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def take(self, step: dict[str, Any]) -> None:
        """One step; what only speaks changes nothing."""
        ((verb, value),) = step.items()
        if verb in ("write", "append"):
            path = self.root / value["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            before = path.read_text() if verb == "append" and path.exists() else ""
            path.write_text(before + value["text"])
        elif verb == "run":
            self.shell(value)

    def take_all(self, entry: dict[str, Any]) -> None:
        for step in entry["do"]:
            self.take(step)
        self.shell("git add --all && git -c user.name=a -c user.email=a@localhost commit --quiet --message step")

    def shell(self, command: str) -> str:
        done = subprocess.run(command, shell=True, cwd=self.root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def features(self) -> dict[int, dict[str, Any]]:
        return {f["id"]: f for f in json.loads((self.root / "features.json").read_text())["features"]}

    def tests(self, *paths: str) -> tuple[int, set[str]]:
        """pytest's exit code and the tests that do not pass."""
        command = [sys.executable, "-m", "pytest", *paths, "-q", "-rfE", "-p", "no:cacheprovider", "-W", "error"]
        env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
        done = subprocess.run(command, cwd=self.root, env=env, capture_output=True, text=True, check=False)
        lines = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return done.returncode, set(lines)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Replay:
    """The honest way through the script, with a tag ``after-N`` behind each feature; 0 is the plan."""
    replay = Replay(tmp_path_factory.mktemp("shorty"))
    replay.shell("git init --quiet --initial-branch=main")
    replay.take_all(ENTRIES[0])
    replay.shell("git tag after-0")
    for feature_id in range(1, 8):
        for entry in honest(feature_id):
            replay.take_all(entry)
        replay.shell(f"git tag after-{feature_id}")
    return replay


@pytest.fixture
def after(finished: Replay, tmp_path: Path) -> Callable[[int], Replay]:
    """A copy of the program as it was behind one feature."""

    def copy(feature_id: int) -> Replay:
        replay = Replay(tmp_path / "copy")
        finished.shell(f"git clone --quiet --branch after-{feature_id} . {replay.root} 2>&1")
        return replay

    return copy


def entries(feature_id: int) -> list[dict[str, Any]]:
    return [e for e in ENTRIES if e["when"].get("feature") == feature_id]


def honest(feature_id: int) -> list[dict[str, Any]]:
    return entries(5)[1:] if feature_id == 5 else entries(feature_id)


def claims(entry: dict[str, Any]) -> bool:
    return any("claim" in step for step in entry["do"])


def is_test(step: dict[str, Any]) -> bool:
    return any(str(value.get("path", "")).startswith("tests/") for value in step.values() if isinstance(value, dict))


def test_the_scripted_agent_can_play_the_script(tmp_path: Path) -> None:
    script = tmp_path / "agent.yaml"
    script.write_text(bundled_script(), encoding="utf-8")
    assert ScriptedAgent(script).problem() is None


def test_every_session_has_a_cost_with_its_tokens() -> None:
    used = [step["usage"] for entry in ENTRIES for step in entry["do"] if "usage" in step]
    assert len(used) == len(ENTRIES)
    assert all(0 < cost < 1 and tokens > 0 and output > 0 for tokens, output, _cached, cost in used)


@pytest.mark.scenario
def test_the_plan_has_a_failing_test_for_each_of_seven_features(after: Callable[[int], Replay]) -> None:
    replay = after(0)
    features = replay.features()
    assert list(features) == [1, 2, 3, 4, 5, 6, 7]
    files = [feature["test_file"] for feature in features.values()]
    code, failing = replay.tests("tests")
    assert code == 1
    assert {name.split("::")[0] for name in failing} == set(files)


@pytest.mark.kept("1", "7")
@pytest.mark.parametrize("feature_id", range(1, 8))
@pytest.mark.scenario
def test_a_feature_is_red_before_and_green_after(feature_id: int, after: Callable[[int], Replay]) -> None:
    """What the last session of a feature claims: its tests fail on the code before it, and pass on the code after."""
    replay = after(feature_id - 1)
    *earlier, last = honest(feature_id)
    for entry in earlier:
        replay.take_all(entry)
    test_file = replay.features()[feature_id]["test_file"]
    for step in filter(is_test, last["do"]):
        replay.take(step)
    assert replay.tests(test_file)[0] != 0
    replay.shell("git checkout --quiet . && git clean -fdq")
    replay.take_all(last)
    assert claims(last)
    assert replay.tests(test_file) == (0, set())


def test_the_whole_suite_is_green_at_the_end(finished: Replay) -> None:
    assert finished.tests("tests") == (0, set())


def test_the_lie_fails_its_own_tests(after: Callable[[int], Replay]) -> None:
    replay = after(1)
    lie, _truth = entries(2)
    replay.take_all(lie)
    assert claims(lie)
    assert {"forge": {"id": 2, "passed": 19}} in lie["do"]
    assert len(replay.tests("tests/test_addresses.py")[1]) > 10


def test_the_half_done_feature_is_green_and_not_claimed(after: Callable[[int], Replay]) -> None:
    replay = after(2)
    half, _rest = entries(3)
    replay.take_all(half)
    assert not claims(half)
    assert replay.tests("tests/test_store.py") == (0, set())


def test_the_careless_session_passes_its_own_tests_and_breaks_older_ones(after: Callable[[int], Replay]) -> None:
    replay = after(4)
    careless, _careful = entries(5)
    replay.take_all(careless)
    broken = {name.split("::")[0] for name in replay.tests("tests")[1]}
    stubs = {"tests/test_stats.py", "tests/test_end_to_end.py"}
    assert replay.tests("tests/test_server.py") == (0, set())
    assert broken - stubs == {"tests/test_codes.py", "tests/test_store.py", "tests/test_cli.py"}


def test_the_session_to_be_killed_sleeps_long_over_half_of_its_code(after: Callable[[int], Replay]) -> None:
    replay = after(3)
    killed, _rest = entries(4)
    assert [step for step in killed["do"] if "sleep" in step] == [{"sleep": 60}]
    replay.take_all(killed)
    assert replay.tests("tests/test_cli.py")[0] == 1
    assert (replay.root / "src/shorty/cli.py").exists()


def test_the_finished_program_does_what_the_specification_shows(finished: Replay) -> None:
    address = "https://docs.python.org/3/library/sqlite3.html"
    shorty = f"PYTHONPATH=src {sys.executable} -m shorty --db x.db"
    assert finished.shell(f"{shorty} add {address}") == "100\n"
    assert finished.shell(f"{shorty} add --as sqlite {address}") == "sqlite\n"
    listed = f"100     {address}\nsqlite  {address}\n"
    assert finished.shell(f"{shorty} list") == listed
    assert listed in (sample() / "SPEC.md").read_text(encoding="utf-8")


def test_the_finished_program_is_clean(finished: Replay) -> None:
    rules = "A,B,C4,E,F,I,PIE,PERF,RET,RUF,SIM,UP,W"
    ruff = f"{sys.executable} -m ruff"
    finished.shell(f"{ruff} check --isolated --no-cache --line-length 120 --select {rules} --ignore A002 .")
    finished.shell(f"{ruff} format --isolated --no-cache --line-length 120 --check .")
