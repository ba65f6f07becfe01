"""The everyday answers: right, and without loading what they do not need."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import agent_harness

FEATURES = {
    "project": "calc",
    "features": [
        {"id": 1, "description": "add", "test_file": "t.py", "passes": True},
        {"id": 2, "description": "sub", "test_file": "t.py", "passes": False},
    ],
}


def harness(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agent_harness.cli.main", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".harness").mkdir()
    (tmp_path / ".harness.yaml").write_text("project:\n  name: calc\n")
    (tmp_path / "features.json").write_text(json.dumps(FEATURES))
    return tmp_path


def test_status_says_where_the_project_stands_from_any_folder_in_it(project: Path) -> None:
    """UAH-027, UAH-053."""
    inside = project / "src"
    inside.mkdir()
    done = harness(inside, "status")
    assert done.returncode == 0
    assert "Features: 1/2 passing (50%)" in done.stdout
    assert "Current: Ready for Feature #2 (sub)" in done.stdout


def test_status_as_json_is_one_object(project: Path) -> None:
    answer: dict[str, Any] = json.loads(harness(project, "status", "--json").stdout)
    assert answer["ok"] is True
    assert answer["features"] == {"passing": 1, "total": 2, "percent": 50}


def test_status_outside_of_a_project_is_one_line_and_the_next_command(tmp_path: Path) -> None:
    done = harness(tmp_path, "status")
    assert done.returncode == 4
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 2
    assert "no harness-tasks.json, and no features.json" in done.stderr
    assert done.stderr.splitlines()[1].startswith("next: harness init")


def test_what_a_person_types_outside_of_a_project_is_answered_with_one_line(tmp_path: Path) -> None:
    """Also without a terminal; `--json` is one object."""
    for words in (["rescue", "list"], ["rescue", "show", "rolled-back/1"], ["queue"], ["log", "sessions"]):
        done = harness(tmp_path, *words)
        assert (done.returncode, done.stdout) == (4, ""), done
        first, following = done.stderr.splitlines()
        assert first.startswith("harness: No project in this folder or above: "), done
        assert following.startswith("next: harness init"), done
    assert json.loads(harness(tmp_path, "rescue", "list", "--json").stdout)["error"]["code"] == "not_a_project"
    for name in ("task.json", "checkpoint.json"):
        (tmp_path / name).write_text("{}")
    done = harness(tmp_path, "rescue", "list")
    assert (
        done.stderr
        == f"harness: {os.path.realpath(tmp_path)} is a long task. Use the lth commands for it\nnext: lth rescue .\n"
    )


def test_status_says_why_work_is_kept(project: Path) -> None:
    """F-STORY-1: rejected, returned by an interruption or a kill, or taken back until a person has answered."""
    endings: list[dict[str, Any]] = [
        {"termination_reason": "complete", "rejected": 'no "asked": here'},
        {"termination_reason": "user_pause"},
        {"termination_reason": "error"},
        {"termination_reason": "complete", "asked": "protected_change"},
        {"termination_reason": "complete", "prompt_type": "cleanup"},
        {"termination_reason": "complete", "rescue_ref": None},
    ]
    rows = [{"session_id": n, "rescue_ref": f"refs/harness/rolled-back/{n}", **each} for n, each in enumerate(endings)]
    (project / ".harness/logs").mkdir()
    lines = [*(json.dumps(row) for row in rows), '{"rescue_ref": "refs/torn']
    (project / ".harness/logs/sessions.jsonl").write_text("\n".join(lines))
    said = harness(project, "status").stdout.splitlines()
    told = "2 rolled back, 2 not verified, 1 waiting for your answer"
    assert f"kept       {told}: harness log sessions" in said
    answer = json.loads(harness(project, "status", "--json").stdout)
    assert (answer["kept"], sum(answer["kept_as"].values())) == (5, 5)


@pytest.mark.parametrize("text", ["", "{", "[]", "\xff", '{"features": {"x": 1}}', '{"features": [[]], "project": []}'])
def test_status_on_damaged_files_never_shows_a_traceback(project: Path, text: str) -> None:
    (project / "features.json").write_bytes(text.encode("latin-1"))
    done = harness(project, "status")
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 6)
    answer = json.loads(harness(project, "status", "--json").stdout)
    assert answer["ok"] is (done.returncode == 0)


@pytest.mark.parametrize(
    "state",
    ['{"stuck_count": "x", "last_session": null}', '{"pending_escalation": {"message": "m"}}', "[1]", '{"status": 7}'],
)
def test_status_on_odd_state_never_shows_a_traceback(project: Path, state: str) -> None:
    (project / ".harness" / "session_state.json").write_text(state)
    done = harness(project, "status")
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 6)


@pytest.mark.parametrize("words", [["status"], ["--version"]])
def test_the_fast_path_loads_no_library(project: Path, words: list[str]) -> None:
    program = (
        "import sys; sys.argv = ['harness', *sys.argv[1:]]\n"
        "from agent_harness.cli.main import main\n"
        "code = main()\n"
        "heavy = {'click', 'pydantic', 'rich', 'ruamel', 'asyncio', 'subprocess', 'dataclasses', 'typing', 'inspect'}\n"
        "print('LOADED', sorted(heavy & set(sys.modules)), code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert done.stdout.splitlines()[-1] == "LOADED [] 0"


def test_a_list_at_rest_without_work_asks_no_client_for_its_hooks(tmp_path: Path) -> None:
    assert harness(tmp_path, "init", ".").returncode == 0
    assert harness(tmp_path, "add", "One", "--validate", "true").returncode == 0
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.local.json").write_text('{"hooks": "agent-harness"}')
    assert harness(tmp_path, "deactivate").returncode == 0
    program = (
        "import sys; sys.argv = ['harness', 'status']\n"
        "from agent_harness.cli.main import main\n"
        "main(); print('LOADED', sorted(name for name in sys.modules if name.startswith('agent_harness.hooks')))\n"
    )
    for rests in (True, False):
        done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert ("Hooks are off in this project. To turn them on: harness activate" in done.stdout) is rests, done.stdout
        assert (done.stdout.splitlines()[-1] == "LOADED []") is not rests, done.stdout
        assert harness(tmp_path, "run", "--agent", "command:true").returncode == 0


def test_a_run_with_one_agent_loads_nothing_of_those_with_several(tmp_path: Path) -> None:
    """Nor modules for a terminal, if there is none; only the notification settings are looked at."""
    made = harness(tmp_path, "init", ".")
    assert made.returncode == 0, made.stderr
    assert harness(tmp_path, "add", "One", "--validate", "true").returncode == 0
    program = (
        "import sys; sys.argv = ['harness', 'run', '--agent', 'command:true']\n"
        "import agent_harness.cli\n"
        "from agent_harness.cli.main import main\n"
        "def loaded(*parts): return sorted(name for name in sys.modules for part in parts if part in name)\n"
        "print('LOADED', loaded('parallel', '.views'))\n"
        "main()\n"
        "print('LOADED', loaded('parallel'), loaded('.views'))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    told = ["agent_harness.views", "agent_harness.views.notify"]
    assert [line for line in done.stdout.splitlines() if line.startswith("LOADED")] == [
        "LOADED []",
        f"LOADED [] {told}",
    ]


def test_an_unknown_command_is_a_usage_error(tmp_path: Path) -> None:
    done = harness(tmp_path, "bogus")
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["harness: No such command 'bogus'.", "next: harness --help"]
    answer = json.loads(harness(tmp_path, "bogus", "--json").stdout)
    assert answer["error"]["code"] == "usage"


def test_lth_answers_its_version_and_refuses_what_it_does_not_have(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "agent_harness.cli.lth"]
    assert subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout.startswith("lth ")
    assert subprocess.run([*command, "bogus"], capture_output=True, text=True, check=False).returncode == 1


def test_a_claim_that_nobody_has_judged_is_not_shown_as_proven(project: Path) -> None:
    record = project / ".git" / "harness" / "open_session.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"session": 4, "feature_id": 2, "phase": "running", "features": FEATURES}))
    claimed = json.loads(json.dumps(FEATURES))
    claimed["features"][1]["passes"] = True
    (project / "features.json").write_text(json.dumps(claimed))
    said = harness(project, "status").stdout
    assert "Features: 1/2 passing (50%)" in said
    assert "Session 4 on Feature #2 was interrupted" in said


@pytest.mark.parametrize("words", [["status"], ["status", "--tail", "3"], ["run"]])
def test_where_a_long_task_is_the_command_for_it_is_named(tmp_path: Path, words: list[str]) -> None:
    """FIX-19: the folder is not reported as empty."""
    for name in ("task.json", "checkpoint.json"):
        (tmp_path / name).write_text("{}")
    done = harness(tmp_path, *words)
    assert done.returncode == 4
    assert (
        done.stderr
        == f"harness: {os.path.realpath(tmp_path)} is a long task. Use the lth commands for it\nnext: lth status .\n"
    )


@pytest.mark.parametrize(("before", "end"), [("", []), ("import threading", ["called at the end"])])
def test_a_short_command_ends_at_once_unless_something_else_may_run(before: str, end: list[str]) -> None:
    program = (
        f"import atexit, sys\n{before}\n"
        "atexit.register(print, 'called at the end')\n"
        "from agent_harness.cli.lth import process\n"
        "sys.argv = ['lth', *sys.argv[1:]]\n"
        "sys.exit(process())\n"
    )
    answers = {"--version": (0, 1), "bogus": (1, 0)}
    for word, (code, lines) in answers.items():
        done = subprocess.run(
            [sys.executable, "-S", "-c", program, word],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(Path(agent_harness.__file__).parent.parent)},
        )
        assert done.returncode == code, done.stderr
        assert done.stdout.splitlines()[lines:] == end
        assert bool(done.stderr) is bool(code)
