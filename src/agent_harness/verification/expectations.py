"""Versions of a check with changed expected values.
A check that compares values fails in each version. The values are changed in the check's code, in the words of its
command and in its data, for every supported language. The work stays unchanged. A linter, a compiler or ``test -f``
expects no values. For such a check there are no versions, and only the exit status is known."""

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agent_harness.verification.expecting.edits import Edit, Edited, edited
from agent_harness.verification.expecting.languages import SUFFIXES
from agent_harness.verification.expecting.make import expected_in_makefile, is_makefile
from agent_harness.verification.expecting.part import in_part
from agent_harness.verification.expecting.records import is_record, is_settings, other_records
from agent_harness.verification.expecting.shell import expected_in_shell, in_language
from agent_harness.verification.verdict import listed

__all__ = ["ChangedCheck", "one_by_one", "with_other_values"]
_NEAR = 4  # letters between two edits of one value
_LARGEST, _LARGEST_DATA = 1024 * 1024, 4 * 1024 * 1024  # bytes; nobody writes a larger check by hand
_SHEBANG = re.compile(rb"#![^\n]*?\b(python|node|perl|ruby|php|awk|bash|dash|zsh|ksh|sh)[\d.]*\b")
_OF_SHEBANG = {"node": "js", "bash": "shell", "dash": "shell", "zsh": "shell", "ksh": "shell", "sh": "shell"}
_TESTS_OF_RUST = "#[cfg(test)]"
_SHELL_SUFFIXES = (".sh", ".bash", ".zsh", ".ksh", ".bats")
_NOT_ALWAYS = re.compile(r"\$\{?[1-9#@*]|\b(?:uname|OSTYPE|GOOS|argv|environ|getenv)\b|platform|__name__|process\.env")


_OR = re.compile(r"\|\|\s*(?:\[|test\b|grep\b)")  # one of two comparisons is enough
_GOAL, _GOAL_WORD = re.compile(r"(?m)^([\w./%-]+)[^\n=]*:(?!=)"), re.compile(r"[\w./%-]+")
_SHOWN = 60  # letters of a line, in messages


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedCheck:
    """Version of a check in which expected values are changed."""

    what: str  # for people
    of_program: bool = False  # it is one value of a program whose tests all run
    files: Mapping[str, bytes] = field(default_factory=dict)  # by path, their whole new content
    command: str
    places: int


def with_other_values(
    command: str, files: Mapping[str, bytes], data: Mapping[str, bytes] | None = None
) -> list[ChangedCheck]:
    """Return versions of a check with changed expected values, in execution order."""
    code, words, values = _found(command, files, data or {})
    kinds: list[ChangedCheck] = []
    if code:
        kinds.append(_version("the expected values of", code, command))
    if words:
        what = f"the values in the words of the command are changed ({_places(len(_values(words)))})"
        kinds.append(ChangedCheck(what=what, command=edited(command, words), places=len(_values(words))))
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


def one_by_one(
    command: str, files: Mapping[str, bytes], data: Mapping[str, bytes] | None = None, *, most: int
) -> list[ChangedCheck]:
    """Return up to ``most`` versions of a check. Each version has one changed expected value."""
    code, words, values = _found(command, files, data or {})
    code = in_part(command, code)
    rows = [
        [(path, value) for value in _values(edits) if _is_asked(path, text, value[0].start, command)]
        for path, (text, edits) in (code or ({} if words else values)).items()
    ]
    rows = [row for row in (*rows, [("", value) for value in _values(words) if not _OR.search(command)]) if row]
    # only a check that runs to its end notices a last value
    chosen = [row[-1] for row in rows]
    for share in (0.0, 0.5, 0.25, 0.75):
        chosen += [each for row in rows if (each := row[int(share * (len(row) - 1))]) not in chosen]
    texts = {path: text for path, (text, _) in (code | values).items()}
    return [_single(command, path, texts.get(path, command), value) for path, value in chosen[:most]]


def _is_asked(path: str, text: str, at: int, command: str) -> bool:
    """Return True if the command probably uses the value at position ``at`` of the text."""
    if is_makefile(path):
        goals = _GOAL.findall(text, 0, at)
        return bool(goals) and goals[-1] in _GOAL_WORD.findall(command)
    line = _line(text, at)
    begin = text.rfind("\n", 0, at)
    above = _line(text, begin) if begin > 0 else ""
    return not any(map(_NOT_ALWAYS.search, (line, above))) and not _OR.search(line)


def _single(command: str, path: str, text: str, value: Sequence[Edit]) -> ChangedCheck:
    new, written = edited(text, value), _line(text, value[0].start).strip()[:_SHOWN]
    if not path:
        return ChangedCheck(what="one value in the words of the command is changed", command=new, places=1)
    number = text.count("\n", 0, value[0].start) + 1
    what = f"one value in line {number} of {path} is changed: {written}"
    content = new.encode("utf-8", "surrogateescape")
    of_program = _language(path, content) not in ("make", "shell", "data")
    return ChangedCheck(what=what, files={path: content}, command=command, places=1, of_program=of_program)


def _line(text: str, at: int) -> str:
    end = text.find("\n", at)
    return text[text.rfind("\n", 0, at) + 1 : end if end >= 0 else len(text)]


def _values(edits: Iterable[Edit]) -> list[list[Edit]]:
    found: list[list[Edit]] = []
    for edit in sorted(edits):
        if found and edit.start < found[-1][-1].end + _NEAR:
            found[-1].append(edit)
        else:
            found.append([edit])
    return found


def _found(
    command: str, files: Mapping[str, bytes], data: Mapping[str, bytes]
) -> tuple[dict[str, Edited], list[Edit], dict[str, Edited]]:
    plain = {path: content for path, content in data.items() if path not in files and not is_settings(path)}
    plain |= {path: content for path, content in files.items() if _language(path, content) == "data"}
    code = _changed(files, _language, _of_code)
    words = [each for each in expected_in_shell(command) if command]
    values = _changed(
        plain, lambda path, content: "data" if is_record(path) else "", lambda text, _, path: other_records(text, path)
    )
    return code, words, values


def _version(what: str, files: Mapping[str, Edited], command: str) -> ChangedCheck:
    places = sum(len(_values(edits)) for _, edits in files.values())
    return ChangedCheck(
        what=f"{what} {listed(files, 3)} are changed ({_places(places)})",
        files={path: edited(text, edits).encode("utf-8", "surrogateescape") for path, (text, edits) in files.items()},
        command=command,
        places=places,
    )


def _places(count: int) -> str:
    return "1 place" if count == 1 else f"{count} places"


def _changed(
    files: Mapping[str, bytes],
    language_of: Callable[[str, bytes], str],
    edits_of: Callable[[str, str, str], Iterable[Edit]],
) -> dict[str, Edited]:
    found: dict[str, Edited] = {}
    for path, content in sorted(files.items()):
        language = language_of(path, content) if b"\0" not in content else ""
        if not language or len(content) > (_LARGEST_DATA if language == "data" else _LARGEST):
            continue
        text = content.decode("utf-8", "surrogateescape")
        edits = set(edits_of(text, language, path))
        if edited(text, edits) != text:
            found[path] = text, edits
    return found


def _language(path: str, content: bytes) -> str:
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
