"""Sessions and features of a project, read only from its log of events. Also a reader of the growing transcript."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_harness.kernel.terminal import one_line

_BLOCK = 1 << 20


class Follow:
    """Reader of a file that grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def lines(self) -> list[str]:
        """Return the lines that were completed since the last call."""
        try:
            with self._path.open("rb") as file:
                if file.seek(0, 2) < self._offset:
                    self._offset = 0
                file.seek(self._offset)
                found = file.read(_BLOCK)
        except FileNotFoundError:
            return []
        whole = found[: found.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.decode("utf-8", "replace").splitlines()


_SHOWN_AS = (
    ("[FILE:WRITE] ", "writes "),
    ("[CMD:RUN] ", "$ "),
    ("[VERIFY:PASS] ", "says that the tests pass: "),
    ("[VERIFY:FAIL] ", "says that the tests fail: "),
    ("[DECISION] ", "decides: "),
    ("$ ", None),  # the command once more
    ("[CMD:OUTPUT]", None),
    ("[CMD:EXIT] 0", None),
    ("[VERIFY:START]", None),
    ("[usage]", None),
    ("[end] ended its turn", None),
)


def spoken(line: str) -> str | None:
    """Return the text that the live view shows for a transcript line, or ``None`` to omit the line."""
    for prefix, shown in _SHOWN_AS:
        if line.startswith(prefix):
            return None if shown is None else shown + line.removeprefix(prefix)
    return line if line.strip() else None


def printable(text: object, limit: int = 200) -> str:
    """Return the text as one printable line of at most ``limit`` characters."""
    line = one_line(str(text))
    return line if len(line) <= limit else line[: limit - 1] + "…"


Record = Mapping[str, Any]


@dataclass(kw_only=True)
class Claim:
    """Statement of the agent that its feature is done, with the harness's verdict."""

    verdict: str = "open"  # open, verified, rejected, regression
    found: str = ""


@dataclass(kw_only=True)
class DemoSession:
    number: int
    prompt_type: str = ""
    feature_id: int | None = None
    claims: list[Claim] = field(default_factory=list)
    ending: str = "running"  # running, proven, partial, failed, interrupted
    seconds: float = 0.0
    cost_usd: float | None = None
    rescue_ref: str | None = None


@dataclass
class Story:
    """Sessions of a project in their order, and the state and title of each feature."""

    sessions: list[DemoSession] = field(default_factory=list)
    features: dict[int, str] = field(default_factory=dict)
    titles: dict[int, str] = field(default_factory=dict)

    @property
    def now(self) -> DemoSession | None:
        last = self.sessions[-1] if self.sessions else None
        return last if last and last.ending == "running" else None

    def hear(self, event: Record) -> None:
        """Add an event to the story. Ignore unknown events."""
        step = _STEPS.get(str(event.get("type")))
        number = event.get("session", event.get("session_id"))
        if step and isinstance(number, int):
            found = next((s for s in self.sessions if s.number == number), None)
            if found is None:
                found = DemoSession(number=number)
                self.sessions.append(found)
            step(self, found, event)

    def of(self, feature_id: int) -> list[DemoSession]:
        return [s for s in self.sessions if s.feature_id == feature_id]

    def _mark(self, session: DemoSession, word: str) -> None:
        if session.feature_id is not None:
            self.features[session.feature_id] = word


def told(events: Iterable[Record]) -> Story:
    story = Story()
    for event in events:
        story.hear(event)
    return story


def _started(story: Story, session: DemoSession, event: Record) -> None:
    session.prompt_type = str(event.get("prompt_type") or session.prompt_type)
    feature_id = event.get("feature_id")
    session.feature_id = feature_id if isinstance(feature_id, int) else session.feature_id
    story._mark(session, "running")


def _claimed(story: Story, session: DemoSession, event: Record) -> None:
    session.claims.append(Claim())
    story._mark(session, "claimed")


def _verified(story: Story, session: DemoSession, event: Record) -> None:
    _judge(session, "verified", event)


def _rejected(story: Story, session: DemoSession, event: Record) -> None:
    _judge(session, "regression" if "regression" in str(event.get("code")) else "rejected", event)
    story._mark(session, "rejected")


def _judge(session: DemoSession, verdict: str, event: Record) -> None:
    if not session.claims:
        session.claims.append(Claim())
    claim = session.claims[-1]
    if claim.verdict in ("open", "rejected"):
        claim.verdict = verdict
        claim.found = printable(event.get("message") or claim.found)


def _rolled_back(story: Story, session: DemoSession, event: Record) -> None:
    ref = event.get("rescue_ref")
    session.rescue_ref = printable(ref) if ref else None
    session.ending = "failed"
    story._mark(session, "rolled back")


def _interrupted(story: Story, session: DemoSession, event: Record) -> None:
    session.ending = "interrupted"
    story._mark(session, "half done")


def _completed(story: Story, session: DemoSession, event: Record) -> None:
    session.ending = "proven"
    story._mark(session, "proven")


def _ended(story: Story, session: DemoSession, event: Record) -> None:
    seconds, cost = event.get("duration_seconds"), event.get("cost_usd")
    session.seconds = float(seconds) if isinstance(seconds, int | float) else 0.0
    session.cost_usd = float(cost) if isinstance(cost, int | float) else None
    if event.get("feature_completed") is True:
        _completed(story, session, event)
    elif session.ending == "running":
        session.ending = "partial"
        story._mark(session, "half done")


_STEPS: dict[str, Callable[[Story, DemoSession, Record], None]] = {
    "session_started": _started,
    "feature_claimed": _claimed,
    "verification_passed": _verified,
    "verification_failed": _rejected,
    "rollback_completed": _rolled_back,
    "session_interrupted": _interrupted,
    "feature_completed": _completed,
    "session_ended": _ended,
}
