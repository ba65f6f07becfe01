"""The commands that a person denied in the settings, compared word by word (C32)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from agent_harness.agents.guardrails.shell import Simple, UnreadableCommand, commands

_LONGEST_CLUSTER = 4  # -rf, -xdf; longer single-dash words are options of their own


@dataclass(frozen=True, slots=True)
class Form:
    """One way to look at a command: with its wrappers, or without them."""

    words: tuple[str, ...]
    redirects: tuple[tuple[str, str], ...]


def forms_of(simple: Simple) -> Form:
    """A parsed command as the comparison sees it."""
    return Form(tuple(word.text for word in simple.words), tuple((sign, to.text) for sign, to in simple.redirects))


def denied_entry(entries: Sequence[str], found: Sequence[Sequence[Form]]) -> str | None:
    """The first entry that matches commands that follow one another, or ``None``.

    The first word of an entry is the program. Its further words are found in their order, with others between them;
    ``-rf`` also fits ``-fr`` and ``-r -f``. An entry such as ``curl | sh`` matches two commands in a row.
    """
    for entry in entries:
        patterns = _patterns(entry)
        last = len(found) - len(patterns)
        if patterns and any(_matches_at(patterns, found[at:]) for at in range(last + 1)):
            return entry
    return None


def _patterns(entry: str) -> list[Form]:
    try:
        return [forms_of(simple) for simple in commands(entry)]
    except UnreadableCommand:
        return [Form(tuple(entry.split()), ())]


def _matches_at(patterns: Sequence[Form], found: Sequence[Sequence[Form]]) -> bool:
    return all(any(_fits(pattern, form) for form in forms) for pattern, forms in zip(patterns, found, strict=False))


def _fits(pattern: Form, form: Form) -> bool:
    if any(not any(_same_redirect(wanted, each) for each in form.redirects) for wanted in pattern.redirects):
        return False
    if not pattern.words:
        return True
    if not form.words or pattern.words[0] not in (form.words[0], os.path.basename(form.words[0])):
        return False
    letters = {letter for word in form.words[1:] if _cluster(word) for letter in word[1:]}
    rest = iter(form.words[1:])
    for wanted in pattern.words[1:]:
        if _cluster(wanted) and set(wanted[1:]) <= letters:
            continue
        if not any(word == wanted for word in rest):
            return False
    return True


def _cluster(word: str) -> bool:
    return word.startswith("-") and not word.startswith("--") and 1 < len(word) <= _LONGEST_CLUSTER


def _same_redirect(wanted: tuple[str, str], given: tuple[str, str]) -> bool:
    """The same kind of redirect to the same place; a place that ends in ``/`` stands for the folder itself."""
    return ("<" in wanted[0]) == ("<" in given[0]) and wanted[1] == given[1]
