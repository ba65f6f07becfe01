"""Start of each worker, and the workers that cannot be started."""

import json
import shlex
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.agents import registry
from agent_harness.agents.base import Agent, Brief, Turn
from agent_harness.agents.events import Event, Finished, Text
from agent_harness.errors import HarnessError, ToolMissing
from agent_harness.protocols.longtask.api import LongTask
from agent_harness.protocols.longtask.layout import LongTaskLayout
from agent_harness.protocols.longtask.options import RunOptions
from agent_harness.protocols.longtask.records import Contract
from agent_harness.protocols.longtask.run import adapters
from agent_harness.testing.long_task_project import NEXT, LongTaskProject, book, program


def plan(root: Path, worker: str, contract: dict[str, Any], **options: object) -> adapters.Plan:
    """The plan with options named as in Python."""
    given_options = {name.replace("_", "-"): value for name, value in options.items()}
    return adapters.plan(
        adapters.normalised(worker), Contract(contract), LongTaskLayout(root), RunOptions(given_options)
    )


@pytest.mark.parametrize(
    ("name", "worker"),
    [
        ("codex", "codex-cli"),
        ("openclaw-codex-cli", "codex-cli"),
        ("codex-cli", "codex-cli"),
        ("kimi", "kimi-cli"),
        ("local", "local-command"),
        ("claude", "claude-code"),
        ("manual-review", "manual-review"),
        ("somebody", "somebody"),
    ],
)
def test_names(name: str, worker: str) -> None:
    assert adapters.normalised(name) == worker


def test_row_17_codex_is_read_only_and_has_no_option_that_it_rejects(tmp_path: Path) -> None:
    found = plan(tmp_path, "codex", book(context={"repoPath": "."}))
    words = ["codex", "exec", "--cd", str(tmp_path), "--sandbox", "read-only", "-"]
    assert found.run == words
    assert found.command == " ".join(words)
    assert (found.cwd, found.timeout_seconds, found.reads_only) == (str(tmp_path), 1800, True)


def test_codex_with_everything(tmp_path: Path) -> None:
    config = {
        "cwd": "~/nowhere",
        "model": "small",
        "sandbox": "workspace-write",
        "oss": True,
        "localProvider": "ollama",
        "timeoutSeconds": 60,
        "extraArgs": ["-c", "approval_policy=never"],
    }
    found = plan(tmp_path, "codex", book(codexWorker=config), cwd=".", model="a big one")
    assert found.run == [
        *("codex", "exec", "--cd", str(tmp_path), "--sandbox", "workspace-write", "--model", "a big one", "--oss"),
        *("--local-provider", "ollama", "-c", "approval_policy=never", "-"),
    ]
    assert "--model 'a big one' --oss" in found.command
    assert (found.timeout_seconds, found.reads_only) == (60, False)


def test_kimi(tmp_path: Path) -> None:
    contract = book(kimiWorker={"cwd": ".", "model": "k1", "extraArgs": ["--x"]})
    found = plan(tmp_path, "kimi", contract, model="codex only", kimi_model="k2", timeout_seconds="7")
    assert found.run == [
        *("kimi", "--work-dir", str(tmp_path), "--print", "--input-format", "text", "--output-format", "text"),
        *("--final-message-only", "--model", "k2", "--x"),
    ]
    assert (found.timeout_seconds, found.reads_only) == (7, False)


def test_claude_code(tmp_path: Path) -> None:
    contract = book(context={"repository": "."}, claudeWorker={"model": "m", "extraArgs": ["--verbose"]})
    found = plan(tmp_path, "claude", contract)
    assert found.run == ["claude", "--print", "--output-format", "json", "--model", "m", "--verbose"]
    assert found.wrapped
    own = ["--output-format=stream-json", "--verbose"]
    found = plan(tmp_path, "claude", book(claudeWorker={"cwd": ".", "extraArgs": own}))
    assert (found.run, found.wrapped) == (["claude", "--print", *own], False)
    contract = book(claudeWorker={"cwd": ".", "permissionMode": "acceptEdits"})
    found = plan(tmp_path, "claude", contract)
    assert isinstance(found.run, list)
    assert found.run[-2:] == ["--permission-mode", "acceptEdits"]
    assert not found.reads_only
    assert plan(tmp_path, "claude", book(claudeWorker={"cwd": "."})).reads_only


def test_local_command(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    found = plan(tmp_path, "local", book(localWorker={"command": "make 'it'", "timeoutSeconds": 9}))
    assert (found.run, found.command, found.cwd, found.timeout_seconds) == ("make 'it'", "make 'it'", str(tmp_path), 9)
    contract = book(localWorker={"command": "a"}, context={"repository": "elsewhere", "repoPath": "repo"})
    found = plan(tmp_path, "local", contract, command="b")
    assert (found.run, found.cwd) == ("b", str(tmp_path / "repo"))


def test_an_agent_of_ours_by_its_kind(tmp_path: Path) -> None:
    found = plan(tmp_path, "command:sh -c true", book(agentWorker={"cwd": ".", "timeoutSeconds": 5, "model": "m"}))
    assert found.run is None
    assert (found.timeout_seconds, found.model, found.worker) == (5, "m", "command:sh -c true")
    with pytest.raises(HarnessError, match="not installed"):
        plan(tmp_path, "command:no-such-program", book(), cwd=".")


class OwnTurn(Turn):
    """Repeats what it was started for, and ends."""

    def __init__(self, brief: Brief, text: str) -> None:
        told = brief.environment["LTH_WORKER"]
        self._events: list[Event] = [Text(f"{told} {text} {brief.model}"), Text(brief.prompt), Finished(ok=True)]

    def next_event(self, timeout_seconds: float) -> Event | None:
        return self._events.pop(0) if self._events else None

    @property
    def ended(self) -> bool:
        return not self._events

    def stop(self, grace_seconds: float = 5.0) -> None:
        self._events.clear()


class OwnAgent(Agent):
    """An agent inside this process."""

    name = "own"

    def __init__(self, text: str) -> None:
        self.text = text

    @classmethod
    def from_words(cls, text: str) -> "OwnAgent":
        return cls(text)

    def start(self, brief: Brief) -> Turn:
        if self.text == "broken":
            raise ToolMissing("the own agent needs a model")
        return OwnTurn(brief, self.text)


def test_every_kind_of_agent_is_a_worker_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind that the registry learns is a worker, without a word about it here."""
    assert all(adapters.is_runnable(adapters.normalised(kind)) for kind in registry.KINDS)
    assert all(adapters.is_runnable(f"{kind}:x") for kind in registry.KINDS)
    assert not adapters.is_runnable("own:x")
    monkeypatch.setitem(cast("dict[str, str]", registry.KINDS), "own", f"{__name__}:OwnAgent")
    project = LongTaskProject.of_book(tmp_path / "task")
    project.task = book(
        workerPolicy={"preferred": "own:x", "allowed": ["own:x"]}, agentWorker={"cwd": ".", "model": "m"}
    )
    checks = {each["name"]: each for each in LongTask(project.root).health()[0]["checks"]}
    assert checks["worker-plan:own:x"]["status"] == "pass"
    answer, code = LongTask(project.root).answer("run", {})
    assert isinstance(answer, dict)
    assert (code, answer["status"], answer["command"], answer["usage"]) == (0, "paused", "agent own:x", None)
    assert "own:x x m\n" in project.outputs()[0]
    assert f"Next step: {NEXT}" in project.outputs()[0]
    answer, code = LongTask(project.root).answer("run", {"worker": "own:broken"})
    assert isinstance(answer, dict)
    assert (code, answer["status"]) == (127, "needs-human")
    assert "error: the own agent needs a model\n" in project.outputs()[1]
    LongTask(tmp_path / "new").answer("init", {"worker": "own:y", "fallback-worker": "command:true"})
    made = json.loads((tmp_path / "new/task.json").read_text())
    assert made["workerPolicy"]["allowed"] == ["own:y", "command:true"] and "agentWorker" in made


@pytest.mark.parametrize(
    ("worker", "contract", "options", "message"),
    [
        ("local", {}, {}, "--command"),
        ("codex", {}, {}, "cwd"),
        ("kimi", {}, {}, "cwd"),
        ("codex", {}, {"cwd": ".", "sandbox": "none"}, "Unsupported sandbox: none"),
        ("codex", {}, {"cwd": ".", "local-provider": "me"}, "Unsupported local provider: me"),
        ("local", {}, {"command": "x", "cwd": "nowhere"}, "not a directory"),
        ("local", {}, {"command": "x", "timeout-seconds": "0"}, "--timeout-seconds"),
        ("local", {}, {"command": "x", "timeout-seconds": "1.5"}, "--timeout-seconds"),
        ("manual-review", {}, {}, "Unsupported worker adapter: manual-review"),
        ("openclaw-direct-model", {}, {}, "Unsupported worker adapter: openclaw-direct-model"),
        ("somebody", {}, {}, "Unsupported worker adapter: somebody"),
    ],
)
def test_row_04_what_is_wrong_is_said_and_leaves_no_trace(
    tmp_path: Path, worker: str, contract: dict[str, Any], options: dict[str, str], message: str
) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(**contract)
    words = [part for name, value in options.items() for part in (f"--{name}", value)]
    for more in ("--dry-run=false", "--dry-run"):
        done = project.lth("run", "--worker", worker, *words, more, code=1)
        assert message in done.err
        assert len(done.err.strip().splitlines()) == 1
        assert project.untouched() == []


def test_a_sandbox_of_the_contract_is_checked_with_the_contract(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(codexWorker={"cwd": ".", "sandbox": "open"})
    assert "task.codexWorker.sandbox must be one of" in project.lth("run", "--worker", "codex", code=1).err


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_quoted_words_are_read_back(words: list[str]) -> None:
    assert shlex.split(adapters.quoted(*words)) == words


def test_quoting() -> None:
    assert adapters.quoted("a_./:=@+-Z9", "it's", "", "a b") == "a_./:=@+-Z9 'it'\\''s' '' 'a b'"


def test_codex_gets_the_prompt_on_stdin_and_its_argv(tmp_path: Path) -> None:
    env = program(tmp_path / "bin", "codex", 'printf "%s\\n" "$@"; cat')
    project = LongTaskProject.of_book(tmp_path / "task")
    project.lth("run", "--worker", "codex", "--cwd", ".", env=env, code=0)
    output = project.outputs()[0]
    assert f"exec\n--cd\n{project.root}\n--sandbox\nread-only\n-\n" in output
    assert "Continue exactly one bounded slice." in output
    assert "the harness writes the checkpoint" in output


def test_a_stranger_runs_with_a_warning(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(workerPolicy={"preferred": "codex-cli", "allowed": ["codex"]})
    done = project.run("true")
    assert "local-command is not in workerPolicy.allowed (codex-cli)" in done.err
