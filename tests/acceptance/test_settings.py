"""Effect of each setting of ``.harness.yaml``, seen from outside: another value, another session."""

import pytest

from .arranging import refused, with_features, with_files, with_settings
from .calc import INIT, CalcProject
from .script import (
    CODE,
    append,
    claim,
    commit,
    edit_features,
    honest,
    implement,
    prompt_to,
    proof_text,
    say,
    sh,
    turn,
    usage,
    write,
)

RUN_SANITY = """\
import pathlib, re, subprocess, sys
import pytest

prompt = " ".join(pathlib.Path(sys.argv[1]).read_text().split())
job = re.search(r"Run the sanity tests, with lint \\((.*?)\\)(.*?)\\. If something that worked is broken", prompt)
for command in [job[1], *re.findall(r"`(.*?)`", job[2])]:
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    with open(sys.argv[2], "a") as log:
        print(f"{command} -> {done.returncode}", file=log)
"""
SANITY = """\
  sanity:
    lint: python tools/lint.py src/
    type_check: python -m compileall -q src
    health: test -f "$CALC_UP"
  unit: python -m pytest tests/unit -q
  e2e: python -m pytest tests/e2e/test_add.py -q
"""
COMMANDS = [
    "python tools/lint.py src/",
    "python -m compileall -q src",
    'test -f "$CALC_UP"',
    "sh .harness/sanity.sh",
]


def settings(calc: CalcProject, old: str, new: str) -> None:
    """The settings with one part of them changed, committed and pushed."""
    text = (calc.root / ".harness.yaml").read_text()
    assert old in text
    with_files(calc, {".harness.yaml": text.replace(old, new)})


@pytest.mark.exhaustive
def test_the_sanity_tests_of_the_settings_run_and_what_is_broken_is_mended_first(calc: CalcProject) -> None:
    """UAH-155, UAH-284, UAH-313, UAH-506, UAH-545: an agent that runs what its prompt names, word for word.

    In its first session everything is sound; in its second one lint and types are not, and it mends them first.
    """
    settings(calc, "quality:\n  lint_command: python tools/lint.py src/\n", "")
    settings(calc, "testing:\n", "testing:\n" + SANITY)
    unit = "import calc\n\n\ndef test_it_has_a_name():\n    assert calc.__doc__\n"
    with_files(calc, {"tests/unit/test_name.py": unit})
    calc.accept(1)
    prompt, runner, log = calc.base / "prompt.txt", calc.base / "sanity.py", calc.base / "sanity.log"
    runner.write_text(RUN_SANITY)

    def sanity() -> list[dict[str, object]]:
        return [prompt_to(prompt), sh(f"python {runner} {prompt} {log}")]

    first = calc.run([turn(sanity(), honest(2))])
    assert first.code == 0, first.text
    assert log.read_text().splitlines() == [f"{command} -> 0" for command in COMMANDS]
    assert "Verifying: lint check... PASSED" in first.out
    script = (calc.root / ".harness/sanity.sh").read_text()
    assert "tests/e2e/test_add.py -q" in script, "the tests of the settings, where some are known to have passed"

    log.unlink()
    with_files(calc, {"src/odd.py": "def broken(:   \n"})
    second = calc.run([turn(sanity(), sh("rm src/odd.py"), sanity(), honest(3))])
    assert second.code == 0, second.text
    codes = [line.rpartition(" ")[2] for line in log.read_text().splitlines()]
    assert codes == ["1", "1", "0", "0", *["0"] * 4]
    assert calc.passing() == [1, 2, 3]


@pytest.mark.exhaustive
def test_the_scripts_of_the_environment_have_other_names(calc: CalcProject) -> None:
    """UAH-150, UAH-151, UAH-228: one try of reset, then a person is asked."""
    order = calc.base / "order"
    settings(calc, "init: ./init.sh\n  reset: ./reset.sh", "init: ./ops/up.sh\n  reset: ./ops/again.sh")
    with_settings(calc, "preflight:\n  on_failure:\n    max_reset_attempts: 1\n")
    noted = {
        "ops/up.sh": f"#!/bin/sh\necho up >>'{order}'\nexit 1\n",
        "ops/again.sh": f"#!/bin/sh\necho again >>'{order}'\n",
    }
    with_files(calc, noted)
    refused(calc, "Could not recover clean state")
    assert order.read_text().split() == ["up", "again", "up"]
    with_files(calc, {"ops/up.sh": f"{INIT}echo good >>'{order}'\n"})
    ran = calc.run([turn(honest(1))])
    if ran.code == 5:  # the question of the refused run is answered first
        assert calc.harness("resume", "--choose", "manual").code == 0
        assert calc.harness("takeback", "--yes").code == 0
        ran = calc.run([turn(honest(1))])
    assert ran.code == 0, ran.text
    assert "good" in order.read_text().split()


@pytest.mark.exhaustive
def test_each_kind_of_session_has_its_model(calc: CalcProject) -> None:
    """UAH-166, UAH-167."""
    with_settings(calc, "models:\n  default: plain\n  coding: quick\n  continuation: patient\n")
    seen = calc.base / "models"
    look = sh(f"echo $HARNESS_PROMPT_TYPE $HARNESS_MODEL >>'{seen}'")
    half = calc.run([turn(look, append("src/calc.py", "\n\nHALF = 1\n"), commit("Half of it"))])
    assert calc.state["next_prompt"] == "continuation", half.text
    ran = calc.run([turn(look, honest(1))])
    assert ran.code == 0, ran.text
    assert seen.read_text().splitlines() == ["coding quick", "continuation patient"]


@pytest.mark.exhaustive
def test_the_context_has_another_size_other_marks_and_another_commit(calc: CalcProject) -> None:
    """UAH-169, UAH-170, UAH-172, UAH-174."""
    with_settings(
        calc,
        "context:\n  window_tokens: 10000\n  warn_threshold: 0.3\n  force_threshold: 0.5\n"
        "  on_limit:\n    commit_message_prefix: 'PARKED: '\n",
    )
    steps = [append("src/calc.py", "\n\nHALF = 1\n"), *(usage(tokens, 0) for tokens in (2900, 3100, 5100, 10000))]
    ran = calc.run([turn(steps, sh("sleep 600"))])
    assert ran.code == 0, ran.text
    (early, late) = calc.told()
    assert "You've used 30% of available context" in early
    assert "Context is nearly full." in late
    assert calc.git("log", "-1", "--format=%s") == "PARKED: Feature #1 (User can add two numbers)"
    assert calc.state["termination_reason"] == "context_limit"


@pytest.mark.exhaustive
def test_the_other_messages_of_the_progress_checks(calc: CalcProject) -> None:
    """UAH-179."""
    with_settings(
        calc,
        "context:\n  window_tokens: 10000\nprogress:\n  check_interval_tokens: 2000\n  max_repeated_errors: 3\n"
        "  force_stop_message: Put the pen down.\n  repeated_error_message: Three times the same.\n",
    )
    fails = [sh("echo 'fatal: no database' >&2; exit 1") for _ in range(3)]
    idle = [step for n in range(4) for step in (say("I think about it."), usage(500 + 2000 * n, 0))]
    ran = calc.run([turn(fails, idle)])
    assert ran.code == 0, ran.text
    assert calc.state["termination_reason"] == "stuck"
    log = (calc.root / ".harness/logs/session-1.log").read_text()
    for message in ("Three times the same.", "Put the pen down."):
        assert message in log


def test_lint_can_reject(calc: CalcProject) -> None:
    """UAH-183: a warning by default, else a reason to reject."""
    ugly = [turn(append("src/calc.py", "Y = 1   \n"), honest(1))]
    settings(calc, "quality:\n", "quality:\n  warn_on_lint_errors: false\n")
    strict = calc.run([turn(append("src/calc.py", "Y = 1   \n"), honest(1), times=9)])
    assert strict.code == 1, strict.text
    assert "Verifying: lint check... FAILED" in strict.out
    assert calc.passing() == []
    settings(calc, "  warn_on_lint_errors: false\n", "")
    lax = calc.run(ugly)
    assert lax.code == 0, lax.text
    assert "lint check... WARNING" in lax.out
    assert calc.passing() == [1]


@pytest.mark.exhaustive
def test_without_the_regression_check_only_the_feature_counts(calc: CalcProject) -> None:
    """UAH-187: a person's word; the next session's checks see what broke."""
    calc.accept(1)
    settings(calc, "testing:\n", "verification:\n  regression_check: false\ntesting:\n")
    breaks = sh("sed -i.bak 's/return a + b/return 7/' src/calc.py && rm src/calc.py.bak")
    ran = calc.run([turn(breaks, honest(2))])
    assert ran.code == 0, ran.text
    assert "checking for regressions" not in ran.out
    assert calc.passing() == [1, 2]
    calc.checked = False  # add is broken, and a person has said that it may be
    calc.state_parses()


@pytest.mark.exhaustive
def test_so_many_features_may_be_claimed_in_a_session(calc: CalcProject) -> None:
    """UAH-186: by default a second claim rejects; where two are allowed, it is no offence by itself."""
    both = [turn(implement(1), edit_features("fs[0]['passes'] = fs[1]['passes'] = True"), commit("Two"), times=9)]
    once = calc.run(both)
    assert once.code == 1, once.text
    assert "Agent claimed multiple features. Max is 1." in once.text
    settings(calc, "testing:\n", "verification:\n  max_features_per_session: 2\ntesting:\n")
    twice = calc.run(both)
    assert "Agent claimed multiple features" not in twice.text


def test_features_may_have_so_many_steps(calc: CalcProject) -> None:
    """UAH-188."""
    settings(calc, "testing:\n", "features:\n  max_verification_steps: 2\ntesting:\n")
    steps = [word for n in range(3) for word in ("--step", f"Step {n}")]
    added = calc.harness("add-feature", "Many steps", *steps)
    assert added.code == 0, added.text
    assert "has 3 verification steps (max recommended: 2)" in added.text


@pytest.mark.exhaustive
def test_a_feature_needs_a_test_file_unless_a_person_says_otherwise(calc: CalcProject) -> None:
    """UAH-190: what has no tests of its own is proven by the suite alone, and shows no run of them."""
    with_features(calc, lambda features: features[0].pop("test_file"))
    refused(calc, "test_file", code=3)
    settings(calc, "testing:\n", "features:\n  require_test_file: false\ntesting:\n")
    prompt = calc.base / "prompt.txt"
    work = [append("src/calc.py", "\n\n" + CODE["add"]), write("tests/test_of_mine.py", proof_text(1))]
    ran = calc.run([turn(prompt_to(prompt), work, claim(1), commit("Implement add"))])
    assert ran.code == 0, ran.text
    assert "Run `python -m pytest tests/ -v` and show" in prompt.read_text()
    assert calc.features["features"][0]["passes"] is True
    calc.checked = False  # its feature names no test that could be green
    calc.state_parses()


@pytest.mark.exhaustive
def test_a_dirty_tree_is_left_alone_when_nobody_looks_at_it(calc: CalcProject) -> None:
    """UAH-223: by default what is uncommitted is put away before the agent is started."""
    seen = calc.base / "seen"
    look = sh(f"cat notes.txt >>'{seen}' 2>/dev/null || echo away >>'{seen}'")
    (calc.root / "notes.txt").write_text("mine\n")
    assert calc.run([turn(look)]).code in (0, 1)
    settings(calc, "testing:\n", "preflight:\n  checks:\n    git_state: false\ntesting:\n")
    (calc.root / "notes.txt").write_text("mine\n")
    calc.run([turn(look)])
    assert seen.read_text().splitlines() == ["away", "mine"]


@pytest.mark.exhaustive
def test_a_broken_baseline_is_met_by_the_agent_when_nobody_looks_at_it(calc: CalcProject) -> None:
    """UAH-225: by default no agent is started over it."""
    assert calc.run([turn(honest(1))]).code == 0
    text = (calc.root / "src/calc.py").read_text()
    with_files(calc, {"src/calc.py": text.replace("return a + b", "return 0")})
    stopped = calc.run([turn(honest(2))])
    assert (stopped.code, "Baseline tests failing" in stopped.err) == (4, True), stopped.text
    settings(calc, "testing:\n", "preflight:\n  checks:\n    baseline_tests: false\ntesting:\n")
    mends = sh("sed -i.bak 's/return 0/return a + b/' src/calc.py && rm src/calc.py.bak")
    ran = calc.run([turn(mends, honest(2))])
    assert ran.code == 0, ran.text
    assert calc.passing() == [1, 2]
