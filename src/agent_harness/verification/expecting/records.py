"""Edits of the values in data with which a check compares results, such as expected output, tables and records.
Keys, headers and first columns stay unchanged, so that a lookup still succeeds but returns another value."""

import posixpath
import re
from collections.abc import Iterator

from agent_harness.verification.expecting.edits import Edit, other_number, other_text

SUFFIXES = frozenset(
    {".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".psv", ".txt", ".text", ".out", ".stdout", ".output", ".golden"}
    | {".expected", ".expect", ".exp", ".want", ".ok", ".snap", ".approved", ".log", ".dat", ".data", ".tab", ".tap"}
    | {".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".properties", ".env", ".xml", ".html", ".svg", ".md"}
    | {".rst", ".list", ".lst", ".ref", ".res", ".stderr"}
)
_JSON = re.compile(
    r'(?P<key>"(?:[^"\\\n]|\\.)*+"\s*+:)|"(?P<text>(?:[^"\\\n]|\\.)*+)"|(?P<number>-?\d[\d.eE+-]*)|true|false'
)
_FLAGS = {"true": "false", "false": "true"}
_KEYED = re.compile(r"[ \t]*(?:-[ \t]+)?[\w.\"' -]{1,80}?[ \t]*(?:[:=]|=>)(?=[ \t]|[^\s:/=]|$)[ \t]*")
_CELL = re.compile(r"[^,;\t|]+")
_WORD = re.compile(r"\S+")
_TAG = re.compile(r"<[^<>]{0,500}>")
_NUMBER = re.compile(r"[-+$€£]?(\d[\d_.]*)%?")


_SETTINGS = re.compile(
    r"(?:.*/)?(?:package(?:-lock)?|[tj]sconfig.*|composer|deno|Cargo|\..*)\.\w+"
    r"|.*\.(?:toml|ya?ml|ini|cfg|conf|lock|env|md|rst)"
    r"|(?:.*/)?(?:requirements.*|CMakeLists|CHANGELOG.*|README.*|LICENSE.*|VERSION.*|robots)\.txt"
)


def is_settings(path: str) -> bool:
    return bool(_SETTINGS.fullmatch(path))


def is_record(path: str) -> bool:
    return posixpath.splitext(path)[1].lower() in SUFFIXES


def other_records(text: str, path: str) -> list[Edit]:
    suffix = posixpath.splitext(path)[1].lower()
    if suffix in (".json", ".jsonl", ".ndjson"):
        return list(_of_json(text))
    if suffix in (".xml", ".html", ".svg"):
        return list(_of_markup(text))
    return list(_of_lines(text, header=suffix in (".csv", ".tsv", ".psv"), keyed=suffix in _KEYED_SUFFIXES))


_KEYED_SUFFIXES = (".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".properties", ".env")


def _of_json(text: str) -> Iterator[Edit]:
    for found in _JSON.finditer(text):
        if found["text"] is not None:
            yield from _value(found["text"], found.start("text"))
        elif found["number"]:
            yield from other_number(found["number"].lstrip("-"), found.end() - len(found["number"].lstrip("-")))
        elif found[0] in _FLAGS:
            yield Edit(found.start(), found.end(), _FLAGS[found[0]])


def _of_markup(text: str) -> Iterator[Edit]:
    at = 0
    for tag in (*_TAG.finditer(text), None):
        end = tag.start() if tag else len(text)
        if text[at:end].strip():
            yield from _value(text[at:end], at)
        at = tag.end() if tag else end


def _of_lines(text: str, *, header: bool, keyed: bool) -> Iterator[Edit]:
    at = 0
    for number, line in enumerate(text.splitlines(keepends=True)):
        bare = line.rstrip("\r\n")
        if bare.strip() and not (header and number == 0) and not (keyed and bare.lstrip()[:1] in ("#", ";", "[")):
            yield from _of_line(bare, at)
        at += len(line)


def _of_line(line: str, at: int) -> Iterator[Edit]:
    """Yield edits that change the values in a line. If a line has several values, keep the first value."""
    keyed = _KEYED.match(line)
    if keyed and keyed.end() < len(line):
        yield from _value(line[keyed.end() :], at + keyed.end())
        return
    cells = list(_CELL.finditer(line)) if any(mark in line for mark in ",;\t|") else list(_WORD.finditer(line))
    for cell in cells[1:] or cells:
        yield from _value(cell[0], at + cell.start())


def _value(text: str, at: int) -> Iterator[Edit]:
    for word in _WORD.finditer(text):
        number = _NUMBER.fullmatch(word[0])
        if number:
            yield from other_number(number[1], at + word.start() + number.start(1))
        else:
            yield from (each for each in other_text(word[0], at + word.start(), grows=False) if each.end > each.start)
