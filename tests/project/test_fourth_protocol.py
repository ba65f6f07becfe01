"""The example of docs/fourth-protocol.md stands in a copy of the tree as the page says, and works."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "fourth-protocol.md").read_text()
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")
ITEMS = [
    {"id": "one", "text": "Write one.txt", "proof": "test -s one.txt"},
    {"id": "two", "text": "Write two.txt", "proof": "test -s two.txt", "why": "somebody wants it"},
]
AGENT = """\
read -r line
case "$line" in
  *one*) echo 1 > one.txt ;;
  *two*) if [ "$HARNESS_ROUND" = "$GIVES_IN" ]; then echo 2 > two.txt; fi ;;
esac
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with the files of the page, and its changes to the others."""
    copy = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    (copy / "scripts").mkdir()
    [budget] = re.findall(r'`("protocols/checklist" = \d+)`', PAGE)
    budgets = (ROOT / "scripts/room-lines.toml").read_text()
    (copy / "scripts/room-lines.toml").write_text(f"{budgets}{budget}\n")
    for name, text in re.findall(r"^### `([\w/.]+)`$.*?^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        path = copy / "src" / "agent_harness" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    [change] = re.findall(r"^```diff\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    subprocess.run(["git", "apply", "-"], cwd=copy, input=change, text=True, check=True)
    return copy


def harness(tree: Path, folder: Path, *words: str, gives_in: int = 1) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agent_harness.cli.main", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(tree / "src"), "GIVES_IN": str(gives_in)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "place"
    place.mkdir()
    (place / "checklist.json").write_text(json.dumps({"owner": "me", "items": ITEMS}))
    (place / "agent.sh").write_text(AGENT)
    return place


def items(folder: Path) -> list[dict[str, object]]:
    return json.loads((folder / "checklist.json").read_text())["items"]


def test_a_checklist_is_worked_down_and_a_refused_item_goes_back_once(tree: Path, folder: Path) -> None:
    assert harness(tree, folder, "status").stdout == "0 of 2 items are done; next: one\n"
    ran = harness(tree, folder, "run", "--agent", "command:sh agent.sh")
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "2 of 2 items are done; next: nothing"), ran.stderr
    assert items(folder) == [{**each, "done": True} for each in ITEMS]
    assert json.loads((folder / "checklist.json").read_text())["owner"] == "me"
    answer = json.loads(harness(tree, folder, "status", "--json").stdout)
    assert answer == {"ok": True, "done": 2, "total": 2, "next": None}


def test_an_item_that_is_never_proven_stays_open(tree: Path, folder: Path) -> None:
    ran = harness(tree, folder, "run", "--agent", "command:sh agent.sh", gives_in=9)
    assert ran.returncode == 1, ran.stderr
    assert "Item two: not proven" in ran.stdout
    assert [each.get("done") for each in items(folder)] == [True, None]
    types = [json.loads(line)["type"] for line in (folder / "checklist.log").read_text().splitlines()]
    assert types == ["item_done", "item_refused"]


def test_a_file_that_is_no_checklist_is_named_in_one_line(tree: Path, folder: Path) -> None:
    (folder / "checklist.json").write_text('{"items": [{"id": "one"}]}')
    ran = harness(tree, folder, "run", "--agent", "command:sh agent.sh")
    assert ran.returncode == 6, ran.stdout
    assert "entry 0 of 'items' needs id, text and proof" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_doctor_looks_at_it(tree: Path, folder: Path) -> None:
    assert "0 of 2 items are done" in harness(tree, folder, "doctor").stdout


def test_it_keeps_the_direction_of_imports(tree: Path) -> None:
    done = subprocess.run(
        [str(LINT_IMPORTS), "--no-cache"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "src"), "COLUMNS": "240"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_it_keeps_the_shape_of_the_tree(tree: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "structure.py")]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
