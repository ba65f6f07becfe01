"""The note for whoever goes on after a rate limit."""

from pathlib import Path

from agent_harness.testing.long_task_project import NEXT, LongTaskProject, book, book_checkpoint
from agent_harness.testing.repo import Repo

LIMITED = "echo 'HTTP 429, retry after 2 hours' >&2; exit 3"


def test_row_17_a_rate_limit_leaves_a_note(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(
        successCriteria=[
            {"id": "written", "description": "d"},
            {"id": "seen", "description": "d"},
            {"id": "tested", "description": "d", "metric": "command", "target": "touch ran"},
        ]
    )
    project.checkpoint = book_checkpoint(
        lastCompletedStep="The first chapter.",
        activeFiles=["one.md"],
        openQuestions=["Which end?"],
        evidence=[{"type": "review-note", "criterionId": "seen"}],
    )
    answer = project.run(LIMITED, code=3).json
    text = (tmp_path / answer["handoffPath"]).read_text()
    for part in (
        "book - A book",
        "Objective: Write a book.",
        "Status: blocked",
        "Blocker: rate_limit from manual - HTTP 429, retry after 2 hours",
        f"Blocked until: {project.checkpoint['blockedUntil']}",
        "Requested worker: local-command",
        "Fallback: none",
        "Current phase: drafting",
        "Last completed step: The first chapter.",
        f"Next step: {project.checkpoint['nextStep']}",
        "- one.md",
        "- Which end?",
        f"- {answer['outputPath']}",
    ):
        assert part in text
    assert "## Unmet criteria\n\n- written\n- tested\n" in text
    assert not (tmp_path / "ran").exists()
    item = project.checkpoint["evidence"][-1]
    assert list(item) == ["type", "path", "observedAt", "summary"]
    assert (item["type"], item["path"]) == ("handoff", answer["handoffPath"])
    event = project.events("handoff_written")[0]
    assert (event["status"], event["note"], event["evidence"]) == ("blocked", answer["handoffPath"], [item])
    project.loads()


def test_the_working_copy_is_told(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo")
    repo.write("a.txt", "one\n")
    repo.commit("the first commit")
    repo.write("new.txt", "two\n")
    project = LongTaskProject.of_book(tmp_path / "task")
    project.task = book(context={"repoPath": "../repo"})
    answer = project.run(LIMITED, code=3).json
    text = (project.root / answer["handoffPath"]).read_text()
    assert "the first commit" in text
    assert "?? new.txt" in text


def test_a_contract_may_do_without(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(rateLimitPolicy={"allowHandoffOnRateLimit": False})
    assert "handoffPath" not in project.run(LIMITED, code=3).json
    assert not list((tmp_path / "evidence").glob("handoff*"))


def test_only_a_run_that_ends_with_a_rate_limit_leaves_one(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.run("exit 1", code=1)
    project.lth("classify", "--text", "HTTP 429", "--record", code=0)
    project.lth("record", "--status", "blocked", "--reason", "rate_limit", "--retry-after-seconds", "5", code=0)
    assert not list((tmp_path / "evidence").glob("handoff*"))
    assert NEXT not in project.checkpoint["nextStep"]
