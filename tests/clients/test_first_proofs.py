"""The real clients do what the rest of this folder builds upon: they run a tool, and they hear their hooks."""

import json
from pathlib import Path

import pytest

from agent_harness.testing.repo import Repo

from .client import Client

pytestmark = pytest.mark.client


def test_a_tool_runs(client: Client, project: Repo) -> None:
    client.island.script("write", [{"run": "echo written > out.txt"}, "All is done."])
    run = client.run("SCRIPT:write", project=project.path)
    assert run.exit_code == 0, run.output
    assert client.last_words(run) == "All is done."
    assert project.read("out.txt") == b"written\n"
    assert [asked["step"] for asked in client.island.requests() if "step" in asked] == [0, 1]


def test_a_stop_hook_keeps_the_model_going_once(client: Client, project: Repo, tmp_path: Path) -> None:
    client.hooks(project.path, Stop=blocking_once(tmp_path, "Feed the goldfish first."))
    client.island.script("stop", ["I am done.", [{"run": "echo fed > goldfish.txt"}], "Now I am done."])
    run = client.run("SCRIPT:stop", project=project.path)
    assert run.exit_code == 0, run.output
    assert client.last_words(run) == "Now I am done."
    assert project.read("goldfish.txt") == b"fed\n"
    first, second, *_ = client.island.conversations()
    assert "Feed the goldfish first." not in json.dumps(first)
    assert "Feed the goldfish first." in json.dumps(second)


def test_what_session_start_says_reaches_the_model(client: Client, project: Repo, tmp_path: Path) -> None:
    said = {"hookEventName": "SessionStart", "additionalContext": "The goldfish is called Wanda."}
    client.hooks(project.path, SessionStart=printing(tmp_path, {"hookSpecificOutput": said}))
    client.island.script("start", ["Hello, Wanda."])
    run = client.run("SCRIPT:start", project=project.path)
    assert run.exit_code == 0, run.output
    assert "The goldfish is called Wanda." in json.dumps(client.island.conversations()[0])


def printing(folder: Path, answer: object) -> str:
    """A hook command that prints an answer."""
    file = folder / "answer.json"
    file.write_text(json.dumps(answer))
    return f"cat {file}"


def blocking_once(folder: Path, reason: str) -> str:
    """A Stop hook command that blocks, with a reason, the first time that it is asked."""
    answer = printing(folder, {"decision": "block", "reason": reason})
    return f"test -e {folder}/asked || {{ touch {folder}/asked; {answer}; }}"
