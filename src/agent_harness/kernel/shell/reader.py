"""Parser of shell text into commands. The position of each letter of a word is known. Nothing is executed or expanded.
Parsing takes one pass and never raises. Invalid shell text is read as far as possible, and ``fault`` is the error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

DEEPEST = 20  # substitutions within substitutions; deeper text is not a command that people write
KEYWORDS = frozenset(
    {"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "esac", "!", "{", "}", "coproc"}
)
"""Reserved words that may precede a command. Others, such as ``for``, are parsed as a command's first word."""
_CLOSING = frozenset({"fi", "done", "esac", "}"})
_NEXT_ARM = frozenset({";;", ";&", ";;&"})
_BLANK = re.compile(r"(?:[ \t\r]+|\\\n|#[^\n]*)+")
_GAP = re.compile(r"(?:[ \t\r]|\\\n)*")  # before the target of a redirection
_OPERATOR = re.compile(r"&&|\|\||\|&|;;&|;;|;&|[;|&()\n]")
_REDIRECT = re.compile(r"(?:\d+|\{\w+\})?(&>>|&>|<<<|<<-|<<|<>|<&|>>|>\||>&|[<>](?!\())")
_BARE = re.compile(r"[^ \t\r\n;&|()<>'\"\\$`]+")
_IN_QUOTES = re.compile(r'[^"\\$`]+')
_IN_BRACES = re.compile(r"[^}'\"\\$`]+")
_SPECIAL = re.compile(r"[\\$`]")
_ANSI = re.compile(r"\$'((?:[^'\\]|\\.)*+)'", re.DOTALL)
_TICKED = re.compile(r"`((?:[^`\\]|\\.)*+)`", re.DOTALL)
_IN_TICKS, _IN_QUOTED_TICKS = re.compile(r"\\[$`\\]"), re.compile(r'\\[$`\\"]')
_PARAMETER = re.compile(r"\$(?=[\w?#@*!$-])")
_PARENTHESIS = re.compile(r"[()]")


@dataclass(frozen=True, slots=True)
class ShellWord:
    """One shell word without its quotes. Variables are not expanded."""

    text: str
    at: Sequence[int] = ()  # the position of each letter
    start: int = 0
    end: int = 0
    quoted: bool = False  # a part of it was in quotes, or behind a backslash
    expands: bool = False  # a shell replaces a part of it
    wildcard: bool = False  # it has a star or a question mark outside of quotes
    runs: tuple[ShellCommand, ...] = ()  # the commands of its substitutions
    holes: tuple[tuple[int, str], ...] = ()  # position and text of each substitution

    @property
    def tilde(self) -> bool:
        """True if the word begins with a tilde that a shell expands."""
        return self.text.startswith("~") and len(self.at) > 0 and self.at[0] == self.start

    @property
    def written(self) -> str:
        """Text of the word, with the source text of its substitutions."""
        return self.filled() if self.holes else self.text

    def filled(self, instead: str | None = None) -> str:
        """Return the word's text, with ``instead`` in place of each substitution."""
        parts, before = list[str](), 0
        for at, written in self.holes:
            parts += (self.text[before:at], written if instead is None else instead)
            before = at
        return "".join((*parts, self.text[before:]))

    def behind(self, cut: int) -> ShellWord:
        """Return the word without its first ``cut`` letters."""
        return ShellWord(self.text[cut:], self.at[cut:], self.start, self.end, self.quoted)


@dataclass(slots=True)
class ShellCommand:
    """One shell command with its words, redirections and neighbouring operators."""

    words: list[ShellWord] = field(default_factory=list)
    redirects: list[tuple[str, ShellWord]] = field(default_factory=list)
    before: list[str] = field(default_factory=list)  # the operators between the command before and this one
    after: str = ""  # the operator behind it
    keys: list[str] = field(default_factory=list)  # reserved words in front
    patterns: list[ShellWord] = field(default_factory=list)  # of the arm of a ``case`` that begins here
    document: ShellWord | None = None  # the text of a here-document or here-string

    @property
    def name(self) -> str:
        """Program name without its folder, or the name of the builtin."""
        return self.words[0].text.rpartition("/")[2] if self.words else ""

    @property
    def plain(self) -> list[str]:
        """Words of the command, in which an underscore replaces each substitution."""
        return [word.filled("_") for word in self.words]

    def substitutes(self) -> Iterator[tuple[ShellCommand, ...]]:
        """For each substitution in this command, yield the commands inside the substitution."""
        targets = (target for _, target in self.redirects)
        document = [self.document] if self.document and not any(sign == "<<<" for sign, _ in self.redirects) else []
        yield from (word.runs for word in (*self.patterns, *self.words, *targets, *document) if word.runs)


@dataclass(frozen=True, slots=True)
class ShellText:
    commands: tuple[ShellCommand, ...]
    fault: str  # why no shell accepts it, in a few words

    def every(self) -> Iterator[tuple[ShellCommand, bool]]:
        """Yield all commands, nested commands first. The flag is True if another command reads the output."""
        yield from _every(self.commands, within=False)


def _every(commands: Sequence[ShellCommand], *, within: bool) -> Iterator[tuple[ShellCommand, bool]]:
    for command in commands:
        for inner in command.substitutes():
            yield from _every(inner, within=True)
        yield command, within or command.after in ("|", "|&")


def read(text: str) -> ShellText:
    reader = _ShellReader(text)
    return ShellText(tuple(reader.commands()), reader.fault)


class _Letters:
    """Builder of a shell word."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.spans: list[tuple[int, int]] = []
        self.runs: list[ShellCommand] = []
        self.holes: list[tuple[int, str]] = []
        self.length = 0
        self.quoted = self.expands = self.wildcard = False

    def take(self, text: str, start: int, end: int) -> None:
        if start < end:
            self.parts.append(text[start:end])
            self.spans.append((start, end))
            self.length += end - start

    def hole(self, written: str) -> None:
        self.expands = True
        self.holes.append((self.length, written))

    def word(self, start: int, end: int, places: Sequence[int] | None) -> ShellWord:
        one = len(self.spans) == 1
        at: Sequence[int] = range(*self.spans[0]) if one else [i for span in self.spans for i in range(*span)]
        if places is not None:
            # from positions in an inner text to positions in the outer text
            at = [places[i] for i in at]
            start, end = (places[start], places[end - 1] + 1) if start < end else (0, 0)
        text, runs, holes = "".join(self.parts), tuple(self.runs), tuple(self.holes)
        return ShellWord(text, at, start, end, self.quoted, self.expands, self.wildcard, runs, holes)


class _Level:
    """Builder of the commands at one nesting level."""

    def __init__(self) -> None:
        self.now = ShellCommand()
        self.found = [self.now]
        self.opened = 0  # parentheses
        self.cases: list[str] = []  # of each open ``case``: its head, a pattern or a body is being read
        self.pending: list[tuple[ShellCommand, bool, ShellWord]] = []  # here-documents whose text follows the line

    @property
    def case(self) -> str:
        return self.cases[-1] if self.cases else ""

    def begin(self, *before: str) -> None:
        self.now = ShellCommand(before=list(before))
        self.found.append(self.now)

    def operator(self, sign: str) -> None:
        now = self.now
        if self.case == "pattern" and sign in ("(", "|", "\n", ")"):
            if sign == ")":
                self.cases[-1] = "body"
            return
        if self.case == "head" and sign == "\n":
            return
        if self.case:
            self.cases[-1] = "pattern" if sign in _NEXT_ARM else "body"
        self.opened += (sign == "(") - (sign == ")" and self.opened > 0)
        if now.words or now.redirects or now.patterns:
            now.after = sign
            self.begin(sign)
        else:
            now.before.append(sign)

    def word(self, word: ShellWord) -> None:
        words, plain = self.now.words, "" if word.quoted or word.expands else word.text
        head = words[0].text if words and not words[0].quoted else ""
        if self.case == "pattern" and (plain != "esac" or self.now.patterns):
            self.now.patterns.append(word)
        elif plain in KEYWORDS and not words and not self.now.redirects:
            self.now.keys.append(plain)
            if plain == "esac" and self.cases:
                self.cases.pop()
            if plain in _CLOSING:
                self.begin()
        elif plain == "do" and head in ("for", "select") and len(words) == 2:
            self.begin()
            self.now.keys.append(plain)
        else:
            words.append(word)
            if plain == "case" and len(words) == 1 and not self.now.redirects:
                self.cases.append("head")
            elif plain == "in" and self.case == "head" and len(words) == 3:
                self.cases[-1] = "pattern"
                self.begin()
            elif head == "function" and len(words) == 2:
                self.begin()


class _ShellReader:
    def __init__(self, text: str, places: Sequence[int] | None = None, depth: int = 0) -> None:
        self.text, self.places, self.depth = text, places, depth
        self.at = 0
        self.fault = ""
        self._closing: dict[int, int] | None = None

    def commands(self, *, nested: bool = False) -> list[ShellCommand]:
        """Return the commands up to the end of the text or the closing parenthesis."""
        level = _Level()
        while self.at < len(self.text):
            if blank := _BLANK.match(self.text, self.at):
                self.at = blank.end()
            elif redirect := _REDIRECT.match(self.text, self.at):
                self.redirect(level, redirect)
            elif operator := _OPERATOR.match(self.text, self.at):
                if operator[0] == "(" and self.arithmetic(level.now):
                    continue
                self.at = operator.end()
                pattern = level.case == "pattern" and level.now.patterns
                if nested and operator[0] == ")" and not level.opened and not pattern:
                    break
                if operator[0] == "\n":
                    self.documents(level)
                level.operator(operator[0])
            else:
                level.word(self.word())
        else:
            if nested:
                self.fail("a parenthesis is not closed")
            self.documents(level)
        if level.cases:
            self.fail("a case is not closed")
        return [each for each in level.found if each.words or each.redirects or each.keys or each.patterns]

    def fail(self, fault: str) -> None:
        self.fault = self.fault or fault

    def redirect(self, level: _Level, found: re.Match[str]) -> None:
        gap = _GAP.match(self.text, found.end())
        self.at = gap.end() if gap else found.end()
        sign, target = found[1], self.word()
        level.now.redirects.append((sign, target))
        if sign in ("<<", "<<-") and (target.text or target.quoted):
            level.pending.append((level.now, sign == "<<-", target))
        elif sign == "<<<":
            level.now.document = target

    def documents(self, level: _Level) -> None:
        """Read the here-documents of ``level`` that begin on the current line."""
        pending = level.pending
        level.pending = []
        for command, tabs, mark in pending:
            letters, start, end = _Letters(), self.at, len(self.text)
            letters.quoted, letters.expands = True, not mark.quoted
            while self.at < len(self.text):
                begin, stop = self.at, self.text.find("\n", self.at)
                self.at = len(self.text) if stop < 0 else stop + 1
                while tabs and self.text.startswith("\t", begin):
                    begin += 1
                if self.text[begin : self.at].removesuffix("\n") == mark.text:
                    end = begin
                    break
                letters.take(self.text, begin, self.at)
            if not tabs:
                letters.spans, letters.parts = [(start, end)], [self.text[start:end]]
            if not mark.quoted:
                letters.runs = self.inside(start, end)
            command.document = letters.word(start, end, self.places)

    def inside(self, start: int, end: int) -> list[ShellCommand]:
        """Return the commands in the substitutions between two positions of the text."""
        letters = _Letters()
        if self.too_deep():
            return []
        inner = self.inner(self.text[start:end], range(start, end))
        while found := _SPECIAL.search(inner.text, inner.at):
            inner.at = found.start()
            if inner.text[inner.at] == "\\":
                inner.at += 2
            else:
                inner.expansion(letters, quoted=True)
        self.fail(inner.fault)
        return letters.runs

    def too_deep(self) -> bool:
        if self.depth < DEEPEST:
            return False
        self.fail("it is nested too deeply")
        self.at = len(self.text)
        return True

    def inner(self, text: str, places: Sequence[int]) -> _ShellReader:
        # ``places`` are the positions of the letters of ``text`` in this reader's text
        known = self.places
        return _ShellReader(text, places if known is None else [known[i] for i in places], self.depth + 1)

    def arithmetic(self, now: ShellCommand) -> bool:
        # ``((...))`` at the start of a command becomes one argument
        end = self.arithmetic_end(self.at) if [each.text for each in now.words[:2]] in ([], ["for"]) else 0
        if end:
            for start, stop in ((self.at, self.at + 2), (self.at + 2, end - 2)):
                letters = _Letters()
                letters.take(self.text, start, stop)
                letters.runs = self.inside(start, stop)
                letters.expands = bool(letters.runs)
                now.words.append(letters.word(start, stop, self.places))
            self.at = end
        return end > 0

    def arithmetic_end(self, at: int) -> int:
        # the position after the closing ``))``, or 0 if there is none
        if self._closing is None:
            self._closing = {}
            opened = list[int]()
            for found in _PARENTHESIS.finditer(self.text):
                if found[0] == "(":
                    opened.append(found.start())
                elif opened:
                    self._closing[opened.pop()] = found.start()
        outer, inner = self._closing.get(at, 0), self._closing.get(at + 1, 0)
        return outer + 1 if inner and outer == inner + 1 else 0

    def word(self) -> ShellWord:
        """Return the shell word at the current position, or an empty word if there is no word."""
        letters, start, text = _Letters(), self.at, self.text
        while self.at < len(text):
            if bare := _BARE.match(text, self.at):
                letters.wildcard |= "*" in bare[0] or "?" in bare[0]
                self.take(letters, bare.end())
                continue
            char = text[self.at]
            if text.startswith(("<(", ">("), self.at):
                self.substitution(letters)
            elif char in " \t\r\n;&|()<>":
                break
            elif char in "'\"" or text.startswith(('$"', "$'"), self.at):
                self.quotes(letters)
            elif char == "\\":
                letters.quoted = True
                self.escaped(letters)
            else:
                self.expansion(letters)
        return letters.word(start, self.at, self.places)

    def take(self, letters: _Letters, end: int) -> None:
        letters.take(self.text, self.at, end)
        self.at = end

    def escaped(self, letters: _Letters) -> None:
        self.at += 2 if self.text.startswith("\\\n", self.at) else 1
        if self.text[self.at - 1] == "\\":
            self.take(letters, min(self.at + 1, len(self.text)))

    def quotes(self, letters: _Letters) -> None:
        letters.quoted, text = True, self.text
        start, end = self.at, -1
        self.at += 2 if text[start] == "$" else 1
        if ansi := _ANSI.match(text, start):
            letters.expands = True  # its escapes, or in a shell without such quotes, a variable
            end = ansi.end() - 1
            while (escape := text.find("\\", self.at, end)) >= 0:
                self.take(letters, escape)
                self.escaped(letters)
        elif text[self.at - 1] == '"':
            self.in_double_quotes(letters)
            end = self.at if self.at < len(text) else -1
        elif text[start] == "'":
            end = text.find("'", self.at)
        if end < 0:
            self.fail("a quote is not closed")
        self.take(letters, len(text) if end < 0 else end)
        self.at = min(self.at + 1, len(text))

    def in_double_quotes(self, letters: _Letters) -> None:
        text = self.text
        while self.at < len(text) and text[self.at] != '"':
            if plain := _IN_QUOTES.match(text, self.at):
                self.take(letters, plain.end())
            elif text[self.at] != "\\":
                self.expansion(letters, quoted=True)
            elif text[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\", "\n"):
                self.escaped(letters)
            else:
                self.take(letters, self.at + 1)

    def expansion(self, letters: _Letters, *, quoted: bool = False) -> None:
        """Read an expansion, such as ``$NAME``, ``${NAME}`` or ``$(command)``."""
        text, start = self.text, self.at
        if text.startswith("$(", start):
            self.substitution(letters)
        elif text[start] == "`":
            self.ticked(letters, _IN_QUOTED_TICKS if quoted else _IN_TICKS)
        elif text.startswith("${", start):
            self.braced(letters, quoted=quoted)
        else:
            letters.expands |= bool(_PARAMETER.match(text, start))
            self.take(letters, start + 1)

    def substitution(self, letters: _Letters) -> None:
        """Read a substitution such as ``$(...)`` or ``<(...)``, with its commands."""
        start = self.at
        self.at += 2
        if end := self.arithmetic_end(start + 1):
            letters.runs += self.inside(start + 3, end - 2)
            self.at = end
        elif not self.too_deep():
            self.depth += 1
            letters.runs += self.commands(nested=True)
            self.depth -= 1
        letters.hole(self.text[start : self.at])

    def ticked(self, letters: _Letters, escapes: re.Pattern[str]) -> None:
        """Read the commands between two backticks, and resolve the backslash escapes."""
        start, whole = self.at, _TICKED.match(self.text, self.at)
        if whole is None:
            self.fail("a backtick is not closed")
        begin, end = whole.span(1) if whole else (start + 1, len(self.text))
        places = list[int]()
        for escape in escapes.finditer(self.text, begin, end):
            places += range(begin, escape.start())
            begin = escape.start() + 1
        places += range(begin, end)
        self.at = end + 1 if whole else end
        if not self.too_deep():
            inner = self.inner("".join([self.text[i] for i in places]), places)
            letters.runs += inner.commands()
            self.fail(inner.fault)
        letters.hole(self.text[start : self.at])

    def braced(self, letters: _Letters, *, quoted: bool) -> None:
        """Read a ``${...}`` expansion and parse its substitutions."""
        text, start, inner = self.text, self.at, _Letters()
        self.at += 2
        if not self.too_deep():
            self.depth += 1
            while self.at < len(text) and text[self.at] != "}":
                if plain := _IN_BRACES.match(text, self.at):
                    self.at = plain.end()
                elif text[self.at] == "\\":
                    self.at = min(self.at + 2, len(text))
                elif text[self.at] == "'" and quoted:
                    self.at += 1
                elif text[self.at] in "'\"":
                    self.quotes(inner)
                else:
                    self.expansion(inner, quoted=quoted)
            self.depth -= 1
        if self.at >= len(text):
            self.fail("a brace is not closed")
        self.at = min(self.at + 1, len(text))
        letters.expands = True
        letters.runs += inner.runs
        letters.take(text, start, self.at)
