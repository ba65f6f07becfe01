"""A script is read, its errors are named, and the right entry is chosen."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_harness.agents.base import Brief
from agent_harness.agents.scripted import ScriptedAgent
from agent_harness.agents.scripted.script import Occasion, Script, ScriptError, choose, load
from agent_harness.testing.agent_conformance import check_agent


def script(tmp_path: Path, text: str, name: str = "play.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def entries(tmp_path: Path, *turns: dict[str, Any]) -> Script:
    return load(script(tmp_path, json.dumps({"turns": [{"do": []} | turn for turn in turns]}), "play.json"))


def problems_of(path: Path) -> list[str]:
    with pytest.raises(ScriptError) as caught:
        load(path)
    assert "\n" not in caught.value.message
    assert str(path) in (caught.value.hint or "")
    return [problem.removeprefix(f"{path}: ") for problem in caught.value.problems]


WHOLE = "must be a whole number or a list of them"
PATHS = "path, text, from, executable"
USAGE = "takes a mapping of input_tokens, output_tokens, cached_tokens, cost_usd, context_tokens or [input_tokens, "
WRONG = [
    ("", "a script is a mapping with `turns`"),
    ("- say: x", "a script is a mapping with `turns`"),
    ("turns: []", "turns: a list with at least one entry is missing"),
    ("agent: {prefixes: true}", "turns: a list with at least one entry is missing"),
    ("turn: [{do: [end]}]\nturns: [{do: [end]}]", "unknown key 'turn' (did you mean 'turns'?)"),
    ("turns: [{do: [end], when: {featur: 1}}]", "turns[0].when: unknown key 'featur' (did you mean 'feature'?)"),
    ("turns: [{do: [end], when: {feature: one}}]", f"turns[0].when.feature: {WHOLE}, not 'one'"),
    ("turns: [{do: [end], when: {feature: []}}]", f"turns[0].when.feature: {WHOLE}, not []"),
    ("turns: [{do: [end], when: {round: true}}]", f"turns[0].when.round: {WHOLE}, not True"),
    ("turns: [{do: [end], when: [1]}]", "turns[0].when: must be a mapping"),
    ("turns: [{do: [end], times: 0}]", "turns[0].times: must be a whole number of at least 1, not 0"),
    ("turns: [{do: [end], tims: 2}]", "turns[0]: unknown key 'tims' (did you mean 'times'?)"),
    ("turns: [{do: [end], name: a}, {do: [end], name: a}]",
     "turns[1].name: must be a text that no other entry has, not 'a'"),
    ("turns: [{when: {}}]", "turns[0].do: a list of steps is missing"),
    ("turns: [{do: end}]", "turns[0].do: a list of steps is missing"),
    ("turns: [end]", "turns[0]: must be a mapping with `do`"),
    ("turns: [{do: [end, clam]}]", "turns[0].do[1]: unknown verb 'clam' (did you mean 'claim'?)"),
    ("turns: [{do: [3]}]", "turns[0].do[0]: must be one verb with its value, not 3"),
    ("turns: [{do: [{say: a, run: b}]}]",
     "turns[0].do[0]: must be one verb with its value, not {'say': 'a', 'run': 'b'}"),
    ("turns: [{do: [say]}]", "turns[0].do[0].say: 'text' is missing"),
    ("turns: [{do: [{say: 3}]}]", "turns[0].do[0].say.text: must be a text, not 3"),
    ("turns: [{do: [{write: {path: a}}]}]", "turns[0].do[0].write: 'text or from' is missing"),
    ("turns: [{do: [{write: {path: a, txt: b}}]}]", f"turns[0].do[0].write: unknown key 'txt' (known: {PATHS})"),
    ("turns: [{do: [{write: a}]}]", f"turns[0].do[0].write: takes a mapping of {PATHS} or [path, text], not a"),
    ("turns: [{do: [{claim: all}]}]",
     "turns[0].do[0].claim.ids: must be a feature's number, a list of them, or `this`, not all"),
    ("turns: [{do: [{usage: [1, 2, 3, 4, 5]}]}]", f"turns[0].do[0].usage: {USAGE}"),
    ("turns: [{do: [{sleep: -1}]}]", "turns[0].do[0].sleep.seconds: must be a number of at least 0, not -1"),
    ("turns: [{do: [{end: {ok: 1}}]}]", "turns[0].do[0].end: unknown key 'ok' (known: message)"),
    ("turns: [{do: [{ignore_term: now}]}]", "turns[0].do[0].ignore_term: takes no value, not now"),
    ("turns: [{do: [{event: {name: x}}]}]",
     "turns[0].do[0].event.event: must be a mapping with `type`, not {'name': 'x'}"),
    ("agent: {prefix: true}\nturns: [{do: [end]}]", "agent: unknown key 'prefix' (did you mean 'prefixes'?)"),
    ("agent: {prefixes: 1}\nturns: [{do: [end]}]", "agent.prefixes: must be true or false, not 1"),
    ("agent: {pace_seconds: -1}\nturns: [{do: [end]}]", "agent.pace_seconds: must be a number of at least 0, not -1"),
    ("agent: [1]\nturns: [{do: [end]}]", "agent: must be a mapping"),
    ("turns: [{do: [end]}", "line 1, column 20: expected ',' or ']', but got '<stream end>'"),
    ("turns: [{do: [end]}]\nturns: [{do: [end]}]", 'line 2, column 1: found duplicate key "turns"'),
    ("a: &a [*a]\nturns: [{do: [end]}]", "unknown key 'a' (known: agent, turns)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), WRONG, ids=[problem[:60] for _, problem in WRONG])
def test_a_bad_script_names_entry_and_key(text: str, problem: str, tmp_path: Path) -> None:
    found = problems_of(script(tmp_path, text))
    assert any(one.startswith(problem) for one in found), found


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    path = script(tmp_path, "turns: [{do: [clam, {say: 3}], times: 0}]")
    assert len(problems_of(path)) == 3
    with pytest.raises(ScriptError, match=r"\(and 2 more\)"):
        load(path)


FILES = [
    (b"{", "play.json", "is not JSON"),
    (b"[" * 100_000, "play.json", "is not JSON"),
    (b'{"turns": ' + b"9" * 5000 + b"}", "play.json", "is not JSON"),
    (b"turns: \xff", "play.yaml", "is not UTF-8"),
    (b"[" * 600, "play.yaml", ""),
    (b"turns: !!python/object:os.system [ls]", "play.yaml", ""),
    (b"turns: \0", "play.yaml", ""),
]


@pytest.mark.parametrize(("data", "name", "problem"), FILES, ids=[repr(row[0][:20]) for row in FILES])
def test_a_file_that_does_not_parse_is_one_line(data: bytes, name: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert problem in problems_of(path)[0]


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    assert problems_of(tmp_path / "none.yaml") == ["cannot be read: No such file or directory"]
    assert problems_of(tmp_path) == ["cannot be read: Is a directory"]


def test_json_and_yaml_are_the_same_script(tmp_path: Path) -> None:
    yaml = load(script(tmp_path, "turns:\n- when: {feature: [1, 2]}\n  do: [{sh: ls}, end]\n"))
    text = '{"turns": [{"when": {"feature": [1, 2]}, "do": [{"run": "ls"}, "end"]}]}'
    assert yaml.entries == load(script(tmp_path, text, "play.json")).entries


def test_a_json_script_needs_no_third_party(tmp_path: Path) -> None:
    path = script(tmp_path, '{"turns": [{"do": [{"say": "hi"}]}]}', "play.json")
    program = (
        "import sys; from agent_harness.agents.scripted.__main__ import main; main(['--check', sys.argv[1]], {});"
        "print([m for m in sys.modules if m.startswith(('ruamel', 'pydantic', 'rich', 'click', 'psutil'))])"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# -- choosing ----------------------------------------------------------------------------------------------------------

CHOICES: list[tuple[dict[str, Any], Occasion, bool]] = [
    ({}, Occasion(), True),
    ({"feature": 1}, Occasion(feature=1), True),
    ({"feature": 1}, Occasion(feature=2), False),
    ({"feature": 1}, Occasion(), False),
    ({"feature": [1, 2]}, Occasion(feature=2), True),
    ({"feature": 1, "round": 0}, Occasion(feature=1, round=1), False),
    ({"prompt_type": "cleanup"}, Occasion(prompt_type="cleanup"), True),
    ({"prompt_type": ["coding", "continuation"]}, Occasion(prompt_type="cleanup"), False),
    ({"task": "t-1"}, Occasion(task="t-1"), True),
    ({"session": 4}, Occasion(session=4), True),
    ({"attempt": 2}, Occasion(attempt=2), True),
    ({"attempt": 2}, Occasion(attempt=1), False),
    ({"prompt_contains": "FAILED"}, Occasion(prompt="1 FAILED test"), True),
    ({"prompt_contains": ["a", "FAILED"]}, Occasion(prompt="1 FAILED test"), True),
    ({"prompt_contains": "FAILED"}, Occasion(prompt="all fine"), False),
]


@pytest.mark.parametrize(("when", "occasion", "fits"), CHOICES)
def test_an_entry_fits(when: dict[str, Any], occasion: Occasion, fits: bool, tmp_path: Path) -> None:
    assert (choose(entries(tmp_path, {"when": when}), occasion, {}) is not None) == fits


def test_the_first_that_is_not_used_up(tmp_path: Path) -> None:
    script = entries(tmp_path, {"name": "a", "times": 2}, {"name": "b", "times": 1}, {"when": {"feature": 9}})
    memories: list[dict[str, int]] = [{}, {"a": 1}, {"a": 2}, {"a": 2, "b": 1}]
    chosen = [choose(script, Occasion(), uses) for uses in memories]
    assert [entry.key if entry else None for entry in chosen] == ["a", "a", "b", None]


# -- the program -------------------------------------------------------------------------------------------------------


def program(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agent_harness.agents.scripted", *words]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


def test_check_says_that_all_is_well(tmp_path: Path) -> None:
    path = script(tmp_path, "turns: [{do: [end]}]")
    done = program("--check", str(path))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{path}: 1 turns, no problem\n", "")


def test_check_and_play_name_every_problem(tmp_path: Path) -> None:
    path = script(tmp_path, "turns: [{do: [clam, {say: 3}]}]")
    for words in (["--check", str(path)], [str(path)]):
        done = program(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert [line.split(": ")[1] for line in done.stderr.splitlines()] == [
            "turns[0].do[0]",
            "turns[0].do[1].say.text",
        ]


@pytest.mark.parametrize("words", [[], ["a", "b"], ["--help"]])
def test_wrong_words_are_answered_with_the_usage(words: list[str]) -> None:
    done = program(*words)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")


# -- the adapter -------------------------------------------------------------------------------------------------------

BEHAVIOURS: dict[str, list[Any]] = {
    "answer": [{"run": "cat prompt.txt"}, {"usage": [120, 30]}],
    "fail": [{"exit": 3}],
    "hang": [{"say": "hanging"}, {"sh": "sleep 600"}],
    "deaf": ["end"],
    "noise": [
        *({"bad_json": kind} for kind in ("binary", "nul", "ansi", "deep", "huge", "truncated")),
        {"say": "pong"},
    ],
}


def test_the_contract_of_an_agent(tmp_path: Path) -> None:
    def make(behaviour: str) -> ScriptedAgent | None:
        if behaviour not in BEHAVIOURS:
            return None
        steps = (
            [{"prompt_to": "prompt.txt"}, *BEHAVIOURS[behaviour]] if behaviour == "answer" else BEHAVIOURS[behaviour]
        )
        return ScriptedAgent(script(tmp_path, json.dumps({"turns": [{"do": steps}]}), f"{behaviour}.json"))

    assert len(check_agent(make)) == 13


def test_a_bad_script_starts_nothing(tmp_path: Path) -> None:
    agent = ScriptedAgent(script(tmp_path, "turns: [{do: [clam]}]"))
    assert "unknown verb 'clam'" in (agent.problem() or "")
    with pytest.raises(ScriptError):
        agent.start(Brief(prompt="", cwd=tmp_path, session=1, prompt_type="coding"))


def test_a_good_script_has_no_problem(tmp_path: Path) -> None:
    assert ScriptedAgent(script(tmp_path, "turns: [{do: [end]}]")).problem() is None
