"""What the next run clears away after one that was killed; its state needs no repair, since every write is whole.

    lease that is over      retired (``runlock``)
    worker that goes on     ended, when its run id proves that it belongs to that lease
    temporary files         removed, when whoever wrote them is dead
    checkpoint, log         as they are: a checkpoint is old or new, a torn line is passed over

Source: ``longtask.md`` 14, 15.
"""

from __future__ import annotations

import os

from agent_harness.kernel import files
from agent_harness.protocols.longtask import log
from agent_harness.protocols.longtask.dirlock import DirectoryLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.protocols.longtask.layout import Layout

    Record = dict[str, Any]

__all__ = ["clear_away"]

_TEMPORARY = ".tmp."


def clear_away(layout: Layout, retired: Record | None) -> None:
    """Ends what is left of a run that died, and removes the halves of its writes. Call it with the lease in hand."""
    if retired is not None:
        from agent_harness.kernel.process import end_orphans

        ended = end_orphans({"run_id": retired.get("runId")})
        also = f"; {ended} processes of its worker were ended" if ended else ""
        log.warn(f"the run of {retired.get('owner') or 'somebody'} did not give its lease back{also}")
    with DirectoryLock(layout.root):
        for folder in (layout.root, layout.evidence, layout.runs):
            for name in os.listdir(folder) if os.path.isdir(folder) else ():
                if _TEMPORARY in name:
                    files.sweep(os.path.join(folder, name.partition(_TEMPORARY)[0]))
