"""File sizes, lint and the health figure that `status` shows.

Source: features.md UAH-314, UAH-315, UAH-438..442, C52.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import worktree

SOURCE_SUFFIXES = (".py", ".js", ".ts", ".tsx", ".jsx", ".go", ".rs", ".java", ".rb", ".c", ".h", ".cpp", ".cs", ".php")


@dataclass(frozen=True, kw_only=True)
class Lint:
    """What a linter found."""

    errors: int = 0
    warnings: int = 0
    kinds: Mapping[str, int] = field(default_factory=dict)  # findings by code, E501 and the like
    problem: str | None = None


_FINDING = re.compile(r"^\S.*?:\d+(?::\d+)?:?\s+(?:(?P<word>error|warning)\b|(?P<code>[A-Z]+\d+)?)", re.IGNORECASE)


def lint_counts(output: str, exit_code: int) -> Lint:
    """Findings in the usual form ``PATH:LINE:COLUMN: CODE text``; codes that begin with W are warnings.

    A linter that fails and says nothing in that form has found as many errors as it printed lines, at least one.
    """
    kinds: dict[str, int] = {}
    errors = warnings = 0
    for line in output.splitlines():
        found = _FINDING.match(line)
        if found is None:
            continue
        code = (found["code"] or found["word"] or "other").upper()
        kinds[code] = kinds.get(code, 0) + 1
        soft = code.startswith("W")
        errors, warnings = errors + (not soft), warnings + soft
    if exit_code and not kinds:
        errors = max(1, sum(1 for line in output.splitlines() if line.strip()))
    return Lint(errors=errors, warnings=warnings, kinds=kinds)


def large_files(sizes: Mapping[str, Any], max_lines: int) -> list[JsonObject]:
    """Files above four fifths of the limit, the largest first (C36)."""
    found = [{"path": path, "lines": row["lines"]} for path, row in sizes.items() if row["lines"] > 0.8 * max_lines]
    return sorted(found, key=lambda row: (-row["lines"], row["path"]))


def next_cleanup(completed: int, interval: int) -> int:
    """How many features are complete when the next cleanup session is due (UAH-321)."""
    return (completed // interval + 1) * interval


def file_sizes(git: Git, commit: str, session: int, before: Mapping[str, Any], test_files: Iterable[str]) -> JsonObject:
    """Lines of every source file of a commit, with the session that added it (UAH-132)."""
    found = before.get("files")
    known: JsonObject = found if isinstance(found, dict) else {}
    tests = {t.split("::", 1)[0] for t in test_files}
    rows: JsonObject = {}
    for path, lines in worktree.line_counts(git, commit, SOURCE_SUFFIXES).items():
        if path in tests or path.startswith(("tests/", "test/")):
            continue
        old = known.get(path)
        rows[path] = _row(lines, session, old if isinstance(old, dict) else {})
    return {"session": session, "files": rows}


def _row(lines: int, session: int, old: Mapping[str, Any]) -> JsonObject:
    changed = session if old.get("lines") != lines else old.get("session_changed", session)
    return {"lines": lines, "session_added": old.get("session_added", session), "session_changed": changed}


def warnings(sizes: Mapping[str, Any], before: Mapping[str, Any], max_lines: int) -> list[str]:
    """One line for every file that is too large or grows fast."""
    lines = []
    old = before.get("files") or {}
    for path, row in (sizes.get("files") or {}).items():
        if row["lines"] > max_lines:
            lines.append(f"{path} has {row['lines']} lines. Consider splitting.")
        grown = row["lines"] - (old.get(path) or row)["lines"]
        if grown > 50:
            lines.append(f"{path} growing rapidly ({grown} lines in 1 session).")
    return lines
