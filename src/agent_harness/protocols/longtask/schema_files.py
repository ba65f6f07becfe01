"""The JSON Schemas that are shipped for editors and other programs, made from the tables. Source: ``longtask.md`` 3."""

from __future__ import annotations

from agent_harness.protocols.longtask import schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Record = dict[str, Any]

__all__ = ["FILES", "documents"]

FILES: dict[str, tuple[str, str, Record]] = {
    "lth-task.schema.json": ("Long task", "task.json: the contract of a long task.", schema.TASK),
    "lth-checkpoint.schema.json": (
        "Checkpoint of a long task",
        "checkpoint.json: the state from which any worker resumes.",
        schema.CHECKPOINT,
    ),
    "lth-run-event.schema.json": ("Event of a long task", "One line of runs/YYYY-MM-DD.jsonl.", schema.RUN_EVENT),
    "lth-evidence-manifest.schema.json": (
        "Evidence manifest of a long task",
        "evidence/TYPE-manifest-STAMP.json: one piece of evidence.",
        schema.EVIDENCE_MANIFEST,
    ),
}
"""File name → title, description, table."""


def documents() -> dict[str, Record]:
    """Every schema by the name of its file."""
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {
        name: {"$schema": draft, "title": title, "description": description, **table}
        for name, (title, description, table) in FILES.items()
    }
