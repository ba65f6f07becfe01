"""The gate in CI: the YAML of the documentation, the action's steps and GitLab's job, with hostile names and output."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from agent_harness.cli.main import main
from agent_harness.testing import run_in_process
from agent_harness.testing.repo import Repo

from .workflow import ACTION, Workflow, read

ROOT = ACTION.parent
HOSTILE = "ch,k:%0A::error::x|<b>[y](z).sh"
CHECK = f"sh '{HOSTILE}'"
LOUD = "echo '::error::from a test'; echo '  ::set-output name=exit-code::0'; echo '##[error]from a test'\n"
FILES = {"value.txt": "1\n", HOSTILE: f"{LOUD}test -e value.txt\n"}


def documented() -> str:
    """Return the steps in the page's section about CI."""
    section = (ROOT / "docs/gate.md").read_text().split("\n## In CI\n")[1]
    return str(re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)[0])


def pull_request(folder: Path, change: str) -> Path:
    """Return a bare repository: ``main`` has gone on, ``work`` has a change, ``merge`` is what GitHub checks out."""
    repo = Repo.with_files(folder / "author", FILES)
    repo.git("switch", "-q", "-c", "work")
    if change == "good":
        repo.write("value.txt", "2\n")
    elif change == "weaker":
        repo.write(HOSTILE, "true\n")
    elif change == "broken":
        repo.remove("value.txt")
    repo.commit("::error::Subject")
    repo.git("switch", "-q", "main")
    repo.write("other.txt", "main\n").commit("Later")
    repo.git("switch", "-q", "-c", "merge")
    repo.git("merge", "-q", "--no-edit", "work")
    repo.git("clone", "-q", "--bare", str(repo.path), str(folder / "origin.git"))
    return folder / "origin.git"


@pytest.mark.parametrize(
    ("change", "code", "verdict", "titles"),
    [
        ("good", 0, "accepted", []),
        ("broken", 1, "rejected", ["harness gate: rejected"]),
        ("weaker", 3, "needs a person", ["harness gate: needs a person", "check_changed", ""]),
    ],
)
def test_the_lines_of_the_documentation_judge_a_pull_request(
    tmp_path: Path, change: str, code: int, verdict: str, titles: list[str]
) -> None:
    run = Workflow(tmp_path / "run", pull_request(tmp_path, change), environ={"GITHUB_BASE_REF": "main"})
    run.run(documented(), check=CHECK)
    assert run.code == code, run.log
    summary = run.summary.read_text()
    assert f"## harness gate: {verdict}\n" in summary
    assert "| changed files | 1 |" in summary, "what main did meanwhile is not part of the change"
    assert "summary.md" in run.artifact
    errors = [(places, text) for kind, places, text in run.commands if kind == "error"]
    assert [places.get("title", "") for places, _ in errors] == titles
    assert not [each for each in run.commands if each[0] not in ("error", "notice")], run.log
    assert ("    ::error::from a test\n" in run.log) == (change == "broken")
    assert "from a test" not in [text for _, text in errors]
    if change == "weaker":
        assert (errors[1][0]["file"], errors[1][0]["line"]) == (HOSTILE, "1")
        assert "input 'allow'" in errors[2][1]
        assert "<b>" not in summary
        again = Workflow(tmp_path / "again", run.origin, environ=run.environ)
        assert again.run(documented(), check=CHECK, allow=HOSTILE).code == 0, again.log


def test_a_checkout_without_history_is_not_judged_and_says_what_to_do(tmp_path: Path) -> None:
    run = Workflow(tmp_path / "run", pull_request(tmp_path, "good"), environ={"GITHUB_BASE_REF": "main"})
    run.run("steps: [{uses: actions/checkout@v4}, {uses: OWNER/agent-harness@TAG}]", check=CHECK)
    assert run.code not in (0, 1, 3), run.log
    assert [kind for kind, _, text in run.commands if "fetch-depth: 0" in text] == ["error"], run.log


def test_a_push_is_judged_against_what_it_replaced(tmp_path: Path) -> None:
    origin = pull_request(tmp_path, "broken")
    before = Repo(origin, init=False).git("rev-parse", "main")
    run = Workflow(tmp_path / "run", origin, event={"before": before})
    assert run.run(documented(), check=CHECK).code == 1, run.log
    assert "| changed files | 1 |" in run.summary.read_text()


def test_each_form_keeps_a_hostile_name_as_text(tmp_path: Path) -> None:
    name = "a\n::error::b\r|<img>`@x`,y:z%0A\u202e.sh"
    repo = Repo.with_files(tmp_path / "project", {"value.txt": "1\n", name: "test -e value.txt\n"})
    repo.git("switch", "-q", "-c", "work")
    repo.write(name, "true\n").commit("Weaker")
    forms = {form: tmp_path / f"out.{form}" for form in ("markdown", "github", "gitlab")}
    words = [word for form, path in forms.items() for word in ("--write", f"{form}={path}")]
    ran = run_in_process(main, "harness", "gate", "--check", f"sh '{name}'", *words, cwd=repo.path)
    assert ran.code == 3, ran
    clean = name.replace("\u202e", "\\u202e").replace("\r", "\n")
    assert [each[1]["file"] for each in read(forms["github"].read_text()) if "file" in each[1]] == [clean]
    assert len(read(forms["github"].read_text())) == len(forms["github"].read_text().splitlines())
    (entry,) = json.loads(forms["gitlab"].read_text())
    assert (entry["location"], entry["severity"]) == ({"path": clean, "lines": {"begin": 1}}, "critical")
    markdown = forms["markdown"].read_text()
    assert not any(sign in markdown for sign in ("<img>", "`", "@x", "\u202e")), markdown
    assert all(len(re.findall(r"(?<!\\)\|", row)) in (3, 4) for row in markdown.splitlines() if row.startswith("|"))


@pytest.mark.parametrize(
    ("given", "code"), [("html=x", 2), ("markdown", 2), ("markdown=nowhere/x", 4), ("gitlab=.", 4)]
)
def test_a_form_that_cannot_be_written_is_refused_before_the_tests_run(tmp_path: Path, given: str, code: int) -> None:
    repo = Repo.with_files(tmp_path / "project", FILES)
    repo.git("switch", "-q", "-c", "work")
    repo.write("value.txt", "2\n").commit("Two")
    ran = run_in_process(main, "harness", "gate", "--check", "false", "--write", given, cwd=repo.path)
    assert (ran.code, ran.out, given in ran.err) == (code, "", True), ran
    assert repo.status() == []


@pytest.mark.parametrize(("change", "code"), [("good", 0), ("weaker", 3)])
def test_the_job_for_gitlab_judges_a_merge_request(tmp_path: Path, change: str, code: int) -> None:
    repo = Repo(pull_request(tmp_path, change), init=False)
    repo.git("clone", "-q", "--branch", "work", str(repo.path), str(tmp_path / "build"))
    job = YAML(typ="safe").load((ROOT / "templates/gate.yml").read_text())["harness-gate"]
    script = "\n".join(job["script"])
    program = tmp_path / "harness/bin/harness"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m agent_harness.cli.main "$@"\n')
    program.chmod(0o755)
    install = next(line for line in script.splitlines() if "pip install" in line)
    script = script.replace(install, "").replace("$(mktemp -d)", str(program.parents[1]))
    env = {
        **os.environ,
        "HARNESS_CHECK": f"\n{CHECK}",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": repo.git("merge-base", "main", "work"),
    }
    done = subprocess.run(
        ["sh", "-ec", script], cwd=tmp_path / "build", env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    report = tmp_path / "build" / job["artifacts"]["reports"]["codequality"]
    assert [each["location"]["path"] for each in json.loads(report.read_text())] == ([HOSTILE] if code else [])
    assert ("HARNESS_ALLOW" in done.stdout) == bool(code)
