"""Secrets that an agent meets, prints and claims with: nothing that the harness writes or says holds one.

A log that is shown around must not open an account. What the agent itself puts into files and commits is its own.
"""

import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_harness.testing import HARNESS, LTH, CommandResult, run_process
from agent_harness.testing.feature_list_project import FeatureListProject
from agent_harness.testing.repo import Repo

pytestmark = [pytest.mark.scenario, pytest.mark.timeout(300)]

OWN = "zq7Kd0Pw" + secrets.token_hex(8)
"""The value of a variable of the harness's own environment."""
CANARIES: dict[str, str] = {
    "own": OWN,
    "named": "hunter2" + secrets.token_hex(6),
    "anthropic": "sk-ant-api03-" + secrets.token_urlsafe(60),
    "github": "ghp_" + secrets.token_hex(18),
    "aws": "AKIA" + secrets.token_hex(8).upper(),
    "slack": "xoxb-123456789012-123456789012-" + secrets.token_hex(12),
    "address": "correct-horse-" + secrets.token_hex(6),
    "bearer": secrets.token_urlsafe(40).replace("-", "x").replace("_", "y"),
    "key": secrets.token_hex(32),
}
LOCK = "PRIVATE KEY-----"
SAID = f"""\
DATABASE_PASSWORD={CANARIES["named"]}
the key is {CANARIES["anthropic"]} and {CANARIES["github"]} or {CANARIES["aws"]}
{json.dumps({"slack": CANARIES["slack"], "password": CANARIES["named"], "own": OWN})}
postgresql://app:{CANARIES["address"]}@db.example/app
Authorization: Bearer {CANARIES["bearer"]}
-----BEGIN RSA {LOCK}
{CANARIES["key"]}
-----END RSA {LOCK}
"""
"""What everybody prints: the agent, its tools, and the proof that fails."""

AGENT = """\
cat "$1"
cat "$1" >&2
python3 - "$1" <<'PY'
import json, sys
text = open(sys.argv[1]).read()
print(json.dumps({"type": "tool_call", "name": "Bash", "input": {"command": f"cat .env # {text}"}}))
print(json.dumps({"type": "tool_result", "name": "Bash", "output": text}))
print(json.dumps({"type": "text", "text": text * 40}))
PY
tail -c 300 "$1"
"""
PROOF = 'cat "$SAID"; cat "$SAID" >&2; test -e right.txt'


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "said.txt").write_text(SAID)
    (tmp_path / "agent.sh").write_text(AGENT)
    return tmp_path


def environment(place: Path) -> dict[str, str]:
    here = {"XDG_STATE_HOME": str(place / "state"), "SERVICE_TOKEN": OWN, "SAID": str(place / "said.txt")}
    return os.environ | here


def words_of(place: Path, more: str) -> list[str]:
    """An agent that prints all of it, and then does ``more``."""
    (place / "agent.sh").write_text(AGENT + more)
    return ["sh", str(place / "agent.sh"), str(place / "said.txt")]


def run(place: Path, folder: Path, *words: str) -> CommandResult:
    """One command; what it prints is looked through as well."""
    ran = run_process(words, cwd=folder, environ=environment(place), seconds=120)
    assert found_in(ran.text.encode()) == [], words
    return ran


def found_in(content: bytes) -> list[str]:
    """The canaries that are in there, also cut in half, and as JSON writes them."""
    halves = {name: (value[: len(value) * 2 // 3], value) for name, value in CANARIES.items()}
    return [name for name, each in halves.items() if any(value.encode() in content for value in each)]


def written(*folders: Path) -> Iterator[Path]:
    """Every file below, but for git's objects, which hold what agents committed."""
    for folder in folders:
        yield from (path for path in folder.rglob("*") if path.is_file() and "objects" not in path.parts)


def assert_clean(place: Path, repo: Repo) -> None:
    looked = 0
    for path in written(repo.path, place / "state"):
        assert (found_in(path.read_bytes()), str(path)) == ([], str(path))
        looked += 1
    assert looked > 10
    assert found_in(repo.git("log", "--all", "--format=%B").encode()) == []
    texts = b"".join(path.read_bytes() for path in written(repo.path, place / "state"))
    assert b"DATABASE_PASSWORD=***" in texts, "nothing of the output was kept at all"


@pytest.mark.exhaustive
def test_a_task_list_writes_no_secret(place: Path) -> None:
    repo = Repo(place / "work").write("README", "A list.\n").commit("First")
    run(place, repo.path, *HARNESS, "init", ".")
    run(place, repo.path, *HARNESS, "add", "Make it right", "--validate", PROOF)
    for more, code in (('harness task fail task-001 "$(head -2 "$1")"; exit 3', 1), ("touch right.txt", 0)):
        agent = json.dumps({"kind": "command", "command": words_of(place, more)})
        ran = run(place, repo.path, *HARNESS, "run", "--max-tasks", "1", "--agent", agent)
        assert ran.code == code, ran
        run(place, repo.path, *HARNESS, "status", "--json")
    assert_clean(place, repo)


@pytest.mark.exhaustive
def test_a_long_task_writes_no_secret(place: Path) -> None:
    repo = Repo(place / "work").write("README", "A task.\n").commit("First")
    proof = PROOF.replace("right.txt", str(place / "right.txt"))
    told = ("--objective", "Make it right", "--criterion-command", proof, "--worker", "local-command")
    command = " ".join(words_of(place, ""))
    run(place, repo.path, *LTH, "init", "long", *told, "--cwd", str(repo.path), "--command", command)
    for more, status in (("true", 1), (f"touch {place}/right.txt", 0)):
        words_of(place, more)
        run(place, repo.path, *LTH, "run", "long")
        assert run(place, repo.path, *LTH, "verify", "long").code == status
    assert_clean(place, repo)


TESTS = """\
import os, pathlib

def test_value():
    from calc import value
    said = pathlib.Path(os.environ["SAID"]).read_text()
    print(said)
    assert (value(), said) == (1, said)
"""
FEATURE = """
mkdir -p tests
cp "$(dirname "$1")/test_value.py" tests/test_1.py
echo "def value(): return $VALUE" > calc.py
python3 - <<'PY'
import json, pathlib
path = pathlib.Path("features.json")
plan = json.loads(path.read_text())
plan["features"][0]["passes"] = True
path.write_text(json.dumps(plan, indent=2))
PY
python3 -m pytest -v tests/test_1.py
git add -A
git commit -qm "Feature 1"
"""


@pytest.mark.exhaustive
def test_a_feature_project_writes_no_secret(place: Path) -> None:
    settings = """\
project: {name: calc}
environment: {init: 'true', reset: 'true'}
testing: {full: python3 -m pytest -q}
verification: {fix_rounds: 0}
"""
    project = FeatureListProject.made(place / "work", False, settings=settings)
    plan = json.loads((project.root / "features.json").read_text())
    plan["features"][0] |= {"test_file": "tests/test_1.py", "description": "value() is one"}
    project.put({"features.json": json.dumps(plan, indent=2)})
    project.commit("Plan")
    (place / "test_value.py").write_text(TESTS)
    rounds: list[tuple[str, list[int], int]] = [("2", [], 1), ("1", [1], 0)]
    for value, passing, code in rounds:
        agent = json.dumps({"kind": "command", "command": words_of(place, f"VALUE={value}{FEATURE}")})
        ran = run(place, project.root, *HARNESS, "run", "--agent", agent)
        assert (ran.code, project.passing()) == (code, passing), ran
        run(place, project.root, *HARNESS, "log", "query", "--json")
        run(place, project.root, *HARNESS, "status", "--json")
    assert_clean(place, project.repo)
