"""Features that a person has to look at: their code is accepted, their mark waits for `harness manual-verify`.

    hybrid    the tests prove what they can; then a person confirms the rest
    manual    no test can prove it: the suite must hold, and a person confirms all of it

Source: features.md UAH-403, UAH-449..451, C13.
"""

from dataclasses import replace

from agent_harness.agents import usage
from agent_harness.kernel import clock, files
from agent_harness.protocols.features.engine import accept
from agent_harness.protocols.features.engine.open_session import OpenSession
from agent_harness.protocols.features.engine.settlement import Settlement
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Feature, SessionState
from agent_harness.protocols.features.verdict import screenshots
from agent_harness.protocols.features.verdict.ruling import Ruling


def accepted(project: Project, under_way: OpenSession, ruling: Ruling, used: usage.Totals) -> Settlement:
    """The work is on the branch; ``passes`` stays false, and ``awaiting_manual`` says why."""
    accept.put_back_features(project, under_way)
    document = project.store.features()
    if feature := document.by_id(under_way.feature_id):
        feature.record["awaiting_manual"] = {"session": under_way.session, "at": clock.timestamp()}
    files.write_json(project.layout.features, document.record)
    name = under_way.feature.name
    commit = accept.candidate(project, under_way, f"{name} awaits manual verification")
    settlement = accept.accepted(project, under_way, ruling.of(commit), used)
    state = SessionState(settlement.state)
    summary = {**(state.summary or {}), "completed": f"{name}, which awaits a person"}
    event = {
        "event_type": "awaiting_manual",
        "level": "important",
        "feature_id": under_way.feature_id,
        "commit": commit,
        "message": f"{name} awaits manual verification",
    }
    return replace(
        settlement,
        state=state.but(last_session_summary=summary, next_prompt="coding").record,
        proven=[f.id for f in under_way.features.passing],
        session_record={**settlement.session_record, "feature_completed": False},
        events=[event],
    )


def tell(project: Project, feature: Feature, session: int) -> None:
    """What the person is to do, with what the agent of that session has looked at, and how to say that it is done."""
    project.say(f"{feature.name} needs your verification ({feature.verification_type}).")
    for check in feature.manual_checks:
        project.say(f"- {check}")
    for path in screenshots.of_session(project, session):
        project.say(f"Screenshot: {path}")
    project.say(f"Then: harness manual-verify --feature {feature.id}")
