"""What the agent of a session did, as far as can be told: from its prefixes, its tool calls, its output, and git.

Rows go to agent_actions.jsonl, decisions to decisions.jsonl as well, tokens to usage.jsonl. Nothing here decides
anything, except that a project may ask for prefixes. Source: features.md section W, UAH-139, UAH-422..436, C43, C44.
"""

from agent_harness.agents import markers, usage
from agent_harness.agents.events import Event, Usage
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.redact import redact
from agent_harness.protocols.features.engine import checkpoints
from agent_harness.protocols.features.engine.open_session import OpenSession
from agent_harness.protocols.features.project import Project

LOG = "agent_actions.jsonl"
FALLBACK = "Agent output not fully structured, using fallback"
_ROUTINE = frozenset({"file_read", "file_write", "cmd_run"})
_OF_ONE_SESSION = 25_000  # rows at most: a turn writes 5,000, and there are few turns


class ActionLog:
    """Writes what the agent reports in one turn, as it happens."""

    def __init__(self, project: Project, session: int, model: str | None, feature_id: int | None = None) -> None:
        self._project = project
        self._session = session
        self._feature = feature_id
        self._model = model
        self._actions = markers.Actions()
        self.screenshots: list[str] = []  # as the agent names them
        self._structured = project.config.logging.structured_agent_output

    def see(self, event: Event) -> None:
        """Notes one event."""
        if isinstance(event, Usage) and (event.context or event.cost_usd):
            self._note_usage(event)
        if not self._structured:
            return
        self._actions, rows = self._actions.after(event)
        for row in rows:
            self._note({k: redact(v) if isinstance(v, str) else v for k, v in row.items()})

    def _note(self, row: JsonObject) -> None:
        store = self._project.store
        store.log(LOG, {"session": self._session, **row})
        if row.get("type") == "visual_screenshot":
            self.screenshots.append(str(row.get("path")))
        if row.get("type") == "decision":
            decision = {"level": "CRITICAL", "session": self._session, "feature_id": self._feature}
            store.log("decisions.jsonl", {**decision, "text": row.get("text")})
        elif row.get("type") in _ROUTINE:
            store.event(str(row["type"]), "routine", session=self._session, what=row.get("path") or row.get("cmd"))

    def close(self, seconds: float) -> None:
        """Ends the turn, which took so long; says once that the prefixes were missing (UAH-427)."""
        store = self._project.store
        store.event("agent_turn", "debug", session=self._session, seconds=round(seconds, 1), rows=self._actions.given)
        if self._structured and not self._actions.structured and self._project.config.logging.warn_on_missing_prefixes:
            store.event("unstructured_output", session=self._session, message=FALLBACK)

    def _note_usage(self, event: Usage) -> None:
        names = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")
        row = {name: getattr(event, name) for name in names}
        cost = usage.price(self._model, event)
        found = {"session": self._session, **row, "cost_usd": cost, "model": event.model or self._model}
        self._project.store.log("usage.jsonl", found)
        self._project.store.event("token_usage", "debug", **found)


def of_session(project: Project, session: int) -> list[JsonObject]:
    """The rows of one session that is among the last."""
    return [row for row in project.store.recent(LOG, _OF_ONE_SESSION) if row.get("session") == session]


def missing_prefixes(project: Project, session: int) -> str | None:
    """Why a claim is refused where ``logging.require_prefixes`` asks for prefixes, and none was shown (UAH-200)."""
    settings = project.config.logging
    if not settings.require_prefixes or not settings.structured_agent_output:
        return None
    if any(row.get("source") == "prefix" for row in of_session(project, session)):
        return None
    return "The agent used none of the prefixes that logging.require_prefixes asks for, such as [CMD:RUN]."


def log_from_git(project: Project, under_way: OpenSession, commit: str | None) -> None:
    """The files that the session wrote and nobody told of, read from the commit that holds its work (UAH-428, C43)."""
    if commit is None or not project.config.logging.fallback_tracking:
        return
    told = {row.get("path") for row in of_session(project, under_way.session) if row.get("type") == "file_write"}
    rollback_point = checkpoints.rollback_point(under_way.checkpoint)
    for _, path in project.git.changed_paths(rollback_point.head, commit):
        if path not in told:
            row = {"session": under_way.session, "type": "file_write", "path": path, "source": "git"}
            project.store.log(LOG, row)
