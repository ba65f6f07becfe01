"""S06: a session that breaks an older feature is undone at once."""

from .script import claim, commit, implement, proof_path, prove, sh, turn, usage
from .world import World

BREAK_ADD = "sed -i.bak 's/return a + b/return 0/' src/calc.py && rm src/calc.py.bak"


def test_breaking_an_older_feature(calc: World) -> None:
    start = calc.accept(1)
    baseline, progress = calc.baseline, calc.progress
    breaker = turn(
        implement(2), prove(2), sh(BREAK_ADD), claim(2), commit("Implement sub: and more"), usage(500, 50), times=9
    )
    ran = calc.run([breaker])
    assert ran.code in {1, 3}, ran.text
    assert "Regression:" in ran.text
    assert f"{proof_path(1)}::test_add_one" in ran.text
    assert "This blocks: Feature 6" in ran.text
    assert calc.head == start
    assert calc.changes(without=("claude-progress.txt",)) == []
    assert calc.pytest(proof_path(1)) == 0
    assert calc.passing() == [1]
    assert (calc.state["status"], calc.state["stuck_count"], calc.state["last_session"]) == ("failed", 1, 2)
    assert calc.baseline["passing_tests"] == baseline["passing_tests"]
    assert calc.progress.startswith(progress)
    assert calc.costs["cumulative"]["total_tokens"]["input"] == 500, "no turn after the detection"
    assert calc.events("rollback_completed")
    assert calc.events("verification_failed", "CRITICAL") or calc.events(level="CRITICAL")
    assert calc.remote() == start


def test_a_regression_without_a_claim_is_no_progress_either(calc: World) -> None:
    """The agent breaks add and claims nothing: nothing red reaches the remote."""
    start = calc.accept(1)
    ran = calc.run([turn(sh(BREAK_ADD), commit("Tidy up"), usage(5, 5))])
    assert ran.code in {0, 1}, ran.text
    assert calc.remote() == start
    assert calc.passing() == [1]
    calc.checked = False
    calc.state_parses()


def test_a_flaky_test_is_no_regression(calc: World) -> None:
    """C62: a newly failing test gets one more try before it counts."""
    calc.accept(1)
    flag = calc.base / "flaky"
    calc.put(
        {
            proof_path(1): "import calc, os, pathlib\n\n\ndef test_add_one():\n"
            f"    flag = pathlib.Path({str(flag)!r})\n    first = flag.exists()\n    flag.unlink(missing_ok=True)\n"
            "    assert not first and calc.add(2, 3) == 5\n\n\ndef test_add_two():\n    assert calc.add(-1, 1) == 0\n"
        }
    )
    calc.commit("A test that fails once")
    calc.git("push", "-q")
    ran = calc.run([turn(implement(2), prove(2), sh(f"touch {flag}"), claim(2), commit("Implement sub"), usage(5, 5))])
    assert ran.code == 0, ran.text
    assert calc.events("flaky_test")
    assert calc.passing() == [1, 2]
