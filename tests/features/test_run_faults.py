"""A clock that is set, a full disk, a second run, rubbish and links while a feature project is worked on.

By one agent after the other and by several at once: nothing is lost or done twice, nothing counts that was not proven,
and what a person reads is one line with the next command. Source: ``scale.md`` 12, 13.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_harness.testing import CommandResult
from agent_harness.testing.feature_list_project import FeatureListProject
from agent_harness.testing.feature_list_project import module_work as work

from .test_parallel import landed, project, state_folder, turn, verdicts

USAGE = {"usage": {"input_tokens": 5, "output_tokens": 5, "cost_usd": 0.25}}
KINDS: dict[str, Sequence[str]] = {"serial": ("run", "--until-done"), "parallel": ("run", "--workers", "2")}


def each_is_proven_once(made: FeatureListProject, *ids: int) -> None:
    assert made.passing() == [*ids]
    accepted = [row["item"] for row in verdicts(made) if row["verdict"] == "accepted"]
    assert sorted(accepted) == sorted(map(str, ids))
    assert [made.progress.count(f"FEATURE: #{n} ") for n in ids] == [1] * len(ids)
    assert made.changes(without=["claude-progress.txt"]) == []
    done = [row["feature_id"] for row in made.log("sessions.jsonl") if row["feature_completed"]]
    assert sorted(done) == [*ids]


def is_refused(ran: CommandResult, code: int, said: str, hint: str) -> None:
    """One line, and the next command."""
    assert (ran.code, ran.err.splitlines()[-2:]) == (code, [f"harness: {said}", f"next: {hint}"]), ran.text
    assert "Traceback" not in ran.text


# ---- the clock -------------------------------------------------------------------------------------------------------

SKEWED = """\
import os, sys, time
if any(each in ("agent_harness.cli.main", "agent_harness.parallel.worker_process") for each in sys.orig_argv):
    from datetime import datetime
    from agent_harness.kernel import clock
    real = time.time
    time.time = lambda: real() + float(open(os.environ["SKEW"]).read() or 0)
    class Skewed(datetime):
        @classmethod
        def now(cls, zone=None):
            return datetime.fromtimestamp(time.time(), zone)
    clock.datetime = Skewed
"""
DAYS = 86400


@pytest.mark.exhaustive
@pytest.mark.scenario
@pytest.mark.parametrize("kind", KINDS)
def test_a_clock_that_is_set_forwards_and_back_decides_nothing(tmp_path: Path, kind: str) -> None:
    """Of all processes of a run, in the middle of its sessions: by 400 days forwards, then by 800 back."""
    made = project(tmp_path, "ham", "egg")
    (tmp_path / "skewed").mkdir()
    (tmp_path / "skewed/sitecustomize.py").write_text(SKEWED)
    skew = tmp_path / "skew"
    skew.write_text("0")
    acts = [{"run": f"echo {days * DAYS} > {skew}"} for days in (400, -400)]
    spec = made.agent(
        [turn(n, work(n, x, act, USAGE)) for n, (x, act) in enumerate(zip(("ham", "egg"), acts, strict=True), 1)]
    )
    environment = {"PYTHONPATH": str(tmp_path / "skewed"), "SKEW": str(skew)}
    ran = made.harness(*KINDS[kind], agent=spec, environ=environment)
    assert ran.code == 0, ran.text
    each_is_proven_once(made, 1, 2)
    years = {row["ts"][:4] for row in made.events()}
    assert len(years) >= 2, years  # the clock was another one
    rows = made.log("sessions.jsonl")
    assert all(row["duration_seconds"] >= 0 for row in rows), rows
    assert made.read(".harness/costs.yaml")["cumulative"]["total_cost_usd"] == pytest.approx(0.5)
    for name in ("status", "why", "costs", "report"):
        looked = made.harness(name, *(["1"] if name == "why" else []), environ=environment)
        assert (looked.code, "Traceback" in looked.text) == (0, False), looked.text


# ---- the disk --------------------------------------------------------------------------------------------------------


def mounted(folder: Path, *words: str) -> list[str]:
    """The command, where ``folder`` is a small disk of its own."""
    script = f'mount -t tmpfs -o size=24m tmpfs "{folder}" && exec "$@"'
    return ["unshare", "-rm", "sh", "-c", script, "sh", *words]


@pytest.mark.kept("parallel-project")
@pytest.mark.scenario
@pytest.mark.skipif(sys.platform != "linux", reason="no small file system can be mounted")
@pytest.mark.parametrize("where", ["state", "project"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_disk_that_is_full_ends_the_run_in_one_line_and_the_same_command_goes_on(
    tmp_path: Path, kind: str, where: str
) -> None:
    """An agent fills the disk of the harness's records, or that of the project; then there is room again."""
    made = project(tmp_path, "ham")
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(mounted(small, "true"), capture_output=True, check=False).returncode:
        pytest.skip("no small file system can be mounted here")
    fills = f"[ -e {tmp_path}/once ] || {{ touch {tmp_path}/once; cat /dev/zero > {small}/fill; }} 2>/dev/null; true"
    spec = made.agent([turn(1, work(1, "ham", {"run": fills}, USAGE))])
    command = " ".join(f"'{each}'" for each in made.command(*KINDS[kind], agent=spec))
    root = small / "shop" if where == "project" else made.root
    begins = f"cp -a {made.root} {small}/; " if where == "project" else ""
    script = f"{begins}cd {root}; {command} 2>&1; echo first $?; rm -f {small}/fill; {command} 2>&1; echo second $?; "
    script += f"git log --format='%s' > {tmp_path}/log; cat features.json"
    environment = made.variables({"XDG_STATE_HOME": str(small / "state")} if where == "state" else {})
    ran = subprocess.run(
        mounted(small, "sh", "-c", script), env=environment, capture_output=True, text=True, check=False
    )
    told, _, later = ran.stdout.partition("\nfirst ")
    assert "Traceback" not in ran.stdout + ran.stderr, ran.stdout
    assert "No space left on device" in told, told
    assert later.startswith(("1", "4", "5")), ran.stdout
    assert "second 0" in later, ran.stdout
    assert '"passes": true' in later, later
    assert len((tmp_path / "log").read_text().splitlines()) >= 2


@pytest.fixture
def without_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one, an agent in a workspace changes nothing of the project."""
    monkeypatch.setenv("HARNESS_SANDBOX", "off")


WRITTEN_MEANWHILE = (".git/index", ".harness/parallel.json", ".harness/lock")
"""Written by the run that goes on; so are its logs."""


# ---- two at once -----------------------------------------------------------------------------------------------------


@pytest.mark.kept("serial")
@pytest.mark.scenario
@pytest.mark.parametrize("kind", KINDS)
def test_a_second_run_is_refused_also_where_an_agent_takes_the_lock_away(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of either kind beside either kind; the first one goes on, and each feature is proven once."""
    if kind == "parallel":  # in a sandbox, an agent in a workspace takes nothing away
        monkeypatch.setenv("HARNESS_SANDBOX", "off")
    made = project(tmp_path, "ham")
    at, go, taken = (tmp_path / name for name in ("at", "go", "taken"))
    waits = f"touch {at}; until [ -e {taken}.wanted ]; do sleep 0.05; done; rm -f {made.root}/.harness/lock; "
    waits += f"touch {taken}; until [ -e {go} ]; do sleep 0.05; done"
    running = made.start(*KINDS[kind], agent=[turn(1, work(1, "ham", {"run": waits}, USAGE))])
    other = made.agent([turn(1, [{"run": f"touch {tmp_path}/second"}])])
    try:
        made.wait_until(at.exists, "the agent works")
        for is_taken in (False, True):
            if is_taken:
                (tmp_path / "taken.wanted").touch()
                made.wait_until(taken.exists, "the lock is gone")
                assert not (made.root / ".harness/lock").exists()
            for words in KINDS.values():
                before = made.fingerprint(without=WRITTEN_MEANWHILE)
                ran = made.harness(*words, agent=other)
                is_refused(ran, 5, "Another harness is running in this project", "harness status")
                now = made.fingerprint(without=WRITTEN_MEANWHILE)
                changed = {name for name in {*before, *now} if before.get(name) != now.get(name)}
                assert {name for name in changed if not name.startswith(".harness/logs/")} == set()
    finally:
        (tmp_path / "taken.wanted").touch()
        go.touch()
        code = running.wait(timeout=200)
    assert (code, (tmp_path / "second").exists()) == (0, False), made.started()
    each_is_proven_once(made, 1)


# ---- rubbish ---------------------------------------------------------------------------------------------------------

SPOILS = """\
echo '{"last_session": ' > session_state.json; echo '{}' > test_baseline.json
rm -rf costs.yaml parallel.json; ln -s /etc/passwd costs.yaml; mkdir -p parallel.json/x; : > logs/sessions.jsonl"""


def spoil(folder: Path) -> None:
    """Spoil files of a run outside the project: invalid requests, and a line in the journal."""
    mail = folder / "mailbox"
    mail.mkdir(exist_ok=True)
    os.mkfifo(mail / "a.json")
    (mail / "b.json").symlink_to("/etc/passwd")
    (mail / "c.json").write_text("[")
    (mail / "d.json").mkdir()
    (mail / f"{'e' * 24}.json").write_bytes(bytes(10_000_000))
    with (folder / "ledger.jsonl").open("a") as file:
        file.write("rubbish\n")


@pytest.mark.exhaustive
@pytest.mark.usefixtures("without_sandbox")
@pytest.mark.scenario
def test_rubbish_in_the_files_of_a_run_that_goes_on_changes_nothing_of_it(tmp_path: Path) -> None:
    """SC-12, SC-13: what the coordinator has written counts, in the project by being put back; a request that is none
    is named; the next run sets the journal aside, and nothing lands again.
    """
    made = project(tmp_path, "ham", "egg")
    at, go, script = (tmp_path / name for name in ("at", "go", "spoil.sh"))
    script.write_text(SPOILS)
    spoils = {"run": f"cd {made.root}/.harness && sh {script}; touch {at}; until [ -e {go} ]; do sleep 0.05; done"}
    spec = made.agent([turn(1, work(1, "ham", spoils, USAGE)), turn(2, work(2, "egg", USAGE))])
    running = made.start(*KINDS["parallel"], agent=spec)
    try:
        made.wait_until(at.exists, "the project is spoiled")
        folder = state_folder(made) / "parallel"
        spoil(folder)
        made.wait_until(lambda: f"{'e' * 24}.json is not a request" in made.started(), "a wrong file is named")
    finally:
        go.touch()
        code = running.wait(timeout=200)
    said = made.started()
    assert (code, "Traceback" in said) == (0, False), said
    each_is_proven_once(made, 1, 2)
    costs = made.read(".harness/costs.yaml")["cumulative"]
    assert (costs["total_sessions"], costs["total_cost_usd"]) == (2, pytest.approx(0.5))
    assert len(made.baseline["passing_tests"]) == 2
    assert "The files were restored. If you did not change them, an agent did" in said
    assert [said.count(f"{name}.json is not a request; it is ignored") for name in "abcd"] == [1] * 4
    assert made.events("harness_state_tampered")
    assert not (made.root / ".harness/costs.yaml").is_symlink()
    again = made.harness(*KINDS["parallel"], agent=spec)
    assert (again.code, f"{folder}/ledger.jsonl is damaged" in again.text) == (0, True), again.text
    each_is_proven_once(made, 1, 2)


@pytest.mark.usefixtures("without_sandbox")
@pytest.mark.scenario
def test_a_baseline_that_an_agent_empties_lets_nobody_break_what_passed(tmp_path: Path) -> None:
    """The one forgets the tests of the project for all; the next breaks them, and does not land."""
    made = project(tmp_path, "ham", "egg", "tea")
    empties = {"run": f"echo '{{\"passing_tests\": []}}' > {made.root}/.harness/test_baseline.json"}
    breaks = {"run": "echo 'def answer(times): return 1' > ham.py"}
    turns = [turn(1, work(1, "ham")), turn(2, work(2, "egg", empties)), turn(3, work(3, "tea", breaks))]
    ran = made.harness("run", "--workers", "1", "--sessions", "3", agent=turns, environ={"HARNESS_FIX_ROUNDS": "0"})
    assert (made.passing(), sorted(landed(made))) == ([1, 2], ["1", "2"]), ran.text
    assert ran.code != 0
    assert ".harness/test_baseline.json" in ran.text
    assert len(made.baseline["passing_tests"]) == 2


# ---- links -----------------------------------------------------------------------------------------------------------


def outside(folder: Path) -> Path:
    """A folder with names in it that the harness writes to in its own."""
    for name in ("logs/events.jsonl", "logs/usage.jsonl", "logs/sessions.jsonl", "logs/agent_actions.jsonl"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}\n")
    for name in ("session_state.json", "test_baseline.json", "costs.yaml", "parallel.json"):
        (folder / name).write_text("{}\n")
    for name in ("logs/verdicts", "checkpoints", "screenshots"):
        (folder / name).mkdir()
    return folder


@pytest.mark.kept("serial-.harness/logs")
@pytest.mark.scenario
@pytest.mark.parametrize(("kind", "at"), [("parallel", ".harness"), ("serial", ".harness/logs")])
def test_nothing_is_written_through_a_link_that_an_agent_puts_at_the_state_folder(
    tmp_path: Path, kind: str, at: str
) -> None:
    """SC-12: not in the very session that does it either; the next one begins without the link."""
    made = project(tmp_path, "ham")
    there, once = outside(tmp_path / "there"), tmp_path / "once"
    target = there if at == ".harness" else there / "logs"
    links = {"run": f"[ -e {once} ] || {{ touch {once}; rm -rf {at}; ln -s {target} {at}; }}"}
    before = {path: path.read_bytes() if path.is_file() else None for path in there.rglob("*")}
    began = time.time()
    ran = made.harness(*KINDS[kind], agent=[turn(1, work(1, "ham", links, USAGE))])
    assert (ran.code, once.exists(), "Traceback" in ran.text) == (0, True, False), ran.text
    assert {path: path.read_bytes() if path.is_file() else None for path in there.rglob("*")} == before
    assert all(path.stat().st_mtime < began for path in there.rglob("*"))
    assert made.passing() == [1]
