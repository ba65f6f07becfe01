"""``harness mcp`` as a client sees it: lines of JSON on stdin and stdout, over a real task list."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from agent_harness.protocols.tasklist.api import TaskList
from agent_harness.testing.repo import Repo

WORDS = ["-m", "agent_harness.cli.main", "mcp"]
TOOLS = {"status", "next", "claim", "checkpoint", "validate", "complete", "fail", "release", "log_query"}


class Talk:
    """One client of the server."""

    def __init__(self, running: "subprocess.Popen[str]") -> None:
        self._running = running
        self._number = 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to one request."""
        return self.answer(self.send(method, **params))["result"]

    def send(self, method: str, **params: Any) -> int:
        """The number of a request that is on its way."""
        self._number += 1
        self.tell(method, id=self._number, **params)
        return self._number

    def answer(self, number: int | str | None) -> dict[str, Any]:
        """The answer to a request; it must be the next one that comes."""
        assert self._running.stdout is not None
        answer: dict[str, Any] = json.loads(self._running.stdout.readline())  # nothing else may come on stdout
        assert answer["id"] == number, answer
        return answer

    def raw(self, line: str) -> None:
        """Sends a line as it is."""
        assert self._running.stdin is not None
        self._running.stdin.write(f"{line}\n")
        self._running.stdin.flush()

    def tell(self, method: str, *, id: int | None = None, **params: Any) -> None:  # noqa: A002
        """Sends one message."""
        message = {"jsonrpc": "2.0", "method": method, "params": params, **({} if id is None else {"id": id})}
        self.raw(json.dumps(message))

    def call(self, name: str, **arguments: Any) -> tuple[bool, dict[str, Any]]:
        """Whether a tool did what was asked, and its answer."""
        result = self.ask("tools/call", name=name, arguments=arguments)
        text = result["content"][0]["text"]
        return not result.get("isError"), json.loads(text[text.index("{") :])


@contextmanager
def talking(folder: Path) -> Iterator[Talk]:
    """A server in a folder; it has ended, and well, at the end of the block."""
    words = [sys.executable, *WORDS]
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


@pytest.mark.scenario
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


def test_the_reference_client_works_a_task_down(tmp_path: Path) -> None:
    """The library that defines the protocol reads every answer, and finds nothing wrong with it."""
    repo = listed(tmp_path / "project")

    async def work() -> list[tuple[bool, dict[str, Any]]]:
        server = StdioServerParameters(command=sys.executable, args=WORDS, cwd=repo.path, env=dict(os.environ))
        async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
            greeting = await session.initialize()
            assert greeting.server_info.name == "harness"
            assert {tool.name for tool in (await session.list_tools()).tools} == TOOLS
            seen: list[tuple[bool, dict[str, Any]]] = []
            given: dict[str, dict[str, str | None]] = {
                "claim": {},
                "complete": {"task_id": "task-001"},
                "status": {"task_id": None},
            }
            for name, arguments in given.items():
                result = await session.call_tool(name, arguments)
                seen.append((bool(result.is_error), json.loads(result.model_dump()["content"][0]["text"])))
            await session.send_ping()
            return seen

    claimed, refused, status = asyncio.run(work())
    assert (claimed[0], claimed[1]["task_id"]) == (False, "task-001")
    assert (refused[0], refused[1]["error"]["code"]) == (True, "verification_failed")
    assert (status[0], status[1]["counts"]["in_progress"]) == (False, 1)


def test_a_ping_is_answered_while_a_proof_runs(tmp_path: Path) -> None:
    """The proof ends only after the ping was answered; its own answer comes then."""
    repo = Repo(tmp_path / "project", user_settings=True).write("README.md", "A project.\n").commit("First")
    TaskList.init(str(repo.path))
    go = tmp_path / "go"
    waits = f"until test -e {go}; do sleep 0.05; done"
    TaskList.open(str(repo.path)).add([{"title": "Wait", "validation": {"command": waits}}])
    with talking(repo.path) as talk:
        assert talk.call("claim")[0]
        proof = talk.send("tools/call", name="validate", arguments={"task_id": "task-001"})
        assert talk.ask("ping") == {}
        go.touch()
        text = talk.answer(proof)["result"]["content"][0]["text"]
        assert json.loads(text)["result"] == "PASS"


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ],
)
def test_the_version_is_the_client_s_where_we_speak_it(tmp_path: Path, wanted: str, given: str) -> None:
    with talking(tmp_path) as talk:
        assert talk.ask("initialize", protocolVersion=wanted)["protocolVersion"] == given


def test_what_is_no_request_of_ours_gets_the_error_of_the_protocol(tmp_path: Path) -> None:
    """Nothing that is sent ends the server, and no notification is answered."""
    with talking(tmp_path) as talk:
        assert talk.answer(talk.send("resources/list"))["error"]["code"] == -32601
        assert talk.answer(talk.send("tools/call", name="rm"))["error"]["code"] == -32602
        talk.tell("notifications/cancelled", requestId=1)
        for line, code in (("{", -32700), ("3", -32600), ('{"method": 3}', -32600), ("[" * 100_000, -32700)):
            talk.raw(line)
            assert talk.answer(None)["error"]["code"] == code, line[:9]
        batch = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in ("a", "b")]
        talk.raw(json.dumps(batch))
        talk.raw("")
        assert [talk.answer(each)["result"] for each in ("a", "b")] == [{}, {}]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("claim", {"task": "x"}, "no argument 'task'"),
        ("validate", {}, "'task_id' is missing"),
        ("validate", {"task_id": 7}, "task_id must be text"),
        ("checkpoint", {"task_id": "a", "step": "one", "total": 2, "text": "x"}, "step must be a whole number"),
        ("checkpoint", {"task_id": "a", "step": True, "total": 2, "text": "x"}, "step must be a whole number"),
        ("fail", {"task_id": "a", "category": "NONE", "message": "x"}, "category must be one of ENV_SETUP"),
        ("claim", ["task-001"], "one JSON object"),
    ],
)
def test_arguments_are_checked_by_the_schema_that_is_shown(
    tmp_path: Path, name: str, arguments: object, said: str
) -> None:
    """A model reads what was wrong: the call has failed, not the request."""
    with talking(tmp_path) as talk:
        result = talk.ask("tools/call", name=name, arguments=arguments)
        answer = json.loads(result["content"][0]["text"])
        assert result["isError"] is True
        assert answer["error"]["code"] == "usage"
        assert said in answer["error"]["message"]


def test_a_number_that_a_model_has_quoted_is_a_number(tmp_path: Path) -> None:
    repo = listed(tmp_path / "project")
    with talking(repo.path) as talk:
        assert talk.call("claim")[0]
        assert talk.call("checkpoint", task_id="task-001", step="1", total="2", text="begun")[0]


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_a_closed_stream_is_one_line(tmp_path: Path, closed: str) -> None:
    done = subprocess.run(
        f"exec '{sys.executable}' {' '.join(WORDS)} {closed}",
        shell=True,
        cwd=tmp_path,
        stdin=-3,
        stderr=-1,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n"), "Traceback" in done.stderr) == (2, 2, False)
