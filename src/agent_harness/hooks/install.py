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
    from typing import Protocol

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
    __slots__ = ("events", "name", "place")

    def __init__(self, name: str, events: tuple[str, ...], place: SettingsPlace) -> None:
        self.name = name
        self.events = events
        self.place = place


def package_folder() -> str:
    import agent_harness

    return os.path.dirname(os.path.dirname(os.path.realpath(agent_harness.__file__)))


def command(script: str) -> str:
    """Return the shell command that runs a hook script. The command does nothing if a needed file is missing."""
    if not sys.executable:
        raise Refused("The path of this Python is unknown", hint="harness hooks print")
    path = shlex.quote(os.path.join(package_folder(), "agent_harness", "plugin", "hooks", script))
    python = shlex.quote(sys.executable)
    return f'f={path}; p={python}; [ -f "$f" ] && [ -x "$p" ] || exit 0; exec "$p" -S -E "$f" {MARK}'


def groups(client: HookClient) -> dict[str, JsonObject]:
    made: dict[str, JsonObject] = {}
    for event in client.events:
        hook = {"type": "command", "command": command(SCRIPTS[event]), "timeout": TIMEOUT_SECONDS}
        made[event] = {**({"matcher": STARTS} if event == "SessionStart" else {}), "hooks": [hook]}
    return made


CLAUDE_CODE = HookClient("claude-code", ("SessionStart", "Stop", "SubagentStop", "TeammateIdle"), places.of_claude_code)
CODEX = HookClient("codex", ("SessionStart", "Stop", "SubagentStop"), places.of_codex)
CLIENTS: dict[str, HookClient] = {each.name: each for each in (CLAUDE_CODE, CODEX)}


def named(name: str) -> HookClient:
    if name not in CLIENTS:
        raise UsageError(
            f"Unknown client {name!r}; known clients: {', '.join(CLIENTS)}",
            hint="harness hooks install --client claude-code",
        )
    return CLIENTS[name]


KEPT = ".before-agent-harness"
"""Suffix of the copy that is made before a settings file is first changed."""


def install(client: str, scope: Scope, project: str, environ: Mapping[str, str]) -> JsonObject:
    """Add the hooks to the client's settings. Raise ``Refused`` if a safe edit is impossible."""
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
    """Remove the hooks from the client's settings, and restore the original file if possible."""
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
    """Remove Codex's trust in the hooks. Return the removed keys and, after a failure, the reason."""
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
    if _without_ours(original, path, theirs=original) != original:
        return None
    return _without_ours(_with_ours(original, groups(client), path), path, theirs=original)


def _remove_empty(folder: str) -> None:
    with suppress(OSError):
        os.rmdir(folder)


def _keep_from_git(path: str, project: str, *, ends: bool = False) -> None:
    from pathlib import Path

    from agent_harness.kernel.git import locate, own_output

    # the rule is in .git/info/exclude, so no tracked file changes
    repository = locate.locate(Path(project))
    if repository is not None:
        line = f"/{os.path.relpath(os.path.realpath(path), os.path.realpath(repository.top))}"
        if ends:
            own_output.forget(os.path.join(repository.shared_dir, "info", "exclude"), [line])
        else:
            own_output.ignore(repository, line)


def installed(client: str, scope: Scope, project: str, environ: Mapping[str, str]) -> bool:
    path = named(client).place(scope, project, environ)
    try:
        text = _read(path)
        return text is not None and any(True for _ in _places(_object(text, path)))
    except Refused:
        return False


def has_traces(client: str, scope: Scope, project: str, environ: Mapping[str, str]) -> bool:
    """Return True if the client's settings contain the hooks, or if an interrupted command left files."""
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
    """Return the JSON text for the user to paste into the client's settings."""
    return jsontext.dumps({"hooks": {event: [group] for event, group in groups(named(client)).items()}})


# ---- the text


def _with_ours(text: str, wanted: Mapping[str, JsonObject], path: str) -> str:
    for event, group in wanted.items():
        hooks = _object(text, path).get("hooks", {})
        if not isinstance(hooks, dict) or not all(isinstance(each, list) for each in hooks.values()):
            told = f"{path} was not edited: its `hooks` member has an unexpected form"
            raise Refused(told, hint="harness hooks print")
        listed = hooks.get(event, [])
        own = [place for place, each in enumerate(listed) if _is_only_ours(each)]
        if own:  # in place: clients identify a hook by its position
            if listed[own[0]] != group:
                text = edit.put(text, ["hooks", event, own[0]], group)
        else:
            text = edit.append(text, ["hooks", event], group)
    return _without_ours(text, path, dict.fromkeys(wanted, 1))


def _without_ours(text: str, path: str, keep: Mapping[str, int] | None = None, *, theirs: str | None = None) -> str:
    """Return the settings text without the harness's entries."""
    # so many entries stay for each event
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
    hooks = found.get("hooks")
    for event, listed in hooks.items() if isinstance(hooks, dict) else ():
        for place, group in enumerate(listed if isinstance(listed, list) else []):
            if _is_only_ours(group):
                yield event, place, None
            elif isinstance(group, dict) and isinstance(group.get("hooks"), list):
                yield from ((event, place, inner) for inner, each in enumerate(group["hooks"]) if is_ours(each))


def _places_of_others(text: str) -> list[tuple[str, int]]:
    hooks = jsontext.loads(text).get("hooks")
    listed = [(event, groups) for event, groups in (hooks or {}).items() if isinstance(groups, list)]
    # clients identify a hook by this position
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


# ---- the files


def _path(client: HookClient, scope: Scope, project: str, environ: Mapping[str, str]) -> str:
    """Return the path of the settings file. Raise ``Refused`` if a project's file is outside the project."""
    path = client.place(scope, project, environ)
    top = os.path.realpath(project)
    if scope == "project" and os.path.commonpath([top, os.path.realpath(path)]) != top:
        raise Refused(f"{path} points outside the project", hint=f"ls -l {os.path.dirname(path)}")
    return path


def _read(path: str) -> str | None:
    try:
        text = files.read_bytes(path).decode()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        raise Refused(f"{path} was not edited: it is not valid UTF-8", hint="harness hooks print") from None
    return text if text.strip() else "{}\n"


def _is_left_over(path: str) -> bool:
    try:
        # a killed command leaves such a copy, which nobody needs
        return files.read_bytes(os.path.realpath(path) + KEPT) == files.read_bytes(path)
    except (FileNotFoundError, HarnessError):
        return False


def _sweep(path: str) -> None:
    files.sweep(path)
    files.sweep(os.path.realpath(path) + KEPT)


def _forget_unused(project: str, environ: Mapping[str, str]) -> None:
    if not any(installed(name, "user", project, environ) for name in CLIENTS):
        files.unlink(_path_file(environ))
        _remove_empty(os.path.dirname(_path_file(environ)))


def _write(path: str, before: str | None, after: str) -> str | None:
    """Write the settings file. Return the path of the copy of the original file, or ``None``."""
    kept = os.path.realpath(path) + KEPT
    if after == before:
        return kept if os.path.lexists(kept) else None
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if before is None or not any(True for _ in _places(_object(before, path))):
        with suppress(FileNotFoundError):
            place = next(name for count in itertools.count(1) if not os.path.lexists(name := f"{kept}.{count}"))
            # the present file is then saved as the original
            os.rename(kept, place)
    if before is None:
        files.replace(path, after, mode=0o600, follow=True)
        return None
    if not os.path.lexists(kept):
        files.replace(kept, files.read_bytes(path), mode=os.stat(path).st_mode & 0o777)
    files.replace(path, after, follow=True)
    return kept


def _elsewhere(client: HookClient, path: str, project: str, environ: Mapping[str, str]) -> list[str]:
    scopes: tuple[Scope, ...] = ("user", "project")
    others = [
        scope for scope in scopes if os.path.realpath(client.place(scope, project, environ)) != os.path.realpath(path)
    ]
    return [
        client.place(scope, project, environ) for scope in others if installed(client.name, scope, project, environ)
    ]


def _path_file(environ: Mapping[str, str]) -> str:
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    # a copy of the plugin reads the paths of Python and of the harness package there
    return os.path.join(home, "agent-harness", "hooks-path")
