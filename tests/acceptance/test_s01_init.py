"""S01: `harness init --spec`: an empty repository becomes a project with a plan, and nothing half made stays behind."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from .calc import INIT, RESET, CalcProject, feature_record, features_text
from .script import Step, Turn, append, commit, honest, progress, proof_path, say, sh, stub_text, turn, usage, write
from .seam import each_seam

MESSAGE = "Initial project setup by initializer agent"


def records(**changes: Any) -> list[dict[str, Any]]:
    """The six features; ``f2={"depends_on": [9]}`` changes one, a value of None removes a member."""
    found = [feature_record(n) for n in range(1, 7)]
    for key, change in changes.items():
        record = found[int(key.removeprefix("f")) - 1]
        record |= change
        for name in [n for n, value in change.items() if value is None]:
            del record[name]
    return found


def plan(features: Sequence[dict[str, Any]]) -> Step:
    return write("features.json", features_text(features))


def initializer(features: Sequence[dict[str, Any]], *more: Step, times: int = 1) -> Turn:
    return turn(
        say("[DECISION] Six small features"),
        plan(features),
        write("init.sh", INIT),
        write("reset.sh", RESET),
        sh("chmod +x init.sh reset.sh"),
        append(".gitignore", "__pycache__/\n.pytest_cache/\n"),
        write("pytest.ini", "[pytest]\npythonpath = src\n"),
        write("src/calc.py", '"""A calculator."""\n'),
        [write(proof_path(n), stub_text(n)) for n in range(1, 7)],
        progress("Set-up.\n\nDECISIONS:\n- six small features\n\nNEXT: Feature #1"),
        commit(MESSAGE),
        list(more),
        usage(1000, 200),
        times=times,
        prompt_type="initializer",
    )


@pytest.fixture
def repository(bare: CalcProject) -> CalcProject:
    """An empty repository: no commit yet, and the specification as an untracked file."""
    bare.git("init", "-q", "-b", "main")
    (bare.root / "spec.md").write_text("# Calculator\n\nAdd, subtract, multiply, divide, raise, report.\n")
    return bare


def init(calc: CalcProject, *turns: Turn) -> Any:
    return calc.harness("init", "--spec", "spec.md", agent=turns)


@each_seam
def test_a_project_is_made(repository: CalcProject) -> None:
    """UAH-043, UAH-078, UAH-079, UAH-080, UAH-081, UAH-082, UAH-083, UAH-084, UAH-086, UAH-087, UAH-093, UAH-123,
    UAH-125, UAH-131, UAH-132, UAH-252, UAH-254, UAH-255, UAH-258, UAH-259, UAH-262, UAH-263, UAH-264, UAH-265,
    UAH-495, C48.
    """
    calc = repository
    ran = init(calc, initializer(records()))
    assert ran.code == 0, ran.text
    lines = [line.strip() for line in ran.out.splitlines()]
    (sha,) = (line.rpartition(" ")[2] for line in lines if line.startswith("Initial commit: "))
    assert calc.head.startswith(sha) and len(sha) >= 7
    wanted = [
        "Running initializer agent...",
        "Created: .harness.yaml (configuration)",
        "Created: features.json (6 features, all with test_file)",
        "Created: init.sh, reset.sh",
        "Created: claude-progress.txt",
        "Created: test stubs for each feature",
        "Added .harness/ to .gitignore",
        f"Initial commit: {sha}",
        "Ready for: harness run",
    ]
    assert [line for line in lines if line in wanted] == wanted, ran.text

    tracked = calc.git("ls-files").splitlines()
    assert {".harness.yaml", "features.json", "init.sh", "reset.sh", "claude-progress.txt", ".gitignore"} <= set(
        tracked
    )
    assert {proof_path(n) for n in range(1, 7)} <= set(tracked)
    assert not [name for name in tracked if name.startswith(".harness/")]
    assert ".harness/" in (calc.root / ".gitignore").read_text().splitlines()
    assert all((calc.root / name).stat().st_mode & 0o111 for name in ("init.sh", "reset.sh"))
    assert calc.git("log", "-1", "--format=%s") == MESSAGE
    assert calc.changes() == []

    state = calc.state
    wanted_state = {
        "status": "complete",
        "next_prompt": "coding",
        "schema_version": 3,
        "harness_version": "1.2.1",
        "stuck_count": 0,
        "timeout_count": 0,
        "last_session": 0,
    }
    assert {key: state.get(key) for key in wanted_state} == wanted_state
    assert calc.baseline["passing_tests"] == []
    assert "src/calc.py" in (calc.root / ".harness/file_sizes.json").read_text()
    assert "Six small features" in str(calc.log("decisions.jsonl"))
    assert calc.costs["cumulative"]["total_tokens"]["input"] == 1000
    calc.cross_cutting()


@pytest.mark.exhaustive
def test_the_linter_that_the_agent_configures_is_in_force(repository: CalcProject) -> None:
    """UAH-180, UAH-258: none is there before the agent has run, and its command is in the first commit."""
    calc = repository
    made = initializer(records())
    made["do"] = [write("ruff.toml", "line-length = 100\n"), *list(made["do"])]  # type: ignore[call-overload]
    ran = init(calc, made)
    assert ran.code == 0, ran.text
    (told,) = (line for line in ran.out.splitlines() if line.strip().startswith("Lint: "))
    assert "ruff check src/" in told
    rows = calc.harness("config", "quality", "--json").json["settings"]
    (row,) = (row for row in rows if row["key"] == "quality.lint_command")
    assert row["value"].endswith("ruff check src/")
    assert "ruff check src/" in calc.git("show", "HEAD:.harness.yaml")


@pytest.mark.exhaustive
def test_a_made_project_runs(repository: CalcProject) -> None:
    """The files that init leaves are enough for the first session."""
    calc = repository
    assert init(calc, initializer(records())).code == 0
    ran = calc.run([turn(honest(1))])
    assert ran.code == 0, ran.text
    assert calc.passing() == [1]
    calc.cross_cutting()


@pytest.mark.exhaustive
def test_the_state_is_not_committed_by_an_agent_that_adds_everything(repository: CalcProject) -> None:
    """N11: not by the planning agent with a .gitignore of its own, and nobody works where it was added by force."""
    calc = repository
    everything = [write(".gitignore", "*.pyc\n"), sh("git add -A && git commit -q -m 'All of it'")]
    assert init(calc, initializer(records(), *everything)).code == 0
    assert ".harness/" not in calc.git("log", "--all", "--format=", "--name-only")
    assert calc.run([turn(honest(1), sh("git add -A"))]).code == 0
    assert ".harness/" not in calc.git("log", "--all", "--format=", "--name-only")
    calc.git("add", "-f", ".harness/logs/events.jsonl")
    calc.git("commit", "-q", "-m", "By force")
    ran = calc.run([turn(honest(2))])
    assert ran.code == 4, ran.text
    assert "git rm -r -q --cached .harness" in ran.err
    calc.git("rm", "-r", "-q", "--cached", ".harness")
    calc.git("commit", "-q", "-m", "Out again")
    assert calc.run([turn(honest(2))]).code == 0


def test_a_folder_without_git_becomes_a_repository(bare: CalcProject) -> None:
    """UAH-252, C48."""
    (bare.root / "spec.md").write_text("# Calculator\n")
    ran = init(bare, initializer(records()))
    assert ran.code == 0, ran.text
    assert bare.git("log", "-1", "--format=%s") == MESSAGE
    assert bare.changes() == []
    bare.cross_cutting()


@pytest.mark.exhaustive
def test_b_a_feature_without_test_file_is_refused(repository: CalcProject) -> None:
    """UAH-097, UAH-260, UAH-494, UAH-551, C48."""
    calc = repository
    faulty = records(f3={"test_file": None})
    ran = init(calc, initializer(faulty), turn(plan(faulty), commit("again"), times=9, prompt_type="initializer"))
    assert ran.code == 1, ran.text
    assert "3" in ran.err and "test_file" in ran.err, ran.text
    assert not (calc.root / ".harness/session_state.json").exists()
    assert calc.processes() == []


@pytest.mark.exhaustive
@each_seam
def test_b_the_repair_turn_is_enough(repository: CalcProject) -> None:
    """UAH-260, C48."""
    calc = repository
    prompts = calc.base / "repair.txt"
    repair = turn({"prompt_to": str(prompts)}, plan(records()), commit("Give every feature a test file"))
    ran = init(calc, initializer(records(f3={"test_file": None})), repair)
    assert ran.code == 0, ran.text
    assert "test_file" in prompts.read_text()
    assert calc.git("log", "-1", "--format=%s") == MESSAGE
    calc.cross_cutting()


@pytest.mark.kept("cycle")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"f1": {"depends_on": [4]}, "f4": {"depends_on": [1]}}, "Dependency cycle detected"),
        ({"f2": {"depends_on": [99]}}, "depends on non-existent Feature 99"),
        ({"f2": {"id": 1}}, "1"),
        ({"f2": {"test_file": "../../outside.py"}}, "test_file"),
    ],
    ids=["cycle", "missing", "twice", "outside"],
)
def test_b_an_impossible_plan_is_refused(repository: CalcProject, changes: dict[str, Any], said: str) -> None:
    """UAH-260, UAH-266, UAH-459, UAH-460."""
    calc = repository
    faulty = records(**changes)
    ran = init(calc, initializer(faulty), turn(plan(faulty), times=9, prompt_type="initializer"))
    assert ran.code == 1, ran.text
    assert said in ran.text
    assert not (calc.root / ".harness/session_state.json").exists()


@pytest.mark.exhaustive
def test_c_a_large_feature_is_flagged(repository: CalcProject) -> None:
    """UAH-102, UAH-113, UAH-261, UAH-552."""
    calc = repository
    ran = init(calc, initializer(records(f2={"verification_steps": [f"step {n}" for n in range(9)]})))
    assert ran.code in {0, 3}, ran.text
    message = "Feature #2 has 9 verification steps (max recommended: 7)."
    assert message in ran.text
    for option in ("1 [S]plit feature", "2 [P]roceed anyway", "3 s[K]ip"):
        assert option in ran.text
    assert message in calc.harness("status").out
    calc.cross_cutting()


@pytest.mark.kept("split")
@pytest.mark.scenario
@pytest.mark.parametrize("chosen", ["split", "2", "k"])
def test_c_a_large_feature_is_asked_about_and_keeps_nobody_from_working(repository: CalcProject, chosen: str) -> None:
    """UAH-113 UAH-401 UAH-533 UAH-552 C11 C12 C42 S01: stored until it is answered; a run needs no answer."""
    calc = repository
    steps = [f"step {n}" for n in range(9)]
    assert init(calc, initializer(records(f2={"verification_steps": steps}))).code == 0
    ran = calc.run([turn(honest(1))])
    assert ran.code == 0, ran.text
    assert calc.state["pending_escalation"]["options"] == ["split", "proceed", "skip"]
    answered = calc.harness("resume", "--choose", chosen)
    assert answered.code == 0, answered.text
    assert calc.state["pending_escalation"] is None
    following = calc.harness("run", "--dry-run", "--json").json["feature_id"]
    assert following == (2 if chosen == "2" else 3)
    if chosen == "split":
        parts = [line for line in answered.out.splitlines() if "harness add-feature '" in line]
        assert [line.count("--step ") for line in parts] == [7, 2]
    second = calc.run([turn(honest(following))])
    assert second.code == 0, second.text
    assert calc.state["pending_escalation"] is None, "it is not asked again"
    calc.cross_cutting()


def test_a_project_is_not_made_twice(calc: CalcProject) -> None:
    """UAH-003, C48."""
    (calc.root / "spec.md").write_text("# Again\n")
    before = calc.fingerprint()
    ran = calc.harness("init", "--spec", "spec.md", agent=[initializer(records())])
    assert ran.code == 4, ran.text
    assert calc.fingerprint() == before


def test_an_agent_that_plans_nothing_leaves_no_project(repository: CalcProject) -> None:
    """UAH-260, C48."""
    calc = repository
    ran = init(calc, turn(say("I would rather not."), times=9))
    assert ran.code == 1, ran.text
    assert "features.json" in ran.err
    assert not (calc.root / ".harness/session_state.json").exists()
    assert calc.processes() == []
    assert Path(calc.root / "spec.md").exists()


@pytest.mark.exhaustive
def test_files_may_be_elsewhere(repository: CalcProject) -> None:
    """UAH-083, UAH-093, UAH-165, UAH-203, UAH-204, UAH-205: ignored wherever it is, and not made twice."""
    from .script import implement

    calc = repository
    paths = "paths:\n  features: plan/list.json\n  progress: plan/story.txt\n  state_dir: .state\n"
    models = "models:\n  initializer: thorough\n"
    full = "testing:\n  full: python3 -m pytest tests/ -v\n"
    calc.put({".harness.yaml": f"project:\n  name: calc\n{models}{paths}{full}"})
    listed = [write("plan/list.json", features_text(records()))]
    stubs = [write(proof_path(n), stub_text(n)) for n in range(1, 7)]
    extra = [write("pytest.ini", "[pytest]\npythonpath = src\n"), write("src/calc.py", '"""A calculator."""\n')]
    look = sh(f"echo $HARNESS_PROMPT_TYPE $HARNESS_MODEL >'{calc.base}/model'")
    ran = init(calc, turn(look, listed, stubs, extra, prompt_type="initializer"))
    assert ran.code == 0, ran.text
    assert (calc.base / "model").read_text() == "initializer thorough\n"
    assert "Added .state/ to .gitignore" in ran.out
    assert calc.changes() == []
    assert not (calc.root / ".harness").exists()
    again = init(calc, turn(listed))
    assert (again.code, "already initialised" in again.text) == (4, True), again.text
    marks = sh('sed -i.bak \'0,/"passes": false/s//"passes": true/\' plan/list.json && rm plan/list.json.bak')
    done = calc.run([turn(implement(1), sh(f"python3 -m pytest {proof_path(1)} -v"), marks)])
    assert done.code == 0, done.text
    assert (calc.root / ".state/session_state.json").exists()
    assert calc.changes() == []
    assert "SESSION 1" in (calc.root / "plan/story.txt").read_text()
