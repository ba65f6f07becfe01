"""New files that would be taken for a part of the interpreter, of the test runner, or for another module.

Rules for ``guard.py``. A module of that name that was there before is the project's own affair.
"""

import sys
from collections.abc import Collection
from pathlib import PurePosixPath

from agent_harness.verification.changes import CandidateChanges, FileChange
from agent_harness.verification.runner_config import is_conftest, is_test_file

_RUNNER_MODULES = frozenset(
    {"pytest", "_pytest", "py", "pluggy", "iniconfig", "xdist", "execnet", "pytest_timeout", "agent_harness_witness"}
)
_START_MODULES = frozenset({"sitecustomize", "usercustomize"})
_MODULE_SUFFIXES = frozenset({".py", ".pyc", ".so", ".pyd"})


def shadows(change: FileChange, changes: CandidateChanges, roots: Collection[str]) -> str | None:
    """Why a changed path is taken for a part of the interpreter or the runner; ``roots`` are folders of imports."""
    pure = PurePosixPath(change.path)
    if change.status != "D" and (why := _started_from(pure, change.after)):
        return why if change.status == "A" or _started_from(pure, change.before or b"\0") is None else None
    return _takes_place(pure, change, changes, roots) if change.status == "A" else None


def _takes_place(
    pure: PurePosixPath, change: FileChange, changes: CandidateChanges, roots: Collection[str]
) -> str | None:
    folder, module = _top_module(pure, link=change.link)
    if not module or _was_there(folder, module, changes.before):
        return None
    if module in _RUNNER_MODULES and _is_import_root(folder, roots, changes):
        return f"it takes the place of {module}, which runs the tests"
    if module in sys.stdlib_module_names and _is_import_root(folder, roots, changes):
        return f"it takes the place of {module} of the standard library"
    twin = next((root for root in roots if root != folder and _was_there(root, module, changes.before)), None)
    if twin is not None and _is_import_root(folder, roots, changes):
        return f"it takes the place of {module} in {twin or 'the top folder'}"
    return None


def _started_from(pure: PurePosixPath, content: bytes | None) -> str | None:
    if pure.name.split(".")[0].lower() in _START_MODULES and pure.suffix in _MODULE_SUFFIXES:
        return "the interpreter runs it when it starts"
    if pure.suffix == ".pth" and (content is None or b"\0" not in content):
        return "the interpreter reads it when it starts"
    in_metadata = any(part.endswith((".egg-info", ".dist-info")) for part in pure.parts[:-1])
    if pure.name == "entry_points.txt" and in_metadata and b"pytest11" in (b"pytest11" if content is None else content):
        return "it makes pytest load a plugin"
    return None


def _top_module(pure: PurePosixPath, *, link: bool) -> tuple[str, str]:
    """The folder from which a path would be imported, and the module that it defines; no module is empty."""
    name, suffix = pure.name.split(".")[0], pure.suffix
    if pure.name == "__init__.py":
        return _folder(pure.parent), pure.parent.name
    if suffix in _MODULE_SUFFIXES or (link and not suffix):
        return _folder(pure), name
    return "", ""


def _folder(pure: PurePosixPath) -> str:
    return "" if str(pure.parent) == "." else str(pure.parent)


def _was_there(folder: str, module: str, before: Collection[str]) -> bool:
    stem = f"{folder}/{module}" if folder else module
    return f"{stem}.py" in before or f"{stem}/__init__.py" in before


def _is_import_root(folder: str, roots: Collection[str], changes: CandidateChanges) -> bool:
    """A folder on the path of imports: a known one, or one that pytest puts there because tests lie in it."""
    if folder in roots:
        return True
    paths = changes.before | changes.after
    if f"{folder}/__init__.py" in paths:
        return False
    inside = [path for path in paths if path.startswith(folder + "/")]
    return any(_basedir(path, paths) == folder for path in inside if is_test_file(path) or is_conftest(path))


def _basedir(path: str, paths: Collection[str]) -> str:
    """The first folder above a test file that is no package."""
    folder = PurePosixPath(path).parent
    while str(folder) != "." and f"{folder}/__init__.py" in paths:
        folder = folder.parent
    return "" if str(folder) == "." else str(folder)
