"""Prompts of agents: each job and each rule, word for word if the words matter."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_harness.kernel.git import DETACHED
from agent_harness.kernel.snapshot import Snapshot
from agent_harness.protocols.features import prompts, records
from agent_harness.protocols.features.config import load
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Baseline, CostRecord, Feature, FeatureList, SessionState
from agent_harness.protocols.features.sessions.checkpoints import SessionCheckpoint
from agent_harness.protocols.features.sessions.open_session import OpenSession
from agent_harness.protocols.features.work.feature import opening_prompt

FEATURE: dict[str, Any] = {
    "id": 7,
    "description": "User can sign in",
    "test_file": "tests/e2e/test_login.py",
    "passes": False,
}

MOVED = {"features_file": "plan/list.json", "state_dir": ".state"}


def opening(tmp_path: Path, kind: str, settings: str = "", worked: Sequence[str] = (), **feature: Any) -> str:
    """The prompt of a session on a feature; ``worked`` are the tests of the baseline."""
    (tmp_path / ".git").mkdir(exist_ok=True)
    (tmp_path / ".harness.yaml").write_text(
        "project:\n  name: calc\ntesting:\n  full: pytest tests/\n  feature: pytest {test_file} -v\n"
        "  sanity:\n    lint: ruff check src\n" + settings
    )
    document = {"features": [{**FEATURE, **feature}, {**FEATURE, "id": 8, "description": "Something else"}]}
    (tmp_path / "features.json").write_text(json.dumps(document))
    empty: dict[str, Any] = {}
    snapshot = Snapshot.from_record({**dict.fromkeys(Snapshot.__dataclass_fields__, "x"), "branch": DETACHED})
    checkpoint = SessionCheckpoint(snapshot=snapshot)
    under_way = OpenSession(
        session=4,
        feature_id=7,
        prompt_type=kind,
        started_at="2026-01-01T00:00:00Z",
        checkpoint=checkpoint,
        base=checkpoint,
        rollback=checkpoint,
        features=FeatureList(document),
        state=SessionState(empty),
        baseline=Baseline({"passing_tests": list(worked)}),
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
    """UAH-014, UAH-145, UAH-235, UAH-253, UAH-254, UAH-255, UAH-256, UAH-258, UAH-259, UAH-491, UAH-495."""
    in_order(
        initializer(),
        "SPEC",
        "Analyze the requirements",
        "Write `plan/list.json`",
        "Write `init.sh`",
        "`reset.sh`",
        "stops what init.sh started, and nothing else; makes development data anew, clears caches",
        "waits 30 seconds at most, and ends with 1",
        "Create the project's structure",
        "lint configuration",
        'pytest.fail("Not implemented")',
        "Add the entry of Session 0 to `claude-progress.txt`",
        "`Initial project setup by initializer agent`",
    )


def test_the_initializer_knows_the_shape_of_features_json() -> None:
    """UAH-094, UAH-095, UAH-096, UAH-097, UAH-107, UAH-108, UAH-109: the example is valid and whole."""
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
    """UAH-102, UAH-103, UAH-104, UAH-105, UAH-236, UAH-491: granularity, with the setting's number of steps."""
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
    """The prompt asks for the agent's own jobs, in this order.

    UAH-014, UAH-237, UAH-238, UAH-250, UAH-283, UAH-284, UAH-285, UAH-286, UAH-287, UAH-288, UAH-289, UAH-290, UAH-291,
    UAH-492, C19, C57
    """
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
    """UAH-154, UAH-156, UAH-157, UAH-158, UAH-284, UAH-313: type check, health, tests as far as some passed."""
    more = "    type_check: mypy src\n    health: curl -sf localhost/health\n"
    assert "(ruff check src). If" in opening(tmp_path, "coding")
    text = opening(tmp_path, "coding", settings=more)
    assert "(ruff check src), `mypy src`, `curl -sf localhost/health`. If something" in text
    for name in ("unit/test_sum.py", "e2e/test_login.py", "e2e/test_other.py"):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).touch()
    worked = ["tests/unit/test_sum.py::test_sum"]
    text, script = opening(tmp_path, "coding", worked=worked), tmp_path / ".harness/sanity.sh"
    assert "(ruff check src), `sh .harness/sanity.sh`. If something" in text
    assert "{ pytest --ignore=tests/e2e/test_login.py tests/; }" in script.read_text()
    own = "  unit: pytest tests/unit -xq --maxfail=1\n  e2e: pytest tests/e2e -x\n"
    opening(tmp_path, "coding", settings=own, worked=worked)
    last = script.read_text().splitlines()[-1]
    assert last.endswith(" && { pytest --ignore=tests/e2e/test_login.py tests/unit -q; }"), "nothing passed elsewhere"
    again = [*worked, "tests/e2e/test_login.py::test_it"]
    both = "`pytest tests/unit -q`, `pytest tests/e2e`. If"
    assert both in opening(tmp_path, "coding", settings=own, worked=again), "what worked there must work"
    other = "  unit: npm test -- -x\n"
    assert "(ruff check src), `npm test -- -x`. If" in opening(tmp_path, "coding", settings=other, worked=["a"])


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
        "Leave images in `.harness/screenshots/` and nowhere else",
    )
    for off in (None, {"enabled": False, "steps": ["Open /login"]}, "yes", {"enabled": True, "steps": 3}):
        assert "Open /login" not in opening(tmp_path, "coding", visual_verification=off)


def test_what_the_agent_checks_and_what_a_person_checks() -> None:
    """UAH-108, UAH-109, UAH-450, UAH-451."""
    checks = {"automated_checks": ["The form posts"], "manual_checks": ["It looks right"]}
    hybrid = prompts.note_for_agent(Feature({**FEATURE, "verification_type": "hybrid", **checks}), "")
    in_order(hybrid, "You check:", "- The form posts", "The person will check:", "- It looks right")
    manual = prompts.note_for_agent(Feature({**FEATURE, "verification_type": "manual", **checks}), "")
    assert "No test has to prove it" in manual
    assert prompts.note_for_agent(Feature({**FEATURE, "verification_type": "automated", **checks}), "") == ""
