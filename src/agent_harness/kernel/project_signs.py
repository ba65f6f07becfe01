"""The files by which a project is known, and its kind. Source: ``tasklist.md`` 2."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Kind = Literal["tasklist", "features", "longtask"]

__all__ = ["LIST", "SIGNS", "is_left"]

LIST = "harness-tasks.json"

SIGNS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("tasklist", ("harness-tasks.json",)),
    ("features", (".harness.yaml",)),
    ("features", ("features.json", ".harness/")),
    ("longtask", ("task.json", "checkpoint.json")),
    ("tasklist", ("harness-tasks.json.bak",)),
)
"""A task list whose file is gone is known by its backup; the nearest folder counts, and in it the first that fits.

Where nothing is found, a list whose files are all gone is known by the copy that is kept of it outside of its folder.
"""


def is_left(folder: str, kind: Kind | None) -> bool:
    """Whether a folder has any of the files by which a project of this kind is known; not all are needed."""
    names = [name for known, names in SIGNS if known == kind for name in names]
    return any(os.path.lexists(os.path.join(folder, name)) for name in names)
