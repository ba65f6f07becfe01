"""``harness gate --history`` in a repository that knows nothing of the harness.

Most rules are shown with a shell script, which starts faster than pytest."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_harness.cli.main import main
from agent_harness.testing import CommandResult, run_in_process
from agent_harness.testing.repo import Repo

from .test_gate import FILES, everything

HOSTILE = '<script>alert(1)</script> \x1b[31mred & "bold" \''
SCRIPT = {"Makefile": "test:\n\tsh check.sh\n", "check.sh": "test -e old.txt\n", "old.txt": "1\n"}
WEAKER = "true\n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """Return a repository whose main branch has a merge, documents, a broken change and its repair."""
    found = Repo.with_files(tmp_path / "project", SCRIPT)
    found.git("switch", "-q", "-c", "work")
    found.write("new.txt", "1\n").commit("New")
    found.write("other.txt", "1\n").commit("Other")
    found.git("switch", "-q", "main")
    found.git("merge", "-q", "--no-ff", "-m", "Merge work", "work")
    found.write("README.md", "# project\n").commit("Readme")
    found.remove("old.txt").commit(HOSTILE)
    found.write("old.txt", "2\n").commit("Repair")
    return found


def history(repo: Repo, *words: str) -> CommandResult:
    return run_in_process(main, "harness", "gate", "--history", *words, cwd=repo.path)


def told(repo: Repo, *words: str) -> dict[str, Any]:
    before = everything(repo)
    ran = history(repo, *words, "--json")
    assert everything(repo) == before, "the gate writes nothing"
    assert ran.code == 0, ran
    return ran.json


def verdicts(found: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(each["verdict"], each["shown"] or each["cause"]) for each in found["changes"]]


def test_each_merged_change_has_a_verdict_or_a_cause_and_a_second_run_knows_the_verdicts(
    repo: Repo, tmp_path: Path
) -> None:
    found = told(repo, "9")
    assert verdicts(found) == [
        ("accepted", "checked"),
        ("rejected", "not shown"),
        ("not judged", "no change of code"),
        ("accepted", "not shown"),
        ("not judged", "no commit before it is here"),
    ]
    broken = found["changes"][1]
    assert found["counts"]["known"] == 0
    assert run_in_process(main, *broken["look"].split(), cwd=repo.path).code == 1, "the command shows the same verdict"
    page = tmp_path / "page.html"
    again = history(repo, "9", "--report", str(page))
    assert "3 of 5 changes judged: 2 accepted, 1 rejected, 0 needs a person" in again.out
    assert "Not judged: 1 no change of code; 1 no commit before it is here; 3 known from before" in again.out
    assert "[3/5]" in again.err
    text = page.read_text()
    assert "\x1b" not in again.out + again.err + text, "a subject is only text"
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert" not in text
    assert "http" not in text.replace("http-equiv", ""), "the page makes no request"
    assert all(each["look"] in text for each in found["changes"])


def test_a_verdict_under_other_terms_is_not_known(repo: Repo) -> None:
    repo.write("check.sh", WEAKER).commit("Weaker")
    assert verdicts(told(repo, "1"))[0][0] == "needs a person"
    assert verdicts(told(repo, "1", "--allow", "check.sh"))[0][0] == "accepted"


def test_a_kept_verdict_is_private_and_no_link(repo: Repo, tmp_path: Path) -> None:
    told(repo, "1")
    (kept,) = Path(os.environ["XDG_STATE_HOME"], "agent-harness", "gate-history").glob("*.json")
    assert kept.stat().st_mode & 0o077 == 0
    lie = tmp_path / "lie.json"
    lie.write_bytes(kept.read_bytes().replace(b"accepted", b"rejected"))
    kept.unlink()
    kept.symlink_to(lie)
    found = told(repo, "1")
    assert (verdicts(found)[0][0], found["counts"]["known"]) == ("accepted", 0)
    assert b"rejected" in lie.read_bytes(), "the target of the link is not written"


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    (waits := tmp_path / "waits").write_text("")
    script = f"test -e old.txt\nif test -e new.txt && test -e {waits}; then sleep 60; fi\n"
    repo = Repo.with_files(tmp_path / "project", {**SCRIPT, "check.sh": script})
    repo.write("other.txt", "1\n").commit("Other")
    repo.write("new.txt", "1\n").commit("New")
    words = [sys.executable, "-c", "from agent_harness.cli.main import process; process()", "gate", "--history", "2"]
    with subprocess.Popen(words, cwd=repo.path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as ran:
        assert ran.stderr is not None
        assert "[1/2]" in ran.stderr.readline()
        ran.send_signal(signal.SIGKILL)
    waits.unlink()
    assert told(repo, "2")["counts"]["known"] == 1


def test_authors_and_trailers_choose_changes_also_inside_of_merges(tmp_path: Path) -> None:
    repo = Repo.with_files(tmp_path / "project", FILES)
    repo.git("switch", "-q", "-c", "work")
    repo.write("README.md", "# calc\n")
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "Readme\n\nCo-authored-by: Helper <helper@example.com>")
    repo.git("switch", "-q", "main")
    repo.git("merge", "-q", "--no-ff", "-m", "Merge work", "work")
    repo.write("README.md", "# calculator\n")
    repo.git("commit", "-q", "-a", "-m", "Title", "--author", "Bot <bot@example.com>")
    chosen = lambda *words: [each["subject"] for each in told(repo, "9", *words)["changes"]]  # noqa: E731
    assert chosen("--trailer", "co-authored-by: helper") == ["Merge work"]
    assert chosen("--author", "^bot <") == ["Title"]
    assert chosen("--base", "work") == ["Readme", "First"]


def test_what_cannot_be_run_is_no_verdict(tmp_path: Path) -> None:
    repo = Repo.with_files(tmp_path / "project", FILES)
    repo.write("src/calc.py", f"import nowhere_installed\n{FILES['src/calc.py']}").commit("Needs a package")
    repo.write("src/calc.py", FILES["src/calc.py"]).commit("Needs none")
    repo.write("src/calc.py", "def add(a, b):\n    return a - b\n").commit("Broken")
    repo.git("rm", "-q", "-r", "tests", "pyproject.toml")
    repo.commit("No tests")
    repo.write("src/calc.py", "").commit("Empty")
    found = told(repo, "5")
    assert verdicts(found)[0] == ("not judged", "no command that runs the tests was found")
    assert verdicts(found)[2:] == [
        ("rejected", "not shown"),
        ("not judged", "no test passes on the base"),
        ("not judged", "the change needs a package that is not installed"),
    ]
    assert "tests/test_add.py::test_add" in found["changes"][2]["reason"]
    alone = run_in_process(main, "harness", "gate", "--base", "HEAD~4", "--head", "HEAD~3", cwd=repo.path)
    said = "no test passes there (ModuleNotFoundError: No module named 'nowhere_installed'"
    assert (alone.code, said in alone.err) == (4, True), alone


def test_a_command_that_fails_on_the_base_too_is_no_verdict(tmp_path: Path) -> None:
    repo = Repo.with_files(tmp_path / "project", {"Makefile": "test:\n\ttest -e value.txt\n"})
    repo.write("other.txt", "1\n").commit("Other")
    repo.write("value.txt", "1\n").commit("Value")
    repo.git("rm", "-q", "value.txt")
    found = told(Repo(repo.commit("Gone").path), "3")
    assert verdicts(found) == [
        ("rejected", "not shown"),
        ("accepted", "checked"),
        ("not judged", "the tests cannot be run on the base"),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--history", "2", "--head", "main"), "--head excludes --history"),
        (("--history", "2", "--worktree"), "--worktree excludes --history"),
        (("--author", "me"), "--author needs --history N"),
        (("--history", "2", "--author", "("), "is not a regular expression"),
        (("--history", "2", "--trailer", ":helper"), "has no key"),
        (("--history", "2", "--report", "nowhere/page.html"), "not a file in an existing folder"),
        (("--history", "2", "--author", "nobody"), "No merged change matches"),
        (("--history", "2", "--base", "nowhere"), "'nowhere' is not a commit of this repository"),
    ],
)
def test_what_cannot_be_asked_is_one_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    repo = Repo.with_files(tmp_path / "project", {"a.txt": "a\n"})
    ran = run_in_process(main, "harness", "gate", *words, cwd=repo.path)
    assert (ran.code in (2, 4), said in ran.err, ran.out) == (True, True, ""), ran


def test_a_shallow_clone_says_where_its_history_ends(repo: Repo, tmp_path: Path) -> None:
    repo.git("clone", "-q", "--depth", "1", f"file://{repo.path}", str(tmp_path / "clone"))
    assert verdicts(told(Repo(tmp_path / "clone"), "3")) == [("not judged", "no commit before it is here")]
