"""Rules that refuse shell commands. The text is parsed into simple commands, which are checked one by one. (C32)

The rules are guard rails against accidents, not a sandbox. They do not check the programs that an allowed command
starts."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_harness.agents.base import ToolRules
from agent_harness.agents.guardrails.paths import WorkingFolder, expanded, found_and_removed, removed, rm_operands
from agent_harness.kernel.shell.reader import DEEPEST, KEYWORDS, ShellCommand, ShellWord, read
from agent_harness.kernel.shell.wrappers import SHELLS, executed, name_of, script_of, unwrapped

_LONGEST_CLUSTER = 4  # -rf, -xdf; longer single-dash words are single options


@dataclass(frozen=True, slots=True)
class Form:
    """Words and redirects of a command, in a form for the comparison with denied commands."""

    words: tuple[str, ...]
    redirects: tuple[tuple[str, str], ...]


class UnreadableCommand(ValueError):
    """Error: the text is not a valid shell command. The message is a short reason."""


def commands(text: str) -> tuple[ShellCommand, ...]:
    """Return the simple commands in shell text. Raise ``UnreadableCommand`` if the text is invalid."""
    found = read(text)
    if found.fault:
        raise UnreadableCommand(found.fault)
    return found.commands


def forms_of(command: ShellCommand) -> Form:
    words = tuple(word.written for word in command.words)
    return Form(words, tuple((sign, to.written) for sign, to in command.redirects))


def denied_entry(entries: Sequence[str], found: Sequence[Sequence[Form]]) -> str | None:
    """Return the first entry of ``entries`` that matches a command in ``found``, or None."""
    # ``-rf`` also matches ``-fr`` and ``-r -f``; ``curl | sh`` matches two successive commands
    for entry in entries:
        patterns = _patterns(entry)
        for at in range(len(found) - len(patterns) + 1 if patterns else 0):
            pairs = zip(patterns, found[at:], strict=False)
            if all(any(_fits(pattern, form) for form in forms) for pattern, forms in pairs):
                return entry
    return None


def _patterns(entry: str) -> list[Form]:
    try:
        return [forms_of(command) for command in commands(entry)]
    except UnreadableCommand:
        return [Form(tuple(entry.split()), ())]


def _fits(pattern: Form, form: Form) -> bool:
    given = [("<" in sign, path) for sign, path in form.redirects]
    if any(("<" in sign, path) not in given for sign, path in pattern.redirects):
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


DENIED_PROGRAMS = ("sudo", "su", "doas")
DEVICES = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty")  # those that may be written to

_ASSIGNMENT = re.compile(r"(\w+)\+?=(.*)", re.DOTALL)
_DECLARING = {"export", "declare", "local", "readonly", "typeset"}


def check_command(text: str, root: Path, rules: ToolRules) -> str | None:
    """Return the reason to refuse a shell command, or None if the command is allowed."""
    # C32: never raises an error
    if not rules.shell_enabled:
        return "the shell is disabled in this project (tools.shell.enabled)"
    try:
        top = os.path.realpath(root)
        return _Judge(rules.denied_commands, WorkingFolder(top, [top])).text(text)
    except UnreadableCommand as reason:
        return f"the command cannot be parsed: {reason}"
    except (OSError, ValueError, RecursionError):
        return "the command cannot be parsed"


@dataclass(slots=True)
class _Judge:
    """Checker of the commands in one shell script."""

    # A nested script has its own checker: its changes to variables and folders do not affect the outer script.

    denied: Sequence[str]
    place: WorkingFolder
    depth: int = 0

    def inner(self) -> _Judge:
        if self.depth >= DEEPEST:
            raise UnreadableCommand("it is nested too deeply")
        place = WorkingFolder(self.place.root, [self.place.cwd], dict(self.place.variables))
        return _Judge(self.denied, place, self.depth + 1)

    def text(self, text: str) -> str | None:
        return self.script(commands(text))

    def script(self, script: Sequence[ShellCommand]) -> str | None:
        """Return the reason to refuse a script, or None if all commands in the script are allowed."""
        seen: list[list[Form]] = []
        for command in script:
            self._enter(command.before)
            piped = seen[-1][-1].words if seen and command.before[-1:] in (["|"], ["|&"]) else ()
            forms = [forms_of(command)]
            reason = _redirects(command) or self._substituted(command) or self._command(command, forms, piped)
            if reason:
                return reason
            if command.words or command.redirects:
                seen.append(forms)
        if entry := denied_entry(self.denied, seen):
            return f"the settings deny {entry!r} (tools.shell.denied_commands)"
        return None

    def _enter(self, operators: Sequence[str]) -> None:
        # each subshell has its own working directory
        for operator in operators:
            if operator == "(":
                self.place.folders.append(self.place.cwd)
            elif operator == ")" and len(self.place.folders) > 1:
                self.place.folders.pop()

    def _substituted(self, command: ShellCommand) -> str | None:
        return next((reason for each in command.substitutes() if (reason := self.inner().script(each))), None)

    def _command(self, command: ShellCommand, forms: list[Form], piped: Sequence[str]) -> str | None:
        """Append the command's forms to ``forms``. Return the reason to refuse the command, or None."""
        words = self._own_words(command.words)
        for _ in range(DEEPEST):
            if not words:
                return None
            texts = [word.written for word in words]
            forms.append(Form(tuple(texts), forms[0].redirects))
            scripts = (script_of(texts), _fed(texts, command.document, piped))
            if reason := (
                _program(words, self.place)
                or next((found for each in scripts if each and (found := self.inner().text(each))), None)
                or self._executed(words)
            ):
                return reason
            count = unwrapped(texts)
            if not count:
                _moved(words, self.place)
                return None
            words = self._own_words(words[count:])
        raise UnreadableCommand("it is nested too deeply")

    def _executed(self, words: Sequence[ShellWord]) -> str | None:
        """Return the reason to refuse a command after ``find -exec``, or None if the command is allowed."""
        texts = [word.written for word in words]
        for start, end in executed(texts):
            removing = name_of(texts[start:end]) == "rm" and rm_operands(texts[start:end]) is not None
            inner = ShellCommand([word for word in words[start:end] if word.text != "{}"])
            reason = (found_and_removed(texts, self.place) if removing else None) or self.inner().script([inner])
            if reason:
                return reason
        return None

    def _own_words(self, words: Sequence[ShellWord]) -> list[ShellWord]:
        rest = list(words)
        while rest and (self._assigned(rest[0]) or (not rest[0].quoted and rest[0].text in KEYWORDS)):
            rest.pop(0)
        if rest and "$" in rest[0].text and not rest[0].quoted:
            rest[:1] = [ShellWord(each) for each in expanded(rest[0].written, self.place, "unknown").split()]
        if rest and rest[0].text in _DECLARING:
            for word in rest[1:]:
                self._assigned(word)
        return rest

    def _assigned(self, word: ShellWord) -> bool:
        found = _ASSIGNMENT.fullmatch(word.written)
        if found:
            self.place.variables[found[1]] = expanded(found[2], self.place, "unknown")
        return found is not None


def _redirects(command: ShellCommand) -> str | None:
    written = (target.written for sign, target in command.redirects if sign == "<>" or "<" not in sign)
    return next((reason for path in written if (reason := _device(path))), None)


def _device(path: str) -> str | None:
    normal = re.sub(r"^/+", "/", os.path.normpath(path)) if path else ""
    if normal.startswith("/dev/") and normal not in DEVICES:
        return f"it writes to the device {path}"
    return None


def _program(words: Sequence[ShellWord], place: WorkingFolder) -> str | None:
    texts = [word.written for word in words]
    name = name_of(texts)
    if name in DENIED_PROGRAMS:
        return f"agents may not run {name}"
    if name == "rm":
        gone = [words[index] for index in rm_operands(texts) or ()]
        reasons = (
            f"{texts[0]} {word.written}: {why}" for word in gone if (why := removed(word.written, word.tilde, place))
        )
        return next(reasons, None)
    if name == "find" and "-delete" in texts:
        return found_and_removed(texts, place)
    written = {"dd": [each[3:] for each in texts if each.startswith("of=")], "tee": texts[1:]}.get(name, [])
    return next((reason for path in written if (reason := _device(path))), None)


def _fed(texts: Sequence[str], given: ShellWord | None, piped: Sequence[str]) -> str | None:
    """Return the script that a shell reads from standard input, or None if this script is unknown."""
    if name_of(texts) not in SHELLS or any(not each.startswith("-") for each in texts[1:]):
        return None
    if given is None and name_of(piped) in ("echo", "printf"):
        return " ".join(word for word in piped[1:] if not word.startswith("-"))
    return given.written if given else None


def _moved(words: Sequence[ShellWord], place: WorkingFolder) -> None:
    if words[0].text not in ("cd", "pushd"):
        return
    operands = [word for word in words[1:] if not word.text.startswith("-")]
    shown = expanded(operands[0].written, place, "unknown") if operands else "~"
    path = os.path.expanduser(shown) if not operands or operands[0].tilde else shown
    place.folders[-1] = os.path.realpath(os.path.join(place.cwd, path))
