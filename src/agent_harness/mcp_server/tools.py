"""What the tools do: one call of a front door each, its answer as JSON, its error as text with the next command.

A call finds the project anew, so that the server outlives what becomes of it. Source: ``tasklist.md`` 13.3.
"""

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_harness.errors import HarnessError, Refused
from agent_harness.kernel import root

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.api import TaskList

Record = dict[str, Any]

__all__ = ["CallFailed", "ClientTools"]

MOST_ROWS = 200


class CallFailed(Exception):
    """A call that did not do what was asked: one JSON object as its text."""


class ClientTools:
    """The tools of one client; the token of each claim is kept here, where the model need not carry it."""

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self._tokens: dict[str, str] = {}
        self._one_at_a_time = threading.Lock()

    # -- looking -------------------------------------------------------------------------------------------------------

    def status(self) -> str:
        """Where the task list or the feature project stands."""
        return self._answer(lambda: self._list().status() if self._kind() == "tasklist" else self._features())

    def next(self) -> str:
        """What ``claim`` would take, or the next session's feature; changes nothing."""
        return self._answer(lambda: self._list().next() if self._kind() == "tasklist" else self._preview())

    def log_query(self, text: str = "", limit: int = 20) -> str:
        """The newest rows of the logs in which every word of the text occurs, oldest first."""
        most = max(1, min(limit, MOST_ROWS))
        return self._answer(
            lambda: self._list_log(text, most) if self._kind() == "tasklist" else self._feature_log(text, most)
        )

    # -- working on a task ---------------------------------------------------------------------------------------------

    def claim(self, task_id: str | None = None) -> str:
        """Takes the next task, or this one."""

        def act() -> Record:
            answer = self._list().claim(task_id)
            self._tokens[answer["task_id"]] = answer["token"]
            return answer

        return self._answer(act)

    def checkpoint(self, task_id: str, step: int, total: int, text: str) -> str:
        """Records that a step is done, and renews the claim."""
        return self._answer(lambda: self._list(task_id).checkpoint(task_id, step, total, text))

    def validate(self, task_id: str) -> str:
        """Runs what proves the task; a verdict that is not PASS is a failed call."""
        return self._answer(lambda: self._list(task_id).validate(task_id), is_good=lambda a: a["result"] == "PASS")

    def complete(self, task_id: str, message: str | None = None) -> str:
        """Proves, commits and closes the task."""
        return self._answer(lambda: self._list(task_id).complete(task_id, message=message))

    def fail(self, task_id: str, category: str, message: str) -> str:
        """Gives this attempt up; the work goes into a rescue."""
        return self._answer(lambda: self._list(task_id).fail(task_id, category=category, message=message))

    def release(self, task_id: str, why: str) -> str:
        """Gives the task back untried."""
        return self._answer(lambda: self._list(task_id).release(task_id, why))

    # -- the project ---------------------------------------------------------------------------------------------------

    def _answer(self, act: Callable[[], Record], is_good: Callable[[Record], bool] = lambda answer: True) -> str:
        with self._one_at_a_time:
            try:
                answer = act()
            except HarnessError as error:
                raise CallFailed(_text({"ok": False, "error": error.as_json()})) from None
        if not is_good(answer):
            raise CallFailed(_text({"ok": False, **answer}))
        return _text({"ok": True, **answer})

    def _found(self) -> root.Root:
        found = root.find(self._folder) if self._folder else root.find()
        if found is None or found.kind == "longtask":
            raise Refused("No task list and no feature project here or above", hint="harness init .")
        return found

    def _kind(self) -> str:
        return self._found().kind

    def _list(self, task_id: str | None = None) -> "TaskList":
        from agent_harness.protocols.tasklist.api import TaskList

        if self._kind() != "tasklist":
            raise Refused("Features are handed out by the harness, not claimed", hint="harness run")
        return TaskList.open(self._folder, token=self._tokens.get(task_id) if task_id else None)

    def _features(self) -> Record:
        from agent_harness.protocols.features import status
        from agent_harness.protocols.features.config.file import read_object

        return status.read(self._project().layout, read_yaml=read_object)

    def _preview(self) -> Record:

        from agent_harness.protocols.features.people import inspection

        return inspection.preview(self._project())

    def _project(self) -> Any:
        from agent_harness.protocols.features.config import load
        from agent_harness.protocols.features.project import Project, silent

        path = Path(self._found().path)
        return Project.open(path, load(path), silent)

    def _list_log(self, text: str, limit: int) -> Record:
        words = text.lower().split()
        lines = self._list().status(tail=10_000)["log"]
        rows = [line for line in lines if all(word in str(line).lower() for word in words)]
        return {"rows": rows[-limit:], "more": len(rows) > limit}

    def _feature_log(self, text: str, limit: int) -> Record:
        from agent_harness.protocols.features.logs import query

        return query.query(self._project().layout, query.Filter(words=tuple(text.split())), limit=limit)


def _text(answer: Mapping[str, Any]) -> str:
    return json.dumps(answer, ensure_ascii=False, default=str)
