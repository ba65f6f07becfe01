"""ChangedCheck versions of a check, in which it expects other values: a check that notices fails on each.

For every kind of check and language: the values in the code of the check, in the words of its command, and in data that
it compares with. The work stays as it is. Where nothing can be changed (a linter, a compiler, ``test -f``) there is no
version, and all that the check says is its exit status.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from agent_harness.verification.expecting.edits import Edit, edited
from agent_harness.verification.expecting.languages import SUFFIXES
from agent_harness.verification.expecting.make import expected_in_makefile, is_makefile
from agent_harness.verification.expecting.records import is_record, is_settings, other_records
from agent_harness.verification.expecting.shell import expected_in_shell, in_language

__all__ = ["ChangedCheck", "with_other_values"]
_NEAR = 4  # letters between two edits of one value
_LARGEST, _LARGEST_DATA = 1024 * 1024, 4 * 1024 * 1024  # bytes; nobody writes a larger check by hand
_SHEBANG = re.compile(rb"#![^\n]*?\b(python|node|perl|ruby|php|awk|bash|dash|zsh|ksh|sh)[\d.]*\b")
_OF_SHEBANG = {"node": "js", "bash": "shell", "dash": "shell", "zsh": "shell", "ksh": "shell", "sh": "shell"}
_TESTS_OF_RUST = "#[cfg(test)]"
_SHELL_SUFFIXES = (".sh", ".bash", ".zsh", ".ksh", ".bats")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedCheck:
    """A check in which other values are expected."""

    what: str  # for people
    files: Mapping[str, bytes] = field(default_factory=dict)  # by path, their whole new content
    command: str
    places: int


def with_other_values(
    command: str, files: Mapping[str, bytes], data: Mapping[str, bytes] | None = None
) -> list[ChangedCheck]:
    """The changed versions of a check, in the order in which they are run; none where nothing can be changed.

    ``files`` are the check's own: scripts, tests and makefiles that the command names or reaches. ``data`` is what it
    compares with, and is as it was before the work. The first version has all kinds of values changed; after it stand
    the kinds one by one, if there are several: a check that fails on any of them notices.
    """
    plain = {path: content for path, content in (data or {}).items() if path not in files and not is_settings(path)}
    plain |= {path: content for path, content in files.items() if _language(path, content) == "data"}
    code = _changed(files, _language, _of_code)
    words = [each for each in expected_in_shell(command) if command]
    values = _changed(
        plain, lambda path, content: "data" if is_record(path) else "", lambda text, _, path: other_records(text, path)
    )
    kinds: list[ChangedCheck] = []
    if code:
        kinds.append(_version("the expected values of", code, command))
    if words:
        what = f"the values in the words of the command are changed ({_places(_count(words))})"
        kinds.append(ChangedCheck(what=what, command=edited(command, words), places=_count(words)))
    if values:
        kinds.append(_version("the values in", values, command))
    if len(kinds) < 2:
        return kinds
    return [
        ChangedCheck(
            what=", ".join(each.what for each in kinds),
            files={path: content for each in kinds for path, content in each.files.items()},
            command=edited(command, words),
            places=sum(each.places for each in kinds),
        ),
        *kinds,
    ]


def _version(what: str, files: Mapping[str, tuple[bytes, int]], command: str) -> ChangedCheck:
    places = sum(count for _, count in files.values())
    names = sorted(files)
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return ChangedCheck(
        what=f"{what} {shown} are changed ({_places(places)})",
        files={path: content for path, (content, _) in files.items()},
        command=command,
        places=places,
    )


def _places(count: int) -> str:
    return "1 place" if count == 1 else f"{count} places"


def _count(edits: Iterable[Edit]) -> int:
    """How many values these edits are of: of one pattern several letters are changed."""
    count, end = 0, -_NEAR
    for edit in sorted(edits):
        count += edit.start >= end + _NEAR
        end = edit.end
    return count


def _changed(
    files: Mapping[str, bytes],
    language_of: Callable[[str, bytes], str],
    edits_of: Callable[[str, str, str], Iterable[Edit]],
) -> dict[str, tuple[bytes, int]]:
    """By path, the new content and the number of places; files in which nothing can be changed are left out."""
    found: dict[str, tuple[bytes, int]] = {}
    for path, content in sorted(files.items()):
        language = language_of(path, content) if b"\0" not in content else ""
        if not language or len(content) > (_LARGEST_DATA if language == "data" else _LARGEST):
            continue
        text = content.decode("utf-8", "surrogateescape")
        edits = set(edits_of(text, language, path))
        new = edited(text, edits)
        if new != text:
            found[path] = new.encode("utf-8", "surrogateescape"), _count(edits)
    return found


def _language(path: str, content: bytes) -> str:
    """The language of a file by its name or its first line; ``data`` for values, empty for what is not known."""
    suffix = posixpath.splitext(path)[1].lower()
    if is_makefile(path):
        return "make"
    if suffix == ".py":
        return "python"
    if suffix in _SHELL_SUFFIXES:
        return "shell"
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    if is_record(path):
        return "data"
    found = _SHEBANG.match(content)
    name = found[1].decode() if found else ""
    return _OF_SHEBANG.get(name, name)


def _of_code(text: str, language: str, _: str) -> Iterable[Edit]:
    if language == "data":
        return ()
    if language == "make":
        return expected_in_makefile(text)
    begin = text.find(_TESTS_OF_RUST) if language == "rust" else -1  # tests in a file of the work
    return [edit for edit in in_language(text, language) if edit.start >= begin]
