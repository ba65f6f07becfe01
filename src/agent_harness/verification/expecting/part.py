"""Recognition of commands that run only some tests, such as ``cargo test NAME`` or ``go test -run NAME``."""

import re
from collections.abc import Iterator, Mapping, Sequence

from agent_harness.kernel.shell.reader import read
from agent_harness.kernel.shell.wrappers import program_at
from agent_harness.verification.expecting.edits import Edited

_BY_OPTION: Mapping[str, frozenset[str]] = {
    "go": frozenset({"-run", "--run"}),
    "node": frozenset({"--test-name-pattern"}),
    "jest": frozenset({"-t", "--testNamePattern"}),
    "vitest": frozenset({"-t", "--testNamePattern"}),
    "mocha": frozenset({"-g", "--grep", "-f", "--fgrep"}),
    "unittest": frozenset({"-k"}),
}
_VALUED = frozenset({"-p", "--package", "--test", "--bin", "--example", "--features", "-F", "--target", "-j", "--jobs"})
_DEFINED = r"\b(?:def|class|fn|mod|func|function)\s+(?:\([^)\n]*\)\s*)?{name}\b|\b\w+(?:\.\w+)*\(\s*[\"'`][^\n]*{name}"


def in_part(command: str, code: Mapping[str, Edited]) -> dict[str, Edited]:
    """Return the edits inside the tests that the command selects. If no such test is found, return all edits."""
    names = list(_names(command))
    if not names:
        return dict(code)
    blocks = {path: [each for name in names for each in _blocks(text, name)] for path, (text, _) in code.items()}
    if not any(blocks.values()):
        return dict(code)
    found = {
        path: (text, [edit for edit in edits if any(begin <= edit.start < end for begin, end in blocks[path])])
        for path, (text, edits) in code.items()
    }
    return {path: each for path, each in found.items() if each[1]}


def _names(command: str) -> Iterator[str]:
    """Yield the names of the tests that a command selects, as regular expressions."""
    for words in (each.plain for each, _ in read(command).every()):
        rest = words[program_at(words) :]
        program = next((word for word in rest if word in _BY_OPTION or word == "cargo"), "")
        for at, word in enumerate(rest):
            option, _, value = word.partition("=")
            if option in _BY_OPTION.get(program, ()):
                pattern = value or "".join(rest[at + 1 : at + 2])
                parts = (each.partition("/")[0].strip("^$*()") for each in pattern.split("|"))
                yield from (_holding(part) for part in parts if part)
            elif program == "unittest" and "." in word and "/" not in word and word[0] not in ".-":
                yield from (re.escape(part) for part in word.split(".")[-1:] if re.match(r"test|[A-Z]", part))
        if program == "cargo" and "test" in rest:
            yield from map(_holding, _of_cargo(rest[rest.index("test") + 1 :]))


def _of_cargo(words: Sequence[str]) -> list[str]:
    words = [*words[: words.index("--")], *words[words.index("--") + 1 :]] if "--" in words else list(words)
    return [
        word.rpartition("::")[2]
        for before, word in zip(["", *words], words, strict=False)
        if not word.startswith("-") and before not in _VALUED
    ]


def _holding(part: str) -> str:
    return rf"\w*{re.escape(part)}\w*"


def _blocks(text: str, name: str) -> Iterator[tuple[int, int]]:
    for found in re.finditer(rf"(?m)^([ \t]*)[^\n]*?(?:{_DEFINED.format(name=name)})[^\n]*", text):
        close = re.compile(rf"(?m)^[ \t]{{0,{len(found[1])}}}\S").search(text, found.end())
        yield found.start(), close.start() if close else len(text)
