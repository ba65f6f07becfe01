"""Errors of a task, in the words of the specification, everything at once and nothing twice."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.protocols.longtask import records, schema
from agent_harness.protocols.longtask.records import Contract, moment
from agent_harness.testing.long_task_project import LongTaskProject, checkpoint, task

_NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.just(10**400)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)

_CRITERION = "task.successCriteria[0]"
_UNION = f"{_CRITERION} does not match any allowed schema: {_CRITERION} must be string; "
_METRICS = '"manual", "command", "output_contains", "llm_judge", "custom"'
_REASONS = '"rate_limit", "auth_error", "test_failure", "missing_context", "external", "manual", "unknown"'

TASK_ROWS: list[tuple[dict[str, Any], list[str]]] = [
    ({"schemaVersion": None}, ["task.schemaVersion is required; expected 1"]),
    (
        {"schemaVersion": 2},
        ["unsupported task.schemaVersion 2; expected 1. Add a migration before loading this task."],
    ),
    (
        {"schemaVersion": True},
        ["unsupported task.schemaVersion true; expected 1. Add a migration before loading this task."],
    ),
    ({"title": " "}, ["missing string: title"]),
    ({"title": None}, ["task.title is required", "missing string: title"]),
    ({"objective": 5}, ["task.objective must be string", "missing string: objective"]),
    (
        {"successCriteria": []},
        ["task.successCriteria must contain at least 1 item(s)", "missing non-empty array: successCriteria"],
    ),
    (
        {"successCriteria": [5]},
        [f"{_UNION}{_CRITERION} must be object"],
    ),
    (
        {"successCriteria": [{"id": "a", "description": "b", "metric": "guess"}]},
        [f"{_UNION}{_CRITERION}.metric must be one of {_METRICS}"],
    ),
    ({"scheduler": {"timeoutSeconds": 0}}, ["task.scheduler.timeoutSeconds must be >= 1"]),
    ({"scheduler": {"timeoutSeconds": 1.5}}, ["task.scheduler.timeoutSeconds must be integer"]),
    ({"scheduler": {"timeoutSeconds": True}}, ["task.scheduler.timeoutSeconds must be integer"]),
    ({"scheduler": {"timeoutSeconds": 300.0}}, []),
    ({"rateLimitPolicy": {"fallbackWaitSeconds": -1}}, ["task.rateLimitPolicy.fallbackWaitSeconds must be >= 0"]),
    (
        {"codexWorker": {"sandbox": "none"}},
        ['task.codexWorker.sandbox must be one of "read-only", "workspace-write", "danger-full-access"'],
    ),
    ({"constraints": [{"id": "a", "description": "b", "type": "soft", "mine": 1}], "mine": [None]}, []),
]

CHECKPOINT_ROWS: list[tuple[dict[str, Any], list[str]]] = [
    ({"taskId": "other"}, ["checkpoint.taskId (other) must equal task.id (demo)"]),
    (
        {"status": "asleep"},
        [
            'checkpoint.status must be one of "active", "paused", "blocked", "done", "needs-human"',
            "invalid checkpoint.status: asleep",
        ],
    ),
    ({"nextStep": ""}, ["missing string: nextStep"]),
    ({"blockedUntil": "5"}, ["invalid checkpoint.blockedUntil: 5"]),
    ({"blockedUntil": "2026-03-01"}, []),
    ({"blockedUntil": ""}, []),
    ({"evidence": [{"path": "a"}]}, ["checkpoint.evidence[0].type is required"]),
    ({"evidence": [{"type": "test", "exitCode": None}]}, ["checkpoint.evidence[0].exitCode must be number"]),
    ({"evidence": [{"type": "anything"}]}, []),
    ({"blocker": {"source": "local-command", "type": "unknown"}}, []),
    (
        {"blocker": {"type": "tired"}},
        [f"checkpoint.blocker.type must be one of {_REASONS}"],
    ),
    (
        {"workerCooldowns": {"codex-cli": {"blockedUntil": 5}}},
        ["checkpoint.workerCooldowns.codex-cli.blockedUntil must be string or null"],
    ),
    ({"evidenceArchive": {"archivedCount": -1}}, ["checkpoint.evidenceArchive.archivedCount must be >= 0"]),
]


@pytest.mark.parametrize(("members", "expected"), TASK_ROWS)
def test_problems_of_a_contract(members: dict[str, Any], expected: list[str]) -> None:
    assert records.problems(task(**members), checkpoint()) == expected


@pytest.mark.parametrize(("members", "expected"), CHECKPOINT_ROWS)
def test_problems_of_a_checkpoint(members: dict[str, Any], expected: list[str]) -> None:
    assert records.problems(task(), checkpoint(**members)) == expected


def test_everything_is_said_at_once(project: LongTaskProject) -> None:
    project.write("task.json", {})
    project.write("checkpoint.json", [])
    (project.root / "harness.md").unlink()
    done = project.lth("validate")
    lines = done.err.splitlines()
    assert done.code == 1 and done.out == ""
    assert lines[0] == "- task.schemaVersion is required; expected 1"
    assert "- checkpoint must be object" in lines and "- missing harness.md" in lines
    assert len(lines) == len(set(lines)) and all(line.startswith("- ") for line in lines)


@pytest.mark.parametrize("content", ["{", "", "\ufeff", '{"a": NaN}', b"\xff{}", "[" * 5000])
def test_a_file_that_is_no_json_is_named(project: LongTaskProject, content: str | bytes) -> None:
    project.write("checkpoint.json", content)
    done = project.lth("next")
    assert done.code == 1
    assert done.err.startswith(f"Cannot read JSON {project.root}/checkpoint.json: ")
    assert len(done.err.splitlines()) == 1


def test_a_missing_file_is_named(project: LongTaskProject) -> None:
    (project.root / "task.json").unlink()
    assert project.lth("next").err == f"Cannot read JSON {project.root}/task.json: there is no such file\n"


def test_row_01_a_blocker_source_that_the_other_program_wrote_loads(project: LongTaskProject) -> None:
    for source in ("local-command", "openclaw-direct-model", "manual-review"):
        project.write(
            "checkpoint.json", checkpoint(blocker={"type": "unknown", "source": source, "requiresHuman": False})
        )
        assert project.lth("validate").code == 0


def test_half_of_a_character_that_another_program_cut_off_loads(project: LongTaskProject) -> None:
    text = json.dumps(checkpoint(blocker={"message": "HALF"}))
    project.write("checkpoint.json", text.replace("HALF", "a\\ud83d"))
    assert project.lth("validate").code == 0
    assert project.lth("evidence", "--type", "test").code == 0
    assert project.checkpoint["blocker"]["message"] == "a\ufffd"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01T12:00:00.123Z", datetime(2026, 3, 1, 12, 0, 0, 123000, tzinfo=UTC)),
        ("2026-03-01T12:00:00+02:00", datetime(2026, 3, 1, 10, tzinfo=UTC)),
        ("2026-03-01 12:00:00z", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026-03-01T12:00:00", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        *((junk, None) for junk in ("5", "20260301", "2026-W10-1", "2026-02-30", "tomorrow", "", "March 1, 2026")),
        *((junk, None) for junk in (None, 5, "0001-01-01T00:00:00+14:00", "2026-03-01T25:00:00Z", "2026/05/01")),
    ],
)
def test_moments(text: object, expected: datetime | None) -> None:
    assert moment(text) == expected


def test_criteria_and_constraints_are_normalised() -> None:
    contract = Contract(
        task(
            successCriteria=["All Tests: pass!", "…", {"id": "x", "description": "y", "weight": 2}],
            constraints=["Stay small", {"id": "c", "description": "d"}],
        )
    )
    assert [(each.id, each.description, each.metric, each.target) for each in contract.criteria] == [
        ("all-tests-pass", "All Tests: pass!", "manual", None),
        ("criterion-2", "…", "manual", None),
        ("x", "y", "manual", None),
    ]
    assert [(each.id, each.description, each.type, each.category) for each in contract.constraints] == [
        ("stay-small", "Stay small", "hard", "scope"),
        ("c", "d", "hard", "other"),
    ]


@given(ANYTHING, ANYTHING)
def test_no_value_breaks_the_check(first: Any, second: Any) -> None:
    assert records.problems(first, second)
    for name in schema.CHECKPOINT["properties"]:
        records.problems(task(), {**checkpoint(), name: first})
    for name in schema.TASK["properties"]:
        records.problems({**task(), name: second}, checkpoint())


def test_the_reader_writes_nothing(project: LongTaskProject, tmp_path: Path) -> None:
    before = project.tree()
    for command in ("validate", "next", "summary", "tail", "verify", "status"):
        project.lth(command)
    project.lth("tick", "--dry-run")
    assert project.tree() == before
