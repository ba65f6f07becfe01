"""Row 8: commands at the same time lose nothing, and a command that is killed leaves a task that loads."""

import json
import random
import time
from typing import Any

import pytest

from agent_harness.testing.long_task_project import LongTaskProject

PROCESSES = 8


def test_row_08_no_evidence_is_lost(project: LongTaskProject) -> None:
    running = [project.start("evidence", "--type", "test", "--summary", str(number)) for number in range(PROCESSES)]
    for each in running:
        _, said = each.communicate(timeout=60)
        assert each.returncode == 0, said
    assert sorted(item["summary"] for item in project.checkpoint["evidence"]) == [str(n) for n in range(PROCESSES)]
    manifests = [item["manifestPath"] for item in project.checkpoint["evidence"]]
    assert len(set(manifests)) == PROCESSES and all((project.root / path).is_file() for path in manifests)
    assert project.kinds().count("evidence_recorded") == PROCESSES


def test_row_08_record_evidence_classify_and_tick_together(project: LongTaskProject) -> None:
    commands = [
        *(["record", "--status", "paused", "--last-completed-step", str(number)] for number in range(3)),
        *(["evidence", "--type", "test", "--summary", str(number)] for number in range(3)),
        ["classify", "--text", "HTTP 429", "--record"],
        ["tick"],
    ]
    running = [project.start(*words) for words in commands]
    for each in running:
        assert each.communicate(timeout=60) and each.returncode == 0
    assert len(project.checkpoint["evidence"]) == 3
    assert project.kinds().count("progress_recorded") == 3 and project.kinds().count("rate_limited") == 1
    assert project.lth("validate").code == 0
    assert [line for line in project.lth("tail").err.splitlines() if "damaged" in line] == []


COMMANDS = (
    ["evidence", "--type", "test", "--summary", "x" * 100_000],
    ["record", "--status", "blocked", "--retry-after-seconds", "0", "--last-completed-step", "x" * 100_000],
    ["tick"],
)


def kill_one(project: LongTaskProject, number: int, wait: float) -> None:
    """Kills a command so many seconds after its start; what it left must load, and the next one must work."""
    running = project.start(*COMMANDS[number % len(COMMANDS)])
    time.sleep(wait)
    running.kill()
    running.communicate()
    assert project.lth("validate").code == 0
    for item in project.checkpoint["evidence"]:
        assert json.loads((project.root / item["manifestPath"]).read_text())["evidence"] == item


@pytest.mark.kill
def test_a_killed_command_leaves_a_task_that_loads(project: LongTaskProject) -> None:
    for number, wait in enumerate((0.0, 0.02, 0.025, 0.03, 0.035, 0.04)):
        kill_one(project, number, wait)
    assert all(project.lth(*words).code == 0 for words in (*COMMANDS, ["summary"]))
    assert not [name for name in project.tree() if ".lth.lock" in name]


@pytest.mark.slow
@pytest.mark.kill
def test_two_hundred_killed_commands_lose_nothing_that_was_recorded(project: LongTaskProject) -> None:
    chance = random.Random(5)
    known: set[str] = set()
    for number in range(200):
        kill_one(project, number, chance.uniform(0.0, 0.06))
        seen = {item["manifestPath"] for item in project.checkpoint["evidence"]} | {
            line["evidence"]["manifestPath"] for line in archived(project)
        }
        assert known <= seen
        known = seen
    assert project.lth("summary").code == 0


def archived(project: LongTaskProject) -> list[Any]:
    path = project.root / "evidence/checkpoint-evidence-archive.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]
