"""``harness export otel``: spans from the records, decoded by a receiver on loopback. F-TRACE."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agent_harness.testing.task_list_project import TaskListProject, task


@pytest.fixture
def project(tmp_path: Path) -> TaskListProject:
    """Two tasks, of which one is claimed falsely once."""
    jobs = [task(name, validation={"command": f"grep -q good out/{name}", "timeout_seconds": 60}) for name in "ab"]
    made = TaskListProject(tmp_path / "list", *jobs, git=True, session_count=0)
    made.edit(session_config={**made.raw["session_config"], "fix_rounds": 0})
    lies = (
        'mkdir -p out; if [ "$HARNESS_TASK_ID" = a ] && [ ! -e ../lied ]; then touch ../lied; echo bad > out/a;'
        ' else echo good > "out/$HARNESS_TASK_ID"; fi; echo SECRET-PROMPT;'
        ' echo \'{"type": "usage", "input_tokens": 5, "output_tokens": 7, "cost_usd": 0.25}\''
    )
    assert made.harness("run", "--agent", made.agent(lies)).code == 0
    return made


class Receiver(BaseHTTPRequestHandler):
    """Takes spans by OTLP over HTTP."""

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))  # type: ignore[attr-defined]
        self.send_response(self.server.answer)  # type: ignore[attr-defined]
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing."""


@pytest.fixture
def receiver() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.bodies, server.answer = [], 200  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def spans(body: bytes) -> list[Any]:
    request = ExportTraceServiceRequest()
    request.ParseFromString(body)
    return [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]


@pytest.mark.scenario
def test_a_receiver_gets_one_trace_and_the_same_again(project: TaskListProject, receiver: ThreadingHTTPServer) -> None:
    """Sessions below the project, verdicts below sessions, steps below verdicts; no output of an agent."""
    url = f"http://127.0.0.1:{receiver.server_port}/v1/traces"
    for _ in range(2):
        ran = project.harness("export", "otel", "--to", url)
        assert ran.code == 0, ran
    first, second = receiver.bodies  # type: ignore[attr-defined]
    assert first == second or [s.span_id for s in spans(first)] == [s.span_id for s in spans(second)]
    assert b"SECRET-PROMPT" not in first
    found = spans(first)
    assert len({each.trace_id for each in found}) == 1
    by_id = {each.span_id: each for each in found}
    assert len(by_id) == len(found)
    agents = [each for each in found if each.name.startswith("invoke_agent")]
    claims = [each for each in found if each.name == "harness.verify"]
    assert (len(agents), len(claims)) == (3, 3)
    assert [by_id[each.parent_span_id].name for each in agents] == [f"invoke_workflow {project.root.name}"] * 3
    assert all(by_id[each.parent_span_id].name.startswith("invoke_agent") for each in claims)
    assert sum(each.status.code == 2 for each in claims) == 1
    told = {each.key: each.value for each in agents[0].attributes}
    assert (told["gen_ai.usage.input_tokens"].int_value, told["harness.cost_usd"].double_value) == (5, 0.25)
    assert all(each.end_time_unix_nano >= each.start_time_unix_nano > 0 for each in found)


@pytest.mark.scenario
def test_a_file_of_one_session_and_what_cannot_be(project: TaskListProject, receiver: ThreadingHTTPServer) -> None:
    out = project.root.parent / "trace.json"
    assert project.harness("export", "otel", "--to", str(out)).code == 0
    (line,) = out.read_text().splitlines()
    kept = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert all(len(each["traceId"]) == 32 and int(each["spanId"], 16) for each in kept)
    receiver.answer = 400  # type: ignore[attr-defined]
    for words, code, told in [
        (("--to", str(out)), 4, "is there already"),
        (("--session", "99"), 7, "no such session"),
        (("--to", f"http://127.0.0.1:{receiver.server_port}/v1/traces"), 4, "does not take them"),
    ]:
        ran = project.harness("export", "otel", *words)
        assert ran.code == code, (words, ran)
        assert told in ran.text
    assert project.harness("export", "--session", "1").code == 2
    assert project.harness("export", "--to", "nothing").code == 2
