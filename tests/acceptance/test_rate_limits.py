"""Refusals of a provider are nobody's fault: no attempt, no rollback, a time to come back, or another agent."""

import json
import signal
from pathlib import Path

import pytest

from agent_harness.agents import registry
from agent_harness.kernel import host, trusted_state
from agent_harness.kernel.rate_limits import LimitClock

from .calc import CalcProject
from .script import Step, append, honest, say, sh, turn, usage
from .test_add_features import plan

REFUSED: Step = {"rate_limit": {"message": "weekly limit", "retry_after_seconds": 7200}}
LIMITED = turn(append("src/calc.py", "\n\nHALF = 1\n"), REFUSED, {"exit": 1})


def limits(calc: CalcProject) -> list[dict[str, object]]:
    return calc.harness("limits", "--json").json["limits"]


def test_a_refused_session_waits_for_its_moment_in_the_clock(calc: CalcProject) -> None:
    """C28, UAH-374, UAH-364: exit 5, stuck_count 0, the work kept; the next process knows it, --now tries once."""
    script = calc.agent([LIMITED, turn(honest(1), usage(10, 10))])
    ran = calc.harness("run", agent=script)
    assert ran.code == 5, ran.text
    assert "Rate limited" in ran.out
    assert "next: harness run after that time; to try immediately: harness limits clear scripted:" in ran.out
    assert (calc.state["stuck_count"], calc.state["next_prompt"]) == (0, "continuation")
    assert calc.git("log", "-1", "--format=%s").startswith("WIP:")
    (limit,) = limits(calc)
    assert (limit["said"], limit["source"], limit["attempt"]) == ("weekly limit", "structured", 1)
    before = calc.fingerprint()
    again = calc.harness("run", "--json", agent=script)
    assert again.code == 5, again.text
    assert again.json["error"]["code"] == "rate_limited"
    assert again.json["error"]["data"]["account"] == limit["account"]
    assert calc.fingerprint() == before
    assert calc.harness("status").code == 0
    assert "0 of 6 tests pass" in calc.harness("verify", "--all").out
    now = calc.harness("run", "--now", agent=script)
    assert now.code == 0, now.text
    assert calc.passing() == [1]
    assert limits(calc) == []


@pytest.mark.exhaustive
def test_status_says_that_a_client_waits_by_itself_and_which_accounts_are_refused(calc: CalcProject) -> None:
    LimitClock().note("kimi", said="limit", retry_after_seconds=600)
    waits = "[the provider did not answer (429 rate_limit); try 2 again]"
    ready = calc.base / "ready"
    process = calc.start("run", agent=[turn(say(waits), sh(f"touch {ready}; sleep 600"))])
    calc.wait_until(ready.exists, "the agent at work")
    status = calc.harness("status").out
    assert f"The agent client waits and tries again automatically: {waits.strip('[]')}." in status, status
    assert "Rate limited: kimi until " in status
    assert "; to continue now: harness limits clear kimi" in status
    assert f"automatically: {waits.strip('[]')}." in calc.started()
    process.terminate()
    calc.wait_until(lambda: "Stopping: the agent may finish" in calc.started(), "an answer")
    process.terminate()
    assert process.wait(timeout=200) == 130, calc.started()
    assert "tries again automatically" not in calc.harness("status").out


@pytest.mark.scenario
def test_another_agent_of_the_settings_takes_over(calc: CalcProject) -> None:
    """C28: ``agent.fallback``; a session that was refused is none of ``--sessions``."""
    tired, fresh = calc.agent([LIMITED, LIMITED]), calc.agent([turn(honest(1)), turn(honest(2))])
    kinds = [spec.partition(":") for spec in (tired, fresh)]
    chosen = {"kind": kinds[0][0], "script": kinds[0][2], "fallback": [fresh]}
    settings = (calc.root / ".harness.yaml").read_text()
    calc.put({".harness.yaml": f"{settings}agent: {json.dumps(chosen)}\n"})
    calc.commit("Choose agents")
    calc.git("push", "-q")
    ran = calc.harness("run", "--sessions", "2", "--until-done")
    assert ran.code == 0, ran.text
    assert "takes over (" in ran.out
    assert calc.passing() == [1, 2]
    assert calc.state["last_session"] == 3


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_run_until_done_waits_holding_nothing(calc: CalcProject) -> None:
    """C28, UAH-057: while it waits others may have the project; a cleared limit lets it go on."""
    script = calc.agent([LIMITED, turn(honest(1))])
    running = calc.start("run", "--until-done", "--feature", "1", agent=script)
    try:
        calc.wait_until(lambda: "Waiting;" in calc.started(), "the wait")
        assert calc.harness("skip", "--feature", "6").code == 0
        (limit,) = limits(calc)
        assert calc.harness("limits", "clear", str(limit["account"])).code == 0
        assert running.wait(240) == 0, calc.started()
    finally:
        running.kill()
    assert calc.passing() == [1]


@pytest.mark.scenario
def test_a_pause_ends_the_wait(calc: CalcProject) -> None:
    """UAH-057: a pause from another terminal ends a run that waits, as it ends one that works."""
    running = calc.start("run", "--until-done", agent=[LIMITED])
    try:
        calc.wait_until(lambda: "Waiting;" in calc.started(), "the wait")
        assert calc.harness("pause").code == 0
        assert running.wait(240) == 0, calc.started()
    finally:
        running.kill()
    assert calc.harness("run").code == 5


def test_who_plans_is_told_too_and_nothing_is_written(bare: CalcProject) -> None:
    """C28: `init --spec` and `add-features` ask the clock before their agent."""
    spec = bare.agent([turn()])
    bare.root.mkdir(exist_ok=True)
    (bare.root / "SPEC.md").write_text("A calculator.")
    LimitClock().note(registry.from_spec(spec).account, said="weekly limit", retry_after_seconds=7200)
    before = bare.fingerprint()
    ran = bare.harness("init", "--spec", "SPEC.md", agent=spec)
    assert ran.code == 5, ran.text
    assert "next: harness init --spec FILE after that time; to try immediately: harness limits clear " in ran.err
    assert bare.fingerprint() == before


def one_agent() -> host.HostSlot:
    """This machine may have one, and somebody else has it."""
    Path(trusted_state.of_user(host.FOLDER) or "", "host.json").write_text('{"agents": 1}')
    agent_slot = host.take(host.AGENTS, {"project": "another"})
    assert agent_slot
    return agent_slot


@pytest.mark.exhaustive
def test_a_machine_without_a_seat_ends_a_session_that_may_not_wait(calc: CalcProject) -> None:
    """SC-40: exit 5, and nothing was changed; nobody is refused by a provider."""
    agent_slot, script = one_agent(), calc.agent([turn(honest(1))])
    ran = calc.harness("run", "--no-wait", agent=script)
    assert (ran.code, "All 1 agent slots of this machine are in use" in ran.text) == (5, True), ran.text
    before = calc.fingerprint()
    again = calc.harness("run", "--no-wait", "--json", agent=script)
    assert (again.code, again.json["error"]["code"]) == (5, "no_room"), again.text
    assert (calc.fingerprint(), limits(calc)) == (before, [])
    agent_slot.release()


@pytest.mark.scenario
def test_a_session_waits_for_its_seat_holding_nothing_and_gives_it_back(calc: CalcProject) -> None:
    """SC-40: also where nobody watches; others may have the project meanwhile."""
    agent_slot = one_agent()
    running = calc.start("run", agent=[turn(honest(1))])
    try:
        calc.wait_until(lambda: "All 1 agent slots of this machine" in calc.started(), "the wait")
        assert calc.harness("skip", "--feature", "6").code == 0
        agent_slot.release()
        assert running.wait(240) == 0, calc.started()
    finally:
        running.kill()
    assert calc.passing() == [1]
    assert host.holders() == []


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_an_agent_that_plans_waits_for_its_seat_holding_nothing(calc: CalcProject) -> None:
    """SC-40: others may have the project meanwhile; while it plans it is counted, and given back."""
    agent_slot, on, go = one_agent(), calc.base / "on", calc.base / "go"
    (calc.base / "more.md").write_text("Take the modulo as well.\n")
    waits = sh(f"touch {on}; while [ ! -e {go} ]; do sleep 0.02; done")
    running = calc.start("add-features", "--spec", str(calc.base / "more.md"), agent=[plan(waits)])
    try:
        calc.wait_until(lambda: "All 1 agent slots of this machine" in calc.started(), "the wait")
        assert calc.harness("skip", "--feature", "6").code == 0
        agent_slot.release()
        calc.wait_until(on.exists, "the agent at work")
        (holder,) = host.holders()
        told = (holder["pid"], holder["project"], holder["item"])
        assert told == (running.pid, str(calc.root), "harness plan-features")
        go.touch()
        assert running.wait(240) == 0, calc.started()
    finally:
        running.kill()
    assert "Added Feature #7" in calc.started()
    assert host.holders() == []


@pytest.mark.exhaustive
def test_a_plan_that_waits_ends_with_ctrl_c_and_nothing_is_written(bare: CalcProject) -> None:
    """SC-40: also where nobody watches it is said what it waits for."""
    agent_slot = one_agent()
    bare.root.mkdir(exist_ok=True)
    (bare.root / "SPEC.md").write_text("A calculator.")
    before = bare.fingerprint()
    running = bare.start("init", "--spec", "SPEC.md", "--json", agent=[turn()])
    try:
        bare.wait_until(lambda: "All 1 agent slots of this machine" in bare.started(), "the wait")
        running.send_signal(signal.SIGINT)
        assert running.wait(120) == 130, bare.started()
    finally:
        running.kill()
    assert bare.fingerprint() == before
    agent_slot.release()
