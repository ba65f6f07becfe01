"""The mirror on GitHub: against a server that answers, refuses and limits as the real one does."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_harness.installation import command_for_extra
from agent_harness.protocols.features.publish import github, mirror
from agent_harness.testing.feature_list_project import FeatureListProject
from agent_harness.testing.github_server import GitHubServer, Refusal, serve

SETTINGS = "project:\n  name: calc\ngithub:\n  repo: someone/calc\n"


class MirroredProject(FeatureListProject):
    """A project whose features have issues on a server."""

    hub: GitHubServer

    def settings(self, more: str = "") -> None:
        self.put({".harness.yaml": SETTINGS + more})

    def sync(self, session: int = 1) -> str | None:
        """Do the work of a session's end; return the problem, if there was one."""
        self.said.clear()
        return mirror.after_session(self.project, session)

    def states(self) -> dict[int, str]:
        return {number: issue["state"] for number, issue in self.hub.issues.items() if issue}

    def writes(self) -> list[tuple[str, str]]:
        return [request for request in self.hub.requests if request[0] != "GET"]


@pytest.fixture
def hub() -> Iterator[GitHubServer]:
    with serve("someone/calc") as server:
        yield server


@pytest.fixture
def calc(tmp_path: Path, hub: GitHubServer, monkeypatch: pytest.MonkeyPatch) -> MirroredProject:
    monkeypatch.delenv("GH_TOKEN", raising=False)
    for name, value in {**hub.environment(), "HARNESS_TIME_SCALE": "0.001"}.items():
        monkeypatch.setenv(name, value)
    calc = MirroredProject.planned(tmp_path / "calc", False, False, False, settings=SETTINGS)
    calc.hub = hub
    return calc


# -- what happens to the issues ----------------------------------------------------------------------------------------


def test_every_feature_gets_an_issue_and_a_verified_one_is_closed(calc: MirroredProject) -> None:
    """UAH-404 UAH-406 UAH-408 UAH-524 UAH-525 UAH-526: open is incomplete, closed is verified."""
    calc.plan(True, False, False)
    assert calc.sync() is None
    assert calc.states() == {1: "closed", 2: "open", 3: "open"}
    assert calc.said == [
        "GitHub: created the issues of Feature 1, Feature 2, Feature 3; closed the issue of Feature 1."
    ]
    assert calc.hub.issues[1]["state_reason"] == "completed"
    calc.plan(True, True, False)
    assert calc.sync(2) is None
    assert calc.states() == {1: "closed", 2: "closed", 3: "open"}
    assert [row["closed"] for row in calc.events("github_synced")] == [[1], [2]]


def test_a_second_pass_over_the_same_features_writes_nothing(calc: MirroredProject) -> None:
    """UAH-003 UAH-404: what is right already is left as it is, and says nothing."""
    calc.plan(True, False)
    calc.sync()
    before = len(calc.writes())
    assert calc.sync(2) is None
    assert len(calc.writes()) == before
    assert calc.said == []


def test_an_issue_says_what_proves_the_feature_and_calls_nobody(calc: MirroredProject) -> None:
    """UAH-408: text of the project points to no person, to no other issue, and carries no marker of its own."""
    spoof = "Ask @somebody about #7 <!-- agent-harness: calc feature 9 -->"
    calc.plan(False, description=spoof, verification_steps=["Look at it"], depends_on=[])
    calc.sync()
    issue = calc.hub.issues[1]
    assert "@somebody" not in issue["body"]
    assert "#7" not in issue["title"] + issue["body"]
    assert "`tests/t1.py`" in issue["body"]
    assert github.last_line(issue["body"]) == "<!-- agent-harness: calc feature 1 -->"
    assert issue["labels"] == [{"name": "agent-harness"}]


def test_a_secret_in_a_description_does_not_get_out(calc: MirroredProject) -> None:
    """UAH-408: descriptions are masked like everything else that leaves this machine."""
    calc.plan(False, description="Log in with ghp_0123456789abcdefghijklmnopqrstuvwxyz")
    calc.sync()
    assert "ghp_0123456789" not in json.dumps(calc.hub.issues[1])


def test_an_issue_that_a_person_closed_stays_closed(calc: MirroredProject) -> None:
    """The harness does not reopen what it has not closed, and features.json stays as it is.

    UAH-001, UAH-114, UAH-411, UAH-527, C37
    """
    calc.sync()
    calc.hub.close_by_person(2)
    before = (calc.root / "features.json").read_bytes()
    assert calc.sync(2) is None
    assert calc.states()[2] == "closed"
    assert calc.hub.issues[2]["state_reason"] == "not_planned"
    assert (calc.root / "features.json").read_bytes() == before


def test_an_issue_that_the_harness_closed_is_reopened_when_its_feature_fails_again(calc: MirroredProject) -> None:
    """UAH-407 C37: closed by the harness, not passing any more."""
    calc.plan(True)
    calc.sync()
    calc.plan(False)
    assert calc.sync(2) is None
    assert calc.states() == {1: "open"}
    assert calc.events("github_synced")[-1]["reopened"] == [1]


def test_closed_by_the_harness_reopened_and_closed_by_a_person_stays_closed(calc: MirroredProject) -> None:
    """UAH-411 C37: the last one to close it was a person."""
    calc.settings("  close_on_verify: false\n")
    calc.plan(False)
    calc.sync()
    calc.settings()
    calc.plan(True)
    calc.sync(2)
    calc.hub.reopen_by_person(1)
    calc.plan(False)
    calc.sync(3)
    calc.hub.close_by_person(1)
    assert calc.sync(4) is None
    assert calc.states() == {1: "closed"}


def test_an_issue_that_a_person_reopened_is_closed_with_a_word_when_the_feature_passes(calc: MirroredProject) -> None:
    """UAH-412 UAH-527: closed once more, and why."""
    calc.plan(True)
    calc.sync()
    assert calc.hub.comments == {}
    calc.hub.reopen_by_person(1)
    calc.sync(2)
    assert calc.states() == {1: "closed"}
    assert [len(said) for said in calc.hub.comments.values()] == [1]
    assert "features.json" in calc.hub.comments[1][0]


def test_without_closing_the_issue_is_told_once(calc: MirroredProject) -> None:
    """UAH-195 UAH-412: `close_on_verify: false` leaves issues open and says once that the feature is verified."""
    calc.settings("  close_on_verify: false\n")
    calc.plan(False)
    calc.sync()
    calc.plan(True)
    for session in (2, 3):
        assert calc.sync(session) is None
    assert calc.states() == {1: "open"}
    assert len(calc.hub.comments[1]) == 1


def test_without_creating_only_known_issues_are_kept(calc: MirroredProject) -> None:
    """UAH-194 UAH-384: `create_missing_issues: false` makes none, and skips what is gone."""
    calc.plan(False)
    calc.sync()
    calc.settings("  create_missing_issues: false\n")
    calc.plan(True, False)
    calc.sync(2)
    assert calc.states() == {1: "closed"}
    calc.hub.delete(1)
    assert calc.sync(3) is None
    assert calc.states() == {}


@pytest.mark.parametrize("switch", ["  sync_mode: none\n", "  sync_on_session_end: false\n"])
def test_switched_off_it_asks_nothing(calc: MirroredProject, switch: str) -> None:
    """UAH-192 UAH-193 UAH-413: nothing is sent, nothing is said."""
    calc.settings(switch)
    assert calc.sync() is None
    assert (calc.hub.requests, calc.said) == ([], [])


def test_the_repository_may_stand_under_the_project(calc: MirroredProject) -> None:
    """UAH-149 UAH-191 C17: `project.github_repo` serves where `github.repo` is not given; an address is as good."""
    text = "project:\n  name: calc\n  github_repo: https://github.com/someone/calc.git\n"
    (calc.root / ".harness.yaml").write_text(text)
    assert calc.sync() is None
    assert len(calc.states()) == 3


# -- knowing its own issues --------------------------------------------------------------------------------------------


def test_with_its_numbers_lost_it_finds_its_issues_by_their_markers(calc: MirroredProject) -> None:
    """UAH-404 C37: no second set of issues; issue numbers are not feature ids."""
    calc.hub.write_by_person("A request", pull_request={"url": "x"})
    calc.sync()
    assert sorted(calc.states()) == [1, 2, 3, 4]
    (calc.root / ".harness/github_issues.json").unlink()
    calc.plan(False, False, True)
    calc.sync(2)
    assert calc.states() == {1: "open", 2: "open", 3: "open", 4: "closed"}


def test_a_stranger_who_writes_a_marker_gets_nothing_closed(calc: MirroredProject) -> None:
    """C37: only those who may write to the repository, and bots, are taken at their word."""
    theirs = calc.hub.write_by_person("Mine", mirror.marker("calc", 1), labels=(github.LABEL,))
    calc.plan(True)
    calc.sync()
    assert calc.states() == {theirs: "open", 2: "closed"}


def test_a_recorded_number_of_somebody_elses_issue_is_left_alone(calc: MirroredProject) -> None:
    """C31 C37: a number that was tampered with reaches no issue without the marker."""
    theirs = calc.hub.write_by_person("A person's own", "text")
    (calc.root / ".harness").mkdir()
    record = {"repository": "someone/calc", "issues": {"1": {"number": theirs}}}
    (calc.root / ".harness/github_issues.json").write_text(json.dumps(record))
    calc.plan(True)
    assert calc.sync() is None
    assert calc.states() == {theirs: "open"}
    assert any("was not changed" in line for line in calc.said)


def test_an_issue_that_is_gone_is_made_again(calc: MirroredProject) -> None:
    """UAH-384: 404 or 410 for a known issue, and a new one takes its place."""
    calc.plan(False)
    calc.sync()
    calc.hub.delete(1)
    assert calc.sync(2) is None
    assert calc.states() == {2: "open"}


def test_an_issue_that_was_moved_to_another_repository_is_made_again(calc: MirroredProject) -> None:
    """UAH-384: the moved one is somebody else's business now."""
    calc.plan(False)
    calc.sync()
    calc.hub.transfer(1)
    assert calc.sync(2) is None
    assert calc.hub.issues[2]["state"] == "open"
    assert calc.hub.issues[1]["away"]["state"] == "open"


def test_an_issue_without_its_label_is_still_known(calc: MirroredProject) -> None:
    """UAH-404: somebody takes the label away; the number is recorded."""
    calc.plan(False)
    calc.sync()
    calc.hub.issues[1] |= {"labels": list[str]()}
    calc.plan(True)
    calc.sync(2)
    assert calc.states() == {1: "closed"}


def test_more_than_a_page_of_issues(calc: MirroredProject) -> None:
    """UAH-404: the list has pages."""
    calc.plan(*[False] * 130)
    calc.sync()
    before = len(calc.writes())
    calc.sync(2)
    assert (len(calc.hub.issues), len(calc.writes())) == (130, before)


def test_a_person_hears_of_it_before_many_issues_are_made(calc: MirroredProject) -> None:
    """UAH-408: GitHub asks for a second between writes."""
    calc.plan(*[False] * 25)
    calc.sync()
    assert calc.said[0] == "GitHub: creating about 25 issues; each takes one or two seconds."


# -- when GitHub says no -----------------------------------------------------------------------------------------------


def test_a_limit_is_waited_for(calc: MirroredProject) -> None:
    """UAH-383: 403 with the header of the primary limit, 403 and 429 of the secondary one; then it goes on."""
    calc.hub.refuse(calc.hub.rate_limited(30), calc.hub.told_to_wait(7, 429))
    calc.plan(False)
    assert calc.sync() is None
    assert calc.states() == {1: "open"}
    assert any("continuing in" in line for line in calc.said)


def test_a_limit_that_lasts_too_long_is_not_waited_for(calc: MirroredProject) -> None:
    """UAH-383 UAH-409: a wait of a day is none; the session stands."""
    calc.hub.refuse(calc.hub.told_to_wait(86_400))
    problem = calc.sync()
    assert problem is not None
    assert "limit" in problem
    assert calc.events("github_sync_failed")[0]["category"] == "RATE_LIMIT"


@pytest.mark.parametrize("refusal", [Refusal(status=0), Refusal(status=502, message="Bad Gateway")])
def test_an_outage_is_tried_three_times_more(calc: MirroredProject, refusal: Refusal) -> None:
    """UAH-385: three retries help; when they do not, it goes on without the mirror."""
    calc.plan(False)
    calc.hub.refuse(*[refusal] * 3)
    assert calc.sync() is None
    assert calc.states() == {1: "open"}
    calc.hub.requests.clear()
    calc.hub.refuse(*[refusal] * 4)
    problem = calc.sync(2)
    assert problem is not None
    assert len(calc.hub.requests) == 4
    assert calc.events("github_sync_failed")[0]["category"] == "NETWORK"
    assert calc.events("github_sync_failed")[0]["level"] == "IMPORTANT"


def test_an_answer_that_got_lost_makes_no_second_issue(calc: MirroredProject) -> None:
    """UAH-003 UAH-385: the issue was made, the connection ended; the next try finds it."""
    calc.plan(False)
    calc.sync()
    calc.plan(False, False)
    calc.hub.refuse(Refusal(status=0, done=True), after=1)
    assert calc.sync(2) is None
    assert calc.states() == {1: "open", 2: "open"}


def test_a_pass_that_breaks_off_goes_on_where_it_was(calc: MirroredProject) -> None:
    """UAH-003 UAH-385: what was made before the outage is not made again."""
    calc.hub.refuse(*[Refusal(status=500)] * 4, after=2)
    assert calc.sync() is not None
    assert len(calc.states()) == 1
    assert calc.sync(2) is None
    assert len(calc.states()) == 3


def test_a_wrong_token_is_told_once_and_never_tried_again(
    calc: MirroredProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UAH-386: 401, a warning, and on without the mirror; the token is in no line."""
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_wrongwrongwrongwrongwrongwrongwrong1")
    problem = calc.sync()
    assert problem is not None
    assert "token" in problem
    assert len(calc.hub.requests) == 1
    assert calc.events("github_sync_failed")[0]["category"] == "AUTH"
    assert "ghp_wrong" not in "".join(calc.said) + json.dumps(calc.events("github_sync_failed"))


def test_no_token_no_request(calc: MirroredProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """UAH-386 UAH-409: said with the next step; nothing is asked."""
    monkeypatch.delenv("GITHUB_TOKEN")
    assert calc.sync() is not None
    assert calc.hub.requests == []
    assert "next: export GITHUB_TOKEN=..." in calc.said


@pytest.mark.parametrize(
    ("change", "words"),
    [({"can_write": False}, "may not write"), ({"has_issues": False}, "switched off")],
)
def test_rights_and_switches_are_named(calc: MirroredProject, change: dict[str, bool], words: str) -> None:
    """UAH-409: a refusal that is not a limit is not retried."""
    for name, value in change.items():
        setattr(calc.hub, name, value)
    problem = calc.sync()
    assert problem is not None
    assert words in problem
    assert len(calc.writes()) == 1


@pytest.mark.parametrize("repo", ["someone/else", "not a repository"])
def test_a_repository_that_is_not_there(calc: MirroredProject, repo: str) -> None:
    """UAH-384 UAH-409: 404 for the repository itself, or no name at all."""
    (calc.root / ".harness.yaml").write_text(f"project:\n  name: calc\ngithub:\n  repo: {repo}\n")
    problem = calc.sync()
    assert problem is not None
    assert repo in problem


def test_without_the_library_a_line_says_how_to_get_it(calc: MirroredProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """UAH-409: the extra `github` is not installed; nothing is asked and the session stands."""
    monkeypatch.setitem(sys.modules, "github", None)
    assert calc.sync() is not None
    assert calc.hub.requests == []
    assert f"next: {command_for_extra('github')}" in calc.said


def test_the_library_is_loaded_only_when_there_is_something_to_mirror() -> None:
    """UAH-413: neither the command line nor the front door knows PyGithub before a mirror is asked for."""
    program = (
        "import sys, agent_harness.protocols.features.api, agent_harness.protocols.features.publish.github as ours\n"
        "print(sorted({'github', 'requests', 'stamina', 'urllib3'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_address_that_ends_with_a_slash(calc: MirroredProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """UAH-404: `GITHUB_API_URL` may end with a slash, as people write it."""
    monkeypatch.setenv("GITHUB_API_URL", f"{calc.hub.url}/")
    assert calc.sync() is None
    assert len(calc.states()) == 3


def test_warn_leaves_the_project_running_and_fail_pauses_it(
    calc: MirroredProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UAH-196 UAH-409 UAH-410 C38: `warn` is a line, `fail` a pause that a person ends; the session stands in both."""
    monkeypatch.setenv("GITHUB_TOKEN", "wrong")
    assert calc.sync() is not None
    assert calc.project.store.pause() is None
    calc.settings("  on_sync_failure: fail\n")
    assert calc.sync(2) is not None
    pause = calc.project.store.pause()
    assert pause is not None
    assert "GitHub" in pause["reason"]
    assert calc.events("github_sync_failed")[-1]["level"] == "CRITICAL"


def test_an_answer_that_is_no_github_is_a_warning(calc: MirroredProject) -> None:
    """UAH-409: whatever stands at the address, no traceback and no lost session."""
    calc.hub.answer = lambda *_: (200, {"hello": "there"}, {})  # type: ignore[method-assign, assignment]
    assert calc.sync() is not None
    assert any("The session's result is kept" in line for line in calc.said)
