"""Feature sessions of real clients through ``harness run``: from the prompt to a verified commit."""

from pathlib import Path

import pytest

from .client import Client
from .features import ClientWorld, client_world

pytestmark = pytest.mark.client

CODING = "Feature #1"


@pytest.fixture
def world(client: Client, tmp_path: Path) -> ClientWorld:
    """A project with one feature."""
    return client_world(tmp_path, client)


def test_a_session_ends_with_a_verified_commit(world: ClientWorld) -> None:
    """The client is found on PATH by its kind, and its work is accepted and pushed."""
    world.client.island.script("work", world.honest(1), start=CODING)
    ran = world.harness_run()
    assert ran.code == 0, ran.text
    assert world.passing() == [1]
    assert world.remote() == world.head
    assert world.costs["cumulative"]["total_tokens"]["input"] > 0
    world.cross_cutting()
