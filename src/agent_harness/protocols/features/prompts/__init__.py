"""The prompts that agents are given; the texts lie beside this file and hold ``{{name}}`` places.

``orientation`` is the summary of the project. Source: features.md section K; UAH-403, UAH-434..451 for the verification
types.
"""

from collections.abc import Iterable, Mapping
from importlib.resources import files

from agent_harness.protocols.features.records import Feature

NAMES = ("initializer", "repair", "coding", "continuation", "cleanup", "extend", "rules", "fix", "evidence")


def render(name: str, values: Mapping[str, str]) -> str:
    """The text of one prompt with its places filled; an unknown place is a ``KeyError``."""
    text = files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    parts = text.split("{{")
    filled = [parts[0]]
    for part in parts[1:]:
        place, _, rest = part.partition("}}")
        filled.append(values[place.strip()] + rest)
    return "".join(filled)


# -- how a feature is verified -----------------------------------------------------------------------------------------


def note_for_agent(feature: Feature, screenshots: str) -> str:
    """What the agent is told about a feature that is looked at; empty for one that tests alone prove (UAH-447).

    ``screenshots`` is the folder of the project in which images are left.
    """
    return _free_files(feature) + _look(feature, screenshots) + _person(feature)


def _free_files(feature: Feature) -> str:
    """Which protected files this feature is meant to change."""
    if not feature.may_change:
        return ""
    return f"\nA person allows this feature to change, beside its own files: {', '.join(feature.may_change)}\n"


def _look(feature: Feature, screenshots: str) -> str:
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
            f"Leave images in `{screenshots}/` and nowhere else: git does not see that folder, and it is yours.\n",
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
