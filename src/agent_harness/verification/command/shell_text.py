"""The simple commands in a piece of shell text, as far as they can be seen without running it.

No shell grammar: quotes, separators, pipes, substitutions and redirections are told apart, and no variable is
expanded. What cannot be read yields fewer commands, never an error.
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

_SEPARATORS = frozenset(";&|()\n")
_REDIRECTING = frozenset("<>&")
_KEYWORDS = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "{", "}", "time", "exec", "command"})
_ENDS = frozenset({"fi", "done", "esac"})
_MOST_DEPTH = 8


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One program and its arguments."""

    words: tuple[str, ...]
    filtered: bool  # its output goes into a pipe or a substitution, so that something else decides


def simple_commands(text: str) -> list[SimpleCommand]:
    """The commands of ``text`` in order, those of substitutions before the command that uses them."""
    return list(_commands(text, filtered=False, depth=0))


def _commands(text: str, *, filtered: bool, depth: int) -> Iterator[SimpleCommand]:
    if depth > _MOST_DEPTH:
        return
    outer, inner = _without_substitutions(text)
    for each in inner:
        yield from _commands(each, filtered=True, depth=depth + 1)
    words: list[str] = []
    for word in (*_tokens(outer), "\n"):
        if not _SEPARATORS.issuperset(word):
            words.append(word)
            continue
        found = tuple(_without_redirections(_without_keywords(words)))
        if found:
            yield SimpleCommand(found, filtered or (word.startswith("|") and word != "||"))
        words = []


def _without_substitutions(text: str) -> tuple[str, list[str]]:
    """The text with ``_`` in the place of each ``$(…)``, ``<(…)`` and backtick substitution, and these."""
    outer: list[str] = []
    inner: list[str] = []
    at, single = 0, False
    while at < len(text):
        letter = text[at]
        if letter == "\\" and not single:
            outer.append(text[at : at + 2])
            at += 2
            continue
        if letter == "'" and text[:at].count('"') % 2 == 0:
            single = not single
        end = 0 if single else _end_of_substitution(text, at)
        if end:
            inner.append(text[at + (1 if letter == "`" else 2) : end])
            outer.append("_")
        else:
            outer.append(letter)
        at = (end or at) + 1
    return "".join(outer), inner


def _end_of_substitution(text: str, at: int) -> int:
    """Where the substitution that begins here ends; 0 when none begins."""
    if text[at] == "`":
        return max(text.find("`", at + 1), 0)
    if text[at : at + 2] not in ("$(", "<("):
        return 0
    depth = 0
    for end in range(at + 1, len(text)):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        if depth == 0:
            return end
    return 0


def _tokens(text: str) -> list[str]:
    """Words without their quotes, and runs of separators; what has an open quote is split at white space."""
    found: list[str] = []
    try:
        for line in _lines(text):
            lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()<>")
            lexer.whitespace_split = True
            found += [*lexer, "\n"]
    except ValueError:
        return text.replace('"', " ").replace("'", " ").split()
    return found


def _lines(text: str) -> list[str]:
    """Lines, those that a quote or a backslash leaves open together with the next."""
    lines: list[str] = []
    for line in text.replace("\\\n", " ").split("\n"):
        if lines and _is_open(lines[-1]):
            lines[-1] += f"\n{line}"
        else:
            lines.append(line)
    return lines


def _is_open(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return False


def _without_keywords(words: list[str]) -> list[str]:
    while words and words[0] in _KEYWORDS:
        words = words[1:]
    return [] if words and words[0] in _ENDS else words


def _without_redirections(words: list[str]) -> Iterator[str]:
    skip = False
    for at, word in enumerate(words):
        if skip:
            skip = False
        elif _REDIRECTING.issuperset(word):
            skip = True
        elif not (word.isdigit() and at + 1 < len(words) and _REDIRECTING.issuperset(words[at + 1])):
            yield word
