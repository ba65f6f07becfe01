"""What an attempt of ``harness run`` shares with every other session: all monitors, and the table of the provider."""

from pathlib import Path

from .test_runner import job, plain, shop

USAGE = """printf '{"type":"usage","input_tokens":%s,"output_tokens":0}\\n' """


def test_an_agent_that_goes_in_circles_is_stopped_as_stuck_and_its_task_fails(tmp_path: Path) -> None:
    work = shop(tmp_path, job("a", max_attempts=1))
    ran = work.harness("run", "--agent", work.agent(f"for n in 1 2 3 4 5; do {USAGE} 60000; done\nsleep 60"))
    assert (ran.code, work.statuses()) == (1, ["failed"]), ran
    assert "stuck" in work.task("a").error_log[0].lower()
    assert any("agent not told: You appear stuck" in line for line in work.log()), work.log()


def test_an_agent_whose_files_change_is_not_stuck(tmp_path: Path) -> None:
    for place in (shop, plain):
        (tmp_path / place.__name__).mkdir()
        work = place(tmp_path / place.__name__, job("a", max_attempts=1))
        step = f"echo line >> work.txt; {USAGE} 60000; sleep 0.1"
        ran = work.harness("run", "--agent", work.agent(f"for n in 1 2 3 4; do {step}; done"))
        assert (ran.code, work.statuses()) == (0, ["completed"]), ran


def test_a_full_context_window_ends_the_turn_and_what_was_done_is_judged(tmp_path: Path) -> None:
    work = shop(tmp_path, job("a", max_attempts=1))
    ran = work.harness("run", "--agent", work.agent(f"echo done > work.txt\n{USAGE} 250000\nsleep 60"))
    assert (ran.code, work.statuses()) == (0, ["completed"]), ran
    assert "Context limit reached" in ran.out


def test_a_login_that_is_refused_fails_no_task_and_ends_the_run(tmp_path: Path) -> None:
    work = shop(tmp_path, job("a"), job("b"))
    ran = work.harness("run", "--json", "--agent", work.agent("echo 'Error: 401 invalid x-api-key'; exit 1"))
    assert (ran.code, work.statuses(), work.task("a").attempts) == (1, ["pending", "pending"], 0), ran
    assert len(ran.json["attempts"]) == 1
    assert "Check the API key or the login of the agent." in ran.json["message"]


def test_the_list_says_how_often_a_failed_proof_goes_back(tmp_path: Path) -> None:
    counted = "echo turn >> ../turns; echo wrong > work.txt"
    for rounds, turns in ((0, 1), (1, 2), (3, 4), ("many", 3)):
        folder = tmp_path / str(rounds)
        folder.mkdir()
        work = shop(folder, job("a", "grep -q right work.txt", max_attempts=1), session_config={"fix_rounds": rounds})
        ran = work.harness("run", "--agent", work.agent(counted))
        assert (ran.code, work.statuses()) == (1, ["failed"]), ran
        assert (folder / "turns").read_text().count("turn") == turns
