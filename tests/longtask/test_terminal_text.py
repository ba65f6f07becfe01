"""Text for a person at a terminal instead of JSON; a program, and ``--json``, get the JSON as ever."""

import json
import os
import shlex

import pexpect
import pytest

from agent_harness.testing.long_task_project import LongTaskProject, argv

WORKS = ("--worker", "local-command", "--command", "echo fine")


def at_terminal(project: LongTaskProject, command: str, *words: str) -> list[str]:
    """The lines that ``lth COMMAND`` shows on a terminal; the last one is the next command."""
    env = {name: value for name, value in os.environ.items() if name != "CI"} | {"TERM": "xterm", "COLUMNS": "200"}
    line = shlex.join(argv(command, str(project.root), *words))
    output = pexpect.run(line, env=env, timeout=120, cwd=str(project.root.parent))
    assert isinstance(output, bytes)
    return output.decode().replace("\r\n", "\n").splitlines()


@pytest.mark.parametrize(
    ("command", "words", "said", "following"),
    [
        ("next", (), "decision:   run: checkpoint status is active", "lth run"),
        ("run", WORKS, "worker:     local-command ended with 0", "lth status"),
        ("run", (*WORKS, "--dry-run"), "command:    echo fine", "lth run"),
        ("tick", ("--dry-run",), "Continue exactly one bounded slice.", "lth run"),
        ("verify", (), "fail:       it-works: no evidence is linked to this criterion", "lth run"),
        ("health", (), "pass:       task-contract: demo is valid", "lth status"),
        ("summary", (), "status:     active", "lth next"),
        ("tail", (), "events:     the last 0 of demo", "lth summary"),
        ("rescue", (), "points:     0", "lth status"),
        ("evidence", ("--type", "test", "--criterion-id", "it-works"), "recorded:   test for it-works", "lth verify"),
        ("classify", ("--text", "HTTP 429"), "class:      rate_limit (manual): HTTP 429", "lth status"),
        ("openclaw-recipe", (), "openclaw cron add \\", "lth status"),
    ],
)
def test_a_person_gets_lines(
    project: LongTaskProject, command: str, words: tuple[str, ...], said: str, following: str
) -> None:
    shown = at_terminal(project, command, *words)
    assert said in shown
    nexts = [line.split(maxsplit=1)[1] for line in shown if line.startswith("next:")]
    assert nexts == [f"{following} {project.root}"], "once: a run names it in its summary"
    assert not any(line.startswith(("{", '  "')) for line in shown)


def test_json_where_it_is_asked_for_or_nobody_reads(project: LongTaskProject) -> None:
    shown = json.loads("\n".join(at_terminal(project, "next", "--json")))
    assert shown == project.lth("next").json == project.lth("next", "--json").json
    assert project.lth_process("next").out == project.lth("next").out
