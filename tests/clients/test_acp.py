"""A session of a real agent over the Agent Client Protocol; ``HARNESS_TEST_ACP`` is the command that starts one.

The agent takes the address and the key of its model from ``ANTHROPIC_BASE_URL`` and ``ANTHROPIC_API_KEY``, as
`claude-agent-acp` does. It is not among the pinned clients.
"""

import os
from pathlib import Path

import pytest

from .client import LIMIT_SECONDS, ClaudeCode, Client
from .features import client_project

COMMAND = os.environ.get("HARNESS_TEST_ACP", "")

pytestmark = [
    pytest.mark.client,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not COMMAND, reason="HARNESS_TEST_ACP names no agent"),
]


@pytest.mark.parametrize("client", [ClaudeCode.name], indirect=True)
def test_a_session_ends_with_a_verified_commit(client: Client, tmp_path: Path) -> None:
    calc = client_project(tmp_path, client)
    client.island.script("work", calc.honest(1), start="Feature #1")
    ran = calc.harness("run", agent=f"acp:{COMMAND}", timeout=LIMIT_SECONDS * 2)
    assert ran.code == 0, ran.text
    assert calc.passing() == [1]
    assert calc.remote() == calc.head
    calc.cross_cutting()
