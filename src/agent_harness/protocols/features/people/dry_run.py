"""What the next session would get, told without running it: `harness run --dry-run`."""

from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import (
    lifecycle,
    migrations,
    selection,
)
from agent_harness.protocols.features.engine.open_session import CLEANUP
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.prompts import orientation_facts
from agent_harness.protocols.features.validity import valid_features


def preview(project: Project, feature_id: int | None = None) -> JsonObject:
    """What the next session would get; nothing on disk changes (UAH-048, UAH-049)."""
    project.require_initialised()
    migrations.refuse_newer(project)
    state = project.store.state()
    document = valid_features(project)
    choice = selection.next_feature(document, state)
    if feature_id is not None:
        choice = selection.Choice(selection.chosen_feature(document, state, feature_id))
    prompt_type, reason = lifecycle.prompt_type(state)
    if prompt_type == "cleanup":
        choice = selection.Choice(CLEANUP)
    number = project.store.next_session()
    text = orientation_facts.orientation(project, state, choice, number)
    feature = choice.feature
    say = project.say
    say(f"Would run Session {number} with:")
    say(f"  Prompt type: {prompt_type} ({reason})")
    if feature and feature is not CLEANUP:
        say(f"  Feature: #{feature.id} ({feature.description})")
        say(f"  Test file: {feature.test_file}")
    say("\nOrientation summary that would be injected:\n")
    say(text)
    say("No changes made.")
    return {
        "session": number,
        "prompt_type": prompt_type,
        "reason": reason,
        "feature_id": feature and feature.feature_id,
        "test_file": feature and feature.test_file,
        "orientation": text,
    }
