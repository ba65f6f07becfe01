"""Work in a folder that is in no git work tree: what decides about it is kept as it was, and compared.

Nothing can be checked out there: the command runs in the folder itself, and there is no code before to ask.
"""

import base64
import binascii
import os
import posixpath
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Self

from agent_harness.errors import HarnessError
from agent_harness.kernel import files
from agent_harness.kernel.git import Git
from agent_harness.verification.changes import LIMIT_BYTES, CandidateChanges, FileChange, Tree
from agent_harness.verification.command.guard import decides, findings_on
from agent_harness.verification.command.named_files import Named, named_by
from agent_harness.verification.command.runner import CommandCheck, CommandRunner, needs_plugins
from agent_harness.verification.runner.environment import IN_PLACE
from agent_harness.verification.runner.execution import Stop
from agent_harness.verification.verdict import CRITICAL, Finding, JudgedStep, Verdict

_MOST_FILES = 20_000  # paths of a folder that are looked at
_MOST_BYTES = 16 * 1024 * 1024  # contents of a folder that are kept
_PASSED_OVER = frozenset(
    {".git", ".hg", ".svn", ".harness", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox", ".pytest_cache"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFiles:
    """The paths of a folder, and the contents of those that decide."""

    paths: frozenset[str]
    contents: Mapping[str, bytes]

    def as_record(self) -> dict[str, Any]:
        """The members of the JSON record."""
        texts = {path: base64.b64encode(content).decode() for path, content in sorted(self.contents.items())}
        return {"paths": sorted(self.paths), "contents": texts}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self | None:
        """What ``as_record`` wrote; ``None`` for anything else."""
        paths, contents = record.get("paths"), record.get("contents")
        if not isinstance(paths, list) or not isinstance(contents, dict):
            return None
        try:
            kept = {str(path): base64.b64decode(text, validate=True) for path, text in contents.items()}
        except (TypeError, ValueError, binascii.Error):
            return None
        return cls(paths=frozenset(map(str, paths)), contents=kept)


def judge_folder(
    root: str | os.PathLike[str], check: CommandCheck, *, kept: KeptFiles | None, stop: Stop | None = None
) -> Verdict:
    """The verdict on a folder that is in no work tree; ``kept`` is what decided there at the claim, if known."""
    found = check.on_installed
    if kept is not None:
        named, changes = changes_since(os.fspath(root), check.command, kept)
        found += findings_on(changes, named, may_change=check.may_change)
    if any(finding.severity == CRITICAL for finding in found):
        guard = JudgedStep(step="guard", state="failed")
        return Verdict(accepted=False, findings=tuple(found), steps=(guard,), where=IN_PLACE)
    done = run_in_place(root, check, stop=stop)
    runner = _runner(root, check, stop)
    if not done.accepted and runner.blocked[0] and runner.with_plugins().run_here().exit_code == 0:
        told = needs_plugins(runner)
        found.append(Finding(told.code, CRITICAL, told.message, told.data))
    guard = JudgedStep(step="guard", state="warned" if found else "passed")
    return replace(done, findings=(*found, *done.findings), steps=(guard, *done.steps))


def run_in_place(root: str | os.PathLike[str], check: CommandCheck, *, stop: Stop | None = None) -> Verdict:
    """Runs the command in a folder as it is, and asks nothing else: for work that is in nobody's hands."""
    run = _runner(root, check, stop).run_here()
    message = f"The command {run.over_limit}, and was ended: that proves nothing, for the work or against it"
    good = run.exit_code == 0
    return Verdict(
        accepted=good,
        findings=(Finding("over_limit", CRITICAL, message),) if run.over_limit else (),
        proof=run,
        steps=(JudgedStep(step="proof", state="passed" if good else "failed", run=run, seconds=run.seconds),),
        where=IN_PLACE,
    )


def _runner(root: str | os.PathLike[str], check: CommandCheck, stop: Stop | None) -> CommandRunner:
    return CommandRunner(Git(root), replace(check, isolation=IN_PLACE), stop=stop)


def keep(root: str, command: str) -> KeptFiles:
    """What decides about work in a folder, as it is now; call it before the work begins."""
    tree = _tree(root)
    named = named_by(command, tree)
    contents: dict[str, bytes] = {}
    room = _MOST_BYTES
    for path in sorted(tree.paths):
        content = tree.read(path) if decides(path, named) else None
        if content is not None and len(content) <= room:
            contents[path] = content
            room -= len(content)
    return KeptFiles(paths=frozenset(tree.paths), contents=contents)


def changes_since(root: str, command: str, kept: KeptFiles) -> tuple[Named, CandidateChanges]:
    """What the command names by the files that were kept, and how the folder differs from them."""
    before = Tree(kept.paths, kept.contents.get)
    named, now = named_by(command, before), _tree(root)
    changed = (_change(path, kept, now) for path in sorted({*kept.contents, *now.paths}) if decides(path, named))
    changes = CandidateChanges(
        files=tuple(each for each in changed if each), before=kept.paths, after=frozenset(now.paths)
    )
    return named, changes


def _change(path: str, kept: KeptFiles, now: Tree) -> FileChange | None:
    is_link, before = path in now.links, kept.contents.get(path)
    after = now.read(path) if path in now.paths else None
    if path in kept.paths and before is None and not is_link:
        return None  # too large to be kept, or a link then as well
    if before == after and not is_link:
        return None
    status = "A" if path not in kept.paths else "M" if path in now.paths or is_link else "D"
    return FileChange(path=path, status=status, before=before, after=after, link=is_link)


def _tree(root: str) -> Tree:
    """The files of a folder, read without following a link."""
    place = Path(root)
    paths: dict[str, None] = {}
    links: dict[str, str] = {}
    for path in islice(_walk(place), _MOST_FILES):
        paths[path] = None
        if (place / path).is_symlink():
            links[path] = posixpath.normpath(posixpath.join(posixpath.dirname(path), str((place / path).readlink())))

    def read(path: str) -> bytes | None:
        full = place / path
        try:
            plain = stat.S_ISREG(full.lstat().st_mode) and full.stat().st_size <= LIMIT_BYTES
            return files.read_bytes(full) if plain else None
        except (OSError, HarnessError):
            return None

    return Tree(paths.keys(), read, links)


def _walk(root: Path) -> Iterator[str]:
    for folder, names, found in os.walk(root):
        names[:] = sorted(name for name in names if name not in _PASSED_OVER)
        below = Path(folder).relative_to(root)
        yield from (str(below / name) for name in sorted(found))
