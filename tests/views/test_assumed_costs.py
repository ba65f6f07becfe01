"""`harness costs` names the models that the harness prices itself, and the command for exact prices."""

import sys

import pytest

from agent_harness.session.project_view import PastSession, ProjectView, StatePart
from agent_harness.views import costs


def test_the_models_that_are_priced_by_our_own_list_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    session = PastSession(number=1, item=None, outcome="x", model="gpt-5.5, mine", cost_usd=0.5)
    view = ProjectView(kind="features", path="/p", state=StatePart(), sessions=(session,))
    assert costs.read(view)["assumed_models"] == []
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    found = costs.read(view)
    assert found["assumed_models"] == ["gpt-5.5"]
    said = "\n".join(costs.lines(found))
    assert "Assumed     gpt-5.5: the client reports no cost, so built-in prices are used" in said and "[api]" in said
