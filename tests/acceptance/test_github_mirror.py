"""The mirror at the end of real sessions: issues follow what was proven, and GitHub never costs a session."""

import json
from collections.abc import Iterator

import pytest

from agent_harness.testing.github_server import GitHubServer, serve

from .calc import CalcProject
from .script import honest, sh, turn
from .test_s23_github_down import LIMITS


@pytest.fixture
def hub() -> Iterator[GitHubServer]:
    with serve("someone/calc") as server:
        yield server


@pytest.fixture
def mirrored(calc: CalcProject, hub: GitHubServer) -> CalcProject:
    """``calc`` with a repository on that server."""
    settings(calc, "warn")
    calc.environ |= hub.environment() | {"HARNESS_TIME_SCALE": "0.1"}
    calc.environ.pop("GH_TOKEN", None)
    return calc


def settings(calc: CalcProject, on_failure: str) -> None:
    text = (calc.root / ".harness.yaml").read_text().partition(LIMITS)[0]
    (calc.root / ".harness.yaml").write_text(
        f"{text}{LIMITS}github:\n  repo: someone/calc\n  on_sync_failure: {on_failure}\n"
    )
    calc.commit("Settings")
    calc.git("push", "-q")


@pytest.mark.exhaustive
def test_issues_follow_what_was_proven(mirrored: CalcProject, hub: GitHubServer) -> None:
    """UAH-298 UAH-404 UAH-405 UAH-406 UAH-408 UAH-524 C01: accepted closes, rejected does not."""
    liar = mirrored.run([turn({"say": "done"}, {"claim": [1]}, times=9)])
    assert liar.code == 1
    assert {issue["state"] for issue in hub.issues.values()} == {"open"}
    assert len(hub.issues) == 6
    before = mirrored.head
    ran = mirrored.run([turn(honest(1))])
    assert ran.code == 0, ran.text
    assert "GitHub: closed the issue of Feature 1." in ran.out
    assert [number for number, issue in hub.issues.items() if issue["state"] == "closed"] == [1]
    assert mirrored.head != before
    assert mirrored.changes() == []


@pytest.mark.exhaustive
def test_a_mark_by_a_persons_word_is_mirrored_with_the_next_session(mirrored: CalcProject, hub: GitHubServer) -> None:
    """UAH-061 UAH-405 UAH-414: `override` itself asks nothing of GitHub; the next session's end does."""
    ran = mirrored.harness("override", "--feature", "5", "--passes", "true", "--yes")
    assert ran.code == 0, ran.text
    assert hub.requests == []
    mirrored.run([turn(honest(1))])
    assert hub.issues[5]["state"] == "closed"
    mirrored.checked = False  # what a person has marked need not be green


@pytest.mark.exhaustive
def test_a_wrong_token_costs_a_line(mirrored: CalcProject, hub: GitHubServer) -> None:
    """UAH-386 UAH-409: `warn` is a warning; the session is accepted, and exit code 0."""
    mirrored.environ["GITHUB_TOKEN"] = "wrong"
    ran = mirrored.run([turn(honest(1))])
    assert ran.code == 0, ran.text
    assert "Warning: GitHub was not updated" in ran.out
    assert (mirrored.passing(), hub.issues) == ([1], {})
    assert mirrored.remote() == mirrored.head


@pytest.mark.exhaustive
def test_with_fail_the_run_ends_paused_and_the_commit_stays(mirrored: CalcProject, hub: GitHubServer) -> None:
    """UAH-196 UAH-410 C38: exit code 5, no further session until `harness resume`; then the mirror catches up."""
    settings(mirrored, "fail")
    good = mirrored.environ["GITHUB_TOKEN"]
    mirrored.environ["GITHUB_TOKEN"] = "wrong"
    ran = mirrored.run([turn(honest(1), feature=1), turn(honest(2), feature=2)], "--until-done")
    assert ran.code == 5, ran.text
    assert (mirrored.passing(), mirrored.remote()) == ([1], mirrored.head)
    mirrored.environ["GITHUB_TOKEN"] = good
    assert mirrored.run([turn(honest(2))]).code == 5
    assert mirrored.harness("resume").code == 0
    assert mirrored.run([turn(honest(2))]).code == 0
    assert [number for number, issue in hub.issues.items() if issue["state"] == "closed"] == [1, 2]


def test_an_agent_that_rewrites_the_numbers_is_caught(mirrored: CalcProject, hub: GitHubServer) -> None:
    """C31 C37: `.harness/github_issues.json` is guarded like every state file."""
    theirs = hub.write_by_person("Somebody's own issue", "text")
    record = json.dumps({"repository": "someone/calc", "issues": {"1": {"number": theirs}}})
    ran = mirrored.run([turn(honest(1), sh(f"echo '{record}' > .harness/github_issues.json"))])
    assert ran.code == 1
    assert "github_issues.json" in ran.text
    assert hub.issues[theirs]["state"] == "open"
