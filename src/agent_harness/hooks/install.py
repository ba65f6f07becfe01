"""Writes our hooks into the settings of a client, and takes them out again; all that is not ours stays as it is.

Both may be repeated. The file as it was before our first change is kept beside it. Source: ``tasklist.md`` 3.1.
"""

from __future__ import annotations

import os
import sys

from agent_harness.errors import Refused
from agent_harness.hooks import jsonedit
from agent_harness.hooks.clients import CLIENTS, groups, is_ours, named, package_folder
from agent_harness.kernel import files
from agent_harness.kernel.json import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from agent_harness.hooks.clients import Group, HookClient, Scope

    Record = dict[str, Any]

__all__ = ["install", "installed", "snippet", "uninstall"]

KEPT = ".before-agent-harness"
"""Added to the name of a file: what it held before our first change."""


def install(client: str, scope: Scope, project: str, environ: Mapping[str, str]) -> Record:
    """Registers our hooks with a client. ``Refused``, and nothing written, when its file cannot be edited safely."""
    chosen = named(client)
    path = _path(chosen, scope, project, environ)
    before = _read(path)
    after = _with_ours(before if before is not None else "{}\n", groups(chosen), path)
    _write_path_file(environ)
    kept = _write(path, before, after)
    return {
        "client": client,
        "scope": scope,
        "file": path,
        "changed": after != before,
        "kept": kept,
        "events": list(chosen.events),
        "interpreter": sys.executable,
        "also_in": _elsewhere(chosen, path, project, environ),
    }


def uninstall(client: str, scope: Scope, project: str, environ: Mapping[str, str]) -> Record:
    """Takes our hooks out again; a file that holds nothing else and that we had made is removed."""
    chosen = named(client)
    path = _path(chosen, scope, project, environ)
    before = _read(path)
    after = None if before is None else _without_ours(before, path)
    if after is not None and before is not None and after != before:
        if jsontext.loads(after) == {} and not os.path.lexists(path + KEPT):
            os.unlink(path)
        else:
            _write(path, before, after)
            _drop_kept(path, after)
    if not any(installed(name, "user", project, environ) for name in CLIENTS):
        _unlink(_path_file(environ))
    moved = before is not None and after is not None and _places_of_others(before) != _places_of_others(after)
    return {"client": client, "scope": scope, "file": path, "changed": after != before, "others_moved": moved}


def installed(client: str, scope: Scope, project: str, environ: Mapping[str, str]) -> bool:
    """Whether hooks of ours are registered there; false also for a file that cannot be read."""
    path = named(client).place(scope, project, environ)
    try:
        text = _read(path)
        return text is not None and any(True for _ in _places(_object(text, path)))
    except Refused:
        return False


def snippet(client: str) -> str:
    """What ``install`` would add, as JSON for whoever pastes it."""
    return jsontext.dumps({"hooks": {event: [group] for event, group in groups(named(client)).items()}})


# ---- the text


def _with_ours(text: str, wanted: Mapping[str, Group], path: str) -> str:
    """The text with exactly one entry of ours an event; one that is right already stays where it is."""
    for event, group in wanted.items():
        found = _object(text, path)
        listed = _events(found, path).get(event, [])
        own = [place for place, each in enumerate(listed) if _is_only_ours(each)]
        if own:  # in place: clients know a hook by its place
            if listed[own[0]] != group:
                text = jsonedit.replace(text, ["hooks", event, own[0]], group)
        else:
            text = jsonedit.append(text, ["hooks", event], group)
    return _without_ours(text, path, dict.fromkeys(wanted, 1))


def _without_ours(text: str, path: str, keep: Mapping[str, int] | None = None) -> str:
    """The text without entries of ours, but for the first one of each event in ``keep``; nor what they leave empty."""
    left = dict(keep or {})
    removable = []
    for event, place, inner in _places(_object(text, path)):
        if left.get(event) and inner is None:
            left[event] -= 1
        else:
            removable.append((event, place, inner))
    for event, place, inner in reversed(removable):
        tail: list[str | int] = [] if inner is None else ["hooks", inner]
        text = jsonedit.remove(text, ["hooks", event, place, *tail])
        text = _without_empty(text, event)
    return text


def _without_empty(text: str, event: str) -> str:
    for path in (["hooks", event], ["hooks"]):
        node = jsonedit.tree(text).at(path)
        if node is not None and not node.entries:
            text = jsonedit.remove(text, path)
    return text


def _places(found: Record) -> Iterator[tuple[str, int, int | None]]:
    """(event, place of the group, place of the hook in it, or None when the whole group is ours), in order."""
    hooks = found.get("hooks")
    for event, listed in hooks.items() if isinstance(hooks, dict) else ():
        for place, group in enumerate(listed if isinstance(listed, list) else []):
            if _is_only_ours(group):
                yield event, place, None
            elif isinstance(group, dict) and isinstance(group.get("hooks"), list):
                yield from ((event, place, inner) for inner, each in enumerate(group["hooks"]) if is_ours(each))


def _places_of_others(text: str) -> list[tuple[str, int]]:
    """Where the groups that are not ours stand; clients know a hook by its place."""
    hooks = jsontext.loads(text).get("hooks")
    listed = [(event, groups) for event, groups in (hooks or {}).items() if isinstance(groups, list)]
    return [(event, place) for event, each in listed for place, group in enumerate(each) if not _is_only_ours(group)]


def _is_only_ours(group: object) -> bool:
    inner = group.get("hooks") if isinstance(group, dict) else None
    return isinstance(inner, list) and bool(inner) and all(map(is_ours, inner))


def _object(text: str, path: str) -> Record:
    try:
        found = jsontext.loads(text)
    except ValueError as error:
        raise Refused(f"{path} is not edited: {error}", hint="harness hooks print, and add it by hand") from None
    if not isinstance(found, dict):
        raise Refused(f"{path} is not edited: it holds no JSON object", hint="harness hooks print")
    return found


def _events(found: Record, path: str) -> dict[str, list[Any]]:
    """The ``hooks`` member, of which each event is a list. ``Refused`` for any other shape."""
    hooks = found.get("hooks", {})
    if not isinstance(hooks, dict) or not all(isinstance(each, list) for each in hooks.values()):
        raise Refused(f"{path} is not edited: its `hooks` has another shape", hint="harness hooks print")
    return hooks


# ---- the files


def _path(client: HookClient, scope: Scope, project: str, environ: Mapping[str, str]) -> str:
    """The file to edit; a project's must lie in the project, links followed."""
    path = client.place(scope, project, environ)
    top = os.path.realpath(project)
    if scope == "project" and os.path.commonpath([top, os.path.realpath(path)]) != top:
        raise Refused(f"{path} leads out of the project", hint=f"ls -l {os.path.dirname(path)}")
    return path


def _read(path: str) -> str | None:
    """The text of a settings file; ``None`` when there is none. An empty file is an empty object."""
    try:
        text = files.read_bytes(path).decode()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        raise Refused(f"{path} is not edited: it is not UTF-8", hint="harness hooks print") from None
    return text if text.strip() else "{}\n"


def _write(path: str, before: str | None, after: str) -> str | None:
    """Replaces the file; where it is kept as it was before our first change."""
    kept = os.path.realpath(path) + KEPT
    if after == before:
        return kept if os.path.lexists(kept) else None
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if before is None:
        files.replace(path, after, mode=0o600)
        return None
    if not os.path.lexists(kept):
        files.replace(kept, files.read_bytes(path), mode=os.stat(path).st_mode & 0o777)
    files.replace(path, after)
    return kept


def _drop_kept(path: str, text: str) -> None:
    """What was kept is not needed any more once the file is the same again."""
    kept = os.path.realpath(path) + KEPT
    if _read(kept) == text:
        _unlink(kept)


def _elsewhere(client: HookClient, path: str, project: str, environ: Mapping[str, str]) -> list[str]:
    """Other files of the same client that call our hooks too, which would then run twice."""
    scopes: tuple[Scope, ...] = ("user", "project")
    others = [
        scope for scope in scopes if os.path.realpath(client.place(scope, project, environ)) != os.path.realpath(path)
    ]
    return [
        client.place(scope, project, environ) for scope in others if installed(client.name, scope, project, environ)
    ]


def _path_file(environ: Mapping[str, str]) -> str:
    """Where a copy of the plugin finds the package: two lines, the interpreter and the folder."""
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "agent-harness", "hooks-path")


def _write_path_file(environ: Mapping[str, str]) -> None:
    path = _path_file(environ)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    files.replace(path, f"{sys.executable}\n{package_folder()}\n", mode=0o600)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
