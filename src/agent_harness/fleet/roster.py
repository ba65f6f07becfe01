"""Reader and writer of fleet.yaml, which lists the projects that one machine manages, and their limits.

agents: 40
budget: {day_usd: 500}                  # UTC days
accounts: {"claude-code:login": {agents: 12}}
projects:
  - {path: ~/src/shop, weight: 2, priority: 1, workers: 4, budget: {day_usd: 50}}
  - {glob: "~/src/tools/*", weight: 1, priority: 3, workers: 8, agent: codex}

A value with a wrong type causes an error that states the line. If a project cannot be opened, one line reports it, and
the other projects are not affected."""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from glob import glob
from typing import Any

from agent_harness.errors import ConfigurationError, NothingEligible, Refused, UsageError
from agent_harness.kernel import files, root

FILE = "fleet.yaml"
MOST_BYTES = 4 << 20
_TOP = ("agents", "budget", "projects", "engine", "accounts")
_ROW = ("path", "glob", "weight", "priority", "workers", "budget", "agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    path: str
    kind: str
    weight: float = 1.0
    priority: int = 3
    workers: int = 4
    day_usd: float | None = None
    agents: tuple[str, ...] = ()  # specifications, as ``--agent`` has them


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    file: str
    agents: int = 8
    day_usd: float | None = None
    engine: str | None = None
    accounts: Mapping[str, int] = field(default_factory=dict)  # as they are named there -> agents at once
    members: tuple[Member, ...] = ()
    problems: tuple[str, ...] = ()  # a line for each row that is not a project


def usual_file() -> str:
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(base, "agent-harness", FILE)


def read(file: str) -> Roster:
    """Return the projects and limits in fleet.yaml. Raise ``NothingEligible`` if the file is missing."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        known = os.lstat(file)
        if not stat.S_ISREG(known.st_mode) or known.st_size > MOST_BYTES:
            raise ConfigurationError(
                f"{file} is not a regular file, or it is too large",
                hint="harness fleet --help  # shows the file's format",
            )
        text = files.read_bytes(file).decode("utf-8", "replace")
    except FileNotFoundError:
        raise NothingEligible(f"{file} does not exist", hint="harness fleet add PATH") from None
    try:
        found = YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigurationError(f"{file}, line {line}: {error.problem}", hint="fix the line") from None
    except YAMLError as error:
        raise ConfigurationError(f"{file}: {error}", hint="fix the file") from None
    return _roster(file, found or {})


def _roster(file: str, found: Any) -> Roster:
    _refuse_unknown(file, found, _TOP, 1)
    rows = found.get("projects") or []
    if not isinstance(rows, list):
        raise _wrong(file, found, "projects", "must be a list")
    members: dict[str, Member] = {}
    problems: list[str] = []
    for number, row in enumerate(rows):
        line = rows.lc.item(number)[0] + 1 if hasattr(rows, "lc") else 0
        _refuse_unknown(file, row, _ROW, line)
        for path in _paths(file, row, line):
            if problem := _problem(path, members):
                problems.append(f"{file}, line {line}: {path} {problem}")
                continue
            place = root.find(path, pin=False)
            assert place is not None
            members[place.path] = _member(file, row, place)
    return Roster(
        file=file,
        agents=_number(file, found, "agents", 8, least=1),
        day_usd=_day(file, found),
        engine=_engine(file, found),
        accounts=_accounts(file, found),
        members=tuple(members.values()),
        problems=tuple(problems),
    )


def _member(file: str, row: Any, place: root.Root) -> Member:
    weight = row.get("weight", 1)
    if not isinstance(weight, int | float) or isinstance(weight, bool) or not 0.01 <= weight <= 1000:
        raise _wrong(file, row, "weight", "must be a number from 0.01 to 1000")
    agent = row.get("agent") or []
    agents = [agent] if isinstance(agent, str) else agent
    if not isinstance(agents, list) or not all(isinstance(each, str) for each in agents):
        raise _wrong(file, row, "agent", "must be a string or a list of strings")
    return Member(
        path=place.path,
        kind=place.kind,
        weight=float(weight),
        priority=_number(file, row, "priority", 3, least=1, most=5),
        workers=1 if place.kind == "longtask" else _number(file, row, "workers", 4, least=1, most=256),
        day_usd=_day(file, row),
        agents=tuple(str(each) for each in agents),
    )


def _paths(file: str, row: Any, line: int) -> Iterator[str]:
    path, pattern = _text(file, row, "path"), _text(file, row, "glob")
    if (path is None) == (pattern is None):
        raise ConfigurationError(
            f"{file}, line {line}: each project needs either a path or a glob", hint="name one of them"
        )
    if path is not None:
        yield os.path.realpath(os.path.expanduser(path))
        return
    for each in sorted(glob(os.path.expanduser(str(pattern)))):
        if os.path.isdir(each) and root.find(each, pin=False) is not None:
            yield os.path.realpath(each)


def _problem(path: str, members: Mapping[str, Member]) -> str | None:
    if not os.path.isdir(path):
        return "is gone"
    place = root.find(path, pin=False)
    if place is None or place.path != path:
        return "is not a project"
    if path in members:
        return "is listed twice"
    if "/agent-harness/projects/" in path or "/agent-harness/worker/" in path:
        return "is a workspace of a run, not a project"
    return None


def _refuse_unknown(file: str, found: Any, known: tuple[str, ...], line: int) -> None:
    if not isinstance(found, dict):
        raise ConfigurationError(
            f"{file}, line {line}: expected settings of the form NAME: VALUE", hint="harness fleet --help"
        )
    for name in found:
        if name not in known:
            raise _wrong(file, found, name, f"is not a known setting; known settings: {', '.join(known)}")


def _wrong(file: str, found: Any, name: str, what: str) -> ConfigurationError:
    line = found.lc.key(name)[0] + 1 if hasattr(found, "lc") else 1
    return ConfigurationError(f"{file}, line {line}: {name} {what}", hint=f"correct line {line} of {file}")


def _number(file: str, found: Any, name: str, usual: int, *, least: int, most: int = 100_000) -> int:
    value = found.get(name, usual)
    if type(value) is not int or not least <= value <= most:
        raise _wrong(file, found, name, f"must be a number from {least} to {most}")
    return value


def _text(file: str, found: Any, name: str) -> str | None:
    value = found.get(name)
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise _wrong(file, found, name, "must be a string")
    return value


def _engine(file: str, found: Any) -> str | None:
    from agent_harness.engines.address import address_of

    if url := _text(file, found, "engine"):
        try:
            address_of(url)
        except UsageError as error:
            raise _wrong(file, found, "engine", f"is invalid: {error.message}") from None
    return url


def _day(file: str, found: Any) -> float | None:
    budget = found.get("budget")
    if budget is None:
        return None
    if not isinstance(budget, dict):
        raise _wrong(file, found, "budget", "has no day_usd")
    _refuse_unknown(file, budget, ("day_usd",), 1)
    value = budget.get("day_usd")
    if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
        raise _wrong(file, budget, "day_usd", "must be an amount of dollars")
    return float(value)


def _accounts(file: str, found: Any) -> dict[str, int]:
    rows = found.get("accounts") or {}
    if not isinstance(rows, dict):
        raise _wrong(file, found, "accounts", "must be a set of accounts")
    for name, row in rows.items():
        if not isinstance(name, str) or not isinstance(row, dict) or "agents" not in row:
            raise _wrong(file, rows, name, "needs the number of agents: {agents: 12}")
        _refuse_unknown(file, row, ("agents",), 1)
    return {str(name): _number(file, row, "agents", 1, least=1) for name, row in rows.items()}


# ---- changing it -----------------------------------------------------------------------------------------------------


def change(file: str, path: str, *, add: bool) -> str:
    """Add a project to fleet.yaml, or remove the project. Return a sentence for the user."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="rt")
    yaml.width = 10_000
    whole = os.path.realpath(os.path.expanduser(path))
    text = files.read_bytes(file).decode("utf-8", "replace") if os.path.exists(file) else ""
    if text:
        read(file)  # refuses an invalid file, before anything is written
    found = yaml.load(text) or {}
    rows = found.setdefault("projects", []) if found.get("projects") is None else found["projects"]
    there = [row for row in rows if row.get("path") and os.path.realpath(os.path.expanduser(row["path"])) == whole]
    if add:
        if problem := _problem(whole, {}):
            raise Refused(f"{whole} {problem}", hint="harness projects")
        if there:
            return f"{whole} is already in the fleet."
        rows.append({"path": whole})
    elif not there:
        raise NothingEligible(f"{whole} has no row of its own in {file}", hint="harness fleet list")
    else:
        for row in there:
            rows.remove(row)
    from io import StringIO

    written = StringIO()
    yaml.dump(found, written)
    os.makedirs(os.path.dirname(os.path.abspath(file)), exist_ok=True)
    files.replace(file, written.getvalue())
    return f"{whole} is {'now in the fleet' if add else 'no longer in the fleet; the project itself is unchanged'}."
