"""What the agent is told of how a feature is verified: by tests, by looking, by a person.

Source: features.md UAH-403, UAH-447, UAH-449..451.
"""

from collections.abc import Iterable

from agent_harness.protocols.features.records import Feature


def note_for_agent(feature: Feature) -> str:
    """What the agent is told about a feature that is looked at; empty for one that tests alone prove (UAH-447)."""
    return _look(feature) + _person(feature)


def _look(feature: Feature) -> str:
    """How the agent looks at the feature itself."""
    if feature.visual_steps is None:
        return ""
    return "\n".join(
        [
            "\nLook at this feature too, with a browser tool if you have one.",
            "First run its test file. Only when it passes:",
            *_listed(feature.visual_steps),
            "Go to the page, take a screenshot before and after each step, describe what you see, and show it:",
            "\n    [VISUAL:SCREENSHOT] path of the image\n    [VISUAL:VERIFY] what you saw\n",
        ]
    )


def _person(feature: Feature) -> str:
    """What a person does after the agent."""
    if feature.verification_type == "automated":
        return ""
    told = "\nA person verifies this feature after you. Mark it as usual when it is built; the harness keeps it open."
    proof = "" if feature.verification_type == "hybrid" else "\nNo test has to prove it."
    mine = ["You check:", *_listed(feature.automated_checks)] if feature.automated_checks else []
    theirs = ["The person will check:", *_listed(feature.manual_checks)] if feature.manual_checks else []
    return "\n".join([f"{told}{proof}", *mine, *theirs]) + "\n"


def _listed(checks: Iterable[str]) -> list[str]:
    return [f"- {check}" for check in checks]
