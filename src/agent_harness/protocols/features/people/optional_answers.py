"""What a person's answer does to a question that stops no run, where the word means something of its own there.

Source: features.md UAH-393, UAH-394, UAH-401, UAH-402, UAH-533, C53.
"""

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import questions
from agent_harness.protocols.features.marks import override
from agent_harness.protocols.features.people import handoff
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Feature


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


def _rolled_back(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
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
    found = [i for i in questions.features(asked) if not override.feature_of(project, i).skipped]
    override.skip_broken(project, found, str(asked.get("message")))
    return {"skipped": found}


def _split_large(project: Project, asked: JsonObject, _budget: float | None) -> JsonObject:
    """The feature is skipped, and the parts that would take its place are proposed (UAH-533)."""
    parts = [part for i in questions.features(asked) for part in _parts(project, override.feature_of(project, i))]
    for feature_id in questions.features(asked):
        override.skip(project, feature_id, "to be split into smaller features")
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


ANSWERS: dict[tuple[str, str], Callable[[Project, JsonObject, float | None], JsonObject]] = {
    ("claim_rejected", "manual"): _by_hand,
    ("regression", "rollback"): _rolled_back,
    ("regression", "manual"): _fix_by_hand,
    ("dependency_regression", "investigate"): _review,
    ("dependency_regression", "skip"): _skip_broken,
    ("large_feature", "split"): _split_large,
}
"""Answers that mean something else to one kind of question."""
