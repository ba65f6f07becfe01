"""Where the harness keeps what decides over an agent's work: outside the project, one folder a project.

    $XDG_STATE_HOME/agent-harness/projects/NAME/     by default below ~/.local/state
    $XDG_STATE_HOME/agent-harness/limits/            what concerns all projects of the user

NAME is the real path of a place that stands for the project, so that each work tree has its own folder, and
``place.json`` in it says which project that is. A project that was moved or copied has nothing here. Where the place
cannot be written, the folder for temporary files is next; a place inside the project, or of another user, is none.
Imports stay on the hot path of ``status``.

This keeps honest agents and careless commands out, not a program of the same user that knows where to look.
"""

import os
import time

from agent_harness.errors import HarnessError, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent_harness.kernel.project_signs import Kind

__all__ = [
    "Place",
    "existing",
    "forget",
    "made_inside",
    "make",
    "may_write",
    "name_of",
    "of_user",
    "places",
    "removed",
    "set_aside",
    "usual_base",
]

PLACE = "place.json"
_LONGEST_NAME = 200  # bytes; file systems take 255, and backups have longer names
_SEEN_SECONDS = 86_400.0  # how long it is not written again that a project was seen
_SIGNS: "dict[str, Kind]" = {".git": "features", "harness-tasks.json": "tasklist", "task.json": "longtask"}
"""What the place of a project is called, by which its kind is known."""


def existing(place: str, project: str, *, writable: bool = True) -> str | None:
    """The folder of the project that ``place`` stands for, when a harness has made one; nothing is made here.

    Without ``writable`` it may be one that can only be read, as in the sandbox of an agent.
    """
    found = (folder for folder in _folders(place, project) if os.path.isdir(folder))
    return next((folder for folder in found if _is_mine(_base(folder), folder, writable=writable)), None)


def make(place: str, project: str) -> tuple[str | None, str | None]:
    """The project's folder, made where it is missing, and a line for the person when it is not at the usual place.

    ``None`` when no place outside the project can be written. That the project was seen is noted once a day, but for a
    command that an agent calls in its sandbox, where the usual place is there and can only be read.
    """
    only_read = existing(place, project, writable=False)
    for folder in _folders(place, project):
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        except OSError:
            continue
        if _is_ours(folder):
            if only_read in (None, folder):
                _note(folder, place, project)
            return folder, None if _base(folder) == usual_base() else _elsewhere(folder)
    return None, _elsewhere("the project, where one that a crash leaves behind is not believed")


def _note(folder: str, place: str, project: str) -> None:
    """Writes whose folder this is, where it does not say so, or has said so for a day; one look otherwise."""
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
    except (OSError, ValueError, HarnessError):  # a full disk, or a path that is no text
        return


class Place:
    """The folder of one project, and what it says of it; what is not known is ``None``."""

    __slots__ = ("folder", "kind", "path", "seen")

    def __init__(self, folder: str, path: str | None, kind: "Kind | None", seen: str) -> None:
        self.folder = folder
        self.path = path
        self.kind = kind
        self.seen = seen  # a timestamp

    @property
    def gone(self) -> bool:
        """Whether nothing of such a project is at its path any more."""
        from agent_harness.kernel import project_signs

        return self.path is not None and not project_signs.is_left(self.path, self.kind)


def places() -> list[Place]:
    """The folders of all projects of this user, the one seen last first; links and files of others are passed over.

    So is what commands in an agent's sandbox have left in the temporary folder: it says of no project that it is one.
    """
    folders = [folder for base in _bases() for folder in _entries(os.path.join(base, "projects"))]
    known = (each for each in folders if _base(each) == usual_base() or os.path.lexists(os.path.join(each, PLACE)))
    own = tuple(os.path.join(os.path.realpath(base), "projects", "") for base in _bases())
    found = (
        each for each in map(_place, known) if not (each.path or "").startswith(own)
    )  # not where agents are lent one
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
    """By ``place.json``; a folder of an older version is known by its name, where that says it without a doubt."""
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
    name = os.path.basename(folder)
    path, sign = os.path.split(name.replace("%", os.sep))
    if "%25" in name or not os.path.isabs(path) or sign not in _SIGNS:
        return Place(folder, None, None, seen)
    return Place(folder, path, _SIGNS[sign], seen)


def forget(place: Place) -> None:
    """Removes the folder of a project that is gone, with all that is in it; links in it are not followed.

    ``Refused`` while the project is there, or where it is not known which one it was.
    """
    if place.path is None:
        raise Refused(f"{place.folder} does not say whose it is", hint="look into it, and remove it yourself")
    if not place.gone:
        raise Refused(f"{place.path} is still a project; its state was kept", hint="harness uninstall --help")
    import shutil

    if not _is_ours(place.folder):
        raise Refused(f"{place.folder} is not a folder of yours", hint="harness projects")
    try:
        shutil.rmtree(place.folder)
    except OSError as error:
        raise Refused(f"{error.filename or place.folder} cannot be removed: {error.strerror}") from None


def of_user(name: str, *, project: str | None = None, make: bool = True) -> str | None:
    """The folder of that name for all projects of this user, made where it is missing; ``None`` without a place.

    A place inside ``project``, the one that is worked on now, is none. Without ``make``, only one that is there.
    """
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
    """A new name for what is taken out of a project, in the folder for that; ``None`` without a place."""
    from agent_harness.kernel import clock

    home = of_user("removed", project=project)
    stamp = clock.now().strftime("%Y%m%dT%H%M%S-%f")
    return os.path.join(home, f"{os.path.basename(project) or 'project'}-{stamp}") if home else None


def set_aside(place: str, project: str) -> str | None:
    """Takes away what is kept of a project that was here before the one that begins; where it is now.

    ``None`` where nothing is kept, or where it cannot be moved.
    """
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
    """The folder of that name in one of ours, made where it is missing; a link in its place is removed, not followed.

    ``OSError`` where the disk says no.
    """
    path = os.path.join(folder, name)
    if os.path.islink(path):
        os.unlink(path)
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def name_of(place: str) -> str:
    """The name of a project's folder: the real path of its place on one line, or a digest where that is too long."""
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
    """Where folders of ours may be, the usual place first."""
    temporary = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108  (of this user alone, or not used)
    places = (usual_base(), os.path.join(temporary, f"agent-harness-{os.getuid()}"))
    return [place for place in places if os.path.isabs(place)]


def usual_base() -> str:
    """Where everything is, unless that place cannot be written."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(home, "agent-harness")


def _elsewhere(place: str) -> str:
    usual = usual_base()
    shown = usual if os.path.isabs(usual) else f"{usual} (not an absolute path)"
    return f"{shown} cannot be used; the record of sessions is kept in {place}."


def _base(folder: str) -> str:
    return os.path.dirname(os.path.dirname(folder))


def _is_ours(folder: str) -> bool:
    return _is_mine(_base(folder), folder)


def may_write(folder: str) -> bool:
    """Whether this process may make files in a folder: the answer of the kernel to a try, since Landlock is not asked
    by ``access``. Nothing is left of it."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    try:
        os.close(os.open(folder, os.O_WRONLY | getattr(os, "O_TMPFILE", os.O_DIRECTORY), 0o600))
    except PermissionError:
        return False
    except OSError:  # a disk without unnamed files, or a full one
        return True
    return True


def _is_mine(base: str, folder: str, *, writable: bool = True) -> bool:
    """Of this user from the base on, no link, and writable where that is wanted."""
    try:
        found = [os.lstat(path) for path in (base, folder)]
    except OSError:
        return False
    mine = all(each.st_uid == os.getuid() and not os.path.islink(folder) for each in found)
    return mine and (may_write(folder) if writable else os.access(folder, os.R_OK | os.X_OK))
