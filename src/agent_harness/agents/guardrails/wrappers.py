"""Programs that start another program: which of their words are that program's."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

KEYWORDS = {"if", "then", "elif", "else", "while", "until", "do", "!", "{", "}", "time", "coproc"}
SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "fish"}

# The options of each whose value is the next word, and how many words of its own follow the options.
WRAPPERS: dict[str, tuple[frozenset[str], int]] = {
    "env": (frozenset({"-u", "--unset", "-C", "--chdir"}), 0),
    "xargs": (frozenset({"-I", "-n", "-P", "-L", "-d", "-a", "-s", "-E", "--max-args", "--max-procs", "--replace"}), 0),
    "timeout": (frozenset({"-k", "-s", "--kill-after", "--signal"}), 1),
    "nice": (frozenset({"-n", "--adjustment"}), 0),
    "ionice": (frozenset({"-c", "-n", "-p"}), 0),
    "stdbuf": (frozenset({"-i", "-o", "-e"}), 0),
    "time": (frozenset({"-f", "-o"}), 0),
    "exec": (frozenset({"-a"}), 0),
    "watch": (frozenset({"-n", "--interval"}), 0),
    "flock": (frozenset({"-w", "-E"}), 1),
    "chroot": (frozenset(), 1),
    "strace": (frozenset({"-e", "-o", "-p", "-s"}), 0),
    **{
        name: (frozenset[str](), 0)
        for name in ("command", "builtin", "nohup", "setsid", "busybox", "toybox", "chronic", "unbuffer")
    },
}

_ASSIGNMENT = re.compile(r"\w+=.*", re.DOTALL)
_EXECUTING = {"-exec", "-execdir", "-ok", "-okdir"}


def name_of(words: Sequence[str]) -> str:
    """The program's name without its folder; empty when there are no words."""
    return os.path.basename(words[0]) if words else ""


def unwrapped(words: Sequence[str]) -> int:
    """How many words a wrapper keeps for itself; 0 when the program is none, or starts nothing."""
    known = WRAPPERS.get(name_of(words))
    if known is None:
        return 0
    valued, own = known
    at = 1
    while at < len(words) and (words[at].startswith("-") or _ASSIGNMENT.fullmatch(words[at])):
        if words[at] == "--":
            at += 1
            break
        at += 2 if words[at] in valued else 1
    at += own
    return at if at < len(words) else 0


def script_of(words: Sequence[str]) -> str | None:
    """The text that ``sh -c``, ``eval`` or ``env -S`` runs, or ``None``."""
    name = name_of(words)
    if name == "eval":
        return " ".join(words[1:])
    if name == "env":
        return _after(words, r"-\w*S|--split-string")
    if name in SHELLS:
        return _after(words, r"-\w*c\w*|--command")
    if name in ("flock", "script", "watch"):
        return _after(words, r"-\w*c|--command")
    return None


def _after(words: Sequence[str], option: str) -> str | None:
    """The first word behind an option that is no option itself."""
    for at, word in enumerate(words[1:], start=1):
        if word.startswith("--split-string="):
            return word.partition("=")[2]
        if re.fullmatch(option, word):
            rest = [each for each in words[at + 1 :] if not each.startswith(("-", "+"))]
            return rest[0] if rest else None
    return None


def executed(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """From where to where the words of each command stand that ``find`` starts."""
    if name_of(words) not in ("find", "fd", "gfind"):
        return
    for at, word in enumerate(words):
        if word in _EXECUTING:
            end = next((i for i in range(at + 1, len(words)) if words[i] in (";", "+")), len(words))
            yield at + 1, end
