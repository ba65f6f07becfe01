"""File sizes, lint and the health figure that `status` shows.

Source: features.md UAH-314, UAH-315, UAH-438..442, C52.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from agent_harness.kernel.git import Git
from agent_harness.protocols.features import tree

Record = dict[str, Any]

SOURCE_SUFFIXES = (".py", ".js", ".ts", ".tsx", ".jsx", ".go", ".rs", ".java", ".rb", ".c", ".h", ".cpp", ".cs", ".php")


def file_sizes(git: Git, commit: str, session: int, before: Mapping[str, Any], test_files: Iterable[str]) -> Record:
    """Lines of every source file of a commit, with the session that added it (UAH-132)."""
    found = before.get("files")
    known: Record = found if isinstance(found, dict) else {}
    tests = {t.split("::", 1)[0] for t in test_files}
    rows: Record = {}
    for path, lines in tree.line_counts(git, commit, SOURCE_SUFFIXES).items():
        if path in tests or path.startswith(("tests/", "test/")):
            continue
        old = known.get(path)
        rows[path] = _row(lines, session, old if isinstance(old, dict) else {})
    return {"session": session, "files": rows}


def _row(lines: int, session: int, old: Mapping[str, Any]) -> Record:
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
