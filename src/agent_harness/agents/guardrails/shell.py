"""As much of the shell's grammar as a guard rail needs: a text becomes its simple commands.

Words come without their quotes; variables and substitutions stay in them as they were written, and what a substitution
runs is parsed as well. Nothing is run, looked up or expanded here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

DEEPEST = 20  # substitutions within substitutions; more than this is nobody's command

_OPERATORS = ("&&", "||", "|&", ";;&", ";;", ";&", ";", "|", "&", "(", ")", "\n")
_REDIRECT = re.compile(r"&>>|&>|<<<|<<-|<<|<>|<&|>>|>\||>&|<|>")
_DESCRIPTOR = re.compile(r"\d+|\{\w+\}")
_SINGLE = re.compile(r"'([^']*)'|\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_BLANK = " \t\r"


class UnreadableCommand(ValueError):
    """A text that no shell would take, in a few words."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command."""

    text: str  # without quotes; expansions as they were written
    runs: tuple[Simple, ...] = ()  # what its substitutions run
    quoted: bool = False  # a part of it stood in quotes
    tilde: bool = False  # it begins with a tilde that the shell replaces


@dataclass(frozen=True, slots=True)
class Simple:
    """A program with its words, what is redirected, and what stood before it."""

    words: tuple[Word, ...]
    redirects: tuple[tuple[str, Word], ...] = ()
    before: tuple[str, ...] = ()  # the operators between the command before and this one
    input: str | None = None  # the text of a here-document or here-string


def commands(text: str, depth: int = 0) -> tuple[Simple, ...]:
    """The simple commands of a text, in its order; raises ``UnreadableCommand``."""
    reader = _ShellReader(text, depth)
    reader.read(nested=False)
    return tuple(reader.found)


class _ShellReader:
    """One pass over a text."""

    def __init__(self, text: str, depth: int, at: int = 0) -> None:
        if depth > DEEPEST:
            raise UnreadableCommand("it is nested too deeply")
        self.text, self.at, self.depth = text, at, depth
        self.found: list[Simple] = []
        self._before: list[str] = []
        self._words: list[Word] = []
        self._redirects: list[tuple[str, Word]] = []
        self._input: str | None = None
        self._pending: list[tuple[bool, Word]] = []  # here-documents whose text follows the line

    def read(self, *, nested: bool) -> None:
        """Reads to the end, or when ``nested`` to the parenthesis that closes; leaves ``at`` behind it."""
        opened = 0
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in _BLANK or self.text.startswith("\\\n", self.at):
                self.at += 1 if char in _BLANK else 2
            elif char == "#":
                self.at = _end(self.text, "\n", self.at)
            elif self._process() or self._redirect():
                continue
            elif operator := next((each for each in _OPERATORS if self.text.startswith(each, self.at)), None):
                self.at += len(operator)
                if nested and operator == ")" and not opened:
                    return self._close()
                opened += (operator == "(") - (operator == ")" and opened > 0)
                self._between(operator)
            else:
                start = self.at
                self._words.append(self._word())
                if self.at == start:
                    self.at += 1  # a sign that begins no word
        if nested:
            raise UnreadableCommand("a parenthesis is not closed")
        return self._close()

    def _close(self) -> None:
        """The command so far is complete."""
        if self._words or self._redirects:
            simple = Simple(tuple(self._words), tuple(self._redirects), tuple(self._before), self._input)
            self.found.append(simple)
            self._before = []
        self._words = []
        self._redirects = []
        self._input = None

    def _between(self, operator: str) -> None:
        waiting = self._pending if operator == "\n" else []
        if waiting:
            self._pending = []
            for tabs, end in waiting:
                self._document(tabs, end)
        self._close()
        self._before.append(operator)

    def _document(self, tabs: bool, end: Word) -> None:
        """Takes the lines of a here-document; what it substitutes counts as a word of the command."""
        lines: list[str] = []
        while self.at < len(self.text):
            stop = _end(self.text, "\n", self.at)
            line, self.at = self.text[self.at : stop], min(stop + 1, len(self.text))
            if (line.lstrip("\t") if tabs else line) == end.text:
                break
            lines.append(line)
        self._input = "\n".join(lines)
        if not end.quoted:
            inner = _ShellReader(self._input, self.depth + 1)
            runs: list[Simple] = []
            while inner.at < len(inner.text):
                inner.expansion(runs)
            self._redirects.append(("<<", Word("", tuple(runs))))

    def _process(self) -> bool:
        """Reads ``<(...)`` or ``>(...)``."""
        if not self.text.startswith(("<(", ">("), self.at):
            return False
        start = self.at
        self.at += 2
        runs = self._nested()
        self._words.append(Word(self.text[start : self.at], runs))
        return True

    def _redirect(self) -> bool:
        number = _DESCRIPTOR.match(self.text, self.at)
        start = number.end() if number else self.at
        operator = _REDIRECT.match(self.text, start)
        if operator is None:
            return False
        self.at = operator.end()
        while self.at < len(self.text) and self.text[self.at] in _BLANK:
            self.at += 1
        target = self._word()
        sign = operator[0]
        if sign in ("<<", "<<-"):
            self._pending.append((sign == "<<-", target))
        elif sign == "<<<":
            self._input = target.text
        self._redirects.append((sign, target))
        return True

    def _word(self) -> Word:
        """The word at this place; empty when none begins here."""
        out: list[str] = []
        runs: list[Simple] = []
        tilde, quoted = self.text.startswith("~", self.at), False
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in _BLANK or char in ";|&()<>\n":
                break
            if char in "'\"" or self.text.startswith(('$"', "$'"), self.at):
                quoted = True
                out.append(self._quoted(runs))
            elif char == "\\":
                quoted = True
                out.append(self.text[self.at + 1 : self.at + 2].replace("\n", ""))
                self.at += 2
            else:
                out.append(self.expansion(runs))
        return Word("".join(out), tuple(runs), quoted, tilde)

    def _quoted(self, runs: list[Simple]) -> str:
        """What stands between quotes."""
        whole = _SINGLE.match(self.text, self.at)
        if whole:
            self.at = whole.end()
            return whole[1] if whole[1] is not None else re.sub(r"\\(.)", r"\1", whole[2])
        self.at += self.text[self.at] == "$"
        if self.text[self.at : self.at + 1] != '"':
            raise UnreadableCommand("a quote is not closed")
        self.at += 1
        out: list[str] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return "".join(out)
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\", "\n"):
                out.append(self.text[self.at + 1].replace("\n", ""))
                self.at += 2
            else:
                out.append(self.expansion(runs))
        raise UnreadableCommand("a quote is not closed")

    def expansion(self, runs: list[Simple]) -> str:
        """One character, or one whole expansion as it was written; adds what it runs."""
        start = self.at
        if self.text.startswith("$((", start):
            self.at = _balanced(self.text, start + 1)
        elif self.text.startswith("$(", start):
            self.at += 2
            runs.extend(self._nested())
        elif self.text.startswith("${", start):
            self.at += 2
            self._braced(runs)
        elif self.text[start] == "`":
            end = self.at + 1
            while end < len(self.text) and self.text[end] != "`":
                end += 2 if self.text[end] == "\\" else 1
            if end >= len(self.text):
                raise UnreadableCommand("a backtick is not closed")
            inside = re.sub(r"\\([$`\\])", r"\1", self.text[self.at + 1 : end])
            runs.extend(commands(inside, self.depth + 1))
            self.at = end + 1
        else:
            self.at += 1
        return self.text[start : self.at]

    def _nested(self) -> tuple[Simple, ...]:
        inner = _ShellReader(self.text, self.depth + 1, self.at)
        inner.read(nested=True)
        self.at = inner.at
        return tuple(inner.found)

    def _braced(self, runs: list[Simple]) -> None:
        inner = _ShellReader(self.text, self.depth + 1, self.at)
        while inner.at < len(inner.text):
            if inner.text[inner.at] == "}":
                self.at = inner.at + 1
                return
            if inner.text[inner.at] == "\\":
                inner.at += 2
            elif inner.text[inner.at] in "'\"":
                inner._quoted(runs)
            else:
                inner.expansion(runs)
        raise UnreadableCommand("a brace is not closed")


def _end(text: str, mark: str, start: int) -> int:
    """Where a mark stands, or the end of the text."""
    found = text.find(mark, start)
    return len(text) if found < 0 else found


def _balanced(text: str, start: int) -> int:
    """Behind the parenthesis that closes the one at a place."""
    level = 0
    for at in range(start, len(text)):
        level += (text[at] == "(") - (text[at] == ")")
        if level == 0:
            return at + 1
    raise UnreadableCommand("a parenthesis is not closed")


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
