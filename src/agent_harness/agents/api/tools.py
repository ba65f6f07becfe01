"""Tools of the api agent: a shell in the project, and file tools with guard rails. (features.md UAH-206..211, C32)

If a tool call is refused, the answer contains the reason, so that the model can try another way."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_harness.agents.base import Brief
from agent_harness.agents.command import environment_of
from agent_harness.agents.guardrails import check_command, check_path
from agent_harness.errors import HarnessError
from agent_harness.kernel import process

SHOWN_BYTES = 30_000  # of a command's output, its end; of a file, a page
LONGEST_FILE_BYTES = 10_000_000
LISTED = 500

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """Tool that the model can call. ``schema`` describes the arguments of ``run``."""

    name: str
    description: str
    schema: Json
    run: Callable[[Json], Awaitable[ToolAnswer]]


def own_tools(brief: Brief, interrupted: Callable[[], bool]) -> list[Tool]:
    """Return the tools that the project's rules allow."""
    toolbox = Toolbox(brief, interrupted)
    shell = [_shell(toolbox)] if brief.tools.shell_enabled else []
    return [*shell, *(_files(toolbox) if brief.tools.filesystem_enabled else ())]


class Toolbox:
    def __init__(self, brief: Brief, interrupted: Callable[[], bool]) -> None:
        self._root = brief.cwd
        self._rules = brief.tools
        self._environment = process.scrubbed_environment(environment_of(brief))  # without the key of the provider
        self._interrupted = interrupted

    async def shell(self, given: Json) -> ToolAnswer:
        command = given["command"]
        refused = check_command(command, self._root, self._rules)
        if refused:
            return ToolAnswer(f"Refused: {refused}", is_error=True)
        longest = self._rules.shell_timeout_seconds
        seconds = min(max(1, int(given.get("timeout_seconds") or longest)), longest)
        try:
            done = await asyncio.to_thread(
                process.run,
                command,
                cwd=self._root,
                env=self._environment,
                timeout_seconds=float(seconds),
                keep_bytes=SHOWN_BYTES,
                stop=self._interrupted,
            )
        except HarnessError as error:
            return ToolAnswer(error.message, is_error=True)
        text = done.output.decode("utf-8", "replace").rstrip("\n")
        if done.truncated:
            text = f"[the first {done.total_bytes - len(done.output)} bytes are left out]\n{text}"
        if done.timed_out:
            return ToolAnswer(f"{text}\n[ended after {seconds} seconds]", is_error=True)
        return ToolAnswer(f"{text}\n[exit status {done.exit_code}]".lstrip("\n"), is_error=done.exit_code != 0)

    async def read(self, given: Json) -> ToolAnswer:
        path = self._path(given["path"])
        lines = _text_of(path, "replace").splitlines(keepends=True)
        first = max(1, int(given.get("first_line") or 1))
        page = "".join(lines[first - 1 :]).encode()
        shown = page[:SHOWN_BYTES].decode("utf-8", "ignore")
        if len(page) <= SHOWN_BYTES:
            return ToolAnswer(shown)
        following = first + shown.count("\n")
        return ToolAnswer(f"{shown}\n[{len(lines)} lines in all; continue with first_line {following}]")

    async def write(self, given: Json) -> ToolAnswer:
        path = self._path(given["path"], write=True)
        _must_be_a_file(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(given["content"], encoding="utf-8", newline="")
        return ToolAnswer(f"{given['path']} is written.")

    async def edit(self, given: Json) -> ToolAnswer:
        path = self._path(given["path"], write=True)
        text = _text_of(path)
        found = text.count(given["old_text"]) if given["old_text"] else 0
        if found != 1:
            return ToolAnswer(
                f"old_text occurs {found} times in {given['path']}, but must occur exactly once.", is_error=True
            )
        path.write_text(text.replace(given["old_text"], given["new_text"]), encoding="utf-8", newline="")
        return ToolAnswer(f"{given['path']} is changed.")

    async def list(self, given: Json) -> ToolAnswer:
        folder = self._path(given.get("path") or ".")
        names = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in os.scandir(folder))
        more = [f"[and {len(names) - LISTED} more]"] if len(names) > LISTED else []
        return ToolAnswer("\n".join([*names[:LISTED], *more]) or "[empty]")

    def _path(self, text: str, *, write: bool = False) -> Path:
        refused = check_path(text, self._root, self._rules, write)
        if refused:
            raise PermissionError(refused)
        return Path(os.path.realpath(self._root / Path(text).expanduser()))


def _text(description: str) -> Json:
    return {"type": "string", "description": description}


def _number(description: str) -> Json:
    return {"type": "integer", "description": description}


_PATH = _text("Path relative to the project folder.")


def _shell(toolbox: Toolbox) -> Tool:
    return _tool(
        "shell",
        "Runs a command with sh in the project folder and returns its output and exit status. Each command starts in a "
        "new shell. Its background processes end with the command.",
        toolbox.shell,
        {"command": _text("The command.")},
        {"timeout_seconds": _number("Time limit of the command in seconds.")},
    )


def _files(toolbox: Toolbox) -> list[Tool]:
    pieces = {"old_text": _text("The piece."), "new_text": _text("Text that replaces old_text.")}
    whole = {"content": _text("Whole content of the file.")}
    first = {"first_line": _number("First line to return; 1 is the first line of the file.")}
    replaces = "Writes a whole file. Missing folders are created, and an existing file is replaced."
    return [
        _tool("read_file", "Returns the text of a file.", toolbox.read, {"path": _PATH}, first),
        _tool("write_file", replaces, toolbox.write, {"path": _PATH, **whole}),
        _tool(
            "edit_file", "Replaces a text that occurs exactly once in a file.", toolbox.edit, {"path": _PATH, **pieces}
        ),
        _tool("list_files", "Lists a folder.", toolbox.list, {}, {"path": _PATH}),
    ]


def _tool(
    name: str,
    description: str,
    run: Callable[[Json], Awaitable[ToolAnswer]],
    required: Mapping[str, Json],
    optional: Mapping[str, Json] | None = None,
) -> Tool:
    schema = {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}
    return Tool(name, description, schema, _checked(schema, run))


def _checked(schema: Json, run: Callable[[Json], Awaitable[ToolAnswer]]) -> Callable[[Json], Awaitable[ToolAnswer]]:
    async def checked(given: Json) -> ToolAnswer:
        wrong = _wrong(schema, given)
        if wrong:
            return ToolAnswer(wrong, is_error=True)
        try:
            return await run(given)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            return ToolAnswer(f"Refused: {reason}", is_error=True)

    return checked


_TYPES: Mapping[str, type] = {"string": str, "integer": int}


def _wrong(schema: Json, given: Json) -> str | None:
    missing = next((name for name in schema["required"] if name not in given), None)
    if missing:
        return f"The argument {missing!r} is missing; was the call cut off?"
    for name, value in given.items():
        known = schema["properties"].get(name)
        if known and value is not None and not isinstance(value, _TYPES[known["type"]]):
            return f"The argument {name!r} is not of type {known['type']}."
    return None


def _text_of(path: Path, errors: str = "strict") -> str:
    _must_be_a_file(path)
    size = path.stat().st_size
    if size > LONGEST_FILE_BYTES:
        raise ValueError(f"the file has {size} bytes, which is too large for this tool; use the shell")
    return path.read_bytes().decode("utf-8", errors)


def _must_be_a_file(path: Path) -> None:
    if path.exists() and not path.is_file():
        raise ValueError("this is not a regular file")
