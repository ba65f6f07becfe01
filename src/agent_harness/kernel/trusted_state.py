"""Where the harness keeps what decides over an agent's work: outside the project, one folder a project.

    $XDG_STATE_HOME/agent-harness/projects/NAME/     by default below ~/.local/state
    $XDG_STATE_HOME/agent-harness/limits/            what concerns all projects of the user

NAME is the real path of a place that stands for the project, so that each work tree has its own folder. A project that
was moved or copied has nothing here. Where the place cannot be written, the folder for temporary files is next; a place
inside the project, or of another user, is none. Imports stay on the hot path of ``status``.

This keeps honest agents and careless commands out, not a program of the same user that knows where to look.
"""

import os

__all__ = ["existing", "make", "name_of", "of_user"]

_LONGEST_NAME = 200  # bytes; file systems take 255, and backups have longer names


def existing(place: str, project: str) -> str | None:
    """The folder of the project that ``place`` stands for, when a harness has made one; nothing is made here."""
    return next((f for f in _folders(place, project) if os.path.isdir(f) and _is_ours(f)), None)


def make(place: str, project: str) -> tuple[str | None, str | None]:
    """The project's folder, made where it is missing, and a line for the person when it is not at the usual place.

    ``None`` when no place outside the project can be written.
    """
    for folder in _folders(place, project):
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        except OSError:
            continue
        if _is_ours(folder):
            return folder, None if _base(folder) == _usual_base() else _elsewhere(folder)
    return None, _elsewhere("the project, where one that a crash leaves behind is not believed")


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
    places = (_usual_base(), os.path.join(temporary, f"agent-harness-{os.getuid()}"))
    return [place for place in places if os.path.isabs(place)]


def _usual_base() -> str:
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(home, "agent-harness")


def _elsewhere(place: str) -> str:
    usual = _usual_base()
    shown = usual if os.path.isabs(usual) else f"{usual} (not an absolute path)"
    return f"{shown} cannot be used; the record of sessions is kept in {place}."


def _base(folder: str) -> str:
    return os.path.dirname(os.path.dirname(folder))


def _is_ours(folder: str) -> bool:
    return _is_mine(_base(folder), folder)


def _is_mine(base: str, folder: str) -> bool:
    """Of this user from the base on, no link, and writable."""
    try:
        found = [os.lstat(path) for path in (base, folder)]
    except OSError:
        return False
    mine = all(each.st_uid == os.getuid() and not os.path.islink(folder) for each in found)
    return mine and os.access(folder, os.W_OK | os.X_OK)
