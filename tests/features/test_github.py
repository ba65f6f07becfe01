"""The mirror on GitHub: against a server that answers, refuses and limits as the real one does."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_harness.protocols.features.config import load
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.publish import github, mirror
from agent_harness.testing.github_server import GitHubServer, Refusal, serve

SETTINGS = "project:\n  name: calc\ngithub:\n  repo: someone/calc\n"


class Desk:
    """A project folder, the server, and the lines that a person sees."""

    def __init__(self, root: Path, hub: GitHubServer) -> None:
        self.root, self.hub = root, hub
        self.said: list[str] = []
        (root / ".git").mkdir(parents=True)
        self.settings()
        self.features(False, False, False)

    def settings(self, more: str = "") -> None:
        (self.root / ".harness.yaml").write_text(SETTINGS + more)

    def features(self, *passes: bool, **changes: Any) -> None:
        rows = [
            {"id": n, "description": f"Feature of number {n}", "test_file": f"tests/t{n}.py", "passes": done, **changes}
            for n, done in enumerate(passes, 1)
        ]
        (self.root / "features.json").write_text(json.dumps({"project": "calc", "features": rows}))

    @property
    def project(self) -> Project:
        return Project.open(self.root, load(self.root), self.said.append)

    def sync(self, session: int = 1) -> str | None:
        """What a session's end does; the problem, if there was one."""
        self.said.clear()
        return mirror.after_session(self.project, session)

    def states(self) -> dict[int, str]:
        return {number: issue["state"] for number, issue in self.hub.issues.items() if issue}

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.project.store.recent("events.jsonl", 100) if row["type"] == kind]

    def writes(self) -> list[tuple[str, str]]:
        return [request for request in self.hub.requests if request[0] != "GET"]


@pytest.fixture
def hub() -> Iterator[GitHubServer]:
    with serve("someone/calc") as server:
        yield server


@pytest.fixture
def desk(tmp_path: Path, hub: GitHubServer, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.delenv("GH_TOKEN", raising=False)
    for name, value in {**hub.environment(), "HARNESS_TIME_SCALE": "0.001"}.items():
        monkeypatch.setenv(name, value)
    return Desk(tmp_path / "calc", hub)


# -- what happens to the issues ----------------------------------------------------------------------------------------


def test_every_feature_gets_an_issue_and_a_verified_one_is_closed(desk: Desk) -> None:
    """UAH-404 UAH-406 UAH-408 UAH-524 UAH-525 UAH-526: open is incomplete, closed is verified."""
    desk.features(True, False, False)
    assert desk.sync() is None
    assert desk.states() == {1: "closed", 2: "open", 3: "open"}
    assert desk.said == [
        "GitHub: created the issues of Feature 1, Feature 2, Feature 3; closed the issue of Feature 1."
    ]
    assert desk.hub.issues[1]["state_reason"] == "completed"
    desk.features(True, True, False)
    assert desk.sync(2) is None
    assert desk.states() == {1: "closed", 2: "closed", 3: "open"}
    assert [row["closed"] for row in desk.events("github_synced")] == [[1], [2]]


def test_a_second_pass_over_the_same_features_writes_nothing(desk: Desk) -> None:
    """UAH-003 UAH-404: what is right already is left as it is, and says nothing."""
    desk.features(True, False)
    desk.sync()
    before = len(desk.writes())
    assert desk.sync(2) is None
    assert len(desk.writes()) == before
    assert desk.said == []


def test_an_issue_says_what_proves_the_feature_and_calls_nobody(desk: Desk) -> None:
    """UAH-408: text of the project points to no person, to no other issue, and carries no marker of its own."""
    spoof = "Ask @somebody about #7 <!-- agent-harness: calc feature 9 -->"
    desk.features(False, description=spoof, verification_steps=["Look at it"], depends_on=[])
    desk.sync()
    issue = desk.hub.issues[1]
    assert "@somebody" not in issue["body"]
    assert "#7" not in issue["title"] + issue["body"]
    assert "`tests/t1.py`" in issue["body"]
    assert github.last_line(issue["body"]) == "<!-- agent-harness: calc feature 1 -->"
    assert issue["labels"] == [{"name": "agent-harness"}]


def test_a_secret_in_a_description_does_not_get_out(desk: Desk) -> None:
    """UAH-408: descriptions are masked like everything else that leaves this machine."""
    desk.features(False, description="Log in with ghp_0123456789abcdefghijklmnopqrstuvwxyz")
    desk.sync()
    assert "ghp_0123456789" not in json.dumps(desk.hub.issues[1])


def test_an_issue_that_a_person_closed_stays_closed(desk: Desk) -> None:
    """The harness does not reopen what it has not closed, and features.json stays as it is.

    UAH-001, UAH-114, UAH-411, UAH-527, C37
    """
    desk.sync()
    desk.hub.close_by_person(2)
    before = (desk.root / "features.json").read_bytes()
    assert desk.sync(2) is None
    assert desk.states()[2] == "closed"
    assert desk.hub.issues[2]["state_reason"] == "not_planned"
    assert (desk.root / "features.json").read_bytes() == before


def test_an_issue_that_the_harness_closed_is_reopened_when_its_feature_fails_again(desk: Desk) -> None:
    """UAH-407 C37: closed by the harness, not passing any more."""
    desk.features(True)
    desk.sync()
    desk.features(False)
    assert desk.sync(2) is None
    assert desk.states() == {1: "open"}
    assert desk.events("github_synced")[-1]["reopened"] == [1]


def test_closed_by_the_harness_reopened_and_closed_by_a_person_stays_closed(desk: Desk) -> None:
    """UAH-411 C37: the last one to close it was a person."""
    desk.settings("  close_on_verify: false\n")
    desk.features(False)
    desk.sync()
    desk.settings()
    desk.features(True)
    desk.sync(2)
    desk.hub.reopen_by_person(1)
    desk.features(False)
    desk.sync(3)
    desk.hub.close_by_person(1)
    assert desk.sync(4) is None
    assert desk.states() == {1: "closed"}


def test_an_issue_that_a_person_reopened_is_closed_with_a_word_when_the_feature_passes(desk: Desk) -> None:
    """UAH-412 UAH-527: closed once more, and why."""
    desk.features(True)
    desk.sync()
    assert desk.hub.comments == {}
    desk.hub.reopen_by_person(1)
    desk.sync(2)
    assert desk.states() == {1: "closed"}
    assert [len(said) for said in desk.hub.comments.values()] == [1]
    assert "features.json" in desk.hub.comments[1][0]


def test_without_closing_the_issue_is_told_once(desk: Desk) -> None:
    """UAH-195 UAH-412: `close_on_verify: false` leaves issues open and says once that the feature is verified."""
    desk.settings("  close_on_verify: false\n")
    desk.features(False)
    desk.sync()
    desk.features(True)
    for session in (2, 3):
        assert desk.sync(session) is None
    assert desk.states() == {1: "open"}
    assert len(desk.hub.comments[1]) == 1


def test_without_creating_only_known_issues_are_kept(desk: Desk) -> None:
    """UAH-194 UAH-384: `create_missing_issues: false` makes none, and skips what is gone."""
    desk.features(False)
    desk.sync()
    desk.settings("  create_missing_issues: false\n")
    desk.features(True, False)
    desk.sync(2)
    assert desk.states() == {1: "closed"}
    desk.hub.delete(1)
    assert desk.sync(3) is None
    assert desk.states() == {}


@pytest.mark.parametrize("switch", ["  sync_mode: none\n", "  sync_on_session_end: false\n"])
def test_switched_off_it_asks_nothing(desk: Desk, switch: str) -> None:
    """UAH-192 UAH-193 UAH-413: nothing is sent, nothing is said."""
    desk.settings(switch)
    assert desk.sync() is None
    assert (desk.hub.requests, desk.said) == ([], [])


def test_the_repository_may_stand_under_the_project(desk: Desk) -> None:
    """UAH-149 UAH-191 C17: `project.github_repo` serves where `github.repo` is not given; an address is as good."""
    text = "project:\n  name: calc\n  github_repo: https://github.com/someone/calc.git\n"
    (desk.root / ".harness.yaml").write_text(text)
    assert desk.sync() is None
    assert len(desk.states()) == 3


# -- knowing its own issues --------------------------------------------------------------------------------------------


def test_with_its_numbers_lost_it_finds_its_issues_by_their_markers(desk: Desk) -> None:
    """UAH-404 C37: no second set of issues; issue numbers are not feature ids."""
    desk.hub.write_by_person("A request", pull_request={"url": "x"})
    desk.sync()
    assert sorted(desk.states()) == [1, 2, 3, 4]
    (desk.root / ".harness/github_issues.json").unlink()
    desk.features(False, False, True)
    desk.sync(2)
    assert desk.states() == {1: "open", 2: "open", 3: "open", 4: "closed"}


def test_a_stranger_who_writes_a_marker_gets_nothing_closed(desk: Desk) -> None:
    """C37: only those who may write to the repository, and bots, are taken at their word."""
    theirs = desk.hub.write_by_person("Mine", mirror.marker("calc", 1), labels=(github.LABEL,))
    desk.features(True)
    desk.sync()
    assert desk.states() == {theirs: "open", 2: "closed"}


def test_a_recorded_number_of_somebody_elses_issue_is_left_alone(desk: Desk) -> None:
    """C31 C37: a number that was tampered with reaches no issue without the marker."""
    theirs = desk.hub.write_by_person("A person's own", "text")
    (desk.root / ".harness").mkdir()
    record = {"repository": "someone/calc", "issues": {"1": {"number": theirs}}}
    (desk.root / ".harness/github_issues.json").write_text(json.dumps(record))
    desk.features(True)
    assert desk.sync() is None
    assert desk.states() == {theirs: "open"}
    assert any("left alone" in line for line in desk.said)


def test_an_issue_that_is_gone_is_made_again(desk: Desk) -> None:
    """UAH-384: 404 or 410 for a known issue, and a new one takes its place."""
    desk.features(False)
    desk.sync()
    desk.hub.delete(1)
    assert desk.sync(2) is None
    assert desk.states() == {2: "open"}


def test_an_issue_that_was_moved_to_another_repository_is_made_again(desk: Desk) -> None:
    """UAH-384: the moved one is somebody else's business now."""
    desk.features(False)
    desk.sync()
    desk.hub.transfer(1)
    assert desk.sync(2) is None
    assert desk.hub.issues[2]["state"] == "open"
    assert desk.hub.issues[1]["away"]["state"] == "open"


def test_an_issue_without_its_label_is_still_known(desk: Desk) -> None:
    """UAH-404: somebody takes the label away; the number is recorded."""
    desk.features(False)
    desk.sync()
    desk.hub.issues[1] |= {"labels": list[str]()}
    desk.features(True)
    desk.sync(2)
    assert desk.states() == {1: "closed"}


def test_more_than_a_page_of_issues(desk: Desk) -> None:
    """UAH-404: the list has pages."""
    desk.features(*[False] * 130)
    desk.sync()
    before = len(desk.writes())
    desk.sync(2)
    assert (len(desk.hub.issues), len(desk.writes())) == (130, before)


def test_a_person_hears_of_it_before_many_issues_are_made(desk: Desk) -> None:
    """UAH-408: GitHub asks for a second between writes."""
    desk.features(*[False] * 25)
    desk.sync()
    assert desk.said[0] == "GitHub: creating about 25 issues; that takes a second or two each."


# -- when GitHub says no -----------------------------------------------------------------------------------------------


def test_a_limit_is_waited_for(desk: Desk) -> None:
    """UAH-383: 403 with the header of the primary limit, 403 and 429 of the secondary one; then it goes on."""
    desk.hub.refuse(desk.hub.rate_limited(30), desk.hub.told_to_wait(7, 429))
    desk.features(False)
    assert desk.sync() is None
    assert desk.states() == {1: "open"}
    assert any("going on in" in line for line in desk.said)


def test_a_limit_that_lasts_too_long_is_not_waited_for(desk: Desk) -> None:
    """UAH-383 UAH-409: a wait of a day is none; the session stands."""
    desk.hub.refuse(desk.hub.told_to_wait(86_400))
    problem = desk.sync()
    assert problem is not None
    assert "limit" in problem
    assert desk.events("github_sync_failed")[0]["category"] == "RATE_LIMIT"


@pytest.mark.parametrize("refusal", [Refusal(status=0), Refusal(status=502, message="Bad Gateway")])
def test_an_outage_is_tried_three_times_more(desk: Desk, refusal: Refusal) -> None:
    """UAH-385: three retries help; when they do not, it goes on without the mirror."""
    desk.features(False)
    desk.hub.refuse(*[refusal] * 3)
    assert desk.sync() is None
    assert desk.states() == {1: "open"}
    desk.hub.requests.clear()
    desk.hub.refuse(*[refusal] * 4)
    problem = desk.sync(2)
    assert problem is not None
    assert len(desk.hub.requests) == 4
    assert desk.events("github_sync_failed")[0]["category"] == "NETWORK"
    assert desk.events("github_sync_failed")[0]["level"] == "IMPORTANT"


def test_an_answer_that_got_lost_makes_no_second_issue(desk: Desk) -> None:
    """UAH-003 UAH-385: the issue was made, the connection ended; the next try finds it."""
    desk.features(False)
    desk.sync()
    desk.features(False, False)
    desk.hub.refuse(Refusal(status=0, done=True), after=1)
    assert desk.sync(2) is None
    assert desk.states() == {1: "open", 2: "open"}


def test_a_pass_that_breaks_off_goes_on_where_it_was(desk: Desk) -> None:
    """UAH-003 UAH-385: what was made before the outage is not made again."""
    desk.hub.refuse(*[Refusal(status=500)] * 4, after=2)
    assert desk.sync() is not None
    assert len(desk.states()) == 1
    assert desk.sync(2) is None
    assert len(desk.states()) == 3


def test_a_wrong_token_is_told_once_and_never_tried_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """UAH-386: 401, a warning, and on without the mirror; the token is in no line."""
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_wrongwrongwrongwrongwrongwrongwrong1")
    problem = desk.sync()
    assert problem is not None
    assert "token" in problem
    assert len(desk.hub.requests) == 1
    assert desk.events("github_sync_failed")[0]["category"] == "AUTH"
    assert "ghp_wrong" not in "".join(desk.said) + json.dumps(desk.events("github_sync_failed"))


def test_no_token_no_request(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """UAH-386 UAH-409: said with the next step; nothing is asked."""
    monkeypatch.delenv("GITHUB_TOKEN")
    assert desk.sync() is not None
    assert desk.hub.requests == []
    assert "next: export GITHUB_TOKEN=..." in desk.said


@pytest.mark.parametrize(
    ("change", "words"),
    [({"can_write": False}, "may not write"), ({"has_issues": False}, "switched off")],
)
def test_rights_and_switches_are_named(desk: Desk, change: dict[str, bool], words: str) -> None:
    """UAH-409: a refusal that is not a limit is not retried."""
    for name, value in change.items():
        setattr(desk.hub, name, value)
    problem = desk.sync()
    assert problem is not None
    assert words in problem
    assert len(desk.writes()) == 1


@pytest.mark.parametrize("repo", ["someone/else", "not a repository"])
def test_a_repository_that_is_not_there(desk: Desk, repo: str) -> None:
    """UAH-384 UAH-409: 404 for the repository itself, or no name at all."""
    (desk.root / ".harness.yaml").write_text(f"project:\n  name: calc\ngithub:\n  repo: {repo}\n")
    problem = desk.sync()
    assert problem is not None
    assert repo in problem


def test_without_the_library_a_line_says_how_to_get_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """UAH-409: the extra `github` is not installed; nothing is asked and the session stands."""
    monkeypatch.setitem(sys.modules, "github", None)
    assert desk.sync() is not None
    assert desk.hub.requests == []
    assert "next: pip install 'agent-harness[github]'" in desk.said


def test_the_library_is_loaded_only_when_there_is_something_to_mirror() -> None:
    """UAH-413: neither the command line nor the front door knows PyGithub before a mirror is asked for."""
    program = (
        "import sys, agent_harness.protocols.features.api, agent_harness.protocols.features.publish.github as ours\n"
        "print(sorted({'github', 'requests', 'stamina', 'urllib3'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_address_that_ends_with_a_slash(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """UAH-404: `GITHUB_API_URL` may end with a slash, as people write it."""
    monkeypatch.setenv("GITHUB_API_URL", f"{desk.hub.url}/")
    assert desk.sync() is None
    assert len(desk.states()) == 3


def test_warn_leaves_the_project_running_and_fail_pauses_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """UAH-196 UAH-409 UAH-410 C38: `warn` is a line, `fail` a pause that a person ends; the session stands in both."""
    monkeypatch.setenv("GITHUB_TOKEN", "wrong")
    assert desk.sync() is not None
    assert desk.project.store.pause() is None
    desk.settings("  on_sync_failure: fail\n")
    assert desk.sync(2) is not None
    pause = desk.project.store.pause()
    assert pause is not None
    assert "GitHub" in pause["reason"]
    assert desk.events("github_sync_failed")[-1]["level"] == "CRITICAL"


def test_an_answer_that_is_no_github_is_a_warning(desk: Desk) -> None:
    """UAH-409: whatever stands at the address, no traceback and no lost session."""
    desk.hub.answer = lambda *_: (200, {"hello": "there"}, {})  # type: ignore[method-assign, assignment]
    assert desk.sync() is not None
    assert any("The session stands" in line for line in desk.said)
