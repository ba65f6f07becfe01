"""Paths that an agent's tools may access, and rules for ``rm -r`` and for removal with ``find``. (C32)

Paths are compared as they resolve on disk, not as they are written."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from agent_harness.agents.base import ToolRules

KEPT = (".git", ".harness")  # never written by a tool, whatever the settings say


def check_path(path: str | os.PathLike[str], root: Path, rules: ToolRules, write: bool = False) -> str | None:
    """Return the reason to refuse a path to file tools, or None if the path is allowed."""
    # UAH-444, C32: never raises; denied folders match in any case, because some file systems ignore case
    if not rules.filesystem_enabled:
        return "file tools are disabled in this project (tools.filesystem.enabled)"
    try:
        return _refused(os.fspath(path), os.fspath(root), rules, write)
    except (OSError, ValueError):
        return f"{str(path)!r} is not a path"


def _refused(path: str, root: str, rules: ToolRules, write: bool) -> str | None:
    if not path.strip():
        return "the path is empty"
    real_root = os.path.realpath(root)
    target = resolved(path, root)
    spelled = os.path.normpath(os.path.join(root, os.path.expanduser(path)))
    if not any(within(target, resolved(each, root)) for each in rules.allowed_paths):
        return f"{path} is outside the paths that tools may access ({', '.join(rules.allowed_paths) or 'none'})"
    for each in (*rules.denied_paths, *(KEPT if write else ())):
        there = resolved(each, root)
        literal = os.path.normpath(os.path.join(root, os.path.expanduser(each)))
        if there != real_root and within(real_root, there):
            if within(target, there) and not within(target, real_root):
                return f"{path} is outside the project ({each} is denied)"
        elif within(target, there, fold=True) or within(spelled, literal, fold=True):
            return f"{path} is in {each}, which tools may not access"
    return None


def resolved(path: str, start: str) -> str:
    return os.path.realpath(os.path.join(start, os.path.expanduser(path)))


def within(path: str, folder: str, *, fold: bool = False) -> bool:
    """Return True if ``path`` is ``folder`` or is below it. Both paths must be absolute and normalized."""
    if fold:
        path, folder = path.casefold(), folder.casefold()
    return path == folder or path.startswith(folder.rstrip("/") + "/")


_VARIABLE = re.compile(r"\$(?:\{(\w+)[^}]*\}|(\w+))")
_HERE = re.compile(r"\$\(\s*pwd\s*\)|`\s*pwd\s*`")
_TOP = re.compile(r"\$\(\s*git rev-parse --show-toplevel\s*\)|`\s*git rev-parse --show-toplevel\s*`")
_GLOB = re.compile(r"[*?\[]")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_MOST_FORMS = 64
_NARROWING = {"-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "-empty"}
_LINKS = {"-H", "-L", "-P"}
_BY_NAME = {"-name", "-iname"}


@dataclass(slots=True)
class WorkingFolder:
    """Working directories and variables of a shell command, as far as its text shows them."""

    root: str  # the project, without links
    folders: list[str] = field(default_factory=list)  # the working directory, one entry for each open subshell
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def cwd(self) -> str:
        return self.folders[-1]


def temporary() -> Iterator[str]:
    yield os.path.realpath(tempfile.gettempdir())
    yield os.path.realpath("/tmp")  # noqa: S108


def expanded(text: str, place: WorkingFolder, unknown: str) -> str:
    """Return the text with known variables expanded. Other variables become ``unknown``."""
    known = {"HOME": os.path.expanduser("~"), "PWD": place.cwd, "TMPDIR": tempfile.gettempdir()} | place.variables
    text = _TOP.sub(lambda _: place.root, _HERE.sub(lambda _: place.cwd, text))
    return _VARIABLE.sub(lambda found: known.get(found[1] or found[2], unknown), text)


def removed(text: str, tilde: bool, place: WorkingFolder) -> str | None:
    """Return the reason to refuse ``rm -r`` for a path, or ``None`` if the removal is allowed."""
    if "$" in text and expanded(text, place, "").strip("*") in ("/", "//"):
        return "it removes / if the variable is empty"
    shown = expanded(text, place, "unknown")
    for form in _forms(shown):
        path = os.path.expanduser(form) if tilde else form
        if path and (reason := _one(path, place)):
            return reason
    return None


def _one(path: str, place: WorkingFolder) -> str | None:
    target = _target(path, place.cwd)
    if any(_takes(target, whole) for whole in ("/", os.path.realpath(os.path.expanduser("~")), place.root)):
        return "it removes the whole project, or a folder around it" if target != "/" else "it removes /"
    inside = os.path.relpath(target, place.root).casefold().split("/") if within(target, place.root) else ()
    for name in KEPT:
        kept = os.path.join(place.root, name)
        if _takes(target, kept) or within(target, kept, fold=True) or name in inside:
            return f"it removes {name}"
    fixed = target[: found.start()].rpartition("/")[0] if (found := _GLOB.search(target)) else target
    if within(fixed, place.root):
        return None
    folders = list(temporary())
    home = os.path.realpath(os.path.expanduser("~"))
    at_home = [folder for folder in folders if within(home, folder) and within(fixed, home)]
    if target not in folders and any(within(fixed, folder) for folder in folders if folder not in at_home):
        return None
    return "it removes files outside the project"


def _target(path: str, cwd: str) -> str:
    """Return the absolute path of the file that ``rm`` removes. For a link, this is the link itself."""
    whole = os.path.join(cwd, path)
    head, _, last = whole.rpartition("/")
    if last in ("", ".", ".."):
        return resolved(whole, cwd)
    return os.path.join(os.path.realpath(head or "/"), last)


def _takes(target: str, path: str) -> bool:
    """Return True if removing ``target`` also removes ``path``. ``target`` may contain wildcards."""
    wanted, there = target.casefold().strip("/").split("/"), path.casefold().strip("/").split("/")
    if wanted == [""]:
        return True
    return len(wanted) <= len(there) and all(map(_same, wanted, there))


def _same(pattern: str, name: str) -> bool:
    if pattern == name:
        return True
    if name.startswith(".") and not pattern.startswith("."):
        return False  # a wildcard matches no leading dot
    return bool(_GLOB.search(pattern)) and fnmatchcase(name, pattern)


def _forms(text: str) -> list[str]:
    """Return the words into which the shell expands braces, as in ``a{b,c}``."""
    forms = [text]
    for _ in range(_MOST_FORMS):
        at = next((index for index, form in enumerate(forms) if _BRACES.search(form)), None)
        if at is None or len(forms) > _MOST_FORMS:
            break
        form = forms.pop(at)
        found = _BRACES.search(form)
        if found:
            forms[at:at] = [form[: found.start()] + each + form[found.end() :] for each in found[1].split(",")]
    return forms


def rm_operands(words: Sequence[str]) -> list[int] | None:
    """Return the indexes of the paths in an ``rm`` command, or ``None`` without a recursive option."""
    operands: list[int] = []
    recursive = plain = False
    for index, word in enumerate(words[1:], start=1):
        if plain or not word.startswith("-") or word == "-":
            operands.append(index)
        elif word == "--":
            plain = True
        elif word.startswith("--"):
            recursive |= "--recursive".startswith(word)
        else:
            recursive |= "r" in word or "R" in word
    return operands if recursive else None


def found_and_removed(words: Sequence[str], place: WorkingFolder) -> str | None:
    """Return the reason to refuse a ``find`` command that removes files, or ``None`` if it is allowed."""
    given = [word for word in words[1:] if word not in _LINKS]
    first = next((at for at, word in enumerate(given) if word.startswith("-") or word in ("(", "!")), len(given))
    starts, tests = given[:first], given[first:]
    names = [tests[at + 1] for at, word in enumerate(tests[:-1]) if word in _BY_NAME]
    if any(fnmatchcase(kept, pattern.casefold()) for pattern in names for kept in KEPT):
        return f"it removes {' or '.join(KEPT)}"
    narrow = any(word in _NARROWING for word in tests)
    for start in starts or ["."]:
        shown = expanded(start, place, "unknown")
        path = resolved(shown, place.cwd)
        if narrow and path == place.root:
            continue
        if reason := _one(path, place):
            return reason
    return None
