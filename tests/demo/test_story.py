"""The demo's story and its pictures, from a journal as the harness writes it."""

import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest
from rich.console import Console

from agent_harness.demo import report
from agent_harness.demo.children import DemoLayout
from agent_harness.demo.promises import Promise
from agent_harness.demo.report import Picture, Plain
from agent_harness.demo.story import Follow, Story, printable, spoken, told


def begun(session: int, feature_id: int, prompt_type: str = "coding") -> dict[str, Any]:
    return {"type": "session_started", "session": session, "feature_id": feature_id, "prompt_type": prompt_type}


def event(kind: str, session: int, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "session": session, **fields}


def ended(session: int, *, completed: bool, cost: float = 0.05) -> dict[str, Any]:
    return event("session_ended", session, feature_completed=completed, cost_usd=cost, duration_seconds=2.4)


LIE = [
    begun(2, 2),
    event("feature_claimed", 2),
    event("verification_failed", 2, code="feature_test_failed", message="Feature test failed when harness ran it."),
    event("feature_claimed", 2),
    event("verification_passed", 2),
    event("feature_completed", 2),
    ended(2, completed=True),
]
HALF = [begun(3, 3), event("handed_off", 3), ended(3, completed=False)]
CONTINUED = [
    begun(4, 3, "continuation"),
    event("feature_claimed", 4),
    event("verification_passed", 4),
    ended(4, completed=True),
]
KILLED = [begun(5, 4), event("session_interrupted", 5), ended(5, completed=False)]
BROKEN = [
    begun(7, 5),
    event("feature_claimed", 7),
    event("verification_failed", 7, code="regression", message="Regression: tests/test_codes.py::test_x now failing"),
    event("rollback_completed", 7, rescue_ref="refs/harness/rolled-back/7"),
    ended(7, completed=False),
]
JOURNAL = LIE + HALF + CONTINUED + KILLED + BROKEN


def test_a_lie_is_one_false_and_one_true_claim() -> None:
    (session,) = told(LIE).sessions
    assert [claim.verdict for claim in session.claims] == ["rejected", "verified"]
    assert session.claims[0].found == "Feature test failed when harness ran it."
    assert (session.ending, session.cost_usd) == ("proven", 0.05)


def test_each_ending_has_its_word() -> None:
    story = told(JOURNAL)
    assert [s.ending for s in story.sessions] == ["proven", "partial", "proven", "interrupted", "failed"]
    assert story.features == {2: "proven", 3: "proven", 4: "half done", 5: "rolled back"}
    assert [claim.verdict for claim in story.of(5)[0].claims] == ["regression"]
    assert story.of(5)[0].rescue_ref == "refs/harness/rolled-back/7"


def test_only_a_session_without_an_end_is_under_way() -> None:
    story = told(JOURNAL)
    assert story.now is None
    story.hear(begun(8, 5))
    assert story.now is not None
    assert story.now.number == 8


@pytest.mark.parametrize(
    "odd", [{}, {"type": 3}, {"type": "session_started"}, {"type": "feature_claimed", "session": "2"}, event("new", 1)]
)
def test_odd_events_change_nothing(odd: dict[str, Any]) -> None:
    story = Story()
    story.hear(odd)
    assert story == Story()


def test_follow_hands_out_whole_lines_once(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    follow = Follow(path)
    assert follow.lines() == []
    path.write_text('{"a": 1}\n{"b"')
    assert follow.lines() == ['{"a": 1}']
    with path.open("a") as file:
        file.write(": 2}\n[3]\n")
    assert follow.lines() == ['{"b": 2}', "[3]"]
    assert follow.lines() == []
    path.write_text("new\n")
    assert follow.lines() == ["new"]


def test_what_others_wrote_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[2J\tb\r\n c") == r"a\x1b[2J b c"
    assert printable("x" * 300, 10) == "x" * 9 + "…"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("Feature 1, codes.", "Feature 1, codes."),
        ("[FILE:WRITE] src/x.py", "writes src/x.py"),
        ("[CMD:RUN] pytest -q", "$ pytest -q"),
        ("$ pytest -q", None),
        ("[CMD:EXIT] 1", "[CMD:EXIT] 1"),
        ("[usage] input 3 cached 0 output 1", None),
        ("   ", None),
    ],
)
def test_the_transcript_is_shown_without_what_repeats(line: str, shown: str | None) -> None:
    assert spoken(line) == shown


def ending(tmp_path: Path) -> report.DemoEnding:
    kept = Promise(name="every feature is proven", kept=True, seen="7 of 7 pass")
    broken = Promise(name="clean tree, and pushed", kept=False, seen="the work tree is not clean: ?? x")
    return report.DemoEnding(
        place=DemoLayout(tmp_path), story=told(JOURNAL), promises=[kept, broken], seconds=31.4, cost_usd=0.25
    )


def test_the_end_sets_claims_against_verdicts(tmp_path: Path) -> None:
    out = io.StringIO()
    report.closing(Console(file=out, width=118, color_system=None), ending(tmp_path))
    text = out.getvalue()
    for wanted in (
        "FALSE",
        "returned to the agent",
        "BROKE OLDER TESTS",
        "refs/harness/rolled-back/7",
        "killed; kept as WIP",
        "nothing is spent",
        "did not end as promised (1)",
        "the work tree is not clean",
        "harness init --spec",
    ):
        assert wanted in " ".join(text.split()), wanted


def test_json_says_the_same(tmp_path: Path) -> None:
    answer = json.loads(json.dumps(ending(tmp_path).as_json()))
    assert answer["ok"] is False
    assert answer["scripted"] is True
    assert answer["rescue_refs"] == ["refs/harness/rolled-back/7"]
    assert [s["number"] for s in answer["sessions"]] == [2, 3, 4, 5, 7]


def test_plain_lines_say_who_and_survive_a_narrow_encoding() -> None:
    raw = io.BytesIO()
    view = Plain(io.TextIOWrapper(raw, encoding="ascii"))
    view.note("$ harness run")
    view.harness("Dependencies ✓")
    view.agent("\x1b[31mred")
    lines = raw.getvalue().decode("ascii").splitlines()
    assert [line.split("s ", 1)[1].split("|")[0].strip() for line in lines] == ["demo", "harness", "agent"]
    assert lines[1].endswith("Dependencies ?")
    assert "\x1b" not in lines[2]


@pytest.mark.parametrize("width", [40, 80, 160])
def test_the_picture_fits_the_terminal(width: int) -> None:
    out = io.StringIO()
    console = Console(file=out, width=width, height=40, force_terminal=True, color_system=None)
    story = told(JOURNAL)
    story.titles = {4: "Links are added and listed", 5: "[red]no markup[/red] " + "long " * 30}
    story.hear(begun(8, 5))
    with Picture(console) as view:
        view.agent("say [bold]something[/bold] " + "and more " * 40)
        view.harness("Verifying: running tests/test_codes.py... PASSED")
        view.note("kill")
        view.tick(story)
        console.print(view.render())
        # apart from the frames of the thread that refreshes the picture
        still = io.StringIO()
        Console(file=still, width=width, height=40, force_terminal=True, color_system=None).print(view.render())
    assert max(map(len, still.getvalue().splitlines())) <= width
    assert "[bold]something"[: width - 30] in out.getvalue()
    assert "in Session 8" in out.getvalue()
    assert "rolled back" not in out.getvalue(), "the next session on that feature is under way"
    assert "half done" in out.getvalue()


def test_the_terminals_own_colours_are_used_and_nothing_that_must_be_read_is_dim(tmp_path: Path) -> None:
    """F-TERM-1: of what the demo draws, where a terminal would take any colour and light or dark behind it."""
    out = io.StringIO()
    console = Console(file=out, width=118, height=40, force_terminal=True, color_system="truecolor", no_color=False)
    story = told(JOURNAL)
    story.titles = {2: "Listed", 4: "Links are added", 5: "Long"}
    with Picture(console) as view:
        view.agent("says something")
        view.harness("Verifying: running tests/test_codes.py... PASSED")
        view.note("kill")
        view.tick(story)
        console.print(view.render())
    report.closing(console, ending(tmp_path))
    codes = {code for found in re.findall(r"\x1b\[([\d;]*)m", out.getvalue()) for code in found.split(";")}
    assert {"1", "31", "32"} <= codes
    assert codes <= {"", "0", "1", "3", "39", *map(str, range(30, 38)), *map(str, range(90, 98))}


@pytest.mark.parametrize("width", [60, 80, 99, 100, 200])
def test_verdicts_and_numbers_are_whole_at_every_width(tmp_path: Path, width: int) -> None:
    """FIX-6 FIX-7: the verdict never leaves, no number is cut, and no line is longer than the screen."""
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, force_terminal=False, highlight=False)
    console.print(report._claims(told(JOURNAL).sessions, console.width))
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert text.count("$0.05") == 5
    for verdict in ("FALSE", "BROKE OLDER TESTS", "true: accepted", "killed; kept as WIP"):
        assert verdict in " ".join(text.split())
    assert width >= 100 or len(text.splitlines()) < 24


@pytest.mark.parametrize(
    ("name", "value", "plain"),
    [("TERM", "dumb", True), ("CI", "true", True), ("HARNESS_PLAIN", "1", True), ("HARNESS_PLAIN", "0", False)],
)
def test_plain_mode_is_chosen_by_the_environment(name: str, value: str, plain: bool) -> None:
    """FIX-8 F-TERM-3: on a real terminal, unless it is a dumb one or somebody asks for plain lines."""
    script = "from agent_harness.kernel import terminal; print('plain', terminal.is_plain())"
    environment = {k: v for k, v in os.environ.items() if k not in ("CI", "TERM")} | {"TERM": "xterm", name: value}
    child = pexpect.spawn(sys.executable, ["-c", script], env=environment)
    child.expect(f"plain {plain}")
