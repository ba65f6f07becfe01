"""Cassettes: their format, the allowed effects of a recording on a project, and the replay agent's contract."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.agents import replay
from agent_harness.agents.base import Brief
from agent_harness.agents.events import Finished, RateLimited, Text, Usage
from agent_harness.agents.registry import from_mapping, from_spec
from agent_harness.errors import ConfigurationError, UnsafeTree
from agent_harness.kernel.git import Git
from agent_harness.supervision.recording import TEXT_LIMIT_CHARACTERS, Recording
from agent_harness.supervision.supervisor import supervise
from agent_harness.testing.agent_conformance import check_agent
from agent_harness.testing.repo import Repo

HEAD = {"cassette": 1, "agent": "command", "session": 1}
END = {"at": 1, "ended": "finished", "ok": True}


def tape(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def brief(folder: Path, **more: Any) -> Brief:
    return replace(Brief(prompt="go", cwd=folder, session=1, prompt_type="coding"), **more)


def said(text: str) -> dict[str, Any]:
    return {"at": 0, "event": {"type": "text", "text": text}}


def test_it_keeps_the_contract_of_an_agent(tmp_path: Path) -> None:
    spent = {"at": 0, "event": {"type": "usage", "input_tokens": 10, "output_tokens": 2}}
    tapes = {
        "answer": tape(tmp_path / "a", HEAD, {"turn": 0}, said("say conformance-7391"), spent, END),
        "fail": tape(tmp_path / "f", HEAD, {"turn": 0}, {"at": 1, "ended": "finished", "ok": False}),
        "deaf": tape(tmp_path / "d", HEAD, {"turn": 0}, END),
    }
    checked = check_agent(lambda behaviour: from_spec(f"replay:{tapes[behaviour]}") if behaviour in tapes else None)
    assert "the last event is Finished, once" in checked


def test_a_recording_that_breaks_off_plays_as_far_as_it_goes_and_ends_badly(tmp_path: Path) -> None:
    torn = tape(tmp_path / "t", HEAD, {"turn": 0}, said("one"))
    with torn.open("a") as file:
        file.write('{"at": 3, "event": {"ty')
    turn = from_spec(f"replay:{torn}").start(brief(tmp_path))
    events = [turn.next_event(1), turn.next_event(1)]
    assert events == [Text("one"), Finished(ok=False, message="the recording is incomplete and ends here")]
    assert turn.ended


@pytest.mark.parametrize(("pace", "seconds"), [("fast", 0.001), ("recorded", 600.0)])
def test_what_a_provider_once_refused_is_waited_for_only_in_the_recorded_pace(
    pace: str, seconds: float, tmp_path: Path
) -> None:
    refused = {"at": 0, "event": {"type": "rate_limited", "message": "weekly limit", "retry_after_seconds": 600}}
    path = tape(tmp_path / "t", HEAD, {"turn": 0}, refused, END)
    turn = from_mapping({"kind": "replay", "file": str(path), "pace": pace}).start(brief(tmp_path))
    assert turn.next_event(1) == RateLimited(message="weekly limit", retry_after_seconds=seconds)


def test_a_round_that_was_not_recorded_is_no_success(tmp_path: Path) -> None:
    path = tape(tmp_path / "t", HEAD, {"turn": 0}, END)
    end = from_spec(f"replay:{path}").start(brief(tmp_path, round=1)).next_event(1)
    assert isinstance(end, Finished)
    assert not end.ok
    assert "1 turn" in end.message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a recording"),
        ("{}\n", "not a recording"),
        ('{"cassette": 2}\n', "format 2"),
        ("junk\n", "not a recording"),
    ],
)
def test_what_is_no_recording_is_one_clear_line(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(ConfigurationError, match=says):
        replay.read(tmp_path / "t")


def test_a_folder_holds_one_for_each_session(tmp_path: Path) -> None:
    tape(tmp_path / "session-7.cassette.jsonl", HEAD, {"turn": 0}, END)
    agent = from_mapping({"kind": "replay", "file": "."}, root=tmp_path)
    assert agent.start(brief(tmp_path, session=7)).next_event(1) == Finished()
    with pytest.raises(ConfigurationError, match=r"session-7\.cassette\.jsonl"):
        agent.start(brief(tmp_path, session=8))


@pytest.mark.parametrize("settings", [{}, {"file": 3}, {"file": "x", "speed": 1}, {"file": "x", "pace": "slow"}])
def test_wrong_settings_are_one_clear_line(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"agent\."):
        from_mapping({"kind": "replay", **settings}, root=tmp_path)


@pytest.mark.exhaustive
@pytest.mark.scenario
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["turn", "event", "files", "ended", "at", "commit"]),
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.text(),
                lambda x: st.lists(x) | st.dictionaries(st.text(), x),
            ),
        )
    )
)
def test_rubbish_in_a_recording_never_raises(tmp_path_factory: pytest.TempPathFactory, records: list[Any]) -> None:
    path = tape(tmp_path_factory.mktemp("tape") / "t", HEAD, *records)
    for turn in replay.read(path):
        assert all(at >= 0 for at, _ in turn.events)


# ---- files


BAD = ["/etc/x", "../x", "a/../../x", ".git/config", "a/.GIT/x", "", "a//b", "link/x"]


@pytest.mark.parametrize("path", BAD)
def test_a_recording_leads_nowhere_but_into_the_project(path: str, tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo")
    repo.write("a.txt").commit()
    repo.link("link", str(tmp_path))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UnsafeTree):
        replay.apply(Git(repo.path), [{"path": path, "mode": "100644", "text": "x"}], None)
    assert sorted(tmp_path.iterdir()) == before


def test_what_became_of_the_files_is_done_again_step_by_step(tmp_path: Path) -> None:
    one, two = Repo(tmp_path / "one"), Repo(tmp_path / "two")
    for repo in (one, two):
        repo.write("keep.txt", "same").write("gone.txt", "bye").write("a.txt", "old").commit("start")
    git = Git(one.path)
    before = (git.tree_of("HEAD"), git.head())
    one.write("a.txt", "new").write("deep/b.sh", "#!/bin/sh\n", executable=True).remove("gone.txt")
    one.commit("the agent's own")
    one.write("raw.bin", b"\xff\x00\xfe").link("to", "a.txt").write("large.txt", "x" * (replay.FILE_LIMIT_BYTES + 1))
    one.git("add", "-A")
    steps = replay.steps(git, before[0], one.git("write-tree").strip(), before[1], git.head())

    missing = [replay.apply(Git(two.path), step["files"], step.get("commit")) for step in steps]
    assert missing == [[], ["large.txt"]]
    assert two.git("log", "--format=%s").split("\n")[0] == "the agent's own"
    assert two.git("rev-parse", "HEAD^{tree}") == one.git("rev-parse", "HEAD^{tree}")
    assert (two.path / "raw.bin").read_bytes() == b"\xff\x00\xfe"
    assert (two.path / "to").readlink() == Path("a.txt")
    assert not (two.path / "large.txt").exists()


def test_events_are_recorded_with_secrets_masked_and_heard_again(tmp_path: Path) -> None:
    secret = "sk-ant-" + "Ab3" * 16
    script = f'print(\'key {secret}\')\nprint(\'{{"type": "usage", "input_tokens": 5, "output_tokens": 1}}\')'
    (tmp_path / "agent.py").write_text(script)
    path = tmp_path / "made.cassette.jsonl"
    outcome = supervise(
        from_spec("command:python3 agent.py"),
        brief(tmp_path),
        monitors=(),
        transcript=tmp_path / "t.log",
        on_started=lambda _: None,
        recording=Recording(path),
    )
    assert outcome.ok and not outcome.problems
    assert secret not in path.read_text()
    (turn,) = replay.read(path)
    heard = [event for _, event in turn.events]
    assert Usage(input_tokens=5, output_tokens=1) in heard
    assert heard[-1] == Finished()


@pytest.mark.parametrize("chosen", [False, True])
def test_a_recording_names_the_model_that_a_person_chose_and_no_default(chosen: bool, tmp_path: Path) -> None:
    recording = Recording(tmp_path / "made.cassette.jsonl")
    recording.begin("codex", brief(tmp_path, model="claude-sonnet-4", model_chosen=chosen))
    head = json.loads((tmp_path / "made.cassette.jsonl").read_text().splitlines()[0])
    assert head.get("model") == ("claude-sonnet-4" if chosen else None)


def test_a_recording_that_cannot_be_written_does_not_end_the_session(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    outcome = supervise(
        from_spec("command:true"),
        brief(tmp_path),
        monitors=(),
        transcript=tmp_path / "t.log",
        on_started=lambda _: None,
        recording=Recording(tmp_path / "link"),
    )
    assert outcome.ok
    assert any("no recording" in problem for problem in outcome.problems)
    assert (tmp_path / "elsewhere").read_text() == "mine"


def test_a_secret_at_the_edge_of_what_is_kept_of_a_text_is_masked_before_the_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "canary-of-the-cage")
    recording = Recording(tmp_path / "a.jsonl")
    recording.begin("command", brief(tmp_path))
    recording.event(Text("x" * (TEXT_LIMIT_CHARACTERS - 6) + "canary-of-the-cage"))
    assert "canary" not in (tmp_path / "a.jsonl").read_text()
