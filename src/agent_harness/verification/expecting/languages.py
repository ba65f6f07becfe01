"""Tokenizer, and the syntax of string literals, numbers and comments in several programming languages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

TEXT, NUMBER, NAME, SIGN, END = "text", "number", "name", "sign", "end"


class Token(NamedTuple):
    """Token of program text. Comments and regular expressions produce no tokens."""

    kind: str
    text: str  # of a text literal, its inside
    start: int  # of that
    raw: bool = False  # a text that is not closed, or is one character


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    comment: str = r"//[^\n]*|/\*(?s:.)*?(?:\*/|\Z)"
    texts: str = r'"(?:[^"\\\n]|\\.)*+"?'
    characters: str = r"(?!)"  # literals of one character, and whatever only looks like a text
    pattern: str = r"(?!)"
    equal: frozenset[str] = frozenset({"==", "==="})
    unequal: frozenset[str] = frozenset({"!=", "!=="})
    arms: bool = False  # a condition stands right before its block, as in awk


_SINGLE = r"'(?:[^'\\]|\\.)*+'?"
_DOUBLE = r'"(?:[^"\\]|\\.)*+"?'
_SLASHES = r"(?<=[(,=:\[!&|?{};~\n])[ \t]{0,9}/(?![/*])(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.){0,99}+\]){1,300}+/[a-z]*"
_CHARACTER = r"'(?:[^'\\\n]|\\[^\n]{1,9}?)'"
_HASH = r"(?<![$\w{&\\])\#[^\n]*"

LANGUAGES: dict[str, Language] = {
    "js": Language(texts=r'"(?:[^"\\\n]|\\.)*+"?|' + r"'(?:[^'\\\n]|\\.)*+'?|`(?:[^`\\]|\\.)*+`?", pattern=_SLASHES),
    "go": Language(texts=r'"(?:[^"\\\n]|\\.)*+"?|`[^`]*+`?', characters=_CHARACTER),
    "rust": Language(texts=_DOUBLE, characters=_CHARACTER + r"|'\w+|\br\#+\"(?s:.)*?(?:\"\#+|\Z)"),
    "c": Language(comment=r"//[^\n]*|/\*(?s:.)*?(?:\*/|\Z)|^[ \t]*\#[^\n]*", characters=_CHARACTER),
    "java": Language(characters=_CHARACTER),
    "php": Language(comment=r"//[^\n]*|\#[^\n\[]*|/\*(?s:.)*?(?:\*/|\Z)", texts=f"{_DOUBLE}|{_SINGLE}"),
    "perl": Language(
        comment=_HASH + r"|^=\w(?s:.)*?(?:^=cut[^\n]*|\Z)|^__(?:END|DATA)__(?s:.)*",
        texts=f"{_DOUBLE}|{_SINGLE}",
        pattern=_SLASHES,
        equal=frozenset({"==", "eq"}),
        unequal=frozenset({"!=", "ne"}),
    ),
    "ruby": Language(comment=_HASH, texts=f"{_DOUBLE}|{_SINGLE}", pattern=_SLASHES),
    "awk": Language(comment=_HASH, pattern=_SLASHES, arms=True),
    "jq": Language(comment=_HASH, texts=_DOUBLE),
    "sql": Language(
        comment=r"--[^\n]*|/\*(?s:.)*?(?:\*/|\Z)",
        texts=r"'(?:[^']|'')*+'?",
        characters=r'"[^"]*"?',
        equal=frozenset({"=", "==", "IS", "is"}),
        unequal=frozenset({"!=", "<>"}),
    ),
    "calc": Language(comment=r"(?!)", texts=r"(?!)"),  # arithmetic of a shell
}
SUFFIXES = {
    ".js": "js", ".mjs": "js", ".cjs": "js", ".jsx": "js", ".ts": "js", ".tsx": "js", ".mts": "js", ".cts": "js",
    ".go": "go", ".rs": "rust", ".c": "c", ".h": "c", ".cc": "c", ".cpp": "c", ".cxx": "c", ".hpp": "c",
    ".java": "java", ".cs": "java", ".kt": "java", ".scala": "java", ".php": "php", ".pl": "perl", ".t": "perl",
    ".pm": "perl", ".rb": "ruby", ".awk": "awk", ".jq": "jq", ".sql": "sql",
}  # fmt: skip


@cache
def _pattern(language: str) -> re.Pattern[str]:
    rules = LANGUAGES[language]
    return re.compile(
        rf"(?P<comment>{rules.comment})|(?P<pattern>{rules.pattern})|(?P<text>{rules.texts})|(?P<raw>{rules.characters})"
        r"|(?P<number>(?<![\w$])(?:0[xX][\da-fA-F_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][-+]?\d+)?)\w*)"
        r"|(?P<name>[$@%]*[A-Za-z_](?:\w|!(?=[(\[{]))*+)"
        r"|(?P<sign>===|!==|<=>|=>|->|:=|[=!<>]=|<>|=~|!~|&&|\|\||\+\+|--|[-+*/%.|&^]=|::|\.\.|[^\s\w])"
        r"|(?P<end>\n)|\$\w+",
        re.MULTILINE,
    )


def tokens(text: str, language: str) -> Iterator[Token]:
    """Yield the tokens of a program. Invalid syntax raises no error."""
    for match in _pattern(language).finditer(text):
        kind, written, start = match.lastgroup, match[0], match.start()
        if kind == "text":
            closed = len(written) > 1 and written.endswith(written[:1])
            yield Token(TEXT, written[1:-1] if closed else written[1:], start + 1, not closed)
        elif kind == "raw":
            yield Token(TEXT, written, start, True)
        elif kind not in ("comment", "pattern", None):
            yield Token(str(kind), written, start)
