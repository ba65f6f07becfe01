"""Installation of the harness's hooks in the settings of clients, and removal of these hooks.

All other settings stay unchanged. Both operations can be repeated. Before the first change, the harness copies the
settings file within its folder. Source: ``tasklist.md`` 3.1.
"""

from __future__ import annotations

import itertools
import os
import shlex
import sys
from contextlib import suppress

from agent_harness.errors import HarnessError, Refused, UsageError
from agent_harness.hooks import codex_trust, places
from agent_harness.hooks.codex_trust import MARK, is_ours
from agent_harness.kernel import files
from agent_harness.kernel.json import JsonObject, edit, jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Protocol

    from agent_harness.hooks.places import Scope

    class SettingsPlace(Protocol):
        def __call__(self, scope: Scope, project: str, environ: Mapping[str, str]) -> str: ...


TIMEOUT_SECONDS = 10
STARTS = "startup|resume|clear|compact"
SCRIPTS = {
    "SessionStart": "harness-sessionstart.py",
    "Stop": "harness-stop.py",
    "SubagentStop": "harness-subagentstop.py",
    "TeammateIdle": "harness-teammateidle.py",
}


class HookClient:
    __slots__ = ("events", "name", "place", "program")

    def __init__(self, name: str, program: str, events: tuple[str, ...], place: SettingsPlace) -> None:
        self.name = name
        self.program = program
        self.events = events
        self.place = place


def package_folder() -> str:
    import agent_harness

    return os.path.dirname(os.path.dirname(os.path.realpath(agent_harness.__file__)))


def command(script: str) -> str:
    """Return the shell command that runs a hook script. The command does nothing if a needed file is missing."""
    if not sys.executable:
        raise Refused("The path of this Python is unknown", hint="harness hooks print")
    path, python = (
        shlex.quote(os.path.join(package_folder(), "agent_harness", "plugin", "hooks", script)),
        shlex.quote(sys.executable),
    )
    return f'f={path}; p={python}; [ -f "$f" ] && [ -x "$p" ] || exit 0; exec "$p" -S -E "$f" {MARK}'


def groups(client: HookClient) -> dict[str, JsonObject]:
    made: dict[str, JsonObject] = {}
    for event in client.events:
        hook = {"type": "command", "command": command(SCRIPTS[event]), "timeout": TIMEOUT_SECONDS}
        made[event] = {**({"matcher": STARTS} if event == "SessionStart" else {}), "hooks": [hook]}
    return made


CLAUDE_CODE = HookClient(
    "claude-code", "claude", ("SessionStart", "Stop", "SubagentStop", "TeammateIdle"), places.of_claude_code
)
CODEX = HookClient("codex", "codex", ("SessionStart", "Stop", "SubagentStop"), places.of_codex)
CLIENTS: dict[str, HookClient] = {each.name: each for each in (CLAUDE_CODE, CODEX)}


def named(name: str) -> HookClient:
    """Return the client with this name. Raise ``UsageError`` for an unknown name."""
    if name not in CLIENTS:
        raise UsageError(
            f"Unknown client {name!r}; known clients: {', '.join(CLIENTS)}",
            hint="harness hooks install --client claude-code",
        )
    return CLIENTS[name]


KEPT = ".before-agent-harness"
"""Suffix of the copy that is made before a settings file is first changed."""


def install(client: str, scope: Scope, project: str, environ: Mapping[str, str]) -> JsonObject:
    """Add the hooks to the client's settings, and return a report. If a safe edit of the file is impossible, raise
    ``Refused`` and write nothing."""
    chosen = named(client)
    path = _path(chosen, scope, project, environ)
    before = _read(path)
    after = _with_ours(before if before is not None else "{}\n", groups(chosen), path)
    _sweep(path)
    found_by, known = _path_file(environ), os.path.lexists(_path_file(environ))
    os.makedirs(os.path.dirname(found_by), exist_ok=True)
    files.replace(found_by, f"{sys.executable}\n{package_folder()}\n", mode=0o600)
    try:
        kept = _write(path, before, after)
    except BaseException:
        if not known:
            _forget_unused(project, environ)
        raise
    if scope == "project" and before is None:
        _keep_from_git(path, project)
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


def uninstall(client: str, scope: Scope, project: str, environ: Mapping[str, str]) -> JsonObject:
    """Remove the hooks from the client's settings, and return a report. If the user has not changed the file after the
    installation, restore the original byte for byte. Otherwise, keep the user's changes and the copy of the original
    (``kept``). Also remove empty files and folders of the harness, files that killed commands left, and Codex's trust
    in the hooks. If this trust cannot be removed, ``trust_left`` contains the reason."""
    chosen = named(client)
    path = _path(chosen, scope, project, environ)
    before = _read(path)
    original = _read(os.path.realpath(path) + KEPT)
    forgotten, not_forgotten = _forget_trust(chosen, path, before, environ)
    after = None if before is None else _without_ours(before, path, theirs=original)
    if after is not None and after != before:
        _take_back(chosen, path, after, original)
        if scope == "project" and not os.path.exists(path):
            _keep_from_git(path, project, ends=True)
    _sweep(path)
    if _is_left_over(path):
        files.unlink(os.path.realpath(path) + KEPT)
    _forget_unused(project, environ)
    moved = before is not None and after is not None and _places_of_others(before) != _places_of_others(after)
    kept = os.path.realpath(path) + KEPT
    return {
        "client": client,
        "scope": scope,
        "file": path,
        "changed": after != before,
        "others_moved": moved,
        "kept": kept if os.path.lexists(kept) else None,
        "trust_forgotten": forgotten,
        "trust_left": not_forgotten,
    }


def _forget_trust(
    client: HookClient, path: str, text: str | None, environ: Mapping[str, str]
) -> tuple[list[str], str | None]:
    """Remove Codex's trust in the hooks. Return the keys of the removed entries, and the reason if entries stay."""
    if client is not CODEX or text is None:
        return [], None
    found = _object(text, path)
    ours = [
        (event, place, each)
        for event, place, inner in _places(found)
        for each in (range(len(found["hooks"][event][place]["hooks"])) if inner is None else (inner,))
    ]
    try:
        return codex_trust.forget(path, ours, environ), None
    except Refused as refused:
        return [], refused.message


def _take_back(client: HookClient, path: str, after: str, original: str | None) -> None:
    """Write a settings file without the hooks. If possible, restore the ``original`` byte for byte."""
    kept = os.path.realpath(path) + KEPT
    if original is not None and after == _round_trip(client, path, original):
        files.replace(path, files.read_bytes(kept), follow=True)
        files.unlink(kept)
    elif original is None and jsontext.loads(after) == {}:
        os.unlink(os.path.realpath(path))  # a link belongs to a person
        _remove_empty(os.path.dirname(path))
    else:
        files.replace(path, after, follow=True)


def _round_trip(client: HookClient, path: str, original: str) -> str | None:
    """Add the hooks to the original text, remove them again, and return the result. Return ``None`` if the original
    text had hooks."""
    if _without_ours(original, path, theirs=original) != original:
        return None
    return _without_ours(_with_ours(original, groups(client), path), path, theirs=original)


def _remove_empty(folder: str) -> None:
    with suppress(OSError):
        os.rmdir(folder)


def _keep_from_git(path: str, project: str, *, ends: bool = False) -> None:
    """Make the git repository ignore a settings file that the harness creates. The rule is in ``.git/info/exclude``, so
    no tracked file changes. With ``ends``, remove the rule."""
    from pathlib import Path

    from agent_harness.kernel.git import locate, own_output

    repository = locate.locate(Path(project))
    if repository is not None:
        line = f"/{os.path.relpath(os.path.realpath(path), os.path.realpath(repository.top))}"
        if ends:
            own_output.forget(os.path.join(repository.shared_dir, "info", "exclude"), [line])
        else:
            own_output.ignore(repository, line)


def installed(client: str, scope: Scope, project: str, environ: Mapping[str, str]) -> bool:
    """Return True if the client's settings contain the harness's hooks. Return False if the file is unreadable."""
    path = named(client).place(scope, project, environ)
    try:
        text = _read(path)
        return text is not None and any(True for _ in _places(_object(text, path)))
    except Refused:
        return False


def has_traces(client: str, scope: Scope, project: str, environ: Mapping[str, str]) -> bool:
    """Return True if the client's settings contain the hooks, or if a killed command left files behind."""
    path = named(client).place(scope, project, environ)
    return installed(client, scope, project, environ) or _is_left_over(path)


def is_stale(client: str, scope: Scope, project: str, environ: Mapping[str, str]) -> bool:
    """Return True if the hooks in the client's settings differ from the hooks that ``install`` would write now."""
    if not installed(client, scope, project, environ):
        return False
    path = named(client).place(scope, project, environ)
    try:
        text = _read(path)
        return text is not None and _with_ours(text, groups(named(client)), path) != text
    except Refused:
        return False


def snippet(client: str) -> str:
    """Return the JSON text that ``install`` would add. The user can paste this text into the client's settings."""
    return jsontext.dumps({"hooks": {event: [group] for event, group in groups(named(client)).items()}})


# ---- the text


def _with_ours(text: str, wanted: Mapping[str, JsonObject], path: str) -> str:
    """Return the settings text with exactly one harness entry for each event. A correct entry keeps its position."""
    for event, group in wanted.items():
        found = _object(text, path)
        listed = _events(found, path).get(event, [])
        own = [place for place, each in enumerate(listed) if _is_only_ours(each)]
        if own:  # in place: clients identify a hook by its position
            if listed[own[0]] != group:
                text = edit.put(text, ["hooks", event, own[0]], group)
        else:
            text = edit.append(text, ["hooks", event], group)
    return _without_ours(text, path, dict.fromkeys(wanted, 1))


def _without_ours(text: str, path: str, keep: Mapping[str, int] | None = None, *, theirs: str | None = None) -> str:
    """Return the settings text without the harness's entries. For each event in ``keep``, keep this number of entries.
    Remove objects and lists that become empty, unless they are in ``theirs``, the text before the first change."""
    left = dict(keep or {})
    found_there = _object(theirs, path).get("hooks") if theirs is not None else None
    removable = []
    for event, place, inner in _places(_object(text, path)):
        if left.get(event) and inner is None:
            left[event] -= 1
        else:
            removable.append((event, place, inner))
    for event, place, inner in reversed(removable):
        tail: list[str | int] = [] if inner is None else ["hooks", inner]
        text = edit.remove(text, ["hooks", event, place, *tail])
        for above, was_there in (
            (["hooks", event], isinstance(found_there, dict) and event in found_there),
            (["hooks"], found_there is not None),
        ):
            text = edit.remove(text, above) if edit.is_empty(text, above) and not was_there else text
    return text


def _places(found: JsonObject) -> Iterator[tuple[str, int, int | None]]:
    """Yield the position of each harness hook: event, group index, hook index (None for a whole group)."""
    hooks = found.get("hooks")
    for event, listed in hooks.items() if isinstance(hooks, dict) else ():
        for place, group in enumerate(listed if isinstance(listed, list) else []):
            if _is_only_ours(group):
                yield event, place, None
            elif isinstance(group, dict) and isinstance(group.get("hooks"), list):
                yield from ((event, place, inner) for inner, each in enumerate(group["hooks"]) if is_ours(each))


def _places_of_others(text: str) -> list[tuple[str, int]]:
    """Return (event, group index) for each hook group of other programs. Clients identify a hook by this position."""
    hooks = jsontext.loads(text).get("hooks")
    listed = [(event, groups) for event, groups in (hooks or {}).items() if isinstance(groups, list)]
    return [(event, place) for event, each in listed for place, group in enumerate(each) if not _is_only_ours(group)]


def _is_only_ours(group: object) -> bool:
    inner = group.get("hooks") if isinstance(group, dict) else None
    return isinstance(inner, list) and bool(inner) and all(map(is_ours, inner))


def _object(text: str, path: str) -> JsonObject:
    try:
        found = jsontext.loads(text)
    except ValueError as error:
        raise Refused(
            f"{path} was not edited: {error}",
            hint="harness hooks print --client claude-code  # then add the output manually",
        ) from None
    if not isinstance(found, dict):
        raise Refused(f"{path} was not edited: it is not a JSON object", hint="harness hooks print")
    return found


def _events(found: JsonObject, path: str) -> dict[str, list[Any]]:
    """Return the member ``hooks`` of the settings. Raise ``Refused`` if the value of an event is not a list."""
    hooks = found.get("hooks", {})
    if not isinstance(hooks, dict) or not all(isinstance(each, list) for each in hooks.values()):
        raise Refused(f"{path} was not edited: its `hooks` member has an unexpected form", hint="harness hooks print")
    return hooks


# ---- the files


def _path(client: HookClient, scope: Scope, project: str, environ: Mapping[str, str]) -> str:
    """Return the path of the settings file to edit. Raise ``Refused`` if the path of a project's file is a link to a
    place outside the project."""
    path = client.place(scope, project, environ)
    top = os.path.realpath(project)
    if scope == "project" and os.path.commonpath([top, os.path.realpath(path)]) != top:
        raise Refused(f"{path} points outside the project", hint=f"ls -l {os.path.dirname(path)}")
    return path


def _read(path: str) -> str | None:
    """Return the text of a settings file. Return ``None`` if the file is missing, and ``{}`` if it is empty."""
    try:
        text = files.read_bytes(path).decode()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        raise Refused(f"{path} was not edited: it is not valid UTF-8", hint="harness hooks print") from None
    return text if text.strip() else "{}\n"


def _put_aside(kept: str) -> None:
    """Rename an older copy of the settings file. The harness then saves the present file as the original."""
    with suppress(FileNotFoundError):
        place = next(name for count in itertools.count(1) if not os.path.lexists(name := f"{kept}.{count}"))
        os.rename(kept, place)


def _is_left_over(path: str) -> bool:
    """Return True if the copy of the settings file has the same content as the settings file. A killed command leaves
    such a copy, which is no longer needed."""
    try:
        return files.read_bytes(os.path.realpath(path) + KEPT) == files.read_bytes(path)
    except (FileNotFoundError, HarnessError):
        return False


def _sweep(path: str) -> None:
    """Remove the temporary files that killed commands left beside the settings file and its copy."""
    files.sweep(path)
    files.sweep(os.path.realpath(path) + KEPT)


def _forget_unused(project: str, environ: Mapping[str, str]) -> None:
    """Remove the file ``hooks-path`` if no client of this user has the harness's hooks."""
    if not any(installed(name, "user", project, environ) for name in CLIENTS):
        files.unlink(_path_file(environ))
        _remove_empty(os.path.dirname(_path_file(environ)))


def _write(path: str, before: str | None, after: str) -> str | None:
    """Write the settings file. Return the path of the copy from before the first change, or ``None`` if there is no
    copy."""
    kept = os.path.realpath(path) + KEPT
    if after == before:
        return kept if os.path.lexists(kept) else None
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if before is None or not any(True for _ in _places(_object(before, path))):
        _put_aside(kept)
    if before is None:
        files.replace(path, after, mode=0o600, follow=True)
        return None
    if not os.path.lexists(kept):
        files.replace(kept, files.read_bytes(path), mode=os.stat(path).st_mode & 0o777)
    files.replace(path, after, follow=True)
    return kept


def _elsewhere(client: HookClient, path: str, project: str, environ: Mapping[str, str]) -> list[str]:
    """Return the paths of other settings files that contain the hooks. With such a file, the hooks run twice."""
    scopes: tuple[Scope, ...] = ("user", "project")
    others = [
        scope for scope in scopes if os.path.realpath(client.place(scope, project, environ)) != os.path.realpath(path)
    ]
    return [
        client.place(scope, project, environ) for scope in others if installed(client.name, scope, project, environ)
    ]


def _path_file(environ: Mapping[str, str]) -> str:
    """Return the path of the file ``hooks-path``. In this file, a copy of the plugin reads the paths of Python and of
    the harness package."""
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "agent-harness", "hooks-path")
