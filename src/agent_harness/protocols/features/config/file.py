"""Reader for YAML settings files. Values are plain, and each key has its line number for error messages. ``Layers``
merges several sources of settings and records the source of each key."""

import io
import json
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agent_harness.errors import ConfigurationError, StateDamaged

Key = tuple[str, ...]

_LIMIT_BYTES = 1_000_000
_LIMIT_DEPTH = 40
_LIMIT_VALUES = 20_000


@dataclass(frozen=True)
class SettingsFile:
    path: Path
    values: dict[str, object]
    lines: Mapping[Key, int] = field(default_factory=dict)

    def line(self, key: Key) -> int | None:
        """Return the key's line number, or the line number of the nearest enclosing section."""
        return next((self.lines[key[:n]] for n in range(len(key), 0, -1) if key[:n] in self.lines), None)


def read(path: Path) -> SettingsFile:
    """Return the settings in a YAML file. Raise ``ConfigurationError`` if they cannot be read."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    text = _text(path)
    try:
        loaded = YAML(typ="rt", pure=True).load(text)
    except MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        raise _broken(path, _first_line(problem.problem or problem.context), mark.line + 1 if mark else None) from None
    except (YAMLError, ValueError, RecursionError, ArithmeticError) as problem:
        raise _broken(path, _first_line(problem)) from None
    if loaded is None:
        return SettingsFile(path, {})
    if not isinstance(loaded, Mapping):
        raise _broken(path, "the file must hold sections such as `project:`", 1)
    plain = _Plain(path)
    return SettingsFile(path, plain.mapping(loaded, ()), plain.lines)


def scalar(text: str) -> object:
    """Parse the text as YAML, or return the text if it is not valid YAML."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError, ArithmeticError):
        return text


def with_value(text: str, section: str, key: str, value: object) -> bytes:
    """Set one key in the text of a settings file without changing comments, order or quotes."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="rt", pure=True)
    yaml.preserve_quotes = True
    yaml.width = 4096
    document = yaml.load(text)
    if not isinstance(document.get(section), dict):
        document[section] = {}
    document[section][key] = value
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue().encode()


def _text(path: Path) -> str:
    try:
        kind = path.stat()
        if not stat.S_ISREG(kind.st_mode):
            raise _broken(path, "it is not a regular file")
        if kind.st_size > _LIMIT_BYTES:
            raise _broken(path, "it is too large for settings")
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigurationError(
            f"{path.name} is missing in {path.parent}",
            hint=f"Bring it back with `git checkout -- {path.name}`, or write one that begins with `project:`.",
            file=str(path),
        ) from None
    except UnicodeDecodeError as problem:
        line = problem.object[: problem.start].count(b"\n") + 1
        raise _broken(path, "it is not UTF-8 text", line) from None
    except OSError as problem:
        raise _broken(path, os.strerror(problem.errno) if problem.errno else "it cannot be read") from None


def _broken(path: Path, why: str, line: int | None = None) -> ConfigurationError:
    where = f"{path.name}:{line}" if line else path.name
    hint = f"Fix line {line} of {path}." if line else f"Fix {path}."
    return ConfigurationError(f"{where}: {why}", hint=hint, file=str(path), line=line)


def _first_line(problem: object) -> str:
    lines = str(problem).strip().splitlines()
    return lines[0] if lines else "this is not YAML"


class _Plain:
    """Converter from YAML parser types to plain types, which refuses files with too much data."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[Key, int] = {}
        self.count = 0

    def mapping(self, given: Mapping[object, object], at: Key) -> dict[str, object]:
        answer: dict[str, object] = {}
        marks = getattr(getattr(given, "lc", None), "data", None) or {}
        for key, value in given.items():
            here = (*at, str(key))
            if key in marks:
                self.lines[here] = marks[key][0] + 1
            answer[str(key)] = self.value(value, here)
        return answer

    def value(self, given: object, at: Key) -> object:
        self.count += 1
        if self.count > _LIMIT_VALUES or len(at) > _LIMIT_DEPTH:
            raise _broken(self.path, "it holds too many values, or an alias that contains itself")
        if isinstance(given, Mapping):
            return self.mapping(given, at)
        if isinstance(given, Collection) and not isinstance(given, str | bytes):
            return [self.value(item, (*at, str(n))) for n, item in enumerate(given)]
        if given is None or isinstance(given, bool):
            return given
        if isinstance(given, int):
            return int(given)
        return float(given) if isinstance(given, float) else str(given)


def leaves(values: Mapping[str, object], at: Key = ()) -> Iterator[tuple[Key, object]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, (*at, key))
        else:
            yield (*at, key), value


def read_object(path: str) -> dict[str, Any]:
    """Return the mapping in a YAML file. Raise ``StateDamaged`` if the file is unreadable or is not a mapping."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        with open(path, encoding="utf-8") as file:
            found = YAML(typ="safe", pure=True).load(file)
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise StateDamaged(f"{path} does not parse: {str(error).splitlines()[0]}") from None
    if not isinstance(found, dict):
        raise StateDamaged(f"{path} is not a YAML mapping")
    return json.loads(json.dumps(found, default=str))


Source = Literal["default", "file", "environment", "flag"]


@dataclass
class Layers:
    document: SettingsFile
    values: dict[str, object]
    sources: dict[Key, Source]
    where: dict[Key, str] = field(default_factory=dict)

    def set(self, key: Key, value: object, source: Source, *, where: str | None = None) -> None:
        section = self.values
        for name in key[:-1]:
            if section.get(name) is None:
                section[name] = {}
            below = section[name]
            if not isinstance(below, dict):
                return  # the section itself is wrong; validation says so
            section = below
        section[key[-1]] = value
        self.sources[key] = source
        if where:
            self.where[key] = where

    def get(self, key: Key) -> object:
        value: object = self.values
        for name in key:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    def decided(self, key: Key) -> bool:
        """Return True if any source sets the key."""
        return key in self.sources


# -- the file of a new project -----------------------------------------------------------------------------------------


_PLAIN = re.compile(r"[A-Za-z./][A-Za-z0-9 _./={}\[\]-]*")
_NOT_TEXT = frozenset({"true", "false", "null", "yes", "no", "on", "off", "."})

_TEMPLATE = """\
# How the harness works on this project. Every setting that is not here has a default.

project:
  name: {name}

environment:
  init: ./init.sh    # starts what the tests need; exit 0 means that it is up
  reset: ./reset.sh  # forces a clean state when init fails
  # health_check: curl -sf http://localhost:8000/health

testing:
  full: {full}
  feature: {feature}

quality:
  {lint}

costs:
  per_session_usd: 10.00
  per_feature_usd: 25.00
  total_project_usd: 200.00

session:
  timeout_minutes: 60

# verification:
#   links: [.venv, node_modules]  # ignored folders that the tests need

# agent:  # or --agent, or HARNESS_AGENT
#   kind: command
#   command: ["python3", "agent.py"]
"""


def default_text(project_name: str, *, full: str, feature: str | None, lint: str | None) -> str:
    """Return the text of a new ``.harness.yaml``, with comments (C22)."""
    name = " ".join("".join(char if char.isprintable() else " " for char in project_name).split())
    return _TEMPLATE.format(
        name=_on_one_line(name or "project"),
        full=_on_one_line(full),
        feature=_on_one_line(feature) if feature else _NO_FEATURE_COMMAND,
        lint=_lint_line(lint) if lint else _NO_LINTER,
    )


_NO_FEATURE_COMMAND = " # none found; the command for the tests in {test_file}"
_NO_LINTER = "lint_command:  # none found; for example: ruff check src/"


def _lint_line(command: str) -> str:
    return f"lint_command: {_on_one_line(command)}"


def with_linter(text: str, command: str) -> str:
    """Add the linter command to a text from ``default_text`` without a linter. Return other texts unchanged."""
    return text.replace(_NO_LINTER, _lint_line(command))


def _on_one_line(text: str) -> str:
    text = text.encode("utf-8", "replace").decode("utf-8")
    plain = _PLAIN.fullmatch(text) and text == text.strip() and text.lower() not in _NOT_TEXT and ": " not in text
    if plain and not re.fullmatch(r"\.[0-9._e+-]*|\.(?:inf|nan)", text, re.IGNORECASE):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in quoted)
