"""Workspaces of ``harness run --workers N``: what they have beside the files of their commit, and what if not."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from agent_harness.testing import CommandResult
from agent_harness.testing.task_list_project import TaskListProject, task

WORKS = 'mkdir -p out; echo "$HARNESS_TASK_ID" > out/$HARNESS_TASK_ID'
MEET = "touch {met}/$HARNESS_TASK_ID; until [ $(ls {met} | wc -l) -ge {count} ]; do sleep 0.05; done"


def project(path: Path, *names: str, proof: str = "true", **settings: Any) -> TaskListProject:
    """Tasks whose proof is their file, and more."""
    jobs = [task(name, validation={"command": f"{proof} && grep -q . out/{name}"}) for name in names]
    work = TaskListProject(path / "list", *jobs, git=True, session_count=0)
    work.edit(session_config={**work.raw["session_config"], "parallel": settings})
    return work


def run(work: TaskListProject, agent: str, workers: int, *words: str) -> CommandResult:
    return work.harness("run", "--workers", str(workers), "--agent", work.agent(agent), *words)


def together(tmp_path: Path, count: int) -> str:
    """Makes agents wait for one another, so that each has a workspace of its own."""
    met = tmp_path / "met"
    met.mkdir(exist_ok=True)
    return MEET.format(met=met, count=count)


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_is_installed_is_copied_and_an_agents_changes_of_it_stay_in_its_place(tmp_path: Path) -> None:
    """SC-17: the copy names the workspace.

    Agents, validations and landing have it, the project's own stays as it was.
    """
    tool = ".venv/bin/tool"
    work = project(tmp_path, "a", "b", proof=f"{tool} && test -f .env.local && test ! -e cache.o", copy=[".env.local"])
    (tmp_path / "list/.gitignore").write_text(".venv/\n*.o\n.env.local\n")
    work.repo.stage(".gitignore").commit("Ignore", stage=False)
    for path, text in ((tool, f"#!/bin/sh\ntest -d '{work.root}/.venv'\n"), (".env.local", "x\n"), ("cache.o", "o")):
        work.repo.write(path, text)
    work.repo.write(".venv/lib/python3.11/site-packages/own.pth", f"{work.root}/src\n{work.root}-other/src\n")
    (work.root / tool).chmod(0o755)
    seen = tmp_path / "seen"
    pth = ".venv/lib/python3.11/site-packages/own.pth"
    agent = f'cat {pth} >> {seen}; echo x >> {pth}; grep -q "$PWD" {tool} && {WORKS}; {together(tmp_path, 2)}'
    ran = run(work, agent, 2, "--json")
    assert (ran.code, work.statuses()) == (0, ["completed"] * 2), ran
    lines = seen.read_text().split()
    assert len(lines) == 4
    assert {line for line in lines if line.endswith("-other/src")} == {f"{work.root}-other/src"}
    own = {line for line in lines if not line.endswith("-other/src")}
    assert len(own) == 2
    assert all("/places/w" in line for line in own)
    assert "x" not in work.repo.read(pth).decode().split()
    assert work.status() == []


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_copy_is_made_again_when_the_projects_own_has_changed(tmp_path: Path) -> None:
    """SC-16, SC-17: else it is kept, with what the agent before has added."""
    work = project(tmp_path, "a", "b", "c")
    (work.root / ".git/info/exclude").write_text("harness-*\n.harness*\nnode_modules\n")
    work.repo.write("node_modules/one", "1\n")
    seen = tmp_path / "seen"
    agent = f"ls node_modules | tr '\\n' ' ' >> {seen}; echo >> {seen}; touch node_modules/added; {WORKS}"
    for more in ((), (), ("two",)):
        for name in more:
            work.repo.write(f"node_modules/{name}", "2\n")
        assert run(work, agent, 1, "--max-tasks", "1").code in (0, 9)
    assert [line.split() for line in seen.read_text().splitlines()] == [["one"], ["added", "one"], ["one", "two"]]
    assert sorted(each.name for each in (work.root / "node_modules").iterdir()) == ["one", "two"]


@pytest.mark.scenario
def test_slots_know_their_numbers_and_share_no_ports(tmp_path: Path) -> None:
    """SC-18: agents, set-up and validations are told; a block with a port in use is passed over."""
    work = project(tmp_path, "a", "b", proof='test "$HARNESS_PORT_COUNT" = 7 && test -n "$HARNESS_DB_SUFFIX"', ports=7)
    seen = tmp_path / "seen"
    told = '"$HARNESS_WORKER $HARNESS_SLOT $HARNESS_WORKERS $HARNESS_DB_SUFFIX $HARNESS_PORT_BASE $TMPDIR"'
    init = work.root / "harness-init.sh"
    init.write_text('[ -z "$HARNESS_SLOT" ] || echo "$HARNESS_PORT_BASE" > .harness-ports\n')
    agent = f"echo {told} >> {seen}; grep -qx $HARNESS_PORT_BASE .harness-ports && {WORKS}; {together(tmp_path, 2)}"
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 20003))
        taken.listen()
        ran = run(work, agent, 2)
    assert ran.code == 0, ran
    rows = sorted(line.split() for line in seen.read_text().splitlines())
    assert [row[:4] for row in rows] == [["w1", "1", "2", "_w1"], ["w2", "2", "2", "_w2"]]
    bases = {int(row[4]) for row in rows}
    assert len(bases) == 2
    assert all(base >= 20020 and base % 20 == 0 for base in bases)
    assert len({row[5] for row in rows}) == 2


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_place_that_cannot_be_set_up_is_made_anew_once_then_its_slot_is_closed(tmp_path: Path) -> None:
    """SC-12, SC-17: the other slots go on; the task is not charged."""
    work = project(tmp_path, "a", "b", "c")
    tries = tmp_path / "tries"
    fails = f'if [ "$HARNESS_SLOT" = 1 ]; then pwd >> {tries}; echo no database; exit 1; fi\n'
    (work.root / "harness-init.sh").write_text(fails)
    ran = run(work, WORKS, 2, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, work.statuses()) == (0, ["completed"] * 3), ran
    assert "w1 is closed" in ran.err
    assert "no database" in ran.err
    assert len(tries.read_text().splitlines()) == 4  # each try of a session is two
    assert (answer["attempts"], [work.task(name).attempts for name in "abc"]) == (3, [1, 1, 1])


def test_without_a_slot_that_can_be_set_up_no_agent_starts(tmp_path: Path) -> None:
    """SC-17: exit 4, with the last lines."""
    work = project(tmp_path, "a", "b")
    (work.root / "harness-init.sh").write_text('[ -z "$HARNESS_SLOT" ] || { echo no database; exit 1; }\n')
    ran = run(work, f"touch {tmp_path}/started", 2, "--json")
    assert (ran.code, json.loads(ran.out)["reason"]) == (4, "not_set_up"), ran
    assert "no database" in json.loads(ran.out)["message"]
    assert not (tmp_path / "started").exists()
    assert (work.statuses(), work.raw.get("halt")) == (["pending"] * 2, None)


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_cannot_be_emptied_is_replaced(tmp_path: Path) -> None:
    """SC-12: a file lies where the workspace is to be.

    It is set aside, and the agent starts in a workspace that is one.
    """
    work = project(tmp_path, "a")
    assert run(work, "exit 1", 1, "--max-tasks", "1").code != 0
    folders = Path(os.environ["XDG_STATE_HOME"], "agent-harness/projects")
    workspace = next(folders.glob("*list%harness-tasks.json/parallel/places/w1"))
    workspace.rename(workspace.with_name("moved"))
    workspace.write_text("no folder\n")
    ran = run(work, WORKS, 1)
    assert (ran.code, work.statuses()) == (0, ["completed"]), ran


def test_a_setting_that_is_none_is_named_and_a_variable_that_is_none_is_refused(tmp_path: Path) -> None:
    work = project(tmp_path, "a", ports="many", mends=-1, union="x", colour="red")
    told = tmp_path / "told"
    agent = work.agent(f"{WORKS}; echo $HARNESS_PORT_COUNT > {told}")
    refused = work.harness("run", "--workers", "1", "--agent", agent, HARNESS_PARALLEL__BATCH_MAX="0")
    assert (refused.code, "HARNESS_PARALLEL__BATCH_MAX must be a number from 1" in refused.err) == (3, True), refused
    assert not told.exists()
    ran = work.harness("run", "--workers", "1", "--agent", agent)
    assert (ran.code, work.statuses()) == (0, ["completed"]), ran
    assert told.read_text() == "20\n"
    assert "session_config.parallel.ports must be a number from 0; using the default, 20" in ran.out + ran.err
    assert "session_config.parallel.union must be a list of strings; using the default, []" in ran.out + ran.err
    assert "session_config.parallel has unknown settings: colour" in ran.out + ran.err


@pytest.mark.scenario
def test_a_place_is_set_up_when_it_is_made_and_when_a_lock_file_has_changed(tmp_path: Path) -> None:
    """SC-17: what the set-up leaves that git does not ignore is gone; before a workspace is removed it is torn down."""
    said = tmp_path / "said"
    setup = (
        f'echo "up $HARNESS_WORKER $(basename $HARNESS_HOME_DIR)" >> {said}; mkdir -p node_modules; '
        "cp uv.lock node_modules/which; echo x >> app.py; touch stray"
    )
    work = project(tmp_path, "a", "b", "c", setup=setup, teardown=f'echo "down $HARNESS_WORKER" >> {said}')
    (work.root / ".gitignore").write_text("node_modules\n")
    work.repo.write("uv.lock", "1\n")
    work.repo.stage(".gitignore", "uv.lock").commit("Locks", stage=False)
    agent = f'echo "agent $(cat node_modules/which) $(git status --short | wc -l)" >> {said}; {WORKS}'
    assert run(work, agent, 1, "--max-tasks", "2").code == 9
    work.repo.write("uv.lock", "2\n")
    work.repo.stage("uv.lock").commit("More packages", stage=False)
    assert run(work, agent, 1).code == 0
    assert work.harness("workspace", "prune").code == 0
    lines = said.read_text().splitlines()
    assert [line for line in lines if not line.startswith("up v")] == [
        *("up w1 list", "agent 1 0", "agent 1 0"),
        *("up w1 list", "agent 2 0"),
        *(["down v1"] if "up v1 list" in lines else []),
        "down w1",
    ]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_set_up_that_fails_closes_the_slot_and_a_fresh_place_is_set_up_each_time(tmp_path: Path) -> None:
    """SC-17: with its last lines; twice, the second time in a new workspace."""
    work, tries = project(tmp_path, "a", "b"), tmp_path / "tries"
    failing = f"echo >> {tries}; echo no registry; exit 3"
    broken = work.harness(
        "run", "--workers", "1", "--agent", work.agent(WORKS), "--json", HARNESS_PARALLEL__SETUP=failing
    )
    assert (broken.code, json.loads(broken.out)["reason"]) == (4, "not_set_up"), broken
    assert "parallel.setup failed (exit 3)" in json.loads(broken.out)["message"]
    assert "no registry" in json.loads(broken.out)["message"]
    assert len(tries.read_text().splitlines()) == 2
    each = {"HARNESS_PARALLEL__SETUP": f"echo >> {tries}.ok", "HARNESS_PARALLEL__FRESH": "yes"}
    words = ("run", "--workers", "1", "--agent", work.agent(WORKS))
    assert work.harness(*words, **each).code == 0
    assert len(Path(f"{tries}.ok").read_text().splitlines()) == 3  # one for each attempt, one where all is proven again


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_the_number_of_workers_may_be_a_setting(tmp_path: Path) -> None:
    """Not with --once, which works as ever."""
    work = project(tmp_path, "a", "b", "c", workers=2)
    assert work.harness("run", "--once", "--agent", work.agent(WORKS)).code == 0
    ran = work.harness("run", "--agent", work.agent(f"{WORKS}; {together(tmp_path, 2)}"))
    assert (ran.code, "starting with 2 workers" in ran.out) == (0, True), ran
    assert work.statuses() == ["completed"] * 3


def test_ignored_folders_are_lent_where_the_settings_name_them(tmp_path: Path) -> None:
    """SC-17."""
    work = project(tmp_path, "a", links=["data", "more"], copy=[".env.local"], lend=False)
    (tmp_path / "list/.gitignore").write_text("data/\nmore/\nother/\n.env.local\n")
    for path in ("data/x", "more/y", "other/z", ".env.local"):
        work.repo.write(path, "x\n")
    told = json.loads(work.harness("run", "--workers", "1", "--dry-run", "--json").out)["parallel"]
    assert told["lend"] == [".env.local", "data", "more"]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_proof_that_another_environments_python_runs_passes_where_it_lands_as_in_its_place(tmp_path: Path) -> None:
    """Packages installed from the project count for a proof in a checkout, and also if two land together."""
    proof = "python3 -c 'import pk.{}'"
    tasks = [task(name, validation={"command": proof.format(name), "timeout_seconds": 60}) for name in "ab"]
    work = TaskListProject(tmp_path / "list", *tasks, git=True, session_count=0)
    packages = work.root / ".venv/lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    (work.root / ".venv/pyvenv.cfg").write_text("home = /usr/bin\n")
    (packages / "__editable__.pk-1.pth").write_text(f"{work.root}/src\n")
    (work.root / "src/pk").mkdir(parents=True)
    (work.root / "src/pk/__init__.py").write_text("")
    (work.root / ".gitignore").write_text(".venv/\n")
    work.repo.git("add", ".gitignore", "src")
    work.repo.git("commit", "-qm", "Package")
    agent = f"{together(tmp_path, 2)}; echo 'X = 1' > src/pk/$HARNESS_TASK_ID.py"
    ran = run(work, agent, 2, "--json")
    assert (ran.code, json.loads(ran.out)["bounces"], work.statuses()) == (0, 0, ["completed"] * 2), ran
    assert json.loads(ran.out)["checks"] > 0
