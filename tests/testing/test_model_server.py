"""The model server over real HTTP: three protocols, scripted trouble, the log, and no way out."""

import gzip
import http.client
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent_harness.testing.model_server import ModelServer, serve

from .asking import PROTOCOLS, ask, call_of, send, words_of


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def served(stack: ExitStack, scripts: dict[str, Any]) -> ModelServer:
    return stack.enter_context(serve(scripts))


@pytest.mark.parametrize("protocol", PROTOCOLS)
class TestEveryProtocol:
    def test_the_steps_follow_the_answers(self, stack: ExitStack, protocol: str) -> None:
        server = served(stack, {"two": ["first", "second"]})
        assert words_of(protocol, ask(server, protocol, "SCRIPT:two").value) == "first"
        assert words_of(protocol, ask(server, protocol, "SCRIPT:two", "first", "go on").value) == "second"
        assert words_of(protocol, ask(server, protocol, "SCRIPT:two").value) == "first"

    def test_a_command_is_run_with_the_shell_tool_that_the_client_offers(self, stack: ExitStack, protocol: str) -> None:
        server = served(stack, {"ls": [{"run": "ls -l"}]})
        name, given = call_of(protocol, ask(server, protocol, "SCRIPT:ls").value)
        assert name in ("Bash", "exec_command", "bash")
        assert "ls -l" in (given.get("command"), given.get("cmd"))

    def test_a_stream_carries_the_same_as_the_whole(self, stack: ExitStack, protocol: str) -> None:
        server = served(stack, {"both": [["a few words", {"run": "ls"}]]})
        streamed = ask(server, protocol, "SCRIPT:both", stream=True)
        whole = ask(server, protocol, "SCRIPT:both").value
        assert streamed.headers["content-type"] == "text/event-stream"
        assert joined(protocol, streamed.events) == (words_of(protocol, whole), call_of(protocol, whole)[1])

    def test_usage_is_what_the_script_says(self, stack: ExitStack, protocol: str) -> None:
        usage = {"input_tokens": 100, "output_tokens": 7, "cached_tokens": 50}
        server = served(stack, {"cost": [{"blocks": "x", "usage": usage}]})
        counted = ask(server, protocol, "SCRIPT:cost").value["usage"]
        taken = counted.get("input_tokens", counted.get("prompt_tokens"))
        assert taken == (100 if protocol == "messages" else 150)
        assert counted.get("output_tokens", counted.get("completion_tokens")) == 7

    def test_a_limit_says_when_it_ends(self, stack: ExitStack, protocol: str) -> None:
        server = served(stack, {"limit": [{"error": {"status": 429, "reset_seconds": 30}}]})
        reply = ask(server, protocol, "SCRIPT:limit", stream=True)
        assert (reply.status, reply.headers["retry-after"]) == (429, "30")
        assert int(reply.headers["anthropic-ratelimit-unified-reset"]) > 1_700_000_000
        assert reply.value["error"]["type"] == "rate_limit_error"
        assert protocol == "messages" or reply.value["error"]["resets_in_seconds"] == 30

    def test_a_refusal_that_passes(self, stack: ExitStack, protocol: str) -> None:
        step = {"error": {"status": 529, "message": "Overloaded"}, "times": 2, "blocks": "at last"}
        server = served(stack, {"busy": [step]})
        assert [ask(server, protocol, "SCRIPT:busy").status for _ in range(4)] == [529, 529, 200, 200]
        assert ask(server, protocol, "another, SCRIPT:busy").status == 529

    def test_a_cut_stream_never_ends_well(self, stack: ExitStack, protocol: str) -> None:
        server = served(stack, {"cut": [{"blocks": "one two three four", "cut": True}]})
        events = ask(server, protocol, "SCRIPT:cut", stream=True).events
        names = {name or content for name, content in events if name or content == "[DONE]"}
        assert events
        assert not names & {"message_stop", "response.completed", "[DONE]"}

    def test_what_was_said_can_be_found_again(self, stack: ExitStack, protocol: str) -> None:
        step = {"find": {"token": r'"token": "(\w+)"'}, "blocks": {"run": "echo ${token} ${HOME}"}}
        server = served(stack, {"use": ["hm", step]})
        reply = ask(server, protocol, "SCRIPT:use", "hm", 'it is "token": "old", no, "token": "t77"')
        assert "echo t77 ${HOME}" in call_of(protocol, reply.value)[1].values()
        lost = ask(server, protocol, "SCRIPT:use", "hm", "nothing")
        assert lost.status == 400
        assert "looks for token" in lost.value["error"]["message"]

    def test_nobody_is_there_for_a_body_that_is_no_object(self, stack: ExitStack, protocol: str) -> None:
        server = served(stack, {})
        for body in (b"", b"{", b"[1]", b"\xff", b'{"a": NaN}', b"[" * 100_000):
            assert send(server, "POST", f"/v1/{protocol}", body).status == 400
        assert ask(server, protocol).status == 200
        assert send(server, "POST", f"/v1/{protocol}", b'{"messages": 7, "input": {}, "tools": [null]}').status == 200


def joined(protocol: str, events: list[tuple[str | None, Any]]) -> tuple[str, Any]:
    """The text, and the input of the only tool call, that a stream carries."""
    if protocol == "messages":
        deltas = [content["delta"] for name, content in events if name == "content_block_delta"]
        said = "".join(delta.get("text", "") for delta in deltas)
        return said, json.loads("".join(delta.get("partial_json", "") for delta in deltas))
    if protocol == "responses":
        said = "".join(content["delta"] for name, content in events if name == "response.output_text.delta")
        (given,) = [content["arguments"] for name, content in events if str(name).endswith("arguments.done")]
        return said, json.loads(given)
    assert events[-1][1] == "[DONE]"
    deltas = [chunk["choices"][0]["delta"] for _, chunk in events[:-1] if chunk["choices"]]
    calls = [call["function"]["arguments"] for delta in deltas for call in delta.get("tool_calls", [])]
    return "".join(delta.get("content", "") for delta in deltas), json.loads("".join(calls))


@pytest.mark.parametrize(
    ("status", "kind"), [(401, "authentication_error"), (529, "overloaded_error"), (500, "api_error")]
)
def test_an_error_has_the_kind_of_its_status(stack: ExitStack, status: int, kind: str) -> None:
    server = served(stack, {"no": [{"error": {"status": status, "message": "No.", "headers": {"x-why": "so"}}}]})
    reply = ask(server, "messages", "SCRIPT:no")
    assert (reply.status, reply.headers["x-why"]) == (status, "so")
    assert (reply.value["error"]["type"], reply.value["error"]["message"]) == (kind, "No.")


def test_results_of_tools_are_looked_through_but_never_start_a_script(stack: ExitStack) -> None:
    server = served(stack, {"a": [{"run": "x"}, {"find": {"n": r"n=(\d+)"}, "blocks": "n was ${n}"}], "b": ["wrong"]})
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "SCRIPT:b n=5"}]}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "SCRIPT:a"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]},
        {"role": "user", "content": [result]},
    ]
    assert words_of("messages", ask(server, "messages", messages=messages).value) == "n was 5"


def test_tokens_are_counted_and_models_listed(stack: ExitStack) -> None:
    server = served(stack, {})
    counted = send(server, "POST", "/v1/messages/count_tokens", b'{"messages": []}').value
    assert counted["input_tokens"] > 0
    assert {"claude-sonnet-4-6", "gpt-5.5"} <= {
        model["id"] for model in send(server, "GET", "/v1/models").value["data"]
    }
    assert send(server, "GET", "/v1/files").status == 404
    assert send(server, "POST", "/v1/files", b"{}").status == 404


def test_the_log_tells_what_was_asked_and_keeps_no_key(stack: ExitStack, tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    server = stack.enter_context(serve({"hi": ["hello"]}, log=log))
    ask(server, "messages", "SCRIPT:hi")
    send(server, "POST", "/v1/messages?key=sk-9", b"{}", x_api_key="sk-secret-1", cookie="c=1", x_goog_api_key="g")
    assert not any(secret in log.read_text() for secret in ("sk-secret", "sk-9", "c=1"))
    first, second = server.requests()
    assert (first["n"], first["path"], first["script"], first["step"]) == (1, "/v1/messages", "hi", 0)
    assert first["headers"]["authorization"] == "***"
    assert first["body"]["messages"][0]["content"] == "SCRIPT:hi"
    assert (second["script"], second["headers"]["x-api-key"]) == (None, "***")


def test_there_is_no_way_out(stack: ExitStack) -> None:
    server = served(stack, {})
    assert send(server, "CONNECT", "example.invalid:443").status == 502
    assert send(server, "GET", "http://example.invalid/x?key=1").status == 502
    assert send(server, "POST", "http://example.invalid/y", b"{}").status == 502
    refused = [asked["refused"] for asked in server.requests()]
    assert refused == ["example.invalid:443", "http://example.invalid/x", "http://example.invalid/y"]
    assert send(server, "GET", f"{server.url}/v1/models").status == 200  # as a client asks whose proxy it is as well
    assert send(server, "GET", f"{server.url}9/v1/models").status == 502
    assert server.url.startswith("http://127.0.0.1:")


def test_a_body_may_come_in_pieces_or_packed(stack: ExitStack) -> None:
    server = served(stack, {"hi": ["hello"]})
    body = json.dumps({"messages": [{"role": "user", "content": "SCRIPT:hi"}]}).encode()
    packed = send(server, "POST", "/v1/messages", gzip.compress(body), content_encoding="gzip")
    assert words_of("messages", packed.value) == "hello"
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("POST", "/v1/messages", iter([body[:20], body[20:]]), encode_chunked=True)
    assert words_of("messages", json.loads(connection.getresponse().read())) == "hello"
    connection.close()


def test_a_delay_ends_with_the_server(stack: ExitStack) -> None:
    server = stack.enter_context(serve({"slow": [{"blocks": "late", "delay_seconds": 3600}]}))
    asking = threading.Thread(target=lambda: ask(server, "messages", "SCRIPT:slow"))
    asking.start()
    while not server.requests():
        pass
    stack.close()
    asking.join()


def test_scripts_may_change_while_the_server_runs(stack: ExitStack, tmp_path: Path) -> None:
    file = tmp_path / "scripts.json"
    file.write_text('{"a": ["old"]}')
    server = stack.enter_context(serve(file))
    assert words_of("messages", ask(server, "messages", "SCRIPT:a").value) == "old"
    file.write_text('{"a": ["new"]}')
    assert words_of("messages", ask(server, "messages", "SCRIPT:a").value) == "new"
    file.write_text("{")
    reply = ask(server, "messages", "SCRIPT:a")
    assert reply.status == 400
    assert "is not JSON" in reply.value["error"]["message"]


class TestCommand:
    WORDS = (sys.executable, "-m", "agent_harness.testing.model_server")

    def test_it_says_its_address_serves_and_ends_when_told(self, tmp_path: Path) -> None:
        (tmp_path / "scripts.json").write_text('{"a": ["hello"]}')
        words = [*self.WORDS, "--scripts", "scripts.json", "--log", "log.jsonl"]
        with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            port = int(process.stdout.readline().rpartition(":")[2])
            reply = ask(port, "messages", "SCRIPT:a")
            assert words_of("messages", reply.value) == "hello"
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0
        assert json.loads((tmp_path / "log.jsonl").read_text())["script"] == "a"

    @pytest.mark.parametrize(
        ("text", "problem"), [("{", "is not JSON"), ("[]", "must be an object"), (None, "No such")]
    )
    def test_a_wrong_script_is_told_in_one_line(self, tmp_path: Path, text: str | None, problem: str) -> None:
        if text is not None:
            (tmp_path / "scripts.json").write_text(text)
        words = [*self.WORDS, "--scripts", "scripts.json"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert problem in done.stderr.splitlines()[0]
        assert "Traceback" not in done.stderr

    def test_a_taken_port_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "scripts.json").write_text("{}")
        with serve({}) as server:
            words = [*self.WORDS, "--scripts", "scripts.json", "--port", str(server.port)]
            done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 4
        assert f"port {server.port} cannot be taken" in done.stderr
