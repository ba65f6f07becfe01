"""Masking of secrets in text: known secret formats and secret values of this process's environment become ``***``. In
doubt, a text is masked. Only plain code or prose stays unmasked. Every pattern is possessive or bounded, so the run
time is linear in the text. Masking a text twice changes nothing."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MASK = "***"
_SHORTEST_OWN_VALUE = 8

# ---- names

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_ENDINGS = ("password", "passwd", "passphrase", "passcode", "secret", "secrets", "token", "apikey", "accesskey")
_SECRET_ENDINGS += (
    "secretkey",
    "privatekey",
    "credential",
    "credentials",
    "authorization",
    "cookie",
    "cookies",
    "jwt",
    "dsn",
)
_SECRET_AFTER_ANOTHER_WORD = {"auth", "key", "keys", "pat", "pwd"}
_HARMLESS_KEYS = {"cache", "foreign", "hash", "hot", "partition", "primary", "public", "row", "short", "sort"}
_HARMLESS_LAST = {"budget", "count", "dir", "expires", "expiry", "file", "folder", "format", "hint", "length", "limit"}
_HARMLESS_LAST |= {"name", "path", "sock", "type", "uri", "url", "usage", "version"}


def is_secret_name(name: str) -> bool:
    """Return True if a name suggests a secret value, such as ``API_KEY``, ``dbPassword`` or ``--token``."""
    return len(name) <= 200 and _is_secret_name(name)


@lru_cache(maxsize=4096)
def _is_secret_name(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _HARMLESS_LAST:
        return False
    if any(word.endswith(_SECRET_ENDINGS) for word in words):
        return True
    pairs = pairwise(words)
    return any(word in _SECRET_AFTER_ANOTHER_WORD and before not in _HARMLESS_KEYS for before, word in pairs)


# ---- text


def redact(text: str) -> str:
    for _ in range(8):  # one mask may uncover another secret; almost always the first pass is enough
        masked = text
        for step in _STEPS:
            masked = step(masked)
        if masked == text:
            break
        text = masked
    return text


_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_ENDS = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")


def _private_keys(text: str) -> str:
    """Mask private key blocks."""
    parts: list[str] = []
    at = 0
    while begin := _KEY_BEGINS.search(text, at):
        end = _KEY_ENDS.search(text, begin.end())
        parts += [text[at : begin.start()], MASK]
        at = end.end() if end else len(text)
    return "".join([*parts, text[at:]])


_TOLD: set[str] = set()
_PASSWORD = re.compile(r"://[^\s/@:\"'<>]*+:([^\s/\"'<>]+)@")


def mask_from_now_on(value: str) -> None:
    """Mask a value of at least 8 characters in all later output of this process."""
    # of a URL
    password = _PASSWORD.search(value)
    _TOLD.update((value, *([password[1]] if password else [])))


def _own_values(text: str) -> str:
    """Mask the values of secret environment variables, and the values passed to ``mask_from_now_on``."""
    values = {os.environ[name] for name in os.environ if is_secret_name(name)} | _TOLD
    for spelling in _spellings(frozenset(values)):
        text = text.replace(spelling, MASK)
    return text


_LETTER = re.compile(r"[^\x00-\x7f]")


def _escaped(letter: re.Match[str]) -> str:
    """Return the matched non-ASCII character as a JSON escape sequence."""
    halves = letter[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{halves[at : at + 4]}" for at in range(0, len(halves), 4))


@lru_cache(maxsize=16)
def _spellings(values: frozenset[str]) -> tuple[str, ...]:
    # all spellings of the values: plain, single lines, and escaped for JSON or Python
    from agent_harness.kernel.json import jsontext

    parts = {part.strip() for value in values for part in (value, *value.splitlines())}
    found = {*parts, *(ascii(part)[1:-1] for part in parts), *(repr(part)[1:-1] for part in parts)}
    found |= {part.encode("unicode_escape", "backslashreplace").decode("ascii") for part in parts}
    within = {jsontext.line(part)[1:-1] for part in parts}
    found |= within | {_LETTER.sub(_escaped, each) for each in within}
    return tuple(sorted((each for each in found if len(each) >= _SHORTEST_OWN_VALUE), key=len, reverse=True))


_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-[\w-]{16,}+"  # Anthropic, OpenAI
    r"|(?:sk|rk|pk)_(?:live|test)_\w{16,}+|whsec_\w{16,}+"  # Stripe
    r"|gh[pousr]_\w{20,}+|github_pat_\w{20,}+|glpat-[\w-]{16,}+"  # GitHub, GitLab
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])"  # AWS
    r"|AIza[\w-]{30,}+|ya29\.[\w-]{20,}+"  # Google
    r"|xox[a-z]-[\w-]{10,}+|xapp-[\w-]{10,}+"  # Slack
    r"|hf_\w{20,}+|npm_\w{30,}+|pypi-[\w-]{30,}+|dop_v1_\w{30,}+|SG\.[\w-]{16,}+\.[\w-]{16,}+"
    r"|eyJ[\w-]{8,}+\.[\w-]{8,}+(?:\.[\w-]*+)?"  # JSON web tokens
    r")"
)


def _known_shapes(text: str) -> str:
    """Mask each JSON web token, and each token with a digit that has the format of a known provider."""
    return _SHAPES.sub(lambda found: MASK if _has_digit(found[0]) or found[0].startswith("eyJ") else found[0], text)


_WRAPPED = r"(?:[\"'][ \t]{0,4}\n[E+ \t-]{0,60}[\"'])?"  # as pprint continues a text on the next line
_BEARER = re.compile(rf"\b(bearer|basic)([ \t]{{1,4}}+{_WRAPPED})([\w.~+/=-]{{8,}}+)", re.IGNORECASE)


def _credentials(text: str) -> str:
    """Mask the text after ``Bearer`` or ``Basic`` if the text looks like a credential."""

    def mask(found: re.Match[str]) -> str:
        given = found[3]
        return found[1] + found[2] + MASK if _has_digit(given) or len(given) >= 20 else found[0]

    return _BEARER.sub(mask, text)


_NAMED = re.compile(r"(?<![\w.-])([\w.-]{1,100}+)(\\*+[\"']?[ \t]{0,8}+(?:=>|:=|=(?!=)|:)[ \t]{0,8}+)(\\*+[\"'])?")
_TO_LINE_END = re.compile(r"[^\r\n\"']++")
_BARE = re.compile(r"[^\s\"'`&<>]++")
_INSIDE = {  # by the quote that opened
    '"': re.compile(r"(?:[^\"\\\r\n]|\\.)*+", re.DOTALL),
    "'": re.compile(r"(?:[^'\\\r\n]|\\.)*+", re.DOTALL),
    '\\"': re.compile(r"(?:[^\"\\\r\n]|\\(?!\"))*+"),
    "\\'": re.compile(r"(?:[^'\\\r\n]|\\(?!'))*+"),
}
_NO_VALUES = {"", "none", "null", "true", "false"}


def _named_values(text: str) -> str:
    """Mask the value of a named field, such as ``name: value``, if the name suggests a secret."""
    parts: list[str] = []
    at = 0
    while found := _NAMED.search(text, at):
        parts.append(text[at : found.end()])
        at = found.end()
        if is_secret_name(found[1]):
            end = _end_of_value(text, found)
            if end > at:
                parts.append(MASK)
            at = end
    return "".join([*parts, text[at:]])


def _end_of_value(text: str, found: re.Match[str]) -> int:
    start, quote = found.end(), found[3]
    if quote:
        inside = _INSIDE[quote[-2:]].match(text, start)
        return inside.end() if inside else start
    if found[1].lower().endswith(("authorization", "cookie")):
        rest = _TO_LINE_END.match(text, start)
        return rest.end() if rest else start
    bare = _BARE.match(text, start)
    value = bare[0].rstrip(",;)]}\\") if bare else ""
    return start + len(value) if _is_value(value, tight=found[2] == "=") else start


def _is_value(value: str, *, tight: bool) -> bool:
    # code, placeholders and, unless ``tight`` is set, plain words are no secret values
    if value.lower() in _NO_VALUES or value.startswith(("(", "[", "{", "$(", "${")):
        return False
    if value[0] == "$" and value[1:].isidentifier() and value.isupper():
        return False
    return tight or (len(value) >= 6 and _has_digit(value)) or len(value) >= 20


_OPTION = re.compile(
    r"(?<![\w-])(--?[A-Za-z][\w-]{1,60}+)([ \t]{1,4}+)([^\s\"'`-][^\s\"'`]*+|\"[^\"\r\n]++|'[^'\r\n]++)"
)


def _options(text: str) -> str:
    """Mask the value of an option such as ``--password value`` in a command line."""

    def mask(found: re.Match[str]) -> str:
        quote = found[3][0] if found[3][0] in "\"'" else ""
        return found[1] + found[2] + quote + MASK if is_secret_name(found[1]) else found[0]

    return _OPTION.sub(mask, text)


_LOGIN = re.compile(r"(://[^\s/@:\"'<>]*+:)[^\s/\"'<>]+@")


def _logins(text: str) -> str:
    """Mask the password in a URL such as ``scheme://user:password@host``."""
    return _LOGIN.sub(rf"\1{MASK}@", text)


def _has_digit(text: str) -> bool:
    return any(letter.isdigit() for letter in text)


_STEPS: tuple[Callable[[str], str], ...] = (
    _private_keys,
    _own_values,
    _known_shapes,
    _credentials,
    _named_values,
    _options,
    _logins,
)
