"""The prompts of a session on a feature, and what the session has changed so far.

Source: features.md sections K, N, Q, R, V.
"""

import os

from agent_harness.kernel.redact import redact
from agent_harness.protocols.features import prompts
from agent_harness.protocols.features.engine.open_session import OpenSession
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.prompts import verification_types

FEEDBACK_CHARACTERS = 6000


# -- prompts -----------------------------------------------------------------------------------------------------------


def opening_prompt(project: Project, under_way: OpenSession, orientation: str) -> str:
    """The coding or continuation prompt with the orientation in it."""
    values = _places(project, under_way)
    text = prompts.render(
        under_way.prompt_type,
        {
            **values,
            "orientation": orientation,
            "rules": prompts.render("rules", {"state_dir": project.state_name}),
            "suite_command": str(project.config.testing.full),
            "lint": project.config.testing.sanity.lint or "no linter is configured",
            "sanity": _sanity(project),
            "progress_file": project.progress_name,
            "feature_name": f"Feature #{under_way.feature_id}",
            "session": str(under_way.session),
        },
    )
    return text + verification_types.note_for_agent(under_way.feature)


def _sanity(project: Project) -> str:
    """The other quick checks that the settings name, each as a command (UAH-154, UAH-156..158).

    Those of folders that are not there are left out.
    """
    testing = project.config.testing
    named = (testing.sanity.type_check, testing.sanity.health, testing.unit, testing.e2e)
    commands = dict.fromkeys(c for c in named if c and c != testing.full and _has_its_folder(project, c))
    return "".join(f", `{command}`" for command in commands)


def _has_its_folder(project: Project, command: str) -> bool:
    paths = [word for word in command.split() if word.startswith(("tests/", "test/", "./"))]
    return all(os.path.exists(project.root / path) for path in paths)


def fix_prompt(project: Project, under_way: OpenSession, *, failure: str, output: str, fix_round: int) -> str:
    """What the harness saw, for the next fix round (C03 a)."""
    return prompts.render(
        "fix",
        {
            **_places(project, under_way),
            "round": str(fix_round),
            "rounds": str(project.config.verification.fix_rounds),
            "reason": failure,
            "output": redact(output)[-FEEDBACK_CHARACTERS:].replace("```", "'''"),
        },
    )


def evidence_prompt(project: Project, under_way: OpenSession) -> str:
    """Asks once for the output that a claim needs (C20)."""
    values = _places(project, under_way)
    return prompts.render("evidence", {**values, "test_file": under_way.feature.test_file})


def _places(project: Project, under_way: OpenSession) -> dict[str, str]:
    return {
        "feature": str(under_way.feature_id),
        "description": under_way.feature.description,
        "test_command": project.config.test_command(under_way.feature.test_file),
        "features_file": project.features_name,
    }
