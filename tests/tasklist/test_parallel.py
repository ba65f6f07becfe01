"""``harness run --workers N`` on a task list: real agents in real workspaces, and what becomes of their work."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_harness.testing import HARNESS, CommandResult
from agent_harness.testing.repo import Repo
from agent_harness.testing.task_list_project import TaskListProject, task

WORKS = 'mkdir -p out; echo "$HARNESS_TASK_ID" > out/$HARNESS_TASK_ID'


def job(name: str, command: str | None = None, **members: Any) -> dict[str, Any]:
    return task(name, validation={"command": command or f"grep -q . out/{name}", "timeout_seconds": 60}, **members)


def project(path: Path, *tasks: Any, **words: Any) -> TaskListProject:
    return TaskListProject(path / "list", *tasks, git=True, **(dict[str, Any](session_count=0) | words))


def run(work: TaskListProject, agent: str, workers: int = 3, *words: str, **environment: str) -> CommandResult:
    return work.harness("run", "--workers", str(workers), "--agent", work.agent(agent), *words, **environment)


def landed(work: TaskListProject) -> list[str]:
    return work.repo.git("log", "--format=%(trailers:key=Harness-Item,valueonly)").split()


def rescued(work: TaskListProject, path: str) -> list[str]:
    """Return the contents of a file in the rescues."""
    refs = work.repo.git("for-each-ref", "--format=%(refname)", "refs/harness/rescue").split()
    return [work.repo.git("show", f"{ref}:{path}") for ref in refs if path in _files(work.repo, ref)]


def _files(repo: Repo, ref: str) -> list[str]:
    return repo.git("ls-tree", "-r", "--name-only", ref).splitlines()


def until(found: Callable[[], object]) -> None:
    for _ in range(3000):
        if found():
            return
        time.sleep(0.02)
    raise AssertionError("it never happened")


# ---- independent work ------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_begins_together_is_claimed_by_one_change_of_the_list(tmp_path: Path) -> None:
    """One change is that of the session, the second that of all claims."""
    work = project(tmp_path, *(job(name) for name in "abcde"))
    met = tmp_path / "met"
    met.mkdir()
    waits = f'touch {met}/$HARNESS_TASK_ID; until [ $(ls {met} | grep -c "^.$") -ge 4 ]; do sleep 0.05; done'
    noted = f'cp "{work.layout.tasks}" {met}/list.$HARNESS_TASK_ID'
    ran = run(work, f"{waits}; {noted}; {WORKS}", 4)
    assert (ran.code, work.statuses()) == (0, ["completed"] * 5), ran
    first = min((json.loads(each.read_text()) for each in met.glob("list.*")), key=lambda found: found["revision"])
    assert [each["status"] for each in first["tasks"]].count("in_progress") == 4
    assert first["revision"] <= 2


@pytest.mark.kept("3")
@pytest.mark.scenario
@pytest.mark.parametrize("workers", [1, 3])
def test_everything_lands_once_whatever_the_number_of_workers(tmp_path: Path, workers: int) -> None:
    """SC-1, SC-2, SC-6, SC-37: the state says so, the commits name their item, and the books are at home."""
    work = project(tmp_path, job("a"), job("b", depends_on=["a"]), job("c", priority="P0"), job("d"))
    work.repo.write("mine.txt", "not yet committed\n")
    usage = 'echo \'{"type": "usage", "input_tokens": 5, "output_tokens": 5, "cost_usd": 0.01}\''
    ran = run(work, f"{WORKS}; {usage}", workers, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["exit_code"], answer["reason"]) == (0, 0, "done"), ran
    assert sorted(each["item"] for each in answer["landed"]) == ["a", "b", "c", "d"]
    assert (answer["failed"], answer["parked"], answer["open"], answer["attempts"]) == ([], [], [], 4)
    assert answer["cost_usd"] == pytest.approx(0.04)
    assert work.statuses() == ["completed"] * 4
    assert sorted(landed(work)) == ["a", "b", "c", "d"]
    assert landed(work).index("b") < landed(work).index("a")
    assert work.repo.status() == ["?? mine.txt"]
    rows = [json.loads(line) for line in Path(work.layout.costs).read_text().splitlines()]
    assert sorted((row["task_id"], row["result"]) for row in rows) == [(name, "completed") for name in "abcd"]
    for name in "abcd":
        commit = str(work.task(name).completed_commit)
        assert work.repo.git("show", "--format=%an", "--name-only", commit).split()[-1] == f"out/{name}"
        assert work.task(name).raw["proof"]["where"]
    verdicts = [json.loads(line) for line in _ledger(work).read_text().splitlines()]
    assert sorted((each["item"], each["verdict"]) for each in verdicts) == [(name, "accepted") for name in "abcd"]
    assert {each["commit"] for each in verdicts} == {str(work.task(name).completed_commit) for name in "abcd"}
    assert [each["path"] for each in json.loads(work.harness("projects", "--json").out)["projects"]] == [str(work.root)]
    if workers == 1:
        assert answer["checks"] == 2  # SC-32: what b needs is asked before it lands, and all of it at the end


def _ledger(work: TaskListProject) -> Path:
    folders = Path(os.environ["XDG_STATE_HOME"], "agent-harness/projects")
    return next(folders.glob("*list%harness-tasks.json/verdicts.jsonl"))


def test_what_lands_alone_passes_the_check_of_every_landing_too(tmp_path: Path) -> None:
    """SC-32: no workspace knows of `check`, so that its verdict says nothing of it."""
    work = project(tmp_path, job("a"))
    work.edit(session_config={**work.raw["session_config"], "parallel": {"check": "test ! -e out/a", "mends": 0}})
    ran = run(work, WORKS, 1, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["parked"]) == (3, [{"item": "a", "reason": "landing_failed"}]), ran
    assert (landed(work), work.repo.read("app.py")) == ([], b"one\n")


@pytest.mark.exhaustive
@pytest.mark.scenario
@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems take UTF-8 alone")
def test_files_whose_names_are_no_text_meet_and_are_mended(tmp_path: Path) -> None:
    """SC-31: `order.json` names them as they can be shown."""
    work = project(tmp_path, job("a"), job("b"))
    met, odd = tmp_path / "met", "odd-$(printf '\\351')"
    met.mkdir()
    waits = f"touch {met}/$HARNESS_TASK_ID; until [ -e {met}/a ] && [ -e {met}/b ]; do sleep 0.05; done"
    agent = f"{waits}; cat {odd} 2>/dev/null; echo $HARNESS_TASK_ID > {odd}; {WORKS}"
    ran = run(work, agent, 2)
    assert (ran.code, work.statuses()) == (0, ["completed"] * 2), ran
    assert "not merged (conflict: " in ran.out
    assert sorted(landed(work)) == ["a", "b"]
    told = work.prompt(next(each for each in "ab" if landed(work)[0] == each))
    assert r"odd-\\xe9" in told


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_an_agent_that_fails_keeps_its_work_in_rescues_at_home(tmp_path: Path) -> None:
    """SC-13: two attempts fail, whose work, stash and other branch are in the project's rescues; the rest lands."""
    work = project(tmp_path, job("bad", "false", max_attempts=2), job("good"))
    stray = (
        "if [ $HARNESS_TASK_ID = bad ]; then echo stashed > tried.txt; git stash -q -u; echo b > branch.txt;"
        " git switch -q -c other; git add .; git commit -q -m other; git switch -q main; echo last > tried.txt;"
        f" else {WORKS}; fi"
    )
    work.edit(session_config={**work.raw["session_config"], "fix_rounds": 0})
    ran = run(work, stray, 2)
    assert ran.code == 1, ran
    assert (work.task("good").status, work.task("bad").status, work.task("bad").attempts) == ("completed", "failed", 2)
    assert len(work.task("bad").error_log) == 2
    assert "last" in rescued(work, "tried.txt")
    assert "b" in rescued(work, "branch.txt")
    stashed = work.repo.git("log", "--all", "-m", "--format=", "-p", "--", "tried.txt")
    assert "+stashed" in stashed
    assert all(work.repo.git("rev-parse", ref) for ref in work.task("bad").rescues)
    assert work.repo.git("stash", "list") == ""
    assert work.repo.git("branch", "--format=%(refname:short)").split() == ["main"]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_run_in_which_nothing_landed_says_so_first(tmp_path: Path) -> None:
    """SC-4: with the reason of the last attempt."""
    work = project(tmp_path, job("a", "false", max_attempts=1))
    ran = run(work, "true", 2, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["failed"]) == (1, ["a"]), ran
    assert answer["message"].startswith("Nothing was merged. The last attempt was at a: ")


def test_a_dry_run_explains_each_pick_and_changes_nothing(tmp_path: Path) -> None:
    """SC-7."""
    tasks = [
        job("a", touches=["src/*"]),
        job("b", touches=["src/x.py"]),
        job("c"),
        job("d"),
        job("e", depends_on=["a"]),
    ]
    work = project(tmp_path, *tasks)
    before, refs = work.files(), work.repo.git("for-each-ref")
    ran = work.harness("run", "--workers", "2", "--dry-run", "--json")
    told = ran.json["parallel"]
    assert (ran.code, ran.json["next"]) == (0, "harness run --workers 2")
    assert [(each["slot"], each["item"]) for each in told["starts"]] == [("w1", "a"), ("w2", "c")]
    assert all(each["reason"] for each in told["starts"])
    why = {each["item"]: each["reason"] for each in told["waits"]}
    assert why["b"] == "it waits for a: both declare changes to src/*"
    assert why["d"] == "it waits for a free slot"
    assert why["e"] == "it needs a, which is not merged yet"
    text = work.harness("run", "--workers", "2", "--dry-run", "--max-cost", "3").out
    for said in ("w1  a: Title of a (next in order", "b: it waits for a", "$3.00", "20 ports", "No changes made."):
        assert said in text
    assert (work.files(), work.repo.git("for-each-ref")) == (before, refs)


# ---- landing ---------------------------------------------------------------------------------------------------------

MENDS = (
    'grep -q \'"mend"\' "{tools}/prompt.$HARNESS_TASK_ID.$HARNESS_ROUND" && touch "{tools}/mended.$HARNESS_TASK_ID";'
)


def test_what_does_not_go_together_is_mended_and_lands(tmp_path: Path) -> None:
    """SC-30, SC-31: both change one line; the one that comes second finds both sides in its files."""
    work = project(tmp_path, *[job(name, f"grep -qx {name} list.txt") for name in "abc"])
    tools = tmp_path / "tools"
    agent = (
        f"{MENDS.format(tools=tools)} if grep -q '^<<<<<<< ' list.txt 2>/dev/null;"
        " then sed -i '/^<<<<<<< /d;/^=======$/d;/^>>>>>>> /d' list.txt; else sleep 1; fi;"
        " grep -qx $HARNESS_TASK_ID list.txt || echo $HARNESS_TASK_ID >> list.txt"
    )
    ran = run(work, agent, 3, "--json")
    assert ran.code == 0, ran
    answer = json.loads(ran.out)
    assert sorted(work.repo.read("list.txt").decode().split()) == ["a", "b", "c"]
    assert answer["bounces"] >= 2
    assert len([each for each in tools.iterdir() if each.name.startswith("mended.")]) == 2
    assert [work.task(name).attempts for name in "abc"] == [1, 1, 1]


def ahead(work: TaskListProject, **parallel: object) -> TaskListProject:
    """The same, with batches of one, two of which are verified at once on a machine that has room for that."""
    host = Path(os.environ["XDG_STATE_HOME"], "agent-harness/host")
    host.mkdir(parents=True, mode=0o700)
    (host / "host.json").write_text('{"tests": 2}')
    settings = {"batch_max": 1, "window": 2, "test_runs": 2, **parallel}
    work.edit(session_config={**work.raw["session_config"], "parallel": settings})
    return work


def together(tools: Path, names: str, command: str = WORKS) -> str:
    """An agent that ends once all of them have done their work."""
    all_done = " && ".join(f"[ -e {tools}/done.{name} ]" for name in names)
    return f"{command}; touch {tools}/done.$HARNESS_TASK_ID; until {all_done}; do sleep 0.1; done"


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_mend_begins_once_what_it_did_not_go_together_with_has_landed(tmp_path: Path) -> None:
    """SC-31: a free slot waits while that is verified; the attempt finds both sides in its files, and lands at once."""
    tools = tmp_path / "tools"
    tools.mkdir()
    slow = 'case "$PWD" in */v1) sleep 3;; esac'
    work = project(tmp_path, *[job(name, f"{slow}; grep -qx {name} list.txt") for name in "ab"], job("c"))
    mends = "grep -q '^<<<<<<< ' list.txt 2>/dev/null && sed -i '/^[<=>]/d' list.txt"
    adds = "grep -qx $HARNESS_TASK_ID list.txt || echo $HARNESS_TASK_ID >> list.txt"
    command = f"if [ $HARNESS_TASK_ID = c ]; then {WORKS}; else {mends}; {adds}; fi"
    ran = run(work, together(tools, "abc", command), 3, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["bounces"], answer["attempts"]) == (0, 1, 4), ran
    assert sorted(work.repo.read("list.txt").decode().split()) == ["a", "b"]


@pytest.mark.scenario
def test_the_next_batch_is_verified_on_top_of_the_one_under_check(tmp_path: Path) -> None:
    """SC-35: what is checked in v1 ends only once v2 checks what comes next; both verdicts count."""
    tools = tmp_path / "tools"
    tools.mkdir()
    check = (
        f'case "$PWD" in */v2) touch {tools}/second;; */v1) for n in $(seq 300); do [ -e {tools}/second ] && exit 0;'
        " sleep 0.1; done; exit 1;; esac"
    )
    work = ahead(project(tmp_path, *[job(name) for name in "abc"]), check=check)
    ran = run(work, together(tools, "abc"), 3, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["bounces"], answer["batches"]) == (0, 0, 3), ran
    assert sorted(landed(work)) == ["a", "b", "c"]
    assert answer["checks"] == 3
    assert work.repo.git("for-each-ref", "refs/harness/batch") == ""


@pytest.mark.kept("ahead")
@pytest.mark.scenario
@pytest.mark.parametrize("batches", ["one", "ahead"])
def test_the_culprit_of_a_red_batch_is_found_and_the_others_land(tmp_path: Path, batches: str) -> None:
    """SC-34: a and c are red together by the check of every landing; whoever is second is sent back with what fails."""
    tools = tmp_path / "tools"
    work = project(tmp_path, *[job(name) for name in "abcd"])
    check = "test ! -e out/a || test ! -e out/c || grep -q both out/c"
    if batches == "ahead":
        ahead(work, check=check)
    else:
        work.edit(session_config={**work.raw["session_config"], "parallel": {"check": check}})
    command = f"{MENDS.format(tools=tools)} {WORKS}; [ ! -e {tools}/mended.$HARNESS_TASK_ID ] || echo both >> out/c"
    ran = run(work, together(tools, "abcd", command), 4, "--json")
    assert ran.code == 0, ran
    answer = json.loads(ran.out)
    assert sorted(landed(work)) == ["a", "b", "c", "d"]
    mended = [each.name for each in tools.iterdir() if each.name.startswith("mended.")]
    assert (mended, answer["bounces"]) in ((["mended.c"], 1), (["mended.a"], 1))  # whoever of the two comes second
    name = mended[0].removeprefix("mended.")
    assert "these validations fail" in (tools / f"prompt.{name}.0").read_text()


@pytest.mark.scenario
def test_what_the_machine_does_convicts_nobody(tmp_path: Path) -> None:
    """SC-9, SC-35: a validation that is killed where it is to land leaves all in the queue, with one question."""
    broken = tmp_path / "broken"
    broken.touch()
    proof = f'case "$PWD" in */v1) [ ! -e {broken} ] || kill -9 $$;; esac'
    work = project(tmp_path, *[job(name, f"{proof}; grep -q . out/{name}") for name in "abc"])
    ran = run(work, f"{WORKS}; sleep 1", 3, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["reason"], answer["bounces"]) == (3, "landing_broken", 0), ran
    assert work.raw["halt"]["category"] == "TASK_EXEC"
    before = len(answer["landed"])
    broken.unlink()
    assert work.harness("resume").code == 0
    ran = run(work, "exit 1", 3, "--json")  # nobody is asked again: what is proven only lands
    assert (ran.code, len(json.loads(ran.out)["landed"]) + before) == (0, 3), ran
    assert work.statuses() == ["completed"] * 3


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_head_that_somebody_else_made_is_verified_before_anything_lands_on_it(tmp_path: Path) -> None:
    """SC-38."""
    work = project(tmp_path, job("a"), job("b", depends_on=["a"]))
    home = work.repo.path
    person = (
        f"[ $HARNESS_TASK_ID != b ] || (cd {home}; echo p > person.txt; git add person.txt; git commit -q -m Person)"
    )
    ran = run(work, f"{WORKS}; {person}", 2, "--json", HARNESS_SANDBOX="off")
    assert ran.code == 0, ran
    assert sorted(landed(work)) == ["a", "b"]
    assert "Person" in work.repo.git("log", "--first-parent", "--format=%s").splitlines()
    assert "by someone else. The harness verifies that commit first" in ran.err


@pytest.mark.scenario
def test_a_head_of_somebody_else_that_proves_nothing_is_a_question(tmp_path: Path) -> None:
    """SC-38: what a has proven is taken out by a person's commit; b waits in the queue."""
    work = project(tmp_path, job("a"), job("b", depends_on=["a"]))
    home = work.repo.path
    person = f"[ $HARNESS_TASK_ID != b ] || (cd {home}; git rm -q out/a; git commit -q -m Person)"
    ran = run(work, f"{WORKS}; {person}", 2, "--json", HARNESS_SANDBOX="off")
    assert (ran.code, json.loads(ran.out)["reason"]) == (3, "head_red"), ran
    assert landed(work) == ["a"]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_commit_of_a_person_passes_the_check_of_every_landing_too(tmp_path: Path) -> None:
    """SC-38: nobody has asked it of this commit yet; b, which is innocent, is sent back for nothing."""
    work = project(tmp_path, job("a"), job("b", depends_on=["a"]))
    work.edit(session_config={**work.raw["session_config"], "parallel": {"check": "test ! -e bad.txt"}})
    person = f"cd {work.repo.path}; echo bad > bad.txt; git add bad.txt; git commit -q -m Person"
    ran = run(work, f"{WORKS}; [ $HARNESS_TASK_ID != b ] || ({person})", 2, "--json", HARNESS_SANDBOX="off")
    answer = json.loads(ran.out)
    assert (ran.code, answer["reason"], answer["bounces"]) == (3, "head_red", 0), ran
    assert "fails these checks: the check of every landing" in ran.err
    assert landed(work) == ["a"]


@pytest.mark.scenario
def test_a_file_of_a_person_in_the_way_is_never_overwritten(tmp_path: Path) -> None:
    """SC-36: the landing names it, waits, and goes on once it is gone."""
    work = project(tmp_path, job("a"), job("b"))
    work.repo.write("out/a", "mine\n")
    stays = f"until [ $HARNESS_TASK_ID = a ] || [ ! -e {work.root}/out/a ]; do sleep 0.05; done"
    words = [*HARNESS, "run", "--workers", "2", "--agent", work.agent(f"{WORKS}; {stays}")]
    environment = {**os.environ, "HARNESS_TIME_SCALE": "0.02"}
    seen = ""
    with subprocess.Popen(words, cwd=work.root, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "Merging waits" in line and not seen:
                seen = line
                assert work.repo.read("out/a") == b"mine\n"
                work.repo.remove("out/a")
    assert "out/a" in seen
    assert process.returncode == 0
    assert work.statuses() == ["completed", "completed"]
    assert work.repo.read("out/a") == b"a\n"


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_run_of_which_only_that_is_left_ends_and_says_what_to_do_and_its_neighbours_land(tmp_path: Path) -> None:
    """SC-36, SC-45: nobody is at work, and a file of a person is in the way of one of three."""
    work = project(tmp_path, *(job(name) for name in "abc"))
    work.repo.write("out/a", "mine\n")
    ran = run(work, WORKS)
    command = f"git -C {work.root} stash push -u -- out/a"
    assert (ran.code, sorted(landed(work)), work.repo.read("out/a")) == (5, ["b", "c"], b"mine\n"), ran
    assert f"uncommitted files block the merge in {work.root}: out/a" in ran.out
    assert f"next: {command}" in ran.out
    told = work.harness("status").out
    assert f"needs you  the last run ended: uncommitted files block the merge in {work.root}: out/a" in told
    assert command in told
    work.repo.git(*command.split()[3:])
    again = run(work, "exit 1")
    assert (again.code, work.repo.read("out/a")) == (0, b"a\n"), again


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_never_lands_waits_for_a_person_and_its_neighbours_land(tmp_path: Path) -> None:
    """SC-9: mends, once anew, then a question about this item alone."""
    proof = 'case "$PWD" in */v1) ! test -e out/bad || exit 1;; esac; test -e out/'
    work = project(tmp_path, job("good", f"{proof}good"), job("bad", f"{proof}bad"), job("late", depends_on=["good"]))
    work.edit(session_config={**work.raw["session_config"], "parallel": {"mends": 1}})
    slow = "[ $HARNESS_TASK_ID != bad ] || sleep 1"
    other = f"until [ $HARNESS_TASK_ID != bad ] || [ -e {work.repo.path}/out/good ]; do sleep 0.1; done"
    ran = run(work, f"{slow}; {other}; {WORKS}", 2, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["parked"]) == (3, [{"item": "bad", "reason": "landing_failed"}]), ran
    assert work.raw["halt"]["task_id"] == "bad"
    assert {"good", "late"} <= {each["item"] for each in answer["landed"]}


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_was_sent_back_lands_only_where_what_failed_passes_as_it_was_kept(tmp_path: Path) -> None:
    """SC-34: b breaks what proves a, also as it is made anew; its agent has changed in the list what proves a."""
    proofs = {"a": "head -1 lines | grep -qx a && ! tail -1 lines | grep -qx b", "b": "tail -1 lines | grep -qx b"}
    work = project(tmp_path, *[job(name, proof) for name, proof in proofs.items()])
    work.repo.write("lines", "".join(f"{n}\n" for n in range(20))).commit("Lines")
    work.edit(session_config={**work.raw["session_config"], "parallel": {"mends": 0}})
    listed = work.root / "harness-tasks.json"
    agent = f"""
        if [ $HARNESS_TASK_ID = a ]; then sed -i 1s/.*/a/ lines; exit; fi
        until git -C {work.root} log --format=%B | grep -q 'Harness-Item: a'; do sleep 0.05; done
        sleep 1; sed -i '/head -1 lines/s/"command": .*/"command": "true",/' {listed}; sed -i '$s/.*/b/' lines"""
    ran = run(work, agent, 2, "--json", HARNESS_SANDBOX="off")
    assert work.task("a").validation_command == proofs["a"]
    answer = json.loads(ran.out)
    assert (ran.code, answer["parked"]) == (3, [{"item": "b", "reason": "landing_failed"}]), ran
    assert landed(work) == ["a"]


BREAKS = "grep -q . out/a && { [ ! -e out/b ] || grep -q both out/a; }"
MENDS_A = "[ $HARNESS_TASK_ID != b ] || [ ! -e out/a ] || echo both >> out/a"


def test_whoever_breaks_what_landed_beside_it_goes_back_and_lands_mended(tmp_path: Path) -> None:
    """SC-34: b breaks the proof of a in files that a does not touch, and was begun before a had landed."""
    work = project(tmp_path, job("a", BREAKS), job("b"))
    a_has_landed = f"git -C {work.root} log --format=%B | grep -q 'Harness-Item: a'"
    waits = f"[ $HARNESS_TASK_ID != b ] || until {a_has_landed}; do sleep 0.1; done"
    ran = run(work, f"{waits}; {WORKS}; {MENDS_A}", 2)
    assert (ran.code, landed(work)) == (0, ["b", "a"]), ran
    assert "b: not merged (red: a)" in ran.out
    assert "Open again" not in ran.out


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_whoever_breaks_what_has_landed_goes_back_before_it_lands_and_not_the_victim(tmp_path: Path) -> None:
    """SC-37: b begins on a, and breaks it; c, which waits for b, is not blamed for it."""
    work = project(tmp_path, job("a", BREAKS), job("b", depends_on=["a"]), job("c"))
    b_has_landed = f"git -C {work.root} log --format=%B | grep -q 'Harness-Item: b'"
    waits = f"[ $HARNESS_TASK_ID != c ] || until {b_has_landed}; do sleep 0.1; done"
    again = f"[ ! -e {tmp_path}/once ] || ({MENDS_A}); [ $HARNESS_TASK_ID != b ] || touch {tmp_path}/once"
    ran = run(work, f"{waits}; {WORKS}; {again}", 2)
    assert (ran.code, work.statuses()) == (0, ["completed"] * 3), ran
    assert "b: not merged (red: a)" in ran.out
    assert "c: not merged" not in ran.out
    assert sorted(landed(work)) == ["a", "b", "c"]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_who_never_mends_what_it_breaks_waits_for_a_person_and_does_not_land(tmp_path: Path) -> None:
    """SC-37: also where b was proven on the very commit that the branch has."""
    work = project(tmp_path, job("a", BREAKS), job("b", depends_on=["a"]))
    ran = run(work, WORKS, 1, "--json", HARNESS_PARALLEL__MENDS="0")
    answer = json.loads(ran.out)
    assert (ran.code, answer["reason"], answer["parked"]) == (
        3,
        "parked",
        [{"item": "b", "reason": "landing_failed"}],
    ), ran
    assert "b: not merged (red: a)" in ran.err
    assert landed(work) == ["a"]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_an_agent_leaves_among_its_transcripts_costs_no_attempt_and_is_not_followed(tmp_path: Path) -> None:
    """SC-29: pipes, devices and links stay in the workspace; a pipe where the run shows itself stops nobody."""
    work = project(tmp_path, job("a"))
    (tmp_path / "secret").write_text("secret")
    (work.root / ".harness").mkdir(exist_ok=True)
    os.mkfifo(work.root / ".harness/parallel.json.part")
    odd = f"mkfifo pipe; ln -s {tmp_path}/secret said.log; ln -s {tmp_path} folder; ln -s /dev/zero zero"
    ran = run(work, f"{WORKS}; mkdir -p .harness/sessions; cd .harness/sessions; {odd}", 1, "--json")
    assert (ran.code, json.loads(ran.out)["attempts"], work.statuses()) == (0, 1, ["completed"]), ran
    left = {each.name for each in Path(work.layout.sessions).iterdir()}
    assert any(name.endswith(".log") for name in left)
    assert not left & {"pipe", "said.log", "folder", "zero"}


@pytest.mark.exhaustive
@pytest.mark.scenario
@pytest.mark.parametrize("at", [".harness", ".harness/sessions", ".harness/rescue-files/a"])
@pytest.mark.parametrize("words", [(), ("--workers", "1")])
def test_nothing_is_written_through_a_link_in_the_place_of_a_state_folder(
    tmp_path: Path, words: tuple[str, ...], at: str
) -> None:
    """SC-12: it is ignored where .gitignore says so; it goes with the turn that has put it there, which is said."""
    work = project(tmp_path, job("a", max_attempts=3), job("b"))
    work.repo.write(".gitignore", ".harness\n").commit()
    there, seen, once = (tmp_path / name for name in ("there", "seen", "once"))
    for name in ("sessions", "claims", "validate", "logs/verdicts", "rescue-files/a"):
        (there / name).mkdir(parents=True)
    for name in ("sessions/costs.jsonl", "claims/a.json", "now", "parallel.json"):
        (there / name).write_text("{}\n")
    links = f"[ -e {once} ] || {{ touch {once}; rm -rf {at}; mkdir -p $(dirname {at}); ln -s {there} {at}"
    links += "; mkfifo pipe; exit 1; }" if "rescue" in at else "; }"  # what no commit holds is moved aside
    before = {path: path.read_bytes() if path.is_file() else None for path in there.rglob("*")}
    agent = work.agent(f"[ ! -L {at} ] || touch {seen}; {links}; {WORKS}")
    ran = work.harness("run", *words, "--agent", agent)
    assert (ran.code, work.statuses(), seen.exists()) == (0, ["completed"] * 2, False), ran
    assert {path: path.read_bytes() if path.is_file() else None for path in there.rglob("*")} == before


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_a_run_had_spent_that_was_killed_counts_for_its_budget(tmp_path: Path) -> None:
    """SC-42: killed once its agent has told of $0.60; the next one has no room for another call as dear."""
    work = project(tmp_path, job("a"))
    told = tmp_path / "told"
    usage = '{"type": "usage", "input_tokens": 5, "output_tokens": 5, "cost_usd": 0.6}'
    agent = work.agent(f"echo '{usage}'; echo >> {told}; sleep 60")
    words = ["run", "--workers", "1", "--max-cost", "1", "--agent", agent]
    spending = Path(os.environ["XDG_STATE_HOME"], "agent-harness/projects").glob
    with subprocess.Popen([*HARNESS, *words], cwd=work.root, stdout=subprocess.DEVNULL) as process:
        until(lambda: any("0.6" in each.read_text() for each in spending("*/parallel/spending/*.a.1.json")))
        process.kill()
    ran = work.harness(*words, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["reason"], answer["cost_usd"]) == (9, "budget", pytest.approx(0.6)), ran
    assert len(told.read_text().splitlines()) == 1


CALLS = (
    "n=0; while [ $n -lt {calls} ]; do n=$((n + 1)); sleep 0.2;"
    ' echo \'{{"type": "usage", "input_tokens": 5, "output_tokens": 5, "cost_usd": 0.1}}\'; done; {works}'
)


def _paid(work: TaskListProject) -> float:
    rows = [json.loads(line) for line in Path(work.layout.costs).read_text().splitlines()]
    return sum(row["cost_usd"] or 0.0 for row in rows)


@pytest.mark.scenario
def test_several_at_work_go_over_the_budget_by_one_call_at_most(tmp_path: Path) -> None:
    """SC-42: what the others are about to spend is reserved; what is cut off for that is no attempt."""
    work = project(tmp_path, *[job(name) for name in "abcd"])
    agent = CALLS.format(calls=20, works=WORKS)
    ran = run(work, agent, 4, "--max-cost", "1.5", "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["reason"]) == (9, "budget"), ran
    assert _paid(work) == pytest.approx(answer["cost_usd"])
    assert 1.2 <= answer["cost_usd"] <= 1.6 + 1e-9, answer
    assert sum(work.task(name).attempts for name in "abcd") <= 1  # one that has spent more than all others counts
    assert rescued(work, "out/a") == []


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_budget_that_is_enough_for_all_is_no_obstacle(tmp_path: Path) -> None:
    """SC-42: nothing that is only reserved counts as spent; the end of the run says what was."""
    work = project(tmp_path, *[job(name) for name in "abcd"])
    ran = run(work, CALLS.format(calls=2, works=WORKS), 4, "--max-cost", "1.3", "--json")
    assert (ran.code, json.loads(ran.out)["cost_usd"]) == (0, pytest.approx(0.8)), ran


@pytest.mark.kept("main")
@pytest.mark.parametrize("checked_out", ["main", pytest.param("nothing", marks=pytest.mark.scenario)])
def test_work_lands_on_the_branch_that_is_named_and_the_files_stay(tmp_path: Path, checked_out: str) -> None:
    """SC-36: a branch that is checked out nowhere moves alone."""
    work = project(tmp_path, job("a"), job("b", depends_on=["a"]))
    work.repo.git("branch", "dev")
    if checked_out == "nothing":
        work.repo.git("switch", "-q", "--detach")
    head = work.repo.head
    ran = run(work, WORKS, 2, "--branch", "dev")
    assert (ran.code, work.statuses()) == (0, ["completed"] * 2), ran
    assert work.repo.head == head
    assert work.status() == []
    assert work.repo.git("ls-tree", "-r", "--name-only", "dev", "out/").split() == ["out/a", "out/b"]
    assert work.harness("status", "--json").json["unproven"] == []


def test_a_branch_that_cannot_be_landed_on_is_refused_before_an_agent(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"))
    work.repo.git("worktree", "add", "-q", "-b", "taken", str(tmp_path / "other"))
    for words, code in ((("--branch", "none"), 4), (("--branch", "taken"), 4)):
        assert run(work, f"touch {tmp_path}/started", 2, *words).code == code
    assert work.harness("run", "--branch", "main", "--agent", "command:true").code == 2
    assert not (tmp_path / "started").exists()


# ---- people ----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario
def test_ctrl_c_gives_everything_back_and_the_next_run_goes_on(tmp_path: Path) -> None:
    """SC-3: no attempt is counted, what was done is in a rescue, and no process is left."""
    work = project(tmp_path, job("a"), job("b"))
    sleeping = tmp_path / "sleeping"
    agent = work.agent(f"echo half > half.txt; echo $$ >> {sleeping}; sleep 60")
    words = [*HARNESS, "run", "--workers", "2", "--agent", agent]
    environment = {**os.environ, "HARNESS_TIME_SCALE": "0.05"}
    with subprocess.Popen(words, cwd=work.root, env=environment, stdout=subprocess.PIPE) as process:
        until(lambda: sleeping.exists() and len(sleeping.read_text().split()) == 2)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 130
    assert work.statuses() == ["pending", "pending"]
    assert [work.task(name).attempts for name in "ab"] == [0, 0]
    assert rescued(work, "half.txt") == ["half", "half"]
    ran = run(work, WORKS, 2)
    assert ran.code == 0, ran


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_one_run_at_a_time_and_no_serial_one_beside_it(tmp_path: Path) -> None:
    """The second run is refused with 5, whichever it is."""
    work = project(tmp_path, job("a"))
    begun, go_on = tmp_path / "begun", tmp_path / "go-on"
    agent = work.agent(f"touch {begun}; until [ -e {go_on} ]; do sleep 0.1; done; {WORKS}")
    words = [*HARNESS, "run", "--agent", agent]
    first: list[int] = []

    def begin() -> None:
        first.append(
            subprocess.run([*words, "--workers", "1"], cwd=work.root, capture_output=True, check=False).returncode
        )

    thread = threading.Thread(target=begin)
    thread.start()
    until(begun.exists)
    for more in ([*words, "--workers", "1"], words):
        assert subprocess.run(more, cwd=work.root, capture_output=True, check=False).returncode == 5
    go_on.touch()
    thread.join()
    assert first == [0]


@pytest.mark.parametrize("words", [["0"], ["x"], ["257"], ["2", "--once"]])
def test_what_is_no_number_of_workers_is_refused(tmp_path: Path, words: list[str]) -> None:
    work = project(tmp_path, job("a"))
    assert work.harness("run", "--workers", *words, "--agent", "command:true").code == 2


def test_without_a_branch_to_land_on_no_agent_starts(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"))
    work.repo.git("switch", "-q", "--detach")
    ran = run(work, f"touch {tmp_path}/started")
    assert (ran.code, (tmp_path / "started").exists()) == (4, False), ran
    bare = TaskListProject(tmp_path / "bare", job("a"), session_count=0)
    assert run(bare, f"touch {tmp_path}/started").code == 4
    assert not (tmp_path / "started").exists()
