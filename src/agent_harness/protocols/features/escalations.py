"""Questions for a person: stored in the state, repeated until answered, answered by a word or its letter.

Nothing destructive is ever chosen alone. Source: features.md section T, C11, C12, C35, C53.
"""

from collections.abc import Mapping
from typing import Any

from agent_harness.errors import Escalated, UsageError
from agent_harness.protocols.features import records, tree
from agent_harness.protocols.features.project import Project

Record = dict[str, Any]

LETTERS = {"r": "retry", "k": "skip"}
"""Fixed letters (C11); the words are accepted everywhere."""


def feature_stuck(feature_id: int, sessions: int) -> Record:
    """The question after too many sessions on one feature (UAH-392)."""
    return {
        "type": "feature_stuck",
        "feature_id": feature_id,
        "message": f"Feature #{feature_id} has failed to complete in {sessions} sessions.",
        "options": ["retry", "skip"],
    }


def text(question: Mapping[str, Any]) -> str:
    """The question with its options and the command that answers it."""
    options = ", ".join("s[K]ip" if o == "skip" else f"[{o[0].upper()}]{o[1:]}" for o in question.get("options") or [])
    return f"{question.get('message')} Options: {options}. Answer with: harness resume --choose WORD"


def refuse_pending(state: Mapping[str, Any]) -> None:
    """``Escalated`` while a question waits for its answer."""
    question = state.get("pending_escalation")
    if question:
        raise Escalated(
            str(question.get("message")),
            hint="harness resume --choose " + "|".join(question.get("options") or ["retry"]),
            escalation=question,
        )


def answer(project: Project, choose: str | None) -> Record:
    """Carries out a person's answer; without a question, or without an answer, it says what comes next."""
    state = project.store.state()
    question = state.get("pending_escalation")
    number = records.number(state.get("last_session"))
    if not question:
        project.say(f"Resuming from session {number}...\nNext prompt: {state.get('next_prompt')}")
        return {"answered": None, "next": "harness run"}
    options = question.get("options") or []
    word = LETTERS.get((choose or "").lower(), (choose or "").lower())
    if word not in options:
        raise UsageError(f"{question.get('message')} Choose one of: {', '.join(options)}", hint=_hint(options))
    feature_id = question.get("feature_id")
    if word == "skip" and isinstance(feature_id, int):
        _skip(project, feature_id, str(question.get("message")))
    project.store.write(
        project.layout.session_state, {**project.store.state(), "pending_escalation": None, "stuck_count": 0}
    )
    project.store.event("escalation_answered", feature_id=feature_id, answer=word)
    project.say(f"Feature #{feature_id} {'skipped' if word == 'skip' else 'queued'}.")
    return {"answered": word, "feature_id": feature_id, "next": "harness run"}


def _hint(options: list[str]) -> str:
    return f"harness resume --choose {options[0] if options else 'retry'}"


def _skip(project: Project, feature_id: int, reason: str) -> None:
    """Marks the feature and commits that one file; dependents stay blocked (C53, C65)."""
    from agent_harness.kernel import clock, files

    document = project.store.features()
    feature = records.feature_by_id(document, feature_id)
    if feature is None:
        return
    feature["skipped"] = {"reason": reason, "at": clock.timestamp()}
    files.write_json(project.layout.features, document)
    tree.commit_file(project.git, project.features_name, f"harness: Feature #{feature_id} skipped")
    state = project.store.state()
    project.store.write(
        project.layout.session_state,
        {**state, "next_prompt": "coding", "partial": None, "feature_checkpoint": None},
    )
