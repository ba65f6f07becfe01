"""The room of a worker's machine: the slots that the SDK gets."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

NO_CONTEXT: Any = None


def test_beside_one_that_is_taken_a_worker_has_a_slot_only_where_there_is_room(tmp_path: Path) -> None:
    """SC-41: the first one always; a released slot is free again, and no more slots are given than exist."""
    room = pytest.importorskip("agent_harness.engines.temporal.room")
    scarce = room.MachineRoom(str(tmp_path), 1_000_000_000, 2)
    assert scarce.try_reserve_slot(NO_CONTEXT)
    assert scarce.try_reserve_slot(NO_CONTEXT) is None
    assert "1000000000 MB of memory are free" in scarce.news(1)
    assert scarce.news(1) is None  # once a minute
    scarce.release_slot(NO_CONTEXT)
    assert scarce.try_reserve_slot(NO_CONTEXT)
    gone = room.MachineRoom(str(tmp_path / "gone"), 0, 2)
    assert gone.try_reserve_slot(NO_CONTEXT)
    assert gone.try_reserve_slot(NO_CONTEXT) is None


def test_who_waits_for_a_slot_has_it_once_it_is_released(tmp_path: Path) -> None:
    """SC-41."""
    room = pytest.importorskip("agent_harness.engines.temporal.room")
    slots = room.MachineRoom(str(tmp_path), 1_000_000_000, 1)

    async def waits() -> None:
        await slots.reserve_slot(NO_CONTEXT)
        second = asyncio.ensure_future(slots.reserve_slot(NO_CONTEXT))
        await asyncio.sleep(0)
        assert not second.done()
        slots.release_slot(NO_CONTEXT)
        assert await asyncio.wait_for(second, 60)

    asyncio.run(waits())
