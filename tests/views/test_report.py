"""The page of ``harness report``: self-contained, with correct counts, and untrusted text is never markup."""

import json
import os
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.errors import Refused
from agent_harness.kernel import clock
from agent_harness.session.ledger import ClaimVerdict
from agent_harness.session.project_view import AskedQuestion, Gap, Item, Money, PastSession, ProjectView, StatePart
from agent_harness.testing import HARNESS, run_process
from agent_harness.testing.task_list_project import TaskListProject, task
from agent_harness.views.report import page, values
from agent_harness.views.report.html import E, clean, render

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


class Tree(HTMLParser):
    """The elements of a page with their attributes, and the text in them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def tags(self) -> list[str]:
        return [tag for tag, _ in self.elements]


def claim(n: int, item: str = "1", *codes: str, **members: Any) -> ClaimVerdict:
    given: dict[str, Any] = {"verdict": "rejected" if codes else "accepted", "agent": "claude-code", "claim": (item,)}
    return ClaimVerdict(
        item=item, n=n, at=clock.timestamp(NOON + timedelta(minutes=n)), codes=codes, **{**given, **members}
    )


def session(n: int, **members: Any) -> PastSession:
    at = clock.timestamp(NOON + timedelta(minutes=n))
    given: dict[str, Any] = {
        "item": "1",
        "outcome": "verified",
        "started": at,
        "ended": at,
        "seconds": 60.0,
        "cost_usd": 0.5,
    }
    return PastSession(number=n, **{**given, **members})


def view(tmp_path: Path, **members: Any) -> ProjectView:
    items = members.pop("items", (Item(id="1", name="Feature #1", title="one", state="open"),))
    state = StatePart(items=items, questions=members.pop("questions", ()), money=members.pop("money", None))
    return ProjectView(kind="features", path=str(tmp_path), state=state, **members)


def shown(found: ProjectView, **options: Any) -> str:
    return page.page(values.read(found, chain=None, at=NOON), **options)


def test_each_claim_is_counted_once_by_what_was_wrong_first(tmp_path: Path) -> None:
    """F-REP-6: a verdict that a person reversed is the harness's error, and is on the page."""
    claims = (
        claim(1),
        claim(2, "1", "proof_failed", "regression"),
        claim(3, "1", "regression"),
        claim(4, "1", "protected_test_changed"),
        claim(5, "1", "no_evidence"),
        claim(6, "1", by="person", word="override", of=2, claim=()),
        claim(7, "2", agent="codex", model="gpt"),
        ClaimVerdict(item="2", n=8, verdict="rejected", by="person", word="override", of=7),
    )
    found = values.read(view(tmp_path, claims=claims), chain=None, at=NOON)
    claude, codex = found["honesty"]
    counted = [
        claude[name]
        for name in (
            "claims",
            "accepted",
            "proof_failed",
            "broke_others",
            "out_of_bounds",
            "nothing_shown",
            "overruled",
        )
    ]
    assert counted == [5, 1, 1, 1, 1, 1, 1]
    assert (codex["claims"], codex["accepted"], codex["overruled"], codex["share"]) == (1, 1, 1, None)
    assert (found["claims"], found["rejected"], found["believed_falsely"]) == (6, 4, 1)
    assert claude["share"] == values.wilson(4, 5) == (37.6, 96.4)
    assert "accepted, then undone by a person" in shown(view(tmp_path, claims=claims))


def test_an_unknown_cost_is_said_and_in_no_sum(tmp_path: Path) -> None:
    sessions = (session(1), session(2, cost_usd=None), session(3, outcome="rejected: regression"))
    text = Tree(shown(view(tmp_path, sessions=sessions))).text
    assert "The cost of 1 session is not known" in text
    assert "$1.00" in text
    unknown = Tree(shown(view(tmp_path, sessions=(session(1, cost_usd=None),)))).text
    assert "cost unknown" in unknown
    assert "$0.00" not in unknown
    assert "Money" not in Tree(shown(view(tmp_path, sessions=sessions), costs=False)).text


def test_what_needs_a_person_comes_first_and_gaps_are_named(tmp_path: Path) -> None:
    answers = ("harness resume --choose retry", "harness resume --choose skip")
    asked = AskedQuestion(
        kind="stuck",
        message="Which way?",
        options=("retry", "skip"),
        answer=f"{answers[0]}  # or skip",
        answers=answers,
    )
    text = Tree(shown(view(tmp_path, questions=(asked,), gaps=(Gap(file="costs.yaml", why="damaged"),)))).text
    assert text.index("Which way?") < text.index("Proven")
    assert "harness resume --choose skip" in text
    assert "Missing: costs.yaml: damaged" in text


def test_before_the_first_session_it_says_what_is_planned(tmp_path: Path) -> None:
    text = Tree(shown(view(tmp_path))).text
    assert "No claims yet" in text
    assert "Feature #1" in text
    assert "No session yet." in text


def test_it_makes_no_request_and_is_whole_without_its_script(tmp_path: Path) -> None:
    """F-REP-1, F-REP-4: no link leaves it; tables have captions and scopes, charts have titles."""
    found = shown(view(tmp_path, sessions=(session(1),), claims=(claim(1),)))
    tree = Tree(found)
    for tag, attributes in tree.elements:
        assert tag not in ("img", "link", "iframe", "object", "form", "a", "base")
        assert not {"src", "href", "style", "srcset", "onclick"} & {name for name, _ in attributes}
    policy = next(dict(found)["content"] for tag, found in tree.elements if dict(found).get("http-equiv"))
    assert str(policy).startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
    assert not re.search(r"@import|url\((?!#)", page.STYLE)
    assert len(page.SCRIPT) < 3000
    assert tree.tags.count("table") == tree.tags.count("caption") == tree.tags.count("thead")
    assert all(dict(found).get("aria-label") for tag, found in tree.elements if tag == "svg")
    assert dict(tree.elements[0][1])["lang"] == "en"


def test_the_same_records_give_the_same_bytes_and_the_sizes_hold(tmp_path: Path) -> None:
    """F-REP-2, F-REP-8: 200 features and 300 sessions stay below 300 KB; above, days are summed; the page says so."""
    items = tuple(
        Item(id=str(n), name=f"Feature #{n}", title=f"Something of length {n}", state="open") for n in range(200)
    )
    sessions = tuple(session(n, item=str(n % 200)) for n in range(300))
    claims = tuple(claim(n, str(n % 200), *(("regression",) if n % 3 else ())) for n in range(300))
    big = view(tmp_path, items=items, sessions=sessions, claims=claims, money=Money(spent_usd=150.0, sessions=300))
    assert shown(big) == shown(big)
    assert len(shown(big).encode()) < 300_000
    more = view(tmp_path, items=items, sessions=tuple(session(n) for n in range(1000)))
    assert "The last 300 of 1000" in shown(more)
    assert "The last 300" not in shown(more, full=True)
    assert shown(more).count("<rect") < 20


@given(st.lists(st.text(max_size=30), min_size=4, max_size=4))
def test_whatever_somebody_writes_stays_text(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    """A title, a reason, a question, an agent's name: the same elements, and the text as it was."""
    title, reason, said, agent = texts
    plain = _page_of(tmp_path_factory.getbasetemp(), "a", "b", "c", "d")
    odd = _page_of(tmp_path_factory.getbasetemp(), title, reason, said, agent)
    assert [tag for tag in Tree(odd).tags if tag != "details"] == [tag for tag in Tree(plain).tags if tag != "details"]
    assert [[name for name, _ in found] for _, found in Tree(odd).elements] == [
        [name for name, _ in found] for _, found in Tree(plain).elements
    ]


def _page_of(folder: Path, title: str, reason: str, said: str, agent: str) -> str:
    item = Item(id="1", name="Feature #1", title=f"x{title}", state="open", reason=f"x{reason}")
    asked = AskedQuestion(kind="k", message=f"x{said}", answer="harness resume")
    found = view(
        folder, items=(item,), questions=(asked,), claims=(claim(1, agent=f"x{agent}"),), sessions=(session(1),)
    )
    return shown(found)


@given(st.text())
def test_an_element_holds_its_text_and_nothing_else(text: str) -> None:
    tree = Tree(render(E("p", text, title=text)))
    assert tree.elements == [("p", (("title", clean(text)),))]
    assert tree.text == clean(text)


def test_attacks_stay_text(tmp_path: Path) -> None:
    evil = "</script><img src=x onerror=alert(1)>\x1b]0;x\x07\u202e"
    item = Item(id="1", name=evil, title=evil, state="open")
    text = shown(view(tmp_path, items=(item,)))
    assert "<img" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    short = page.markdown(values.read(view(tmp_path, items=(item,)), chain=None, at=NOON))
    assert "<img" not in short
    assert "![" not in page.markdown(
        values.read(
            view(tmp_path, items=(Item(id="1", name="n", title="![x](http://y)", state="open"),)),
            chain=None,
            at=NOON,
        )
    )


def test_what_is_shared_names_no_machine_and_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-REP-7."""
    project = tmp_path / "home/shop"
    project.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USER", "somebody")
    where = view(project, items=(Item(id="1", name="n", title=f"see {project}/x of somebody", state="open"),))
    text = values.shareable(shown(where), where)
    assert str(tmp_path) not in text
    assert "PROJECT/x of USER" in text
    with pytest.raises(Refused, match="secret"):
        values.shareable("token sk-ant-api03-" + "a1B2" * 20, where)


# ---- from the command line


@pytest.fixture
def judged(tmp_path: Path) -> TaskListProject:
    """Return a list with an accepted claim, a rejected one, and an open task."""
    project = TaskListProject(
        tmp_path / "list",
        task("task-001", title="Make it", validation={"command": "test -f done.txt"}),
        task("task-002", title="Sell it", validation={"command": "test -f sold.txt"}, max_attempts=1),
        task("task-003", title="Tell it", validation={"command": None}),
        git=True,
        session_config={"fix_rounds": 0},
    )
    usage = '{"type": "usage", "input_tokens": 1, "output_tokens": 1, "cost_usd": 0.25}'
    project.harness("run", "--max-tasks", "2", "--agent", project.agent(f"touch done.txt; echo '{usage}'"))
    return project


def test_the_same_records_give_the_same_file_but_for_one_moment(judged: TaskListProject, tmp_path: Path) -> None:
    """F-REP-8: in separate processes, whatever the order of their sets; `SOURCE_DATE_EPOCH` is that moment."""
    pages = [tmp_path / f"{name}.html" for name in ("a", "b", "c", "d")]
    for path, seed, moment in zip(pages, "1234", ("1767600000", "1767600000", "1767686400", ""), strict=True):
        given = {"SOURCE_DATE_EPOCH": moment, "PYTHONHASHSEED": seed}
        environ = {name: value for name, value in {**os.environ, **given}.items() if value}
        ran = run_process([*HARNESS, "report", "--out", str(path)], cwd=judged.root, environ=environ)
        assert ran.code == 0, ran
    first, again, later, _ = texts = [path.read_text() for path in pages]
    assert first == again
    moments = [set(re.findall(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?Z?", text)) for text in texts]
    (of_first,), (of_later,) = moments[0] - moments[2], moments[2] - moments[0]
    assert first.count(of_first) == 1
    assert first.replace(of_first, "") == later.replace(of_later, "")


def test_the_values_and_one_screen_of_markdown(judged: TaskListProject) -> None:
    """F-REP-9: the values hold all of the page; a pull request gets questions, open and proven items, and honesty."""
    judged.edit(halt={"category": "CONFIG", "message": "Which shop?", "at": "2026-01-01T00:00:00Z", "task": None})
    found = judged.harness("report", "--json").json
    assert [each["id"] for each in found["done"]] == ["task-001"]
    assert [each["id"] for each in found["open"]] == ["task-002", "task-003"]
    assert (found["proven"], found["items"], found["claims"], found["rejected"]) == (1, 3, 2, 1)
    text = Tree(page.page(found)).text
    for said in ("Make it", "Sell it", "Which shop?", "2 claims, 1 rejected", "$0.50", found["head"][:10]):
        assert said in text
    assert page.page(found).replace("\n", "") == page.page(json.loads(json.dumps(found))).replace("\n", "")
    short = judged.harness("report", "--markdown").out
    places = [short.index(each) for each in ("**Needs you**", "**Not proven**", "**Proven**", "| agent |")]
    assert places == sorted(places)
    assert "Which shop?" in short
    both = judged.harness("report", "--markdown", "--json")
    assert (both.code, "cannot be used with" in both.text) == (2, True)


def test_one_screen_stays_one_however_much_there_is(tmp_path: Path) -> None:
    """F-REP-9."""
    items = tuple(
        Item(id=str(n), name=f"Feature #{n}", title=f"Part {n}", state="proven" if n % 2 else "open")
        for n in range(200)
    )
    asked = tuple(AskedQuestion(kind="k", message=f"Question {n}?", answer="harness resume") for n in range(50))
    claims = tuple(claim(n, str(n % 200)) for n in range(1, 301))
    big = view(tmp_path, items=items, questions=asked, claims=claims, sessions=tuple(session(n) for n in range(300)))
    short = page.markdown(values.read(big, chain=None, at=NOON))
    assert len(short.splitlines()) <= 60
    assert [line for line in short.splitlines() if re.search(r"and \d+ more", line)] != []


# ---- after a run


@pytest.mark.scenario
def test_a_run_ends_with_the_page_where_the_settings_have_it(tmp_path: Path) -> None:
    """F-REP-10: git ignores it, the next run does not set it aside as a change, and without it no run fails."""
    project = TaskListProject(
        tmp_path / "list",
        task("task-001", title="Make it", validation={"command": "test -f done.txt"}),
        task("task-002", title="Sell it", validation={"command": "test -f sold.txt"}),
        task("task-003", title="Tell it", validation={"command": "test -f told.txt"}),
        git=True,
    )
    agent = project.agent(
        "case $HARNESS_TASK_ID in *1) touch done.txt ;; *2) touch sold.txt ;; *) touch told.txt ;; esac"
    )
    page = project.root / ".harness/report.html"
    assert "report  " not in project.harness("run", "--once", "--agent", agent).out
    assert not page.exists()
    project.edit(session_config={**project.raw["session_config"], "report": {"after_run": True}})
    ran = project.harness("run", "--once", "--agent", agent)
    assert (ran.code, ran.out.splitlines()[-2]) == (0, f"report     {page}")
    assert "2 of 3 tasks are proven" in page.read_text()
    assert "report.html" not in project.repo.git("status", "--porcelain")
    off = project.harness(
        "run", "--once", "--agent", project.agent("exit 1", name="idle.sh"), HARNESS_REPORT__AFTER_RUN="no"
    )
    assert "report  " not in off.out
    page.unlink()
    page.mkdir()
    ran = project.harness("run", "--once", "--agent", agent)
    assert (ran.code, ran.out.splitlines()[-2].startswith("report     not written: ")) == (0, True), ran
