"""S16: init.sh, reset.sh and the health check decide whether an agent is started at all."""

import os

import pytest

from .arranging import refused, with_files, with_settings
from .calc import INIT, CalcProject
from .script import honest, sh, turn

FAILS = "#!/bin/sh\nexit 1\n"


def counted(calc: CalcProject, word: str, rest: str) -> str:
    """A script that notes its own name outside of the project first."""
    return f"#!/bin/sh\necho {word} >>'{calc.base}/order'\n{rest}\n"


def order(calc: CalcProject) -> list[str]:
    path = calc.base / "order"
    return path.read_text().split() if path.exists() else []


@pytest.mark.exhaustive
def test_a_what_init_cannot_do_reset_mends(calc: CalcProject) -> None:
    """UAH-270 UAH-271 UAH-279 UAH-369 UAH-558 UAH-559 C19 S16: init, reset, init; orientation, checkpoint, agent.

    UAH-371 UAH-372 UAH-373: whatever it is that reset.sh mends.
    """
    clean = calc.base / "clean"
    with_files(
        calc,
        {
            "init.sh": counted(calc, "init", f"test -f '{clean}' || exit 1\n: > \"$CALC_UP\""),
            "reset.sh": counted(calc, "reset", f": > '{clean}'"),
        },
    )
    ran = calc.run([turn(honest(1))])
    assert ran.code == 0, ran.text
    assert order(calc) == ["init", "reset", "init"]
    told = ran.out
    assert "running ./reset.sh (1/2)" in told
    steps = ["running ./reset.sh", "Generating orientation summary...", "Prompt type: coding", "Agent working on"]
    assert sorted(steps, key=told.index) == steps
    happened = [row["type"] for row in calc.events()]
    order_of = ["checkpoint_created", "session_started", "agent_started"]
    assert sorted(order_of, key=happened.index) == order_of
    assert calc.passing() == [1]


@pytest.mark.scenario
def test_b_a_reset_that_never_helps_asks_for_a_person(calc: CalcProject) -> None:
    """UAH-272 UAH-280 UAH-370 UAH-397 C24 S16: two resets at most."""
    with_files(calc, {"init.sh": counted(calc, "init", "exit 1"), "reset.sh": counted(calc, "reset", "exit 1")})
    refused(calc, "Could not recover clean state. Manual intervention needed.")
    assert order(calc).count("reset") == 2
    asked = calc.state["pending_escalation"]
    assert (asked["type"], asked["options"]) == ("environment", ["manual", "abort"])


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_c_a_server_that_init_leaves_lives_as_long_as_the_session(calc: CalcProject) -> None:
    """UAH-144 C60 S16: no hang; there while the agent works, gone at the end (the world looks for it)."""
    calc.environ["HARNESS_SANDBOX"] = "off"  # in one, an agent sends no signal to what it has not started
    pid, seen = calc.base / "pid", calc.base / "seen"
    with_files(calc, {"init.sh": f"{INIT}sleep 600 &\necho $! >'{pid}'\n"})
    ran = calc.run([turn(sh(f"kill -0 $(cat '{pid}') && : >'{seen}'"), honest(1))])
    assert ran.code == 0, ran.text
    assert seen.exists(), "it was there when the agent worked"
    calc.wait_until(lambda: int(pid.read_text()) not in calc.processes(), "the end of the sleeper", seconds=60)


def test_d_a_failing_health_check_is_named(calc: CalcProject) -> None:
    """UAH-152 UAH-273 UAH-280 UAH-391 S16."""
    with_files(calc, {"init.sh": "#!/bin/sh\nexit 0\n"})
    ran = refused(calc, "health check failed", 'test -f "$CALC_UP"')
    assert "next: " in ran.err


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_e_a_script_that_cannot_be_run_is_named(calc: CalcProject) -> None:
    """UAH-268 S16."""
    os.chmod(calc.root / "init.sh", 0o644)
    calc.commit("Not executable")
    calc.git("push", "-q")
    refused(calc, "init.sh is not executable", "chmod +x ./init.sh")


@pytest.mark.scenario
def test_f_a_test_that_was_broken_by_hand_is_named(calc: CalcProject) -> None:
    """UAH-274 UAH-275 C23 S16."""
    calc.accept(1)
    text = (calc.root / "src/calc.py").read_text().replace("return a + b", "return 0")
    with_files(calc, {"src/calc.py": text})
    refused(calc, "Environment is broken. Baseline tests failing", "tests/e2e/test_add.py::test_add_one")
    calc.checked = False  # add is broken, and stays so
    calc.state_parses()


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_without_auto_reset_reset_never_runs(calc: CalcProject) -> None:
    """UAH-227 UAH-271 S16: `preflight.on_failure.auto_reset: false`."""
    with_files(calc, {"init.sh": counted(calc, "init", "exit 3"), "reset.sh": counted(calc, "reset", "exit 0")})
    with_settings(calc, "preflight:\n  on_failure:\n    auto_reset: false\n")
    refused(calc, "./init.sh failed")
    assert order(calc) == ["init"]


@pytest.mark.kept("harness_files")
@pytest.mark.scenario
@pytest.mark.parametrize("check", ["environment", "harness_files"])
def test_a_check_can_be_switched_off(calc: CalcProject, check: str) -> None:
    """UAH-222 UAH-224 UAH-277 S16: what it would have refused does not matter then."""
    with_files(calc, {"reset.sh": FAILS, "init.sh": FAILS if check == "environment" else INIT})
    if check == "harness_files":
        os.chmod(calc.root / "reset.sh", 0o644)
        calc.commit("Not executable")
    with_settings(calc, f"preflight:\n  checks:\n    {check}: false\n")
    ran = calc.run([turn(honest(1))])
    assert ran.code == 0, ran.text
