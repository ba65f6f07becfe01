"""Every example of the pages about agents is run, and the pages name every verb, option and condition."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from agent_harness.agents.events import Text, event_from_line
from agent_harness.agents.scripted.script import _OPTIONS, _WHEN, BAD_JSON, VERBS

DOCS = Path(__file__).parents[2] / "docs"
SCRIPTED = (DOCS / "scripted-agent.md").read_text()
COMMAND = (DOCS / "command-agent.md").read_text()
ENDS_IN = {"http": 1}  # the status of an example that is no success


def examples() -> list[Any]:
    found = []
    for section in re.split(r"^##+ ", SCRIPTED, flags=re.MULTILINE)[1:]:
        title = section.split("\n", 1)[0]
        for number, text in enumerate(re.findall(r"```yaml\n(.*?)```", section, re.DOTALL), 1):
            found.append(pytest.param(text, id=f"{title}-{number}"))
    return found


def script_of(text: str) -> dict[str, Any]:
    value = YAML(typ="safe", pure=True).load(text)
    return value if isinstance(value, dict) else {"turns": [{"do": value}]}


def verbs_of(script: dict[str, Any]) -> list[str]:
    steps = [step for entry in script["turns"] for step in entry["do"]]
    return [step if isinstance(step, str) else next(iter(step)) for step in steps]


@pytest.mark.parametrize("text", examples())
def test_an_example_is_played(text: str, calc: Any) -> None:
    (calc.scripts / "beside.py").write_text("beside = True\n")
    script = script_of(text)
    played = calc.play(script, feature_id=1)
    assert played.errors == ""
    assert played.status == max(ENDS_IN.get(verb, 0) for verb in verbs_of(script))


def test_every_verb_has_an_example() -> None:
    shown = {verb for one in examples() for verb in verbs_of(script_of(one.values[0]))}
    assert shown >= set(VERBS)


def test_every_verb_option_and_condition_is_named() -> None:
    headings = set(re.findall(r"^### (.+)$", SCRIPTED, re.MULTILINE))
    assert {name for heading in headings for name in heading.split(", ")} == set(VERBS)
    assert all(f"`{name}`" in SCRIPTED for name in (*_OPTIONS, *BAD_JSON))
    assert all(f"`when.{name}`" in SCRIPTED for name in _WHEN)


def test_every_event_of_the_command_page_is_one() -> None:
    (block,) = re.findall(r"```json\n(.*?)```", COMMAND, re.DOTALL)
    events = [event_from_line(line) for line in block.splitlines()]
    kinds = [type(event).__name__ for event in events]
    assert kinds == ["Text", "ToolCall", "ToolResult", "Usage", "RateLimited", "Finished"]
    assert events[0] == Text("I look at the tests first.")


def test_the_check_of_the_command_page_works(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", COMMAND, re.DOTALL)
    agent = tmp_path / "my_agent.py"
    agent.write_text(
        "import json, subprocess, sys, time\n"
        "behaviour = sys.argv[1]\n"
        "if behaviour == 'answer':\n"
        "    print(sys.stdin.read())\n"
        "    print(json.dumps({'type': 'usage', 'input_tokens': 1}))\n"
        "if behaviour == 'hang':\n"
        "    print('hanging', flush=True)\n"
        "    time.sleep(600)\n"
        "if behaviour == 'noise':\n"
        "    print('pong')\n"
        "sys.exit(behaviour == 'fail')\n"
    )
    (tmp_path / "check.py").write_text(example.replace('"my_agent.py"', repr(str(agent))))
    done = subprocess.run([sys.executable, "check.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "hang - " in done.stdout
