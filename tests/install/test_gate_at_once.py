"""The gate without an installation: uvx and pipx run, and the step of the action that installs the package."""

from pathlib import Path

import pytest

from agent_harness.testing.repo import Repo
from gate.workflow import Workflow

from .fresh import Machine

pytestmark = [pytest.mark.install, pytest.mark.timeout(600)]
FILES = {"value.txt": "1\n", "Makefile": "test:\n\ttest -e value.txt\n"}
STEPS = "steps: [{uses: actions/checkout@v4, with: {fetch-depth: 0}}, {uses: OWNER/agent-harness@TAG}]"
STARTS = {"uv": ("uvx", "--from"), "pipx": ("pipx", "run", "--spec")}


def changed(folder: Path) -> Repo:
    repo = Repo.with_files(folder, FILES)
    repo.git("switch", "-q", "-c", "work")
    return repo.write("value.txt", "2\n").commit("Two")


@pytest.mark.parametrize("installer", sorted(STARTS))
def test_one_command_gives_the_first_verdict(installer: str, wheel: Path, tmp_path: Path) -> None:
    machine, repo = Machine(tmp_path, installer), changed(tmp_path / "project")
    ran = machine.type(*STARTS[installer], str(wheel), "proven-harness", "gate", cwd=repo.path)
    assert (ran.code, "make test (found in Makefile)" in ran.out, "ACCEPTED" in ran.out) == (0, True, True), ran
    assert repo.status() == []


def test_the_action_installs_the_package_in_an_environment_of_its_own(wheel: Path, tmp_path: Path) -> None:
    repo = changed(tmp_path / "author")
    repo.git("branch", "merge")
    repo.git("clone", "-q", "--bare", str(repo.path), str(tmp_path / "origin.git"))
    environ = {**Machine(tmp_path, "uv").variables, "PYTHONPATH": "", "GITHUB_BASE_REF": "main"}
    run = Workflow(tmp_path / "run", tmp_path / "origin.git", environ=environ, package=wheel).run(STEPS)
    assert (run.code, "## harness gate: accepted" in run.summary.read_text()) == (0, True), run.log
    assert (run.temp / "harness-gate/bin/proven-harness").exists()
