"""Failures while several agents work at a task list, and their effects: ``scale.md`` 12."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from agent_harness.parallel.ledger import project_id
from agent_harness.parallel.merge_queue.refs import ProjectRefs
from agent_harness.testing import HARNESS
from agent_harness.testing.task_list_project import TaskListProject

from .test_parallel import WORKS, job, landed, project, rescued, run, until
from .test_parallel_fresh_start import folder_of
from .test_parallel_push import tip, with_remote

DYING = Path(__file__).parents[1] / "parallel/dying.py"

MENDS = """\
if grep -q '^<<<<<<< ' list.txt 2>/dev/null; then sed -i '/^[<=>]/d' list.txt; fi
grep -qx $HARNESS_TASK_ID list.txt || echo $HARNESS_TASK_ID >> list.txt
"""


def meet(folder: Path, names: str) -> str:
    """Nobody goes on before all of these are at work."""
    met = " && ".join(f"[ -e {folder}/at.{name} ]" for name in names)
    return f"touch {folder}/at.$HARNESS_TASK_ID; until {met}; do sleep 0.1; done"


def died(work: TaskListProject, moment: str, agent: str, workers: int = 2, *words: str) -> None:
    """A run that was killed there."""
    given = ["run", "--workers", str(workers), "--agent", work.agent(agent), *words]
    done = subprocess.run([sys.executable, str(DYING), moment, *given], cwd=work.root, capture_output=True, check=False)
    assert done.returncode == -9, done


def events(work: TaskListProject, kind: str) -> list[dict[str, Any]]:
    """Those of a kind in the journal of the last run."""
    lines = (folder_of(work) / "ledger.jsonl").read_text().splitlines()
    return [each for each in map(json.loads, lines) if each["type"] == kind]


def candidate(work: TaskListProject, name: str, fence: int) -> str:
    return ProjectRefs(project_id(str(folder_of(work)))).candidate(name, fence)


def refs(work: TaskListProject, *folders: str) -> list[str]:
    return work.repo.git("for-each-ref", "--format=%(refname)", *(f"refs/harness/{each}" for each in folders)).split()


# ---- agents ----------------------------------------------------------------------------------------------------------


@pytest.mark.kept("hangs", "lies")
@pytest.mark.scenario
@pytest.mark.parametrize("fault", ["crashes", "hangs", "floods", "lies"])
def test_what_one_agent_does_is_its_own_attempts_end_and_the_others_land(tmp_path: Path, fault: str) -> None:
    """As without others: a is not proven, and is the only one that is not."""
    work = project(tmp_path, job("a", max_attempts=1), job("b"), job("c"))
    work.edit(session_config={**work.raw["session_config"], "fix_rounds": 0})
    does = {
        "crashes": "kill -9 $$",
        "hangs": "sleep 600",
        "floods": "head -c 30000000 /dev/zero | tr '\\\\0' x; exit 1",
        "lies": "echo done",
    }[fault]
    agent = f"if [ $HARNESS_TASK_ID = a ]; then {does}; else {WORKS}; fi"
    ran = run(work, agent, 3, "--json", "--max-minutes", "0.1" if fault == "hangs" else "5")
    answer = json.loads(ran.out)
    assert (ran.code, answer["failed"] + answer["open"], sorted(landed(work))) == (1, ["a"], ["b", "c"]), ran


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_commit_on_another_branch_a_stash_and_a_rewritten_history_are_rescued(tmp_path: Path) -> None:
    """The tested tree lands: the tree of HEAD, as one commit on the branch."""
    work = project(tmp_path, job("a"))
    agent = f"""
        git config user.name A; git config user.email a@x
        git switch -qc side; echo side > side.txt; git add side.txt; git commit -qm Side
        echo stashed > app.py; git stash -q
        git switch -q main; git commit -q --amend -m Rewritten; {WORKS}; git add out; git commit -qm Work"""
    ran = run(work, agent, 1)
    assert work.statuses() in (["completed"], ["pending"], ["failed"]), ran
    assert "side" in [each.strip() for each in rescued(work, "side.txt")]
    assert "stashed" in [each.strip() for each in rescued(work, "app.py")]
    assert "Rewritten" not in work.repo.git("log", "--format=%s")
    assert work.status() == []


@pytest.mark.kept("rm -rf .git/objects/info")
@pytest.mark.scenario
@pytest.mark.parametrize(
    "destroys",
    ["rm -rf .git", "rm -rf .git; git init -q .", "rm -rf .git; ln -s {home}/.git .git", "rm -rf .git/objects/info"],
)
def test_a_place_whose_repository_is_destroyed_is_kept_as_it_is_and_made_anew(tmp_path: Path, destroys: str) -> None:
    """``place_damaged``: no repository around the workspace is taken for its own, and the attempt is not counted."""
    work = project(tmp_path, job("a"), job("b"))
    state = Path(os.environ["XDG_STATE_HOME"])
    around = state.parent
    subprocess.run(["git", "init", "-q", str(around)], check=True)
    once = tmp_path / "once"
    agent = f"""
        if [ $HARNESS_TASK_ID = a ] && [ ! -e {once} ]; then
            touch {once}; echo half > half.txt; {destroys.format(home=work.root)}
        fi
        {WORKS}"""
    ran = run(work, agent, 2, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["lost"], work.statuses()) == (0, 1, ["completed"] * 2), ran
    (lost,) = events(work, "lost")
    assert (lost["item"], lost["reason"]) == ("a", "place_damaged")
    assert "a: the repository of its workspace was destroyed" in ran.err
    if "git init" in destroys:  # what a new repository of the agent's own tells of is a rescue like any other
        (ref,) = work.repo.git("for-each-ref", "--format=%(refname)", "refs/harness/rescue/").split()
        assert work.repo.git("show", f"{ref}:half.txt").strip() == "half"
        assert ref in ran.err
    else:
        (kept,) = folder_of(work).glob("places/w?.kept-1")
        assert (kept / "half.txt").read_text() == "half\n"
    assert work.task("a").attempts == 1
    assert (
        subprocess.run(["git", "-C", str(around), "rev-list", "--all"], capture_output=True, check=True).stdout == b""
    )
    assert sorted(landed(work)) == ["a", "b"]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_place_that_is_cleaned_away_is_made_anew(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"), job("b"))
    once = tmp_path / "once"
    gone = f'touch {once}; rm -rf "$PWD"; exit 0'
    agent = f"if [ $HARNESS_TASK_ID = a ] && [ ! -e {once} ]; then {gone}; fi; {WORKS}"
    ran = run(work, agent, 2, "--json")
    assert (ran.code, json.loads(ran.out)["lost"], work.statuses()) == (0, 1, ["completed"] * 2), ran
    assert work.task("a").attempts == 1


@pytest.mark.scenario
def test_what_an_agent_changes_of_the_project_itself_is_put_back_where_no_sandbox_keeps_it_away(
    tmp_path: Path,
) -> None:
    """``home_touched``: refs, settings, hooks and the list; the index is said; what lands beside it is none of it."""
    work = project(tmp_path, job("a"), job("b", depends_on=["a"]), job("c", depends_on=["b"]))
    home, hook = work.root, work.root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("mine")
    work.repo.git("branch", "kept")
    was = (work.root / ".git/config").read_bytes(), work.repo.git("rev-parse", "kept")
    does = f"git -C {home} branch evil; git -C {home} branch -qD kept; echo x > {home}/mine.txt; "
    does += f"git -C {home} config core.fsmonitor evil; git -C {home} add mine.txt; echo evil > {hook}; "
    does += f'echo \'{{"version": 2, "tasks": []}}\' > {home}/harness-tasks.json'
    ran = run(work, f"[ $HARNESS_TASK_ID != a ] || ({does}); {WORKS}", 2, "--json", HARNESS_SANDBOX="off")
    assert (ran.code, sorted(landed(work))) == (0, ["a", "b", "c"]), ran
    (event,) = events(work, "home_touched")
    refs = ["refs/heads/kept", "refs/heads/evil"]
    assert event["item"] == "a"
    assert {*event["changed"]} == {
        *refs,
        "core.fsmonitor",
        "hooks/pre-commit",
        "staged: mine.txt",
        "harness-tasks.json",
    }
    assert {*event["put_back"]} == {*refs, "config", "hooks/pre-commit", "harness-tasks.json"}
    assert Path(event["put_back"]["hooks/pre-commit"]).read_text() == "evil\n"
    assert "a: changed in" in ran.err
    assert "Files that changed in the project during the run, and were restored: " in json.loads(ran.out)["message"]
    assert hook.read_text() == "mine"
    assert ((work.root / ".git/config").read_bytes(), work.repo.git("rev-parse", "kept")) == was
    assert work.repo.git("branch", "--list", "evil") == ""
    assert work.statuses() == ["completed"] * 3
    assert work.repo.status() == ["A  mine.txt"]


# ---- the branch ------------------------------------------------------------------------------------------------------


@pytest.mark.kept("True")
@pytest.mark.scenario
@pytest.mark.parametrize("named", [False, True])
def test_a_branch_that_is_deleted_ends_the_run_and_comes_back_as_it_says(tmp_path: Path, named: bool) -> None:
    """``branch_gone``: candidates are kept, also that of an attempt that was under way."""
    work = project(tmp_path, job("a"), job("b"), job("c", depends_on=["a"]))
    work.repo.git("branch", "dev")
    branch, more = ("dev", ("--branch", "dev")) if named else ("main", ())
    gone = f"git -C {work.root} update-ref -d refs/heads/{branch}"
    agent = f"{WORKS}; if [ $HARNESS_TASK_ID = a ]; then {gone}; else sleep 2; fi"
    ran = run(work, agent, 2, "--json", *more, HARNESS_SANDBOX="off")
    answer = json.loads(ran.out)
    assert (ran.code, answer["reason"], answer["landed"]) == (3, "branch_gone", []), ran
    assert f"The branch {branch} no longer exists; proven work waits to be merged." in answer["message"]
    assert answer["hint"].startswith(f"git branch {branch} ")
    assert {candidate(work, "a", 1), candidate(work, "b", 1)} == {*refs(work, "work")}
    queue = json.loads(work.harness("queue", "--json").out)["queue"]
    assert [each["item"] for each in queue] == ["a", "b"]
    assert answer["next"] == answer["hint"]
    before = work.files()
    again = run(work, "exit 1", 2, *more)
    assert (again.code, answer["hint"] in again.err) == (4, True), again
    assert work.files() == before
    work.repo.git(*answer["hint"].split()[1:])
    ran = run(work, WORKS, 2, "--json", *more)
    assert (ran.code, work.statuses()) == (0, ["completed"] * 3), ran
    log = work.repo.git("log", "--format=%(trailers:key=Harness-Item,valueonly)", branch)
    assert sorted(log.split()) == ["a", "b", "c"]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_an_attempt_that_cannot_begin_since_the_branch_is_gone_holds_no_seat(tmp_path: Path) -> None:
    """SC-40: another attempt goes on meanwhile, and the machine has the rest."""
    work = project(tmp_path, job("a"), job("b"))
    go = tmp_path / "go"
    gone = f"git -C {work.root} update-ref -d refs/heads/main"
    waits = f"until [ -e {go} ]; do sleep 0.1; done; {WORKS}"
    agent = work.agent(f"if [ $HARNESS_TASK_ID = a ]; then {gone}; exit 1; else {waits}; fi")
    words = [*HARNESS, "run", "--workers", "2", "--agent", agent]
    environment = {**os.environ, "HARNESS_SANDBOX": "off"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, cwd=work.root, env=environment, **pipes) as running:
        journals = Path(os.environ["XDG_STATE_HOME"], "agent-harness/projects")
        try:
            until(lambda: [*journals.glob("*/parallel/ledger.jsonl")] and events(work, "blocked"))
            holders = json.loads(work.harness("limits", "--host", "--json").out)["holders"]
        finally:
            go.touch()
        out, err = running.communicate(timeout=120)
    assert [each["item"] for each in holders] == ["b"]
    assert running.returncode == 3, (out, err)


# ---- people and time -------------------------------------------------------------------------------------------------


@pytest.mark.scenario
def test_a_list_that_a_person_edits_meanwhile_is_followed(tmp_path: Path) -> None:
    """A new task is picked, and a removed one is recalled: its work is in a rescue."""
    work = project(tmp_path, job("a"), job("b"))
    edited = tmp_path / "edited"

    def at_work() -> list[object]:
        told = subprocess.run([*HARNESS, "status", "--json"], cwd=work.root, capture_output=True, check=False).stdout
        return (json.loads(told).get("parallel") or {}).get("workers") or []

    def edit() -> None:
        listed = work.root / "harness-tasks.json"
        until(lambda: len(at_work()) == 2)
        found = json.loads(listed.read_text())
        found["tasks"] = [each for each in found["tasks"] if each["id"] != "b"] + [job("c")]
        part = listed.with_suffix(".mine")
        part.write_text(json.dumps(found))
        part.replace(listed)
        edited.touch()

    agent = f"""
        if [ $HARNESS_TASK_ID = b ]; then echo half > half.txt; sleep 300; fi
        if [ $HARNESS_TASK_ID = a ]; then until [ -e {edited} ]; do sleep 0.1; done; fi
        {WORKS}"""
    person = threading.Thread(target=edit)
    person.start()
    ran = run(work, agent, 2, "--json", HARNESS_TIME_SCALE="0.1")
    person.join()
    assert (ran.code, [each.id for each in work.state.tasks]) == (0, ["a", "c"]), ran
    assert (work.statuses(), sorted(landed(work))) == (["completed"] * 2, ["a", "c"])
    assert "b: the item no longer belongs to this run" in ran.err
    assert [each.strip() for each in rescued(work, "half.txt")] == ["half"]


@pytest.mark.exhaustive
@pytest.mark.scenario
@pytest.mark.parametrize("year", ["1971", "2099"])
def test_what_a_clock_says_decides_nothing_of_a_journal(tmp_path: Path, year: str) -> None:
    """Order is the number of an event; a run whose events are of another time goes on."""
    work = project(tmp_path, job("a"), job("b"))
    died(work, "before:batched", WORKS, 1)
    path = folder_of(work) / "ledger.jsonl"
    rows = [{**json.loads(line), "at": f"{year}-01-01T00:00:00Z"} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(each, separators=(",", ":")) + "\n" for each in rows))
    ran = run(work, WORKS, 1)
    assert (ran.code, sorted(landed(work))) == (0, ["a", "b"]), ran


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_validation_that_fails_once_where_it_lands_sends_nobody_back(tmp_path: Path) -> None:
    """Flaky: once more on a fresh checkout before it says so."""
    flag = tmp_path / "flag"
    proof = f'case "$PWD" in */v1) [ -e {flag} ] || {{ touch {flag}; exit 1; }};; esac; test -e out/'
    work = project(tmp_path, job("a", f"{proof}a"), job("b", f"{proof}b"))
    both = meet(tmp_path, "ab")
    ran = run(work, f"{both}; {WORKS}", 2, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["bounces"], flag.exists(), sorted(landed(work))) == (0, 0, True, ["a", "b"]), ran


# ---- what is foreseen, pushed and kept -------------------------------------------------------------------------------


@pytest.mark.kept("before:ended-abc-bc-a")
@pytest.mark.scenario
@pytest.mark.parametrize(
    ("moment", "names", "starts", "lands"),
    [("after:ordered@2", "abc", "ab", ""), ("before:ended", "abc", "bc", "a"), ("before:ended", "ab", "b", "a")],
)
def test_a_dry_run_after_a_kill_shows_what_the_next_run_does(
    tmp_path: Path, moment: str, names: str, starts: str, lands: str
) -> None:
    """SC-7, SC-39: no dead attempt holds a slot, and the remote is the one that a person has set."""
    work = project(tmp_path, *map(job, names))
    with_remote(work)
    work.repo.git("remote", "add", "other", str(tmp_path / "origin.git"))
    slow = "[ $HARNESS_TASK_ID = a ] || sleep 30"
    died(work, moment, f"{slow}; {WORKS}")
    work.edit(session_config={**work.raw["session_config"], "parallel": {"push": "other"}})
    before = work.files()
    told = work.harness("run", "--workers", "2", "--dry-run", "--json")
    assert told.code == 0, told
    found = told.json["parallel"]
    assert ([each["item"] for each in found["starts"]], found["lands"]) == ([*starts], [*lands])
    assert found["push"] == "origin, main"
    assert work.files() == before


@pytest.mark.scenario
def test_a_landing_that_its_remote_has_not_got_is_said_until_the_next_run_takes_it_along(tmp_path: Path) -> None:
    """SC-39: one line, in the summary, `--json`, status and queue; done all the same, since nobody has to decide."""
    work = project(tmp_path, job("a"))
    workspace = with_remote(work)
    workspace.rename(tmp_path / "away.git")
    ran = run(work, WORKS, 1, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["next"], answer["unpushed"]["commit"]) == (0, "harness run", work.repo.head), ran
    said = answer["unpushed"]["message"]
    assert said.startswith("Not pushed: origin cannot be reached (")
    assert said.endswith("; the next run pushes it: harness run")
    assert "\n" not in said
    assert answer["message"] == f"All work is merged. {said}"
    assert "Please make sure" not in ran.err
    assert said in work.harness("status").out
    assert said in work.harness("queue").out
    assert json.loads(work.harness("queue", "--json").out)["unpushed"] == answer["unpushed"]
    ran = work.harness("run", "--agent", work.agent("exit 1"), "--json")
    assert (ran.code, ran.json["unpushed"]) == (0, answer["unpushed"]), ran
    (tmp_path / "away.git").rename(workspace)
    ran = work.harness("run", "--agent", work.agent("exit 1"), "--json")
    assert (ran.code, ran.json["unpushed"], tip(workspace)) == (0, None, work.repo.head), ran
    assert "Not pushed" not in work.harness("status").out + work.harness("queue").out


@pytest.mark.scenario
def test_a_candidate_is_kept_until_its_item_has_landed_and_nobodys_becomes_a_rescue(tmp_path: Path) -> None:
    """SC-14, SC-29: one of the two is mended; what versions before have left goes as well, and stories stay whole."""
    work = project(tmp_path, job("a", "grep -qx a list.txt"), job("b", "grep -qx b list.txt"))
    both = meet(tmp_path, "ab")
    agent = f"{both}; {MENDS}"
    anothers = work.repo.git("commit-tree", "HEAD^{tree}", "-m", "Proven in another list, where a is something else")
    theirs = f"refs/harness/work/{'0' * 24}/a/1"
    work.repo.git("update-ref", theirs, anothers)
    ran = run(work, agent, 2, "--json")
    assert (ran.code, json.loads(ran.out)["bounces"] > 0) == (0, True), ran
    assert refs(work, "work", "mend", "batch", "rescue") == [theirs]
    (old,) = work.repo.git("log", "-1", "--format=%(trailers:key=Harness-Candidate,valueonly)", "HEAD").split()
    work.repo.git("update-ref", candidate(work, "a", 8), old)
    nobodys = work.repo.git("commit-tree", "HEAD^{tree}", "-m", "Nobody's")
    work.repo.git("update-ref", candidate(work, "a", 9), nobodys)
    work.repo.git("update-ref", candidate(work, "other", 1), nobodys)
    work.edit(tasks=[*work.raw["tasks"], job("c")])
    assert run(work, WORKS, 1).code == 0
    assert {*refs(work, "work", "mend")} == {theirs, candidate(work, "other", 1)}  # of an item that is not known
    assert work.repo.git("rev-parse", "refs/harness/rescue/a/1") == nobodys
    work.repo.git("gc", "-q", "--prune=now")
    for verb in ("why", "diff"):
        assert work.harness(verb, "a").code == 0


# ---- a journal that is damaged late ----------------------------------------------------------------------------------


def damaged_at_its_end(work: TaskListProject) -> int:
    """The lines of the journal that can be read."""
    path = folder_of(work) / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines) + b"\0\0\0\n" + lines[-1])
    return len(lines)


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_a_damaged_journal_says_before_its_damage_counts(tmp_path: Path) -> None:
    """Section 7: what is held stays held, and no agent begins again."""
    work = project(tmp_path, *[job(each, f"test -e {each}") for each in "abc"])
    ready = (
        f"touch {tmp_path}/at.$HARNESS_TASK_ID; until [ $(ls {tmp_path} | grep -c '^at') -ge 3 ]; do sleep 0.1; done"
    )
    died(work, "before:batched", f"{ready}; echo x > $HARNESS_TASK_ID", 3)
    proven = [each["item"] for each in json.loads(work.harness("queue", "--json").out)["queue"]]
    held = proven[-1]
    assert work.harness("queue", "hold", held).code == 0
    lines = damaged_at_its_end(work)
    ran = run(work, "echo x > $HARNESS_TASK_ID", 3, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["reason"], len(answer["landed"])) == (3, "held", 2), ran
    assert f"Not known any more after line {lines}:" in ran.err
    assert held not in landed(work)
    assert work.harness("queue", "release", held).code == 0
    ran = run(work, "exit 1", 3)
    assert (ran.code, work.statuses()) == (0, ["completed"] * 3), ran


@pytest.mark.kept("gone")
@pytest.mark.scenario
@pytest.mark.parametrize("how", ["damaged", "gone"])
def test_what_was_sent_back_is_mended_as_far_as_the_damaged_journal_knows_it(tmp_path: Path, how: str) -> None:
    """By the journal before its damage; without it, it is sent back once more."""
    work = project(tmp_path, *[job(each, f"grep -qx {each} list.txt") for each in "ab"])
    tools = tmp_path / "tools"
    tools.mkdir()
    both = meet(tools, "ab")
    keep = f"cat {tools}/prompt.$HARNESS_TASK_ID.0 >> {tools}/told.$HARNESS_TASK_ID"
    agent = f"{both}; {keep}; cat list.txt >> {tools}/seen.$HARNESS_TASK_ID 2>/dev/null; {MENDS}"
    died(work, "after:bounced", agent)
    path = folder_of(work) / "ledger.jsonl"
    if how == "damaged":
        damaged_at_its_end(work)
    else:
        path.rename(tmp_path / "ledger")
    ran = run(work, agent, 2, "--json")
    assert (ran.code, sorted(landed(work))) == (0, ["a", "b"]), ran
    assert json.loads(ran.out)["bounces"] == (how == "gone")
    assert "conflicts with work" in "".join(each.read_text() for each in tools.glob("told.*"))
    assert any("<<<<<<< " in each.read_text() for each in tools.glob("seen.*"))


@pytest.mark.kept("damaged")
@pytest.mark.scenario
@pytest.mark.parametrize("how", ["damaged", "gone"])
def test_what_was_not_pushed_is_pushed_though_the_journal_is_damaged(tmp_path: Path, how: str) -> None:
    """SC-39: by the journal before its damage, or by that of the run before."""
    work = project(tmp_path, job("a"))
    workspace = with_remote(work)
    workspace.rename(tmp_path / "away.git")
    assert run(work, WORKS, 1).code == 0
    if how == "damaged":
        damaged_at_its_end(work)
    else:
        work.edit(tasks=[*work.raw["tasks"], job("b")])
        died(work, "after:ordered", WORKS, 1)
        (folder_of(work) / "ledger.jsonl").unlink()
    (tmp_path / "away.git").rename(workspace)
    assert run(work, WORKS, 1).code == 0
    assert tip(workspace) == work.repo.head


# ---- the disk --------------------------------------------------------------------------------------------------------


@pytest.mark.scenario
@pytest.mark.skipif(sys.platform != "linux", reason="no small file system can be mounted")
def test_a_disk_that_is_full_ends_the_run_with_its_folder_and_the_same_command_goes_on(tmp_path: Path) -> None:
    """Nothing is half written: the journal, the list and the branch are whole, and each task lands once."""
    work = project(tmp_path, job("a"), job("b"))
    state = tmp_path / "small"
    state.mkdir()
    mounted = ["unshare", "-rm", "sh", "-c", f'mount -t tmpfs -o size=24m tmpfs "{state}" && exec "$@"', "sh"]
    if subprocess.run([*mounted, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no small file system can be mounted here")
    fills = f"[ -e {tmp_path}/once ] || {{ touch {tmp_path}/once; cat /dev/zero > {state}/fill; }} 2>/dev/null"
    agent = work.agent(f"{fills}; {WORKS}")
    command = f"'{sys.executable}' -m agent_harness.cli.main run --workers 2 --agent '{agent}'"
    script = f"{command}; echo first $?; rm -f {state}/fill; {command}; echo second $?"
    environment = {**os.environ, "XDG_STATE_HOME": str(state)}
    ran = subprocess.run(
        [*mounted, "sh", "-c", script], cwd=work.root, env=environment, capture_output=True, text=True, check=False
    )
    assert "No space left on device" in ran.stdout + ran.stderr, ran
    assert "Traceback" not in ran.stderr
    assert ("first 4" in ran.stdout, "second 0" in ran.stdout) == (True, True), ran
    assert (work.statuses(), sorted(landed(work))) == (["completed"] * 2, ["a", "b"])
    assert work.status() == []


@pytest.mark.scenario
def test_why_tells_of_claims_that_were_proven_in_a_workspace_and_never_landed(tmp_path: Path) -> None:
    """With what failed where they were to land; the claims of the run count them as rejected."""
    work = project(tmp_path, job("a"), job("b", depends_on=["a"]))
    agent = f"[ $HARNESS_TASK_ID = a ] || git rm -q out/a\n{WORKS}"
    ran = run(work, agent, 2)
    assert (ran.code, work.statuses()) == (3, ["completed", "pending"]), ran
    assert "claims     5, 4 rejected: b" in ran.out
    why = work.harness("why", "b")
    assert "4 claims, 4 rejected" in why.out
    assert why.out.count("REJECTED not_landed: the work was proven in its workspace but not merged, red: a") == 4
    assert work.harness("resume").code == 0
    number = work.harness("why", "b").out.split("--output ")[1].split()[0]
    printed = work.harness("why", "b", "--output", number).out
    assert "$ grep -q . out/a" in printed
    assert "out/a: No such file" in printed


WITHOUT_A_SANDBOX = {"HARNESS_SANDBOX": "off"}


@pytest.mark.scenario
def test_files_that_an_agent_writes_into_the_projects_own_work_tree_are_put_back_and_kept(tmp_path: Path) -> None:
    """New ones are taken aside; a file that a person had changed before is only named; a commit of somebody too."""
    work = project(tmp_path, job("a"), job("b", depends_on=["a"]), job("c", depends_on=["b"]))
    work.repo.write("kept", "kept\n").write("gone", "gone\n").write("mine", "1\n").commit("Files")
    work.repo.write("mine", "2\n")
    does = f"cd {work.root}; echo evil >> kept; rm gone; echo evil > .gitattributes; mkdir new; echo n > new/file; "
    does += "echo 3 >> mine; git config --global core.evil yes"
    commits = f"git -C {work.root} -c user.name=E -c user.email=e@e commit -q --allow-empty -m Evil"
    agent = f"case $HARNESS_TASK_ID in a) ({does});; b) {commits};; esac; {WORKS}"
    ran = run(work, agent, 2, GIT_CONFIG_GLOBAL=str(tmp_path / "gitconfig"), **WITHOUT_A_SANDBOX)
    assert (ran.code, work.statuses()) == (0, ["completed"] * 3), ran
    assert work.repo.status() == [" M mine"]
    assert (work.repo.read("kept"), work.repo.read("gone"), work.repo.read("mine")) == (b"kept\n", b"gone\n", b"2\n3\n")
    event = events(work, "home_touched")[0]
    assert {*event["put_back"]} == {"kept", "gone", ".gitattributes", "new/file"}
    found = {name: Path(where).read_text() for name, where in event["put_back"].items() if where}
    assert found == {"kept": "kept\nevil\n", ".gitattributes": "evil\n", "new/file": "n\n"}
    evil = work.repo.git("log", "--format=%h", "--grep=^Evil$", "--abbrev=10")
    for told in (ran.out, work.harness("status").out):
        assert f"needs you  main was moved to {evil} while agents worked without a sandbox" in told
        assert "core.evil is yes, and was not set; to undo it: git config --global" in told
        assert "and restored: .gitattributes, new/file, " in told


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_with_a_sandbox_files_of_the_work_tree_are_a_persons(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"), job("b", depends_on=["a"]))
    said = tmp_path / "said"
    ran = run(work, f"{WORKS}; echo x > {work.root}/from-agent || echo refused > {said}; true", 1)
    assert (ran.code, work.statuses()) == (0, ["completed"] * 2), ran
    assert "without a sandbox" not in ran.out
