"""How a feature is verified, and what its agent is told of that: by tests, by looking, by a person.

Source: features.md UAH-403, UAH-447, UAH-449..451.
"""

from collections.abc import Mapping
from typing import Any

KINDS = ("automated", "hybrid", "manual")


def kind(feature: Mapping[str, Any]) -> str:
    """How the feature is verified; what is no known word counts as automated."""
    found = feature.get("verification_type")
    return found if isinstance(found, str) and found in KINDS else "automated"


def note_for_agent(feature: Mapping[str, Any]) -> str:
    """What the agent is told about a feature that is looked at; empty for one that tests alone prove (UAH-447)."""
    return _look(feature) + _person(feature)


def _look(feature: Mapping[str, Any]) -> str:
    """How the agent looks at the feature itself."""
    wanted = feature.get("visual_verification")
    if not isinstance(wanted, Mapping) or not wanted.get("enabled"):
        return ""
    return "\n".join(
        [
            "\nLook at this feature too, with a browser tool if you have one.",
            "First run its test file. Only when it passes:",
            *_listed(wanted.get("steps")),
            "Go to the page, take a screenshot before and after each step, describe what you see, and show it:",
            "\n    [VISUAL:SCREENSHOT] path of the image\n    [VISUAL:VERIFY] what you saw\n",
        ]
    )


def _person(feature: Mapping[str, Any]) -> str:
    """What a person does after the agent."""
    if kind(feature) == "automated":
        return ""
    own, checks = _listed(feature.get("automated_checks")), _listed(feature.get("manual_checks"))
    told = "\nA person verifies this feature after you. Mark it as usual when it is built; the harness keeps it open."
    proof = "" if kind(feature) == "hybrid" else "\nNo test has to prove it."
    mine = ["You check:", *own] if own else []
    theirs = ["The person will check:", *checks] if checks else []
    return "\n".join([f"{told}{proof}", *mine, *theirs]) + "\n"


def _listed(checks: object) -> list[str]:
    return [f"- {check}" for check in checks] if isinstance(checks, list) else []
