"""Features that a person has to look at: their code is accepted, their mark waits for `harness manual-verify`.

    hybrid    the tests prove what they can; then a person confirms the rest
    manual    no test can prove it: the suite must hold, and a person confirms all of it

Source: features.md UAH-403, UAH-449..451, C13.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent_harness.agents import usage
from agent_harness.kernel import clock, files
from agent_harness.protocols.features import endings, records, screenshots
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.ruling import Ruling
from agent_harness.protocols.features.settle import Settlement
from agent_harness.protocols.features.underway import UnderWay

Record = dict[str, Any]

KINDS = ("automated", "hybrid", "manual")


def kind(feature: Mapping[str, Any]) -> str:
    """How the feature is verified; what is no known word counts as automated."""
    found = feature.get("verification_type")
    return found if isinstance(found, str) and found in KINDS else "automated"


def accepted(project: Project, under_way: UnderWay, ruling: Ruling, used: usage.Totals) -> Settlement:
    """The work is on the branch; ``passes`` stays false, and ``awaiting_manual`` says why."""
    endings.put_back_features(project, under_way)
    document = project.store.features()
    feature = records.feature_by_id(document, under_way.feature_id or 0)
    if feature is not None:
        feature["awaiting_manual"] = {"session": under_way.session, "at": clock.timestamp()}
    files.write_json(project.layout.features, document)
    name = endings.feature_name(under_way.feature)
    commit = endings.candidate(project, under_way, f"{name} awaits manual verification")
    settlement = endings.accepted(project, under_way, ruling.of(commit), used)
    summary = {**settlement.state["last_session_summary"], "completed": f"{name}, which awaits a person"}
    event = {
        "event_type": "awaiting_manual",
        "level": "important",
        "feature_id": under_way.feature_id,
        "commit": commit,
        "message": f"{name} awaits manual verification",
    }
    return replace(
        settlement,
        state={**settlement.state, "last_session_summary": summary, "next_prompt": "coding"},
        proven=[f["id"] for f in records.features_of(under_way.features) if records.passes(f)],
        session_record={**settlement.session_record, "feature_completed": False},
        events=[event],
    )


def tell(project: Project, feature: Mapping[str, Any], session: int) -> None:
    """What the person is to do, with what the agent of that session has looked at, and how to say that it is done."""
    project.say(f"Feature #{feature['id']} needs your verification ({kind(feature)}).")
    for check in feature.get("manual_checks") or []:
        project.say(f"- {check}")
    for path in screenshots.of_session(project, session):
        project.say(f"Screenshot: {path}")
    project.say(f"Then: harness manual-verify --feature {feature['id']}")


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
