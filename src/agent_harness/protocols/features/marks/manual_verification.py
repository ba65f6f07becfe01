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
from agent_harness.protocols.features import records
from agent_harness.protocols.features.engine import accept
from agent_harness.protocols.features.engine.open_session import OpenSession
from agent_harness.protocols.features.engine.settlement import Settlement
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.prompts import verification_types
from agent_harness.protocols.features.verdict import screenshots
from agent_harness.protocols.features.verdict.ruling import Ruling


def accepted(project: Project, under_way: OpenSession, ruling: Ruling, used: usage.Totals) -> Settlement:
    """The work is on the branch; ``passes`` stays false, and ``awaiting_manual`` says why."""
    accept.put_back_features(project, under_way)
    document = project.store.features()
    feature = records.feature_by_id(document, under_way.feature_id or 0)
    if feature is not None:
        feature["awaiting_manual"] = {"session": under_way.session, "at": clock.timestamp()}
    files.write_json(project.layout.features, document)
    name = accept.feature_name(under_way.feature)
    commit = accept.candidate(project, under_way, f"{name} awaits manual verification")
    settlement = accept.accepted(project, under_way, ruling.of(commit), used)
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
    project.say(f"Feature #{feature['id']} needs your verification ({verification_types.kind(feature)}).")
    for check in feature.get("manual_checks") or []:
        project.say(f"- {check}")
    for path in screenshots.of_session(project, session):
        project.say(f"Screenshot: {path}")
    project.say(f"Then: harness manual-verify --feature {feature['id']}")
