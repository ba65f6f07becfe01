"""Functions that carry out a person's answers. ``ANSWERS_OF_KIND`` has functions for one answer to one kind of
question. ``ANSWERS`` has the functions for all other cases. A destructive answer is never selected automatically.
Source: features.md section T, UAH-058, UAH-392..402, UAH-533, C11, C12, C27, C53."""

import os
import shlex
from collections.abc import Callable

from agent_harness.errors import Refused, Superseded, UsageError
from agent_harness.kernel import files
from agent_harness.kernel.files import own_place
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import overrides, progress, questions, records, repository
from agent_harness.protocols.features.config.file import with_value
from agent_harness.protocols.features.people import takeover
from agent_harness.protocols.features.preflight import running
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.reader import asked_question
from agent_harness.protocols.features.records import Feature, Question, SessionState
from agent_harness.protocols.features.selection import next_feature
from agent_harness.protocols.features.sessions import locking
from agent_harness.protocols.features.verdict.project_judge import Judge
from agent_harness.protocols.features.work import kept_candidate
from agent_harness.session.project_view import AskedQuestion
from agent_harness.supervision.starts import go_on


def resume(
    project: Project,
    choose: str | None,
    *,
    budget_usd: float | None = None,
    feature_id: int | None = None,
    shown: AskedQuestion | None = None,
) -> JsonObject:
    """End a pause. With ``choose``, answer the question about ``feature_id``, or else the first question (C40)."""
    waiting = questions.waiting(project.store.state(), project.store.features())
    asked = next((each for each in waiting if feature_id is None or feature_id in each.features), None)
    if shown is not None and (asked is None or asked_question(asked) != shown):
        raise Superseded("This question has already been answered", hint="harness status")
    was_paused = locking.end(project)
    go_on(os.path.dirname(project.store.ledger(make=False)))
    state = project.store.state()
    if asked is None:
        if choose:
            raise UsageError("No question is waiting for an answer", hint="harness status")
        return {"answered": None, "was_paused": was_paused, **_say_next(project, state, was_paused=was_paused)}
    if choose is None and not questions.stops(asked):
        project.say(questions.text(asked))
        return {
            "answered": None,
            "was_paused": was_paused,
            "escalation": asked.record,
            **_say_next(project, state, was_paused=was_paused),
        }
    if choose is None:
        raise UsageError(questions.text(asked), hint=questions.hint(asked))
    word = questions.word(asked, choose)
    answer = (ANSWERS_OF_KIND.get((asked.kind, word)) or ANSWERS[word])(project, asked, budget_usd)
    if project.store.initialised():
        _forget(project, asked)
    project.store.event("escalation_answered", feature_id=asked.feature_id, kind=asked.kind, answer=word)
    return {"answered": word, "feature_id": asked.feature_id, "next": "harness run", **answer}


def _say_next(project: Project, state: SessionState, *, was_paused: bool) -> JsonObject:
    handed = state.handoff
    passing, total = project.store.believed(project.store.features()).counts()
    if total and passing == total and handed is None:
        project.say(f"Nothing left: {passing} of {total} proven. To run every test again: harness verify --all")
        return {"next": "harness verify --all"}
    if not was_paused and handed is None:
        project.say("Nothing to resume.")
        return {"next": "harness run"}
    project.say(f"Resuming from session {state.last_session}...")
    project.say(f"Next prompt: {state.next_prompt}")
    feature = next_feature(project.store.features(), state).feature
    if feature:
        project.say(f"{feature.name} queued.")
    if handed is not None:
        project.say("You have taken over the project. To let agents continue: harness hand-back")
    return {"next": "harness hand-back" if handed is not None else "harness run"}


def _forget(project: Project, asked: Question) -> None:
    if asked.kind in questions.KEEPING:
        questions.let_go(project, asked.feature_id)
        return
    if not questions.stops(asked):
        questions.forget(project)
        return
    counted = {k: n for k, n in project.store.state().failures.items() if k != str(asked.feature_id)}
    project.store.update_state(pending_escalation=None, stuck_count=0, verification_failures=counted)


# -- one function per answer -------------------------------------------------------------------------------------------


def _retry(project: Project, asked: Question, _budget: float | None) -> JsonObject:
    project.say("The next run retries this." if asked.feature_id is None else f"Feature #{asked.feature_id} queued.")
    return {}


def _skip(project: Project, asked: Question, _budget: float | None) -> JsonObject:
    for feature_id in asked.features:
        overrides.skip(project, feature_id, asked.message)
    return {"skipped": list(asked.features)}


def _split(project: Project, asked: Question, _budget: float | None) -> JsonObject:
    _skip_to_split(project, asked)
    project.say('Add the smaller features: harness add-feature "..."')
    return {"skipped": list(asked.features), "next": 'harness add-feature "..."'}


def _manual(project: Project, asked: Question, _budget: float | None) -> JsonObject:
    if asked.kind == "environment":
        project.say("Fix the environment manually, then: harness run")
        return {}
    return takeover.handoff(project, feature_id=next(iter(asked.features), None))


def _rollback(project: Project, asked: Question, _budget: float | None) -> JsonObject:
    kept = [overrides.set_work_aside(project, feature_id) for feature_id in asked.features]
    return {"rescue_ref": next(iter(kept), None)}


def _pause(project: Project, asked: Question, _budget: float | None) -> JsonObject:
    project.store.finalize_in()
    paused = {"reason": asked.message}
    project.store.write_pause(paused)
    locking.keep(project, paused)
    project.say("State saved. Resume with: harness resume")
    return {"next": "harness resume"}


def _investigate(project: Project, asked: Question, _budget: float | None) -> JsonObject:
    for node in asked.failing:
        project.say(f"- {node}")
    project.say(f"To see the failures, run: {project.config.testing.full}")
    return {"failing": list(asked.failing)}


def _edit(project: Project, _asked: Question, _budget: float | None) -> JsonObject:
    project.say(f"Edit {project.features_name}, commit the change, then run: harness run")
    return {}


def _reset(project: Project, asked: Question, _budget: float | None) -> JsonObject:
    overrides.reset(project, asked.features)
    for feature_id in asked.features:
        overrides.say_word(project, feature_id, "reset", accepted=False)
    return {"reset": list(asked.features)}


# -- a higher budget ---------------------------------------------------------------------------------------------------

KEYS = {"Session": "per_session_usd", "Feature": "per_feature_usd", "Project": "total_project_usd"}


def raise_budget(project: Project, limit: str, budget_usd: float | None) -> JsonObject:
    """Raise a budget in the settings, and commit the settings."""
    key = KEYS.get(limit, "per_session_usd")
    now = float(getattr(project.config.costs, key))
    wanted = budget_usd if budget_usd is not None else 2 * now
    if wanted <= now:
        raise UsageError(
            f"costs.{key} is already ${now:.2f}; give a higher budget",
            hint="harness resume --choose increase --budget USD",
        )
    path = project.layout.settings
    name = project.layout.relative(path)
    if name in repository.dirty_paths(project.git):
        raise Refused(f"{name} has changes that are not committed", hint=f"git commit {name}")
    before = files.read_bytes(path)
    try:
        files.replace(path, with_value(before.decode("utf-8-sig"), "costs", key, wanted))
        repository.commit_files(project.git, [name], f"harness: costs.{key} raised to {wanted:g}")
    except BaseException:
        files.replace(path, before)
        raise
    project.say(f"costs.{key}: ${now:.2f} → ${wanted:.2f}")
    project.store.event("budget_raised", "critical", key=f"costs.{key}", before=now, after=wanted)
    return {"key": f"costs.{key}", "before": now, "after": wanted}


# -- words with another meaning for one kind of question ---------------------------------------------------------------


def _by_hand(project: Project, asked: Question, _budget: float | None) -> JsonObject:
    answer = _fix_by_hand(project, asked, None)
    project.say(f"If the work is correct after all: harness manual-verify --feature {asked.feature_id}")
    return answer


def _fix_by_hand(project: Project, asked: Question, _budget: float | None) -> JsonObject:
    _say_rescue(project, asked)
    return takeover.handoff(project, feature_id=next(iter(asked.features), None))


def _confirm_rollback(project: Project, asked: Question, _budget: float | None) -> JsonObject:
    # C03, E3
    project.say(f"Session {asked.session} has already been rolled back. Nothing is left to do.")
    _say_rescue(project, asked)
    return {"rescue_ref": asked.rescue_ref}


def _review(project: Project, asked: Question, _budget: float | None) -> JsonObject:
    # UAH-402
    for node in asked.failing:
        project.say(f"- {node}")
    _say_rescue(project, asked)
    return {"failing": list(asked.failing), "rescue_ref": asked.rescue_ref}


def _skip_broken(project: Project, asked: Question, _budget: float | None) -> JsonObject:
    found = [i for i in asked.features if not overrides.feature_of(project, i).skipped]
    overrides.skip_broken(project, found, asked.message)
    return {"skipped": found}


def _split_large(project: Project, asked: Question, _budget: float | None) -> JsonObject:
    """Skip a feature that is too large. Propose smaller features that replace it (UAH-533)."""
    parts = [part for i in asked.features for part in _parts(project, overrides.feature_of(project, i))]
    _skip_to_split(project, asked)
    project.say("Add the smaller features, for example:")
    for part in parts:
        project.say(f"  {part}")
    return {"skipped": list(asked.features), "proposed": parts, "next": 'harness add-feature "..."'}


def _skip_to_split(project: Project, asked: Question) -> None:
    for feature_id in asked.features:
        overrides.skip(project, feature_id, "to be split into smaller features")


def _parts(project: Project, feature: Feature) -> list[str]:
    """Return `add-feature` commands for parts of the feature, each with at most ``max_verification_steps`` steps."""
    steps = feature.steps
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


def proceed(project: Project, asked: Question, _budget: float | None) -> JsonObject:
    """Record that a large feature stays whole, so that no later run asks about its size."""
    accepted = {*project.store.state().sizes_accepted, *asked.features}
    project.store.update_state(sizes_accepted=sorted(accepted))
    project.say(f"Feature #{asked.feature_id} stays as it is.")
    return {}


# -- a candidate kept for the answer -----------------------------------------------------------------------------------


def _accept_kept(project: Project, asked: Question, _budget: float | None) -> JsonObject:
    with running(project) as environment:
        environment.up(auto_reset=False, max_reset_attempts=0)
        taken = kept_candidate.take(project, Judge(project), asked)
    return {"session": taken.session, "commit": taken.commit, "accepted": taken.accepted, "exit_code": taken.exit_code}


def _reject_kept(project: Project, asked: Question, _budget: float | None) -> JsonObject:
    state, name = project.store.state(), str(asked.feature_id)
    told = f"A person rejected the work of Session {asked.session}: {asked.message}"
    line = [("HARNESS", [f"A person rejected the work on Feature #{asked.feature_id}, which was rolled back."])]
    own_place(project.layout.progress, project.layout.root)
    progress.append(project.layout.progress, progress.entry(records.number(asked.session), line))
    project.store.update_state(
        verification_failures={**state.failures, name: state.failures.get(name, 0) + 1},
        stuck_count=state.stuck_count + (state.current_feature == asked.feature_id),
        last_failure=told,
    )
    of = records.number(asked.record.get("verdict")) or None
    overrides.say_word(project, records.number(asked.feature_id), "reject", accepted=False, of=of)
    project.say(f"Work rejected. Feature #{asked.feature_id} queued. To see the removed work: harness rescue list")
    return {}


def _say_rescue(project: Project, asked: Question) -> None:
    if ref := asked.rescue_ref:
        project.say(f"The work of Session {asked.session} is kept. To show it: git diff HEAD {ref}")


ANSWERS: dict[str, Callable[[Project, Question, float | None], JsonObject]] = {
    "retry": _retry,
    "skip": _skip,
    "split": _split,
    "manual": _manual,
    "rollback": _rollback,
    "abort": lambda project, _asked, _budget: takeover.clear_state(project),
    "pause": _pause,
    "increase": lambda project, asked, budget: raise_budget(project, asked.limit or "Session", budget),
    "investigate": _investigate,
    "edit": _edit,
    "reset": _reset,
    "proceed": proceed,
    "accept-built": _accept_kept,
    "accept-change": _accept_kept,
    "reject": _reject_kept,
}

ANSWERS_OF_KIND: dict[tuple[str, str], Callable[[Project, Question, float | None], JsonObject]] = {
    ("claim_rejected", "manual"): _by_hand,
    ("regression", "rollback"): _confirm_rollback,
    ("regression", "manual"): _fix_by_hand,
    ("dependency_regression", "investigate"): _review,
    ("dependency_regression", "skip"): _skip_broken,
    ("large_feature", "split"): _split_large,
}
