"""Evidence: the item and its manifest, the window, the archive, and what may not be written where."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent_harness.protocols.longtask import evidence
from agent_harness.protocols.longtask.layout import LongTaskLayout
from agent_harness.testing.long_task_project import LongTaskProject, checkpoint, task


def test_an_item_has_a_manifest_events_and_its_order_of_members(project: LongTaskProject) -> None:
    done = project.lth(
        "evidence",
        *("--summary", "ünited", "--note", "n", "--output", "o", "--text", "t", "--status", "passed"),
        *("--exit-code", "0", "--command", "make test", "--observed-at", "2026-01-01T01:00:00+01:00"),
        *("--source", "manual", "--criteria", "a, b,,", "--criterion-id", "a", "--path", "out.txt", "--type", "test"),
    )
    assert done.code == 0 and list(done.json) == ["recorded", "taskId", "evidence", "manifestPath", "warnings"]
    assert [f"no criterion {each};" in done.err for each in "ab"] == [True, True]  # recorded all the same
    item = done.json["evidence"]
    assert list(item) == list(evidence.ORDER)
    assert (item["criteria"], item["exitCode"], item["observedAt"]) == (["a", "b"], 0, "2026-01-01T00:00:00.000Z")
    manifest = json.loads((project.root / done.json["manifestPath"]).read_text())
    assert list(manifest) == ["schemaVersion", "taskId", "recordedAt", "evidence"]
    assert manifest["evidence"] == item == project.checkpoint["evidence"][0]
    first, second = project.events()
    assert (first["type"], first["evidence"], first["note"]) == ("evidence_recorded", [item], "ünited")
    assert (second["type"], second["reason"]) == ("checkpoint_written", "evidence recorded")
    assert "ünited" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Unsupported evidence type: . Expected one of test, screenshot"),
        (["--type", "rumour"], "Unsupported evidence type: rumour. Expected one of test, screenshot"),
        (["--type", "test", "--exit-code", "abc"], "--exit-code must be a finite number: abc"),
        (["--type", "test", "--exit-code", "nan"], "--exit-code must be a finite number: nan"),
        (["--type", "test", "--exit-code", "1e999"], "--exit-code must be a finite number: 1e999"),
        (["--type", "test", "--source", "rumour"], "--source must be one of openclaw-provider"),
        (["--type", "test", "--observed-at", "5"], "--observed-at must be a time such as"),
    ],
)
def test_row_02_odd_words_are_refused_before_anything_is_written(
    project: LongTaskProject, words: list[str], said: str
) -> None:
    before = project.tree()
    done = project.lth("evidence", *words)
    assert done.code == 1 and done.out == "" and done.err.startswith(said)
    assert project.tree() == before


@pytest.mark.parametrize("place", ["../out.json", "/tmp/out.json", "evidence/../../x", "away/x.json", "."])
def test_row_14_a_manifest_stays_inside_the_task(project: LongTaskProject, tmp_path: Path, place: str) -> None:
    (tmp_path / "away").mkdir()
    (project.root / "away").symlink_to(tmp_path / "away")
    before = project.tree()
    done = project.lth("evidence", "--type", "test", "--manifest-path", place)
    assert done.code == 1 and "must stay inside the task directory: " in done.err
    assert project.tree() == before and not os.listdir(tmp_path / "away")


@pytest.mark.parametrize("place", [".lth.lock", "runs/2026-12-31.jsonl", "task.json", "./checkpoint.json"])
def test_a_manifest_is_never_one_of_the_harness_files(project: LongTaskProject, place: str) -> None:
    before = project.tree()
    assert project.lth("evidence", "--type", "test", "--manifest-path", place).code == 1
    assert project.tree() == before


def test_a_manifest_name_that_is_taken_gets_a_number(project: LongTaskProject) -> None:
    places = [
        project.lth("evidence", "--type", "test", "--manifest-path", "proof/m.json").json["manifestPath"] for _ in "abc"
    ]
    assert places == ["proof/m.json", "proof/m-2.json", "proof/m-3.json"]
    assert len(project.checkpoint["evidence"]) == 3


def test_row_16_only_the_item_takes_the_time_of_observation(project: LongTaskProject) -> None:
    project.lth("evidence", "--type", "test", "--observed-at", "2001-01-01")
    assert project.checkpoint["evidence"][0]["observedAt"] == "2001-01-01T00:00:00.000Z"
    assert project.checkpoint["updatedAt"] > "2026-03-01" and all(
        event["at"] > "2026-03-01" for event in project.events()
    )
    assert [log.name[:2] for log in (project.root / "runs").iterdir()] == ["20"]


def items(*numbers: int) -> list[dict[str, Any]]:
    return [{"type": "test", "summary": str(number)} for number in numbers]


def test_the_window_rolls_into_the_archive(tmp_path: Path) -> None:
    contract = task(evidencePolicy={"checkpointWindow": 2})
    project = LongTaskProject.made(tmp_path / "demo", contract=contract, state=checkpoint(evidence=items(1, 2)))
    done = project.lth("evidence", "--type", "test", "--summary", "3")
    archive = done.json["evidenceArchive"]
    assert archive == project.checkpoint["evidenceArchive"]
    assert (archive["path"], archive["archivedCount"]) == ("evidence/checkpoint-evidence-archive.jsonl", 1)
    line = json.loads((project.root / archive["path"]).read_text())
    assert list(line) == ["schemaVersion", "taskId", "archivedAt", "evidence"] and line["evidence"] == items(1)[0]
    assert [item["summary"] for item in project.checkpoint["evidence"]] == ["2", "3"]
    assert project.lth("evidence", "--type", "test").json["evidenceArchive"]["archivedCount"] == 2
    summary = project.lth("summary").json
    counts = ("evidenceCount", "checkpointEvidenceCount", "archivedEvidenceCount")
    assert [summary[name] for name in counts] == [4, 2, 2]


def test_the_archive_counts_the_lines_that_are_there(tmp_path: Path) -> None:
    contract = task(evidencePolicy={"checkpointWindow": 1, "archivePath": "old/all.jsonl"})
    project = LongTaskProject.made(tmp_path / "demo", contract=contract, state=checkpoint(evidence=items(1)))
    project.lth("evidence", "--type", "test")
    state = project.checkpoint
    assert state["evidenceArchive"]["path"] == "old/all.jsonl"
    assert project.lth("summary").json["evidenceCount"] == 2


@pytest.mark.parametrize("path", ["../all.jsonl", "/tmp/all.jsonl"])
def test_an_archive_elsewhere_is_refused_before_anything_is_written(tmp_path: Path, path: str) -> None:
    contract = task(evidencePolicy={"checkpointWindow": 1, "archivePath": path})
    project = LongTaskProject.made(tmp_path / "demo", contract=contract, state=checkpoint(evidence=items(1)))
    before = project.tree()
    done = project.lth("evidence", "--type", "test")
    assert done.code == 1 and f"must stay inside the task directory: {path}" in done.err
    assert project.tree() == before


def test_a_crash_between_archive_and_checkpoint_leaves_no_item_twice(tmp_path: Path) -> None:
    project = LongTaskProject.made(tmp_path / "demo", state=checkpoint(evidence=items(2, 3)))
    archived = [{"schemaVersion": 1, "taskId": "demo", "archivedAt": "x", "evidence": item} for item in items(1, 2, 1)]
    project.write("evidence/checkpoint-evidence-archive.jsonl", "".join(f"{json.dumps(line)}\n" for line in archived))
    found, skipped = evidence.everything(LongTaskLayout(project.root), project.store.load()[1])
    assert ([item.text("summary") for item in found], skipped) == (["1", "2", "3"], 0)


def test_the_same_item_is_recorded_once(project: LongTaskProject) -> None:
    item = {"type": "worker-output", "path": "evidence/o.txt", "observedAt": "2026-03-01T12:00:00.000Z"}
    for _ in range(2):
        project.store.change(lambda change: evidence.add(change, item))
    assert project.checkpoint["evidence"] == [item]


def test_row_13_damaged_lines_are_passed_over_and_counted(tmp_path: Path) -> None:
    project = LongTaskProject.made(tmp_path / "demo", state=checkpoint(evidence=items(2)))
    whole = json.dumps({"schemaVersion": 1, "evidence": items(1)[0]})
    project.write("evidence/checkpoint-evidence-archive.jsonl", f'{whole}\n{{"torn\n')
    project.write(
        "runs/2026-03-01.jsonl", '{"type":"tick_started","at":"2026-03-01T12:00:00.000Z"}\nnothing\n[]\n{"type":5}\n'
    )
    summary = project.lth("summary")
    assert (summary.code, summary.json["evidenceCount"], summary.json["totalEvents"]) == (0, 2, 1)
    assert summary.json["skippedLines"] == 4 and len(summary.err.splitlines()) == 4
    assert "runs/2026-03-01.jsonl:2 is damaged" in summary.err
    tail = project.lth("tail")
    assert (tail.code, tail.json["count"], tail.json["skippedLines"]) == (0, 1, 3)
    assert project.lth("verify").json["checks"]


def test_an_archive_that_the_checkpoint_names_elsewhere_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.jsonl").write_text(json.dumps({"evidence": items(9)[0]}) + "\n")
    project = LongTaskProject.made(tmp_path / "demo", state=checkpoint(evidenceArchive={"path": "../secret.jsonl"}))
    assert "must stay inside the task directory" in project.lth("summary").err
    assert project.store.load()[0].archive_path == "evidence/checkpoint-evidence-archive.jsonl"
