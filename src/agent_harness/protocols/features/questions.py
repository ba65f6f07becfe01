"""Questions for a person: their kinds, options and wording, and how one is stored until it is answered.

    kind                    asked when                                               stops the runs
    feature_stuck           too many sessions on one feature (E1)                    yes
    verification_failed     a feature's claims were rejected too often (E4)          yes
    app_broken              unfinished work leaves every known test failing (E5)     yes
    budget_exceeded         a session ran over a budget (E7)                         yes
    no_way_back             a session's checkpoint is gone from the repository       yes
    environment             reset.sh could not bring the environment back (E6)       until the next check
    dependency_cycle        features depend on each other in a circle (E8)           until the next check
    false_positives         features are marked as passing and tests fail (E9)       until the next check
    claim_rejected          the harness did not believe a claim (E2)                 no: the next run tries again
    regression              a session broke tests and was rolled back (E3)           no: the next run tries again
    dependency_regression   the same, and open features wait for what broke          no: the next run tries again
    large_feature           a feature has too many verification steps (E10)          no: it is worked on as it is

Those that stop until the next check are facts that every run looks at again: once they are fixed, by an answer or by
hand, the run goes on. The circle is not even stored: features.json says it. Those that stop nothing are stored as well,
shown by ``status``, and can be answered until the next session makes them pointless.
Letters mean the same everywhere (C11). Source: features.md section T, C11, C12, C35.
"""

from collections.abc import Mapping
from typing import Any

from agent_harness.errors import Escalated, UsageError
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import records
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import FeatureList, SessionState

OPTIONS: dict[str, tuple[str, ...]] = {
    "feature_stuck": ("split", "manual", "skip", "abort", "retry"),
    "verification_failed": ("retry", "skip", "manual", "abort"),
    "app_broken": ("retry", "rollback", "manual", "abort"),
    "budget_exceeded": ("increase", "pause", "abort"),
    "no_way_back": ("retry", "manual", "abort"),
    "environment": ("manual", "abort"),
    "dependency_cycle": ("edit", "skip", "abort"),
    "false_positives": ("reset", "investigate", "abort"),
    "claim_rejected": ("retry", "manual", "skip", "abort"),
    "regression": ("rollback", "manual", "abort"),
    "dependency_regression": ("retry", "investigate", "skip"),
    "large_feature": ("split", "proceed", "skip"),
}

STOPPING = frozenset({"feature_stuck", "verification_failed", "app_broken", "budget_exceeded", "no_way_back"})
"""Kinds that refuse every run until they are answered."""

OFFERED = frozenset({"claim_rejected", "regression", "dependency_regression", "large_feature"})
"""Kinds that keep no run from starting; the others are looked at again by each run."""

LABELS = {
    "retry": "[R]etry",
    "rollback": "roll[B]ack",
    "split": "[S]plit feature",
    "skip": "s[K]ip",
    "manual": "[M]anual",
    "abort": "[A]bort",
    "pause": "[P]ause",
    "increase": "[I]ncrease budget",
    "investigate": "[I]nvestigate",
    "edit": "[E]dit features.json",
    "reset": "reset false positi[V]es",
    "proceed": "[P]roceed anyway",
}

EXPLAINED: dict[str, dict[str, str]] = {
    "dependency_regression": {
        "retry": "Run new session to fix regression",
        "investigate": "Human reviews what broke",
        "skip": "Mark {features} as skipped, unblock dependents",
    },
}
"""What an option does, for the kinds that are shown as a panel with one option a line."""


def letter(option: str) -> str:
    """The option's letter, the one in brackets of its label."""
    return LABELS[option].partition("[")[2][0].lower()


def question(kind: str, message: str, **facts: Any) -> JsonObject:
    """A question as it is stored."""
    stops = {"stops": False} if kind in OFFERED else {}
    return {"type": kind, "message": message, "options": list(OPTIONS[kind]), **stops, **facts}


def stops(asked: Mapping[str, Any] | None) -> bool:
    """Whether runs end with this question; one of a kind that is not known does."""
    return asked is not None and asked.get("type") not in OFFERED


def text(asked: Mapping[str, Any]) -> str:
    """The question with its numbered options and the command that answers it."""
    if str(asked.get("type")) in EXPLAINED:
        return _panel(asked)
    told = "\n".join([str(asked.get("message")), *details(asked)])
    shown = ", ".join(f"{n} {LABELS.get(o, o)}" for n, o in enumerate(options(asked), 1))
    gap = "\n" if details(asked) else " "
    return f"{told}{gap}Options: {shown}. Answer with: harness resume --choose WORD"


def features(asked: Mapping[str, Any]) -> list[int]:
    """Ids of the features that the question is about."""
    found = asked.get("features") or [asked.get("feature_id")]
    return [i for i in found if isinstance(i, int)]


def details(asked: Mapping[str, Any]) -> list[str]:
    """What is said below the message."""
    found = asked.get("details")
    return [str(line) for line in found] if isinstance(found, list) else []


def _panel(asked: Mapping[str, Any]) -> str:
    """One option a line, each with what it does (UAH-402)."""
    features = ", ".join(f"Feature {i}" for i in asked.get("features") or [])
    meant = EXPLAINED[str(asked.get("type"))]
    lines = [
        f"{n} {LABELS.get(o, o)} - {meant.get(o, o).replace('{features}', features)}"
        for n, o in enumerate(options(asked), 1)
    ]
    title = str(asked.get("title") or "A QUESTION")
    told = [title, "", str(asked.get("message")), *details(asked), "", "Options:", *lines]
    return "\n".join([*told, "Answer with: harness resume --choose WORD"])


def options(asked: Mapping[str, Any]) -> list[str]:
    """The words that answer a question; those of a version that asked less are kept."""
    found = asked.get("options")
    return [str(o) for o in found] if isinstance(found, list) else []


def of_cycle(document: FeatureList) -> JsonObject | None:
    """The question about the first circle of dependencies; it is read from features.json and never stored (E8)."""
    found = records.cycles(document)
    if not found:
        return None
    first, *rest = found[0]
    told = f"Feature #{first} depends on " + " which depends on ".join(f"#{i}" for i in rest) + "."
    return question("dependency_cycle", told, features=sorted({i for path in found for i in path}))


def store(project: Project, asked: JsonObject) -> None:
    """Keeps the question until it is answered; the same question is asked once."""
    state = project.store.state()
    if state.question == asked:
        return
    project.store.update_state(pending_escalation=asked)
    project.store.event("escalation", "critical", **{"session": state.last_session, **asked})


def forget_passing(project: Project) -> None:
    """Drops a question that every run looks at again, or that the next session answers; to be called before it.

    The one about a large feature stays: it is there until it is answered or the feature is done.
    """
    asked = project.store.state().question
    if asked and asked.get("type") in OPTIONS and asked.get("type") not in (*STOPPING, "large_feature"):
        forget(project)


def forget(project: Project) -> None:
    """Drops the question that is stored."""
    project.store.update_state(pending_escalation=None)


def refuse_pending(state: SessionState) -> None:
    """``Escalated`` while a question that stops the runs waits for its answer."""
    asked = state.question
    if asked and stops(asked):
        raise Escalated(str(asked.get("message")), hint=hint(asked), escalation=asked)


def hint(asked: Mapping[str, Any]) -> str:
    """The command that answers a question."""
    return "harness resume --choose " + "|".join(options(asked) or ["retry"])


def word(asked: Mapping[str, Any], chosen: str) -> str:
    """The option that a person means by its number, its letter or its word; ``UsageError`` when it is none of them."""
    found = options(asked)
    wanted = chosen.strip().lower()
    if wanted.isdecimal() and 0 < int(wanted) <= len(found):
        return found[int(wanted) - 1]
    for option in found:
        if wanted == option or (option in LABELS and wanted == letter(option)):
            return option
    raise UsageError(f"{asked.get('message')} Choose one of: {', '.join(found)}", hint=hint(asked))
