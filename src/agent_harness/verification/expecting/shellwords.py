"""Shell text as words that know where each of their letters stands; nothing is run, looked up or expanded."""

import re
from dataclasses import dataclass, field

_BLANK = " \t\r"
_OPERATORS = ("&&", "||", "|&", ";;", ";", "|", "&", "(", ")", "\n")
_REDIRECT = re.compile(r"\d*(?:&>>|&>|<<<|<<-|<<|<>|<&|>>|>\||>&|<|>)")
_MOST_DEPTH = 8
_KEYWORDS = frozenset(
    {"if", "then", "elif", "else", "fi", "while", "until", "for", "do", "done", "case", "esac", "!", "{", "}", "time"}
)
_CLOSING = frozenset({"fi", "done", "esac", "}"})


@dataclass(slots=True)
class ShellWord:
    """One word, without its quotes."""

    value: str
    at: list[int]  # where each letter of it stands
    start: int
    end: int
    bare: bool = True  # nothing of it was quoted
    expands: bool = False
    runs: list["ShellCommand"] = field(default_factory=list)

    @property
    def literal(self) -> bool:
        """Whether it says itself what it is."""
        return not self.expands and not self.runs


@dataclass(slots=True)
class ShellCommand:
    """A simple command, and what stands before it."""

    words: list[ShellWord] = field(default_factory=list)
    redirects: list[tuple[str, ShellWord]] = field(default_factory=list)
    before: list[str] = field(default_factory=list)  # operators since the command before
    document: ShellWord | None = None
    after: str = ""  # the operator behind it
    keys: list[str] = field(default_factory=list)  # keywords in front

    def name(self) -> str:
        """The program, or the builtin."""
        return self.words[0].value.rpartition("/")[2] if self.words else ""


class Reader:
    """One pass over a text."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.ticked = False  # in a substitution between backticks
        self.pending: list[tuple[ShellCommand, bool, ShellWord]] = []

    def commands(self, end: str = "", depth: int = 0) -> list[ShellCommand]:
        """The commands to the end of the text, or to a closing mark."""
        found = [ShellCommand()]
        opened = 0
        while self.at < len(self.text):
            if self.blank() or self.redirect(found[-1], depth) or self.process(found[-1], depth):
                continue
            if end == "`" and self.text[self.at] == "`":
                self.at += 1
                break
            if self.text.startswith("((", self.at) and not found[-1].words:
                self.arithmetic(found[-1])
                continue
            operator = next((each for each in _OPERATORS if self.text.startswith(each, self.at)), "")
            if not operator:
                self.next_word(found, depth)
                continue
            self.at += len(operator)
            if operator == ")" and end == ")" and not opened:
                break
            opened += (operator == "(") - (operator == ")" and opened > 0)
            self.between(found, operator)
        return [each for each in found if each.words or each.redirects or each.keys]

    def blank(self) -> bool:
        """Passes over white space, lines that go on, and a comment."""
        start = self.at
        if self.text[self.at] in _BLANK:
            self.at += 1
        elif self.text.startswith("\\\n", self.at):
            self.at += 2
        elif self.text[self.at] == "#":
            stop = self.text.find("\n", self.at)
            self.at = len(self.text) if stop < 0 else stop
        return self.at > start

    def process(self, now: ShellCommand, depth: int) -> bool:
        """Reads ``<(...)``."""
        if not self.text.startswith(("<(", ">("), self.at):
            return False
        start = self.at
        self.at += 2
        now.words.append(ShellWord("", [], start, self.at, expands=True, runs=self.nested(")", depth)))
        return True

    def redirect(self, now: ShellCommand, depth: int) -> bool:
        """Reads a redirection and its target."""
        sign = _REDIRECT.match(self.text, self.at)
        if sign is None or self.text.startswith(("<(", ">("), self.at):
            return False
        self.at = sign.end()
        while self.at < len(self.text) and self.text[self.at] in _BLANK:
            self.at += 1
        word = self.word(depth)
        now.redirects.append((sign[0].lstrip("0123456789"), word))
        if now.redirects[-1][0] in ("<<", "<<-"):
            self.pending.append((now, sign[0].endswith("-"), word))
        return True

    def between(self, found: list[ShellCommand], operator: str) -> None:
        """An operator ends a command."""
        if operator == "\n":
            self.documents()
        now = found[-1]
        if now.words or now.redirects:
            now.after = operator
            found.append(ShellCommand(before=[operator]))
        else:
            now.before.append(operator)

    def next_word(self, found: list[ShellCommand], depth: int) -> None:
        """Reads a word, or a keyword in front of a command."""
        start, now = self.at, found[-1]
        word = self.word(depth)
        if self.at == start:
            self.at += 1
        elif now.words or not word.bare or word.value not in _KEYWORDS:
            now.words.append(word)
        else:
            now.keys.append(word.value)
            if word.value in _CLOSING:
                found.append(ShellCommand())

    def nested(self, end: str, depth: int) -> list[ShellCommand]:
        """What a substitution runs; deeper than anybody writes it is passed over."""
        if depth >= _MOST_DEPTH:
            self.at = len(self.text)
            return []
        outer, self.ticked = self.ticked, end == "`"
        found = self.commands(end, depth + 1)
        self.ticked = outer
        return found

    def arithmetic(self, now: ShellCommand) -> None:
        """``(( ... ))`` as a command with one word."""
        stop = self.text.find("))", self.at)
        stop = len(self.text) if stop < 0 else stop
        inside = range(self.at + 2, stop)
        now.words.append(ShellWord("((", [], self.at, self.at + 2))
        now.words.append(ShellWord(self.text[self.at + 2 : stop], list(inside), self.at + 2, stop))
        self.at = stop + 2

    def documents(self) -> None:
        """The here-documents whose text begins at this line."""
        for command, tabs, mark in self.pending:
            start = self.at
            while self.at < len(self.text):
                stop = self.text.find("\n", self.at)
                stop = len(self.text) if stop < 0 else stop
                line, begin = self.text[self.at : stop], self.at
                self.at = min(stop + 1, len(self.text))
                if (line.lstrip("\t") if tabs else line) == mark.value:
                    command.document = ShellWord(
                        self.text[start:begin], list(range(start, begin)), start, begin, bare=False, expands=mark.bare
                    )
                    break
        self.pending = []

    def word(self, depth: int) -> ShellWord:
        """The word at this place; empty where none begins."""
        word = ShellWord("", [], self.at, self.at)
        letters: list[str] = []
        quote = ""
        while self.at < len(self.text):
            char, after = self.text[self.at], self.text[self.at + 1 : self.at + 2]
            if (not quote and (char in _BLANK or char in ";|&()<>\n")) or (char == "`" and self.ticked):
                break
            if char == "'" and not quote:
                stop = self.text.find("'", self.at + 1)
                word.bare = False
                self.take(word, letters, self.at + 1, len(self.text) if stop < 0 else stop)
                self.at += 1
            elif char == '"':
                quote = "" if quote else '"'
                word.bare = False
                self.at += 1
            elif char == "\\" and (not quote or after in ("$", "`", '"', "\\", "\n")):
                self.take(word, letters, self.at + 1, self.at + 1 if after == "\n" else self.at + 2)
                self.at += after == "\n"
            elif not self.expansion(word, letters, depth):
                self.take(word, letters, self.at, self.at + 1)
        word.value, word.end = "".join(letters), self.at
        return word

    def take(self, word: ShellWord, letters: list[str], start: int, end: int) -> None:
        """Adds letters of the text to a word."""
        letters += self.text[start:end]
        word.at += range(start, min(end, len(self.text)))
        self.at = end

    def expansion(self, word: ShellWord, letters: list[str], depth: int) -> bool:
        """Reads what a shell puts something else in the place of: commands are read, and variables stay as written."""
        char, after = self.text[self.at], self.text[self.at + 1 : self.at + 2]
        if self.text.startswith("$((", self.at):
            stop = self.text.find("))", self.at)
            self.at = len(self.text) if stop < 0 else stop + 2
        elif self.text.startswith("$(", self.at) or char == "`":
            self.at += 1 if char == "`" else 2
            word.runs += self.nested("`" if char == "`" else ")", depth)
        elif self.text.startswith("${", self.at):
            stop = self.text.find("}", self.at)
            self.take(word, letters, self.at, len(self.text) if stop < 0 else stop + 1)
        elif char == "$" and (after.isidentifier() or (after and after in "0123456789?#@*!-")):
            self.take(word, letters, self.at, self.at + 1)
        else:
            return False
        word.expands = True
        return True
