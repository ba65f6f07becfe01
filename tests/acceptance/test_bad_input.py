"""Bad input: one line, the next step, the right exit code, and a disk as it was before."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from .calc import CalcProject
from .script import honest, turn

Setup = Callable[[CalcProject], object]
BY_THE_WAY = (".harness/logs/", ".harness/lock", ".git/harness")  # a refused run may be logged, and takes its lock


@dataclass(frozen=True)
class Case:
    """Bad input, the command that meets it, and the answer that it must give."""

    setup: Setup
    codes: Sequence[int]
    says: str  # a word of the error line
    args: Sequence[str] = ("run",)
    agent: bool = True
    environ: dict[str, str] = field(default_factory=dict)
    keeps: tuple[str, ...] = ()  # what the harness writes down all the same


def put(name: str, text: str | bytes) -> Setup:
    data = text.encode() if isinstance(text, str) else text
    return lambda calc: (calc.root / name).write_bytes(data)


def remove(name: str) -> Setup:
    def act(calc: CalcProject) -> None:
        path = calc.root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return act


def nothing(calc: CalcProject) -> None:
    """The input is on the command line."""


def file_for_folder(name: str) -> Setup:
    def act(calc: CalcProject) -> None:
        shutil.rmtree(calc.root / name)
        (calc.root / name).write_text("not a folder\n")

    return act


def unborn(calc: CalcProject) -> None:
    shutil.rmtree(calc.root / ".git")
    calc.git("init", "-q", "-b", "main")
    (calc.root / ".git/logs").mkdir()  # git makes it with the first commit, and the harness with its first look


def merging(calc: CalcProject) -> None:
    calc.git("checkout", "-q", "-b", "other")
    calc.put({"src/calc.py": "other = 1\n"})
    calc.commit("Other")
    calc.git("checkout", "-q", "main")
    calc.put({"src/calc.py": "mine = 1\n"})
    calc.commit("Mine")
    calc.git("merge", "-q", "other", check=False)
    assert (calc.root / ".git/MERGE_HEAD").exists()


def stray(calc: CalcProject) -> None:
    """Detached at a commit that is on no branch."""
    calc.git("checkout", "-q", "--detach")
    calc.put({"stray.txt": "x\n"})
    calc.commit("Stray")


def cyclic(calc: CalcProject) -> None:
    document = calc.features
    document["features"][2]["depends_on"] = [4]
    calc.put({"features.json": json.dumps(document, indent=2) + "\n"})
    calc.commit("Turn in a circle")


def depends_on_nothing(calc: CalcProject) -> None:
    document = calc.features
    document["features"][2]["depends_on"] = [99]
    calc.put({"features.json": json.dumps(document, indent=2) + "\n"})
    calc.commit("Depend on nothing")


def not_executable(calc: CalcProject) -> None:
    (calc.root / "init.sh").chmod(0o644)
    calc.commit("Take the bit away")


def without_git(calc: CalcProject) -> None:
    """A PATH with Python and a shell, and no git."""
    tools = calc.base / "no-git"
    tools.mkdir()
    for name, target in (("python", sys.executable), ("python3", sys.executable), ("sh", shutil.which("sh"))):
        (tools / name).symlink_to(str(target))
    calc.environ["PATH"] = str(tools)


def without_clients(calc: CalcProject) -> None:
    """A PATH with git and no client of any agent."""
    tools = calc.base / "no-client"
    tools.mkdir()
    for name in ("git", "sh"):
        (tools / name).symlink_to(str(shutil.which(name)))
    calc.environ["PATH"] = os.pathsep.join([str(tools), str(Path(sys.executable).parent)])


CASES: dict[str, Case] = {
    # settings
    "settings-broken": Case(put(".harness.yaml", "project: {name: calc\n"), [3], ".harness.yaml:2"),
    "settings-empty": Case(put(".harness.yaml", ""), [3], "project.name"),
    "settings-binary": Case(put(".harness.yaml", b"\xff\xfe\x00"), [3], ".harness.yaml"),
    "settings-wrong-type": Case(
        put(".harness.yaml", "project: {name: calc}\ncosts:\n  per_session_usd: much\n"), [3], ".harness.yaml:3"
    ),
    "settings-missing": Case(remove(".harness.yaml"), [3, 4], ".harness.yaml"),
    # the feature list
    "features-broken": Case(put("features.json", '{"features": ['), [6], "features.json"),
    "features-empty": Case(put("features.json", ""), [6], "features.json"),
    "features-a-list": Case(put("features.json", "[]"), [6], "features.json"),
    "features-binary": Case(put("features.json", b"\x80\x81\x82"), [6], "features.json"),
    "features-deep": Case(put("features.json", "[" * 100_000), [6], "features.json"),
    "features-missing": Case(remove("features.json"), [4, 6], "features.json"),
    "features-no-test-file": Case(
        put("features.json", '{"project": "calc", "features": [{"id": 1, "description": "x", "passes": false}]}'),
        [3, 4, 6],
        "test_file",
    ),
    "features-cyclic": Case(  # a question for a person, which is kept
        cyclic, [3, 4], "Dependency cycle detected", keeps=(".harness/session_state.json",)
    ),
    "features-missing-dependency": Case(depends_on_nothing, [3, 4], "depends on non-existent Feature 99"),
    # state
    "state-broken": Case(put(".harness/session_state.json", '{"last_session": '), [6], "session_state.json"),
    "state-a-list": Case(put(".harness/session_state.json", "[1]"), [6], "session_state.json"),
    "baseline-broken": Case(put(".harness/test_baseline.json", "{"), [6], "test_baseline.json"),
    "costs-broken": Case(put(".harness/costs.yaml", "a: [\n"), [6], "costs.yaml"),
    "state-missing": Case(remove(".harness/session_state.json"), [4], "state"),
    "state-is-a-file": Case(file_for_folder(".harness"), [4, 6], ".harness"),
    "logs-are-a-file": Case(file_for_folder(".harness/logs"), [4, 6], "logs"),
    # the other files
    "progress-missing": Case(remove("claude-progress.txt"), [4], "claude-progress.txt"),
    "init-missing": Case(remove("init.sh"), [4], "init.sh"),
    "init-not-executable": Case(not_executable, [4], "init.sh"),
    # git
    "no-git": Case(without_git, [4], "git"),
    "no-repository": Case(remove(".git"), [4], "git"),
    "unborn-branch": Case(unborn, [4], "commit"),
    "merge-under-way": Case(merging, [4], "merge"),
    "stray-commit": Case(stray, [4], "detached"),
    "index-locked": Case(put(".git/index.lock", ""), [4, 5], "index.lock"),
    # agents
    "agent-unknown": Case(nothing, [2], "nonsense", ("run", "--agent", "nonsense"), agent=False),
    "agent-unknown-by-environment": Case(nothing, [2], "nonsense", agent=False, environ={"HARNESS_AGENT": "nonsense"}),
    "agent-missing": Case(nothing, [4], "no-such-agent", ("run", "--agent", "command:no-such-agent -x"), agent=False),
    "agent-script-missing": Case(
        nothing, [2, 3, 4], "nope.json", ("run", "--agent", "scripted:nope.json"), agent=False
    ),
    "agent-none": Case(without_clients, [2], "agent", agent=False),
    # the command line
    "command-unknown": Case(nothing, [2], "runn", ("runn",), agent=False),
    "option-unknown": Case(nothing, [2], "--fast", ("run", "--fast"), agent=False),
    "option-without-value": Case(nothing, [2], "feature", ("verify",), agent=False),
    "option-wrong-value": Case(nothing, [2], "many", ("verify", "--feature", "many"), agent=False),
    "feature-unknown": Case(nothing, [2], "99", ("verify", "--feature", "99"), agent=False),
    "status-of-broken-state": Case(put("features.json", "{"), [6], "features.json", ("status",), agent=False),
}


BY_A_PROCESS = {
    # each exit code, each part of the program that refuses, and what only a process is started with
    *("settings-broken", "features-deep", "features-cyclic", "state-broken", "state-missing", "no-git", "index-locked"),
    *("agent-unknown-by-environment", "agent-none", "command-unknown", "option-wrong-value", "status-of-broken-state"),
}


def check(calc: CalcProject, case: Case, *, by_a_process: bool = False) -> None:
    """Runs the command twice, for a person and for a program."""
    case.setup(calc)
    before = stripped(calc.fingerprint(), case.keeps)
    agent = [turn(honest(1))] if case.agent else None
    harness = calc.harness if by_a_process else calc.here

    ran = harness(*case.args, agent=agent, environ=case.environ)
    assert ran.code in case.codes, (ran.code, ran.text)
    assert len(ran.err.splitlines()) == 2, f"one line, and the next step:\n{ran.err}"
    error, hint = ran.err.splitlines()
    assert error.startswith("harness: ")
    assert case.says in error, ran.err
    assert hint.startswith("next: ") and len(hint) > 10
    assert stripped(calc.fingerprint(), case.keeps) == before

    machine = harness(*case.args, "--json", agent=agent, environ=case.environ)
    assert machine.code == ran.code, machine.text
    answer = json.loads(machine.out)
    assert answer["ok"] is False
    assert set(answer["error"]) >= {"code", "message", "hint"}
    assert case.says in answer["error"]["message"]
    assert stripped(calc.fingerprint(), case.keeps) == before
    assert calc.processes() == []


def stripped(found: dict[str, str], keeps: tuple[str, ...] = ()) -> dict[str, str]:
    return {name: text for name, text in found.items() if not name.startswith((*BY_THE_WAY, *keeps))}


@pytest.mark.kept(
    "settings-missing",
    "features-binary",
    "features-missing",
    "features-no-test-file",
    "features-missing-dependency",
    "state-broken",
    "state-a-list",
    "baseline-broken",
    "state-missing",
    "state-is-a-file",
    "logs-are-a-file",
    "init-missing",
    "init-not-executable",
    "no-git",
    "no-repository",
    "unborn-branch",
    "merge-under-way",
    "stray-commit",
    "index-locked",
    "agent-unknown",
    "feature-unknown",
    "settings-broken",
)
@pytest.mark.parametrize("name", CASES)
def test_bad_input(calc: CalcProject, name: str) -> None:
    calc.checked = False
    check(calc, CASES[name], by_a_process=name in BY_A_PROCESS)


def test_a_circle_changes_nothing_but_the_question(calc: CalcProject) -> None:
    calc.checked = False
    cyclic(calc)
    before = calc.state
    assert calc.run([turn(honest(1))]).code == 3
    after = calc.state
    assert after["pending_escalation"]["type"] == "dependency_cycle"
    assert {name: after[name] for name in before if name != "pending_escalation"} == {
        name: value for name, value in before.items() if name != "pending_escalation"
    }
    more = {name: value for name, value in after.items() if name not in before and value}
    assert list(more) in ([], ["pending_escalation"]), more


@pytest.mark.exhaustive
@pytest.mark.parametrize("command", ["run", "status", "resume"])
def test_no_project_here(bare: CalcProject, command: str) -> None:
    check(bare, Case(nothing, [4], "project", (command,), agent=False))


SPECS: dict[str, Setup] = {
    "missing": nothing,
    "empty": put("spec.md", ""),
    "blank": put("spec.md", " \n\n\t\n"),
    "binary": put("spec.md", bytes(range(256)) * 8),
    "folder": lambda calc: (calc.root / "spec.md").mkdir(),
}


@pytest.mark.kept("empty", "blank", "binary")
@pytest.mark.parametrize("setup", SPECS.values(), ids=SPECS.keys())
def test_a_specification_that_is_none(bare: CalcProject, setup: Setup) -> None:
    bare.git("init", "-q", "-b", "main")
    check(bare, Case(setup, [2, 3, 4], "spec.md", ("init", "--spec", "spec.md")))


@pytest.mark.exhaustive
def test_init_without_a_specification(bare: CalcProject) -> None:
    check(bare, Case(nothing, [2], "--spec", ("init",), agent=False))


def test_init_without_git(bare: CalcProject) -> None:
    (bare.root / "spec.md").write_text("# A calculator\n")
    check(bare, Case(without_git, [4], "git", ("init", "--spec", "spec.md")), by_a_process=True)


def test_init_with_an_unknown_agent_leaves_no_repository(bare: CalcProject) -> None:
    (bare.root / "spec.md").write_text("# A calculator\n")
    check(bare, Case(nothing, [2], "nonsense", ("init", "--spec", "spec.md", "--agent", "nonsense"), agent=False))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("folder", [".harness", ".git"])
def test_a_folder_that_cannot_be_written(calc: CalcProject, folder: str) -> None:
    calc.checked = False
    path = calc.root / folder
    mode = path.stat().st_mode
    try:
        check(calc, Case(lambda _: path.chmod(0o555), [4], folder))
    finally:
        path.chmod(mode)


@pytest.mark.exhaustive
@pytest.mark.parametrize("args", [(), ("--help",), ("run", "--help"), ("--version",)])
def test_help_needs_no_project(bare: CalcProject, args: Sequence[str]) -> None:
    ran = bare.here(*args)
    assert ran.code in ({0} if args else {0, 2}), ran.text
    assert len(ran.text) > 5
