"""What removing a path takes away: the rules for ``rm -r`` and for ``find`` (C32)."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from agent_harness.agents.guardrails.paths import KEPT, resolved, within

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
    """Where a command runs, as far as its text tells."""

    root: str  # the project, without links
    folders: list[str] = field(default_factory=list)  # the working directory, one entry for each open subshell
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def cwd(self) -> str:
        return self.folders[-1]


def temporary() -> Iterator[str]:
    """The system's temp folders, without links."""
    yield os.path.realpath(tempfile.gettempdir())
    yield os.path.realpath("/tmp")  # noqa: S108


def expanded(text: str, place: WorkingFolder, unknown: str) -> str:
    """A word with what is known of its variables put in."""
    known = {"HOME": os.path.expanduser("~"), "PWD": place.cwd, "TMPDIR": tempfile.gettempdir()} | place.variables
    text = _TOP.sub(lambda _: place.root, _HERE.sub(lambda _: place.cwd, text))
    return _VARIABLE.sub(lambda found: known.get(found[1] or found[2], unknown), text)


def removed(text: str, tilde: bool, place: WorkingFolder) -> str | None:
    """Why a path may not be removed with all that is in it, or ``None``."""
    if "$" in text and expanded(text, place, "").strip("*") in ("/", "//"):
        return "it removes / when the variable is empty"
    shown = expanded(text, place, "unknown")
    for form in _forms(shown):
        path = os.path.expanduser(form) if tilde else form
        if path and (reason := _one(path, place)):
            return reason
    return None


def _one(path: str, place: WorkingFolder) -> str | None:
    target = _target(path, place.cwd)
    if any(_takes(target, whole) for whole in ("/", os.path.realpath(os.path.expanduser("~")), place.root)):
        return "it removes the whole project, or what the project is in" if target != "/" else "it removes /"
    for name in KEPT:
        kept = os.path.join(place.root, name)
        if _takes(target, kept) or within(target, kept, fold=True) or _below_kept(target, place.root, name):
            return f"it removes {name}"
    fixed = target[: found.start()].rpartition("/")[0] if (found := _GLOB.search(target)) else target
    if within(fixed, place.root):
        return None
    folders = list(temporary())
    home = os.path.realpath(os.path.expanduser("~"))
    at_home = [folder for folder in folders if within(home, folder) and within(fixed, home)]
    if target not in folders and any(within(fixed, folder) for folder in folders if folder not in at_home):
        return None
    return "it removes what is outside the project"


def _target(path: str, cwd: str) -> str:
    """What a removal names: a link at the end of the path stays a link, links before it are followed."""
    whole = os.path.join(cwd, path)
    head, _, last = whole.rpartition("/")
    if last in ("", ".", ".."):
        return resolved(whole, cwd)
    return os.path.join(os.path.realpath(head or "/"), last)


def _takes(target: str, path: str) -> bool:
    """True when a target, which may hold wildcards, is a path or a folder that the path is in."""
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


def _below_kept(target: str, root: str, name: str) -> bool:
    """True for a folder of that name anywhere in the project, or something in one."""
    return within(target, root) and name in os.path.relpath(target, root).casefold().split("/")


def _forms(text: str) -> list[str]:
    """A word with its braces multiplied out."""
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
    """Which words of an ``rm`` name what goes, when it removes folders; ``None`` when it does not."""
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
    """Why a ``find`` that removes what it finds is refused, or ``None``."""
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
