"""What an agent has looked at: its screenshots are kept with their session, for a person to look at too.

A copy of each image that the agent names with ``[VISUAL:SCREENSHOT]`` goes to ``.harness/screenshots/session-N/``; the
event tells of session, feature and digest. Source: features.md UAH-092, UAH-448, C59.
"""

import os
import shutil
from collections.abc import Iterable

from agent_harness.errors import HarnessError
from agent_harness.kernel import files
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.store import free_name, own_place

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif")
MOST_BYTES = 20_000_000
MOST = 50  # of one turn


def keep(project: Project, session: int, feature_id: int | None, named: Iterable[str]) -> list[str]:
    """Copies the images that a turn has named; the kept paths, relative to the project. The others are told of."""
    kept: list[str] = []
    for path in list(dict.fromkeys(named))[:MOST]:
        fields = {"session": session, "feature_id": feature_id, "path": path}
        source = _image(project, path)
        if source is None:
            project.store.event("screenshot_missing", message=f"no image of the project: {path}", **fields)
            continue
        try:
            copy = _copied(project, session, source)
        except (OSError, HarnessError) as error:
            project.store.event("screenshot_missing", message=str(error), **fields)
            continue
        kept.append(project.layout.relative(copy))
        project.store.event("screenshot_kept", kept=kept[-1], sha256=files.digest(copy), **fields)
    return kept


def of_session(project: Project, session: int) -> list[str]:
    """The images kept of a session, relative to the project."""
    folder = _folder(project, session)
    if os.path.islink(folder) or not os.path.isdir(folder):
        return []
    return [project.layout.relative(os.path.join(folder, name)) for name in sorted(os.listdir(folder))]


def _folder(project: Project, session: int) -> str:
    return os.path.join(project.layout.screenshots, f"session-{session}")


def _image(project: Project, path: str) -> str | None:
    """The absolute path of an image inside the project; ``None`` for anything else. Links lead nowhere."""
    root = os.path.realpath(project.root)
    try:
        found = os.path.join(root, path)
        real = os.path.realpath(found)
        whole = os.path.isfile(real) and not os.path.islink(found) and os.path.getsize(real) <= MOST_BYTES
    except (OSError, ValueError):
        return None
    inside = real.startswith(root + os.sep) and real.lower().endswith(SUFFIXES)
    return real if whole and inside else None


def _copied(project: Project, session: int, source: str) -> str:
    target = os.path.join(_folder(project, session), os.path.basename(source))
    own_place(target, project.layout.root)
    target = free_name(target)
    shutil.copyfile(source, target)
    return target
