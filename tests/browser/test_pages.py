"""The page of ``harness report``, the window of ``harness serve`` and the recording of the demo in a real browser.

The system's Chromium is driven, where there is one: nothing is fetched for it. F-REP-4, F-SRV-5, F-SRV-7.
"""

import importlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_harness.testing import HARNESS
from agent_harness.testing.task_list_project import TaskListProject, task

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on PATH"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
]

ATTACK = "</script><img src=x onerror=document.title='attacked'>"
WORKS = 'mkdir -p out; echo "$HARNESS_TASK_ID" > out/$HARNESS_TASK_ID'


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    driver = pytest.importorskip("playwright.sync_api", reason="make test-browser installs what drives it")
    with driver.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@pytest.fixture
def project(tmp_path: Path) -> TaskListProject:
    """One task proven, one that fails, one that waits, with a title that is made of markup."""
    jobs = [
        task("a", title=ATTACK, validation={"command": "grep -q . out/a", "timeout_seconds": 60}),
        task("b", validation={"command": "false", "timeout_seconds": 60}, max_attempts=1),
        task("c", depends_on=["b"]),
    ]
    made = TaskListProject(tmp_path / "list", *jobs, git=True, session_count=0)
    made.edit(session_config={**made.raw["session_config"], "fix_rounds": 0})
    made.harness("run", "--agent", made.agent(WORKS))
    return made


@pytest.fixture
def page_file(project: TaskListProject) -> str:
    out = project.root.parent / "report.html"
    assert project.harness("report", "--out", str(out)).code == 0
    return out.as_uri()


def opened(browser: Any, url: str, **members: Any) -> tuple[Any, list[str], list[str]]:
    """A page, what it asked for, and what its console said."""
    page = browser.new_context(**members).new_page()
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(url)
    return page, asked, said


def violations(page: Any) -> list[str]:
    """What axe finds against WCAG 2.2 A and AA."""
    axe = importlib.import_module("axe_playwright_python.sync_playwright")
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    found = axe.Axe().run(page, options={"runOnly": {"type": "tag", "values": tags}})
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found.response["violations"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_a_report_is_whole_and_accessible(browser: Any, page_file: str, scheme: str) -> None:
    """One request, itself; no console line; nothing that an agent or a person wrote ran; no violation."""
    page, asked, said = opened(browser, page_file, color_scheme=scheme)
    assert (asked, said) == ([page_file], [])
    assert page.title() != "attacked"
    assert ATTACK in page.inner_text("body")
    assert violations(page) == []


def test_a_narrow_screen_and_paper_show_all_of_it(browser: Any, page_file: str) -> None:
    """No sideways scroll at 360 pixels; printed, it is a document; without a script it says the same."""
    page, _, _ = opened(browser, page_file, viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.pdf(format="A4").startswith(b"%PDF")
    plain, _, _ = opened(browser, page_file, java_script_enabled=False)
    assert plain.inner_text("h1") == page.inner_text("h1")


@pytest.fixture
def window(project: TaskListProject) -> Iterator[str]:
    words = [*HARNESS, "serve", "--json", "--port", "0"]
    with subprocess.Popen(words, cwd=project.root, env=dict(os.environ), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield str(json.loads(process.stdout.readline())["url"])
        process.terminate()


def test_the_window_changes_as_the_disk_does_and_keeps_what_is_open(
    browser: Any, project: TaskListProject, window: str
) -> None:
    """A change is in the page without a reload; opened details stay open; no console line; no violation."""
    page, _, said = opened(browser, window)
    page.wait_for_selector("main")
    assert violations(page) == []
    page.evaluate(
        "document.body.dataset.same = 'yes'; for (const d of document.querySelectorAll('main details')) d.open = true"
    )
    count = page.evaluate("document.querySelectorAll('main details[open]').length")
    project.add("d", title="Something that has just come")
    page.get_by_text("1/4 proven").first.wait_for(state="attached", timeout=10_000)
    assert page.evaluate("document.body.dataset.same") == "yes"
    assert page.evaluate("document.querySelectorAll('main details[open]').length") >= count
    assert said == []


def test_a_person_pauses_with_the_keyboard_alone_and_without_a_script(
    browser: Any, project: TaskListProject, window: str
) -> None:
    """Plain forms: the button is reached by Tab, and pressed by Enter."""
    page, _, _ = opened(browser, window, java_script_enabled=False)
    for _ in range(60):
        page.keyboard.press("Tab")
        if "pause" in page.evaluate("document.activeElement.innerText || ''").lower():
            break
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert (project.root / ".harness-pause").exists()


RECORDING = (Path(__file__).resolve().parents[2] / "docs/demo.svg").as_uri()
SEEN_AT = """moment => {
  for (const each of document.getAnimations()) { each.pause(); each.currentTime = moment * 1000; }
  return [...document.querySelectorAll('text')].filter(each => getComputedStyle(each).visibility === 'visible');
}"""
TEXTS_AT = f"moment => ({SEEN_AT})(moment).map(each => each.textContent)"
ENDS_AT = (
    f"moment => Math.max(0, ...({SEEN_AT})(moment).map(each => {{ const b = each.getBBox(); return b.x + b.width; }}))"
)
MOMENTS = (
    "[...new Set(document.getAnimations().map(each => each.effect.getTiming().delay / 1000 + 0.001))]"
    ".sort((a, b) => a - b)"
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_recording_plays_and_shows_the_lie_the_rollback_and_what_is_kept(browser: Any, scheme: str) -> None:
    """F-DOC-RECORDING: each picture as the browser draws it; nothing stands outside, nothing is asked for."""
    page, asked, said = opened(browser, RECORDING, color_scheme=scheme)
    assert (asked, said) == ([RECORDING], [])
    moments = page.evaluate(MOMENTS)
    assert len(moments) > 50
    pictures = ["\n".join(page.evaluate(TEXTS_AT, each)) for each in moments]
    lie = next(n for n, each in enumerate(pictures) if "FALSE" in each)
    assert 0 < lie < len(pictures) - 1
    assert any("rolled back" in each for each in pictures[lie:])
    assert max(page.evaluate(ENDS_AT, each) for each in moments[::10]) <= 864
    end = page.evaluate(TEXTS_AT, 600)
    assert "Everything ended as promised." in end
    assert end.count("kept") == 9
    ground, ink = page.evaluate("['rect', 'text'].map(name => getComputedStyle(document.querySelector(name)).fill)")
    assert (sum(map(int, ground[4:-1].split(","))) > sum(map(int, ink[4:-1].split(",")))) == (scheme == "light")


def test_who_wants_no_motion_sees_how_the_recording_ends(browser: Any) -> None:
    """F-DOC-RECORDING."""
    page, _, _ = opened(browser, RECORDING, reduced_motion="reduce")
    seen = page.evaluate(
        "[...document.querySelectorAll('text')].filter(each => getComputedStyle(each).visibility === 'visible')"
        ".map(each => each.textContent)"
    )
    assert "Everything ended as promised." in seen
    assert not page.evaluate("document.getAnimations().length")
