"""How a run ends: the summary it returns, or the reason why there is nothing to work on.

Source: features.md sections M, AA; UAH-483.
"""

from collections.abc import Sequence

from agent_harness.errors import LimitInForce, NothingEligible, PersonNeeded
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import escalation, questions, selection
from agent_harness.protocols.features.engine.settlement import Result
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.verdict import proven
from agent_harness.protocols.features.verdict.judge import Judge

WHEN_COMPLETE = "Project complete. Options: [M]aintenance, [A]dd features, [E]xit"


def summary(project: Project, results: Sequence[Result], recovered: JsonObject | None) -> JsonObject:
    """What the run did, where the project stands now, and the question that waits for a person, which is also said."""
    passing, total = project.store.features().counts()
    last = results[-1] if results else None
    escalation.about_size(project)
    waiting = project.store.state().question
    if waiting:
        project.say(questions.text(waiting))
    return {
        "sessions": [r.as_json() for r in results],
        "recovered": recovered,
        "features": {"passing": passing, "total": total},
        "escalation": waiting,
        "exit_code": 3 if questions.stops(waiting) else last.exit_code if last else 0,
    }


def nothing_left(
    project: Project, choice: selection.Choice, results: Sequence[Result], recovered: JsonObject | None
) -> JsonObject:
    """No feature can be chosen. ``PersonNeeded`` or ``NothingEligible`` unless all that is not skipped is proven."""
    document = project.store.features()
    passing, total = document.counts()
    if not choice.all_proven:
        for line in choice.waiting:
            project.say(f"- {line}")
        if waiting := [f.id for f in document.features if f.awaits_person]:
            raise PersonNeeded(
                f"Nothing else can be worked on: Feature #{waiting[0]} awaits your verification.",
                hint=f"harness manual-verify --feature {waiting[0]}",
                waiting=list(choice.waiting),
            )
        raise NothingEligible(
            f"No feature can be worked on: {passing}/{total} are passing and the rest waits.",
            hint="harness status",
            waiting=list(choice.waiting),
        )
    if passing < total:
        project.say(f"{passing} of {total} features are passing; the others were skipped.")
    else:
        project.say(f"All {total} features are passing!")
    if not results:
        return _final_check(project, passing, total, recovered)
    return summary(project, results, recovered)


def _final_check(project: Project, passing: int, total: int, recovered: JsonObject | None) -> JsonObject:
    """The whole suite once more, when a run begins with nothing left to do (UAH-483)."""
    head = project.git.head() or "HEAD"
    judge = Judge(project)
    facts = judge.suite(head)
    proven.require(project, facts)
    lint = judge.lint(head)
    project.say(f"Full suite: {len(facts.passing)} passed.")
    project.say(f"Lint: {lint.problem or f'{lint.errors} errors, {lint.warnings} warnings'}")
    project.say(WHEN_COMPLETE)
    return {
        "complete": True,
        "sessions": [],
        "recovered": recovered,
        "features": {"passing": passing, "total": total},
        "escalation": None,
        "exit_code": 0,
    }


def refused(project: Project, refusal: LimitInForce, results: Sequence[Result]) -> JsonObject:
    """The summary of a run that a rate limit ends; before its first session it is the refusal itself."""
    if not results:
        raise refusal
    project.say(refusal.message)
    project.say(f"next: {refusal.hint}")
    return {**summary(project, results, None), "exit_code": refusal.exit_code, "limit": refusal.as_json()}


def paused(project: Project, results: Sequence[Result]) -> JsonObject:
    """The summary of a run whose wait a person has ended by a pause, from another terminal."""
    return {**summary(project, results, None), "exit_code": 0}
