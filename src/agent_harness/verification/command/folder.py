"""Verification of work in a folder that is not in a git repository.
The harness copies the files that affect the verdict before the work begins, and compares them afterwards. Without git
there are no checkouts and no base commit, so the command runs in the folder itself."""

import base64
import binascii
import os
import posixpath
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from agent_harness.errors import HarnessError
from agent_harness.kernel import files
from agent_harness.kernel.git import Git
from agent_harness.verification import protected_files
from agent_harness.verification.changes import LIMIT_BYTES, CandidateChanges, FileChange, Tree
from agent_harness.verification.command.runner import CommandCheck, CommandRunner, needs_what_came
from agent_harness.verification.guard import ProtectedFiles, decides, survey
from agent_harness.verification.runner.environment import IN_PLACE
from agent_harness.verification.runner.execution import Stop
from agent_harness.verification.verdict import CRITICAL, Finding, JudgedStep, Verdict

_MOST_FILES = 20_000  # paths of a folder that are looked at
_MOST_BYTES = 64 * 1024 * 1024  # contents of a folder that are kept
_PASSED_OVER = frozenset(
    {".git", ".hg", ".svn", ".harness", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox", ".pytest_cache"}
    | {"target"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFiles:
    """Paths of all files in a folder, and copies of the files that affect the verdict."""

    paths: frozenset[str]
    contents: Mapping[str, bytes]

    @property
    def tree(self) -> Tree:
        return Tree(self.paths, self.contents.get)

    def as_record(self) -> dict[str, Any]:
        texts = {path: base64.b64encode(content).decode() for path, content in sorted(self.contents.items())}
        return {"paths": sorted(self.paths), "contents": texts}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self | None:
        """Return the files stored in a record, or None if the record is invalid."""
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
    """Return the verdict on work in a folder without git. ``kept`` holds the files from before the work."""
    found = check.on_installed
    if kept is not None:
        now = folder_tree(os.fspath(root)) or kept.tree
        found += findings_since(kept, check.command, now, may_change=check.may_change)
    if any(finding.severity == CRITICAL for finding in found):
        guard = JudgedStep(step="guard", state="failed")
        return Verdict(accepted=False, findings=tuple(found), steps=(guard,), where=IN_PLACE)
    done = run_in_place(root, check, stop=stop)
    runner = _runner(root, check, stop)
    if not done.accepted and runner.blocked[0] and runner.with_what_came().run_here().exit_code == 0:
        told = needs_what_came(runner)
        found.append(Finding(told.code, CRITICAL, told.message, told.data))
    guard = JudgedStep(step="guard", state="warned" if found else "passed")
    return replace(done, findings=(*found, *done.findings), steps=(guard, *done.steps))


def run_in_place(root: str | os.PathLike[str], check: CommandCheck, *, stop: Stop | None = None) -> Verdict:
    """Run the command in the folder and return the verdict, without examining changed files."""
    run = _runner(root, check, stop).run_here()
    message = f"The command {run.over_limit}, and was stopped; its result does not count"
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
    """Return copies of the files that affect the verdict. Call this function before the work begins."""
    return kept_of(folder_tree(root) or Tree((), lambda _: None), command)


def kept_of(tree: Tree, command: str) -> KeptFiles:
    protection = _protection(command, tree)
    contents: dict[str, bytes] = {}
    room = _MOST_BYTES
    for path in sorted(tree.paths):
        content = tree.read(path) if decides(path, protection) else None
        if content is not None and len(content) <= room:
            contents[path] = content
            room -= len(content)
    return KeptFiles(paths=frozenset(tree.paths), contents=contents)


def findings_since(kept: KeptFiles, command: str, now: Tree, *, may_change: Collection[str]) -> list[Finding]:
    """Return a finding for each file that affects the verdict and differs from its copy in ``kept``."""
    protection = _protection(command, kept.tree, may_change)
    changed = (_change(path, kept, protection, now) for path in sorted({*kept.paths, *now.paths}))
    files = tuple(each for each in changed if each)
    return [*survey(CandidateChanges(files=files, before=kept.paths, after=frozenset(now.paths)), protection).findings]


def _protection(command: str, tree: Tree, may_change: Collection[str] = ()) -> ProtectedFiles:
    return protected_files.of_command(tree, protected_files.behind([command], tree), may_change=may_change)


def _change(path: str, kept: KeptFiles, protection: ProtectedFiles, now: Tree) -> FileChange | None:
    status = "A" if path not in kept.paths else "M" if path in now.paths else "D"
    is_link, before = path in now.links, kept.contents.get(path)
    if status == "M" and before is None and not (is_link and decides(path, protection)):
        return None  # it decides nothing, or there was no room for it, or it was a link then as well
    after = now.read(path) if status != "D" and decides(path, protection) else None
    if status == "M" and before == after and not is_link:
        return None
    return FileChange(path=path, status=status, before=before, after=after, link=is_link)


def folder_tree(root: str, *, besides: Collection[str] = ()) -> Tree | None:
    """Return the files of a folder, or None if the folder contains too many files."""
    paths: set[str] = set()
    links: dict[str, str] = {}
    out = {os.path.realpath(each) for each in besides}
    for folder, names, found in os.walk(root):
        here = os.path.realpath(folder)
        names[:] = [each for each in names if each not in _PASSED_OVER and f"{here}/{each}" not in out]
        for name in filter(_is_text, found):
            full = f"{folder}/{name}"
            paths.add(path := os.path.relpath(full, root))
            if Path(full).is_symlink():
                links[path] = posixpath.normpath(posixpath.join(posixpath.dirname(path), str(Path(full).readlink())))
        if len(paths) > _MOST_FILES:
            return None
    return Tree(paths, lambda path: _read(f"{root}/{path}"), links)


def _is_text(name: str) -> bool:
    return name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name)


def _read(path: str) -> bytes | None:
    try:
        status = os.lstat(path)
        plain = stat.S_ISREG(status.st_mode) and status.st_size <= LIMIT_BYTES
        return files.read_bytes(path) if plain else None
    except (OSError, HarnessError, ValueError):
        return None
