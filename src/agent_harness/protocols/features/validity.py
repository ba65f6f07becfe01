"""features.json, as it must be before anything works on it."""

from agent_harness.errors import ConfigurationError
from agent_harness.protocols.features import questions, records
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import FeatureList


def valid_features(project: Project) -> FeatureList:
    """features.json; ``ConfigurationError`` that names what is wrong in it."""
    document = project.store.features()
    found = records.problems(document, require_test_file=project.config.features.require_test_file)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        asked = questions.of_cycle(document)
        hint = f"edit {project.features_name}" + (f", or {questions.hint(asked)}" if asked else "")
        raise ConfigurationError(found[0] + more, hint=hint, problems=found, escalation=asked)
    return document
