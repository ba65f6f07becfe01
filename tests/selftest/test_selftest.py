"""`harness selftest`: agents that can be read, lies refused, honest work taken, and another harness measured."""

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from agent_harness.selftest import trial
from agent_harness.testing import HARNESS, CommandResult, run_process

pytestmark = pytest.mark.timeout(900)
LANGUAGES = ("javascript", "go", "rust")
_EACH = {case.name: case for case in trial.all_cases()}.values()


def selftest(*words: str) -> CommandResult:
    return run_process([*HARNESS, "selftest", *words], seconds=800)


def test_there_are_enough_agents_and_each_says_what_it_does() -> None:
    rows = selftest("--list", "--json").json["agents"]
    kinds = Counter(row["kind"] for row in rows)
    assert kinds["lie"] >= 80
    assert kinds["honest"] >= 50
    assert {row["protocol"] for row in rows} == set(trial.PROTOCOLS)
    assert all(row["about"] for row in rows)
    assert len({(row["name"], row["protocol"]) for row in rows}) == len(rows)


@pytest.mark.parametrize("case", _EACH, ids=lambda case: case.name)
def test_every_agent_is_a_shell_script(case: trial.TrialAgent, tmp_path: Path) -> None:
    script = tmp_path / "agent.sh"
    script.write_text(case.program)
    read = subprocess.run(["sh", "-n", str(script)], capture_output=True, text=True, check=False)
    assert (read.returncode, read.stderr) == (0, "")


def test_an_honest_agent_is_taken_and_a_lie_is_not() -> None:
    ran = selftest("--only", "straight", "--protocol", "tasks")
    assert ran.code == 0, ran
    assert "accepted" in ran.out
    ran = selftest("--only", "conftest-repairs", "--protocol", "tasks", "--json")
    assert (ran.code, ran.json["false_done"], ran.json["harm"], ran.json["not_run"]) == (0, [], {}, {}), ran
    assert ran.json["results"][0]["done"] is False


def test_each_agent_once() -> None:
    every, some = selftest("--list", "--all", "--json").json["agents"], selftest("--list", "--json").json["agents"]
    assert Counter(row["name"] for row in some) == dict.fromkeys((row["name"] for row in every), 1)
    shared = {row["name"] for row in every if row["protocol"] == "long"}
    assert {row["protocol"] for row in some if row["name"] in shared} == set(trial.PROTOCOLS)


def test_a_harness_that_believes_everything_is_found_out() -> None:
    believes = 'sh -c "$SELFTEST_AGENT"; true'
    ran = selftest("--only", "wrong-work", "--protocol", "tasks", "--against", believes, "--json")
    assert (ran.code, ran.json["false_done"]) == (1, ["wrong-work"]), ran


def test_work_that_another_harness_calls_checked_is_not_a_false_done() -> None:
    checked = 'sh -c "$SELFTEST_AGENT"; echo "checked: no test of it"'
    ran = selftest("--only", "wrong-work", "--protocol", "tasks", "--against", checked, "--json")
    assert (ran.code, ran.json["false_done"]) == (0, []), ran
    assert ran.json["checked"]["lie"] == {"wrong-work": "no test of it"}
    ran = selftest("--only", "wrong-work", "--protocol", "tasks", "--against", f"{checked}; echo more", "--json")
    assert (ran.code, ran.json["false_done"]) == (1, ["wrong-work"]), ran


def test_a_name_that_nobody_has() -> None:
    ran = selftest("--only", "nobody-is-called-so")
    assert (ran.code, ran.err.count("\n")) == (2, 2), ran
    assert "harness selftest --list" in ran.err


def test_work_that_ends_its_process_with_0_is_not_right() -> None:
    believes = 'sh -c "$SELFTEST_AGENT" && sh -c "$SELFTEST_PROOF"'
    ran = selftest("--only", "product-ends", "--protocol", "tasks", "--against", believes, "--json")
    assert (ran.code, ran.json["false_done"], ran.json["not_run"]) == (1, ["product-ends"], {}), ran


@pytest.mark.parametrize("agent", ["by-any-check-shell", "by-any-check-node"])
def test_the_oracle_tells_right_work_of_another_kind(agent: str) -> None:
    believes = 'sh -c "$SELFTEST_AGENT"'
    if any(case.missing for case in trial.all_cases() if case.name == agent):
        pytest.skip("the program of this check is not on this machine")
    ran = selftest("--only", agent, "--protocol", "tasks", "--against", believes, "--json")
    assert [row["true"] for row in ran.json["results"]] == [True], ran
    assert (ran.code, ran.json["checked"]) == (0, {"lie": {}, "honest": {}})


def test_every_kind_of_check_has_a_lie_and_an_honest_agent() -> None:
    kinds = {(case.check, case.kind) for case in trial.all_cases()}
    assert {check for check, kind in kinds if kind == "lie"} == {check for check, kind in kinds if kind == "honest"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_has_lies_and_honest_agents(language: str) -> None:
    kinds = Counter(case.kind for case in trial.all_cases() if case.check == language)
    assert (kinds["lie"] >= 12, kinds["honest"] >= 8) == (True, True), kinds


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_oracle_asks_a_project_of_another_language_for_its_older_work(language: str) -> None:
    if any(case.missing for case in trial.all_cases() if case.check == language):
        pytest.skip("the program of this check is not on this machine")
    ran = selftest("--only", f"older-work-{language}", "--against", 'sh -c "$SELFTEST_AGENT"', "--json")
    assert {row["name"]: row["true"] for row in ran.json["results"]} == {
        f"breaks-older-work-{language}": False,
        f"moves-older-work-{language}": True,
        f"refactors-older-work-{language}": True,
    }, ran
    assert (ran.code, ran.json["not_run"]) == (1, {})


def test_an_agent_whose_toolchain_is_missing_is_named_and_has_not_passed(tmp_path: Path) -> None:
    for program in ("git", "sh"):
        (tmp_path / program).symlink_to(str(shutil.which(program)))
    environ = {**os.environ, "PATH": str(tmp_path)}
    ran = run_process([*HARNESS, "selftest", "--only", "moves-older-work"], environ=environ)
    assert ran.code == 1, ran
    assert ran.out.count("left out") == 3
    assert "left out      1, since cargo is not installed: moves-older-work-rust\n" in ran.out
    ran = run_process([*HARNESS, "selftest", "--only", "moves-older-work", "--json"], environ=environ)
    assert ran.json["left_out"] == {
        "moves-older-work-javascript": "npm",
        "moves-older-work-go": "go",
        "moves-older-work-rust": "cargo",
    }
    assert (ran.code, ran.json["ok"], ran.json["results"]) == (1, False, [])
