"""The claim and renew scripts: one JSON object and exit status 0, whatever happens (tasklist.md 7.3)."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_harness.kernel.lock import Lock
from hooks.lists import SCRIPTS, call, make, task

W = {"HARNESS_WORKER_ID": "w"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path / "list", task(1), task(2), active=False)


def told(name: str, root: Path, payload: dict[str, Any] | None = None, **environ: str) -> dict[str, Any]:
    done = call(name, root, payload or {}, **environ)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"\n") == 1
    return json.loads(done.stdout)


def stored(root: Path, number: int) -> dict[str, Any]:
    return json.loads((root / "harness-tasks.json").read_text())["tasks"][number - 1]


def test_a_claim_needs_no_marker_and_gives_a_token(root: Path) -> None:
    won = told("claim", root, **W)
    assert won == {
        "claimed": True,
        "worker_id": "w",
        "task_id": "task-001",
        "title": "Thing 1",
        "lease_expires_at": stored(root, 1)["lease_expires_at"],
        "claim_token": stored(root, 1)["claim_token"],
        "base": None,
        "attempt": 1,
        "resumed": False,
    }
    assert told("claim", root, **W)["resumed"] is True


def test_without_an_id_the_session_owns_the_claim(root: Path) -> None:
    assert told("claim", root, {"session_id": "s1"})["worker_id"].endswith(":s1")


def test_nothing_eligible_is_no_error(tmp_path: Path) -> None:
    root = make(tmp_path / "list", task(1, "completed"))
    before = (root / "harness-tasks.json").read_bytes()
    assert told("claim", root, **W) == {"claimed": False}
    assert (root / "harness-tasks.json").read_bytes() == before


def test_the_refusals_of_both(root: Path, tmp_path: Path) -> None:
    for name, done in (("claim", "claimed"), ("renew", "renewed")):
        assert told(name, tmp_path, {"task_id": "x"}) == {done: False, "error": "state root not found"}
        pinned = told(name, root, {"task_id": "x"}, HARNESS_STATE_ROOT=str(tmp_path))
        assert pinned == {done: False, "error": "state root not found"}
        shared = make(tmp_path / "shared", task(1), mode="concurrent")
        assert told(name, shared, {"task_id": "task-001"}) == {done: False, "error": "missing HARNESS_WORKER_ID"}
        (shared / "harness-tasks.json").write_text("{")
        assert "damaged" in told(name, shared, {"task_id": "task-001"}, **W)["error"]
        with Lock(str(root)):
            held = told(name, root, {"task_id": "task-001"}, HARNESS_LOCK_TIMEOUT_SECONDS="0.1", **W)
        assert held[done] is False
        assert held["error"]


def test_a_claim_is_refused_where_a_limit_is_reached_or_another_session_is_at_work(tmp_path: Path) -> None:
    limited = make(tmp_path / "a", task(1), config={"max_sessions": 1})
    assert "max_sessions" in told("claim", limited, **W)["error"]
    session = {"owner": "other", "expires_at": "2099-01-31T09:30:00Z", "started_at": "x"}
    busy = make(tmp_path / "b", task(1), session=session)
    assert "another harness session is active" in told("claim", busy, {"session_id": "s1"})["error"]


def test_a_renewal_moves_the_lease_forward_only(root: Path) -> None:
    claimed = told("claim", root, **W)
    later = told("renew", root, {"task_id": "task-001"}, HARNESS_LEASE_SECONDS="9000", **W)
    assert later["renewed"] is True
    assert later["task_id"] == "task-001"
    assert later["lease_expires_at"] > claimed["lease_expires_at"]
    assert told("renew", root, {"task_id": "task-001"}, HARNESS_LEASE_SECONDS="5", **W) == later
    assert told("renew", root, {"task_id": "nobody"}, HARNESS_TASK_ID="task-001", **W)["renewed"] is True


RENEWALS: list[tuple[dict[str, Any], dict[str, str], str]] = [
    ({}, W, "missing task_id"),
    ({"task_id": "nobody"}, W, "task not found"),
    ({"task_id": "task-002"}, W, "task not in_progress"),
    ({"task_id": "task-001"}, {"HARNESS_WORKER_ID": "other"}, "task owned by other worker"),
    ({"task_id": "task-001"}, {**W, "HARNESS_CLAIM_TOKEN": "wrong"}, "task owned by other worker"),
]


@pytest.mark.parametrize(("payload", "environ", "error"), RENEWALS)
def test_the_refusals_of_renew(root: Path, payload: dict[str, Any], environ: dict[str, str], error: str) -> None:
    told("claim", root, **W)
    assert told("renew", root, payload, **environ) == {"renewed": False, "error": error}


def test_a_lease_past_its_grace_is_not_renewed(root: Path) -> None:
    told("claim", root, **W)
    raw = json.loads((root / "harness-tasks.json").read_text())
    raw["tasks"][0].update(claimed_at="2020-01-01T00:00:00Z", lease_expires_at="2020-01-01T00:30:00Z")
    (root / "harness-tasks.json").write_text(json.dumps(raw))
    assert told("renew", root, {"task_id": "task-001"}, **W) == {"renewed": False, "error": "lease expired"}


@pytest.mark.parametrize("value", ["x", "0", "-1", "nan", "inf", "1e999"])
def test_a_length_that_is_none_is_the_default_with_a_warning(root: Path, value: str) -> None:
    won = told("claim", root, HARNESS_LEASE_SECONDS=value, HARNESS_LOCK_TIMEOUT_SECONDS=value, **W)
    assert won["claimed"] is True
    assert "HARNESS_LEASE_SECONDS" in won["warning"]
    assert "HARNESS_LOCK_TIMEOUT_SECONDS" in won["warning"]


@pytest.mark.parametrize("given", [b"", b"[", b"\xff", b'{"cwd": 7, "task_id": [], "session_id": {}}'])
@pytest.mark.parametrize("name", ["claim", "renew"])
def test_no_payload_brings_them_down(root: Path, name: str, given: bytes) -> None:
    done = call(name, root, given, **W)
    assert (done.returncode, done.stderr) == (0, b"")
    assert isinstance(json.loads(done.stdout), dict)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"tasks": 7}', b'{"tasks": [7, {"id": 7}]}', b"\xff", b'{"tasks": []}']
)
def test_no_state_brings_them_down(root: Path, content: bytes) -> None:
    (root / "harness-tasks.json").write_bytes(content)
    for name, done in (("claim", "claimed"), ("renew", "renewed")):
        assert told(name, root, {"task_id": "7"}, **W)[done] is False


def test_in_a_repository_the_base_is_known(tmp_path: Path) -> None:
    root = make(tmp_path / "list", task(1))
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "x")):
        subprocess.run(["git", *words], cwd=root, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True).stdout
    assert told("claim", root, **W)["base"] == head.strip()


def test_there_is_one_script_for_each() -> None:
    assert {path.name for path in SCRIPTS.glob("harness-*.py")} == {
        f"harness-{name}.py" for name in ("stop", "sessionstart", "subagentstop", "teammateidle", "claim", "renew")
    }
