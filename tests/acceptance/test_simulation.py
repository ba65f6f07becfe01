"""Whole projects on a machine where everything goes wrong, by a seed: nothing lost, nothing done twice, an end always.

A failure names its seed, which replays the same faults:

    HARNESS_SIMULATION_SEED=17 make test ARGS="tests/acceptance/test_simulation.py"

``HARNESS_SIMULATIONS`` sets how many projects of each protocol ``make test-slow`` lives through: 75, with some 1,000
kills in all.
"""

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent_harness.kernel import journal

from .simulated_machine import Machine
from .simulated_world import STORIES, TaskListStory

pytestmark = pytest.mark.kill

SEED = os.environ.get("HARNESS_SIMULATION_SEED")
MANY = int(os.environ.get("HARNESS_SIMULATIONS", "75"))
FIRST = {"tasklist": 3, "longtask": 6, "features": 5}  # a seed with several kinds of faults
DAY = 86_400.0


@pytest.fixture
def machine(tmp_path: Path, _own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A machine that lives by the environment of this test, without a sandbox: its agents end their harness."""
    monkeypatch.setenv("HARNESS_SANDBOX", "off")
    with Machine(tmp_path) as machine:
        yield machine


def lived(machine: Machine, tmp_path: Path, protocol: str, seed: int, steps: int) -> int:
    """One project from its start to its end; how often the harness was killed in it."""
    story = STORIES[protocol](machine, tmp_path / f"{protocol}-{seed}", seed)
    story.play(steps)
    return story.kills


@pytest.mark.exhaustive
@pytest.mark.scenario
@pytest.mark.parametrize("protocol", ["tasklist", "longtask"])
def test_a_project_survives_what_its_seed_has(machine: Machine, tmp_path: Path, protocol: str) -> None:
    lived(machine, tmp_path, protocol, int(SEED or FIRST[protocol]), 4 if protocol == "tasklist" else 8)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("protocol", list(STORIES))
def test_many_projects_survive(machine: Machine, tmp_path: Path, protocol: str) -> None:
    seeds = [int(SEED)] if SEED else range(MANY)
    kills = sum(lived(machine, tmp_path, protocol, seed, 14) for seed in seeds)
    print(f"{protocol}: {kills} kills in {len(seeds)} projects")


# ---- every loop ends -------------------------------------------------------------------------------------------------


def restarted(machine: Machine, tmp_path: Path, protocol: str) -> None:
    """The agent takes the harness down with it, each time, and a scheduler starts it again, for ever."""
    story = STORIES[protocol](machine, tmp_path / protocol, 1)
    story.bear(4)
    kind = "killer*1"
    for _ in range(12):
        ran = story.run(kind)
        if not ran.killed:
            break
        machine.wait(130)
    assert not ran.killed, "it was started again and again"
    assert (ran.code, story.says_used_up(ran)) == (3 if protocol != "longtask" else 0, True), ran.out
    made = len(story.starts())
    assert 0 < made <= 4
    for _ in range(3):
        assert not story.run(kind).killed
    assert len(story.starts()) == made, "nobody agreed"
    story.go_on()
    assert story.run(kind).killed, "a person agreed"


@pytest.mark.kept("tasklist")
@pytest.mark.scenario
@pytest.mark.parametrize("protocol", ["tasklist", "longtask"])
def test_a_harness_that_is_killed_in_every_session_comes_to_an_end(
    machine: Machine, tmp_path: Path, protocol: str
) -> None:
    restarted(machine, tmp_path, protocol)


@pytest.mark.slow
def test_a_feature_project_that_is_killed_in_every_session_comes_to_an_end(machine: Machine, tmp_path: Path) -> None:
    restarted(machine, tmp_path, "features")


# ---- a month ---------------------------------------------------------------------------------------------------------


class Month(TaskListStory):
    """A list that its provider serves once in a few hours, on a machine that goes down, and whose clock is set."""

    tasks = 40
    sources = False
    most = 200

    def live(self, days: float) -> None:
        end = self.machine.now + days * DAY
        while self.machine.now < end and not self.done():
            kind = self.chosen.choice(("reboot", "jump", "kill"))
            fault: dict[str, Any] = {"kind": kind, "point": self.chosen.randint(1, 3000)}
            fault["awake"] = self.chosen.uniform(0, min(2 * DAY, end - self.machine.now))
            if kind == "jump":
                fault["seconds"] = self.chosen.choice((-7200, -600, 600, 7200))
            before = len(self.starts())
            ran = self.run("window*8,limit*2,honest*1", fault)
            self.told.append(f"--- {fault} -> {ran.code}\n{ran.out[-600:]}")
            assert "Traceback" not in ran.out and (ran.killed or ran.code in (0, 1, 8)), ran.out
            if kind != "jump":
                self.woken_in_time(before)
            self.machine.wait(10)

    def woken_in_time(self, first: int) -> None:
        """From each refusal on, the agent is next started at the stated moment, or within a minute of it."""
        for refused, following in pairwise(self.starts()[first:]):
            if refused["wait"]:
                late = following["at"] - refused["at"] - refused["wait"]
                assert -1 <= late <= 60, f"started {late:.0f} s after the stated reset"


def month(machine: Machine, tmp_path: Path, days: float, seed: int) -> None:
    story = Month(machine, tmp_path / "month", seed)
    story.live(days)
    counted = [line for line in journal.read(story.state / "starts.jsonl") if "item" in line]
    assert len(story.starts()) <= len(counted)
    print(f"{days} days: {len(counted)} starts, {len(story.told)} runs")
    assert max(sum(line["item"] == each["item"] for line in counted) for each in counted) <= story.most


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_day_of_limits_reboots_and_clocks_that_are_set(machine: Machine, tmp_path: Path) -> None:
    month(machine, tmp_path, 1, int(SEED or 2))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_month_of_limits_reboots_and_clocks_that_are_set(machine: Machine, tmp_path: Path) -> None:
    month(machine, tmp_path, 30, int(SEED or 1))
