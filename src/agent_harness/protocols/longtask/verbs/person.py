"""Decisions that a person makes in a view of a task. Each decision has the effect of an ``lth`` command.

    active          lth record DIR --status active [--note TEXT]
    done            lth record DIR --status done
    ID holds        lth evidence DIR --type review-note --criterion-id ID --status passed --summary TEXT
    ID fails        lth evidence DIR --type review-note --criterion-id ID --status failed --summary TEXT

The view keeps the ``revision`` of the task that it shows. If the task or its checkpoint file no longer has this
revision, the decision is refused. Source: ``faces.md`` F-SRV-4, F-SRV-8."""

from __future__ import annotations

from agent_harness.errors import HarnessError, Superseded, UsageError
from agent_harness.protocols.longtask import lifecycle, log
from agent_harness.protocols.longtask.options import EvidenceOptions, RecordOptions
from agent_harness.protocols.longtask.store import LongTaskStore
from agent_harness.protocols.longtask.verbs import record
from agent_harness.protocols.longtask.verbs.record import ViewAction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.protocols.longtask.layout import LongTaskLayout

MOST_CHARACTERS = 4000
GO_ON = "active"


class TaskChoices:
    """Decisions that a person can make about a task now."""

    def __init__(self, revision: str, words: dict[str, str], criteria: dict[str, tuple[str, str]], *, waits: bool):
        self.revision = revision
        self.words = words
        self.criteria = criteria  # a word → criterion and status
        self.waits = waits  # until a moment; a person may end the wait


def choices(layout: LongTaskLayout) -> TaskChoices | None:
    """Return the decisions that a person can make now, or None for an invalid task."""
    store = LongTaskStore(layout)
    try:
        revision = store.revision()
        task, checkpoint = store.load()
    except HarnessError:
        return None
    due = lifecycle.decide(checkpoint, store.now()).decision
    if due != "needs-human":
        return TaskChoices(revision, {}, {}, waits=due == "wait")
    words = {GO_ON: "run the next slice, with your text as its next step"}
    criteria: dict[str, tuple[str, str]] = {}
    for each in task.criteria:
        if each.metric == "manual":
            criteria |= {f"{each.id} holds": (each.id, "passed"), f"{each.id} fails": (each.id, "failed")}
            words[f"{each.id} holds"] = f"you have checked this criterion: {each.description}"
            words[f"{each.id} fails"] = "you have checked this criterion, and it is not met"
    words["done"] = "the task is done; every criterion is checked first"
    return TaskChoices(revision, words, criteria, waits=False)


def decide(layout: LongTaskLayout, word: str, text: str, *, shown: str, by: str) -> str:
    """Carry out a person's decision. Raise ``Superseded`` if the task changed after the revision ``shown``."""
    log.refuse_workers(layout, "harness serve")
    found = choices(layout)
    if found is None or found.revision != shown:
        raise Superseded("The task has changed since the page was loaded. Reload the page", hint="lth status .")
    if word not in found.words and not (word == GO_ON and found.waits):
        raise UsageError("Choose one of the answers", hint="lth status .")
    said = text.strip()
    if len(said) > MOST_CHARACTERS:
        raise UsageError(f"A note may have at most {MOST_CHARACTERS} characters", hint="shorten the note")
    action = ViewAction(shown, by)
    if word in found.criteria:
        criterion, status = found.criteria[word]
        given = {"type": "review-note", "criterion-id": criterion, "status": status, "summary": said or word}
        record.gather(layout, EvidenceOptions(given), action=action)
        return f"Recorded: {word}"
    return record.record(layout, RecordOptions({"status": word, **({"note": said} if said else {})}), action=action)[0]
