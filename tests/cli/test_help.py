"""The list of commands and the topics: short enough to be read, and about commands that there are."""

import re
from collections import Counter

import pytest

from agent_harness.cli import main
from agent_harness.cli.app import COMMANDS
from agent_harness.cli.machine import words
from agent_harness.cli.machine.topics import TOPICS
from agent_harness.testing import run_in_process


def test_a_panel_has_at_most_nine_commands_and_a_line_eighty_letters() -> None:
    """F-HELP-2."""
    assert max(Counter(panel for panel, _, _ in COMMANDS.values()).values()) <= 9
    shown = run_in_process(main.main, "harness", "--help", environ={"COLUMNS": "80"}).out
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert [name for name in COMMANDS if f"\n  {name} " not in shown] == []


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_names_commands_and_options_that_there_are(topic: str) -> None:
    """F-HELP-4: nothing is advised that would be refused."""
    known = words.walk()
    for command in re.findall(r"\b(?:harness|lth) [a-z][^\n]*", TOPICS[topic]):
        program, verb, *rest = re.split(r"\s{2,}|\s&|\s>", command)[0].split()
        path = f"{program} {verb}"
        assert path in known, command
        if rest and f"{path} {rest[0]}" in known:
            path = f"{path} {rest[0]}"
        for option in (each.partition("=")[0] for each in rest if each.startswith("--")):
            assert option in known[path].options or "command:" in command, command
    shown = run_in_process(main.main, "harness", "help", topic)
    assert (shown.code, shown.out.strip()) == (0, TOPICS[topic].strip())


def test_help_of_a_command_of_nothing_and_of_what_there_is_not() -> None:
    assert "harness help night" in run_in_process(main.main, "harness", "help").out
    assert "Usage: harness run" in run_in_process(main.main, "harness", "help", "run").out
    assert "Usage: harness why" in run_in_process(main.main, "harness", "help", "why").out
    assert "a person must decide" in run_in_process(main.main, "harness", "help", "exit-codes").out
    assert run_in_process(main.main, "harness", "help", "nix").code == 2
