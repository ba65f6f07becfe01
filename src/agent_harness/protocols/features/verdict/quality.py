"""File sizes and lint findings of a commit. Source: features.md UAH-314, UAH-315, UAH-438..442, C52."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject, members_of
from agent_harness.protocols.features import repository

SOURCE_SUFFIXES = (".py", ".js", ".ts", ".tsx", ".jsx", ".go", ".rs", ".java", ".rb", ".c", ".h", ".cpp", ".cs", ".php")


@dataclass(frozen=True, kw_only=True)
class Lint:
    """Findings of a linter on one commit."""

    errors: int = 0
    warnings: int = 0
    kinds: Mapping[str, int] = field(default_factory=dict)  # findings by code, E501 and the like
    files: Mapping[str, int] = field(default_factory=dict)  # findings by file, relative to the project's folder
    by_lines: bool = False  # no finding could be read: ``errors`` are the lines that the linter printed
    problem: str | None = None

    @property
    def total(self) -> int:
        return self.errors + self.warnings

    def introduced_since(self, before: "Lint") -> dict[str, int]:
        now, then = (each.kinds or {LINES: each.total} for each in (self, before))
        return {kind: count - then.get(kind, 0) for kind, count in now.items() if count > then.get(kind, 0)}


LINES = "line of output"
_SOURCE = re.compile(r"\s*\d*\s*(?:[|+=-](?!-)|\.\.\.)")  # the source that a linter shows below a finding
_PLACE = re.compile(r"\s*--> \S.*:\d+(?::\d+)?$")  # second line of a finding, in the full output of ruff and rustc
_TITLE = re.compile(r"(?P<word>error|warning)(?:\[(?P<rule>[\w:-]+)\])?:|(?P<code>[A-Z]+\d+|[a-z]+(?:-[a-z]+)+)\b")
_LINE = re.compile(  # PATH:LINE:COLUMN: text, of ruff's concise output, flake8, pylint, mypy and eslint's unix format
    r"\S[^|]*?:\d+(?::\d+)?:\s+(?:(?P<word>error|warning|note)\b|\[?(?P<code>[A-Z]+\d+|[a-z]+(?:-[a-z]+)+)\b(?=[]: ]))?"
    r".*?(?:\[(?P<level>Error|Warning)(?:/(?P<rule>\S+))?\])?$"
)
_INDENTED = re.compile(  # below the name of its file: eslint's stylish format and ruff's grouped output
    r"\s+\d+:\d+\s+(?:(?P<level>error|warning)\s.*?(?:\s{2,}(?P<rule>\S+))?|(?P<code>[A-Z]+\d+|[a-z]+(?:-[a-z]+)+)\b.*)$"
)
_COMPACT = re.compile(r"\S.*: line \d+, col \d+, (?P<level>Error|Warning) - .*?(?:\((?P<rule>\S+)\))?$")
_FILE = re.compile(r":\d+|: line \d+")  # the text after the name of a file
_SUM = re.compile(r"(?:Found (\d+) errors?(?:\.| in )|\W*(\d+) problems?\b)")


def lint_counts(output: str, exit_code: int, root: str = "") -> Lint:
    """Count a linter's findings for each code and for each file."""
    lines, kinds, files, soft = output.splitlines(), Counter[str](), Counter[str](), 0
    for kind, warns, file in _findings(lines):
        kinds[kind] += 1
        files[file.removeprefix(f"{root}/")] += 1
        soft += warns
    said = max((int(found[1] or found[2]) for line in lines if (found := _SUM.match(line))), default=0)
    if said > kinds.total():
        kinds["OTHER"] += said - kinds.total()
    if exit_code and not kinds:
        return Lint(errors=max(1, sum(1 for line in lines if line.strip())), by_lines=True)
    return Lint(errors=kinds.total() - soft, warnings=soft, kinds=dict(kinds), files=dict(files))


def _findings(lines: Iterable[str]) -> Iterator[tuple[str, bool, str]]:
    """Yield three values for each finding: code, whether it is a warning, and file."""
    title = ""
    for line in lines:
        if _PLACE.match(line):
            if found := _TITLE.match(title):
                yield *_kind(found), _FILE.split(line.partition("--> ")[2])[0]
            title = ""
        elif _SOURCE.match(line):
            continue
        elif found := _INDENTED.match(line) or _COMPACT.match(line) or _LINE.match(line):
            if found.groupdict().get("word") != "note":
                yield *_kind(found), (title.rstrip(": ") if line[0].isspace() else _FILE.split(line)[0])
        elif line.strip() and not line[0].isspace():
            title = line


def _kind(found: re.Match[str]) -> tuple[str, bool]:
    parts = found.groupdict()
    level = (parts.get("word") or parts.get("level") or "").upper()
    code = parts.get("code") or parts.get("rule") or level or "OTHER"
    return code, level == "WARNING" or re.match(r"W\d", code) is not None


def large_files(sizes: Mapping[str, Any], max_lines: int) -> list[JsonObject]:
    """Return the files with more than 80 % of ``max_lines``, largest first (C36)."""
    found = [{"path": path, "lines": row["lines"]} for path, row in sizes.items() if row["lines"] > 0.8 * max_lines]
    return sorted(found, key=lambda row: (-row["lines"], row["path"]))


def next_cleanup(completed: int, interval: int) -> int:
    """Return how many features must be complete when the next cleanup session starts (UAH-321)."""
    return (completed // interval + 1) * interval


def file_sizes(git: Git, commit: str, session: int, before: Mapping[str, Any], test_files: Iterable[str]) -> JsonObject:
    """Return each source file's line count, and the sessions that added and last changed the file (UAH-132)."""
    known: JsonObject = members_of(before.get("files"))
    tests = {t.split("::", 1)[0] for t in test_files}
    rows: JsonObject = {}
    for path, lines in repository.line_counts(git, commit, SOURCE_SUFFIXES).items():
        if path in tests or path.startswith(("tests/", "test/")):
            continue
        old = members_of(known.get(path))
        changed = session if old.get("lines") != lines else old.get("session_changed", session)
        added = old.get("session_added", session)
        rows[path] = {"lines": lines, "session_added": added, "session_changed": changed}
    return {"session": session, "files": rows}


GROWS_FAST = 50  # lines from one accepted session to the next


def alerts(sizes: Mapping[str, Any], before: Mapping[str, Any], max_lines: int) -> list[JsonObject]:
    """Return an alert for each file that is too large or grows too fast."""
    found: list[JsonObject] = []
    old, since = before.get("files") or {}, before.get("session")
    number = sizes.get("session")
    sessions = max(1, number - since) if isinstance(number, int) and isinstance(since, int) else 1
    for path, row in (sizes.get("files") or {}).items():
        grown = row["lines"] - (old.get(path) or row)["lines"]
        fact = {"path": path, "lines": row["lines"], "grown": grown, "sessions": sessions}
        if row["lines"] > max_lines:
            found.append({**fact, "message": f"{path} has {row['lines']} lines. Consider splitting."})
        if grown > GROWS_FAST:
            span = f"{grown} lines in {sessions} session{'s' if sessions > 1 else ''}"
            found.append({**fact, "message": f"{path} growing rapidly ({span})."})
    return found


def excess_lines(sizes: Mapping[str, Any], max_lines: int) -> int:
    return sum(max(0, row["lines"] - max_lines) for row in sizes.values())
