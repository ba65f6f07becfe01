"""The shipped JSON Schemas are the tables, and what the commands write fits them."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from agent_harness.protocols.longtask import schema
from agent_harness.testing.long_task_project import LongTaskProject, checkpoint, task


def shipped(kind: str) -> Any:
    text = (resources.files("agent_harness") / "schemas" / f"lth-{kind}.schema.json").read_text(encoding="utf-8")
    return json.loads(text)


@pytest.mark.parametrize("name", schema.FILES)
def test_the_files_are_the_tables(name: str) -> None:
    text = (resources.files("agent_harness") / "schemas" / name).read_text(encoding="utf-8")
    assert json.loads(text) == schema.documents()[name]


def test_what_the_commands_write_fits(tmp_path: Path) -> None:
    project = LongTaskProject(tmp_path / "new")
    project.lth("init", "--worker", "local", "--command", "echo hello", "--objective", "Hello", "--criterion", "Heard")
    project.lth("tick")
    project.lth("run")
    project.lth("evidence", "--type", "test", "--criterion-id", "verified-outcome", "--exit-code", "0")
    project.lth("record", "--status", "blocked", "--reason", "external", "--retry-after-seconds", "5")
    project.lth("classify", "--text", "HTTP 429", "--record")
    assert schema.misfits(json.loads((project.root / "task.json").read_text()), shipped("task"), "task") == []
    assert schema.misfits(project.checkpoint, shipped("checkpoint"), "checkpoint") == []
    assert {"tick_started", "worker_completed", "evidence_recorded", "rate_limited"} <= set(project.kinds())
    for event in project.events():
        assert schema.misfits(event, shipped("run-event"), "event") == []
    manifest = json.loads(next((project.root / "evidence").glob("test-manifest-*.json")).read_text())
    assert schema.misfits(manifest, shipped("evidence-manifest"), "manifest") == []


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("task", task(successCriteria=[])),
        ("checkpoint", checkpoint(status="asleep")),
        ("run-event", {"type": "made_up", "at": "x"}),
        ("evidence-manifest", {"schemaVersion": 2, "taskId": "x", "recordedAt": "x", "evidence": {"type": "test"}}),
    ],
)
def test_misfits_are_found(kind: str, value: Any) -> None:
    assert schema.misfits(value, shipped(kind), kind)


def test_the_tables_use_only_words_that_the_check_knows() -> None:
    known = {"type", "properties", "required", "items", "enum", "const", "minimum", "minItems", "minLength", "anyOf"}
    known |= {"additionalProperties", "pattern"}

    def words(table: Any) -> set[str]:
        found = set(table)
        for below in (*table.get("properties", {}).values(), *table.get("anyOf", ())):
            found |= words(below)
        for name in {"items", "additionalProperties"} & table.keys():
            found |= words(table[name])
        return found

    assert set().union(*(words(row[2]) for row in schema.FILES.values())) <= known
