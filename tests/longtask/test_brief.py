"""The prompt: its anchors, its order, and what is left out."""

from pathlib import Path

from agent_harness.protocols.longtask.layout import LongTaskLayout
from agent_harness.protocols.longtask.records import Checkpoint, Contract
from agent_harness.protocols.longtask.run import prompt as run_prompt
from agent_harness.testing.long_task_project import LongTaskProject, book, book_checkpoint

FULL_TASK = book(
    successCriteria=[
        "It is written",
        {"id": "tests", "description": "Tests pass.", "metric": "command", "target": "make test"},
        {"id": "said", "description": "Said.", "metric": "output_contains", "target": {"contains": ["a", "b"]}},
    ],
    constraints=[
        "No deletions",
        {"id": "soft", "description": "Be nice.", "type": "soft"},
        {"id": "cost", "description": "Be cheap.", "category": "cost"},
    ],
    context={
        "summary": "Short.",
        "repoPath": "/repo",
        "repository": "/other",
        "files": ["a.md", "b.md"],
        "links": ["https://example.org"],
        "notes": ["one", "two"],
    },
)
FULL_STATE = book_checkpoint(
    blockedUntil="2026-01-01T00:00:00Z",
    blocker={"type": "rate_limit", "source": "codex-cli", "message": "slow down", "retryAfterSeconds": 60},
    workerCooldowns={"codex-cli": {"blockedUntil": "2026-01-01T00:00:00Z", "message": "slow"}},
    lastCompletedStep="The first chapter.",
    activeFiles=["one.md", "two.md"],
    openQuestions=["Which end?", "Who reads it?"],
    evidence=[
        *({"type": "note", "summary": f"number {n}"} for n in range(4)),
        {"type": "test", "path": "evidence/a.txt", "criterionId": "tests", "summary": "green"},
        {"type": "test", "manifestPath": "evidence/m.json", "note": "seen"},
    ],
)


_SECTIONS = """\
Task directory: {root}
Task: A book
Objective: Write a book.
Current phase: drafting
Next step: Write the second chapter.

Success criteria:
- it-is-written: It is written (manual)
- tests: Tests pass. (command target=make test)
- said: Said. (output_contains target={{"contains":["a","b"]}})

Hard constraints:
- no-deletions: No deletions (hard/scope)
- cost: Be cheap. (hard/cost)

Key context:
- Summary: Short.
- Repo path: /repo
- Repository: /other
- Files: a.md, b.md
- Links: https://example.org
- Note: one
- Note: two

Blocked until: 2026-01-01T00:00:00Z
Recent blocker: rate_limit from codex-cli - slow down (retryAfterSeconds: 60)

Worker cooldowns:
- codex-cli: blocked until 2026-01-01T00:00:00Z - slow

Recent evidence:
- note number 1
- note number 2
- note number 3
- test evidence/a.txt (criterion: tests) green
- test evidence/m.json seen"""


def prompt(root: Path, contract: dict[str, object], state: dict[str, object], **more: bool) -> str:
    return run_prompt.prompt(LongTaskLayout(root), Contract(contract), Checkpoint(state), **more)


def test_every_section_in_its_order(tmp_path: Path) -> None:
    text = prompt(tmp_path, FULL_TASK, FULL_STATE)
    sections = text.rstrip("\n").split("\n\n")
    assert "task.json, checkpoint.json and harness.md" in sections[0].splitlines()[0]
    assert sections[0].splitlines()[1] == "Continue exactly one bounded slice."
    assert "Update the checkpoint" in sections[0]
    assert "\n\n".join(sections[1:8]) == _SECTIONS.format(root=tmp_path)
    assert sections[8].startswith("Evidence expectations:\n- ")
    assert sections[9].splitlines() == [
        "Last completed step: The first chapter.",
        "Active files: one.md, two.md",
        "Open questions: Which end?; Who reads it?",
    ]
    assert len(sections) == 10


def test_what_is_empty_is_left_out(tmp_path: Path) -> None:
    text = prompt(tmp_path, book(), book_checkpoint(currentPhase=""))
    assert "Current phase: unspecified" in text
    for absent in (
        "constraints:",
        "context:",
        "Blocked until",
        "blocker",
        "cooldowns",
        "Recent evidence",
        "Last",
        "Open",
    ):
        assert absent not in text


def test_a_worker_that_cannot_write_is_not_asked_to(tmp_path: Path) -> None:
    text = prompt(tmp_path, book(), book_checkpoint(), reads_only=True)
    assert "Update the checkpoint" not in text
    assert "report status, next step and blockers in your final message; the harness writes the checkpoint" in text


def test_tick_goes_by_the_preferred_worker(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    assert "Update the checkpoint" in project.lth("tick", "--dry-run", code=0).json["workerPrompt"]
    project.task = book(workerPolicy={"preferred": "codex"})
    assert "the harness writes the checkpoint" in project.lth("tick", "--dry-run", code=0).json["workerPrompt"]
    project.task = book(workerPolicy={"preferred": "codex"}, codexWorker={"sandbox": "workspace-write"})
    assert "Update the checkpoint" in project.lth("tick", "--dry-run", code=0).json["workerPrompt"]
