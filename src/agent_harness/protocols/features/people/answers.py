"""What a person's answer does. Nothing destructive is ever chosen alone.

``ANSWERS`` is by word; ``ANSWERS_OF_KIND`` has the words that mean something of their own to one kind of question that
stops no run. A higher budget goes into ``.harness.yaml``, with a person's comments and order kept, in a commit of its
own. Source: features.md section T, UAH-058, UAH-392..402, UAH-533, C11, C12, C27, C53.
"""

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from agent_harness.errors import Refused, UsageError
from agent_harness.kernel import files
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import marks, questions, worktree
from agent_harness.protocols.features.config.file import with_value
from agent_harness.protocols.features.engine import locking
from agent_harness.protocols.features.people import abort, handoff
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Feature, SessionState
from agent_harness.protocols.features.selection import next_feature


def resume(project: Project, choose: str | None, *, budget_usd: float | None = None) -> JsonObject:
    """Ends a pause, answers the question that waits, and says what comes next; starts no session (C40).

    ``UsageError`` for an answer that the question does not have, or where a question waits and none is given.
    """
    was_paused = locking.end(project)
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
    answer = (ANSWERS_OF_KIND.get((str(asked.get("type")), word)) or ANSWERS[word])(project, asked, budget_usd)
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
        marks.skip(project, feature_id, str(asked.get("message")))
    return {"skipped": questions.features(asked)}


def _split(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    for feature_id in questions.features(asked):
        marks.skip(project, feature_id, "to be split into smaller features")
    project.say('Add the parts: harness add-feature "..."')
    return {"skipped": questions.features(asked), "next": 'harness add-feature "..."'}


def _manual(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    if asked.get("type") == "environment":
        project.say("Fix the environment by hand, then: harness run")
        return {}
    return handoff.handoff(project, feature_id=next(iter(questions.features(asked)), None))


def _rollback(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    kept = [marks.set_work_aside(project, feature_id) for feature_id in questions.features(asked)]
    return {"rescue_ref": next(iter(kept), None)}


def _abort(project: Project, _asked: JsonObject, _budget: float | None) -> JsonObject:
    return abort.clear(project)


def _pause(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    project.store.settle_in()
    paused = {"reason": str(asked.get("message"))}
    project.store.write_pause(paused)
    locking.keep(project, paused)
    project.say("State saved. Resume with: harness resume")
    return {"next": "harness resume"}


def _increase(project: Project, asked: JsonObject, budget: float | None) -> JsonObject:
    return raise_budget(project, str(asked.get("limit") or "Session"), budget)


def _investigate(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    for node in asked.get("failing") or []:
        project.say(f"- {node}")
    project.say(f"Look at it with: {project.config.testing.full}")
    return {"failing": asked.get("failing") or []}


def _edit(project: Project, _asked: JsonObject, _budget: float | None) -> JsonObject:
    project.say(f"Edit {project.features_name}, commit it, then: harness run")
    return {}


def _reset(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    marks.reset(project, questions.features(asked))
    return {"reset": questions.features(asked)}


# -- a higher budget ---------------------------------------------------------------------------------------------------

KEYS = {"Session": "per_session_usd", "Feature": "per_feature_usd", "Project": "total_project_usd"}


def raise_budget(project: Project, limit: str, budget_usd: float | None) -> JsonObject:
    """Sets the budget of that name to ``budget_usd``, or to twice what it is; the settings are committed."""
    key = KEYS.get(limit, "per_session_usd")
    now = float(getattr(project.config.costs, key))
    wanted = budget_usd if budget_usd is not None else 2 * now
    if wanted <= now:
        raise UsageError(f"costs.{key} is ${now:.2f} already", hint="harness resume --choose increase --budget USD")
    path = project.layout.settings
    name = project.layout.relative(path)
    if name in worktree.dirty_paths(project.git):
        raise Refused(f"{name} has changes that are not committed", hint=f"git commit {name}")
    before = files.read_bytes(path)
    try:
        files.replace(path, with_value(before.decode("utf-8-sig"), "costs", key, wanted))
        worktree.commit_files(project.git, [name], f"harness: costs.{key} raised to {wanted:g}")
    except BaseException:
        files.replace(path, before)
        raise
    project.say(f"costs.{key}: ${now:.2f} → ${wanted:.2f}")
    project.store.event("budget_raised", "critical", key=f"costs.{key}", before=now, after=wanted)
    return {"key": f"costs.{key}", "before": now, "after": wanted}


# -- words that mean something of their own to one kind of question ----------------------------------------------------


def _by_hand(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    """A person looks at work that the harness did not believe (E2)."""
    _say_rescue(project, asked)
    answer = handoff.handoff(project, feature_id=next(iter(questions.features(asked)), None))
    project.say(f"If it is right after all: harness manual-verify --feature {asked.get('feature_id')}")
    return answer


def _fix_by_hand(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    """A person fixes what a session broke (E3)."""
    _say_rescue(project, asked)
    return handoff.handoff(project, feature_id=next(iter(questions.features(asked)), None))


def _confirm_rollback(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    """The rollback was done at once (C03); it is confirmed (E3)."""
    project.say(f"Session {asked.get('session')} is rolled back; nothing else is to be done.")
    _say_rescue(project, asked)
    return {"rescue_ref": asked.get("rescue_ref")}


def _review(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    """What broke, and the work that broke it (UAH-402)."""
    for node in asked.get("failing") or []:
        project.say(f"- {node}")
    _say_rescue(project, asked)
    return {"failing": asked.get("failing") or [], "rescue_ref": asked.get("rescue_ref")}


def _skip_broken(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    found = [i for i in questions.features(asked) if not marks.feature_of(project, i).skipped]
    marks.skip_broken(project, found, str(asked.get("message")))
    return {"skipped": found}


def _split_large(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    """The feature is skipped, and the parts that would take its place are proposed (UAH-533)."""
    parts = [part for i in questions.features(asked) for part in _parts(project, marks.feature_of(project, i))]
    for feature_id in questions.features(asked):
        marks.skip(project, feature_id, "to be split into smaller features")
    project.say("Add the parts, for example:")
    for part in parts:
        project.say(f"  {part}")
    return {"skipped": questions.features(asked), "proposed": parts, "next": 'harness add-feature "..."'}


def _parts(project: Project, feature: Feature) -> list[str]:
    """One `add-feature` for as many steps as a feature should have."""
    steps = [str(step) for step in feature.steps or []]
    most = project.config.features.max_verification_steps
    cuts = range(0, len(steps), most)
    depends = [f"--depends-on {i}" for i in feature.depends_on]
    return [
        " ".join(
            [
                "harness add-feature",
                shlex.quote(f"{feature.description}, part {n} of {len(cuts)}"),
                *(f"--step {shlex.quote(step)}" for step in steps[at : at + most]),
                *depends,
            ]
        )
        for n, at in enumerate(cuts, 1)
    ]


def proceed(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    """The feature is worked on as it is, and not asked about again."""
    state = project.store.state()
    accepted = [*(state.sizes_accepted or []), *questions.features(asked)]
    project.store.update_state(sizes_accepted=sorted(set(accepted)))
    project.say(f"Feature #{asked.get('feature_id')} stays as it is.")
    return {}


def _say_rescue(project: Project, asked: Mapping[str, Any]) -> None:
    if ref := asked.get("rescue_ref"):
        project.say(f"What Session {asked.get('session')} did is kept: git diff HEAD {ref}")


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
    "proceed": proceed,
}

ANSWERS_OF_KIND: dict[tuple[str, str], Callable[[Project, JsonObject, float | None], JsonObject]] = {
    ("claim_rejected", "manual"): _by_hand,
    ("regression", "rollback"): _confirm_rollback,
    ("regression", "manual"): _fix_by_hand,
    ("dependency_regression", "investigate"): _review,
    ("dependency_regression", "skip"): _skip_broken,
    ("large_feature", "split"): _split_large,
}
"""Answers that mean something else to one kind of question."""
