"""``harness mcp`` as a client sees it: lines of JSON on stdin and stdout, over a real task list."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_harness.protocols.tasklist.api import TaskList
from agent_harness.testing.repo import Repo

TOOLS = {"status", "next", "claim", "checkpoint", "validate", "complete", "fail", "release", "log_query"}


class Talk:
    """One client of the server."""

    def __init__(self, running: "subprocess.Popen[str]") -> None:
        self._running = running
        self._number = 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to one request."""
        self._number += 1
        self.tell(method, id=self._number, **params)
        assert self._running.stdout is not None
        for line in self._running.stdout:
            answer: dict[str, Any] = json.loads(line)  # nothing else may come on stdout
            if answer.get("id") == self._number:
                return answer["result"]
        raise AssertionError("the server went away")

    def tell(self, method: str, *, id: int | None = None, **params: Any) -> None:  # noqa: A002
        """Sends one message."""
        message = {"jsonrpc": "2.0", "method": method, "params": params, **({} if id is None else {"id": id})}
        assert self._running.stdin is not None
        self._running.stdin.write(json.dumps(message) + "\n")
        self._running.stdin.flush()

    def call(self, name: str, **arguments: Any) -> tuple[bool, dict[str, Any]]:
        """Whether a tool did what was asked, and its answer."""
        result = self.ask("tools/call", name=name, arguments=arguments)
        text = result["content"][0]["text"]
        return not result.get("isError"), json.loads(text[text.index("{") :])


@contextmanager
def talking(folder: Path) -> Iterator[Talk]:
    """A server in a folder; it has ended, and well, at the end of the block."""
    words = [sys.executable, "-m", "agent_harness.cli.main", "mcp"]
    with subprocess.Popen(
        words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            talk = Talk(running)
            nothing: dict[str, Any] = {}
            me = {"name": "t", "version": "1"}
            greeting = talk.ask("initialize", protocolVersion="2025-06-18", capabilities=nothing, clientInfo=me)
            assert greeting["serverInfo"]["name"] == "harness"
            talk.tell("notifications/initialized")
            yield talk
            _, said = running.communicate(timeout=120)
            assert running.returncode == 0, said
            assert "Traceback" not in said
        finally:
            running.kill()


def listed(folder: Path) -> Repo:
    repo = Repo(folder, user_settings=True).write("README.md", "A project.\n").commit("First")
    TaskList.init(str(folder))
    tasks = [{"title": f"Write {n}", "validation": {"command": f"test -s {n}.txt"}} for n in ("one", "two")]
    TaskList.open(str(folder)).add(tasks)
    return repo


def test_a_task_is_worked_by_tools_alone(tmp_path: Path) -> None:
    """The same front door as the verbs: claim, checkpoint, validate, complete; then fail and release."""
    repo = listed(tmp_path / "project")
    with talking(repo.path) as talk:
        tools = talk.ask("tools/list")["tools"]
        assert {tool["name"] for tool in tools} == TOOLS
        assert len(json.dumps(tools)) < 6000
        good, answer = talk.call("next")
        assert (good, answer["task_id"]) == (True, "task-001")
        good, answer = talk.call("claim")
        assert (good, answer["task_id"]) == (True, "task-001"), answer
        assert answer["next"].startswith("harness task checkpoint task-001 ")
        assert talk.call("checkpoint", task_id="task-001", step=1, total=2, text="begun")[0]
        good, answer = talk.call("validate", task_id="task-001")
        assert (good, answer["result"]) == (False, "FAIL")
        good, answer = talk.call("complete", task_id="task-001")
        assert (good, answer["error"]["code"]) == (False, "verification_failed")
        assert answer["error"]["hint"]
        repo.write("one.txt", "done\n")
        good, answer = talk.call("complete", task_id="task-001")
        assert good and answer["commit"], answer
        assert talk.call("claim", task_id="task-002")[0]
        assert talk.call("fail", task_id="task-002", category="TEST_FAIL", message="it cannot be done")[0]
        assert talk.call("claim")[1]["task_id"] == "task-002"
        assert talk.call("release", task_id="task-002", why="for somebody else")[0]
        good, answer = talk.call("status")
        assert (good, answer["counts"]["completed"]) == (True, 1), answer
        assert "Completed [task-001]" in str(talk.call("log_query", text="completed")[1]["rows"])
    assert repo.git("log", "-1", "--format=%s") == "[task-001] Write one"


def test_what_cannot_be_done_is_an_error_with_the_next_command(tmp_path: Path) -> None:
    """No call ends the server, whatever it is given."""
    with talking(tmp_path) as talk:
        good, answer = talk.call("claim")
        assert (good, answer["error"]["hint"]) == (False, "harness init .")
        listed(tmp_path / "project")
        TaskList.init(str(tmp_path))
        good, answer = talk.call("complete", task_id="task-999")
        assert (good, answer["error"]["code"]) == (False, "usage")
        wrong = talk.ask("tools/call", name="fail", arguments={"task_id": "a", "category": "NONE", "message": "x"})
        assert wrong["isError"]
        (tmp_path / "harness-tasks.json").write_text("{")
        good, answer = talk.call("status")
        assert (good, answer["error"]["code"]) == (False, "state_damaged")
    assert os.listdir(tmp_path)
