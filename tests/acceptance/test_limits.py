"""Whole runs with agents and checks that would take the machine with them, or leave something for one another."""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent_harness.errors import Refused
from agent_harness.kernel.process import limits, sandbox
from agent_harness.kernel.temporary import PREFIX, remove_tree
from agent_harness.testing import HARNESS, CommandResult, run_process
from agent_harness.testing.repo import Repo

from .arranging import with_settings
from .calc import CalcProject
from .script import (
    CODE,
    claim,
    commit,
    evidence,
    forge,
    honest,
    prompt_to,
    proof_path,
    proof_text,
    sh,
    turn,
    usage,
    write,
)

pytestmark = pytest.mark.skipif(not limits.held(), reason="this system does not show what a command takes")

# At most 512 processes, each in a session of its own, and none for longer than a minute
BOMB = """\
import os, sys
for _ in range(9):
    if os.fork() == 0:
        os.setsid()
os.execlp("sleep", "sleep", sys.argv[1])
"""
HOG = "x = []\nwhile len(x) < 64:\n    x.append(bytearray(10_000_000))\nimport time\ntime.sleep(600)\n"
SMALL = {"memory": "256 MiB", "processes": 200}


@pytest.fixture(params=[*sandbox.KINDS, "off"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each kind of sandbox that this machine offers, and none."""
    monkeypatch.setenv("HARNESS_SANDBOX", request.param)
    try:
        sandbox.kind_for(sandbox.AUTO)
    except Refused:
        pytest.skip(f"this machine has no {request.param}")
    return request.param


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for temporary files that nobody else uses."""
    (found := tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(found))
    return found


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repo]:
    files = {"README.md": "A project.\n", "bomb.py": BOMB, "hog.py": HOG}
    yield Repo.with_files(tmp_path / "project", files, message="Start")


def harness(repo: Repo, *words: str) -> CommandResult:
    return run_process([*HARNESS, *words], cwd=repo.path, environ=dict(os.environ))


def arrange(repo: Repo, agent: str, validation: str, **allowed: object) -> str:
    """A list of one task and the agent for it; the first words of the command that runs it."""
    assert harness(repo, "init", ".").code == 0
    assert harness(repo, "add", "Do the work", "--validate", validation).code == 0
    path = repo.path / "harness-tasks.json"
    state = json.loads(path.read_text())
    state["session_config"] |= {"sandbox": allowed, "fix_rounds": 0}
    state["tasks"][0]["max_attempts"] = 1
    path.write_text(json.dumps(state))
    (script := repo.path.parent / "agent.sh").write_text(agent)
    return f"command:sh {shlex.quote(str(script))}"


def task(repo: Repo) -> dict[str, Any]:
    return dict(json.loads((repo.path / "harness-tasks.json").read_text())["tasks"][0])


def verdict() -> dict[str, Any]:
    (file,) = Path(os.environ["XDG_STATE_HOME"], "agent-harness/projects").glob("*/verdicts.jsonl")
    return dict(json.loads(file.read_text().splitlines()[-1]))


def left(mark: str) -> list[psutil.Process]:
    return [each for each in psutil.process_iter(["cmdline"]) if mark in (each.info["cmdline"] or [])]


@pytest.mark.exhaustive
def test_a_check_that_multiplies_ends_and_the_run_goes_on(kind: str, repo: Repo) -> None:
    seconds = f"57.{os.getpid()}"
    agent = arrange(repo, "echo done > work.txt\n", f"{sys.executable} bomb.py {seconds}", **SMALL)
    ran = harness(repo, "run", "--agent", agent)
    assert task(repo)["status"] == "failed", ran
    assert "processes and threads, more than 200 (limit: sandbox.processes)" in task(repo)["error_log"][-1]
    assert "its result does not count" in task(repo)["error_log"][-1]
    assert task(repo)["error_log"][-1].startswith("[TASK_EXEC]")
    assert verdict()["codes"] == ["over_limit"]
    assert not left(seconds)
    assert "Traceback" not in ran.err


@pytest.mark.exhaustive
def test_a_check_that_takes_too_much_memory_is_neither_done_nor_a_failed_test(kind: str, repo: Repo) -> None:
    agent = arrange(repo, "echo done > work.txt\n", f"{sys.executable} hog.py || true", **SMALL)
    harness(repo, "run", "--agent", agent)
    assert task(repo)["status"] == "failed"
    assert "of memory, more than 256 MiB (limit: sandbox.memory)" in task(repo)["error_log"][-1]
    assert verdict()["codes"] == ["over_limit"]


@pytest.mark.kept("namespaces-hog.py")
@pytest.mark.parametrize("program", ["bomb.py 56.{}", "hog.py"])
def test_an_agent_that_takes_too_much_is_ended_and_told_and_its_work_is_judged(
    kind: str, repo: Repo, program: str
) -> None:
    seconds = f"56.{os.getpid()}"
    script = f"echo done > work.txt\nexec {sys.executable} {program.format(os.getpid())}\n"
    agent = arrange(repo, script, "grep -q done work.txt", **SMALL)
    ran = harness(repo, "run", "--agent", agent)
    assert "more than" in ran.out + ran.err
    assert "(limit: sandbox." in ran.out + ran.err
    assert task(repo)["status"] == "completed", "cut off by a limit, the work is judged all the same"
    assert not left(seconds)


@pytest.mark.exhaustive
def test_a_check_that_fills_the_disk_is_ended_and_its_files_are_gone(
    kind: str, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("no disk of which nobody else takes room")
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="harness-test-") as disk:
        monkeypatch.setenv("TMPDIR", disk)
        found = os.statvfs(disk)
        room = found.f_bavail * found.f_frsize - (16 << 20)
        if room <= 32 << 20:
            pytest.skip("too little room on that disk")
        agent = arrange(
            repo,
            "echo done > work.txt\n",
            'head -c 24000000 /dev/zero > "$TMPDIR/full"; sleep 600',
            free_disk=room,
        )
        ran = harness(repo, "run", "--agent", agent)
        assert task(repo)["error_log"], ran
        assert "(limit: sandbox.free_disk)" in task(repo)["error_log"][-1]
        assert verdict()["codes"] == ["over_limit"]
        assert not list(Path(disk).rglob("full"))


@pytest.mark.exhaustive
def test_a_check_that_leaves_a_deep_folder_does_not_end_the_run(kind: str, repo: Repo, place: Path) -> None:
    deep = "import os\nfor _ in range(1200):\n    os.mkdir('d')\n    os.chdir('d')\n"
    (repo.path.parent / "deep.py").write_text(deep)
    check = (
        f'(cd "$TMPDIR" && {sys.executable} {repo.path.parent}/deep.py) && {sys.executable} {repo.path.parent}/deep.py'
    )
    agent = arrange(repo, "echo done > work.txt\n", check)
    ran = harness(repo, "run", "--agent", agent)
    assert task(repo)["status"] == "completed", ran
    assert not list(place.glob(f"{PREFIX}*"))
    remove_tree(repo.path)  # pytest cannot remove a folder that deep, and fails at the end of a later run


@pytest.mark.exhaustive
def test_what_an_agent_leaves_among_temporary_files_proves_nothing(kind: str, repo: Repo, place: Path) -> None:
    """Its tests find neither what it left in its own folder for them, nor, but without namespaces, in that of all."""
    if kind in ("landlock", "off"):
        pytest.skip("what all share is seen by checks as well")
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="harness-test-") as folder:
        flag = Path(folder, "flag")
        agent = arrange(repo, f"echo done > work.txt\n: > {flag}\n", "test -e $(cat where)")
        (repo.path / "where").write_text(f"{flag}\n")
        assert harness(repo, "run", "--agent", agent).code != 0
        assert flag.exists(), "the agent has written there"
        assert task(repo)["status"] == "failed"


@pytest.mark.exhaustive
def test_temporary_files_of_an_agent_are_its_own_and_gone_with_its_turn(kind: str, repo: Repo, place: Path) -> None:
    script = (
        'echo "$TMPDIR" > work.txt; : > "$TMPDIR/flag"; mkdir "$TMPDIR/deep"; ln -s / "$TMPDIR/deep/root"\n'
        f"{shlex.join(HARNESS)} status > /dev/null\n"
        f"{shlex.join(HARNESS)} task complete task-001 > /dev/null\n"
    )
    agent = arrange(repo, script, 'grep -q . work.txt && test ! -e "$(cat work.txt)"')
    harness(repo, "run", "--agent", agent)
    assert task(repo)["status"] == "completed"
    own = Path((repo.path / "work.txt").read_text().strip())
    assert own.parent == place
    assert not list(place.glob(f"{PREFIX}*"))
    assert not list(place.glob("agent-harness-*")), "nor what commands of the harness kept there in its sandbox"


def test_what_a_killed_harness_left_is_swept_by_the_next_command(repo: Repo, place: Path) -> None:
    agent = arrange(
        repo, "test -e work.txt || { : > work.txt; sleep 600; }\necho done > work.txt\n", "grep -q done work.txt"
    )
    words = [*HARNESS, "run", "--agent", agent]
    with subprocess.Popen(words, cwd=repo.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        until = time.monotonic() + 60
        while not (repo.path / "work.txt").exists() and time.monotonic() < until:
            time.sleep(0.05)
        (folder,) = place.glob(f"{PREFIX}*")
        running.send_signal(signal.SIGKILL)
    assert folder.exists()
    harness(repo, "run", "--agent", agent)
    assert not folder.exists()
    assert not list(place.glob(f"{PREFIX}*"))


HUNGRY = "\n\nx = []\nwhile len(x) < 64:\n    x.append(bytearray(10_000_000))\n"


@pytest.mark.exhaustive
def test_a_feature_whose_tests_take_too_much_is_told_so_and_may_mend_it(calc: CalcProject) -> None:
    with_settings(calc, "sandbox:\n  memory: 256 MiB\n")
    told = calc.base / "prompt-2.txt"
    code = '"""A calculator."""\n\n\n' + CODE["add"]
    tests = write(proof_path(1), proof_text(1))
    first = turn(tests, write("src/calc.py", code + HUNGRY), forge(1), claim(1), commit("Hungry"), usage(10, 10))
    mend = turn(prompt_to(told), write("src/calc.py", code), evidence(1), claim(1), commit("Mend"), usage(10, 10))
    ran = calc.run([first, mend])
    assert ran.code == 0, ran.text
    assert calc.passing() == [1]
    assert "more than 256 MiB (limit: sandbox.memory)" in told.read_text()
    assert "its result does not count" in told.read_text()


@pytest.mark.exhaustive
def test_a_session_whose_agent_takes_too_much_is_handed_off_and_goes_on(calc: CalcProject) -> None:
    with_settings(calc, "sandbox:\n  memory: 256 MiB\n")
    hog = write("../hog.py", HOG), sh("python3 ../hog.py")
    ran = calc.run([turn(write("src/half.py", "# half\n"), *hog, usage(10, 10)), turn(honest(1))], "--until-done")
    assert "(limit: sandbox.memory)" in ran.text
    assert calc.events("over_limit")
    assert 1 in calc.passing(), ran.text
