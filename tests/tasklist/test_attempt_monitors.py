"""Parts that an attempt of ``harness run`` shares with every session: all monitors, and the provider's table."""

from pathlib import Path

import pytest

from .test_runner import job, plain, project

USAGE = """printf '{"type":"usage","input_tokens":%s,"output_tokens":0}\\n' """


def test_an_agent_that_goes_in_circles_is_stopped_as_stuck_and_its_task_fails(tmp_path: Path) -> None:
    work = project(tmp_path, job("a", max_attempts=1))
    ran = work.harness("run", "--agent", work.agent(f"for n in 100 60000 120000; do {USAGE} $n; done\nsleep 60"))
    assert (ran.code, work.statuses()) == (1, ["failed"]), ran
    assert "stuck" in work.task("a").error_log[0].lower()
    assert any("agent not told: You appear stuck" in line for line in work.log()), work.log()


@pytest.mark.scenario
def test_a_client_that_waits_for_its_provider_by_itself_is_told_of_at_once(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"))
    said = "[the provider did not answer (429 rate_limit); try 2 again]"
    row = f"""echo '{{"type":"text","text":"{said}"}}'"""
    ran = work.harness("run", "--agent", work.agent(f"{row}\necho done > work.txt"))
    assert (ran.code, work.statuses()) == (0, ["completed"]), ran
    told = f"The agent client waits and tries again automatically: {said.strip('[]')}."
    assert told in ran.out
    assert any(f"client retry: {told}" in line for line in work.log()), work.log()


CALL = """printf '{"type":"tool_call","name":"Bash","input":{"command":"ls"}}\n{"type":"tool_result","output":"a"}\n'"""


def test_an_agent_that_repeats_one_call_is_stopped_whatever_its_context_and_its_task_fails(tmp_path: Path) -> None:
    work = project(tmp_path, job("a", max_attempts=1))
    ran = work.harness("run", "--agent", work.agent(f"for n in $(seq 60); do {CALL}; done\nsleep 60"))
    assert (ran.code, work.statuses()) == (1, ["failed"]), ran
    assert "stuck" in work.task("a").error_log[0].lower()
    assert any("agent not told: You have made the same call 20 times" in line for line in work.log()), work.log()


@pytest.mark.scenario
def test_an_agent_whose_files_change_is_not_stuck(tmp_path: Path) -> None:
    for place in (project, plain):
        (tmp_path / place.__name__).mkdir()
        work = place(tmp_path / place.__name__, job("a", max_attempts=1))
        step = f"echo line >> work.txt; {USAGE} $n; sleep 0.1"
        ran = work.harness("run", "--agent", work.agent(f"for n in 100 60000 120000; do {step}; done"))
        assert (ran.code, work.statuses()) == (0, ["completed"]), ran


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_full_context_window_ends_the_turn_and_what_was_done_is_judged(tmp_path: Path) -> None:
    work = project(tmp_path, job("a", max_attempts=1))
    ran = work.harness("run", "--agent", work.agent(f"echo done > work.txt\n{USAGE} 250000\nsleep 60"))
    assert (ran.code, work.statuses()) == (0, ["completed"]), ran
    assert "Context limit reached" in ran.out


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_login_that_is_refused_fails_no_task_and_ends_the_run(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"), job("b"))
    ran = work.harness("run", "--json", "--agent", work.agent("echo 'Error: 401 invalid x-api-key'; exit 1"))
    assert (ran.code, work.statuses(), work.task("a").attempts) == (1, ["pending", "pending"], 0), ran
    assert len(ran.json["attempts"]) == 1
    assert "Check the agent's API key or login: harness doctor" in ran.json["message"]
    assert ran.json["hint"] == "harness doctor  # then: harness run"


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_the_list_says_how_often_a_failed_proof_goes_back(tmp_path: Path) -> None:
    counted = "echo turn >> ../turns; echo wrong > work.txt"
    for rounds, turns in ((0, 1), (1, 2), (3, 4), ("many", 3)):
        folder = tmp_path / str(rounds)
        folder.mkdir()
        work = project(
            folder, job("a", "grep -q right work.txt", max_attempts=1), session_config={"fix_rounds": rounds}
        )
        ran = work.harness("run", "--agent", work.agent(counted))
        assert (ran.code, work.statuses()) == (1, ["failed"]), ran
        assert (folder / "turns").read_text().count("turn") == turns


@pytest.mark.scenario
def test_an_agent_that_fails_at_once_fails_no_task(tmp_path: Path) -> None:
    work = project(tmp_path, job("a", max_attempts=1), job("b", max_attempts=1), job("c", max_attempts=1))
    ran = work.harness("run", "--json", "--agent", work.agent("echo 'client 1.0 is too old' >&2; exit 1"))
    assert (ran.code, work.statuses(), work.task("a").attempts) == (1, ["pending"] * 3, 0), ran
    assert ran.json["reason"] == "agent_fails"
    assert "harness doctor" in ran.json["hint"]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_an_agent_that_fails_at_once_only_now_and_then_goes_on(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"))
    flaky = "echo start >> ../starts; test $(wc -l < ../starts) -gt 2 || exit 1; echo done > work.txt"
    ran = work.harness("run", "--agent", work.agent(flaky))
    assert (ran.code, work.statuses()) == (0, ["completed"]), ran


@pytest.mark.scenario
def test_the_way_to_have_a_failed_task_tried_again_is_named_and_works(tmp_path: Path) -> None:
    hard = {"max_attempts": 1}
    work = project(tmp_path, *(job(name, "grep -q right work.txt", **hard) for name in ("a", "b", "c")), job("d"))
    ran = work.harness("run", "--agent", work.agent("echo wrong > work.txt"))
    assert work.statuses() == ["failed", "failed", "failed", "completed"]
    assert "harness task reset --failed" in ran.out
    for words, code in ((("a", "d"), 4), (("a", "nobody"), 2), ((), 2), (("a", "--failed"), 2)):
        assert work.harness("task", "reset", *words).code == code, words
    assert work.statuses() == ["failed", "failed", "failed", "completed"]
    assert work.harness("task", "reset", "a", "b").json["reset"] == ["a", "b"]
    assert work.statuses() == ["pending", "pending", "failed", "completed"]
    assert work.harness("task", "reset", "--failed").json["reset"] == ["c"]
    ran = work.harness("run", "--agent", work.agent("echo right $HARNESS_TASK_ID > work.txt"))
    assert work.statuses() == ["completed"] * 4


FAILS = f'echo "work $$" > work.txt; {USAGE} 10; echo "request $$: client 1.0 is too old" >&2; exit 1'


@pytest.mark.scenario
def test_an_agent_that_fails_alike_on_several_tasks_ends_the_run_before_all_of_them_fail(tmp_path: Path) -> None:
    """Also where it has begun to work, and where the error tells another number each time."""
    hard = "grep -q right work.txt"
    names = ("a", "b", "c", "d", "e")
    work = project(tmp_path, *(job(name, hard, max_attempts=1) for name in names), session_config={"fix_rounds": 0})
    ran = work.harness("run", "--json", "--agent", work.agent(FAILS))
    assert (ran.code, work.statuses()) == (1, ["failed"] * 3 + ["pending"] * 2), ran
    assert ran.json["reason"] == "agent_fails"
    assert "is too old" in ran.json["message"]
    assert "harness doctor" in ran.json["hint"]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_task_over_which_the_agent_stumbles_does_not_end_the_run(tmp_path: Path) -> None:
    work = project(
        tmp_path, job("a", "grep -q right work.txt"), job("b", depends_on=[]), session_config={"fix_rounds": 0}
    )
    stumbles = f'test "$HARNESS_TASK_ID" = b && {{ echo done > work.txt; exit; }}\n{FAILS}'
    ran = work.harness("run", "--json", "--agent", work.agent(stumbles))
    assert (ran.json["reason"], work.statuses()) == ("failed", ["failed", "completed"]), ran
