"""``harness export otel``: spans from the records, decoded by a receiver on loopback. F-TRACE."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agent_harness.kernel import trusted_state
from agent_harness.session.project_view import PastSession, ProjectView, StatePart
from agent_harness.testing.long_task_project import LongTaskProject
from agent_harness.testing.task_list_project import TaskListProject, task
from agent_harness.views import begin_telling, otel
from agent_harness.views.otel import spans as otel_spans
from agent_harness.views.otel.watcher import SessionSender
from agent_harness.views.reading import reader_of


@pytest.fixture
def project(tmp_path: Path) -> TaskListProject:
    """Return a list of two tasks, of which one has a rejected claim."""
    made = open_list(tmp_path)
    assert made.harness("run", "--agent", made.agent(LIES)).code == 0
    return made


LIES = """mkdir -p out
if [ "$HARNESS_TASK_ID" = a ] && [ ! -e ../lied ]; then touch ../lied; echo bad > out/a
else echo good > "out/$HARNESS_TASK_ID"; fi
echo SECRET-PROMPT
echo '{"type": "tool_call", "name": "Bash", "id": "t1", "input": {"command": "SECRET-INPUT"}}'
echo '{"type": "tool_result", "id": "t1", "output": "SECRET-OUTPUT", "is_error": true}'
echo '{"type": "tool_call", "name": "Read", "id": "t2", "input": {"path": "SECRET-INPUT"}}'
echo '{"type": "usage", "input_tokens": 5, "output_tokens": 7, "cost_usd": 0.25}'
"""


def open_list(tmp_path: Path) -> TaskListProject:
    jobs = [task(name, validation={"command": f"grep -q good out/{name}", "timeout_seconds": 60}) for name in "ab"]
    made = TaskListProject(tmp_path / "list", *jobs, git=True, session_count=0)
    made.edit(session_config={**made.raw["session_config"], "fix_rounds": 0})
    return made


class Receiver(BaseHTTPRequestHandler):
    """Server that takes spans by OTLP over HTTP."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.set()  # type: ignore[attr-defined]
        self.server.free.wait(60)  # type: ignore[attr-defined]
        self.server.bodies.append(body)  # type: ignore[attr-defined]
        self.send_response(self.server.answer)  # type: ignore[attr-defined]
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing."""


@pytest.fixture
def receiver() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.bodies, server.answer = [], 200  # type: ignore[attr-defined]
    server.asked, server.free = threading.Event(), threading.Event()  # type: ignore[attr-defined]
    server.free.set()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.free.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()
    thread.join()


def spans(body: bytes) -> list[Any]:
    request = ExportTraceServiceRequest()
    request.ParseFromString(body)
    return [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_receiver_gets_one_trace_and_the_same_again(project: TaskListProject, receiver: ThreadingHTTPServer) -> None:
    """Sessions below the project, verdicts below sessions, steps below verdicts; no output of an agent."""
    url = f"http://127.0.0.1:{receiver.server_port}/v1/traces"
    for _ in range(2):
        ran = project.harness("export", "otel", "--to", url)
        assert ran.code == 0, ran
    first, second = receiver.bodies  # type: ignore[attr-defined]
    assert first == second or [s.span_id for s in spans(first)] == [s.span_id for s in spans(second)]
    assert b"SECRET" not in first
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
    used = [each for each in found if each.name.startswith("execute_tool")]
    assert [each.name for each in used] == ["execute_tool Bash", "execute_tool Read"] * 3
    assert {by_id[each.parent_span_id].name for each in used} == {agents[0].name}
    assert [each.status.code for each in used] == [2, 0] * 3
    named = {each.key: each.value.string_value for each in used[0].attributes}
    assert (named["gen_ai.tool.name"], named["gen_ai.tool.call.id"]) == ("Bash", "t1")
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
        (("--to", str(out)), 4, "already exists"),
        (("--session", "99"), 7, "No such session"),
        (("--to", f"http://127.0.0.1:{receiver.server_port}/v1/traces"), 4, "refused the spans"),
    ]:
        ran = project.harness("export", "otel", *words)
        assert ran.code == code, (words, ran)
        assert told in ran.text
    secret = project.harness("export", "otel", "--to", f"http://me:hunter22@127.0.0.1:{receiver.server_port}/v1/traces")
    assert (secret.code, "hunter22" in secret.text, len(secret.err.splitlines())) == (4, False, 2), secret
    assert project.harness("export", "--session", "1").code == 2
    assert project.harness("export", "--to", "nothing").code == 2


def eventually(done: Callable[[], bool]) -> None:
    for _ in range(600):
        if done():
            return
        time.sleep(0.1)
    raise AssertionError("it never came")


@pytest.mark.scenario
def test_a_run_sends_each_session_and_waits_for_nobody(tmp_path: Path, receiver: ThreadingHTTPServer) -> None:
    """F-TRACE-3: a collector that hangs costs the run nothing; each session is sent, and the project's span last."""
    project = open_list(tmp_path)
    receiver.free.clear()  # type: ignore[attr-defined]
    named = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{receiver.server_port}", "HARNESS_TIME_SCALE": "0.02"}
    with project.start("run", "--agent", project.agent(LIES), **named) as run:
        assert run.wait(120) == 0
        assert receiver.bodies == []  # type: ignore[attr-defined]  # nobody has taken anything by now
    assert project.statuses() == ["completed", "completed"]
    receiver.free.set()  # type: ignore[attr-defined]

    def received() -> list[Any]:
        return [span for body in receiver.bodies for span in spans(body)]  # type: ignore[attr-defined]

    eventually(lambda: any(each.name.startswith("invoke_workflow") for each in received()))
    found = received()
    agents = {each.span_id: each.name for each in found if each.name.startswith("invoke_agent")}
    assert len(agents) == 3
    assert sum(each.name == "execute_tool Bash" for each in {each.span_id: each for each in found}.values()) == 3
    assert {each.parent_span_id for each in found if each.span_id in agents} == {found[-1].span_id}
    assert b"SECRET" not in b"".join(receiver.bodies)  # type: ignore[attr-defined]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_ended_before_the_first_look_is_sent_and_no_earlier_run(
    project: TaskListProject, receiver: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-TRACE-3: its process starts in a second or so, in which a session can end."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{receiver.server_port}")
    reader = reader_of("tasklist", str(project.root))
    assert SessionSender(reader, "2099-01-01T00:00:00Z").look(last=True)
    assert receiver.bodies == []  # type: ignore[attr-defined]
    assert SessionSender(reader, "2026-01-01T00:00:00Z").look(last=True)
    found = [span.name.split()[0] for body in receiver.bodies for span in spans(body)]  # type: ignore[attr-defined]
    assert (found.count("invoke_agent"), found[-1]) == (3, "invoke_workflow")


def test_what_begins_at_once_keeps_its_own_spans_and_its_own_calls(tmp_path: Path) -> None:
    """F-TRACE-2: also attempts of one second; a recording cannot cause a time that no collector would take."""

    def at(second: int) -> str:
        return f"2026-01-05T09:00:{second:02}Z"

    def recorded(name: str, second: int, item: str, tool: str, began: str) -> str:
        call, answer = {"type": "tool_call", "name": tool, "id": "1"}, {"type": "tool_result", "id": "1"}
        rows = [{"cassette": 1, "task_id": item, "at": at(second)}, {"turn": 0, "began": began}]
        rows += [{"at": 0.1, "event": call}, {"at": 0.2, "event": answer}, {"at": 0.3, "ended": "finished"}]
        (tmp_path / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return str(tmp_path / name)

    paths = [
        recorded("1-a.1", 0, "a", "First", at(0)),
        recorded("1-a.2", 1, "a", "Second", "9999-01-01T00:00:00Z"),
        recorded("1-b.1", 0, "b", "Other", at(0)),
    ]
    rows = [("a", 0), ("b", 0), ("a", 1)]
    sessions = tuple(
        PastSession(number=1, item=item, outcome="failed", started=at(second), ended=at(second + 1))
        for item, second in rows
    )
    view = ProjectView(kind="tasklist", path="/p", state=StatePart(), sessions=sessions)
    made = otel_spans.spans(view, paths)
    assert len({each.context.span_id for each in made}) == len(made) == 7
    assert [each.name.split()[1] for each in made if each.name.startswith("execute_tool")] == [
        "First",
        "Other",
        "Second",
    ]
    late = replace(sessions[0], started="9999-01-01T00:00:00Z", ended=None)
    for each in (view, replace(view, sessions=(late,))):
        assert "invoke_agent" in otel_spans.text(otel_spans.spans(each, paths))


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_no_collector_has_taken_is_said_until_an_export_works(
    tmp_path: Path, receiver: ThreadingHTTPServer
) -> None:
    """F-TRACE-4: one line in `status` with the command that exports the missing spans; without the password."""
    project = open_list(tmp_path)
    address = f"127.0.0.1:{receiver.server_port}"
    named = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://me:hunter22@{address}", "HARNESS_TIME_SCALE": "0.02"}
    assert "not exported" not in project.harness("status").out
    receiver.answer = 400  # type: ignore[attr-defined]
    with project.start("run", "--agent", project.agent(LIES), **named) as run:
        assert run.wait(120) == 0

    def line() -> str:
        found = project.harness("status")
        assert found.code == 0, found
        return next((row for row in found.out.splitlines() if row.startswith("not exported")), "")

    eventually(lambda: bool(line()))
    missing = json.loads(project.harness("status", "--json").out)["unexported"]
    assert (missing["sessions"], "hunter22" in json.dumps(missing)) == (3, False)
    assert missing["since"] in line()
    assert "3 sessions since" in line()
    assert "(harness export otel --since" in line()
    assert "not exported" not in project.harness("status", "--line").out
    refused = project.harness("export", "otel", "--since", missing["since"], "--to", f"http://{address}/v1/traces")
    assert (refused.code, bool(line())) == (4, True)
    receiver.answer = 200  # type: ignore[attr-defined]
    receiver.bodies.clear()  # type: ignore[attr-defined]
    sent = project.harness("export", "otel", "--since", missing["since"], "--to", f"http://{address}/v1/traces")
    assert (sent.code, line()) == (0, ""), sent
    (body,) = receiver.bodies  # type: ignore[attr-defined]
    assert sum(each.name.startswith("invoke_agent") for each in spans(body)) == 3

    otel.keep_untaken("tasklist", str(project.root), missing)
    project.harness("add", "One more", "--validate", "true")
    with project.start("run", "--agent", project.agent("touch more\n"), **named) as run:
        assert run.wait(120) == 0
    eventually(lambda: not line())  # a run's export worked
    (folder,) = Path(str(trusted_state.of_user("otel"))).parent.glob("otel")
    otel.keep_untaken("longtask", str(tmp_path / "book"), missing)
    book = LongTaskProject.of_book(tmp_path / "book")
    assert "not exported: 3 sessions since" in book.lth("status").out
    for name in folder.iterdir():
        name.write_text('{"v": 1, "sessions": []')
    assert "not exported" not in book.lth("status").out


@pytest.mark.scenario
def test_what_is_no_recording_tells_of_no_call(project: TaskListProject) -> None:
    """A recording is in a folder where agents write: a link out of the project and invalid lines are skipped."""
    first, second, *_ = sorted((project.root / ".harness/sessions").glob("*.cassette.jsonl"))
    kept = project.root.parent / "kept.jsonl"
    kept.write_bytes(first.read_bytes())
    first.unlink()
    first.symlink_to(kept)
    odd = '{"at": 1e999, "event": {"type": "tool_call", "name": 7}}\n{"at": [], "event": []}\n[]\n{"torn'
    second.write_text(second.read_text().splitlines()[0] + "\n" + odd)
    ran = project.harness("export", "otel")
    assert ran.code == 0, ran
    assert ran.out.count('"execute_tool ') == 2


def test_without_the_extra_a_run_says_so_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    assert "the extra `otel` is not installed" in str(otel.start("tasklist", str(tmp_path)))
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT")
    assert otel.start("tasklist", str(tmp_path)) is None


@pytest.mark.parametrize(("said", "sends"), [("true", False), ("TRUE", False), ("false", True), ("1", True)])
def test_a_run_sends_nothing_where_opentelemetry_is_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, sends: bool
) -> None:
    """F-TRACE-3: as every program with OpenTelemetry reads it; a missing extra is not reported either."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_SDK_DISABLED", said)
    assert (begin_telling("tasklist", str(tmp_path)) is not None) == sends


def with_session(tmp_path: Path) -> TaskListProject:
    """Return a list that has one attempt on record."""
    made = open_list(tmp_path)
    costs = Path(made.layout.costs)
    costs.parent.mkdir(parents=True, exist_ok=True)
    times = {"started_at": "2026-03-01T11:59:00Z", "at": "2026-03-01T12:00:00Z"}
    row = {**times, "session": 1, "task_id": "a", "result": "failed", "cost_usd": 0.25}
    costs.write_text(json.dumps(row) + "\n")
    return made


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (404, "it answers HTTP 404 Not Found"),
        (401, "it answers HTTP 401 Unauthorized"),
        (None, "nothing listens there"),
    ],
)
def test_why_a_collector_takes_nothing_is_said_in_one_line(
    tmp_path: Path, receiver: ThreadingHTTPServer, answer: int | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-TRACE-5: its answer, or that none is there, and the command that needs no collector."""
    made = with_session(tmp_path)
    monkeypatch.setattr(otel_spans, "SECONDS", 1.0)
    url = f"http://127.0.0.1:{receiver.server_port if answer else 9}/v1/traces"
    receiver.answer = answer  # type: ignore[attr-defined]
    ran = made.harness("export", "otel", "--to", url)
    assert (ran.code, ran.out) == (4, "")
    told, following = ran.err.splitlines()
    assert f"{url} refused the spans: {said}" in told
    assert following == "next: harness export otel --to FILE"


def test_a_collector_that_says_nothing_is_given_up(
    tmp_path: Path, receiver: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-TRACE-5."""
    made = with_session(tmp_path)
    monkeypatch.setattr(otel_spans, "SECONDS", 0.5)
    receiver.free.clear()  # type: ignore[attr-defined]
    ran = made.harness("export", "otel", "--to", f"http://127.0.0.1:{receiver.server_port}/v1/traces")
    assert (ran.code, "no answer within" in ran.err) == (4, True), ran
