"""The list of commands and the topics: short, and only about commands that exist."""

import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

from agent_harness.cli import lth, main
from agent_harness.cli.commands import COMMANDS, FORMER
from agent_harness.cli.machine import words
from agent_harness.cli.machine.topics import TOPICS
from agent_harness.testing import run_in_process


def test_a_panel_has_at_most_nine_commands_and_a_line_eighty_letters() -> None:
    """F-HELP-2."""
    assert max(Counter(panel for panel, _, _ in COMMANDS.values()).values()) <= 9
    shown = run_in_process(main.main, "harness", "--help", environ={"COLUMNS": "80"}).out
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert len(shown.splitlines()) <= 60
    assert [name for name in COMMANDS if not re.search(rf"[ ,]{name}[ ,\n]", shown)] == []
    listed = run_in_process(main.main, "harness", "help", "commands", environ={"COLUMNS": "80"}).out
    assert all(len(line) <= 80 for line in listed.splitlines())
    assert [name for name, row in COMMANDS.items() if not re.search(rf"\n  {name} +{re.escape(row[2])}", listed)] == []


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_names_commands_and_options_that_there_are(topic: str) -> None:
    """F-HELP-4: no advised command would be refused."""
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


@pytest.mark.parametrize("topic", TOPICS)
def test_what_a_topic_says_is_taken_where_there_is_no_project_yet(topic: str, tmp_path: Path) -> None:
    """F-HELP-4: each line as it would be typed; a missing project is refused, but no word of the line."""
    lines = re.findall(r"\b(?:harness|lth) [a-z]\S*(?: \S+)*", TOPICS[topic])
    taken = [re.split(r" [&>]", line)[0].replace(" N", " 3") for line in lines]
    typed = [line.replace("true|false", word) for line in taken for word in ("true", "false")]
    for number, line in enumerate(dict.fromkeys(typed)):
        program, *rest = shlex.split(line.replace("--template ...", "--template coding"))
        place = tmp_path / str(number)
        place.mkdir()
        done = run_in_process(lth.main if program == "lth" else main.main, program, *rest, cwd=place)
        missing = "SPEC.md cannot be read: No such file" in done.err
        assert done.code in (0, 4) or missing, (line, done)


def test_help_of_a_command_of_nothing_and_of_what_there_is_not() -> None:
    assert "harness help night" in run_in_process(main.main, "harness", "help").out
    assert "Usage: harness run" in run_in_process(main.main, "harness", "help", "run").out
    assert "Usage: harness why" in run_in_process(main.main, "harness", "help", "why").out
    assert "a person must decide" in run_in_process(main.main, "harness", "help", "exit-codes").out
    assert run_in_process(main.main, "harness", "help", "nix").code == 2


@pytest.mark.parametrize("former", FORMER)
def test_an_earlier_name_of_a_command_works_and_no_list_shows_it(former: str) -> None:
    assert FORMER[former] in COMMANDS
    asked = run_in_process(main.main, "harness", former, "--help")
    assert (asked.code, asked.out) == (0, run_in_process(main.main, "harness", FORMER[former], "--help").out)
    assert f"\n  {former} " not in run_in_process(main.main, "harness", "--help").out
