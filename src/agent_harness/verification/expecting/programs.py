"""Tokens of a program, and rules that tell which comparisons must be true for a check to pass.
A comparison for equality must be true, unless it leads to a failure. A comparison for inequality must be false if it
leads to a failure, as in ``if got != 5 { t.Fatal() }``."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_harness.verification.expecting.edits import Edit, other_number, other_text
from agent_harness.verification.expecting.languages import (
    END,
    LANGUAGES,
    NAME,
    NUMBER,
    SIGN,
    TEXT,
    Language,
    Token,
    tokens,
)

OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, frozenset(")]}")
FLAGS = {"true": "false", "false": "true", "True": "False", "False": "True"}
_DENYING = re.compile(
    r"(?:assert)?_?(?:not_?ok|False|IsFalse|assertFalse|assert_?false|refute|EXPECT_FALSE|ASSERT_FALSE|falsy)"
)
_FAILING = re.compile(
    r"[$@%]*(?:die|croak|confess|abort|raise|throw|panic!?|quit|fatal\w*|unreachable!?|mismatch\w*|fputs?|\w*fail\w*|\w*err(?:or)?s?f?|"
    r"bad\w*|wrong\w*|reject|diff(?:er)?s?|problems?|broken)",
    re.IGNORECASE,
)
_LEAVING = re.compile(r"exit|_exit|Exit|exitCode|return|rc|status|code|ret|result", re.IGNORECASE)
_SUCCESS = re.compile(r"[$@%]*(?:ok|pass(?:ed)?|success|good|same|fine|right|correct)", re.IGNORECASE)
_CONDITIONS = frozenset({"if", "unless", "elif", "elsif", "while", "until", "elseif"})
_BEHIND = frozenset({"&&", "||", "and", "or", "?", ";", ",", "if", "unless", ":"})
_BYTES = frozenset({"b", "br"})  # before a text of Rust whose type says its length
_DEEPEST = 40  # brackets around a comparison
_NEAR = 40  # tokens after a condition in which a failure is looked for


@dataclass(slots=True)
class ParsedProgram:
    """Tokens of a program, with the enclosing bracket and statement of each token."""

    language: Language
    tokens: Sequence[Token]
    pair: dict[int, int] = field(default_factory=dict)  # of brackets, both ways
    parent: list[int] = field(default_factory=list)  # the bracket that is open at a token, or -1
    begin: list[int] = field(default_factory=list)  # where the statement of a token begins

    @classmethod
    def read(cls, text: str, language: str) -> "ParsedProgram":
        """Parse the text of a program. Invalid syntax raises no error."""
        program = cls(LANGUAGES[language], list(tokens(text, language)))
        program._enclose()
        return program

    def _enclose(self) -> None:
        stack: list[tuple[int, int]] = []  # the bracket, and where the statement around it begins
        begin = 0
        for at, token in enumerate(self.tokens):
            if token.kind == SIGN and token.text in CLOSE and stack:
                opened, begin = stack.pop()
                if len(stack) < _DEEPEST:  # each one is read with all that is in it
                    self.pair[opened], self.pair[at] = at, opened
            self.parent.append(stack[-1][0] if stack else -1)
            self.begin.append(begin)
            if token.kind == SIGN and token.text in OPEN:
                stack.append((at, begin))
                begin = at + 1
            elif (
                token.kind == END
                or (token.kind == SIGN and token.text == "}")
                or (token.text == ";" and token.kind == SIGN and not self._goes_on(begin))
            ):
                begin = at + 1

    def _goes_on(self, begin: int) -> bool:
        return self.word(begin) == "if" and self.word(begin + 1) != "("

    def word(self, at: int) -> str:
        if 0 <= at < len(self.tokens) and self.tokens[at].kind in (NAME, SIGN):
            return self.tokens[at].text
        return ""

    def literal(self, at: int) -> bool:
        if not 0 <= at < len(self.tokens):
            return False
        token = self.tokens[at]
        return token.kind in (TEXT, NUMBER) or (token.kind == NAME and token.text in FLAGS)

    def edits(self, at: int) -> list[Edit]:
        token = self.tokens[at]
        if token.kind == NUMBER:
            return other_number(token.text, token.start)
        if token.kind == NAME:
            return [Edit(token.start, token.start + len(token.text), FLAGS[token.text])]
        is_sized = self.language is LANGUAGES["c"] or self.word(at - 1) in _BYTES
        return [] if token.raw else other_text(token.text, token.start, grows=not is_sized)

    # ---- whether a comparison has to hold ------------------------------------------------------------------------

    def holds(self, at: int, *, equal: bool) -> bool:
        """Return True if the check requires equal values. ``equal`` is True if the operator is ``==``."""
        here, outer = at, self.parent[at]
        for _ in range(_DEEPEST):
            chained = self._chained(self._after(here))
            if chained is not None:
                return equal != chained
            first = max(outer + 1, self.begin[here])
            equal = equal != (here > first and self.word(first) == "not")
            if outer < 0 or self.tokens[outer].text != "(":
                break
            before = self.word(outer - 1)
            decided = self._in_call(here, outer, before, equal)
            if decided is not None:
                return decided
            equal = equal != (before == "!")
            here, outer = outer - (before == "!"), self.parent[outer]
        return self._in_statement(here, equal)

    def _in_call(self, here: int, outer: int, before: str, equal: bool) -> bool | None:
        """Return True if the comparison in a call must find equal values, or None if this is unclear."""
        if before in _CONDITIONS:
            return self._decided(equal, before, *self._bodies(self.pair.get(outer, len(self.tokens)) + 1))
        if before == "!" or not self._is_call(outer):
            return None
        if _LEAVING.fullmatch(before):
            return self._leaving(self._after(here), equal)
        return not equal if _DENYING.fullmatch(before) else equal

    def _is_call(self, bracket: int) -> bool:
        before = self.tokens[bracket - 1] if bracket else None
        return before is not None and before.kind == NAME and before.text not in ("return", "and", "or", "not", "in")

    def _after(self, at: int) -> int:
        """Return the position after a pair of brackets, or after an operator's right operand."""
        if self.word(at) in OPEN:
            return self.pair.get(at, at) + 1
        end = at + 1
        while end < len(self.tokens) and end - at < _NEAR:
            word = self.word(end)
            if self.tokens[end].kind == END or word in CLOSE or word in _BEHIND or (word == "{" and end > at + 1):
                break
            end = self.pair.get(end, end) + 1 if word in OPEN else end + 1
        return end

    def _chained(self, after: int) -> bool | None:
        """Return True for ``x and die``, False for ``x or die``, and None for other code."""
        at = after
        while at < len(self.tokens) and at - after < _NEAR:
            word = self.word(at)
            if word == "?":
                return True if self.fails(at + 1, at + 3) else None
            if self.tokens[at].kind == END or word in CLOSE or word in (";", "{"):
                return None
            if word in ("&&", "and", "||", "or") and self.fails(at + 1, at + 4):
                return word in ("&&", "and")
            at = self.pair.get(at, at) + 1 if word in OPEN else at + 1
        return None

    def _in_statement(self, at: int, equal: bool) -> bool:
        """Return True if the check requires equal values in a comparison outside brackets."""
        begin = max(self.begin[at], at - 4 * _NEAR)
        near = (i for i in range(begin, at) if self.word(i) in _CONDITIONS and self.parent[i] == self.parent[at])
        first, opening = next(near, -1), self._after_condition(at)
        if first < 0:
            if self.language.arms and opening >= 0:
                return self._decided(equal, "if", *self._bodies(opening))
            heads = [self.word(i) for i in range(begin, min(begin + 3, at)) if self.word(i) != "return"]
            return self._leaving(self._after(at), equal) if any(map(_LEAVING.fullmatch, heads)) else equal
        equal = equal != (self.word(first + 1) == "not")
        if first > begin and self.word(first - 1) not in ("else", "}"):
            bodies = (begin, first), (0, 0)
        elif opening >= 0:
            bodies = self._bodies(opening)
        else:
            end = self._next(at, "end", "else")
            bodies = (at, end), (end, self._next(end, "end"))
        return self._decided(equal, self.word(first), *bodies)

    def _next(self, at: int, *words: str) -> int:
        return next((i for i in range(at, min(at + _NEAR, len(self.tokens))) if self.word(i) in words), at)

    def _after_condition(self, at: int) -> int:
        for here in range(at, min(at + _NEAR, len(self.tokens))):
            if self.parent[here] == self.parent[at]:
                if self.word(here) == "{":
                    return here
                if self.tokens[here].kind == END or self.word(here) == ";":
                    return -1
        return -1

    def _bodies(self, at: int) -> tuple[tuple[int, int], tuple[int, int]]:
        first = self._body(at)
        then = first[1] + (self.word(first[1]) in ("}", ";"))
        while then < len(self.tokens) and self.tokens[then].kind == END:
            then += 1
        return first, self._body(then + 1) if self.word(then) in ("else", "elsif", "elif") else (then, then)

    def _body(self, at: int) -> tuple[int, int]:
        while at < len(self.tokens) and self.tokens[at].kind == END:
            at += 1
        if self.word(at) == "{":
            return at + 1, self.pair.get(at, len(self.tokens))
        end = at
        last = min(len(self.tokens), at + 4 * _NEAR)
        while end < last and self.tokens[end].kind != END and self.word(end) not in (";", "}"):
            end = self.pair.get(end, end) + 1 if self.word(end) in OPEN else end + 1
        return at, end

    def _decided(self, equal: bool, word: str, yes: tuple[int, int], no: tuple[int, int]) -> bool:
        if word in ("unless", "until"):
            yes, no = no, yes
        failing, otherwise = self.fails(*yes), self.fails(*no)
        if failing and otherwise:
            return False
        return not equal if failing else equal

    def _leaving(self, after: int, equal: bool) -> bool:
        """Return True if the program exits with 0 only for equal values, as in ``exit(x == 3 ? 0 : 1)``."""
        if self.word(after) == "?":
            first = self.tokens[after + 1].text if after + 1 < len(self.tokens) else ""
            return equal if first in ("0", "EXIT_SUCCESS") else not equal
        return not equal

    def fails(self, start: int, end: int) -> bool:
        return any(self._is_failure(at) for at in range(start, min(end, start + 4 * _NEAR, len(self.tokens))))

    def _is_failure(self, at: int) -> bool:
        token = self.tokens[at]
        if token.kind != NAME:
            return False
        if _FAILING.fullmatch(token.text):
            return True
        behind = [each.text for each in self.tokens[at + 1 : at + 4] if each.text not in ("(", "=", "-", "::", "!")]
        first = behind[0] if behind else ""
        if _LEAVING.fullmatch(token.text):
            return bool(re.fullmatch(r"[1-9]\d*|false|False|EXIT_FAILURE", first))
        return bool(_SUCCESS.fullmatch(token.text)) and first in ("0", "false", "False")
