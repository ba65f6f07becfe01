"""`harness demo` from outside: real processes, judged by the files that it leaves."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_harness.demo import prepare, promises
from agent_harness.errors import UsageError
from agent_harness.kernel import owner

pytestmark = pytest.mark.timeout(900)  # on a machine that does much else; alone it takes less than a minute

HARNESS = [sys.executable, "-m", "agent_harness.cli.main"]


class Finished:
    """A demo that has run to its end."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project = root / "shorty"
        command = [*HARNESS, "demo", str(root), "--plain"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.exit_code, self.printed, self.complained = done.returncode, done.stdout, done.stderr

    def git(self, *words: str) -> str:
        return subprocess.run(["git", *words], cwd=self.project, capture_output=True, text=True, check=True).stdout

    def features(self) -> dict[int, bool]:
        return {f["id"]: f["passes"] for f in json.loads(self.git("show", "HEAD:features.json"))["features"]}

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = (self.project / ".harness/logs/events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["type"] == kind]


@pytest.mark.slow  # CI runs the demo itself
def test_the_whole_demo(tmp_path: Path) -> None:
    """UAH-513: One run, looked at from every side; it is one test, so that no second process runs it again."""
    finished = Finished(tmp_path / "new")
    for looks_right in (
        ends_well,
        all_features_are_proven_and_pushed,
        every_accepted_commit_is_told_in_order,
        the_lie_was_caught_by_a_run_of_the_harness,
        the_regression_is_kept_beside_the_branch,
        the_killed_session_and_the_half_one_were_continued,
        the_costs_are_those_of_the_script,
        the_folder_is_named_and_no_process_is_left,
    ):
        looks_right(finished)


def ends_well(finished: Finished) -> None:
    assert (finished.exit_code, finished.complained) == (0, ""), finished.printed
    assert "Everything ended as promised." in finished.printed
    assert "NOT" not in finished.printed.split("Promised and seen")[1].split("sessions in")[0]


def all_features_are_proven_and_pushed(finished: Finished) -> None:
    assert finished.features() == dict.fromkeys(range(1, 8), True)
    assert finished.git("rev-parse", "HEAD") == finished.git("ls-remote", "origin", "main").split()[0] + "\n"
    assert finished.git("status", "--porcelain") == ""


def every_accepted_commit_is_told_in_order(finished: Finished) -> None:
    assert [event["feature_id"] for event in finished.events("feature_completed")] == [1, 2, 3, 4, 5, 6, 7]
    told = [int(n) for n in re.findall(r"^SESSION (\d+) - ", finished.git("show", "HEAD:claude-progress.txt"), re.M)]
    assert sorted(set(told)) == list(range(11))


def the_lie_was_caught_by_a_run_of_the_harness(finished: Finished) -> None:
    failed = finished.events("verification_failed")
    assert [event["feature_id"] for event in failed] == [2, 5]
    claims = [event["feature_id"] for event in finished.events("feature_claimed")]
    assert claims == [1, 2, 2, 3, 4, 5, 5, 6, 7]


def the_regression_is_kept_beside_the_branch(finished: Finished) -> None:
    (rolled_back,) = finished.events("rollback_completed")
    assert rolled_back["session"] == 7
    careless = finished.git("show", f"{rolled_back['rescue_ref']}:src/shorty/codes.py")
    assert careless != finished.git("show", "HEAD:src/shorty/codes.py")
    assert rolled_back["rescue_ref"] in finished.printed


def the_killed_session_and_the_half_one_were_continued(finished: Finished) -> None:
    sessions = {event["session"]: event for event in finished.events("session_started")}
    kinds = [sessions[number]["prompt_type"] for number in sorted(sessions)]
    assert kinds == ["coding"] * 3 + ["continuation", "coding", "continuation"] + ["coding"] * 4
    assert [event["session"] for event in finished.events("session_interrupted")] == [5]
    subjects = finished.git("log", "--format=%s").splitlines()
    assert sum(subject.startswith("WIP: Session interrupted") for subject in subjects) == 1
    assert "Session 5 was interrupted" in finished.printed


def the_costs_are_those_of_the_script(finished: Finished) -> None:
    script = (finished.root / "agent.yaml").read_text()
    wanted = sum(float(cost) for cost in re.findall(r"usage: \[\d+, \d+, \d+, ([\d.]+)\]", script))
    costs = json.loads((finished.project / ".harness/costs.yaml").read_text())
    assert costs["cumulative"]["total_cost_usd"] == pytest.approx(wanted)
    assert f"${wanted:.2f}" in finished.printed
    assert "no model is called" in finished.printed


def the_folder_is_named_and_no_process_is_left(finished: Finished) -> None:
    assert f"Folder: {finished.root}" in finished.printed
    assert owner.processes_tagged("HARNESS_PROJECT_DIR", str(finished.project)) == []


@pytest.mark.scenario
def test_ctrl_c_ends_everything_and_names_the_folder(tmp_path: Path) -> None:
    command = [*HARNESS, "demo", str(tmp_path / "new"), "--plain"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as demo:
        assert demo.stdout
        for line in demo.stdout:
            if "writes src/shorty/codes.py" in line:
                break
        demo.send_signal(signal.SIGINT)
        rest = demo.stdout.read()
    assert demo.returncode == 130
    assert f"The folder is kept: {tmp_path / 'new'}" in rest
    assert owner.processes_tagged("HARNESS_PROJECT_DIR", str(tmp_path / "new" / "shorty")) == []


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(UsageError, match="is in use"):
        prepare(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_demo_that_stopped_early_keeps_no_promise_of_work(tmp_path: Path) -> None:
    judged = {promise.name: promise for promise in promises.examine(prepare(tmp_path / "new"), None)}
    kept = {name for name, promise in judged.items() if promise.kept}
    assert kept == {"clean tree, and pushed", "no process is left"}
    assert all(promise.seen for promise in judged.values())
