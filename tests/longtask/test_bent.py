"""Any value in any field: one clear error or an answer, never a fault, and never a task that no longer loads."""

import copy
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_harness.errors import HarnessError
from agent_harness.protocols.longtask.api import LongTask

Record = dict[str, Any]
GONE = object()
RULES = "harness.md"
EARLY = "2026-01-01T00:00:00Z"
TASK: Record = {
    "schemaVersion": 1,
    "id": "demo",
    "title": "Demo",
    "domain": "writing",
    "objective": "o",
    "successCriteria": [
        "It works",
        {"id": "b", "description": "d", "metric": "output_contains", "target": {"contains": ["x"], "path": RULES}},
    ],
    "constraints": [{"id": "c", "description": "d", "type": "soft", "category": "time", "forbiddenCwdPatterns": ["/"]}],
    "context": {"summary": "s", "files": ["a"], "notes": ["n"], "repoPath": ".", "repository": "."},
    "scheduler": {"type": "openclaw-cron", "every": "30m", "name": "n", "model": "m", "timeoutSeconds": 300},
    "workerPolicy": {
        "preferred": "local-command",
        "allowed": ["local-command"],
        "forbiddenCwdPatterns": ["/y/**"],
        "lockTtlSeconds": 60,
        "fallbackOnRateLimit": "local",
    },
    "evidencePolicy": {"checkpointWindow": 1, "archivePath": "evidence/a.jsonl"},
    "localWorker": {"command": "true", "cwd": ".", "timeoutSeconds": 20},
    "codexWorker": {"cwd": ".", "sandbox": "read-only", "oss": True, "localProvider": "ollama", "extraArgs": ["-x"]},
    "rateLimitPolicy": {"sources": ["codex-cli"], "fallbackWaitSeconds": 10, "allowHandoffOnRateLimit": True},
}
ITEM: Record = {"type": "test", "path": "harness.md", "criterionId": "it-works", "criteria": ["b"], "observedAt": EARLY}
CHECKPOINT: Record = {
    "schemaVersion": 1,
    "taskId": "demo",
    "status": "blocked",
    "currentPhase": "p",
    "nextStep": "n",
    "blockedUntil": EARLY,
    "blocker": {"type": "rate_limit", "source": "codex-cli", "retryAfterSeconds": 3, "requiresHuman": False},
    "activeFiles": ["a"],
    "evidence": [{**ITEM, "exitCode": 0, "status": "passed", "text": "t", "manifestPath": "evidence/m"}],
    "evidenceArchive": {"path": "evidence/a.jsonl", "archivedCount": 0, "updatedAt": EARLY},
    "workerCooldowns": {"codex-cli": {"type": "rate_limit", "blockedUntil": EARLY, "evidence": []}},
    "updatedAt": EARLY,
}
VALUES: list[object] = [
    *(None, True, False, 0, -1, 1.0, 1.5, 1e308, 10**400, 2**63, GONE, float("nan"), float("inf")),
    *("", " ", "x", "done", "\0", "\ud800", "é" * 300, "../../etc/passwd", "/etc/passwd", "~", "a\nb\r\x1b[31m"),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-23:59", "2026-13-01", "2026-W01-1T00:00"),
    *([], [None], [[]], ["x"], [{}], {}, {"a": 1}, {"type": "x"}, {"id": "x", "description": "y"}),
]
LOOKING: list[tuple[str, Record]] = [
    *(("validate", {}), ("next", {}), ("status", {}), ("summary", {}), ("tail", {}), ("tick", {"dry-run": True})),
    *(("run", {"dry-run": True}), ("run", {"dry-run": True, "worker": "codex"}), ("openclaw-recipe", {})),
    *(("verify", {}), ("ls", {"json": True}), ("classify", {"text": "HTTP 429"})),
]
CHANGING: list[tuple[str, Record]] = [
    *(("tick", {}), ("record", {"status": "paused", "note": "x"}), ("record", {"status": "done"})),
    *(("evidence", {"type": "test", "path": "p"}), ("classify", {"text": "HTTP 429, retry after 5", "record": True})),
]


def places(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a record, the record itself first."""
    yield path
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in below:
        yield from places(each, (*path, name))


def bent(record: Record, path: tuple[Any, ...], value: object) -> object:
    """The record with another value in one place, or without that place."""
    if not path:
        return Record() if value is GONE else value
    record = copy.deepcopy(record)
    holder: Any = record
    for name in path[:-1]:
        holder = holder[name]
    if value is GONE:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return record


def made(root: Path, contract: object, state: object) -> None:
    """A task with these files and nothing else."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    (root / "harness.md").write_text("# Rules, x\n")
    (root / "task.json").write_text(json.dumps(contract))
    (root / "checkpoint.json").write_text(json.dumps(state))


def answered(root: Path, verb: str, options: Record) -> bool:
    """Return True if a verb answered; an error without a clear line fails the test."""
    try:
        LongTask(root).answer(verb, options)
    except HarnessError as error:
        assert str(error).strip()
        return False
    return True


def tree(root: Path) -> dict[str, bytes | None]:
    found = sorted(root.rglob("*"))
    return {str(each): None if each.is_dir() else each.read_bytes() for each in found}


def tried(root: Path, contract: object, state: object) -> None:
    """All verbs on one task."""
    made(root, contract, state)
    loads = answered(root, "validate", {})
    before = tree(root)
    for verb, options in LOOKING:
        said = answered(root, verb, options)
        assert said <= loads or verb in ("verify", "ls"), f"{verb} answers on a task that does not load"
    assert tree(root) == before
    for verb, options in CHANGING:
        made(root, contract, state)
        said = answered(root, verb, options)
        assert said or tree(root) == before, f"{verb} failed and left something"
        assert answered(root, "validate", {}) == loads, f"{verb} made a task that does not load"


def cases() -> list[tuple[bool, tuple[Any, ...], object]]:
    """Every value in every place: whether of the contract, where, what."""
    records = ((True, TASK), (False, CHECKPOINT))
    return [(own, path, value) for own, record in records for path in places(record) for value in VALUES]


def tried_all(root: Path, chosen: list[tuple[bool, tuple[Any, ...], object]]) -> None:
    for own, path, value in chosen:
        tried(root, bent(TASK, path, value) if own else TASK, CHECKPOINT if own else bent(CHECKPOINT, path, value))


def test_a_bent_value_is_refused_or_borne(tmp_path: Path) -> None:
    tried_all(tmp_path / "task", random.Random(20).sample(cases(), 40))


@pytest.mark.exhaustive
@pytest.mark.scenario
@pytest.mark.timeout(1200)
def test_many_bent_values_are_refused_or_borne(tmp_path: Path) -> None:
    tried_all(tmp_path / "task", random.Random(21).sample(cases(), 300))


def test_the_values_are_borne_where_nothing_is_bent(tmp_path: Path) -> None:
    made(tmp_path / "task", TASK, CHECKPOINT)
    assert all(answered(tmp_path / "task", verb, options) for verb, options in LOOKING)
    made(tmp_path / "task", TASK, CHECKPOINT)
    assert [answered(tmp_path / "task", *each) for each in CHANGING] == [True] * len(CHANGING)
