"""What agents are told: each job and each rule of the prompts, word for word where the words matter."""

import json
import re
from pathlib import Path
from typing import Any

from agent_harness.protocols.features import prompts, records
from agent_harness.protocols.features.config import load
from agent_harness.protocols.features.engine.open_session import OpenSession
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.prompts import verification_types
from agent_harness.protocols.features.records import Baseline, CostRecord, Feature, FeatureList, SessionState
from agent_harness.protocols.features.work.feature import opening_prompt

FEATURE: dict[str, Any] = {
    "id": 7,
    "description": "User can sign in",
    "test_file": "tests/e2e/test_login.py",
    "passes": False,
}

MOVED = {"features_file": "plan/list.json", "state_dir": ".state"}


def opening(tmp_path: Path, kind: str, settings: str = "", **feature: Any) -> str:
    """The prompt of a session on a feature."""
    (tmp_path / ".git").mkdir(exist_ok=True)
    (tmp_path / ".harness.yaml").write_text(
        "project:\n  name: calc\ntesting:\n  full: pytest tests/\n  feature: pytest {test_file} -v\n"
        "  sanity:\n    lint: ruff check src\n" + settings
    )
    document = {"features": [{**FEATURE, **feature}, {**FEATURE, "id": 8, "description": "Something else"}]}
    (tmp_path / "features.json").write_text(json.dumps(document))
    empty: dict[str, Any] = {}
    under_way = OpenSession(
        session=4,
        feature_id=7,
        prompt_type=kind,
        started_at="2026-01-01T00:00:00Z",
        checkpoint=empty,
        base=empty,
        rollback=empty,
        features=FeatureList(document),
        state=SessionState(empty),
        baseline=Baseline(empty),
        costs=CostRecord(empty),
        run_id="x",
        git_config=empty,
    )
    return " ".join(opening_prompt(Project.open(tmp_path, load(tmp_path)), under_way, "THE ORIENTATION").split())


def initializer(max_steps: int = 7) -> str:
    places = {"specification": "SPEC", "project": "calc", "progress_file": "claude-progress.txt"}
    given = {**places, "instructions": records.INSTRUCTIONS, "max_steps": str(max_steps), **MOVED}
    return " ".join(prompts.render("initializer", given).split())


def in_order(text: str, *parts: str) -> None:
    places = [text.find(part) for part in parts]
    assert -1 not in places, (parts[places.index(-1)], text)
    assert places == sorted(places)


def test_the_initializer_has_six_jobs(tmp_path: Path) -> None:
    """UAH-014, UAH-235, UAH-253..256, UAH-258, UAH-259, UAH-491, UAH-495."""
    in_order(
        initializer(),
        "SPEC",
        "Analyze the requirements",
        "Write `plan/list.json`",
        "Write `init.sh`",
        "`reset.sh`",
        "Create the project's structure",
        "lint configuration",
        'pytest.fail("Not implemented")',
        "Add the entry of Session 0 to `claude-progress.txt`",
        "`Initial project setup by initializer agent`",
    )


def test_the_initializer_knows_the_shape_of_features_json() -> None:
    """UAH-094, UAH-095, UAH-096, UAH-097, UAH-107..109: the example is valid, and nothing in it is missing."""
    places = {"specification": "", "project": "calc", "progress_file": "p", "instructions": records.INSTRUCTIONS}
    text = prompts.render("initializer", {**places, "max_steps": "7", **MOVED})
    found = re.search(r"```json\n(.*?)```", text, re.DOTALL)
    assert found
    document = json.loads(found[1])
    assert records.problems(FeatureList(document), require_test_file=True) == []
    assert document["generated_by"] == "initializer"
    assert {"project", "generated_by", "last_updated", "features", "instructions"} <= set(document)
    named = {
        "id",
        "category",
        "description",
        "test_file",
        "verification_steps",
        "size_estimate",
        "depends_on",
        "passes",
    }
    assert set(document["features"][0]) == named
    told = document["instructions"]
    assert "'passes' from false to true" in told
    assert "Never remove or edit" in told
    assert "Max 1 feature per session" in told
    for optional in ("verification_type", "visual_verification", "automated_checks", "manual_checks"):
        assert f"`{optional}`" in text


def test_the_initializer_is_told_how_small_features_are() -> None:
    """UAH-102..105, UAH-236, UAH-491: the rules of granularity, with the setting's number of steps."""
    text = initializer(max_steps=5)
    for rule in (
        "completable in a single session",
        "At most 5 verification steps",
        "more than 5 files",
        "more than about 300 lines of new code",
        '"Manage X" is at least create, read, update and delete',
        "Do NOT implement features yet",
    ):
        assert rule in text


def test_a_coding_session_has_one_feature_and_its_jobs(tmp_path: Path) -> None:
    """UAH-014, UAH-237, UAH-238, UAH-250, UAH-283..291, UAH-313, UAH-492, UAH-506, UAH-545, C19, C57: what an agent
    does by itself is asked for, in this order."""
    text = opening(tmp_path, "coding")
    in_order(
        text,
        "THE ORIENTATION",
        "If it broke, run ./init.sh, then ./reset.sh",
        "Run the sanity tests, with lint (ruff check src). If something that worked is broken, FIX IT FIRST",
        "Implement the ONE feature named above, with real tests in its test file. Commit as you go",
        "Run `pytest tests/e2e/test_login.py -v` and show the command and its whole output",
        "Run the full suite (`pytest tests/`) and fix what you broke",
        'Only when the test file passes: set `"passes": true` for this feature',
        "Add an entry to `claude-progress.txt` headed `SESSION 4",
        "Commit: `Implement Feature #7: User can sign in`",
    )
    assert "lint again, and fix what you added" in text
    assert "Something else" not in text


def test_the_quick_checks_of_the_settings_are_named(tmp_path: Path) -> None:
    """UAH-154, UAH-156..158, UAH-284, UAH-313: type check, health and the tests whose folders are there."""
    more = "    type_check: mypy src\n    health: curl -sf localhost/health\n"
    assert "(ruff check src). If" in opening(tmp_path, "coding")
    (tmp_path / "tests/unit").mkdir(parents=True)
    text = opening(tmp_path, "coding", settings=more)
    assert "(ruff check src), `mypy src`, `curl -sf localhost/health`, `" in text
    assert "tests/unit -x`. If something" in text


def test_the_rules_of_verification(tmp_path: Path) -> None:
    """UAH-239, UAH-010: four rules, among them that claims are verified independently."""
    text = opening(tmp_path, "coding")
    for rule in (
        "You MUST run the test file of the feature",
        "You MUST show its output",
        "Only mark it done if the test file passes",
        "The harness will independently verify your claim",
    ):
        assert rule.lower() in text.lower()


def test_prefixes_are_asked_for_and_not_required(tmp_path: Path) -> None:
    """UAH-243, UAH-422, UAH-423."""
    text = opening(tmp_path, "coding")
    assert "the session also works without" in text
    for prefix in ("FILE:READ", "FILE:WRITE", "CMD:RUN", "CMD:EXIT", "VERIFY:START", "VERIFY:PASS", "VERIFY:FAIL"):
        assert f"[{prefix}]" in text


def test_a_continuation_does_not_begin_anew(tmp_path: Path) -> None:
    """UAH-240, UAH-493."""
    text = opening(tmp_path, "continuation")
    assert "THE ORIENTATION" in text
    assert "COMPLETE the partial feature before anything else. Do NOT restart" in text


def test_every_prompt_is_shipped() -> None:
    """UAH-023, C47: one file for each, the cleanup prompt among them."""
    found = {path.stem for path in Path(prompts.__file__).parent.glob("*.md")}
    assert found == set(prompts.NAMES)
    assert {"initializer", "coding", "continuation", "cleanup"} <= found


def test_a_feature_to_be_looked_at_says_how(tmp_path: Path) -> None:
    """UAH-107, UAH-447: the tests come first; then before, after, what was seen, and the two prefixes."""
    look = {"enabled": True, "steps": ["Open /login", "Click Sign in"]}
    in_order(
        opening(tmp_path, "coding", visual_verification=look),
        "First run its test file. Only when it passes",
        "Open /login",
        "Click Sign in",
        "take a screenshot before and after each step, describe what you see",
        "[VISUAL:SCREENSHOT]",
        "[VISUAL:VERIFY]",
    )
    for off in (None, {"enabled": False, "steps": ["Open /login"]}, "yes", {"enabled": True, "steps": 3}):
        assert "Open /login" not in opening(tmp_path, "coding", visual_verification=off)


def test_what_the_agent_checks_and_what_a_person_checks() -> None:
    """UAH-108, UAH-109, UAH-450, UAH-451."""
    checks = {"automated_checks": ["The form posts"], "manual_checks": ["It looks right"]}
    hybrid = verification_types.note_for_agent(Feature({**FEATURE, "verification_type": "hybrid", **checks}))
    in_order(hybrid, "You check:", "- The form posts", "The person will check:", "- It looks right")
    assert "No test has to prove it" in verification_types.note_for_agent(
        Feature({**FEATURE, "verification_type": "manual", **checks})
    )
    assert verification_types.note_for_agent(Feature({**FEATURE, "verification_type": "automated", **checks})) == ""
