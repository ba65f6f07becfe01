"""A feature project worked in parallel while workers and the coordinator are killed at random moments.

Whatever dies, each feature lands once with one verdict on a commit of the branch, what was spent is counted once, and
no process goes on. ``HARNESS_KILL_SEED`` sets the moments, ``HARNESS_CHAOS_SEEDS`` how many seeds the slow one has.
"""

import os
import random
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent_harness.testing.feature_list_project import FeatureListProject
from agent_harness.testing.feature_list_project import module_work as work

from ..acceptance.test_chaos import hands_of, left_over
from .test_parallel import green_all_along, landed, project, turn, verdicts

SEED = int(os.environ.get("HARNESS_KILL_SEED", "1"))
USD = 0.25


def script(made: FeatureListProject, names: list[str], starts: Path, seconds: float) -> str:
    """Sessions that take a while, of which each says that it has begun and what it has spent."""
    spent = {"usage": {"input_tokens": 5, "output_tokens": 5, "cost_usd": USD}}
    return made.agent(
        [
            turn(n, work(n, name, {"run": f"echo {n} >> {starts}"}, spent, {"sleep": seconds}))
            for n, name in enumerate(names, 1)
        ]
    )


def work_while_killing(
    made: FeatureListProject, spec: str, *, workers: int, processes: int, coordinators: int, choose: random.Random
) -> list[int]:
    """Repeats the run until it ends by itself; its exit codes.

    So many workers and coordinators are killed meanwhile.
    """
    kills = ["process"] * processes + ["coordinator"] * coordinators
    choose.shuffle(kills)
    made.environ["HARNESS_TIME_SCALE"] = "0.1"
    codes: list[int] = []
    while True:
        killed = False
        with made.start("run", "--workers", str(workers), "--json", agent=spec) as process:
            while kills and process.poll() is None:
                time.sleep(choose.uniform(0.2, 2.5))
                if kills[0] == "coordinator":
                    process.kill()
                    killed = True
                    kills.pop(0)
                    break
                try:
                    if found := hands_of(process.pid):
                        choose.choice(found).kill()
                        kills.pop(0)
                except psutil.Error:
                    continue
            codes.append(process.wait(timeout=3000))
        if codes[-1] == 3 and "returned no result" in made.harness("status").out:  # hit three times in a row
            assert made.harness("resume", "--choose", "retry").code == 0
        elif not killed:
            return codes


def books_add_up(made: FeatureListProject, size: int, begun: int) -> None:
    """Each session has one record, each dollar counts once, each feature has one verdict on a commit of the branch."""
    rows = made.log("sessions.jsonl")
    assert len({row["order"] for row in rows}) == len(rows)
    assert len({row["session_id"] for row in rows}) == len(rows)
    assert sorted(row["feature_id"] for row in rows if row["feature_completed"]) == [*range(1, size + 1)]
    cumulative = made.read(".harness/costs.yaml")["cumulative"]
    assert cumulative["total_cost_usd"] == pytest.approx(sum(row.get("cost_usd") or 0.0 for row in rows))
    assert size * USD - 1e-6 <= cumulative["total_cost_usd"] <= begun * USD + 1e-6
    assert sum(row["cost_usd"] for row in cumulative["by_feature"]) == pytest.approx(cumulative["total_cost_usd"])
    assert cumulative["total_sessions"] == len(rows)
    accepted = [row for row in verdicts(made) if row["verdict"] == "accepted"]
    assert sorted(int(row["item"]) for row in accepted) == [*range(1, size + 1)]
    history = {*made.git("rev-list", "HEAD").split()}
    assert {made.git("rev-parse", row["commit"]) for row in accepted} <= history


def torture(
    path: Path, *, size: int, workers: int, processes: int, coordinators: int, seconds: float, seed: int
) -> None:
    names = [f"m{n}" for n in range(1, size + 1)]
    needs: dict[str, Any] = {f"m{n}": {"depends_on": [n - 3]} for n in range(4, size + 1, 4)}
    made = project(path, *names, **needs)
    starts = path / "starts"
    spec = script(made, names, starts, seconds)
    choose = random.Random(seed)
    codes = work_while_killing(
        made, spec, workers=workers, processes=processes, coordinators=coordinators, choose=choose
    )
    assert codes[-1] == 0, f"seed {seed}: {codes}\n{(path / 'started.out').read_text()[-6000:]}"
    assert (sorted(map(int, landed(made))), made.passing()) == ([*range(1, size + 1)],) * 2
    assert made.changes() == []
    begun = len(starts.read_text().splitlines())
    assert begun <= size + processes + coordinators * workers, f"{begun} starts"
    books_add_up(made, size, begun)
    assert all(made.progress.count(f"FEATURE: #{n} ") == 1 for n in range(1, size + 1))
    assert made.harness("verify", "--all").code == 0
    green_all_along(made)
    assert left_over(path) == []


@pytest.mark.scenario
@pytest.mark.kill
def test_a_small_project_survives_the_death_of_hands_and_coordinator(tmp_path: Path) -> None:
    """SC-5, SC-11..15, SC-29: six features, two workers' deaths and two of the coordinator."""
    torture(tmp_path, size=6, workers=3, processes=2, coordinators=2, seconds=0.3, seed=SEED)


@pytest.mark.slow
@pytest.mark.kill
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(SEED, SEED + int(os.environ.get("HARNESS_CHAOS_SEEDS", "3"))))
def test_twenty_four_features_survive_eight_and_four_deaths(tmp_path: Path, seed: int) -> None:
    torture(tmp_path, size=24, workers=4, processes=8, coordinators=4, seconds=0.5, seed=seed)
