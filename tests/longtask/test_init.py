"""`init`: what the templates hold, what is refused before anything is written, and that nothing older is lost."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from agent_harness.protocols.longtask.verbs import init
from agent_harness.testing.long_task_project import LongTaskProject


def new(tmp_path: Path, *words: str, name: str = "my task!") -> tuple[LongTaskProject, dict[str, Any]]:
    project = LongTaskProject(tmp_path / name)
    done = project.lth("init", *words)
    assert done.code == 0, done
    return project, json.loads((project.root / "task.json").read_text())


def test_the_coding_template(tmp_path: Path) -> None:
    project, contract = new(tmp_path)
    assert list(contract) == [
        *("schemaVersion", "id", "title", "domain", "objective", "successCriteria", "constraints", "context"),
        *("scheduler", "workerPolicy", "codexWorker", "rateLimitPolicy", "createdAt"),
    ]
    assert (contract["id"], contract["title"], contract["domain"]) == ("my-task-", "Coding long task", "coding")
    assert contract["scheduler"] == {
        "type": "openclaw-cron",
        "every": "30m",
        "name": "my-task--tick",
        "model": "minimax/MiniMax-M2.5",
        "timeoutSeconds": 300,
    }
    assert contract["workerPolicy"] == {"preferred": "codex-cli", "allowed": ["codex-cli"]}
    assert contract["codexWorker"] == {}
    assert contract["rateLimitPolicy"]["sources"] == ["openclaw-provider", "codex-cli"]
    assert [criterion["id"] for criterion in contract["successCriteria"]] == ["verified-outcome"]
    assert list(project.checkpoint) == [
        *("schemaVersion", "taskId", "status", "currentPhase", "nextStep", "blockedUntil", "blocker"),
        *("lastCompletedStep", "activeFiles", "openQuestions", "evidence", "updatedAt"),
    ]
    assert (project.checkpoint["status"], project.checkpoint["currentPhase"]) == ("active", "setup")
    assert sorted(os.listdir(project.root)) == [
        *("artifacts", "checkpoint.json", "evidence", "harness.md", "runs", "task.json"),
    ]
    assert (project.root / "harness.md").read_text().startswith("# ")


FIELDS = ("task.objective", "task.successCriteria[0].description")


@pytest.mark.parametrize("template", ["coding", "video-analysis"])
def test_a_template_is_warned_of_until_it_is_filled_in(tmp_path: Path, template: str) -> None:
    project = LongTaskProject(tmp_path / "new")
    worker = ("--worker", "local", "--command", "touch artifacts/ran")
    told = project.lth("init", "--template", template, *worker)
    assert told.code == 0 and all(f"{each} is still to be filled in" in told.err for each in FIELDS)
    for command in ("validate", "next", "tick", "openclaw-recipe", "run", "status"):
        done = project.lth(command)
        assert done.code == 0, command
        assert [line.split(" ")[2] for line in done.err.splitlines()] == list(FIELDS), command
    assert [each.split(" ")[0] for each in project.lth("verify", code=1).json["warnings"]] == list(FIELDS)
    contract = json.loads((project.root / "task.json").read_text())
    contract["objective"] = "It runs."
    contract["successCriteria"][0]["description"] = "Somebody saw it run."
    project.write("task.json", contract)
    accepted = project.lth("accept")
    assert (accepted.code, accepted.err) == (0, "")
    assert project.lth("run").json["exitCode"] == 0
    assert "FILL IN" not in project.lth("tick", "--dry-run").json["workerPrompt"]
    assert "warnings" not in project.lth("next").json


def test_a_contract_can_be_filled_in_at_once(tmp_path: Path) -> None:
    project, contract = new(tmp_path, "--objective", "It is there.", "--criterion-command", "test -f there")
    (criterion,) = contract["successCriteria"]
    assert (contract["objective"], criterion["metric"], criterion["target"]) == (
        *("It is there.", "command", "test -f there"),
    )
    assert project.lth("validate").out == f"OK my-task-: active -> {init.FIRST_SLICE}\n"
    _, contract = new(tmp_path, "--objective", "It is there.", "--criterion", "Somebody saw it.", name="other")
    (criterion,) = contract["successCriteria"]
    assert (criterion["metric"], criterion["description"]) == ("manual", "Somebody saw it.")


def test_the_video_template(tmp_path: Path) -> None:
    project, contract = new(tmp_path, "--template", "video-analysis", "--command", "analyse", "--cwd", ".")
    assert (contract["title"], contract["domain"]) == ("Video analysis long task", "video-analysis")
    assert contract["scheduler"] == {"type": "manual"} and contract["rateLimitPolicy"]["sources"] == []
    assert contract["localWorker"] == {"command": "analyse", "cwd": os.getcwd()}
    assert contract["context"]["repoPath"] == os.getcwd()
    assert "video-analysis" in (project.root / "harness.md").read_text()


def test_every_choice_has_its_place(tmp_path: Path) -> None:
    words = [
        *(
            "--worker",
            "codex",
            "--fallback-worker",
            "kimi",
            "--scheduler",
            "openclaw",
            "--model",
            "gpt",
            "--every",
            "1h",
        ),
        *("--kimi-model", "k2", "--scheduler-model", "m", "--scheduler-timeout-seconds", "90", "--name", "job"),
        *("--timeout-seconds", "600", "--sandbox", "workspace-write"),
    ]
    _, contract = new(tmp_path, *words)
    policy = {"preferred": "codex-cli", "allowed": ["codex-cli", "kimi-cli"], "fallbackOnRateLimit": "kimi-cli"}
    assert contract["workerPolicy"] == policy
    assert contract["codexWorker"] == {"model": "gpt", "sandbox": "workspace-write", "timeoutSeconds": 600}
    assert contract["kimiWorker"] == {"model": "k2", "timeoutSeconds": 600}
    job = {"type": "openclaw-cron", "every": "1h", "name": "job", "model": "m", "timeoutSeconds": 90}
    assert contract["scheduler"] == job
    assert contract["rateLimitPolicy"]["sources"] == ["openclaw-provider", "codex-cli", "kimi-cli"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--template", "poem"],
            "Unsupported template: poem. Expected one of coding, video-analysis, example-coding, ",
        ),
        (["--timeout-seconds", "0"], "--timeout-seconds must be a positive integer: 0"),
        (["--timeout-seconds", "1.5"], "--timeout-seconds must be a positive integer: 1.5"),
        (["--scheduler-timeout-seconds", "x"], "--scheduler-timeout-seconds must be a positive integer: x"),
        (["--sandbox", "none"], "--sandbox must be one of read-only, workspace-write, danger-full-access: none"),
        (["--worker", "nobody"], "Unknown worker: nobody. Expected one of codex-cli"),
        (["--fallback-worker", "nobody"], "Unknown worker: nobody"),
        (["--scheduler", "windows"], "Unknown scheduler: windows"),
        (["--template", "resume-demo", "--model", "x"], "--model cannot be used with the example resume-demo"),
    ],
)
def test_refusals_come_before_the_first_write(tmp_path: Path, words: list[str], said: str) -> None:
    done = LongTaskProject(tmp_path / "new").lth("init", *words)
    assert done.code == 1 and done.err.startswith(said) and done.out == ""
    assert ("; lth init " in done.err) is ("template:" in said), done.err
    assert not list(tmp_path.glob("new*"))


@pytest.mark.parametrize("sign", ["harness-tasks.json", "features.json", ".harness.yaml"])
def test_no_task_is_made_in_the_folder_of_another_project(tmp_path: Path, sign: str) -> None:
    project = LongTaskProject(tmp_path)
    (tmp_path / sign).write_text("{}")
    ran = project.lth("init", "--force")
    assert (ran.code, sorted(path.name for path in tmp_path.iterdir())) == (1, [sign])
    assert "in a separate folder" in ran.err


@pytest.mark.parametrize("name", ["task.json", "checkpoint.json"])
def test_row_09_a_live_task_is_not_overwritten(project: LongTaskProject, name: str) -> None:
    for other in ("task.json", "checkpoint.json"):
        if other != name:
            (project.root / other).unlink()
    before = project.tree()
    done = project.lth("init")
    assert done.code == 1 and "already exists" in done.err
    assert project.tree() == before


def test_row_09_force_keeps_copies(project: LongTaskProject) -> None:
    before = project.tree()
    assert project.lth("init", "--force").code == 0
    copies = {name.partition(".bak-")[0]: content for name, content in project.tree().items() if ".bak-" in name}
    assert copies == before
    assert project.checkpoint["nextStep"].startswith("Fill in task.json")


@pytest.mark.parametrize(("name", "expected"), [("a b/ü", "-"), ("x.y_z-1", "x.y_z-1"), ("---", "---")])
def test_the_id_is_the_last_part_of_the_path(tmp_path: Path, name: str, expected: str) -> None:
    assert new(tmp_path, name=name)[1]["id"] == expected
    assert init.id_of("") == "task"


def test_initiate_is_the_same(tmp_path: Path) -> None:
    project = LongTaskProject(tmp_path / "new")
    assert project.lth("initiate").out == f"Initialized coding task at {project.root}\n"


def test_check_answers_with_the_health(tmp_path: Path) -> None:
    words = ["--check", "--template", "video-analysis", "--command", "true", "--fallback-worker", "kimi"]
    answer = LongTaskProject(tmp_path / "new").lth("init", *words)
    assert answer.code == 0
    named = ["initialized", "taskDir", "taskId", "scheduler", "worker", "fallbackWorker", "health", "warnings"]
    assert list(answer.json) == named
    assert (answer.json["worker"], answer.json["fallbackWorker"]) == ("local-command", "kimi-cli")
    assert answer.json["health"]["checks"][0]["name"] == "task-contract"


def test_strict_fails_with_the_health(tmp_path: Path) -> None:
    words = ["--check", "--cwd", str(tmp_path / "nowhere")]
    assert LongTaskProject(tmp_path / "a").lth("init", *words).code == 0
    done = LongTaskProject(tmp_path / "b").lth("init", *words, "--strict")
    assert (done.code, done.json["health"]["status"]) == (1, "fail")


def test_a_command_names_its_worker(tmp_path: Path) -> None:
    _, contract = new(tmp_path, "--command", "make build")
    assert contract["workerPolicy"]["preferred"] == "local-command"
    assert contract["localWorker"] == {"command": "make build"} and "codexWorker" not in contract


def test_a_command_of_the_fallback_leaves_the_worker_alone(tmp_path: Path) -> None:
    _, contract = new(tmp_path, "--command", "make build", "--fallback-worker", "local")
    assert contract["workerPolicy"]["preferred"] == "codex-cli"
    assert contract["localWorker"] == {"command": "make build"}


def test_a_command_that_nobody_takes_is_said(tmp_path: Path) -> None:
    done = LongTaskProject(tmp_path / "new").lth("init", "--worker", "codex", "--command", "make build", code=0)
    assert "the worker codex-cli does not use it" in done.err and "use --worker local-command" in done.err


def test_a_task_in_the_folder_of_a_deleted_one_begins_anew(tmp_path: Path) -> None:
    """Verdicts, starts and words of the old one are set aside: they say nothing of the new one."""
    project, _ = new(tmp_path, "--command", "true", "--objective", "o", "--criterion-command", "true", name="again")
    project.run("true")
    home = project.store.layout.home()
    assert home and (Path(home) / "verdicts.jsonl").exists()
    shutil.rmtree(project.root)
    told = project.lth("init", "--objective", "o", "--criterion", "c", code=0)
    assert "the state of an earlier task in this folder was moved to" in told.err
    aside = Path(told.err.partition("was moved to ")[2].splitlines()[0])
    assert (aside / "verdicts.jsonl").exists() and not os.path.exists(home)
    assert project.run("true").json["status"] == "paused"
