"""Questions that a session leaves for a person, and the effect of each answer."""

import json
import os

import pytest

from .calc import RESET, CalcProject
from .script import append, claim, commit, honest, implement, turn
from .test_s21_done import at_a_terminal, read_until

LIAR = turn(implement(1, "def add(a, b):\n    return a - b\n"), claim(1), commit("Implement add"), times=99)


def settings(calc: CalcProject, **lines: str) -> None:
    """More settings, committed and pushed."""
    text = (calc.root / ".harness.yaml").read_text()
    calc.put({".harness.yaml": text + "".join(f"{name}:\n  {line}\n" for name, line in lines.items())})
    calc.commit("Settings")
    calc.git("push", "-q")


@pytest.mark.exhaustive
def test_rejected_claims_of_a_feature_add_up_whatever_comes_between(calc: CalcProject) -> None:
    """UAH-389, UAH-395, C35."""
    settings(calc, verification="fix_rounds: 0", features="max_stuck_sessions: 2")
    first = calc.run([LIAR], "--feature", "1")
    assert first.code == 1, first.text
    assert calc.run([turn(honest(2))], "--feature", "2").code == 0
    assert calc.state["stuck_count"] == 0
    second = calc.run([LIAR], "--feature", "1")
    assert second.code == 3, second.text
    assert "Feature #1 has failed verification 2 times." in second.text
    assert calc.harness("resume", "--choose", "1").code == 0
    assert calc.state["verification_failures"] == {}
    assert calc.run([turn(honest(1))]).code == 0
    assert calc.passing() == [1, 2]


@pytest.mark.exhaustive
def test_an_environment_that_cannot_be_reset_is_asked_about_until_it_works(calc: CalcProject) -> None:
    """UAH-272, UAH-280, UAH-370, UAH-397, S16 b."""
    calc.put({"init.sh": "#!/bin/sh\nexit 1\n", "reset.sh": "#!/bin/sh\nexit 1\n"})
    calc.commit("Broken")
    calc.git("push", "-q")
    ran = calc.run([turn(honest(1))])
    assert ran.code == 4, ran.text
    assert "Could not recover clean state. Manual intervention needed." in ran.text
    assert not calc.events("agent_started")
    assert "Could not recover clean state" in calc.harness("status").out
    calc.put({"init.sh": '#!/bin/sh\n: > "$CALC_UP"\n', "reset.sh": RESET})
    calc.commit("Mended")
    calc.git("push", "-q")
    again = calc.run([turn(honest(1))])
    assert again.code == 0, "mended by hand, nothing to answer\n" + again.text
    assert calc.state["pending_escalation"] is None


def test_work_that_breaks_everything_is_asked_about_and_can_be_taken_off(calc: CalcProject) -> None:
    """UAH-396, C15."""
    calc.accept(1)
    head = calc.head
    ran = calc.run([turn(append("src/calc.py", "\n\ndef broken(:\n"), commit("Half"))])
    assert ran.code == 3, ran.text
    assert "App still broken after agent attempted fix." in ran.text
    back = calc.harness("resume", "--choose", "B", "--json")
    assert back.code == 0, back.text
    assert "def broken(:" in calc.git("show", f"{back.json['rescue_ref']}:src/calc.py")
    assert calc.head == head
    assert calc.run([turn(honest(2))]).code == 0


@pytest.mark.kept("split")
@pytest.mark.parametrize("word", ["split", "manual", "abort", "retry"])
def test_the_answers_to_a_stuck_feature(calc: CalcProject, word: str) -> None:
    """UAH-392, UAH-533, C11, C12."""
    settings(calc, features="max_stuck_sessions: 1")
    assert calc.run([turn(append("src/calc.py", "\n\nHALF = 1\n"))]).code == 3
    done = calc.harness("resume", "--choose", word)
    assert done.code == 0, done.text
    told = {
        "split": "harness add-feature",
        "manual": "When done, run: harness takeback",
        "abort": "Harness stopped.",
        "retry": "Feature #1 queued.",
    }
    assert told[word] in done.out
    if word == "abort":
        assert not (calc.root / ".harness/session_state.json").exists()
        assert calc.harness("resume").code == 0
        return
    assert calc.state["pending_escalation"] is None
    after = calc.run([turn(honest(2 if word == "split" else 1))])
    assert after.code == (5 if word == "manual" else 0), after.text


@pytest.mark.exhaustive
def test_a_missing_dependency_and_blocked_features_are_named(calc: CalcProject) -> None:
    """UAH-452, UAH-453, UAH-454, UAH-455, UAH-460, S18."""
    for feature in (1, 2, 3):
        assert calc.harness("skip", "--feature", str(feature)).code == 0
    blocked = calc.run([turn(honest(4))])
    assert blocked.code == 7, blocked.text
    assert "waits for #3" in blocked.out
    assert "All 6 features" not in blocked.text
    document = calc.features
    document["features"][0]["depends_on"] = [99]
    (calc.root / "features.json").write_text(json.dumps(document, indent=2) + "\n")
    calc.commit("Wrong")
    missing = calc.run([turn(honest(4))])
    assert missing.code == 3, missing.text
    assert "Feature 1 depends on non-existent Feature 99" in missing.err
    assert not calc.events("agent_started")


@pytest.mark.exhaustive
def test_a_priority_comes_before_the_id(calc: CalcProject) -> None:
    """UAH-106, UAH-454, UAH-456."""
    document = calc.features
    document["features"][2]["priority"] = 1
    (calc.root / "features.json").write_text(json.dumps(document, indent=2) + "\n")
    calc.commit("First things first")
    assert calc.harness("run", "--dry-run", "--json").json["feature_id"] == 3
    calc.accept(1, 2)
    assert calc.harness("run", "--dry-run", "--feature", "2").code == 7
    assert calc.harness("run", "--dry-run", "--feature", "5").code == 7


@pytest.mark.kept("k-0")
@pytest.mark.scenario
@pytest.mark.parametrize(("typed", "code"), [("k", 0), ("", 3)])
def test_somebody_who_is_there_is_asked_at_once(calc: CalcProject, typed: str, code: int) -> None:
    """UAH-392 C12: at a terminal; Enter leaves the question for later."""
    settings(calc, features="max_stuck_sessions: 1")
    process, terminal = at_a_terminal(calc, "run", agent=[turn(append("src/calc.py", "\n\nHALF = 1\n"))])
    read_until(terminal, "Enter: later")
    os.write(terminal, f"{typed}\n".encode())
    if typed:
        read_until(terminal, "Skipped Feature #1.")
    assert process.wait(200) == code
    os.close(terminal)
    assert (calc.state["pending_escalation"] is None) == bool(typed)
