"""Which step a conversation has come to, and which scripts are refused."""

import json
import re
from pathlib import Path

import pytest

from agent_harness.errors import UsageError
from agent_harness.testing.model_server.script import Message, choose, read_scripts

SCRIPTS = read_scripts(
    {
        "main": ["m0", "m1"],
        "sub": ["s0", "s1"],
        "again": {"start": "^Stop hook feedback", "steps": ["a0", "a1"]},
        "@end": ["over"],
        "@default": ["nobody asked"],
        "@compact": ["in short, SCRIPT:sub"],
    }
)


def turns(*said: str) -> list[Message]:
    """``m:`` is the model, ``t:`` the result of a tool, and all else a message to the model."""
    made = {"m": lambda text: Message(True, text), "t": lambda text: Message(False, output=text)}
    return [made[line[0]](line[2:]) if line[:2] in ("m:", "t:") else Message(False, line) for line in said]


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (["do SCRIPT:main"], "m0"),
        (["do SCRIPT:main", "m:m0", "t:out"], "m1"),
        (["do SCRIPT:main", "m:thought", "m:call", "m:call", "t:out", "t:out"], "m1"),
        (["do SCRIPT:main", "m:m0", "t:out", "m:m1", "more"], "over"),
        (["do SCRIPT:main", "m:m0", "then SCRIPT:sub"], "s0"),
        (["do SCRIPT:main", "m:SCRIPT:sub", "go on"], "m1"),
        (["do SCRIPT:main", "m:m0", "t:SCRIPT:sub"], "m1"),
        (["SCRIPT:main or SCRIPT:sub"], "s0"),
        (["do SCRIPT:main", "m:m0", "Stop hook feedback: go on"], "a0"),
        (["do SCRIPT:main", "m:m0", "Stop hook feedback: go on", "m:a0", "t:x"], "a1"),
        (["do SCRIPT:main", "m:m0", "Stop hook feedback: 1", "m:a0", "m:a1", "Stop hook feedback: 2"], "a0"),
        (["Stop hook feedback: SCRIPT:main"], "m0"),
        (["do SCRIPT:nothing"], "(there is no script named nothing)"),
        (["hello"], "nobody asked"),
        ([], "nobody asked"),
        (["do SCRIPT:main", "m:m0", "Please create a detailed summary of the conversation"], "in short, SCRIPT:sub"),
    ],
)
def test_the_step(said: list[str], text: str) -> None:
    assert list(choose(SCRIPTS, turns(*said)).step.blocks) == [{"text": text}]


def test_a_summary_goes_on_with_the_same_script() -> None:
    cue = choose(read_scripts({"main": ["x"]}), turns("SCRIPT:main", "m:x", "CONTEXT CHECKPOINT COMPACTION"))
    assert "SCRIPT:main" in cue.step.blocks[0]["text"]


@pytest.mark.parametrize(
    ("scripts", "problem"),
    [
        ({"a": 7}, "scripts: a must be a list of steps"),
        ({"a": {"start": "x"}}, "scripts: a must be a list of steps"),
        ({"a": {"start": "(", "steps": []}}, "scripts: a: start is not a regular expression"),
        ({"a": {"start": 1, "steps": []}}, "scripts: a: start is not a regular expression"),
        ({"a": ["x", 7]}, "scripts: a: step 1 7 is not one of a text"),
        ({"a": [[None]]}, "scripts: a: step 0 None is not one of"),
        ({"a": [{"run": 1}]}, "scripts: a: step 0 {'run': 1} is not one of"),
        ({"a": [{"run": "x", "text": "y"}]}, "is not one of"),
        ({"a": [{"blocks": "x", "delay": 1}]}, "'delay' is not one of blocks, usage"),
        ({"a": [{"blocks": "x", "delay_seconds": "1"}]}, "'delay_seconds' is not a number"),
        ({"a": [{"error": 429}]}, "'error' is not an object such as"),
        ({"a": [{"blocks": "x", "find": {"n": "("}}]}, "scripts: a: step 0: find n is not a regular expression"),
    ],
)
def test_a_mistake_is_named_with_its_place(scripts: dict[str, object], problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_scripts(scripts)
    assert problem in caught.value.message
    assert caught.value.hint == "see docs/model-server.md"


def test_the_examples_of_the_page_are_right() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "model-server.md"
    examples = re.findall(r"^```json\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) >= 2
    assert all(read_scripts(json.loads(example)) for example in examples)
