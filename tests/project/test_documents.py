"""What the documents tell people to type exists; links lead somewhere; examples run; generated pages are current."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness.testing.agent_conformance import check_agent

ROOT = Path(__file__).resolve().parents[2]
READ = ("README.md", "CONTRIBUTING.md", "AGENTS.md")
PAGES = sorted([*(ROOT / name for name in (*READ, "CHANGELOG.md")), *(ROOT / "docs").rglob("*.md")])
HARNESS = Path(sys.executable).with_name("harness")


def tried(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


def consoles(name: str) -> list[str]:
    """The command lines that a document shows."""
    blocks = re.findall(r"```console\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)
    lines = [line.partition("#")[0] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [command.strip() for line in lines for command in line[2:].split("&&")]


def make_targets() -> dict[str, str]:
    return dict(re.findall(r"^  make (\S+) +(.+)$", tried("make", "help").stdout, re.MULTILINE))


def test_make_alone_prints_every_target_with_its_meaning() -> None:
    targets = make_targets()
    needed = (
        "help setup demo test selftest test-scenarios test-exhaustive test-samples test-slow test-clients test-install"
        " test-engine test-browser check bench peers sim docs requirements record site clean"
    )
    assert set(needed.split()) == set(targets)
    assert tried("make").stdout == tried("make", "help").stdout


@pytest.mark.parametrize("name", READ)
def test_make_targets_in_a_document_exist(name: str) -> None:
    shown = [
        word for line in consoles(name) if line.startswith("make ") for word in line.split()[1:] if "=" not in word
    ]
    written = re.findall(r"`make (?:[A-Z]+=\S+ )?([a-z-]+)", (ROOT / name).read_text())
    assert shown
    assert {*shown, *written} <= set(make_targets())


GROUPS = ("hooks", "task", "session", "rescue")


@pytest.mark.parametrize("name", ["README.md", "docs/task-lists.md"])
def test_harness_commands_in_the_pages_exist_with_their_options(name: str) -> None:
    """UAH-490."""
    shown = [shlex.split(line, comments=True) for line in consoles(name) if line.startswith("harness ")]
    assert shown
    for words in shown:
        command = words[1:3] if words[1] in GROUPS else words[1:2]
        told = tried(str(HARNESS), *command, "--help")
        assert told.returncode == 0, told.stderr
        for option in [word for word in words if word.startswith("--") and word != "--"]:
            assert option in told.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


def test_every_path_of_the_map_for_agents_is_there() -> None:
    text = (ROOT / "AGENTS.md").read_text()
    spans = re.findall(r"`([\w./-]+)`", text[text.index("## Map") : text.index("## Rules")])
    named = [span for span in spans if "/" in span or span.endswith((".py", ".md"))]
    assert len(named) > 30
    places = (ROOT, ROOT / "src" / "agent_harness")
    assert [name for name in named if not any((place / name).exists() for place in places)] == []


def test_the_index_lists_every_page() -> None:
    text = (ROOT / "docs" / "index.md").read_text()
    pages = [str(page.relative_to(ROOT / "docs")) for page in PAGES if page.is_relative_to(ROOT / "docs")]
    assert [page for page in pages if f"({page})" not in text and "/" not in page and page != "index.md"] == []


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_generated_pages_are_current() -> None:
    checked = tried(sys.executable, "scripts/docs.py", "--check")
    assert checked.returncode == 0, checked.stderr


def test_the_agent_in_contributing_keeps_the_contract() -> None:
    code = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    names: dict[str, type] = {}
    exec("\n".join(code), names)
    checked = check_agent(lambda behaviour: names["EchoAgent"]() if behaviour == "answer" else None)
    assert checked


def test_the_page_for_agents_fits_a_screen() -> None:
    assert len((ROOT / "AGENTS.md").read_text().splitlines()) <= 60
