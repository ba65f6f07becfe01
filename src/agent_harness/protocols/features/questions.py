"""Questions for a person: their kinds, options and wording, and their storage until they are answered.

    kind                    asked when                                               prevents runs
    "feature_stuck"         too many sessions on one feature (E1)                    yes
    "verification_failed"   a feature's claims were rejected too many times (E4)     yes
    "app_broken"            unfinished work leaves every known test failing (E5)     yes
    "landing_failed"        proven work cannot be merged with other merged work      yes
    "attempt_lost"          three sessions in a row returned no result               yes
    "head_red"              checks fail on the branch itself                         yes
    "landing_broken"        merge candidates cannot be verified                      yes
    "budget_exceeded"       a session exceeded a budget (E7)                         yes
    "too_many_starts"       an agent was started too many times for one feature      yes
    "no_way_back"           a session's checkpoint was deleted from the repository   yes
    "environment"           reset.sh could not restore the environment (E6)          until the next check
    "dependency_cycle"      features depend on each other in a cycle (E8)            until the next check
    "false_positives"       features are marked as passing, but tests fail (E9)      until the next check
    "claim_rejected"        the harness rejected a claim (E2)                        no: the next run tries again
    "regression"            a session broke tests and was rolled back (E3)           no: the next run tries again
    "dependency_regression" a session broke features that open features need         no: the next run tries again
    "large_feature"         a feature has too many verification steps (E10)          no: the next run works on it
    "built_already"         a feature's tests also pass on the base commit           only sessions on the feature
    "protected_change"      only changed protected files prevent a proof             only sessions on the feature

"Until the next check" means that every run checks the condition again, and continues once the problem is fixed.
Questions that prevent no run are stored too: ``status`` shows them, and a person can answer them until the next
session. For the last two kinds, a private ref keeps the session's candidate, and the feature waits for the answer.
Several such questions may be stored (``kept_candidates`` in the session state). An option has the same letter in all
questions (C11). Source: features.md section T, C11, C12, C35."""

from agent_harness.errors import Escalated, UsageError
from agent_harness.protocols.features import records
from agent_harness.protocols.features.records import FeatureList, Question, SessionState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any

    from agent_harness.protocols.features.project import Project

OPTIONS: dict[str, tuple[str, ...]] = {
    "feature_stuck": ("split", "manual", "skip", "abort", "retry"),
    "verification_failed": ("retry", "skip", "manual", "abort"),
    "app_broken": ("retry", "rollback", "manual", "abort"),
    "budget_exceeded": ("increase", "pause", "abort"),
    "too_many_starts": ("retry", "skip", "manual", "abort"),
    "no_way_back": ("retry", "manual", "abort"),
    "landing_failed": ("retry", "skip", "manual", "abort"),
    "attempt_lost": ("retry", "skip", "manual", "abort"),
    "head_red": ("retry", "manual", "abort"),
    "landing_broken": ("retry", "manual", "abort"),
    "environment": ("manual", "abort"),
    "dependency_cycle": ("edit", "skip", "abort"),
    "false_positives": ("reset", "investigate", "abort"),
    "claim_rejected": ("retry", "manual", "skip", "abort"),
    "regression": ("rollback", "manual", "abort"),
    "dependency_regression": ("retry", "investigate", "skip"),
    "large_feature": ("split", "proceed", "skip"),
    "built_already": ("accept-built", "reject", "manual", "skip", "abort"),
    "protected_change": ("accept-change", "reject", "manual", "skip", "abort"),
}

STOPPING = frozenset(
    {
        *("feature_stuck", "verification_failed", "app_broken", "budget_exceeded", "too_many_starts", "no_way_back"),
        *("landing_failed", "attempt_lost", "head_red", "landing_broken"),
    }
)
"""Kinds of question that prevent every run until the question is answered."""

KEEPING = frozenset({"built_already", "protected_change"})
"""Kinds of question about a candidate commit that is kept until the question is answered."""

OFFERED = frozenset({"claim_rejected", "regression", "dependency_regression", "large_feature"}) | KEEPING
"""Kinds of question that never prevent a run from starting."""

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
    "accept-built": "a[C]cept as built already",
    "accept-change": "a[C]cept the change",
    "reject": "re[J]ect",
}

MEANT = {
    "retry": "the next run tries again",
    "rollback": "the harness removes the unfinished work, and keeps it in a rescue ref",
    "split": "no session works on {features}; you add smaller features instead",
    "skip": "no session works on {features} until you run harness skip --undo",
    "manual": "you work on the project; no session starts until you run harness hand-back",
    "abort": "the harness ends all work on this project, and keeps commits, logs and costs",
    "pause": "no session starts until you run harness resume",
    "increase": "the harness sets the budget to --budget USD, or doubles it, and commits the setting",
    "investigate": "the harness shows how to run the failing tests, and keeps the question open",
    "edit": "you correct features.json and commit the file; the harness changes nothing",
    "reset": "the harness marks {features} as not passing, and sessions build it again",
    "proceed": "sessions work on {features} unchanged, and the harness does not ask again",
    "accept-built": "the harness verifies the kept work again, and accepts it if the proof above holds",
    "accept-change": "the harness verifies the kept work with changes of these files allowed, and accepts passing work",
    "reject": "the harness moves the kept work to a rescue ref, and the next run tries {features} again",
}
"""Meaning of each answer option, in one line. ``{features}`` is replaced by the features that the question is about."""

EXPLAINED: dict[str, dict[str, str]] = {
    "environment": {"manual": "you fix the environment, and the next run checks the environment again"},
    "regression": {
        "rollback": "nothing changes: the session was already rolled back, and its work is in a rescue ref",
        "manual": "no session starts until you run harness hand-back; the work that broke the tests is in a rescue ref",
    },
    "too_many_starts": {"retry": "the harness allows the same number of agent starts again"},
    "head_red": {"retry": "the next run checks the branch again"},
    "landing_broken": {"retry": "the next run verifies the merge candidates again"},
    "claim_rejected": {"manual": "no session starts until you hand back; harness manual-verify accepts the work"},
    "large_feature": {"split": "no session works on {features}; the harness proposes commands that add its parts"},
    "dependency_regression": {
        "retry": "Run new session to fix regression",
        "investigate": "Human reviews what broke",
        "skip": "Mark {features} as skipped, unblock dependents",
    },
}
"""Meanings of answer options that are special for one kind of question."""


def option_line(asked: Question, option: str) -> str:
    return " - ".join(filter(None, [LABELS.get(option, option), meaning(asked, option)]))


def meaning(asked: Question, option: str) -> str:
    meant = EXPLAINED.get(asked.kind, {}).get(option) or MEANT.get(option, "")
    features = ", ".join(f"Feature {i}" for i in asked.features) or "the feature"
    return meant.replace("{features}", features)


def letter(option: str) -> str:
    """Return the letter by which a user selects the option."""
    return LABELS[option].partition("[")[2][0].lower()


def question(kind: str, message: str, **facts: "Any") -> Question:
    stops = {"stops": False} if kind in OFFERED else {}
    return Question({"type": kind, "message": message, "options": list(OPTIONS[kind]), **stops, **facts})


def stops(asked: Question | None) -> bool:
    """Return True if the question prevents runs."""
    return asked is not None and asked.kind not in OFFERED


def text(asked: Question, *, among: "Sequence[Question]" = ()) -> str:
    """Return the text of a question, with its options and the command for the answer (UAH-402)."""
    options = [f"{n} {option_line(asked, option)}" for n, option in enumerate(asked.options, 1)]
    head = [asked.title or "A QUESTION", ""] if asked.kind == "dependency_regression" else []
    said = [*head, asked.message, *asked.details, "", "Options:", *options]
    later = any(each is not asked for each in among[:1])
    of = f" --feature {asked.feature_id}" if later and asked.feature_id is not None else _of_feature(asked)
    return "\n".join([*said, f"Answer with: harness resume --choose WORD{of}"])


def waiting(state: SessionState, document: FeatureList) -> list[Question]:
    """Return the pending questions in the order in which the user must answer."""
    stored = [state.question] if state.question and state.question.kind != "dependency_cycle" else []
    circle = of_cycle(document)
    first = [asked for asked in stored if stops(asked)]
    return [*first, *([circle] if circle else []), *state.kept_candidates, *(q for q in stored if q not in first)]


def foremost(waiting: "Sequence[Question]", worked_on: "Collection[int | None]") -> Question | None:
    """Return the question that a run shows to the user, or None."""
    own = (asked for asked in waiting if asked.feature_id in worked_on)
    first = [asked for asked in waiting[:1] if stops(asked)]
    return next(iter([*first, *own, *waiting]), None)


def of_cycle(document: FeatureList) -> Question | None:
    """Return the question about the first dependency cycle in features.json (E8), or None if there is no cycle."""
    found = records.cycles(document)
    if not found:
        return None
    first, *rest = found[0]
    told = f"Feature #{first} depends on " + " which depends on ".join(f"#{i}" for i in rest) + "."
    return question("dependency_cycle", told, features=sorted({i for path in found for i in path}))


def store(project: "Project", asked: Question) -> None:
    """Store a question and log an event, unless the question is already stored."""
    state = project.store.state()
    if state.question and state.question.record == asked.record:
        return
    project.store.update_state(pending_escalation=asked.record)
    facts: dict[str, Any] = {"session": state.last_session, **as_event(asked)}
    project.store.event(**facts)


def forget_passing(project: "Project") -> None:
    """Remove obsolete questions, and questions that the next run will ask again."""
    state = project.store.state()
    asked = state.question
    if asked and asked.kind in OPTIONS and asked.kind not in (*STOPPING, "large_feature", "dependency_cycle"):
        forget(project)
    if not (asked or state.kept_candidates):
        return
    document = project.store.features()
    if asked and asked.kind == "dependency_cycle" and of_cycle(document) is None:
        forget(project)
    for kept in state.kept_candidates:
        feature = document.by_id(kept.feature_id)
        if feature is None or feature.passes or feature.skipped:
            let_go(project, kept.feature_id)


def forget(project: "Project") -> None:
    project.store.update_state(pending_escalation=None)


def let_go(project: "Project", feature_id: int | None) -> None:
    """Remove the stored question about the feature's kept candidate, and the candidate's ref."""
    state = project.store.state()
    found = [asked for asked in state.kept_candidates if asked.feature_id == feature_id]
    if not found:
        return
    left = [asked.record for asked in state.kept_candidates if asked not in found]
    project.store.update_state(kept_candidates=left)
    for asked in found:
        if (ref := kept_ref(asked)) and project.git.commit_of(ref):
            project.git.update_ref(ref, None)


def kept_ref(asked: Question) -> str | None:
    """Return the private ref of the candidate that a question keeps, or None for an invalid ref."""
    import re  # late: ``harness status`` starts without it

    return asked.ref if re.fullmatch(r"refs/harness(-\d+)?/kept(-\d+)?/[\w-]+", asked.ref or "") else None


def refuse_pending(state: SessionState) -> None:
    asked = state.question
    if asked and stops(asked):
        raise Escalated(asked.message, hint=hint(asked), escalation=asked.record)


def as_event(asked: Question) -> "dict[str, Any]":
    facts = {name: value for name, value in asked.record.items() if name != "type"}
    return {"event_type": "escalation", "level": "critical", "kind": asked.kind, **facts}


def refuse_kept(state: SessionState, feature_id: int | None = None) -> None:
    """Raise ``Escalated`` if a question about a kept candidate is pending."""
    for asked in state.kept_candidates:
        if feature_id in (None, asked.feature_id):
            raise Escalated(asked.message, hint=hint(asked), escalation=asked.record)


def command(asked: Question, option: str) -> str:
    from shlex import quote  # costs a start, and is needed where somebody is asked

    return f"harness resume --choose {quote(option)}{_of_feature(asked)}"


def hint(asked: Question) -> str:
    """Return a command that answers the question. A shell comment lists the other options."""
    options = asked.options or ("retry",)
    # a retry ends and skips nothing
    first = "retry" if "retry" in options else options[0]
    others = ", ".join(each for each in options if each != first)
    return command(asked, first) + (f"  # or {others}" if others else "")


def _of_feature(asked: Question) -> str:
    return f" --feature {asked.feature_id}" if asked.kind in KEEPING else ""


def word(asked: Question, chosen: str) -> str:
    """Return the option that the user chose. Raise ``UsageError`` for an unknown choice."""
    found = asked.options
    wanted = chosen.strip().lower()
    if wanted.isdecimal() and 0 < int(wanted) <= len(found):
        return found[int(wanted) - 1]
    for option in found:
        if wanted == option or (option in LABELS and wanted == letter(option)):
            return option
    raise UsageError(f"{asked.message} Choose one of: {', '.join(found)}", hint=hint(asked))
