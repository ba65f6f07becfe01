"""Looking and adding: health, config, add-feature."""

import json

import pytest

from .calc import CalcProject
from .script import CODE, append, honest, prompt_to, proof_path, sh, turn


def test_health_is_measured_on_what_is_there_now(calc: CalcProject) -> None:
    """UAH-052, UAH-054, UAH-314, UAH-438, UAH-439, UAH-440, UAH-441, UAH-442, UAH-517, C36, C52."""
    calc.accept(1)
    before = calc.fingerprint()
    told = calc.harness("health")
    assert told.code == 0, told.text
    for line in ("Project: calc", "FEATURES: 1/6 passing (16%)", "TESTS: 2/2 passing (100%)"):
        assert line in told.out
    for line in ("LINT: 0 errors, 0 warnings", "FILE HEALTH:", "✓", "OVERALL HEALTH: FAIR"):
        assert line in told.out
    assert "Next cleanup due: After Feature #10" in told.out
    calc.put({"src/bad.py": "x = 1   \n"})
    assert "LINT: 1 error, 0 warnings (1 E501) in src/bad.py\n" in calc.harness("health").out
    (calc.root / "src/bad.py").unlink()
    assert calc.fingerprint(without=(".git/index", ".git/refs/harness", ".git/refs/harness/verify")).keys() >= {
        name for name in before if name.startswith(("src", "features", ".harness/"))
    }
    calc.put({"src/calc.py": CODE["add"].replace("a + b", "77") + "\n" + "x = 1   \n" * 412})
    found = calc.harness("health", "--json").json
    assert found["tests"] == {"passing": 0, "total": 2, "percent": 0, "problem": None}
    assert found["lint"]["errors"] == 412
    assert [row["path"] for row in found["files"]["large"]] == ["src/calc.py"]
    assert found["word"] == "POOR"
    calc.git("checkout", "-q", "--", ".")


def test_config_names_every_value_and_where_it_comes_from(calc: CalcProject) -> None:
    """UAH-148, UAH-162, UAH-217."""
    environ = {"HARNESS_COSTS__PER_FEATURE_USD": "7"}
    shown = calc.harness("config", "--show-origin", environ=environ)
    assert shown.code == 0, shown.text
    lines = [line.split(None, 1) for line in shown.out.splitlines()]
    origin = {rest.partition(":")[0]: (first, rest.partition(": ")[2]) for first, rest in lines}
    assert origin["project.name"] == ("file", '"calc"')
    assert origin["costs.per_feature_usd"] == ("environment", "7.0")
    assert origin["session.timeout_minutes"] == ("default", "60.0")
    part = calc.harness("config", "costs", "--json")
    assert {row["key"].split(".")[0] for row in part.json["settings"]} == {"costs"}
    assert calc.harness("config", "nonsense").code == 2


def test_a_feature_is_added_with_its_stub_and_can_be_built(calc: CalcProject) -> None:
    """UAH-071, UAH-074, UAH-257, UAH-266, C65."""
    done = calc.harness("add-feature", "User can take the modulo", "--depends-on", "1", "--step", "Call it")
    assert done.code == 0, done.text
    feature = calc.features["features"][-1]
    assert (feature["id"], feature["passes"], feature["depends_on"]) == (7, False, [1])
    assert feature["test_file"] == "tests/e2e/test_user_can_take_the_modulo.py"
    assert calc.pytest(feature["test_file"]) == 1
    assert calc.changes() == []
    head = calc.head
    for wrong in (("x", "--depends-on", "99"), ("x", "--test-file", "../out.py"), ("  ",)):
        refused = calc.harness("add-feature", *wrong, "--json")
        assert refused.code == 2, refused.text
        assert json.loads(refused.out)["error"]["hint"]
    (calc.root / "features.json").write_text((calc.root / "features.json").read_text() + "\n")
    dirty = calc.harness("add-feature", "x")
    assert dirty.code == 4, dirty.text
    assert "git commit features.json" in dirty.err
    calc.git("checkout", "-q", "--", ".")
    assert calc.head == head
    assert calc.changes() == []
    calc.git("push", "-q")
    assert calc.run([turn(honest(1))]).code == 0
    assert "#2" in calc.harness("run", "--dry-run").out


@pytest.mark.exhaustive
def test_every_member_of_a_feature_that_a_person_decides_has_an_option(calc: CalcProject) -> None:
    """UAH-071, UAH-106: what is left out is not written, and a priority is kept to."""
    plain = calc.harness("add-feature", "One", "--json").json["feature"]
    names = {"id", "category", "description", "test_file", "verification_steps", "size_estimate", "passes"}
    assert set(plain) == names
    words = ["--priority", "1", "--size", "large", "--no-requires-red", "--verification", "hybrid"]
    words += ["--automated-check", "It exports", "--manual-check", "It is legible", "--manual-check", "It prints"]
    words += ["--visual-step", "Open /report", "--may-change", "tests/e2e/test_add.py"]
    assert calc.harness("add-feature", "Report", *words).code == 0
    feature = calc.features["features"][-1]
    assert {name: value for name, value in feature.items() if name not in names} == {
        "priority": 1,
        "requires_red": False,
        "verification_type": "hybrid",
        "automated_checks": ["It exports"],
        "manual_checks": ["It is legible", "It prints"],
        "visual_verification": {"enabled": True, "steps": ["Open /report"]},
        "may_change": ["tests/e2e/test_add.py"],
    }
    assert feature["size_estimate"] == "large"
    assert "#8" in calc.harness("run", "--dry-run").out
    head = calc.head
    assert calc.harness("add-feature", "Two", "--manual-check", "x").code == 2
    assert calc.head == head


@pytest.mark.exhaustive
def test_staged_work_of_a_person_stays_out_of_our_commit(calc: CalcProject) -> None:
    """C65."""
    calc.put({"NOTES": "mine\n"})
    calc.git("add", "NOTES")
    assert calc.harness("add-feature", "More").code == 0
    assert calc.changes() == ["A  NOTES"]
    calc.git("rm", "-q", "-f", "NOTES")


@pytest.mark.exhaustive
def test_questions_are_answered_by_word_letter_and_number(calc: CalcProject) -> None:
    """UAH-364, UAH-392, UAH-335, C11, C12, C35, S20 c."""
    lost = turn(append("src/calc.py", "\n\nHALF = 1\n"), times=9)
    codes = [calc.run([lost]).code for _ in range(2)]
    third = calc.run([lost])
    assert (*codes, third.code) == (0, 0, 3), third.text
    assert "Feature #1 has failed to complete in 3 sessions." in third.text
    for option in ("[S]plit", "[M]anual", "s[K]ip", "[A]bort"):
        assert option in third.text
    head = calc.head
    refused = calc.run([lost])
    assert refused.code == 3
    assert "Feature #1 has failed to complete in 3 sessions." in refused.err
    assert calc.head == head
    assert "Needs your answer" in calc.harness("status").out
    assert calc.harness("resume").code == 2
    assert calc.harness("resume", "--choose", "9").code == 2
    answered = calc.harness("resume", "--choose", "K", "--json")
    assert answered.code == 0, answered.text
    assert answered.json["answered"] == "skip"
    assert "HALF" not in (calc.root / "src/calc.py").read_text()
    assert "skipped" in calc.features["features"][0]
    assert calc.state["pending_escalation"] is None
    ran = calc.run([turn(honest(2))])
    assert ran.code == 0, ran.text
    assert "Agent working on Feature #2" in ran.out


def test_a_budget_that_is_exceeded_asks_and_can_be_raised(calc: CalcProject) -> None:
    """UAH-398, UAH-417, UAH-419, C27, S19 b."""
    from .script import sleep, usage

    calc.put({".harness.yaml": (calc.root / ".harness.yaml").read_text() + "costs: # mine\n  per_session_usd: 10\n"})
    calc.commit("A budget")
    dear = turn(append("src/calc.py", "\n\nHALF = 1\n"), usage(10, 10, cost=15.0), sleep(30))
    ran = calc.run([dear])
    assert ran.code == 3, ran.text
    assert "Session cost $15.00 exceeds budget $10.00." in ran.text
    assert calc.state["termination_reason"] == "budget_exceeded"
    assert calc.costs["cumulative"]["total_cost_usd"] == 15.0
    assert calc.run([turn(honest(1))]).code == 3
    assert calc.harness("resume", "--choose", "increase", "--budget", "5").code == 2
    raised = calc.harness("resume", "--choose", "i", "--budget", "20")
    assert raised.code == 0, raised.text
    settings = (calc.root / ".harness.yaml").read_text()
    assert "per_session_usd: 20" in settings
    assert "# mine" in settings
    assert calc.changes(without=("claude-progress.txt",)) == []
    assert calc.run([turn(honest(1))]).code == 0


@pytest.mark.exhaustive
def test_a_circle_of_dependencies_is_asked_about(calc: CalcProject) -> None:
    """UAH-399, UAH-459, UAH-461, S18."""
    document = calc.features
    document["features"][1]["depends_on"] = [3]
    document["features"][2]["depends_on"] = [2]
    (calc.root / "features.json").write_text(json.dumps(document, indent=2) + "\n")
    calc.commit("A circle")
    ran = calc.run([turn(honest(1))])
    assert ran.code == 3, ran.text
    assert "Dependency cycle detected: 2 → 3 → 2" in ran.err
    assert "harness resume --choose edit # or skip, abort" in ran.err
    asked = calc.harness("resume")
    assert asked.code == 2
    assert "Feature #2 depends on #3 which depends on #2." in asked.err
    assert calc.harness("resume", "--choose", "skip").code == 0
    assert [f["id"] for f in calc.features["features"] if "skipped" in f] == [2, 3]
    calc.git("push", "-q")
    assert calc.run([turn(honest(1))]).code == 0


def test_false_positives_are_asked_about_and_opened_again(calc: CalcProject) -> None:
    """UAH-400, UAH-482, UAH-483, UAH-488, UAH-489, S21 b."""
    calc.accept(1, 2, 3, 4, 5, 6)
    good = calc.run([turn(honest(1))])
    assert good.code == 0, good.text
    assert "All 6 features are passing!" in good.out
    assert "Full suite: 12 passed" in good.out
    text = (calc.root / "src/calc.py").read_text()
    (calc.root / "src/calc.py").write_text(text.replace("return a - b", "return 0"))
    calc.commit("Oops")
    before = calc.features
    bad = calc.run([turn(honest(1))])
    assert bad.code == 3, bad.text
    assert "6/6 features marked passing but the suite has" in bad.err
    assert calc.features == before
    opened = calc.harness("resume", "--choose", "reset")
    assert opened.code == 0, opened.text
    assert calc.passing() == [1, 3, 4, 5, 6]
    calc.git("push", "-q")
    assert proof_path(2) in calc.harness("run", "--dry-run").out


def test_new_lint_findings_are_counted_apart_and_by_code(calc: CalcProject) -> None:
    """UAH-047, UAH-054, UAH-284, UAH-313, UAH-506, UAH-545: the next session is asked to run the very linter."""
    calc.accept(1)
    calc.put({"src/old.py": "x = 1   \n"})
    calc.commit("An old fault")
    calc.git("push", "-q")
    ran = calc.run([turn(append("src/new.py", "y = 1   \n" * 2), honest(2))])
    assert ran.code == 0, ran.text
    assert "Verifying: lint check... WARNING" in ran.out
    assert "Warning: Lint errors introduced. Agent should fix. New: 2 E501; 3 in all." in ran.out
    assert "checking for regressions... PASSED: 2 known tests still pass, " in ran.out
    status = calc.harness("status")
    assert (
        "Lint: 3 errors, 0 warnings (3 E501) in src/new.py, src/old.py; 2 introduced by the last accepted session"
        in status.out
    )
    prompt, said = calc.base / "prompt.txt", calc.base / "lint.txt"
    command = f"$(sed -n 's/.*with lint (\\([^)]*\\)).*/\\1/p' {prompt} | head -1)"
    ran = calc.run([turn(prompt_to(prompt), sh(f"{command} > {said}; true"), honest(3))])
    assert ran.code == 0, ran.text
    assert "3 lint errors (3 E501)" in prompt.read_text()
    assert said.read_text().count("E501") == 3
    assert "Warning: Lint errors. None is new; 3 in all." in ran.out


@pytest.mark.exhaustive
def test_the_state_that_the_document_shows_continues(calc: CalcProject) -> None:
    """UAH-115, UAH-116: only the members of its sample, nothing that only the harness writes."""
    calc.accept(1)
    sample = {
        "last_session": 7,
        "status": "partial",
        "current_feature": 2,
        "termination_reason": "context_limit",
        "next_prompt": "continuation",
        "stuck_count": 0,
        "timestamp": "2025-01-16T14:30:00Z",
    }
    (calc.root / ".harness/session_state.json").write_text(json.dumps(sample))
    prompt = calc.base / "prompt.txt"
    ran = calc.run([turn(prompt_to(prompt), honest(2))])
    assert ran.code == 0, ran.text
    assert "Prompt type: continuation" in ran.out
    assert "PARTIAL (context limit in Session 7)" in prompt.read_text()
    assert "Last Session (Session 7)" in prompt.read_text()
    assert calc.passing() == [1, 2]


@pytest.mark.exhaustive
def test_what_was_skipped_is_shown_with_its_reason(calc: CalcProject) -> None:
    """UAH-059, C53: in status, and at the end of a run that is not plainly complete."""
    calc.accept(1, 2, 3, 4)
    assert calc.harness("skip", "--feature", "5", "--reason", "waits for the new API").code == 0
    assert calc.harness("skip", "--feature", "6").code == 0
    shown = calc.harness("status").out
    assert "Skipped: Feature #5 (User can pow two numbers): waits for the new API" in shown
    assert "Skipped: Feature #6 (User can report two numbers): skipped by a person" in shown
    done = calc.harness("run", "--json", agent=[turn(honest(1))])
    assert done.code == 0, done.text
    assert [(row["id"], row["reason"]) for row in done.json["skipped"]] == [
        (5, "waits for the new API"),
        (6, "skipped by a person"),
    ]
    assert "- Feature #5 (User can pow two numbers) was skipped: waits for the new API" in done.err
    assert "Complete except for skipped features." in done.err
    assert "Project complete" not in done.text
    assert "harness skip --feature N --undo" in done.err


@pytest.mark.exhaustive
def test_files_that_grow_are_on_record(calc: CalcProject) -> None:
    """UAH-315: said once, kept as an event, in status until the next session is accepted."""
    lines = "".join(f"# {n}\n" for n in range(60))
    calc.harness("status")
    assert calc.run([turn([append("src/calc.py", lines), *honest(1)])]).code == 0
    told = "src/calc.py growing rapidly (64 lines in 1 session)."
    assert f"Files: {told}" in calc.harness("status").out
    (row,) = calc.events("file_alert", "IMPORTANT")
    assert (row["session"], row["path"], row["grown"], row["message"]) == (1, "src/calc.py", 64, told)
    assert told in calc.harness("log", "query", "growing").out
    assert calc.run([turn(honest(2))]).code == 0
    assert "Files:" not in calc.harness("status").out
    assert len(calc.events("file_alert")) == 1
