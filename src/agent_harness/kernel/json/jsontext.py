"""JSON text that stays the same when it is read and written: numbers keep their spelling and members their order.

Reading is strict. Text that a write could not reproduce is an error: a repeated member, ``NaN``, a lone surrogate, too
deep nesting. The C scanner is used directly, because importing ``json`` takes as long as the rest of a hook call."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MAX_DEPTH = 100
"""Maximum nesting depth of objects and arrays, for reading and writing."""

BLANKS = " \t\r\n"


class Spelled(float):
    """Number that keeps its original spelling, such as ``1.10`` or ``-0``."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Spelled:
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __getnewargs__(self) -> tuple[str]:  # type: ignore[override]  # copies are made from the text
        return (self.text,)


def loads(text: str | bytes, *, exact: bool = True) -> Any:
    """Return the value of a JSON text. Raise ``ValueError`` if the text is damaged."""
    text = decoded(text)
    if not text:
        raise ValueError("it is empty")
    try:
        value, end = _scanned(_Rules() if exact else _Glance(), text, len(text) - len(text.lstrip(BLANKS)))
    except StopIteration as at:
        raise ValueError(f"no JSON value at {_place(text, at.value)}") from None
    except RecursionError:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels") from None
    if end != len(text):
        end = len(text) - len(text[end:].lstrip(BLANKS))
        raise ValueError(f"more than one JSON value: the second at {_place(text, end)}")
    # twice as fast, but the caller must not write the value back
    if not exact:
        return value
    if text.count("[") + text.count("{") > MAX_DEPTH and not within_depth(value):
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
    refuse_lone_surrogates(value, text)
    return value


def dumps(value: object) -> str:
    """Return a value as indented JSON text for people, with a newline at the end."""
    parts: list[str] = []
    _encode(value, "\n", "  ", parts.append, MAX_DEPTH)
    parts.append("\n")
    return "".join(parts)


def dumps_at(value: object, level: int) -> str:
    """Return a value as JSON, indented for the nesting depth ``level``."""
    parts: list[str] = []
    _encode(value, "\n" + "  " * level, "  ", parts.append, MAX_DEPTH - level)
    return "".join(parts)


def line(value: object) -> str:
    """Return a value as JSON on one line, without a newline at the end."""
    parts: list[str] = []
    _encode(value, "", "", parts.append, MAX_DEPTH)
    return "".join(parts)


def spaced(value: object) -> str:
    """Return the text of ``json.dumps(value, ensure_ascii=False, default=str)`` without importing ``json``."""
    try:
        from _json import make_encoder

        encode = make_encoder(None, str, _quote, None, ": ", ", ", False, False, True)
    except (ImportError, TypeError):  # another interpreter, or a later one
        from json import dumps as encoded

        return encoded(value, ensure_ascii=False, default=str, check_circular=False)
    return "".join(encode(value, 0))


def decoded(raw: str | bytes) -> str:
    """Return JSON text without a byte order mark and final white space. Raise ``ValueError`` if ``raw`` is not text."""
    if isinstance(raw, bytes):
        if b"\0" in raw:
            raise ValueError(f"it contains a zero byte at byte {raw.index(0)}")
        end = len(raw)
        while end and raw[end - 1] in b" \t\r\n":
            end -= 1
        try:
            raw = str(memoryview(raw)[:end], "utf-8")  # copied once, however long it is
        except UnicodeDecodeError as error:
            raise ValueError(f"it is not valid UTF-8 at byte {error.start}") from None
    return raw.removeprefix("\ufeff").rstrip(BLANKS)


def _place(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1} column {at - text.rfind(chr(10), 0, at)}"


def within_depth(value: object) -> bool:
    """Return True if a value is nested at most ``MAX_DEPTH`` levels deep."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return True
    return False


def refuse_lone_surrogates(value: object, text: str) -> None:
    """Raise ``ValueError`` if ``value``, which was read from ``text``, contains a lone surrogate."""
    if "\\" not in text or ("\\ud" not in text and "\\uD" not in text):
        return
    try:
        line(value).encode()
    except UnicodeEncodeError:
        raise ValueError("it contains half a character (a lone surrogate)") from None


# ---- reading: callbacks of the C scanner


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise ValueError(f"the member {twice[:80]!r} occurs twice in one object")
    return found


def _real(text: str) -> float:
    number = float(text)
    return number if repr(number) == text else Spelled(text)


class _Wholes(dict[str, float]):
    # a cached number runs no Python code
    def __missing__(self, text: str) -> float:
        odd = text == "-0" or len(text) > 600  # Python may refuse to convert longer ones
        number = self[text] = Spelled(text) if odd else int(text)
        return number


def _constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


class _Rules:
    """Scanner settings that keep the original spelling of JSON numbers."""

    strict: bool = True
    object_hook: None = None
    object_pairs_hook = staticmethod(_object)
    array_hook: None = None
    parse_float = staticmethod(_real)
    parse_constant = staticmethod(_constant)

    def __init__(self) -> None:
        self.parse_int: Callable[[str], float] = _Wholes().__getitem__


class _Glance(_Rules):
    """Scanner settings that read JSON numbers as plain ``int`` and ``float`` values."""

    object_pairs_hook: None = None  # type: ignore[assignment]  # the scanner makes dictionaries by itself
    parse_float = float  # type: ignore[assignment]  # it knows this type and calls nothing

    def __init__(self) -> None:
        self.parse_int = int


def scanner() -> Callable[[str, int], tuple[Any, int]]:
    """Return a function that reads the JSON value at a position in a text."""
    # it does not check the depth, and raises StopIteration, ValueError, RecursionError or SystemError
    return _scanner(_Rules())


def skip(text: str, at: int) -> int:
    """Return the position of the first character at or after ``at`` that is not blank."""
    while text[at] in BLANKS:
        at += 1
    return at


def _scanner(rules: _Rules) -> Callable[[str, int], tuple[Any, int]]:
    try:
        from _json import make_scanner

        return make_scanner(rules)  # type: ignore[arg-type]  # anything with these attributes will do
    except (ImportError, AttributeError, TypeError):  # another interpreter, or a later one
        from json import JSONDecoder

        own = JSONDecoder(
            object_pairs_hook=rules.object_pairs_hook,
            parse_float=rules.parse_float,
            parse_int=rules.parse_int,
            parse_constant=_constant,
        )
        return own.scan_once  # type: ignore[missing-attribute]  # there since Python 2.6, not in the stubs


def _scanned(rules: _Rules, text: str, start: int) -> tuple[Any, int]:
    try:
        return _scanner(rules)(text, start)
    except SystemError:
        import json.decoder  # noqa: F401

        return _scanner(rules)(text, start)


def _quoter() -> Callable[[str], str]:
    try:
        from _json import encode_basestring

        return encode_basestring
    except ImportError:
        from json.encoder import py_encode_basestring

        return py_encode_basestring


_quote = _quoter()

# ---- writing


def _encode(value: object, indent: str, step: str, put: Callable[[str], object], depth: int) -> None:
    # ``indent`` is a line break and spaces, or "" for one line
    if isinstance(value, dict):
        opened, closed, colon = "{", "}", ": " if indent else ":"
        members = (
            (_quote(name if isinstance(name, str) else _scalar(name)) + colon, child) for name, child in value.items()
        )
    elif isinstance(value, (list, tuple)):
        opened, closed = "[", "]"
        members = (("", child) for child in value)
    else:
        put(_scalar(value))
        return
    if depth == 0:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
    before, between = opened + indent + step, "," + indent + step
    for name, child in members:
        plain = _PLAIN.get(type(child))
        if plain:
            put(before + name + plain(child))
        else:
            put(before + name)
            _encode(child, indent + step, step, put, depth - 1)
        before = between
    put(indent + closed if value else opened + closed)


def _scalar(value: object) -> str:
    for kind in (type(value), str, int, float):
        if isinstance(value, kind) and kind in _PLAIN:
            return _PLAIN[kind](value)
    raise ValueError(f"a {type(value).__name__} cannot be written as JSON")


def _finite(number: float) -> str:
    if float("-inf") < number < float("inf"):
        return float.__repr__(number)
    raise ValueError(f"{number} is not a JSON number")


_PLAIN: dict[type, Callable[[Any], str]] = {
    str: _quote,
    int: int.__repr__,
    bool: lambda value: "true" if value else "false",
    type(None): lambda value: "null",
    Spelled: lambda value: value.text,
    float: _finite,
}
