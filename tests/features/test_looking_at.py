"""Screenshots and scripts: what is kept of what an agent shows, and what is told of what it wrote."""

import json
from pathlib import Path

import pytest

from agent_harness.agents.events import Text
from agent_harness.protocols.features.config import load
from agent_harness.protocols.features.planning import initializer
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.sessions import actions
from agent_harness.protocols.features.sessions.actions import ActionLog


@pytest.fixture
def project(tmp_path: Path) -> Project:
    root = tmp_path / "calc"
    (root / ".git").mkdir(parents=True)
    (root / ".harness.yaml").write_text("project:\n  name: calc\n")
    return Project.open(root, load(root))


def events(project: Project) -> list[dict[str, object]]:
    path = project.root / ".harness/logs/events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_what_the_agent_names_is_kept_with_its_session(project: Project) -> None:
    """UAH-092, UAH-448: the copy stays when the browser tool overwrites its image."""
    image = project.root / ".harness/screenshots/page.png"
    image.parent.mkdir(parents=True)
    log = ActionLog(project, 3, None, 2)
    log.see(Text("[VISUAL:SCREENSHOT] .harness/screenshots/page.png\n[VISUAL:VERIFY] the button is blue"))
    for content in (b"before", b"after"):
        image.write_bytes(content)
        actions.keep_screenshots(project, 3, 2, log.screenshots)
    found = actions.screenshots_of(project, 3)
    assert [(project.root / path).read_bytes() for path in found] == [b"before", b"after"]
    assert all(path.startswith(".harness/screenshots/session-3/") for path in found)
    rows = [row for row in events(project) if row["type"] == "screenshot_kept"]
    assert [(row["session"], row["feature_id"], row["kept"]) for row in rows] == [(3, 2, path) for path in found]
    assert actions.screenshots_of(project, 4) == []


def test_nothing_else_is_kept(project: Project, tmp_path: Path) -> None:
    """UAH-448: what is outside, a link, no image, or not there is told of and not copied."""
    (tmp_path / "secret.png").write_bytes(b"secret")
    (project.root / "link.png").symlink_to(tmp_path / "secret.png")
    (project.root / "notes.txt").write_text("text")
    (project.root / "folder.png").mkdir()
    named = [
        "../secret.png",
        str(tmp_path / "secret.png"),
        "link.png",
        "notes.txt",
        "folder.png",
        "gone.png",
        "a\0.png",
    ]
    assert actions.keep_screenshots(project, 1, 1, named) == []
    assert len([row for row in events(project) if row["type"] == "screenshot_missing"]) == len(named)


def test_a_link_in_the_place_of_the_folder_is_not_followed(project: Project, tmp_path: Path) -> None:
    """UAH-448."""
    (tmp_path / "elsewhere").mkdir()
    (project.root / ".harness").mkdir()
    (project.root / ".harness/screenshots").symlink_to(tmp_path / "elsewhere")
    (project.root / "page.png").write_bytes(b"x")
    assert actions.keep_screenshots(project, 1, 1, ["page.png"])
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ('#!/bin/sh\npkill -f "node" || true\n', "`pkill -f node`"),
        ("sudo killall node\n", "killall"),
        ("if true; then /usr/bin/pkill node; fi\n", "pkill"),
        ("docker-compose down -v\n", "deletes volumes"),
        ("docker compose down --volumes\n", "deletes volumes"),
        ("rm -rf /var/lib/app\n", "outside the project"),
        ('rm -rf "$HOME/cache"\n', "outside the project"),
        ("echo 'x\n", "cannot be read"),
    ],
)
def test_what_could_harm_others_is_told(script: str, told: str) -> None:
    """UAH-146, C33."""
    found = initializer.findings(script, Path("/nonexistent/project"))
    assert any(told in line for line in found), found


@pytest.mark.parametrize(
    "script",
    [
        "#!/bin/sh\nset -eu\nexit 0\n",
        "docker compose down\ndocker compose up -d\n",
        "rm -rf .cache build\n",
        "kill $(cat .run/server.pid) 2>/dev/null || true\n",
        "echo 'do not use pkill here'  # nor killall\n",
        "for i in $(seq 30); do curl -sf localhost:8000/health && exit 0; sleep 1; done\nexit 1\n",
        "alembic downgrade base && alembic upgrade head\n",
    ],
)
def test_an_ordinary_script_is_not_spoken_of(script: str) -> None:
    """UAH-145, UAH-147, C33: it may stop what it started, wait within bounds, and bring a database back."""
    assert initializer.findings(script, Path("/nonexistent/project")) == []
