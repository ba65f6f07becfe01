"""Access to the records of a project. The functions are the same for every kind of project."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from dataclasses import dataclass
    from typing import Any

    from agent_harness.kernel.json import JsonObject
    from agent_harness.session.log_rows import FollowedLog
    from agent_harness.session.project_view import ProjectReader, ProjectView
else:
    from agent_harness.session.values import dataclass


def _protocol(kind: str, folder: str) -> tuple[Any, Any]:
    """Return the api module of a protocol, and the first argument of this module's functions."""
    if kind == "features":
        from agent_harness.protocols.features import api as features

        return features, features.layout_of(folder)
    if kind == "longtask":
        from agent_harness.protocols.longtask import api as long_task

        return long_task, folder
    from agent_harness.protocols.tasklist import api as task_list

    return task_list, folder


def reader_of(kind: str, folder: str) -> ProjectReader:
    api, place = _protocol(kind, folder)
    found: ProjectReader = api.reader(place)
    return found


def followed_of(kind: str, folder: str) -> list[FollowedLog]:
    """Return the logs that ``harness log --follow`` shows for the project."""
    api, place = _protocol(kind, folder)
    found: list[FollowedLog] = api.followed(place)
    return found


def log_rows_of(kind: str, folder: str) -> Iterator[JsonObject]:
    """Yield the log rows of a task list or a long task, newest first."""
    found: Iterator[JsonObject] = _protocol(kind, folder)[0].log_rows(folder)
    return found


def parallel_of(kind: str, folder: str) -> str | None:
    """Return the path of the file with a parallel run's state, or None for a long task."""
    if kind == "longtask":
        return None
    api, place = _protocol(kind, folder)
    return str(place.parallel if kind == "features" else api.parallel_file(folder))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTranscript:
    """Path of an agent's transcript. If there is no transcript, ``why`` gives the reason."""

    path: str | None
    why: str = "No transcript was kept."


ELSEWHERE = "The agent runs on another machine. Its transcript arrives when the attempt has ended."


def transcript_of(
    view: ProjectView, item: str, *, home: str | None = None, parallel: JsonObject | None = None
) -> KeptTranscript:
    """Return the transcript of the item's current agent. If no agent works on the item, return its last session's
    transcript."""
    from agent_harness.session import run_snapshot

    worker = run_snapshot.worker_on(parallel, item)
    if worker is None or parallel is None:
        return KeptTranscript(path=_transcript(view, item))
    if parallel.get("engine") != "local":
        return KeptTranscript(path=None, why=ELSEWHERE)
    workspace = run_snapshot.workspace_of(worker, home) if home else None
    begins = KeptTranscript(path=None, why=f"Its agent in {worker.get('slot')} has printed nothing yet.")
    if workspace is None or worker.get("phase") == "setup":  # until then the workspace holds an earlier attempt's
        return begins
    found = _transcript(view, item, workspace)
    return KeptTranscript(path=found) if found else begins


def _transcript(view: ProjectView, item: str, workspace: str | None = None) -> str | None:
    api, place = _protocol(view.kind, view.path)
    words = {"features": (view, item, workspace), "longtask": ()}.get(view.kind, (item, workspace))
    found: str | None = api.transcript(place, *words)
    return found
