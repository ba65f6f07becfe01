"""State file that contains one long list. Only changed elements of the list are rewritten.

The text is read as strictly as in ``jsontext``, and the position of every element is recorded. Unchanged parts keep
their text byte for byte, including the user's layout. New parts have the layout of ``jsontext.dumps``. If a partial
write might be incorrect, the whole value is written.

A hard link makes the old file the backup, so the old content is not copied. After a killed write, file and backup may
be the same file. ``files.sweep`` and the next write separate them. Source: ``tasklist.md`` 8."""

from __future__ import annotations

import os
import stat

from agent_harness.errors import StateDamaged
from agent_harness.kernel import files
from agent_harness.kernel.json import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from agent_harness.kernel.files import AnyPath

    Scan = Callable[[str, int], tuple[Any, int]]
    Edit = tuple[int, int, str]

_RUN = 4096
"""Minimum number of characters that are scanned at once. It covers a few elements."""


class _Unclear(Exception):
    """Error: a JSON text cannot be split into its parts."""


class _Member:
    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end


class _Places:
    """Positions of an object's members and of its list's elements in a JSON text."""

    __slots__ = ("elements", "ends", "firsts", "members", "starts")

    def __init__(self) -> None:
        self.members: dict[str, _Member] = {}
        self.elements: list[Any] = []  # the values
        self.firsts: list[int] = []  # of each run: the number of its first element,
        self.starts: list[int] = []  # its position,
        self.ends: list[int] = []  # and the end of its last element

    def add(self, values: list[Any], start: int, end: int) -> None:
        """Add consecutive list elements, with their start and end position in the text."""
        self.firsts.append(len(self.elements))
        self.starts.append(start)
        self.ends.append(end)
        self.elements += values

    def spans(self, text: str, wanted: set[int]) -> Iterator[tuple[int, int, int]]:
        """Yield the index, start position and end position of each wanted element, in order."""
        scan = jsontext.scanner()
        for first, last, start in zip(self.firsts, [*self.firsts[1:], len(self.elements)], self.starts, strict=True):
            here = wanted.intersection(range(first, last))
            at = start
            for n in range(first, max(here) + 1 if here else first):
                end = scan(text, at)[1]
                if n in here:
                    yield n, at, end
                at = jsontext.skip(text, end)
                at = jsontext.skip(text, at + 1) if text[at] == "," else at


class ListDocument:
    """A state file's JSON object, which contains one long list."""

    __slots__ = ("_name", "_places", "_text", "content", "value")

    def __init__(self, content: bytes, text: str, name: str, value: Any, places: _Places | None) -> None:
        self.content = content  # the very bytes
        self.value = value
        self._text = text
        self._name = name
        self._places = places

    def parts(self, changed: Iterable[object] | None = None) -> list[bytes | memoryview]:
        """Return the JSON text of the current value, in parts."""
        # ``changed``: list elements that were changed in place, None if any may have been
        edits = self._edits(changed) if self._places else None
        if edits is None:
            return [jsontext.dumps(self.value).encode()]
        kept = self._kept()
        parts: list[bytes | memoryview] = []
        at = 0
        for start, end, new in edits:
            parts += (kept(at, start), new.encode())
            at = end
        return [*parts, kept(at, len(self._text)), b"\n"]

    def _kept(self) -> Callable[[int, int], bytes | memoryview]:
        if self._text.isascii() and self.content[:1].isascii():  # no byte order mark: places and bytes are the same
            content = memoryview(self.content)
            return lambda start, end: content[start:end]
        return lambda start, end: self._text[start:end].encode()

    def _edits(self, changed: Iterable[object] | None) -> list[Edit] | None:
        """Return the edits that update the JSON text, or ``None`` if the text must be written anew."""
        members = self._places.members if self._places else {}
        kept = [name for name in members if name in self.value]
        names = list(self.value)
        if names[: len(kept)] != kept or kept[:1] != [*members][:1] or not all(isinstance(each, str) for each in names):
            return None
        edits: list[Edit] = []
        before = 0
        for name, place in members.items():
            if name not in self.value:
                edits.append((before, place.end, ""))
            elif name == self._name:
                edits += self._list_edits(place, self.value[name], changed)
            else:
                edits += self._edit(place.start, place.end, self.value[name], 1)
            before = place.end
        for name in names[len(kept) :]:
            edits.append((before, before, f",\n  {jsontext.line(name)}: {jsontext.dumps_at(self.value[name], 1)}"))
        return edits

    def _list_edits(self, place: _Member, now: object, changed: Iterable[object] | None) -> list[Edit]:
        places = self._places
        was: list[Any] = places.elements if places else []
        if not places or not was or not isinstance(now, list) or len(now) < len(was):
            return self._edit(place.start, place.end, now, 1)
        touched = {*range(len(was))} if changed is None else _touched(was, now, changed)
        spans = places.spans(self._text, touched)
        edits = [edit for n, start, end in spans for edit in self._edit(start, end, now[n], 2)]
        end = places.ends[-1]
        return [*edits, *((end, end, f",\n    {jsontext.dumps_at(each, 2)}") for each in now[len(was) :])]

    def _edit(self, start: int, end: int, now: object, level: int) -> list[Edit]:
        text, new = self._text[start:end], jsontext.dumps_at(now, level)
        same = new == text or jsontext.line(jsontext.scanner()(text, 0)[0]) == jsontext.line(now)
        return [] if same else [(start, end, new)]


def _touched(was: Sequence[object], now: Sequence[object], changed: Iterable[object]) -> set[int]:
    old, new, known = [*map(id, was)], [*map(id, now)], {*map(id, changed)}
    if new[: len(old)] == old:  # so it mostly is, and no Python runs for the thousands that nobody touched
        return {new.index(each) for each in known.intersection(old)}
    return {n for n, (one, other) in enumerate(zip(old, new, strict=False)) if one != other or other in known}


# ---- reading ---------------------------------------------------------------------------------------------------------


def parse(content: bytes, name: str) -> ListDocument:
    """Parse a JSON document with the long list ``name``. Raise ``ValueError`` if ``content`` is damaged."""
    text = jsontext.decoded(content)
    if "\r" not in text:
        try:
            value, places = _scan(text, name)
        except (_Unclear, IndexError, RecursionError, StopIteration, SystemError, ValueError):
            return ListDocument(content, text, name, jsontext.loads(content), None)
        jsontext.refuse_lone_surrogates(value, text)
        return ListDocument(content, text, name, value, places)
    return ListDocument(content, text, name, jsontext.loads(content), None)


def _scan(text: str, list_name: str) -> tuple[dict[str, Any], _Places]:
    scan, places = jsontext.scanner(), _Places()
    value: dict[str, Any] = {}
    at = _after(text, jsontext.skip(text, 0), "{")
    while True:
        if text[at] != '"':
            raise _Unclear
        name, at = scan(text, at)
        start = at = _after(text, jsontext.skip(text, at), ":")
        if name in value:
            raise _Unclear
        is_list = name == list_name and text[at] == "["
        value[name], at = _elements(scan, text, at, places) if is_list else scan(text, at)
        if not is_list and not _is_shallow(text, start, at, 1):
            raise _Unclear
        places.members[name] = _Member(start, at)
        at = jsontext.skip(text, at)
        if text[at] == "}":
            break
        at = _after(text, at, ",")
    if at + 1 != len(text):
        raise _Unclear
    return value, places


def _elements(scan: Scan, text: str, at: int, places: _Places) -> tuple[list[Any], int]:
    at = _after(text, at, "[")
    if text[at] == "]":
        return [], at + 1
    while True:
        value, end = scan(text, at)
        _check_depth([value], text[at:end], 2)
        places.add([value], at, end)
        begin, at = at, jsontext.skip(text, end)
        if text[at] == "]":
            return places.elements[:], at + 1
        at = _after(text, at, ",")
        if begin == places.starts[0]:
            tail = end - max(text.rfind("\n", begin, end), end - 40)
            at = _runs(scan, text, at, (text[end - tail : at + 1], tail), places)


def _runs(scan: Scan, text: str, at: int, mark: tuple[str, int], places: _Places) -> int:
    sign, tail = mark
    # the text around the end of the first element probably ends other elements too
    while (cut := text.find(sign, at + _RUN)) >= 0:
        run = f"[{text[at : cut + tail]}]"
        try:
            values, end = scan(run, 0)
        except (StopIteration, ValueError):
            break
        if end != len(run):
            break
        _check_depth(values, run, 1)
        places.add(values, at, cut + tail)
        at = cut + len(sign) - 1
    return at


def _check_depth(elements: list[Any], text: str, level: int) -> None:
    if not _is_shallow(text, 0, len(text), level) and not jsontext.within_depth([elements]):
        raise _Unclear


def _is_shallow(text: str, start: int, end: int, level: int) -> bool:
    return text.count("{", start, end) + text.count("[", start, end) <= jsontext.MAX_DEPTH - level


def _after(text: str, at: int, sign: str) -> int:
    if text[at] != sign:
        raise _Unclear
    return jsontext.skip(text, at + 1)


def read(path: AnyPath, name: str, known: ListDocument | None = None, *, content: bytes | None = None) -> ListDocument:
    """Return the JSON document in a state file. Raise ``StateDamaged`` if the file is damaged."""
    content = files.read_bytes(path) if content is None else content
    if known and known.content == content:
        return known
    try:
        document = parse(content, name)
        if not isinstance(document.value, dict):
            raise ValueError("it is not a JSON object")
    except ValueError as error:
        raise files.damaged(path, str(error)) from None
    return document


def write(
    path: AnyPath, document: ListDocument, *, before: Callable[[], object], changed: Iterable[object] | None = None
) -> None:
    """Write a document to its file, and keep the old content as ``<path>.bak``."""
    try:
        parts = document.parts(changed)
    except ValueError as error:
        raise StateDamaged(f"{os.fspath(path)} was not written: {error}") from None
    target, backup = os.path.realpath(path), f"{os.fspath(path)}.bak"

    def keep_the_old() -> None:
        # raises an exception if the file has changed since it was read, so that nothing is written
        before()
        if not _given_second_name(target, backup, before):
            files.replace(backup, document.content, mode=_mode_of(target))
        before()

    files.replace(path, parts, before=keep_the_old, follow=True)


def _given_second_name(target: str, backup: str, before: Callable[[], object]) -> bool:
    if os.path.dirname(target) != os.path.realpath(
        os.path.dirname(backup)
    ):  # one folder is made durable, with both names in it
        return False
    temporary = files.temporary_name(backup)
    try:
        # a killed writer or the user may have made the second name
        if os.lstat(target).st_nlink != 1:
            return False
        _sync(target)
        os.link(target, temporary, follow_symlinks=False)
    except OSError:
        return False
    try:
        before()
        os.replace(temporary, backup)
    except OSError:
        files.unlink(temporary)
        return False
    except BaseException:
        files.unlink(temporary)
        raise
    return True


def _sync(path: str) -> None:
    # an editor may have left the content in memory
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _mode_of(path: str) -> int | None:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return None
