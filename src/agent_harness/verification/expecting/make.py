"""Search for expected values in a makefile: in recipes, and in variables with names such as ``EXPECTED``."""

import re
from collections.abc import Iterator

from agent_harness.verification.expecting.edits import Edit, moved, other_number, other_text
from agent_harness.verification.expecting.shell import expected_in_shell

_NAMES = re.compile(r"(?i)(?:gnu)?makefile(?:\..*)?|.*\.mk")
_WANTED = re.compile(
    r"(?im)^(?:export[ \t]+)?(?:want|expect)\w*[ \t]*[:?+]{0,2}=[ \t]*(?P<value>[^$#\n]+?)[ \t]*(?:#.*)?$"
)
_RECIPE = re.compile(r"^\t[@+ \t-]*(?P<text>(?:[^\\\n]|\\[\s\S])*+)", re.MULTILINE)


def is_makefile(path: str) -> bool:
    return bool(_NAMES.fullmatch(path.rpartition("/")[2]))


def expected_in_makefile(text: str) -> Iterator[Edit]:
    for recipe in _RECIPE.finditer(text):
        letters: list[str] = []
        places: list[int] = []
        at, end = recipe.span("text")
        while at < end:
            at += text.startswith("$$", at)  # a dollar for the shell
            letters.append(text[at])
            places.append(at)
            at += 1
        yield from moved(expected_in_shell("".join(letters)), places)
    for wanted in _WANTED.finditer(text):
        value, start = wanted["value"], wanted.start("value")
        yield from other_number(value, start) if value.isdigit() else other_text(value, start)
