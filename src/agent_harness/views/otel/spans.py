"""OpenTelemetry spans of a project.

    invoke_workflow PROJECT > invoke_agent NAME (a session) > execute_tool NAME ; harness.verify > a step

The ids of spans are derived from the project, the session and the claim. A second export therefore contains the same
ids. Prompts and output are not exported. The attribute names follow the GenAI conventions, which can still change. The
harness's own attributes begin with ``harness.``. This module needs the extra ``otel``. Source: ``faces.md`` 9."""

import base64
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from importlib.util import find_spec
from typing import Any

from agent_harness import __version__
from agent_harness.errors import HarnessError, NothingEligible, Refused, ToolMissing
from agent_harness.installation import command_for_extra
from agent_harness.kernel import clock, files
from agent_harness.kernel.redact import redact
from agent_harness.session.ledger import ClaimVerdict
from agent_harness.session.project_view import PastSession, ProjectView
from agent_harness.views.otel import tools

CONVENTIONS = "https://opentelemetry.io/schemas/1.36.0"
"""Schema URL with the version of the semantic conventions that the attributes follow."""
SECONDS = 10.0
_NANO = 1_000_000_000
_MOST_NANO = 2**63 - 1


def spans(
    view: ProjectView,
    recordings: Sequence[str],
    *,
    session: int | None = None,
    since: datetime | None = None,
) -> list[Any]:
    """Return the spans of all sessions, or of ``session``. The files ``recordings`` provide the tool calls."""
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.exporter") is None:
        raise ToolMissing("the extra 'otel' is not installed", hint=command_for_extra("otel"))
    wanted = [
        each
        for each in view.sessions
        if each.started
        and (session is None or each.number == session)
        and (since is None or ((at := clock.parse(each.started)) is not None and at >= since))
    ]
    if not wanted:
        none = session is None and since is None
        said = "No session on record yet" if none else "No such session"
        raise NothingEligible(said, hint="harness run" if none else "harness log sessions")
    trace = _Trace(view, wanted, recordings)
    return [trace.root(), *(span for each in wanted for span in trace.below(each))]


def of_session(view: ProjectView, session: PastSession, recordings: Sequence[str]) -> list[Any]:
    """Return the spans of one session, but not the span of the project."""
    return [*_Trace(view, [session], recordings).below(session)] if session.started else []


def of_project(view: ProjectView) -> list[Any]:
    begun = [each for each in view.sessions if each.started]
    return [_Trace(view, begun, []).root()] if begun else []


class _Trace:
    def __init__(self, view: ProjectView, sessions: Sequence[PastSession], recordings: Sequence[str]) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._view = view
        self._sessions = sessions
        self._recordings = tools.KeptRecordings(recordings)
        first = view.sessions[0].started if view.sessions else ""
        self._key = f"{view.path}\0{first}"
        self._resource = Resource({"service.name": "agent-harness", "service.version": __version__})
        self._scope = InstrumentationScope("agent_harness", __version__, CONVENTIONS)

        self._claims: dict[int, list[ClaimVerdict]] = {}
        for claim in view.claims:
            if claim.steps and claim.by is None and (owner := _session_of(claim, view.sessions)):
                self._claims.setdefault(id(owner), []).append(claim)

    def _context(self, *words: object) -> Any:
        from opentelemetry.trace import SpanContext, TraceFlags

        trace = int.from_bytes(sha256(self._key.encode()).digest()[:16], "big")
        name = "\0".join(map(str, (self._key, *words)))
        span = int.from_bytes(sha256(name.encode()).digest()[:8], "big")
        return SpanContext(trace, span, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

    def _span(
        self, name: str, context: Any, parent: Any, times: tuple[int, int], *, failed: bool = False, **told: object
    ) -> Any:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.status import Status, StatusCode

        return ReadableSpan(
            name=name,
            context=context,
            parent=parent,
            resource=self._resource,
            attributes={key.replace("__", "."): value for key, value in told.items() if value not in (None, "", ())},  # type: ignore[arg-type]
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR if failed else StatusCode.UNSET),
            start_time=times[0],
            end_time=max(times),
            instrumentation_scope=self._scope,
        )

    def root(self) -> Any:
        starts = [_nanoseconds(each.started) for each in self._sessions]
        ends = [_nanoseconds(each.ended) or start for each, start in zip(self._sessions, starts, strict=True)]
        name = os.path.basename(self._view.path)
        return self._span(
            f"invoke_workflow {name}",
            self._context("project"),
            None,
            (min(starts), max(ends)),
            gen_ai__operation__name="invoke_workflow",
            gen_ai__workflow__name=name,
            harness__items__proven=self._view.proven,
            harness__items__total=len(self._view.items),
        )

    def below(self, each: PastSession) -> Iterator[Any]:
        start = _nanoseconds(each.started)
        yield from self._of_session(each, self._context("project"), start, _nanoseconds(each.ended) or start)

    def _of_session(self, each: PastSession, root: Any, start: int, end: int) -> Iterator[Any]:
        its = each.number, each.item, each.started  # sessions with the same number can begin at once
        context = self._context("session", *its)
        tokens = each.tokens or {}
        yield self._span(
            f"invoke_agent {each.agent or 'agent'}",
            context,
            root,
            (start, end),
            gen_ai__operation__name="invoke_agent",
            gen_ai__agent__name=each.agent,
            gen_ai__request__model=each.model,
            gen_ai__conversation__id=f"session-{each.number}" if each.number is not None else None,
            gen_ai__usage__input_tokens=tokens.get("input") or None,  # 0: not known
            gen_ai__usage__output_tokens=tokens.get("output") or None,
            harness__item=each.item,
            harness__outcome=each.outcome,
            harness__cost_usd=each.cost_usd,
            harness__rescue=each.rescue_ref,
        )
        for number, tool in enumerate(self._recordings.of_session(each)):
            yield self._span(
                f"execute_tool {tool.name}",
                self._context("tool", *its, number),
                context,
                (round(tool.start * _NANO), round(tool.end * _NANO)),
                failed=tool.failed,
                gen_ai__operation__name="execute_tool",
                gen_ai__tool__name=tool.name,
                gen_ai__tool__call__id=tool.id,
            )
        for claim in self._claims.get(id(each), ()):
            yield from self._of_claim(claim, context)

    def _of_claim(self, claim: ClaimVerdict, session: Any) -> Iterator[Any]:
        context = self._context("claim", claim.n, claim.at)
        end = _nanoseconds(claim.at)
        took = [round((step.seconds or 0.0) * _NANO) for step in claim.steps]
        start = end - sum(took)
        yield self._span(
            "harness.verify",
            context,
            session,
            (start, end),
            failed=not claim.accepted,
            harness__item=claim.item,
            harness__verdict=claim.verdict,
            harness__codes=tuple(claim.codes),
            harness__commit=claim.commit,
        )
        for number, (step, lasted) in enumerate(zip(claim.steps, took, strict=True)):
            yield self._span(
                f"harness.verify {step.step}",
                self._context("step", claim.n, number),
                context,
                (start, start + lasted),
                failed=step.result == "failed",
                harness__step=step.step,
                harness__result=step.result,
                harness__exit=step.exit,
                harness__tests__passed=step.passed,
                harness__tests__failed=step.failed,
            )
            start += lasted


def _session_of(claim: ClaimVerdict, sessions: Sequence[PastSession]) -> PastSession | None:
    at = _nanoseconds(claim.at)
    found = [each for each in sessions if each.number == claim.session and each.item in (claim.item, None)]
    begun = [each for each in found if _nanoseconds(each.started) <= at]
    return max(begun or found, key=lambda each: _nanoseconds(each.started), default=None)


def _nanoseconds(at: str | None) -> int:
    moment = clock.parse(at)
    return min(max(0, round(moment.timestamp() * _NANO)), _MOST_NANO) if moment else 0


def send(made: Sequence[Any], url: str | None = None) -> None:
    """Send spans over HTTP. Raise ``Refused`` if the collector does not accept the spans within 10 seconds."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExportResult

    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)  # it logs each try; the result is reported below
    to, session = url or "the collector", _heard_session()
    # with a credential provider, the exporter creates its own HTTP session
    signs_in = any(n.startswith("OTEL_PYTHON_EXPORTER_OTLP_") and "CREDENTIAL_PROVIDER" in n for n in os.environ)
    exporter = OTLPSpanExporter(endpoint=url, timeout=SECONDS, session=None if signs_in else session)
    try:
        taken = exporter.export(made) is SpanExportResult.SUCCESS
    except Exception as error:  # any error of the transport: the spans were not taken
        session.heard, taken = _failure(error), False
    finally:
        exporter.shutdown()
    if not taken:
        why = session.heard or "it gave no reason"
        raise Refused(redact(f"{to} refused the spans: {why}"), hint="harness export otel --to FILE")


def _heard_session() -> Any:
    """Return an HTTP session that stores the reason for its last failure in ``heard``."""
    import requests

    class HeardSession(requests.Session):
        heard = ""

        def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
            try:
                answer = super().send(request, **options)
            except requests.RequestException as error:
                self.heard = _failure(error)
                raise
            self.heard = "" if answer.ok else f"it answers HTTP {answer.status_code} {answer.reason or ''}".rstrip()
            return answer

    return HeardSession()


MOST_SAID = 200
"""Maximum number of characters of an error that are shown."""
FAILURES = (
    # a part of the transport's message, and the text for a person
    ("NameResolutionError", "unknown host"),
    ("Connection refused", "nothing listens there"),
    ("Max retries exceeded", "it cannot be reached"),
    ("timed out", f"no answer within {SECONDS:g} s"),
    ("Timeout", f"no answer within {SECONDS:g} s"),
    ("Connection aborted", "it closed the connection without an answer"),
    ("SSLError", "the TLS connection failed"),
    ("Invalid URL", "the address is not valid"),
)


def _failure(error: Exception) -> str:
    told = f"{type(error).__name__} {error!r} {error}"
    known = next((said for sign, said in FAILURES if sign in told), None)
    return known or " ".join(str(error).split())[:MOST_SAID] or type(error).__name__


def text(made: Sequence[Any]) -> str:
    """Return the spans as a line of OTLP JSON. Collectors read this file format."""
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    return json.dumps(_with_hex(MessageToDict(encode_spans(made)))) + "\n"


def _with_hex(value: Any) -> Any:
    """Return the value with hexadecimal span and trace ids in place of base64."""
    if isinstance(value, Mapping):
        return {
            key: base64.b64decode(each).hex() if key in ("traceId", "spanId", "parentSpanId") else _with_hex(each)
            for key, each in value.items()
        }
    return [_with_hex(each) for each in value] if isinstance(value, list) else value


def write(made: Sequence[Any], target: str | None, *, force: bool = False) -> str | None:
    """Write spans to a URL or a new file. If ``target`` is None, return the spans as text."""
    if target is None:
        return text(made)
    if target.startswith(("http://", "https://")):
        send(made, target)
        return None
    if os.path.lexists(target) and not force:
        raise Refused(f"{target} already exists", hint=f"harness export otel --to {target} --force")
    try:
        files.replace(target, text(made), follow=True)
    except OSError as error:
        raise HarnessError(f"{target} cannot be written: {error.strerror}") from None
    return None
