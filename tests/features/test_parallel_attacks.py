"""A feature project worked in parallel against rubbish, people, and agents that reach beyond their workspaces."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from agent_harness.testing import CommandResult
from agent_harness.testing.feature_list_project import FeatureListProject
from agent_harness.testing.feature_list_project import module_work as work

from .test_parallel import NO_SANDBOX, died, landed, project, run, state_folder, turn, verdicts

USAGE = {"usage": {"input_tokens": 5, "output_tokens": 5, "cost_usd": 0.25}}

RUBBISH: dict[str, dict[str, Any]] = {
    "accepted": {
        "spent": {"cost_usd": -5.0, "input_tokens": -1, "frogs": 3},
        "outputs": [],
        "logs": 7,
        "quality": 7,
        "files_read": 1,
        "row": 7,
        "session": "x",
        "total_tests": "y",
    },
    "partial": {
        "spent": {"cost_usd": "much", "input_tokens": "x"},
        "state": "x",
        "row": [],
        "wip": 5,
        "question": 5,
        "kept": 5,
        "verdicts": [1, None],
        "rescues": 5,
    },
}


def killed(tmp_path: Path, moment: str) -> tuple[FeatureListProject, str]:
    """Two features, and what a coordinator has left that was killed there."""
    made = project(tmp_path, "ham", "egg")
    spec = made.agent([turn(n, work(n, name, USAGE)) for n, name in ((1, "ham"), (2, "egg"))])
    died(made, moment, spec)
    return made, spec


@pytest.mark.kept("accepted")
@pytest.mark.scenario
@pytest.mark.parametrize("status", RUBBISH)
def test_what_of_a_result_is_not_as_it_should_be_is_missing(tmp_path: Path, status: str) -> None:
    """SC-29: nobody's session has used less than nothing, and each feature lands once."""
    made, spec = killed(tmp_path, "before:ended")
    for path in state_folder(made).glob("parallel/orders/*/result.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), **RUBBISH[status], "status": status}))
    ran = made.harness("run", "--workers", "2", agent=spec)
    assert (ran.code, made.passing(), sorted(landed(made))) == (0, [1, 2], ["1", "2"]), ran.text
    costs = made.read(".harness/costs.yaml")["cumulative"]
    assert costs["total_cost_usd"] >= 0.25
    assert all(row["cost_usd"] >= 0 for row in costs["by_feature"])
    assert made.changes() == []


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_rubbish_in_the_files_of_a_run_stops_nobody(tmp_path: Path) -> None:
    """SC-14: what was proven and is nobody's any more is in a rescue, and its feature is made anew."""
    made, spec = killed(tmp_path, "before:batched")
    folder = state_folder(made) / "parallel"
    proven = made.git("for-each-ref", "--format=%(objectname)", "refs/harness/work").split()
    rubbish = {"claims.json": '{"items": {"1": 5, "2": []}}', "items/1.json": "[]"}
    rubbish |= {"spending/settled.json": "[]", "spending/x.json": '{"spent": "x", "call": null}'}
    for name, text in rubbish.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    looked = [made.harness(name) for name in ("status", "queue", "workspace")]
    assert [each.code for each in looked] == [0, 0, 0], looked
    ran = made.harness("run", "--workers", "2", agent=spec)
    assert (ran.code, made.passing(), sorted(landed(made))) == (0, [1, 2], ["1", "2"]), ran.text
    kept = made.git("for-each-ref", "--format=%(objectname)", "refs/harness/rescue").split()
    assert proven
    assert {*proven} <= {*kept, *made.git("log", "--format=%(trailers:key=Harness-Candidate,valueonly)").split()}
    assert made.changes() == []


# ---- what others commit meanwhile ------------------------------------------------------------------------------------

MARKS = "found['features'][1]['passes'] = True"
ODD = "found['features'] += [5, {'id': 'x'}]"


def meanwhile(made: FeatureListProject, tmp_path: Path, edit: str) -> CommandResult:
    """A run with two features; the agent of the first one commits to the project's own features.json."""
    script = tmp_path / "edit.py"
    script.write_text(
        "import json, os, subprocess\n"
        f"os.chdir({str(made.root)!r})\n"
        "found = json.load(open('features.json'))\n"
        f"{edit}\n"
        "json.dump(found, open('features.json', 'w'), indent=2)\n"
        "subprocess.run(['git', 'commit', '-qam', 'Edited'], check=True)\n"
    )
    acts = {"run": f"python3 {shlex.quote(str(script))}"}
    turns = [turn(1, work(1, "ham", acts, USAGE)), turn(2, work(2, "egg", {"sleep": 3}, USAGE))]
    return run(made, turns, 2, environ=NO_SANDBOX)


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_mark_that_somebody_commits_meanwhile_is_no_proof(tmp_path: Path) -> None:
    """SC-38, UAH-110: the run does not end as if everything had landed; the answer opens the feature again."""
    made = project(tmp_path, "ham", "egg")
    ran = meanwhile(made, tmp_path, MARKS)
    assert (ran.code, landed(made)) == (3, ["1"]), ran.text
    assert "2/2 features marked passing but the suite has" in ran.text
    assert made.harness("resume", "--choose", "reset").code == 0
    assert made.passing() == [1]
    again = run(made, [turn(2, work(2, "egg", USAGE))])
    assert (again.code, made.passing(), landed(made)) == (0, [1, 2], ["2", "1"]), again.text
    assert sorted(row["item"] for row in verdicts(made) if row["verdict"] == "accepted") == ["1", "2"]


@pytest.mark.scenario
def test_a_list_that_somebody_breaks_meanwhile_ends_the_run_with_what_is_wrong(tmp_path: Path) -> None:
    """No agent is started for what is no feature; once it is mended, what was begun goes on."""
    made = project(tmp_path, "ham", "egg")
    ran = meanwhile(made, tmp_path, ODD)
    assert (ran.code, "entry 2 of 'features' is not an object" in ran.text) == (6, True), ran.text
    assert "next: fix and commit features.json" in ran.text
    assert "w1 -1" not in ran.text
    made.git("revert", "--no-edit", "HEAD")
    turns = [turn(n, work(n, name, USAGE)) for n, name in ((1, "ham"), (2, "egg"))]
    again = run(made, turns)
    assert (again.code, made.passing(), sorted(landed(made))) == (0, [1, 2], ["1", "2"]), again.text
    assert made.changes() == []
