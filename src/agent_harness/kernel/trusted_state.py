"""State that affects the verdict on an agent's work, stored outside the project, in one folder for each project.

    $XDG_STATE_HOME/agent-harness/projects/NAME/     the state of one project; by default below ~/.local/state
    $XDG_STATE_HOME/agent-harness/limits/            rate limits for all projects of the user

NAME is the real path of a file or folder that identifies the project, so each work tree has its own folder. Its
``place.json`` contains the project's path. A project that was moved or copied has no state here. If the folder cannot
be written, a folder for temporary files is used. It is never inside the project, and never belongs to another user.
Imports in this module slow down ``status``.

The folder stops well-behaved agents and careless commands, not a program of the same user that searches for it."""

import os
import time

from agent_harness.errors import HarnessError, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent_harness.kernel.project_signs import Kind

PLACE = "place.json"
_LONGEST_NAME = 200  # bytes; file systems take 255, and backups have longer names
_SEEN_SECONDS = 86_400.0  # between two notes that a project was seen
_SIGNS: "dict[str, Kind]" = {".git": "features", "harness-tasks.json": "tasklist", "task.json": "longtask"}
"""Names of the files and folders that identify a project, each with the kind of project."""


def existing(place: str, project: str, *, writable: bool = True) -> str | None:
    """Return the state folder of the project at ``place``, or ``None`` if no usable folder exists."""
    found = (folder for folder in _folders(place, project) if os.path.isdir(folder))
    # in an agent's sandbox, a folder that can only be read is enough
    return next((folder for folder in found if _is_mine(_base(folder), folder, writable=writable)), None)


def make(place: str, project: str) -> tuple[str | None, str | None]:
    """Create the state folder. Return the folder, or ``None`` if no folder outside the project is writable,
    and a warning if it is not the default folder."""
    only_read = existing(place, project, writable=False)
    for folder in _folders(place, project):
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        except OSError:
            continue
        if _is_ours(folder):
            # in an agent's sandbox, the default folder is read-only, and no use is recorded
            if only_read in (None, folder):
                _note(folder, place, project)
            return folder, None if _base(folder) == usual_base() else _elsewhere(folder)
    return None, _elsewhere("the project; after a crash it is not trusted")


def _note(folder: str, place: str, project: str) -> None:
    """Update the record of the project in its state folder, at most once a day."""
    path = os.path.join(folder, PLACE)
    try:
        if 0 <= time.time() - os.lstat(path).st_mtime < _SEEN_SECONDS:
            return
    except OSError:
        pass
    from agent_harness.kernel import clock, files

    kind = _SIGNS.get(os.path.basename(place), "features")  # git's folder of a linked work tree bears its name
    try:
        files.write_json(path, {"path": os.path.realpath(project), "kind": kind, "seen": clock.timestamp()})
    except (OSError, ValueError, HarnessError):  # a full disk, or a path that is not text
        return


class Place:
    """State folder of one project, with the project's path, kind and last use."""

    __slots__ = ("folder", "kind", "path", "seen")

    def __init__(self, folder: str, path: str | None, kind: "Kind | None", seen: str) -> None:
        self.folder = folder
        self.path = path
        self.kind = kind
        self.seen = seen  # a timestamp

    @property
    def gone(self) -> bool:
        """True if the project's recorded path no longer contains a project."""
        from agent_harness.kernel import project_signs

        return self.path is not None and not project_signs.is_left(self.path, self.kind)


def places() -> list[Place]:
    """Return the state folders of this user's projects, most recently used first."""
    folders = [folder for base in _bases() for folder in _entries(os.path.join(base, "projects"))]
    # sandboxed commands leave folders without a record among the temporary files
    known = (each for each in folders if _base(each) == usual_base() or os.path.lexists(os.path.join(each, PLACE)))
    own = tuple(os.path.join(os.path.realpath(base), "projects", "") for base in _bases())
    found = (
        each for each in map(_place, known) if not (each.path or "").startswith(own)
    )  # not inside the state folders themselves
    return sorted(found, key=lambda each: each.seen, reverse=True)


def _entries(projects: str) -> "Iterator[str]":
    try:
        names = [] if os.path.islink(projects) else sorted(os.listdir(projects))
    except OSError:
        return
    for name in names:
        folder = os.path.join(projects, name)
        if os.path.isdir(folder) and _is_ours(folder):
            yield folder


def _place(folder: str) -> Place:
    from agent_harness.kernel import clock, files

    record: dict[str, object]
    try:
        record = files.read_json(os.path.join(folder, PLACE))
    except (OSError, HarnessError):
        record = {}
    path, at = record.get("path"), clock.parse(record.get("seen"))
    kind = next((each for each in _SIGNS.values() if each == record.get("kind")), None)
    seen = clock.timestamp(at or clock.moment(os.lstat(folder).st_mtime))
    if isinstance(path, str) and os.path.isabs(path) and kind:
        return Place(folder, path, kind, seen)
    # without a record, the name tells the path
    name = os.path.basename(folder)
    path, sign = os.path.split(name.replace("%", os.sep))
    if "%25" in name or not os.path.isabs(path) or sign not in _SIGNS:
        return Place(folder, None, None, seen)
    return Place(folder, path, _SIGNS[sign], seen)


def forget(place: Place) -> None:
    """Remove the stored state of a deleted project. Raise ``Refused`` if the project may still exist."""
    if place.path is None:
        raise Refused(
            f"{place.folder} does not record which project it belongs to",
            hint="check the content of the folder, then delete the folder",
        )
    if not place.gone:
        raise Refused(f"{place.path} is still a project, so its state was kept", hint="harness uninstall --help")
    import shutil

    if not _is_ours(place.folder):
        raise Refused(f"{place.folder} is not a folder that you own", hint="harness projects")
    try:
        shutil.rmtree(place.folder)
    except OSError as error:
        raise Refused(f"{error.filename or place.folder} cannot be removed: {error.strerror}") from None


def of_user(name: str, *, project: str | None = None, make: bool = True) -> str | None:
    """Return the folder ``name`` that this user's projects share, or ``None`` without a usable folder."""
    for base in _outside(project) if project else _bases():
        folder = os.path.join(base, name)
        try:
            if make:
                os.makedirs(folder, mode=0o700, exist_ok=True)
        except OSError:
            continue
        if _is_mine(base, folder):
            return folder
    return None


def removed(project: str) -> str | None:
    """Return a new path for data that the harness removes from a project, or ``None``."""
    from agent_harness.kernel import clock

    home = of_user("removed", project=project)
    stamp = clock.now().strftime("%Y%m%dT%H%M%S-%f")
    return os.path.join(home, f"{os.path.basename(project) or 'project'}-{stamp}") if home else None


def set_aside(place: str, project: str) -> str | None:
    """Move an earlier project's state away. Return its new path, or ``None`` if nothing was moved."""
    folder = existing(place, project)
    to = removed(project) if folder else None
    if folder is None or to is None:
        return None
    import shutil

    kept = os.path.join(to, "state", os.path.basename(folder))
    try:
        os.makedirs(os.path.dirname(kept), mode=0o700, exist_ok=True)
        shutil.move(folder, kept)
    except OSError:
        return None
    return kept


def made_inside(folder: str, name: str) -> str:
    """Return the path of the subfolder ``name``, and create the folder if it is missing."""
    path = os.path.join(folder, name)
    if os.path.islink(path):
        os.unlink(path)
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def name_of(place: str) -> str:
    """Return the name of the state folder for the path ``place``."""
    real = os.path.realpath(place)
    name = real.replace("%", "%25").replace(os.sep, "%")
    if len(os.fsencode(name)) <= _LONGEST_NAME:
        return name
    from hashlib import sha256

    return sha256(os.fsencode(real)).hexdigest()


def _folders(place: str, project: str) -> list[str]:
    return [os.path.join(base, "projects", name_of(place)) for base in _outside(project)]


def _outside(project: str) -> list[str]:
    inside = os.path.join(os.path.realpath(project), "")
    return [base for base in _bases() if not os.path.realpath(base).startswith(inside)]


def _bases() -> list[str]:
    temporary = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108  (of this user alone, or not used)
    places = (usual_base(), os.path.join(temporary, f"agent-harness-{os.getuid()}"))
    return [place for place in places if os.path.isabs(place)]


def usual_base() -> str:
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(home, "agent-harness")


def _elsewhere(place: str) -> str:
    usual = usual_base()
    shown = usual if os.path.isabs(usual) else f"{usual} (not an absolute path)"
    return f"{shown} cannot be used; session records are kept in {place}."


def _base(folder: str) -> str:
    return os.path.dirname(os.path.dirname(folder))


def _is_ours(folder: str) -> bool:
    return _is_mine(_base(folder), folder)


def may_write(folder: str) -> bool:
    """Return True if files can be created in the folder."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    try:
        # tried, because ``access`` ignores Landlock
        os.close(os.open(folder, os.O_WRONLY | getattr(os, "O_TMPFILE", os.O_DIRECTORY), 0o600))
    except PermissionError:
        return False
    except OSError:  # a disk without unnamed files, or a full one
        return True
    return True


def _is_mine(base: str, folder: str, *, writable: bool = True) -> bool:
    try:
        found = [os.lstat(path) for path in (base, folder)]
    except OSError:
        return False
    mine = all(each.st_uid == os.getuid() and not os.path.islink(folder) for each in found)
    return mine and (may_write(folder) if writable else os.access(folder, os.R_OK | os.X_OK))
