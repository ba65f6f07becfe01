"""Log of the agent's actions in a session. Sources are message prefixes such as ``[CMD:RUN]``, tool calls, output and
git. Images that ``[VISUAL:SCREENSHOT]`` names are copied. Source: features.md section W, UAH-092, UAH-139,
UAH-422..436, UAH-448, C43, C44, C59."""

import os
import shutil
from collections.abc import Iterable

from agent_harness.agents import markers, usage
from agent_harness.agents.events import Event, Usage
from agent_harness.errors import HarnessError
from agent_harness.kernel import files
from agent_harness.kernel.files import free_name, own_place
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.redact import redact
from agent_harness.protocols.features import progress, repository
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import listed
from agent_harness.protocols.features.sessions.open_session import OpenSession

LOG = "agent_actions.jsonl"
FALLBACK = "Agent output not fully structured, using fallback"
_ROUTINE = frozenset({"file_read", "file_write", "cmd_run"})
_OF_ONE_SESSION = 25_000  # rows at most: a turn writes 5,000, and there are few turns


class ActionLog:
    """Log of the agent's actions in one turn."""

    def __init__(self, project: Project, session: int, model: str | None, feature_id: int | None = None) -> None:
        self._project = project
        self._session = session
        self._feature = feature_id
        self._model = model
        self._actions = markers.Actions()
        self.screenshots: list[str] = []  # as the agent names them
        self._structured = project.config.logging.structured_agent_output

    def see(self, event: Event) -> None:
        if isinstance(event, Usage) and (event.context or event.cost_usd or event.told_usd):
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
        """Log the end of the turn (UAH-427)."""
        store = self._project.store
        store.event("agent_turn", "debug", session=self._session, seconds=round(seconds, 1), rows=self._actions.given)
        if self._structured and not self._actions.structured and self._project.config.logging.warn_on_missing_prefixes:
            store.event("unstructured_output", session=self._session, message=FALLBACK)

    def _note_usage(self, event: Usage) -> None:
        names = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")
        row = {name: getattr(event, name) for name in names}
        cost = usage.price(self._model, event)
        found = {"session": self._session, **row, "cost_usd": cost, "model": event.model or self._model}
        if event.told_usd is not None:
            found |= {"cost_usd": None, "told_usd": event.told_usd}
        self._project.store.log("usage.jsonl", found)
        self._project.store.event("token_usage", "debug", **found)


def of_session(project: Project, session: int) -> list[JsonObject]:
    return [row for row in project.store.recent(LOG, _OF_ONE_SESSION) if row.get("session") == session]


MOST_TOLD = 20  # lines of one part of an entry


def told_by_traces(project: Project, under_way: OpenSession) -> list[progress.Part]:
    """Return a progress entry that the harness makes from the agent's commits, files and decisions."""
    decided = [
        " ".join(str(row.get("text")).split())
        for row in project.store.recent("decisions.jsonl", _OF_ONE_SESSION)
        if row.get("session") == under_way.session
    ]
    did = [*commits_of(project, under_way), *_files_of(project, under_way)] or ["nothing that left a trace"]
    return [
        ("WHAT I DID", [*_at_most(did), "(told by the harness: the agent wrote no entry)"]),
        *([("DECISIONS", _at_most(list(dict.fromkeys(decided))))] if decided else []),
    ]


def commits_of(project: Project, under_way: OpenSession) -> list[str]:
    tip = project.git.head()
    made = project.git.commits_between(under_way.checkpoint.snapshot.head, tip) if tip else []
    return [f"committed {commit.sha[:10]}: {commit.subject}" for commit in reversed(made)]


def _files_of(project: Project, under_way: OpenSession) -> list[str]:
    base, tip = under_way.checkpoint.snapshot.head, project.git.head()
    committed = [path for _, path in project.git.changed_paths(base, tip)] if tip and base != tip else []
    found = sorted({*committed, *repository.dirty_paths(project.git)} - {project.progress_name, project.features_name})
    return [f"changed {listed(found, MOST_TOLD)}"] if found else []


def _at_most(lines: list[str]) -> list[str]:
    left = len(lines) - MOST_TOLD
    return lines if left <= 0 else [*lines[:MOST_TOLD], f"and {left} more"]


def last_test_run(project: Project, session: int) -> str | None:
    results = [row.get("result") for row in of_session(project, session) if row.get("type") == "test_run"]
    return str(results[-1]) if results else None


def missing_prefixes(project: Project, session: int) -> str | None:
    """Return a message if the agent omitted the required output prefixes, otherwise None (UAH-200)."""
    settings = project.config.logging
    if not settings.require_prefixes or not settings.structured_agent_output:
        return None
    if any(row.get("source") == "prefix" for row in of_session(project, session)):
        return None
    return "The agent used none of the prefixes that logging.require_prefixes asks for, such as [CMD:RUN]."


def log_from_git(project: Project, under_way: OpenSession, commit: str | None) -> None:
    """Log each changed file of the commit that the agent did not report (UAH-428, C43)."""
    if commit is None or not project.config.logging.fallback_tracking:
        return
    told = {row.get("path") for row in of_session(project, under_way.session) if row.get("type") == "file_write"}
    rollback_point = under_way.checkpoint.snapshot
    for _, path in project.git.changed_paths(rollback_point.head, commit):
        if path not in told:
            row = {"session": under_way.session, "type": "file_write", "path": path, "source": "git"}
            project.store.log(LOG, row)


# -- screenshots -------------------------------------------------------------------------------------------------------


IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif")
MOST_IMAGE_BYTES = 20_000_000
MOST_IMAGES = 50  # of one turn


def folder_for_images(project: Project) -> str:
    # UAH-092
    folder = project.layout.screenshots
    own_place(os.path.join(folder, "image"), project.layout.root)
    return project.layout.relative(folder)


def keep_screenshots(project: Project, session: int, feature_id: int | None, named: Iterable[str]) -> list[str]:
    """Copy the images in ``named`` that belong to the project. Return the paths of the copies."""
    kept: list[str] = []
    for path in list(dict.fromkeys(named))[:MOST_IMAGES]:
        fields = {"session": session, "feature_id": feature_id, "path": path}
        source = _image(project, path)
        if source is None:
            project.store.event("screenshot_missing", message=f"no image of the project: {path}", **fields)
            continue
        try:
            copy = _copied(project, session, source)
        except (OSError, HarnessError) as error:
            project.store.event("screenshot_missing", message=str(error), **fields)
            continue
        kept.append(project.layout.relative(copy))
        project.store.event("screenshot_kept", kept=kept[-1], sha256=files.digest(copy), **fields)
    return kept


def screenshots_of(project: Project, session: int) -> list[str]:
    folder = _folder(project, session)
    if os.path.islink(folder) or not os.path.isdir(folder):
        return []
    return [project.layout.relative(os.path.join(folder, name)) for name in sorted(os.listdir(folder))]


def _folder(project: Project, session: int) -> str:
    return os.path.join(project.layout.screenshots, f"session-{session}")


def _image(project: Project, path: str) -> str | None:
    root = os.path.realpath(project.root)
    try:
        found = os.path.join(root, path)
        real = os.path.realpath(found)
        whole = os.path.isfile(real) and not os.path.islink(found) and os.path.getsize(real) <= MOST_IMAGE_BYTES
    except (OSError, ValueError):
        return None
    inside = real.startswith(root + os.sep) and real.lower().endswith(IMAGE_SUFFIXES)
    return real if whole and inside else None


def _copied(project: Project, session: int, source: str) -> str:
    target = os.path.join(_folder(project, session), os.path.basename(source))
    own_place(target, project.layout.root)
    target = free_name(target)
    shutil.copyfile(source, target)
    return target
