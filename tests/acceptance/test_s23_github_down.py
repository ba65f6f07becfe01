"""S23: whatever GitHub does, the session that was accepted stays accepted; a loopback server plays GitHub."""

import socket
from collections.abc import Iterator

import pytest

from agent_harness.testing.github_server import GitHubServer, Refusal, serve

from .arranging import with_settings
from .calc import CalcProject
from .script import honest, turn

MOST_TRIES = 4  # the first and three more (UAH-385)
LIMITS = """\
session:
  timeout_minutes: 600
  timeout_warning_minutes: 590
verification:
  timeout_minutes: 300
"""
"""Limits that leave room for a busy machine where all of them shrink with the waits."""


@pytest.fixture
def hub() -> Iterator[GitHubServer]:
    with serve("someone/calc") as server:
        yield server


@pytest.fixture
def mirrored(calc: CalcProject, hub: GitHubServer) -> CalcProject:
    """``calc`` with the mirror on; waits are a tenth of what they are."""
    with_settings(calc, f"{LIMITS}github:\n  repo: someone/calc\n")
    calc.environ |= hub.environment() | {"HARNESS_TIME_SCALE": "0.1"}
    return calc


def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def accepted(calc: CalcProject) -> str:
    """One honest session, which counts whatever GitHub says; what was printed."""
    ran = calc.run([turn(honest(1))])
    assert ran.code == 0, ran.text
    assert (calc.passing(), calc.remote()) == ([1], calc.head)
    assert calc.state["status"] == "complete"
    return ran.out


@pytest.mark.exhaustive
def test_a_nobody_answers(mirrored: CalcProject) -> None:
    """UAH-385 UAH-409 S23: a refused connection is one warning."""
    mirrored.environ["GITHUB_API_URL"] = f"http://127.0.0.1:{closed_port()}"
    assert "Warning: GitHub was not updated: " in accepted(mirrored)
    (row,) = mirrored.events("github_sync_failed")
    assert row["level"] == "IMPORTANT"


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_b_an_outage_is_tried_four_times_at_most(mirrored: CalcProject, hub: GitHubServer) -> None:
    """UAH-385 UAH-388 UAH-409 S23."""
    hub.refuse(*[Refusal(status=500, message="down")] * 50)
    assert "Warning: GitHub was not updated" in accepted(mirrored)
    assert len(hub.requests) == MOST_TRIES


@pytest.mark.exhaustive  # as in tests/features/test_github.py
def test_b_an_outage_that_passes_costs_nothing(mirrored: CalcProject, hub: GitHubServer) -> None:
    """UAH-385 UAH-388 S23."""
    hub.refuse(*[Refusal(status=502, message="down")] * 2)
    assert "Warning" not in accepted(mirrored)
    assert len(hub.issues) == 6


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_c_a_wrong_token_is_not_tried_again(mirrored: CalcProject, hub: GitHubServer) -> None:
    """UAH-386 UAH-409 S23."""
    mirrored.environ["GITHUB_TOKEN"] = "wrong"
    assert "Warning: GitHub was not updated" in accepted(mirrored)
    assert (len(hub.requests), hub.issues) == (1, {})


@pytest.mark.exhaustive  # as in tests/features/test_github.py
def test_d_a_rate_limit_is_waited_for(mirrored: CalcProject, hub: GitHubServer) -> None:
    """UAH-383 S23: 403 with the moment of the reset; then it goes on."""
    hub.refuse(hub.rate_limited(2))
    assert "Warning" not in accepted(mirrored)
    assert len(hub.issues) == 6


@pytest.mark.exhaustive  # as in tests/features/test_github.py
def test_d_a_rate_limit_without_end_is_a_warning(mirrored: CalcProject, hub: GitHubServer) -> None:
    """UAH-383 UAH-409 S23."""
    hub.refuse(*[hub.rate_limited(1)] * 50)
    assert "Warning: GitHub was not updated" in accepted(mirrored)
    assert len(hub.requests) <= MOST_TRIES


@pytest.mark.exhaustive  # as in tests/features/test_github.py
def test_e_an_issue_that_is_gone_is_made_again(mirrored: CalcProject, hub: GitHubServer) -> None:
    """UAH-384 S23."""
    accepted(mirrored)
    hub.delete(2)
    ran = mirrored.run([turn(honest(2))])
    assert ran.code == 0, ran.text
    anew = [issue for issue in hub.issues.values() if "Feature 2" in issue.get("title", "")]
    assert [issue["state"] for issue in anew] == ["closed"]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_f_it_works_and_features_json_is_never_changed_by_it(mirrored: CalcProject, hub: GitHubServer) -> None:
    """UAH-404 UAH-405 UAH-406 UAH-408 UAH-411 C01 C37 S23: what a person closed stays closed.

    UAH-525 UAH-526 UAH-527.
    """
    accepted(mirrored)
    assert len(hub.issues) == 6
    assert [number for number, issue in hub.issues.items() if issue["state"] == "closed"] == [1]
    hub.close_by_person(3)
    before = [f for f in mirrored.features["features"] if f["id"] != 2]
    ran = mirrored.run([turn(honest(2))])
    assert ran.code == 0, ran.text
    assert hub.issues[3]["state"] == "closed"
    assert [f for f in mirrored.features["features"] if f["id"] != 2] == before
    assert mirrored.passing() == [1, 2]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_g_with_fail_the_run_is_not_well_and_the_commit_stays(mirrored: CalcProject, hub: GitHubServer) -> None:
    """UAH-196 UAH-410 C38 S23."""
    with_settings(mirrored, "  on_sync_failure: fail\n")
    hub.refuse(*[Refusal(status=500, message="down")] * 50)
    ran = mirrored.run([turn(honest(1))])
    assert ran.code == 5, ran.text
    assert (mirrored.passing(), mirrored.remote()) == ([1], mirrored.head)
    assert mirrored.harness("status", "--json").json["paused"]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_h_switched_off_it_asks_nothing(mirrored: CalcProject, hub: GitHubServer) -> None:
    """UAH-192 UAH-413 S23."""
    with_settings(mirrored, "  sync_mode: none\n")
    assert "GitHub" not in accepted(mirrored)
    assert hub.requests == []
