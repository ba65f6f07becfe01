"""What a person's answer does. Nothing destructive is ever chosen alone.

Source: features.md section T, UAH-058, UAH-392..402, C11, C12, C27.
"""

from collections.abc import Callable, Mapping
from typing import Any

from agent_harness.errors import UsageError
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import questions
from agent_harness.protocols.features.engine import pause
from agent_harness.protocols.features.marks import override
from agent_harness.protocols.features.people import (
    abort,
    handoff,
    optional_answers,
    raise_budget,
)
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import SessionState
from agent_harness.protocols.features.selection import next_feature


def resume(project: Project, choose: str | None, *, budget_usd: float | None = None) -> JsonObject:
    """Ends a pause, answers the question that waits, and says what comes next; starts no session (C40).

    ``UsageError`` for an answer that the question does not have, or where a question waits and none is given.
    """
    was_paused = pause.end(project)
    state = project.store.state()
    asked = _asked(project, state)
    if asked is None:
        if choose:
            raise UsageError("No question waits for an answer", hint="harness status")
        return {"answered": None, "was_paused": was_paused, **_say_next(project, state)}
    if choose is None and not questions.stops(asked):
        project.say(questions.text(asked))
        return {"answered": None, "was_paused": was_paused, "escalation": asked, **_say_next(project, state)}
    if choose is None:
        raise UsageError(questions.text(asked), hint=questions.hint(asked))
    word = questions.word(asked, choose)
    answer = (optional_answers.ANSWERS.get((str(asked.get("type")), word)) or ANSWERS[word])(project, asked, budget_usd)
    if project.store.initialised():
        _forget(project, asked)
    project.store.event("escalation_answered", feature_id=asked.get("feature_id"), type=asked.get("type"), answer=word)
    return {"answered": word, "feature_id": asked.get("feature_id"), "next": "harness run", **answer}


def _asked(project: Project, state: SessionState) -> JsonObject | None:
    """The question that is to be answered first: a stored one that stops the runs, the circle, any other stored one."""
    stored = state.question
    if stored is not None and questions.stops(stored):
        return stored
    return questions.of_cycle(project.store.features()) or stored


def _say_next(project: Project, state: SessionState) -> JsonObject:
    handed = state.handoff
    project.say(f"Resuming from session {state.last_session}...")
    project.say(f"Next prompt: {state.next_prompt}")
    feature = next_feature(project.store.features(), state).feature
    if feature:
        project.say(f"{feature.name} queued.")
    if handed is not None:
        project.say("The project is still in your hands: harness takeback")
    return {"next": "harness takeback" if handed is not None else "harness run"}


def _forget(project: Project, asked: Mapping[str, Any]) -> None:
    """The question is answered; what it counted begins anew, where it stood for a count."""
    if not questions.stops(asked):
        questions.forget(project)
        return
    counted = {k: n for k, n in project.store.state().failures.items() if k != str(asked.get("feature_id"))}
    project.store.update_state(pending_escalation=None, stuck_count=0, verification_failures=counted)


# -- one function an answer --------------------------------------------------------------------------------------------


def _retry(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    project.say(f"Feature #{asked.get('feature_id')} queued.")
    return {}


def _skip(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    for feature_id in questions.features(asked):
        override.skip(project, feature_id, str(asked.get("message")))
    return {"skipped": questions.features(asked)}


def _split(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    for feature_id in questions.features(asked):
        override.skip(project, feature_id, "to be split into smaller features")
    project.say('Add the parts: harness add-feature "..."')
    return {"skipped": questions.features(asked), "next": 'harness add-feature "..."'}


def _manual(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    if asked.get("type") == "environment":
        project.say("Fix the environment by hand, then: harness run")
        return {}
    return handoff.handoff(project, feature_id=next(iter(questions.features(asked)), None))


def _rollback(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    kept = [override.set_work_aside(project, feature_id) for feature_id in questions.features(asked)]
    return {"rescue_ref": next(iter(kept), None)}


def _abort(project: Project, _asked: JsonObject, _budget: float | None) -> JsonObject:
    return abort.clear(project)


def _pause(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    project.store.settle_in()
    paused = {"reason": str(asked.get("message"))}
    project.store.write_pause(paused)
    pause.keep(project, paused)
    project.say("State saved. Resume with: harness resume")
    return {"next": "harness resume"}


def _increase(project: Project, asked: JsonObject, budget: float | None) -> JsonObject:
    return raise_budget.raise_budget(project, str(asked.get("limit") or "Session"), budget)


def _investigate(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    for node in asked.get("failing") or []:
        project.say(f"- {node}")
    project.say(f"Look at it with: {project.config.testing.full}")
    return {"failing": asked.get("failing") or []}


def _edit(project: Project, _asked: JsonObject, _budget: float | None) -> JsonObject:
    project.say(f"Edit {project.features_name}, commit it, then: harness run")
    return {}


def _reset(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    override.reset(project, questions.features(asked))
    return {"reset": questions.features(asked)}


ANSWERS: dict[str, Callable[[Project, JsonObject, float | None], JsonObject]] = {
    "retry": _retry,
    "skip": _skip,
    "split": _split,
    "manual": _manual,
    "rollback": _rollback,
    "abort": _abort,
    "pause": _pause,
    "increase": _increase,
    "investigate": _investigate,
    "edit": _edit,
    "reset": _reset,
    "proceed": optional_answers.proceed,
}
