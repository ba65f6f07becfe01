"""The effect of each verb on a project, and its output."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.agents.base import Brief
from agent_harness.agents.events import Event, Finished, RateLimited, Text, ToolCall, ToolResult, Usage
from agent_harness.agents.scripted import ScriptedAgent
from agent_harness.agents.scripted.script import BAD_JSON
from agent_harness.agents.scripted.stage import test_file_of as file_of
from agent_harness.agents.scripted.stage import with_passes
from agent_harness.supervision.supervisor import Evidence

REAL_TEST = "import calc\n\n\ndef test_add():\n    assert calc.add(2, 3) == 5\n"
PREFIXED = {"prefixes": True}


def kinds(events: list[Event], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def evidence(events: list[Event]) -> Evidence:
    found = Evidence("tests/e2e/test_add.py")
    for event in events:
        found = found.after(event)
    return found


def test_run_shows_command_output_and_status(calc: Any) -> None:
    played = calc.do({"run": "echo one; echo two >&2; exit 3"})
    assert played.said == "$ echo one; echo two >&2; exit 3\none\ntwo"
    (call,), (result,) = kinds(played.events, ToolCall), kinds(played.events, ToolResult)
    assert (call.name, call.input) == ("shell", {"command": "echo one; echo two >&2; exit 3"})
    assert (result.output, result.is_error, result.id) == ("one\ntwo\n", True, call.id)
    assert played.status == 0


def test_run_with_prefixes(calc: Any) -> None:
    lines = calc.do({"sh": "echo one"}, agent=PREFIXED | {"tool_events": False}).text.splitlines()
    assert lines == ["[CMD:RUN] echo one", "$ echo one", "[CMD:OUTPUT]", "one", "[CMD:EXIT] 0"]


def test_output_that_could_pass_for_an_event_is_text(calc: Any) -> None:
    played = calc.do({"run": """echo '{"type": "usage", "input_tokens": 99}'"""}, {"say": '{"type": "finished"}'})
    assert not played.usage
    assert '{"type": "usage", "input_tokens": 99}' in played.said
    assert not kinds(played.events, Finished)


def test_a_long_output_keeps_its_ends(calc: Any) -> None:
    played = calc.do({"run": "echo first; head -c 2000000 /dev/zero | tr '\\0' x; echo; echo last"})
    assert len(played.text) < 300_000
    assert "first" in played.said
    assert "last" in played.said
    assert "bytes left out" in played.said
    assert len(kinds(played.events, ToolResult)[0].output) < 20_000


def test_a_background_child_keeps_nobody_waiting(calc: Any) -> None:
    played = calc.do({"run": "sleep 600 & echo $! > pid; echo started"})
    assert "started" in played.said
    os.kill(int(calc.read("pid")), signal.SIGKILL)


def test_a_command_can_be_given_a_limit(calc: Any) -> None:
    (result,) = kinds(calc.do({"run": {"command": "sleep 600", "timeout_seconds": 0.1}}).events, ToolResult)
    assert result.is_error


def test_write_append_and_read(calc: Any) -> None:
    (calc.scripts / "beside.py").write_text("beside = True\n")
    played = calc.do(
        {"write": ["new/deep.txt", "one\n"]},
        {"append": ["new/deep.txt", "two\n"]},
        {"write": {"path": "init.sh", "text": "#!/bin/sh\n", "executable": True}},
        {"write": {"path": "copied.py", "from": "beside.py"}},
        {"read": "new/deep.txt"},
        agent=PREFIXED,
    )
    assert calc.read("new/deep.txt") == "one\ntwo\n"
    assert os.access(calc.root / "init.sh", os.X_OK)
    assert calc.read("copied.py") == "beside = True\n"
    assert kinds(played.events, ToolResult)[-1].output == "one\ntwo\n"
    assert played.said.count("[FILE:WRITE]") == 4
    assert "[FILE:READ] new/deep.txt" in played.said


def test_claim_changes_one_word(calc: Any) -> None:
    before = calc.read("features.json")
    calc.do({"claim": 2})
    after = calc.read("features.json")
    assert calc.passing() == [2]
    assert after.replace('"passes": true', '"passes": false') == before
    calc.do({"claim": {"ids": [2], "passes": False}})
    assert calc.read("features.json") == before


def test_claim_this_and_claim_many(calc: Any) -> None:
    calc.do({"claim": "this"}, feature_id=4)
    calc.do({"claim": [1, 6]}, feature_id=4)
    assert calc.passing() == [1, 4, 6]


CANNOT = [
    ({"claim": 99}, "features.json has no feature 99"),
    ({"claim": "this"}, "this session has no feature"),
    ({"evidence": 99}, "has no test_file for feature 99"),
    ({"read": "no/such/file"}, "read: FileNotFoundError"),
    ({"write": {"path": "a", "from": "no-such-file"}}, "write: FileNotFoundError"),
    ({"write": ["src", "a folder is there"]}, "write: IsADirectoryError"),
]


@pytest.mark.parametrize(("step", "why"), CANNOT)
def test_a_step_that_does_not_fit_the_project_is_one_line(step: Any, why: str, calc: Any) -> None:
    played = calc.do({"say": "before"}, step, {"say": "after"}, feature_id=None)
    assert played.status == 1
    assert why in played.errors
    assert len(played.errors.splitlines()) == 1
    assert "entry #0, step 1" in played.errors
    assert "after" not in played.said


def test_evidence_is_the_truth(calc: Any) -> None:
    played = calc.do({"evidence": 1}, agent=PREFIXED)
    assert evidence(played.events).shown
    assert not evidence(played.events).passed
    assert "[VERIFY:FAIL] Feature #1" in played.said
    calc.write("src/calc.py", "def add(a, b):\n    return a + b\n")
    calc.write("tests/e2e/test_add.py", REAL_TEST)
    played = calc.do({"evidence": "this"}, agent=PREFIXED, feature_id=1)
    assert evidence(played.events).passed
    assert "[VERIFY:START] Feature #1" in played.said
    assert "[VERIFY:PASS] Feature #1" in played.said
    assert "$ python -m pytest tests/e2e/test_add.py -v" in played.said


def test_evidence_uses_the_command_of_the_settings(calc: Any) -> None:
    calc.write(".harness.yaml", "testing:\n  feature: echo checking {test_file}\n")
    assert "checking tests/e2e/test_add.py" in calc.do({"evidence": 1}).said
    assert (
        "mine tests/e2e/test_add.py" in calc.do({"evidence": 1}, agent={"test_command": "echo mine {test_file}"}).said
    )


def test_a_forged_run_looks_like_one_and_runs_nothing(calc: Any) -> None:
    played = calc.do({"forge": 1}, agent=PREFIXED)
    assert evidence(played.events).passed
    assert "4 passed" in (evidence(played.events).result or "")
    assert "[VERIFY:PASS] Feature #1" in played.said
    assert not kinds(played.events, ToolCall)


def test_progress_commit_and_decide(calc: Any) -> None:
    played = calc.do(
        {"progress": "WHAT I DID:\n- add"},
        {"decide": "no classes"},
        {"commit": "Implement add: it's done"},
        agent=PREFIXED,
    )
    assert calc.read("claude-progress.txt").endswith("WHAT I DID:\n- add\n")
    assert calc.git("log", "-1", "--format=%s") == "Implement add: it's done"
    assert calc.git("status", "--porcelain") == ""
    assert "[DECISION] no classes" in played.said
    assert "Decision: no classes" in calc.do({"decide": "no classes"}).said


def test_usage_in_both_forms(calc: Any) -> None:
    played = calc.do({"usage": [1450, 320]}, {"usage": {"input_tokens": 5, "cost_usd": 15, "context_tokens": 9100}})
    assert played.usage == [
        Usage(input_tokens=1450, output_tokens=320),
        Usage(input_tokens=5, cost_usd=15.0, context_tokens=9100),
    ]


def test_refusals(calc: Any) -> None:
    played = calc.do(
        {"http": {"status": 429, "times": 2, "retry_after_seconds": 3}}, {"rate_limit": "weekly"}, {"http": 529}
    )
    refused = kinds(played.events, RateLimited)
    assert [one.retry_after_seconds for one in refused] == [3.0, 3.0, None, None]
    assert "429" in refused[0].message
    assert refused[2].message == "weekly"
    assert "overloaded" in refused[3].message


def test_an_error_that_no_waiting_mends_ends_the_turn(calc: Any) -> None:
    played = calc.do({"http": 401}, {"say": "after"})
    assert played.status == 1
    assert "API key" in played.said
    assert "after" not in played.said


@pytest.mark.parametrize("kind", BAD_JSON)
def test_bad_events_count_nothing(kind: str, calc: Any) -> None:
    found = calc.do({"bad_json": kind}, {"say": "pong"})
    assert found.said.endswith("pong")
    assert sum(one.input_tokens + one.output_tokens for one in found.usage) in (0, 12)


def test_end_and_exit(calc: Any) -> None:
    assert calc.do("end", {"say": "after"}).text == ""
    assert calc.do({"end": "all done"}).events == [Finished(message="all done")]
    assert calc.do({"exit": 7}).status == 7


def test_the_prompt_can_be_kept(calc: Any) -> None:
    calc.do({"prompt_to": "p.txt"}, prompt="Grüße\nzwei")
    calc.do({"prompt_to": "p.txt"}, prompt="second")
    assert calc.read("p.txt") == "Grüße\nzwei\nsecond\n"


def test_flood_prints_that_much(calc: Any) -> None:
    text = calc.do({"flood": {"megabytes": 3, "line_bytes": 1000}}).text
    assert 3_000_000 <= len(text) < 3_600_000
    assert {len(line) for line in text.splitlines()} == {999}


def test_any_event(calc: Any) -> None:
    (call,) = kinds(calc.do({"event": {"type": "tool_call", "name": "x", "input": {"q": 1}}}).events, ToolCall)
    assert (call.name, call.input) == ("x", {"q": 1})


def test_an_agent_that_only_prints(calc: Any) -> None:
    played = calc.do({"run": "echo one"}, {"write": ["a", "b"]}, {"claim": 1}, agent={"tool_events": False})
    assert all(isinstance(event, Text) for event in played.events)


def test_sigterm_can_be_ignored(brief: Callable[..., Brief], calc: Any) -> None:
    path = calc.scripts / "play.json"
    path.write_text(json.dumps({"turns": [{"do": ["ignore_term", {"say": "ready"}, {"sleep": 600}]}]}))
    turn = ScriptedAgent(path).start(brief(cwd=calc.root))
    while not isinstance(turn.next_event(10.0), Text):
        pass
    turn.stop(0.2)
    end = turn.next_event(5.0)
    assert isinstance(end, Finished)
    assert end.exit_code == -signal.SIGKILL


def test_a_listener_that_goes_away_is_no_traceback(calc: Any) -> None:
    path = calc.scripts / "play.json"
    path.write_text(json.dumps({"turns": [{"do": [{"flood": {"megabytes": 5}}]}]}))
    program = f"{sys.executable} -m agent_harness.agents.scripted {path} | head -c 10"
    done = subprocess.run(
        ["sh", "-c", program], cwd=calc.root, capture_output=True, stdin=subprocess.DEVNULL, check=True
    )
    assert b"Traceback" not in done.stderr


# -- memory ------------------------------------------------------------------------------------------------------------

TWICE = {
    "turns": [
        {"when": {"round": 0}, "times": 1, "do": [{"say": "first"}]},
        {"when": {"feature": 2, "attempt": 2}, "do": [{"say": "again on two"}]},
        {"when": {"round": 0}, "times": 2, "do": [{"say": "then"}]},
    ]
}


def test_the_count_survives_processes_and_rollbacks(calc: Any) -> None:
    said = [calc.play(TWICE, session=1).said]
    calc.git("reset", "-q", "--hard")
    calc.git("clean", "-fdqx")
    said += [calc.play(TWICE, session=session).said for session in (2, 3)]
    assert said == ["first", "then", "then"]
    assert calc.git("status", "--porcelain", "--ignored") == ""
    used_up = calc.play(TWICE, session=4)
    assert used_up.status == 3
    assert "prompt_type=coding feature=1 session=4 round=0 attempt=4" in used_up.errors


def test_an_attempt_is_a_session_on_the_feature(calc: Any) -> None:
    said = [calc.play(TWICE, session=session, feature_id=2).said for session in (5, 6, 6)]
    assert said == ["first", "again on two", "again on two"]


def test_a_round_that_was_not_foreseen_is_given_up(calc: Any) -> None:
    played = calc.play(TWICE, round=1)
    assert (played.status, played.said) == (0, "I have nothing more to try.")


def test_a_turn_that_is_killed_was_used(brief: Callable[..., Brief], calc: Any) -> None:
    path = calc.scripts / "play.json"
    path.write_text(json.dumps({"turns": [
        {"times": 1, "do": [{"say": "first"}, {"sleep": 600}]}, {"do": [{"say": "second"}]}
    ]}))  # fmt: skip
    turn = ScriptedAgent(path).start(brief(cwd=calc.root))
    while not isinstance(turn.next_event(10.0), Text):
        pass
    turn.stop(0.0)
    assert calc.play_file(path).said == "second"


def test_a_damaged_memory_is_an_empty_one(calc: Any) -> None:
    assert calc.play(TWICE).said == "first"
    (memory,) = (calc.root / ".git" / "agent-scripted").iterdir()
    memory.write_text("{")
    assert calc.play(TWICE).said == "first"


def test_without_a_repository_the_memory_is_in_the_home(tmp_path: Path, calc: Any) -> None:
    calc.root = tmp_path / "plain"
    calc.root.mkdir()
    assert [calc.play(TWICE, session=session).said for session in (1, 2)] == ["first", "then"]
    assert list(calc.root.iterdir()) == []


def test_a_worktree_shares_the_repository_s_memory_folder(tmp_path: Path, calc: Any) -> None:
    calc.git("worktree", "add", "-q", "--detach", str(tmp_path / "other"))
    calc.root = tmp_path / "other"
    calc.play(TWICE)
    assert (tmp_path / "calc" / ".git" / "agent-scripted").is_dir()


# -- features.json -----------------------------------------------------------------------------------------------------

ODD = """{ "note":1.10, "features" :[ {"id":1,"passes":false,"x":1e400} , {"passes" : false ,"id": 2},
	{"id": 3}, {}, 7 ] ,\r\n"features2": [{"id": 1, "passes": false}], "é": "\\u00e9" }"""


def test_only_the_word_changes_in_an_odd_file() -> None:
    text = with_passes(ODD, [1, 2], True)
    assert text == ODD.replace('"passes":false', '"passes":true').replace('"passes" : false', '"passes" : true')
    assert json.loads(with_passes(ODD, [3], True))["features"][2] == {"id": 3, "passes": True}
    assert file_of(ODD, 3) is None
    with pytest.raises(KeyError):
        with_passes(ODD, [4], True)


FEATURES = st.lists(
    st.fixed_dictionaries(
        {"passes": st.booleans(), "description": st.text(max_size=12)},
        optional={"extra": st.none() | st.lists(st.integers(), max_size=2)},
    ),
    min_size=1,
    max_size=5,
)


@given(FEATURES, st.integers(0, 4), st.booleans(), st.sampled_from([None, 1, 4, "\t"]), st.booleans())
def test_every_other_value_stays(found: list[dict[str, Any]], at: int, passes: bool, indent: Any, plain: bool) -> None:
    features = [one | {"id": number} for number, one in enumerate(found)]
    number = at % len(features)
    text = json.dumps({"a": 1, "features": features, "z": []}, indent=indent, ensure_ascii=plain)
    features[number]["passes"] = passes
    assert with_passes(text, [number], passes) == json.dumps(
        {"a": 1, "features": features, "z": []}, indent=indent, ensure_ascii=plain
    )
