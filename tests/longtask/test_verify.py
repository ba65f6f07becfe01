"""Each criterion by its metric; what proves nothing; nothing is written."""

import os
from pathlib import Path
from typing import Any

import pytest

from agent_harness.testing.long_task_project import LongTaskProject, book, book_checkpoint, from_now


def criterion(metric: str, target: object = None, **more: object) -> dict[str, Any]:
    return {"id": "c", "description": "d", "metric": metric, "target": target, **more}


def verified(
    project: LongTaskProject, *criteria: object, evidence: object = (), words: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """The checks; the exit status goes with them, and nothing is written."""
    project.task = {**project.task, "successCriteria": list(criteria)}
    project.checkpoint = book_checkpoint(evidence=list(evidence))  # type: ignore[call-overload]
    before = project.untouched()
    done = project.lth("verify", *words)
    assert project.untouched() == before
    report = done.json
    assert list(report)[:4] == ["status", "taskId", "checkedAt", "checks"]
    passed = all(each["status"] == "pass" for each in report["checks"])
    assert (report["status"], done.code) == (("pass", 0) if passed else ("fail", 1))
    return report["checks"]


def one(
    project: LongTaskProject, *criteria: object, evidence: object = (), words: tuple[str, ...] = ()
) -> dict[str, Any]:
    return verified(project, *criteria, evidence=evidence, words=words)[0]


# ---- command


def test_a_command_that_passes(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    check = one(project, criterion("command", "echo out; echo err >&2; pwd; echo $LTH_TASK_DIR"))
    assert list(check) == ["id", "metric", "status", "command", "cwd", "exitCode", "stdout", "stderr", "message"]
    assert (check["status"], check["exitCode"], check["cwd"]) == ("pass", 0, str(tmp_path))
    assert check["stdout"] == f"out\n{tmp_path}\n{tmp_path}\n"
    assert check["stderr"] == "err\n"


def test_where_a_command_runs(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path / "task")
    for name in ("repo", "other", "task/inner"):
        (tmp_path / name).mkdir()
    project.task = book(context={"repository": "../other"})
    assert one(project, criterion("command", "pwd"))["stdout"].strip() == str(tmp_path / "other")
    project.task = book(context={"repository": "../other", "repoPath": str(tmp_path / "repo")})
    assert one(project, criterion("command", "pwd"))["stdout"].strip() == str(tmp_path / "repo")
    inner = criterion("command", {"command": "pwd", "cwd": "inner"})
    assert one(project, inner)["stdout"].strip() == str(tmp_path / "task/inner")
    home = one(project, criterion("command", {"command": "pwd", "cwd": "~/nowhere"}))
    assert home["message"] == f"the working directory is not a directory: {os.path.expanduser('~/nowhere')}"


@pytest.mark.parametrize(("command", "code"), [("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143)])
def test_row_03_a_command_that_fails(tmp_path: Path, command: str, code: int) -> None:
    check = one(LongTaskProject.of_book(tmp_path), criterion("command", command))
    assert (check["status"], check["exitCode"]) == ("fail", code)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({"command": "sleep 60 & wait", "timeoutSeconds": 0.2}, ("--verify-timeout-seconds", "60")),
        ("sleep 60", ("--verify-timeout-seconds", "1")),
    ],
)
def test_a_command_that_takes_too_long(tmp_path: Path, target: object, words: tuple[str, ...]) -> None:
    check = one(LongTaskProject.of_book(tmp_path), criterion("command", target), words=words)
    assert (check["status"], check["exitCode"]) == ("fail", 124)
    assert "timed out" in check["message"]


def test_long_output_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    check = one(LongTaskProject.of_book(tmp_path), criterion("command", "echo first; seq 100000; echo last"))
    assert len(check["stdout"]) <= 500
    assert check["stdout"].startswith("first\n")
    assert check["stdout"].endswith("last\n")


@pytest.mark.parametrize("target", [None, "", " ", 5, {}, {"command": 5}, []])
def test_a_command_without_a_command(tmp_path: Path, target: object) -> None:
    check = one(LongTaskProject.of_book(tmp_path), criterion("command", target))
    assert (check["status"], check["message"]) == ("fail", "missing target: a command")


@pytest.mark.parametrize("members", [{"target": {"command": "true", "cwd": "a\0b"}}, {"target": "true"}])
def test_a_folder_with_an_impossible_name(tmp_path: Path, members: dict[str, Any]) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(context={"repoPath": "a\0b"}, successCriteria=[{**criterion("command", None), **members}])
    check = project.lth("verify", code=1).json["checks"][0]
    place = f"{tmp_path}/a\0b"
    assert (check["status"], check["message"]) == ("fail", f"not a valid folder name: {place!r}")


def test_no_command_runs_in_a_forbidden_folder(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path / "task")
    secret = Path.home() / ".ssh"
    secret.mkdir()
    (tmp_path / "task" / "link").symlink_to(secret)
    for cwd in ("~/.ssh", "link", "/"):
        check = one(project, criterion("command", {"command": "touch ran", "cwd": cwd}))
        assert check["status"] == "fail"
        assert "forbidden cwd" in check["message"]
    assert not (secret / "ran").exists()


# ---- output_contains


@pytest.mark.parametrize(
    ("target", "missing"),
    [
        ("needle", []),
        (["needle", "thread"], []),
        ({"contains": "needle"}, []),
        ({"contains": ["needle", "thread"]}, []),
        ({"text": "thread"}, []),
        ("Needle", ["Needle"]),
        (["needle", "n..dle"], ["n..dle"]),
    ],
)
def test_needles(tmp_path: Path, target: object, missing: list[str]) -> None:
    project = LongTaskProject.of_book(tmp_path)
    (tmp_path / "evidence/a.txt").write_text("a needle here")
    evidence = [{"type": "test", "path": "evidence/a.txt"}, {"type": "review-note", "note": "some thread"}]
    check = one(project, criterion("output_contains", target), evidence=evidence)
    assert list(check) == ["id", "metric", "status", "expected", "missing", "evidenceCount", "message"]
    assert (check["status"], check["missing"], check["evidenceCount"]) == ("fail" if missing else "pass", missing, 2)


@pytest.mark.parametrize("target", [None, "", [], ["a", ""], {}, {"contains": []}, {"contains": 5}, 7])
def test_no_needle(tmp_path: Path, target: object) -> None:
    assert one(LongTaskProject.of_book(tmp_path), criterion("output_contains", target))["message"].startswith(
        "missing target"
    )


def test_the_target_file_alone_counts(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    (tmp_path / "evidence/a.txt").write_text("needle")
    (tmp_path / "evidence/b.txt").write_text("hay")
    evidence = [{"type": "test", "path": "evidence/a.txt", "note": "needle"}]
    found = [
        one(project, criterion("output_contains", {"contains": "needle", "path": path}), evidence=evidence)["status"]
        for path in ("evidence/a.txt", "evidence/b.txt", "evidence/missing.txt")
    ]
    assert found == ["pass", "fail", "fail"]


def test_row_11_a_needle_in_the_header_or_in_a_failed_output_is_not_found(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    paths = []
    for command in ("true # needle-one", "echo needle-two; exit 3", "echo needle-three; echo needle-four >&2"):
        paths.append(project.run(command, code=None).json["outputPath"])
        project.checkpoint = book_checkpoint()
    evidence = [{"type": "worker-output", "path": path} for path in paths]

    def missing(needle: str, target: dict[str, str] | None = None, items: object = evidence) -> list[str]:
        return one(project, criterion("output_contains", {"contains": needle, **(target or {})}), evidence=items)[
            "missing"
        ]

    assert missing("needle-one") == ["needle-one"]
    assert missing("needle-two") == ["needle-two"]
    assert missing("needle-two", {"path": paths[1]}) == ["needle-two"]
    assert missing("needle-three") == missing("needle-four") == []
    failed = [{"type": "worker-output", "path": paths[2], "exitCode": 1}]
    assert missing("needle-three", items=failed) == ["needle-three"]
    failed = [{"type": "test", "path": paths[2], "status": "FAILED"}]
    assert missing("needle-three", items=failed) == ["needle-three"]


def test_row_14_files_elsewhere_are_not_read(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path / "task")
    (tmp_path / "outside.txt").write_text("needle")
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/inside.txt").write_text("thread")
    (tmp_path / "task/link.txt").symlink_to(tmp_path / "outside.txt")
    project.task = book(context={"repoPath": "../repo"})
    paths = ["../outside.txt", "a\0b", str(tmp_path / "outside.txt"), "link.txt", "/etc/hostname"]
    evidence = [{"type": "test", "path": path} for path in [*paths, str(tmp_path / "repo/inside.txt")]]
    assert one(project, criterion("output_contains", ["needle", "thread"]), evidence=evidence)["missing"] == ["needle"]
    for path in paths:
        check = one(project, criterion("output_contains", {"contains": "needle", "path": path}))
        assert check["status"] == "fail"


# ---- manual


@pytest.mark.parametrize(
    "item",
    [
        {"criterionId": "c"},
        {"criterion": "c"},
        {"id": "c"},
        {"criteria": ["b", "c"]},
        {"criterionId": "c", "status": "ok"},
    ],
)
def test_linked_evidence(tmp_path: Path, item: dict[str, Any]) -> None:
    check = one(
        LongTaskProject.of_book(tmp_path), criterion("manual"), evidence=[{"type": "review-note", "path": "p", **item}]
    )
    assert list(check) == ["id", "metric", "status", "evidence", "message"]
    assert check["status"] == "pass"
    named = item.get("criterionId") or item.get("criterion")
    assert check["evidence"] == {"type": "review-note", "path": "p", "criterionId": named}


def test_no_linked_evidence(tmp_path: Path) -> None:
    check = one(LongTaskProject.of_book(tmp_path), criterion("manual"), evidence=[{"type": "note", "criterionId": "d"}])
    assert (check["status"], check["evidence"]) == ("fail", None)


@pytest.mark.parametrize("status", ["fail", "failed", "error", "blocked", "Failed"])
def test_row_11_the_latest_evidence_decides(tmp_path: Path, status: str) -> None:
    project = LongTaskProject.of_book(tmp_path)
    good, bad = {"type": "test", "criterionId": "c"}, {"type": "test", "criterionId": "c", "status": status}
    assert one(project, criterion("manual"), evidence=[bad])["status"] == "fail"
    assert one(project, criterion("manual"), evidence=[{**good, "note": "1"}, bad])["status"] == "fail"
    assert one(project, criterion("manual"), evidence=[bad, {**good, "note": "1"}])["status"] == "pass"


def test_archived_evidence_counts_and_damage_is_told(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    archived = (
        '{"schemaVersion":1,"taskId":"book","archivedAt":"x","evidence":{"type":"test","criterionId":"c"}}\n{"torn'
    )
    (tmp_path / "evidence/checkpoint-evidence-archive.jsonl").write_text(archived)
    project.task = {**project.task, "successCriteria": [criterion("manual")]}
    done = project.lth("verify", code=0)
    assert done.json["skippedLines"] == 1
    assert "damaged" in done.err


# ---- the rest


@pytest.mark.parametrize("metric", ["llm_judge", "custom"])
def test_metrics_that_nobody_can_check(tmp_path: Path, metric: str) -> None:
    check = one(LongTaskProject.of_book(tmp_path), criterion(metric, "x"))
    assert (check["status"], check["message"]) == ("fail", f"unsupported metric: {metric}")


def test_all_must_pass_whatever_they_weigh(tmp_path: Path) -> None:
    checks = verified(
        LongTaskProject.of_book(tmp_path), criterion("command", "true", weight=9), {**criterion("manual"), "weight": 0}
    )
    assert [each["status"] for each in checks] == ["pass", "fail"]


def test_an_invalid_task_is_a_report(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.checkpoint = {**book_checkpoint(), "status": "tired"}
    done = project.lth("verify", code=1)
    assert done.json == {"status": "fail", "taskId": "book", "errors": done.json["errors"], "checks": []}
    assert "invalid checkpoint.status: tired" in done.json["errors"]
    (tmp_path / "task.json").write_text("nothing")
    assert project.lth("verify", code=1).json["taskId"] is None


def test_record_done_needs_a_passing_report(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    done = project.lth("record", "--status", "done", code=1)
    assert "verification failed" in done.err
    assert project.checkpoint["status"] == "active"
    project.checkpoint = book_checkpoint(
        evidence=[{"type": "review-note", "criterionId": "written", "observedAt": from_now()}]
    )
    project.lth("record", "--status", "done", code=0)
    assert project.checkpoint["status"] == "done"
