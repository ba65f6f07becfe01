"""The scripts as clients run them: bare interpreter, real files; silent when they should be, and never a traceback."""

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from agent_harness.hooks import dispatch
from hooks.lists import SCRIPTS, answer, call, make, task

HOOKS = ("stop", "sessionstart", "subagentstop", "teammateidle")
CHATTY: dict[str, Any] = {"cwd": None, "teammate_name": "w", "agent_id": "w", "stop_hook_active": False}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path / "list", task(1, "completed"), task(2), task(3, "in_progress"))


def written(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", HOOKS)
def test_each_hook_answers_where_a_list_is_active(root: Path, name: str) -> None:
    done = call(name, root, CHATTY)
    assert done.stdout
    assert done.returncode == (2 if name == "teammateidle" else 0)
    assert bool(done.stderr) is (name == "teammateidle")
    if name == "teammateidle":
        assert b"task-002: Thing 2" in done.stderr.split(b"\n")
        return
    found = json.loads(done.stdout)
    if name == "sessionstart":
        assert list(found) == ["hookSpecificOutput"]
        assert list(found["hookSpecificOutput"]) == ["hookEventName", "additionalContext"]
        assert found["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    else:
        assert list(found) == ["decision", "reason"]
        assert found["decision"] == "block"


@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("why", ["no list", "no marker", "paused", "disabled", "wrong pin"])
def test_each_hook_is_silent_and_touches_nothing(root: Path, tmp_path: Path, name: str, why: str) -> None:
    environ = {"disabled": {"HARNESS_DISABLE": "1"}, "wrong pin": {"HARNESS_STATE_ROOT": str(tmp_path)}}.get(why, {})
    if why == "no marker":
        (root / ".harness-active").unlink()
    if why == "paused":
        (root / ".harness-pause").write_text("why")
    before = written(root)
    done = call(name, tmp_path if why == "no list" else root, CHATTY, **environ)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert written(root) == before


def damage(root: Path, how: str) -> None:
    path = root / "harness-tasks.json"
    if how == "folder":
        path.unlink()
        path.mkdir()
    elif how == "link to nowhere":
        path.unlink()
        path.symlink_to(root / "nowhere")
    elif how == "pipe":
        path.unlink()
        os.mkfifo(path)
    elif how == "deep":
        path.write_text('{"tasks": ' + "[" * 200_000 + "]" * 200_000 + "}")
    elif how == "huge":
        path.write_bytes(b" " * (65 << 20))
    else:
        path.write_bytes(DAMAGE[how])


DAMAGE = {
    "empty": b"",
    "torn": b'{"tasks": [',
    "binary": bytes(range(256)),
    "list": b"[]",
    "no tasks": b"{}",
    "tasks no list": b'{"tasks": {}}',
    "odd": json.dumps(
        {
            "version": "x",
            "session_config": [],
            "tasks": [None, 7, {}, {"id": 7, "status": [], "title": {}}, {"id": "a", "depends_on": {"b": 1}}],
            "session_count": "many",
            "halt": [],
            "session": {"owner": 7, "expires_at": []},
        }
    ).encode(),
    "all wrong": json.dumps(
        {"tasks": [{"id": "a", "status": "in_progress", "attempts": "x", "checkpoints": 7, "claimed_by": {}}] * 3}
    ).encode(),
    "surrogate": b'{"tasks": [{"id": "\\ud800", "title": "\\udfff"}]}',
    "infinite": b'{"tasks": [{"id": "a", "attempts": 1e999, "max_attempts": -1e999}], "session_count": 1e400}',
}
HOWS = (*DAMAGE, "folder", "link to nowhere", "pipe", "deep", "huge")


@pytest.mark.parametrize("how", HOWS)
def test_no_state_on_disk_brings_a_hook_down(root: Path, how: str) -> None:
    damage(root, how)
    for name in HOOKS:
        done = call(name, root, CHATTY)
        assert done.returncode in (0, 2)
        assert b"Traceback" not in done.stderr
        assert done.returncode == 2 or not done.stderr


@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("given", [b"", b"\xff\0", b"[1]", b'{"cwd": 7, "session_id": {}}', b'{"cwd": "a\\u0000"}'])
def test_no_payload_brings_a_hook_down(root: Path, name: str, given: bytes) -> None:
    done = call(name, root, given)
    assert done.returncode in (0, 2)
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("name", HOOKS)
def test_a_client_that_has_gone_away_is_no_trouble(root: Path, name: str) -> None:
    script = f"exec {sys.executable} -S -E {SCRIPTS}/harness-{name}.py <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", script], cwd=root, check=False).returncode in (0, 2)


def test_damage_is_said_once_in_a_session(root: Path) -> None:
    damage(root, "torn")
    first = answer(call("stop", root, {"stop_hook_active": False}))
    assert first["decision"] == "block"
    assert "no usable backup" in first["reason"]
    again = answer(call("stop", root, {"stop_hook_active": False}))
    assert list(again) == ["systemMessage"]
    assert answer(call("stop", root, {"session_id": "other"}))["decision"] == "block"
    (root / "harness-tasks.json.bak").write_text('{"tasks": []}')
    assert "`harness task recover`" in answer(call("stop", root, {"session_id": "third"}))["reason"]
    assert answer(call("sessionstart", root))["hookSpecificOutput"]["additionalContext"].startswith("HARNESS: ")
    for name in ("subagentstop", "teammateidle"):
        assert answer(call(name, root, CHATTY)) is None


def test_a_session_without_progress_is_let_go_and_hears_why(root: Path) -> None:
    seen = [answer(call("stop", root, {"stop_hook_active": number > 0})) for number in range(6)]
    told = [answer(call("stop", root, {"stop_hook_active": True}, HARNESS_MAX_BLOCKS="5")) for _ in range(2)]
    assert [next(iter(each)) for each in seen] == ["decision"] * 6
    assert ["the agent may stop" in each["systemMessage"] for each in told] == [True, True]
    assert answer(call("stop", root, {"stop_hook_active": False}))["decision"] == "block"


@pytest.mark.parametrize(("name", "limit"), [("subagentstop", 7), ("teammateidle", 8)])
def test_a_helper_without_progress_is_let_go(root: Path, name: str, limit: int) -> None:
    """Each is kept so many times, and no more without progress (tasklist.md 5.1, 5.2, 6.3)."""
    helper = {"teammate_name": "w", "agent_id": "w"}
    kept = [bool(call(name, root, helper).stdout) for _ in range(limit + 2)]
    assert kept == [True] * limit + [False] * 2
    make(root, task(1, "completed"), task(2), task(3, "in_progress", checkpoints=[{"step": 1}]))
    assert call(name, root, helper).stdout


def test_a_hook_that_is_registered_twice_counts_once(root: Path) -> None:
    calls = [threading.Thread(target=call, args=("stop", root, {"last_assistant_message": "x"})) for _ in range(2)]
    for each in calls:
        each.start()
    for each in calls:
        each.join()
    entry = json.loads((root / ".harness" / "stops.json").read_text())["sessions"]["s"]
    assert entry["blocks"] in (1, 2)
    assert entry["total"] == entry["blocks"]


def test_a_count_that_cannot_be_written_lets_go(root: Path) -> None:
    (root / ".harness").write_text("in the way")
    assert "stops.json" in answer(call("stop", root))["systemMessage"]


def test_the_state_and_the_log_are_never_written(root: Path) -> None:
    (root / "harness-progress.txt").write_text("[2026-01-31T09:30:00Z] [SESSION-1] STATS tasks_total=3\n")
    before = written(root)
    for name in HOOKS:
        call(name, root, CHATTY)
    after = {name: content for name, content in written(root).items() if name != ".harness/stops.json"}
    assert after == before


def test_the_marker_goes_with_the_last_task(tmp_path: Path) -> None:
    root = make(tmp_path / "list", task(1, "completed"))
    assert "finished" in answer(call("stop", root))["systemMessage"]
    assert not (root / ".harness-active").exists()
    assert not (root / ".harness-reflect").exists()
    assert answer(call("stop", root)) is None


def test_the_outcomes_of_this_session_count_against_its_limit(tmp_path: Path) -> None:
    root = make(tmp_path / "list", task(1, "completed"), task(2), config={"max_tasks_per_session": 1})
    log = root / "harness-progress.txt"
    log.write_text('[2026-01-31T09:30:00Z] [SESSION-1] CHECKPOINT [task-001] step=1/2 "Completed [task-001]"\n')
    assert answer(call("stop", root))["decision"] == "block"
    log.write_text(log.read_text() + "[2026-01-31T09:31:00Z] [SESSION-1] Completed [task-001] (commit abc1234)\n")
    assert "which is the limit" in answer(call("stop", root))["systemMessage"]
    assert (root / ".harness-active").exists()


def test_a_finished_list_is_looked_at_once_more_where_it_asks_for_it(tmp_path: Path) -> None:
    root = make(tmp_path / "list", task(1, "completed"), config={"reflect_iterations": 2})
    transcript = tmp_path / "transcript.jsonl"
    entries: list[dict[str, Any]] = [
        {"type": "user", "isMeta": True, "message": {"content": "a note of the client"}},
        {"type": "user", "message": {"content": [{"type": "tool_result", "content": "x"}]}},
        {"type": "user", "message": {"content": [{"type": "text", "text": "Build the thing"}]}},
        {"type": "user", "message": {"content": "later"}},
    ]
    transcript.write_text("no json\n" + "\n".join(map(json.dumps, entries)))
    asked = {"transcript_path": str(transcript)}
    first = answer(call("stop", root, asked))["reason"]
    assert first.startswith("[Self-Reflect] iteration 1/2")
    assert "The request was:\nBuild the thing\n" in first
    assert answer(call("stop", root, {"session_id": "other"})) is None
    assert "iteration 2/2" in answer(call("stop", root, asked))["reason"]
    assert "completed=1" in answer(call("stop", root, asked))["systemMessage"]
    assert not (root / ".harness-reflect").exists()
    assert answer(call("stop", root, asked)) is None


def test_a_session_tells_later_commands_its_id(root: Path, tmp_path: Path) -> None:
    env_file = tmp_path / "env"
    call("sessionstart", root, {"session_id": "a b'c"}, CLAUDE_ENV_FILE=str(env_file))
    shown = subprocess.run(
        ["sh", "-c", f'. {env_file}; printf %s "$HARNESS_SESSION_ID"'], capture_output=True, text=True, check=True
    )
    assert shown.stdout == "a b'c"


def test_another_session_is_named_unless_it_is_this_client(root: Path) -> None:
    held = {"owner": "other", "started_at": "2026-01-31T09:30:00Z", "expires_at": "2099-01-31T09:30:00Z"}

    def said(**session: object) -> str:
        make(root, task(1), session={**held, **session})
        return answer(call("sessionstart", root))["hookSpecificOutput"]["additionalContext"]

    assert "Another session is at work: other" in said()
    assert "Another session" not in said(owner="s")
    assert "Another session" not in said(expires_at="2020-01-31T09:30:00Z")
    assert "Another session" not in said(process={"pid": os.getpid()})


def test_calls_are_logged_where_a_person_asks_for_it(root: Path, tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    call("stop", root, {"stop_hook_active": False, "cwd": str(root)}, HARNESS_HOOK_LOG=str(log))
    call("stop", tmp_path, {}, HARNESS_HOOK_LOG=str(log))
    (line,) = log.read_text().splitlines()
    told = json.loads(line)
    assert told["hook_script"] == "harness-stop.py"
    assert told["harness_root"] == str(root)
    assert (told["stop_hook_active"], told["decision"], told["why"]) == (False, "block", "work left")
    assert answer(call("stop", root, {}, HARNESS_HOOK_LOG=str(tmp_path)))["decision"] == "block"


# ---- what a start costs

_OWN = "agent_harness"
_OS = {"os", "stat", "_stat", "posixpath", "genericpath", "os.path", "_collections_abc", "abc", "_abc", "posix"}
_CLOCK = {"datetime", "_datetime", "time", "math", "operator", "_operator"}
_ALLOWED = _OS | _CLOCK | {"__future__", "errno", "fcntl", "binascii", "gc", "_json", "_blake2"}
_HASHING = {"hashlib", "warnings", "_sha256", "_sha2", "_sha512", "_sha3", "_sha1", "_md5"}
_ROOMS = {
    "",
    "errors",
    "hooks",
    "hooks.event",
    "hooks.dispatch",
    "kernel",
    "kernel.json",
    "kernel.json.jsontext",
}
_ROOMS |= {"kernel.root", "kernel.project_signs", "protocols", "protocols.tasklist", "protocols.tasklist.layout"}
_STATE = {"hooks.messages", "kernel.clock", "kernel.files", "kernel.graph", "kernel.journal", "kernel.lease"}
_STATE |= {
    "kernel.digest",
    "kernel.lock",
    "kernel.lock_directory",
    "kernel.owner",
}
_STATE |= {f"protocols.tasklist.{name}" for name in ("lifecycle", "progress", "records", "selection", "store")}

_LOADED = """
import os, sys
known = set(sys.modules)
def report(_code, end=os._exit):
    os.write(2, " ".join(sorted({name for name in sys.modules if sys.modules[name]} - known)).encode())
    end(0)
os._exit = report
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(sys.argv[0])
__file__ = sys.argv[0]
exec(open(__file__).read())
"""


def loaded(name: str, root: Path) -> set[str]:
    """Return the modules that one script adds to those of a bare interpreter with ``os``."""
    command = [sys.executable, "-S", "-E", "-c", _LOADED, str(SCRIPTS / f"harness-{name}.py")]
    given = json.dumps({"session_id": "s", **CHATTY}).encode()
    done = subprocess.run(command, cwd=root, input=given, capture_output=True, check=True)
    return set(done.stderr.decode().split("\n")[-1].split()) - {"harness_start"}


def rooms(*names: str) -> set[str]:
    """Return the full names of these modules of the harness and of those that are always loaded."""
    return {f"{_OWN}.{name}" if name else _OWN for name in (*_ROOMS, *names)}


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_loads_exactly_what_it_needs(root: Path, name: str) -> None:
    rules = ("hooks.session_start",) if name == "sessionstart" else ("hooks.stop", "hooks.stop_limit")
    allowed = rooms(*_STATE, *rules)
    found = loaded(name, root)
    assert {each for each in found if each.startswith(_OWN)} <= allowed
    assert {each for each in found if not each.startswith(_OWN)} <= _ALLOWED | _HASHING


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_that_has_nothing_to_do_does_not_even_look_at_the_state(root: Path, name: str) -> None:
    (root / ".harness-active").unlink()
    found = loaded(name, root)
    assert {each for each in found if each.startswith(_OWN)} <= rooms()
    assert {each for each in found if not each.startswith(_OWN)} <= _ALLOWED


# ---- where the package is


def test_a_copied_plugin_finds_the_package_that_was_installed_last(root: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(SCRIPTS, tmp_path / "copied")
    command = [sys.executable, "-S", "-E", str(copied / "harness-stop.py")]

    def run() -> bytes:
        done = subprocess.run(command, cwd=root, input=b"{}", capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    assert run() == b""
    config = Path(os.environ["HOME"]) / ".config" / "agent-harness"
    config.mkdir(parents=True)
    (config / "hooks-path").write_text(f"{sys.executable}\n{SCRIPTS.parents[2]}\n")
    assert b"block" in run()
    for text in ("", "x", f"{sys.executable}\n{tmp_path}\n", "relative\npath\n", "\0\n\0\n"):
        (config / "hooks-path").write_text(text)
        assert run() == b""
    done = subprocess.run([*command[:-1], str(copied / "harness-claim.py")], cwd=root, capture_output=True, check=True)
    assert json.loads(done.stdout)["claimed"] is False


def test_a_linked_plugin_finds_the_package_beside_it(root: Path, tmp_path: Path) -> None:
    (tmp_path / "plugin").symlink_to(SCRIPTS.parent)
    command = [sys.executable, "-S", "-E", str(tmp_path / "plugin" / "hooks" / "harness-stop.py")]
    assert b"block" in subprocess.run(command, cwd=root, input=b"{}", capture_output=True, check=True).stdout


def test_an_older_interpreter_does_nothing(root: Path) -> None:
    program = (
        "import sys; sys.version_info = (3, 9, 0); sys.argv = sys.argv[1:]; __file__ = sys.argv[0]\n"
        f"sys.path.insert(0, {str(SCRIPTS)!r}); exec(open(__file__).read())"
    )
    command = [sys.executable, "-S", "-E", "-c", program, str(SCRIPTS / "harness-stop.py")]
    done = subprocess.run(command, cwd=root, input=b"{}", capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("text", ["Stop", "stop", "STOP"])
def test_events_go_by_the_names_that_clients_use(text: str) -> None:
    assert dispatch.named(text) == "stop"
    assert dispatch.named("SessionStart") == dispatch.named("session_start") == "session-start"
    assert dispatch.named("nothing") is None


def test_the_module_answers_like_the_script(root: Path) -> None:
    command = [sys.executable, "-m", "agent_harness.hooks", "Stop"]
    found = subprocess.run(command, cwd=root, input=b'{"session_id": "m"}', capture_output=True, check=True).stdout
    assert json.loads(found)["decision"] == "block"
