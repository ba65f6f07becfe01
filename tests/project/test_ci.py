"""`.ci/run` runs every step, says what it runs, and fails when any of them fails."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STEPS = ["test", "check", "test-scenarios", "test-clients", "demo"]


def run(folder: Path, failing: str | None) -> subprocess.CompletedProcess[str]:
    """The real script, over a Makefile whose targets only say their name and whether anybody could answer them."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    rules = [f"{step}:\n\t@echo ran {step} $(ARGS); cat; {'false' if step == failing else 'true'}\n" for step in STEPS]
    (folder / "Makefile").write_text(f".PHONY: {' '.join(STEPS)}\n" + "".join(rules))
    return subprocess.run(
        ["bash", str(folder / ".ci" / "run")],
        cwd="/",
        env={"PATH": os.environ["PATH"], "CI": "true"},
        input="never read\n",
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_runs_what_the_readme_says_and_no_step_has_input(tmp_path: Path) -> None:
    done = run(tmp_path, failing=None)
    assert done.returncode == 0, done.stdout
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("ran ")] == STEPS
    assert "ran demo --plain" in done.stdout
    assert "==> make test\n" in done.stdout
    assert "never read" not in done.stdout


@pytest.mark.parametrize("failing", STEPS)
def test_any_failing_step_fails_the_run_and_the_others_still_run(failing: str, tmp_path: Path) -> None:
    done = run(tmp_path, failing)
    assert done.returncode == 1
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("ran ")] == STEPS
    assert f"Failed:\n  make {failing}" in done.stdout
