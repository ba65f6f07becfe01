"""Row 8: commands at the same time lose nothing, and a command that is killed leaves a task that loads."""

import os
import signal
import time

import pytest

from .desk import Desk

PROCESSES = 8


def test_row_08_no_evidence_is_lost(desk: Desk) -> None:
    running = [desk.start("evidence", "--type", "test", "--summary", str(number)) for number in range(PROCESSES)]
    for each in running:
        _, said = each.communicate(timeout=60)
        assert each.returncode == 0, said
    assert sorted(item["summary"] for item in desk.checkpoint["evidence"]) == [str(n) for n in range(PROCESSES)]
    manifests = [item["manifestPath"] for item in desk.checkpoint["evidence"]]
    assert len(set(manifests)) == PROCESSES and all((desk.path / path).is_file() for path in manifests)
    assert desk.event_types.count("evidence_recorded") == PROCESSES


def test_row_08_record_evidence_classify_and_tick_together(desk: Desk) -> None:
    commands = [
        *(["record", "--status", "paused", "--last-completed-step", str(number)] for number in range(3)),
        *(["evidence", "--type", "test", "--summary", str(number)] for number in range(3)),
        ["classify", "--text", "HTTP 429", "--record"],
        ["tick"],
    ]
    running = [desk.start(*words) for words in commands]
    for each in running:
        assert each.communicate(timeout=60) and each.returncode == 0
    assert len(desk.checkpoint["evidence"]) == 3
    assert desk.event_types.count("progress_recorded") == 3 and desk.event_types.count("rate_limited") == 1
    assert desk.lth("validate").code == 0
    assert [line for line in desk.lth("tail").err.splitlines() if "damaged" in line] == []


@pytest.mark.kill
@pytest.mark.parametrize("wait", [0.0, 0.01, 0.02, 0.025, 0.03, 0.035, 0.04, 0.05])
def test_a_killed_command_leaves_a_task_that_loads(desk: Desk, wait: float) -> None:
    running = desk.start("evidence", "--type", "test", "--summary", "x" * 100_000)
    time.sleep(wait)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    assert desk.lth("validate").code == 0
    for item in desk.checkpoint["evidence"]:
        assert (desk.path / item["manifestPath"]).is_file()
    assert desk.lth("evidence", "--type", "test").code == 0
    assert desk.lth("summary").code == 0
