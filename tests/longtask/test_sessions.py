"""Parts of every slice from the one engine: monitors, a budget, a transcript, a recording, and a rescue point."""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_harness.kernel.rate_limits import LimitClock
from agent_harness.protocols.longtask import api
from agent_harness.testing.long_task_project import LongTaskProject, book, book_checkpoint, program
from agent_harness.testing.repo import Repo

from .test_run import edits

Record = dict[str, Any]
WRITING = '{"type":"usage","input_tokens":9,"output_tokens":30000,"context_tokens":100}'
SECRET = "sk-ant-api03-0123456789abcdefABCDEF"


def git(folder: Path, *words: str) -> str:
    """Return the output of git."""
    return subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit and one file that is not committed."""
    return Repo.with_files(tmp_path / "repo", {"kept.txt": "kept\n"}).write("draft.txt", "a draft\n").path


@pytest.fixture
def project(tmp_path: Path, repository: Path) -> LongTaskProject:
    """A task whose working copy is the repository."""
    made = LongTaskProject.of_book(tmp_path / "task")
    made.task = book(context={"repoPath": str(repository)})
    return made


def session(project: LongTaskProject) -> Path:
    """The folder of the newest session."""
    return sorted((project.root / "sessions").iterdir())[-1]


def loop(*lines: str) -> str:
    """A line of shell that says the same for ever."""
    said = "; ".join(f"echo {shlex.quote(line)}" for line in lines)
    return f"while :; do {said}; sleep 0.05; done"


# ---- monitors and budget


@pytest.mark.parametrize("folder", [".", "../repo"])
def test_a_worker_that_only_writes_is_stopped_as_stuck(project: LongTaskProject, folder: str) -> None:
    answer = project.run(loop(WRITING), "--cwd", folder, code=1).json
    assert (answer["exitCode"], answer["status"]) == (1, "needs-human")
    assert "error: ended by the harness: Still stuck" in project.outputs()[0]
    assert answer["classification"]["class"] == "unknown"
    assert "no progress" in project.checkpoint["nextStep"]
    project.loads()


def test_a_worker_that_runs_tests_is_not_stuck(project: LongTaskProject) -> None:
    step = f"echo '3 passed in 0.10s'; echo {shlex.quote(WRITING)}"
    assert project.run("; ".join([step] * 6)).json["status"] == "paused"


def test_a_worker_that_costs_more_than_the_budget_is_ended(project: LongTaskProject) -> None:
    dear = '{"type":"usage","input_tokens":1,"output_tokens":1,"cost_usd":0.75}'
    answer = project.run(f"echo {shlex.quote(dear)}; {loop('working')}", "--max-cost", "0.5", code=1).json
    assert answer["status"] == "needs-human"
    assert "Slice cost $0.75 exceeds budget $0.50." in answer["classification"]["summary"]
    assert project.checkpoint["blocker"]["requiresHuman"] is True
    project.checkpoint = book_checkpoint()
    project.task = {**project.task, "workerPolicy": {"preferred": "local-command", "maxCostUsd": 0.8}}
    assert project.run(f"echo {shlex.quote(dear)}").json["status"] == "paused"


def test_a_budget_of_ten_dollars_is_the_default(project: LongTaskProject) -> None:
    dear = '{"type":"usage","input_tokens":1,"output_tokens":1,"cost_usd":10.5}'
    done = project.run(f"echo {shlex.quote(dear)}; {loop('working')}", code=1)
    assert "exceeds budget $10.00" in done.json["classification"]["summary"]


def test_a_full_context_pauses_for_the_next_slice(project: LongTaskProject) -> None:
    full = '{"type":"usage","input_tokens":9,"output_tokens":1,"context_tokens":200001}'
    answer = project.run(f"echo {shlex.quote(full)}; {loop('working')}", code=1).json
    assert answer["status"] == "paused" and "Continue the same slice" in project.checkpoint["nextStep"]
    assert project.lth("next").json["decision"] == "run"


@pytest.mark.parametrize("members", [{"maxCostUsd": 0}, {"maxCostUsd": "ten"}, {"windowTokens": -1}])
def test_a_bound_that_is_none_is_said_before_anything_starts(project: LongTaskProject, members: Record) -> None:
    project.task = {**project.task, "workerPolicy": {"preferred": "local-command", **members}}
    done = project.run("touch ran", code=1)
    assert f"workerPolicy.{next(iter(members))} must be a number above 0" in done.err
    assert project.untouched() == []


def test_a_connection_that_broke_is_tried_again_and_a_line_of_shell_is_not(
    project: LongTaskProject, tmp_path: Path
) -> None:
    script = "echo x >> tries; test $(wc -l < tries) -ge 2 || { echo 'Error: Connection reset by peer' >&2; exit 1; }"
    env = program(tmp_path / "bin", "codex", script)
    done = project.lth("run", "--worker", "codex", env=env, code=0)
    assert "the provider refused the request of the worker" in done.err
    (tmp_path / "repo/tries").unlink()
    project.run(script, "--cwd", str(tmp_path / "repo"), code=1)
    assert (tmp_path / "repo/tries").read_text() == "x\n"


def test_a_refusal_is_never_waited_for(project: LongTaskProject, tmp_path: Path) -> None:
    script = "echo x >> tries; echo 'HTTP 429, retry after 2 hours' >&2; exit 1"
    env = program(tmp_path / "bin", "claude", script)
    answer = project.lth("run", "--worker", "claude", env=env, code=1).json
    assert answer["classification"]["class"] == "rate_limit"
    assert (tmp_path / "repo/tries").read_text() == "x\n"
    assert len(LimitClock().all()) == 1


# ---- transcript and recording


def test_sessions_that_would_lie_elsewhere_are_refused_before_anything_starts(
    project: LongTaskProject, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (project.root / "sessions").symlink_to(tmp_path / "elsewhere")
    done = project.run("touch ran", code=1)
    assert "must stay inside the task directory" in done.err
    assert list((tmp_path / "elsewhere").iterdir()) == [] and not project.events()


def test_views_find_the_newest_transcript(project: LongTaskProject) -> None:
    assert api.transcript(project.root) is None
    project.run("echo first")
    project.run("echo second")
    assert api.transcript(project.root) == str(session(project) / "transcript.txt")


def test_the_transcript_is_whole_and_redacted(project: LongTaskProject) -> None:
    project.run(f"echo working; echo key={SECRET}; echo oops >&2; exit 3", code=3)
    text = (session(project) / "transcript.txt").read_text()
    assert "working" in text and "[standard error]\noops" in text
    assert "[end] ended badly, exit status 3" in text
    assert SECRET not in text and SECRET not in (session(project) / "recording.cassette.jsonl").read_text()


def test_a_recording_plays_as_a_worker(project: LongTaskProject, repository: Path) -> None:
    project.run("echo said; echo written > chapter.txt; rm kept.txt")
    recording = session(project) / "recording.cassette.jsonl"
    refused = project.lth("run", "--worker", f"replay:{recording}", code=1)
    assert "these files had other content: chapter.txt, kept.txt" in refused.err
    git(repository, "checkout", "--", "kept.txt")
    (repository / "chapter.txt").unlink()
    answer = project.lth("run", "--worker", f"replay:{recording}", code=0).json
    assert answer["worker"] == f"replay:{recording}"
    assert (repository / "chapter.txt").read_text() == "written\n" and not (repository / "kept.txt").exists()
    assert "said" in project.outputs()[1]


def test_the_oldest_sessions_go(project: LongTaskProject, repository: Path) -> None:
    for number in range(10, 45):
        (project.root / f"sessions/2026-01-01T00-00-{number}").mkdir(parents=True)
    project.run("true")
    names = sorted(each.name for each in (project.root / "sessions").iterdir())
    assert len(names) == 30 and names[0] == "2026-01-01T00-00-16"


# ---- rescue points


@pytest.fixture
def destroyed(project: LongTaskProject, repository: Path) -> LongTaskProject:
    """A task whose last slice has destroyed the working copy."""
    project.run("rm draft.txt kept.txt; echo new > new.txt; git add -A; git commit -q -m gone")
    assert sorted(each.name for each in repository.iterdir()) == [".git", "new.txt"]
    return project


def test_a_destructive_slice_is_taken_back_and_that_is_taken_back_too(
    destroyed: LongTaskProject, repository: Path
) -> None:
    first = git(repository, "rev-parse", "HEAD~1").strip()
    (point,) = destroyed.lth("rescue", code=0).json["points"]
    assert (point["worker"], point["why"], point["top"]) == ("local-command", "before a slice", str(repository))
    seen = destroyed.lth("rescue", "--show", point["id"], code=0).json
    assert {each["path"]: each["status"] for each in seen["files"]} == {
        "draft.txt": "D",
        "kept.txt": "D",
        "new.txt": "A",
    }
    assert [each["subject"] for each in seen["commits"]] == ["gone"]
    state = destroyed.checkpoint
    back = destroyed.lth("rescue", "--restore", point["id"], code=0).json
    assert (repository / "draft.txt").read_text() == "a draft\n" and not (repository / "new.txt").exists()
    assert git(repository, "rev-parse", "HEAD").strip() == first
    assert git(repository, "status", "--short") == "?? draft.txt\n"
    assert destroyed.checkpoint == state and not destroyed.lock.exists()
    destroyed.lth("rescue", "--restore", back["undo"], code=0)
    assert sorted(each.name for each in repository.iterdir()) == [".git", "new.txt"]
    assert git(repository, "log", "-1", "--format=%s") == "gone\n"


def test_a_rescue_point_changes_nothing_that_a_person_sees(project: LongTaskProject, repository: Path) -> None:
    before = (git(repository, "status", "--short"), git(repository, "branch", "-a"), git(repository, "stash", "list"))
    project.run("true")
    after = (git(repository, "status", "--short"), git(repository, "branch", "-a"), git(repository, "stash", "list"))
    assert before == after
    assert len(git(repository, "for-each-ref", "refs/harness/slices").splitlines()) == 1


def test_the_task_in_its_own_repository_is_no_part_of_its_rescue_points(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    project = LongTaskProject.of_book(tmp_path / "task")
    project.run("echo precious > artifacts/result.txt")
    project.run("rm artifacts/result.txt")
    last, _ = project.lth("rescue", code=0).json["points"]
    count = len(project.checkpoint["evidence"])
    project.lth("rescue", "--restore", last["id"], code=0)
    assert (project.root / "artifacts/result.txt").read_text() == "precious\n"
    assert len(project.checkpoint["evidence"]) == count == 2
    project.loads()


def test_a_slice_in_the_middle_of_a_rebase_runs_without_a_rescue_point(
    project: LongTaskProject, repository: Path
) -> None:
    (repository / ".git/MERGE_HEAD").write_text(git(repository, "rev-parse", "HEAD"))
    done = project.run("echo fine")
    assert "no rescue point was made before this slice" in done.err
    assert project.lth("rescue", code=0).json["points"] == []


def test_rescue_points_can_be_switched_off(project: LongTaskProject, repository: Path) -> None:
    project.task = {**project.task, "workerPolicy": {"preferred": "local-command", "rescuePoints": False}}
    project.run("true")
    assert git(repository, "for-each-ref", "refs/harness") == ""


def lying_ref(record: Record) -> Record:
    return {**record, "snapshot": {**record["snapshot"], "ref": "refs/heads/main"}}


def lying_commit(record: Record) -> Record:
    return {**record, "snapshot": {**record["snapshot"], "commit": "0" * 40}}


@pytest.mark.parametrize("lie", [lying_ref, lying_commit, lambda record: {}, lambda record: []])
def test_a_record_that_a_worker_forged_is_not_believed(
    destroyed: LongTaskProject, repository: Path, lie: Callable[[Record], object]
) -> None:
    path = session(destroyed) / "rescue.json"
    path.write_text(json.dumps(lie(json.loads(path.read_text()))))
    assert destroyed.lth("rescue", code=0).json["points"] == []
    done = destroyed.lth("rescue", "--restore", session(destroyed).name, code=1)
    assert "No rescue point named" in done.err
    assert (repository / "new.txt").exists()


def test_nothing_is_restored_under_a_run(destroyed: LongTaskProject) -> None:
    (point,) = destroyed.lth("rescue").json["points"]
    lth = shlex.join([sys.executable, "-m", "agent_harness.cli.lth"])
    destroyed.run(f'{lth} rescue "$LTH_TASK_DIR" --restore {point["id"]}', code=1)
    assert "a run holds the lease" in destroyed.outputs()[1]


# ---- files that the criteria's commands name


TRUTH = "test -e book.md\n"


@pytest.fixture
def judged(tmp_path: Path) -> LongTaskProject:
    """A task whose criterion runs a script of the working copy; the script says no so far."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work/check.sh").write_text(TRUTH)
    made = LongTaskProject.of_book(tmp_path / "task")
    criterion = {"id": "checked", "description": "d", "metric": "command", "target": "sh check.sh"}
    made.task = book(successCriteria=[criterion], context={"repoPath": str(tmp_path / "work")})
    return made


FORGED = "echo 'exit 0' > check.sh"


@pytest.mark.kept("rm check.sh; ln -s /bin/true check.sh")
@pytest.mark.parametrize(
    "bend", [FORGED, "rm check.sh; ln -s /bin/true check.sh", "cp /bin/true true; mv true check.sh"]
)
@pytest.mark.scenario
def test_a_script_that_a_slice_has_bent_proves_nothing(judged: LongTaskProject, bend: str) -> None:
    answer = judged.run(f"{bend}; {edits(status='done', nextStep='Nothing.')}").json
    assert answer["status"] == judged.checkpoint["status"] == "paused"
    (check,) = answer["verification"]["checks"]
    assert check["status"] == "fail" and "check.sh" in check["message"] and check["exitCode"] is None
    assert judged.lth("verify", code=1).json["checks"][0]["message"] == check["message"]
    done = judged.lth("record", "--status", "done", code=1)
    assert "verification failed" in done.err


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_script_as_it_was_or_as_a_person_wants_it_proves_again(judged: LongTaskProject, tmp_path: Path) -> None:
    judged.run(FORGED)
    judged.lth("verify", code=1)
    judged.run("true")
    judged.lth("verify", code=1)
    (tmp_path / "work/check.sh").write_text("test -d .  # decided by a person\n")
    judged.lth("verify", code=0)
    judged.run(FORGED)
    judged.lth("verify", code=1)
    judged.run("echo 'test -d .  # decided by a person' > check.sh")
    assert judged.lth("verify", code=0).json["status"] == "pass"


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_later_slice_does_not_hide_what_an_earlier_one_has_bent(judged: LongTaskProject) -> None:
    judged.run(FORGED)
    judged.run("echo '# a remark' >> check.sh")
    judged.lth("verify", code=1)


def test_an_honest_slice_is_believed(judged: LongTaskProject) -> None:
    answer = judged.run(f"touch book.md; {edits(status='done', nextStep='Nothing.')}").json
    assert (answer["status"], judged.checkpoint["status"]) == ("done", "done")


def test_a_slice_may_change_what_the_contract_lets_it_change(judged: LongTaskProject) -> None:
    judged.task = {**judged.task, "workerPolicy": {"preferred": "local-command", "mayChange": ["check.sh"]}}
    judged.run(FORGED)
    judged.lth("verify", code=0)


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_tests_may_come_and_none_may_go(judged: LongTaskProject, tmp_path: Path) -> None:
    criterion = {"id": "tested", "description": "d", "metric": "command", "target": "python3 -m unittest test_it.py"}
    judged.task = {**judged.task, "successCriteria": [criterion]}
    head = "import unittest\nclass It(unittest.TestCase):\n"
    whole, more = "    def test_a(self): self.assertTrue(1)\n", "    def test_b(self): self.assertEqual(2, 2)\n"
    (tmp_path / "work/test_it.py").write_text(head + whole)
    judged.run(f"printf {shlex.quote(more)} >> test_it.py")
    judged.lth("verify", code=0)
    judged.lth("record", "--status", "active", code=0)
    judged.run("sed -i 's/assertTrue(1)/assertTrue/' test_it.py")
    assert "test_it.py" in judged.lth("verify", code=1).json["checks"][0]["message"]
