"""Files that show that a folder is a project, and of which kind. Source: ``tasklist.md`` 2."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Kind = Literal["tasklist", "features", "longtask"]

LIST = "harness-tasks.json"

SIGNS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("tasklist", ("harness-tasks.json",)),
    ("features", (".harness.yaml",)),
    ("features", ("features.json", ".harness/")),
    ("longtask", ("task.json", "checkpoint.json")),
    ("tasklist", ("harness-tasks.json.bak",)),
)
"""Files that identify each kind of project. In the nearest folder with such a file, the first match decides. A task
list without its file is recognised by its backup, or by its copy outside the folder if nothing else is found."""


def is_left(folder: str, kind: Kind | None) -> bool:
    """Return True if ``folder`` still has a file by which the harness recognizes a ``kind`` project."""
    names = [name for known, names in SIGNS if known == kind for name in names]
    return any(os.path.lexists(os.path.join(folder, name)) for name in names)
