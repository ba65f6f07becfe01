"""The note for whoever goes on after a rate limit."""

from pathlib import Path

from agent_harness.testing.repo import Repo

from .ground import NEXT, Ground, checkpoint, task

LIMITED = "echo 'HTTP 429, retry after 2 hours' >&2; exit 3"


def test_row_17_a_rate_limit_leaves_a_note(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.task = task(
        successCriteria=[
            {"id": "written", "description": "d"},
            {"id": "seen", "description": "d"},
            {"id": "tested", "description": "d", "metric": "command", "target": "touch ran"},
        ]
    )
    ground.checkpoint = checkpoint(
        lastCompletedStep="The first chapter.",
        activeFiles=["one.md"],
        openQuestions=["Which end?"],
        evidence=[{"type": "review-note", "criterionId": "seen"}],
    )
    answer = ground.run(LIMITED, code=3).answer
    text = (tmp_path / answer["handoffPath"]).read_text()
    for part in (
        "book - A book",
        "Objective: Write a book.",
        "Status: blocked",
        "Blocker: rate_limit from manual - HTTP 429, retry after 2 hours",
        f"Blocked until: {ground.checkpoint['blockedUntil']}",
        "Requested worker: local-command",
        "Fallback: none",
        "Current phase: drafting",
        "Last completed step: The first chapter.",
        f"Next step: {ground.checkpoint['nextStep']}",
        "- one.md",
        "- Which end?",
        f"- {answer['outputPath']}",
    ):
        assert part in text
    assert "## Unmet criteria\n\n- written\n- tested\n" in text
    assert not (tmp_path / "ran").exists()
    item = ground.checkpoint["evidence"][-1]
    assert list(item) == ["type", "path", "observedAt", "summary"]
    assert (item["type"], item["path"]) == ("handoff", answer["handoffPath"])
    event = ground.events("handoff_written")[0]
    assert (event["status"], event["note"], event["evidence"]) == ("blocked", answer["handoffPath"], [item])
    ground.loads()


def test_the_working_copy_is_told(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo")
    repo.write("a.txt", "one\n")
    repo.commit("the first commit")
    repo.write("new.txt", "two\n")
    ground = Ground(tmp_path / "task")
    ground.task = task(context={"repoPath": "../repo"})
    answer = ground.run(LIMITED, code=3).answer
    text = (ground.root / answer["handoffPath"]).read_text()
    assert "the first commit" in text
    assert "?? new.txt" in text


def test_a_contract_may_do_without(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.task = task(rateLimitPolicy={"allowHandoffOnRateLimit": False})
    assert "handoffPath" not in ground.run(LIMITED, code=3).answer
    assert not list((tmp_path / "evidence").glob("handoff*"))


def test_only_a_run_that_ends_with_a_rate_limit_leaves_one(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.run("exit 1", code=1)
    ground.lth("classify", "--text", "HTTP 429", "--record", code=0)
    ground.lth("record", "--status", "blocked", "--reason", "rate_limit", "--retry-after-seconds", "5", code=0)
    assert not list((tmp_path / "evidence").glob("handoff*"))
    assert NEXT not in ground.checkpoint["nextStep"]
