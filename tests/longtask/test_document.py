"""docs/long-tasks.md names every command; what it types is run by tests/project/test_tutorials.py."""

import re
from pathlib import Path

from agent_harness.cli.lth import LTH

PAGE = (Path(__file__).resolve().parents[2] / "docs/long-tasks.md").read_text()


def test_the_page_names_every_command_and_no_other() -> None:
    table = PAGE.partition("## Commands")[2].partition("Exit status")[0]
    named = [word for row in re.findall(r"^\| (.+?) \|", table, re.MULTILINE) for word in re.findall(r"`(.+?)`", row)]
    assert set(named) == set(LTH.verbs)
