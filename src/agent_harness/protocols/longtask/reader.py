"""Records of a long task, in the form that views use for all kinds of project.

Source: ``faces.md`` F-REC-7."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock, files
from agent_harness.kernel.json import JsonObject, dollars, members_of, text, whole
from agent_harness.protocols.longtask import claim, log
from agent_harness.protocols.longtask.layout import LongTaskLayout
from agent_harness.protocols.longtask.records import Checkpoint, Contract
from agent_harness.protocols.longtask.run import forbidden
from agent_harness.session import needs, now, project_view
from agent_harness.session.project_view import AskedQuestion, Item, Now, PastSession, Read, StatePart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.root import Kind

__all__ = ["LongTaskSource"]


class LongTaskSource:
    """Records of one long task, as views read them."""

    kind: Kind = "longtask"

    def __init__(self, layout: LongTaskLayout) -> None:
        self.path = layout.root
        self._layout = layout
        self._id = ""

    def home(self) -> str | None:
        return self._layout.home()

    def now(self) -> Sequence[Now]:
        return now.read(self.home())

    def several(self) -> str | None:
        """Return None, because a long task never has parallel agents."""
        return None

    def state_files(self) -> Sequence[str]:
        """Return the paths of the files that determine the task's state."""
        return [self._layout.task, self._layout.checkpoint, self._layout.lock, *self.journals()]

    def state(self, read: Read) -> StatePart:
        layout = self._layout
        task = Contract(read("task.json", lambda: files.read_json(layout.task), {}))
        held = Checkpoint(read("checkpoint.json", lambda: files.read_json(layout.checkpoint), {}))
        seen = read("runs", lambda: claim.look(layout, task, held, clock.now()), None)
        status = seen.checkpoint.status if seen else ""
        state = _STATES.get(status, project_view.OPEN)
        self._id = task.id
        if state == project_view.OPEN and os.path.lexists(layout.lock):
            state = project_view.WORKING
        asks = status == "needs-human" or (seen is not None and seen.due.decision == "needs-human")
        said = seen.due.reason if seen else ""
        line = claim.proof_of(layout, task.id) if state == project_view.PROVEN else None
        if line and line.grade == project_view.CHECKED:
            state, said = project_view.CHECKED, str(line.basis)
        if asks and held.blocker:
            said = held.blocker.text("message") or said
        question = AskedQuestion(kind="needs-human", message=said, item=task.id, answer=LOOKS)
        return StatePart(
            name=task.title or task.id,
            items=(self._item(task, project_view.NEEDS_YOU if asks else state, said),),
            questions=(question,) if asks else (),
            needs=needs.of([(said, LOOKS)] if asks else [], last_run=needs.read_end(self.home())),
            next=LOOKS,
            rests=f"blocked until {held.blocked_until}" if status == "blocked" and held.blocked_until else None,
        )

    def _item(self, task: Contract, state: str, said: str) -> Item:
        root = self._layout.root
        usual = forbidden.expanded(task.repo_path or ".", root)
        places = {each.id: each.command.text("cwd") for each in task.criteria if each.metric == "command"}
        commands = [str(each.command.text("command")) for each in task.criteria if each.metric == "command"]
        return Item(
            id=task.id,
            name=task.id,
            title=task.title,
            state=state,
            reason="" if state == project_view.PROVEN else said,
            proof="; ".join(commands) or None,
            folder=usual,
            folders={name: forbidden.expanded(place, root) for name, place in places.items() if place},
            next="lth summary ." if state in project_view.DONE else LOOKS,
        )

    def journals(self) -> Sequence[str]:
        """Return the paths of the daily logs. Without a readable log folder, return an empty list."""
        try:
            return log.days(self._layout)
        except (HarnessError, OSError):
            return []

    def sessions(self, rows: Iterable[JsonObject], before: tuple[PastSession, ...]) -> tuple[PastSession, ...]:
        found = [*before]
        for row in rows:
            if row.get("type") == "worker_started":
                began, agent = text(row.get("at")), text(row.get("worker"))
                found.append(
                    PastSession(number=len(found) + 1, item=self._id, outcome="not ended", started=began, agent=agent)
                )
            elif row.get("type") in log.ENDS and found and found[-1].ended is None:
                found[-1] = _ended(found[-1], row)
        return tuple(found)

    def recordings(self) -> Sequence[str]:
        import glob

        return [os.path.join(glob.escape(self._layout.sessions), "*", "recording.cassette.jsonl")]


LOOKS = "lth status ."
_STATES = {"done": project_view.PROVEN, "needs-human": project_view.NEEDS_YOU, "blocked": project_view.BLOCKED}


def _ended(begun: PastSession, row: JsonObject) -> PastSession:
    usage = members_of(row.get("usage"))
    counted = {name: whole(usage.get(f"{name}Tokens")) for name in ("input", "output", "cached")}
    first, last = clock.parse(begun.started), clock.parse(row.get("at"))
    return replace(
        begun,
        outcome="completed" if row.get("type") == "worker_completed" else f"failed ({row.get('reason')})",
        ended=text(row.get("at")),
        seconds=(last - first).total_seconds() if first and last else None,
        model=project_view.models(row.get("model")),
        prompt_type=text(row.get("promptType")),
        base=text(row.get("base")),
        head=text(row.get("head")),
        rescue_ref=text(row.get("rescueRef")),
        turns=whole(row.get("turns")),
        tokens={name: count for name, count in counted.items() if count is not None} or None,
        cost_usd=dollars(usage.get("costUsd")),
    )
