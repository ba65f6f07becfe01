"""`.ci/run` runs every step, says what it runs, and fails when any of them fails."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STEPS = [
    *("test", "check", "site", "selftest", "test-scenarios", "test-samples"),
    *("test-clients", "test-install", "test-engine", "test-browser", "demo"),
]


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
    """UAH-024."""
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


AGAIN = """
.PHONY: test check site selftest test-scenarios test-samples test-clients test-install test-engine test-browser demo
check site selftest test-scenarios test-samples test-clients test-install test-engine test-browser demo:
test:
\t@echo ran test $(ARGS)
\t@mkdir -p .pytest_cache/v/cache
\t@printf '{\\n  "tests/a.py::test_x[1]": true%s\\n}' '{more}' >.pytest_cache/v/cache/lastfailed
\t@{second}
"""
MORE = "".join(f',\\n  "tests/a.py::test_{n}": true' for n in range(3))


@pytest.mark.parametrize(
    ("second", "more", "code"),
    [("test -n '$(ARGS)'", "", 0), ("false", "", 1), ("test -n '$(ARGS)'", MORE, 1)],
    ids=["passes alone", "fails again", "too many"],
)
def test_a_few_failed_tests_get_one_more_try_and_are_named(second: str, more: str, code: int, tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "Makefile").write_text(AGAIN.replace("%s", more).replace("'{more}' ", "").replace("{second}", second))
    done = subprocess.run(
        ["bash", str(tmp_path / ".ci" / "run")],
        env={"PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout
    assert ("Unsteady, failed once and passed alone:\n  tests/a.py::test_x[1]\n" in done.stdout) == (code == 0)
    assert done.stdout.count("ran test") == (1 if more else 2)
