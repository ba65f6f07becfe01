"""How many agents this machine may have: slots that any death gives back, and what is said of accounts. SC-40."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness.kernel import host, trusted_state
from agent_harness.kernel.host import AGENTS, HostSlot
from agent_harness.kernel.rate_limits import LimitClock
from agent_harness.supervision import agent_slots


def said(**members: object) -> Path:
    folder = Path(trusted_state.of_user(host.FOLDER) or "")
    (folder / "host.json").write_text(json.dumps(members))
    return folder


def test_there_are_as_many_seats_as_are_said_and_each_says_what_it_is_for() -> None:
    said(agents=2)
    one, two = (host.take(AGENTS, {"item": name, "account": "x"}) for name in "ab")
    assert one and two
    assert host.take(AGENTS, {"item": "c"}) is None
    assert [(each["number"], each["item"], each["pid"]) for each in host.holders()] == [
        (1, "a", os.getpid()),
        (2, "b", os.getpid()),
    ]
    assert (host.working("x"), host.working("y")) == (2, 0)
    one.release()
    one.release()
    three = host.take(AGENTS, {"item": "c"})
    assert three
    assert [each.get("item") for each in host.holders()] == ["c", "b"]
    two.release()
    three.release()
    assert host.holders() == []


def test_a_death_gives_a_seat_back() -> None:
    said(agents=1)
    words = "from agent_harness.kernel import host; import time\n"
    words += "slot = host.take('agents', {'item': 'a'}); print('taken', flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", words], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout and other.stdout.readline() == "taken\n"
        assert host.take(AGENTS, {}) is None
        other.send_signal(signal.SIGKILL)
        other.wait(60)
    agent_slot = host.take(AGENTS, {})
    assert agent_slot
    agent_slot.release()


ODD = ["", "[]", "{", '{"agents": "8", "accounts": 7}', '{"agents": 0, "accounts": {"x": 7}}']
ODD += ['{"agents": true, "accounts": {"x": {"agents": -1, "input_tokens_per_minute": "many"}}}', "[" * 5000]


@pytest.mark.parametrize("odd", ODD)
def test_what_is_no_number_is_passed_over(odd: str) -> None:
    (said() / "host.json").write_text(odd)
    assert (host.limits()[AGENTS], host.limits()[host.TESTS] >= 1) == (8, True)
    terms = host.account_terms("x")
    assert (terms.agents, terms.input_tokens_per_minute) == (8, None)


def test_links_in_the_shared_folder_are_not_followed(tmp_path: Path) -> None:
    folder = said(agents=1)
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (folder / "agents").mkdir()
    (folder / "agents/1.json").symlink_to(precious)
    agent_slot = host.take(AGENTS, {"item": "a"})
    assert agent_slot
    assert precious.read_text() == "mine"
    agent_slot.release()


@pytest.mark.parametrize("name", [AGENTS, host.TESTS, "input"])
def test_a_folder_of_ours_that_is_a_link_is_replaced_and_not_followed(tmp_path: Path, name: str) -> None:
    folder, precious = said(agents=1), tmp_path / "precious"
    precious.mkdir()
    (precious / "1.lock").write_text("mine")
    (folder / name).symlink_to(precious)
    assert (host.holders(), host.input_since("x", 60.0)) == ([], 0)
    if name == "input":
        host.note_input("x", 5)
        assert host.input_since("x", 60.0) == 5
    else:
        agent_slot = host.take(name, {"item": "a"})
        assert agent_slot and [each["item"] for each in host.holders()] == ["a"]
        agent_slot.release()
    assert {each.name: each.read_text() for each in precious.iterdir()} == {"1.lock": "mine"}
    assert (folder / name).is_dir() and not (folder / name).is_symlink()


def taken(account: str) -> HostSlot | str:
    return agent_slots.taken(account, {"item": "a"}, LimitClock())


def test_an_account_may_have_fewer_than_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SC-43: also before any refusal, of which nothing is left then."""
    monkeypatch.chdir(tmp_path)
    said(agents=8, accounts={"x": {"agents": 1}})
    first = taken("x")
    assert isinstance(first, HostSlot)
    assert str(taken("x")).startswith("All agents allowed for x are running")
    other = taken("y")
    assert isinstance(other, HostSlot)
    first.release()
    second = taken("x")
    assert isinstance(second, HostSlot)
    assert {name: each.agents for name, each in host.terms_of_accounts().items()} == {"x": 1}
    assert [*tmp_path.iterdir()] == []


def test_no_agent_begins_that_would_read_more_than_its_account_may() -> None:
    """SC-44: one more is taken to read what each at work has read in the last five minutes."""
    folder = said(agents=8, accounts={"x": {"input_tokens_per_minute": 1000}})
    host.note_input("x", 1500)
    first = taken("x")
    assert isinstance(first, HostSlot)
    second = taken("x")  # 1,500 by one, so 3,000 by two: of 5,000 less a tenth
    assert isinstance(second, HostSlot)
    host.note_input("x", 1501)
    assert str(taken("x")).startswith("Agents of x used almost all input tokens that the provider allows")
    assert isinstance(taken("y"), HostSlot)
    assert host.input_since("x", 300) == 3001
    (file,) = (folder / "input").iterdir()
    lines = [line.split() for line in file.read_text().splitlines()]
    aged = "".join(f"{float(at) - 301} {tokens}\n" for at, tokens in lines)
    file.write_text(f"{aged}nonsense\n1e400 5\n-5 -5\n{lines[0][0]} x\n" + aged * 8000)
    assert isinstance(taken("x"), HostSlot)
    assert file.read_text() == ""  # what is of no use any more is dropped
    first.release()
    second.release()


def test_after_a_refusal_agents_come_back_one_after_the_other() -> None:
    """SC-43: the second is held back by the start of the first; an account that was not refused is not."""
    LimitClock().note("x", said="429", retry_after_seconds=0.001)
    first = taken("x")
    assert isinstance(first, HostSlot)
    assert taken("x") == "Agents of x start one at a time after a rate limit: harness limits"
    other = taken("y")
    assert isinstance(other, HostSlot)
    LimitClock().forget("x")
    second = taken("x")
    assert isinstance(second, HostSlot)
