"""A session that an error ends is handed off by the very process in which it happens: exit 1, one line, work kept."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_harness.agents import registry
from agent_harness.agents.base import Agent, Brief, Turn
from agent_harness.agents.events import Event
from agent_harness.cli import app

from .calc import CalcProject
from .script import append, claim, commit, honest, sh, turn, usage, write

FINISH = [write("src/calc.py", '"""A calculator."""\n'), sh("rm -f wip.txt"), *honest(1), usage(1, 1)]


class Faulty(Agent):
    """An adapter with a fault: it begins to work and then raises what no adapter should."""

    name = "faulty"

    def __init__(self, where: str) -> None:
        self._where = where

    @classmethod
    def from_words(cls, text: str) -> "Faulty":
        return cls(text)

    @classmethod
    def from_mapping(cls, _settings: Mapping[str, Any], _root: Path | None) -> "Faulty":
        return cls("start")

    def start(self, brief: Brief) -> Turn:
        (brief.cwd / "wip.txt").write_text("half of it\n")
        if self._where == "start":
            raise ValueError("a fault\nin two lines")
        return _FaultyTurn()


class _FaultyTurn(Turn):
    ended = False

    def next_event(self, timeout_seconds: float) -> Event | None:
        raise FileNotFoundError(2, "No such file or directory", "/a/file/of/the/adapter")

    def stop(self, grace_seconds: float = 5.0) -> None:
        """Nothing runs."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("where", ["start", "listening"])
def test_a_fault_in_a_session_hands_it_off(
    calc: CalcProject, where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """UAH-355."""
    monkeypatch.setitem(registry.KINDS, "faulty", f"{__name__}:Faulty")  # type: ignore[arg-type]
    for name, value in calc.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(calc.root)
    start = calc.remote()
    assert app.main(["run", "--agent", f"faulty:{where}"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2, said
    assert said[0].startswith("harness: Unexpected error: ")
    assert said[1] == "next: HARNESS_DEBUG=1 harness run # shows where"
    assert calc.state["next_prompt"] == "continuation"
    assert calc.state["termination_reason"] == "error"
    assert calc.git("show", "HEAD:wip.txt") == "half of it"
    assert calc.remote() == start
    assert not (calc.root / ".git/harness/open_session.json").exists()
    ran = calc.run([turn(FINISH)])
    assert ran.code == 0, ran.text
    assert "was interrupted" not in ran.text


@pytest.mark.exhaustive
def test_an_error_after_the_agent_has_started_is_no_refusal(calc: CalcProject) -> None:
    """git is in the middle of something when the work would be taken over: exit 1, not 4, since money was spent."""
    calc.environ["HARNESS_SANDBOX"] = "off"  # it plays somebody from outside
    stop_settling(calc)
    ran = calc.run([turn(honest(1), usage(1, 1))])
    assert ran.code == 1, ran.text
    assert "bisect" in ran.err
    assert len(ran.err.splitlines()) == 2
    assert "The next run will recover it" in ran.out
    (calc.root / ".git/BISECT_LOG").unlink()
    ran = calc.run([turn(honest(2), usage(1, 1))])
    assert ran.code == 0, ran.text
    assert "Session 1 was interrupted (while settling)" in ran.out
    assert calc.passing() == [1, 2]
    assert calc.remote() == calc.head


def stop_settling(calc: CalcProject) -> None:
    """A linter that begins a bisect of git in the project: the session that it judges cannot be taken over."""
    settings = (calc.root / ".harness.yaml").read_text()
    linter = f"test -e {calc.base}/once || touch {calc.base}/once {calc.root}/.git/BISECT_LOG"
    calc.put({".harness.yaml": settings.replace("python tools/lint.py src/", linter)})
    calc.commit("Lint in another way")
    calc.git("push", "-q")


@pytest.mark.kept("the agent")
@pytest.mark.parametrize("by", ["the harness", "the agent"])
def test_a_commit_of_a_person_before_recovery_overtakes_the_session(calc: CalcProject, by: str) -> None:
    calc.environ["HARNESS_SANDBOX"] = "off"  # it plays somebody from outside
    stop_settling(calc)
    late = [append("src/calc.py", "\n\nLATE = 1\n")] if by == "the agent" else []
    steps = honest(1) if by == "the agent" else [step for step in honest(1) if "commit" not in step]
    ran = calc.run([turn(steps, late, usage(1, 1))])
    assert ran.code == 1, ran.text
    (calc.root / ".git/BISECT_LOG").unlink()
    (calc.root / "mine.txt").write_text("of the person\n")
    calc.git("add", "mine.txt")
    calc.git("commit", "-q", "-m", "Mine")
    mine, start = calc.head, calc.remote()

    ran = calc.run([turn({"exit": 3}, times=9)])
    assert "its work on Feature #1 is kept in refs/harness/unadopted/1" in ran.out, ran.text
    kept = calc.git("show", "refs/harness/unadopted/1:src/calc.py")
    assert "def add" in kept
    assert calc.git("merge-base", "--is-ancestor", mine, "HEAD", check=False) == ""
    assert calc.git("show", "HEAD:mine.txt") == "of the person"
    first = calc.log("sessions.jsonl")[0]
    assert (first["session_id"], first["feature_completed"], first["termination_reason"]) == (1, False, "error")
    assert calc.remote() == start
    assert calc.costs["cumulative"]["total_sessions"] >= 1
    assert calc.state["last_session"] >= 1
    ran = calc.run([turn(FINISH, times=9)])
    assert "unadopted" not in ran.out
    assert ran.code == 0, ran.text
    assert 1 in calc.passing()


def person_commits_while_it_is_judged(calc: CalcProject) -> None:
    """A linter in whose time a person commits a file of their own, once it is told to."""
    settings = (calc.root / ".harness.yaml").read_text()
    mine = f"git -C {calc.root} add mine.txt && git -C {calc.root} commit -q -m Mine"
    linter = f"test ! -e {calc.base}/now || (rm {calc.base}/now; echo of the person > {calc.root}/mine.txt; {mine})"
    calc.put({".harness.yaml": settings.replace("python tools/lint.py src/", linter)})
    calc.commit("Lint in another way")
    calc.git("push", "-q")


def test_a_commit_of_a_person_while_work_is_judged_stays_on_the_branch(calc: CalcProject) -> None:
    """The verdict is about what was there before: the work waits on a ref, and theirs is not taken off."""
    calc.environ["HARNESS_SANDBOX"] = "off"  # it plays somebody from outside
    person_commits_while_it_is_judged(calc)
    (calc.base / "now").touch()
    ran = calc.run([turn([step for step in honest(1) if "commit" not in step], usage(1, 1))])
    assert calc.git("log", "-1", "--format=%s") == "Mine", ran.text
    assert ran.code == 1, ran.text
    assert "its work on Feature #1 is kept in refs/harness/unadopted/1" in ran.out, ran.text
    assert calc.passing() == []
    assert "def add" in calc.git("show", "refs/harness/unadopted/1:src/calc.py")
    assert calc.git("show", "HEAD:mine.txt") == "of the person"


@pytest.mark.exhaustive
def test_the_agent_cannot_keep_a_session_open(calc: CalcProject) -> None:
    """Its work, its claim, and a lock that nobody holds."""
    ran = calc.run([turn(honest(1), sh("touch .git/index.lock .git/HEAD.lock"), usage(1, 1))])
    assert ran.code in (0, 1), ran.text
    assert not (calc.root / ".git/harness/open_session.json").exists()


PLACES = {
    ".harness/session_state.json": ("link", "folder", "pipe"),
    ".harness/session_state.json.bak": ("link",),
    ".harness/costs.yaml": ("folder",),
    ".harness/logs/events.jsonl": ("link", "folder", "pipe"),
    ".harness/logs": ("link", "file"),
    ".harness": ("link", "pipe"),
    ".git/harness/open_session.json": ("link", "folder", "pipe"),
    ".git/harness": ("link", "file"),
    "claude-progress.txt": ("link", "folder", "pipe"),
}
FORMS = {
    "link": "mv {0} {1} && ln -s {1} {0}",
    "folder": "rm -rf {0} && mkdir -p {0}/inside",
    "pipe": "rm -rf {0} && mkfifo {0}",
    "file": "rm -rf {0} && echo x > {0}",
}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("place", "form"), [(place, form) for place, forms in PLACES.items() for form in forms])
def test_whatever_lies_in_our_places_the_session_is_closed_in_one_line(
    calc: CalcProject, place: str, form: str
) -> None:
    outside = calc.base / "outside"
    spoil = FORMS[form].format(place, outside)
    calc.checked = False  # what the agent made of the logs is its own
    start = calc.remote()
    ran = calc.run([turn(append("src/calc.py", "\n\nHALF = 1\n"), claim(1), commit("Half"), sh(spoil), times=9)])
    assert ran.code == 1, ran.text
    assert "Unexpected" not in ran.text, ran.text
    assert len(ran.err.splitlines()) <= 2
    assert calc.remote() == start
    assert calc.passing() == []
    assert not [path for path in calc.root.rglob("*.json") if path.is_symlink()]
    assert calc.harness("status").code == 0
    if outside.is_file() and "progress" not in place:
        assert "last_session" not in outside.read_text() or '"last_session": 0' in outside.read_text()
    assert not os.path.islink(calc.root / place)
    ran = calc.run([turn(FINISH, times=9)])
    assert ran.code == 0, ran.text
    assert calc.passing() == [1]


@pytest.mark.scenario
def test_without_a_way_back_a_person_is_asked(calc: CalcProject) -> None:
    """UAH-390: the checkpoint was removed from the repository; nothing is accepted, and nothing is lost."""
    forget = (
        "git for-each-ref --format='delete %(refname)' refs/harness | git update-ref --stdin; "
        "git reflog expire --expire=now --all; git gc -q --prune=now"
    )
    ran = calc.run([turn(*honest(1), sh(forget), usage(1, 1))])
    assert ran.code == 3, ran.text
    assert "The checkpoint of Session 1 was deleted. The session's work stays as it is." in ran.text
    assert "resume --choose" in ran.text
    assert calc.passing() == []
    assert "return a + b" in (calc.root / "src/calc.py").read_text()
    assert calc.state["pending_escalation"]["type"] == "no_way_back"
    assert calc.state["stuck_count"] == 0
    again = calc.run([turn(*honest(1))])
    assert again.code == 3, again.text
    assert len(calc.events("session_ended")) == 1
    answered = calc.harness("resume", "--choose", "manual")
    assert answered.code == 0, answered.text
    assert calc.state["handoff"]
