"""Programs that start another program: the words that belong to such a program, and the command that it starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agent_harness.kernel.shell.reader import read

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "fish"})
LAUNCHERS = frozenset({"poetry", "uv", "pdm", "hatch", "pipenv", "rye", "pixi"})
"""Tools whose subcommand ``run`` starts a program in a project's environment."""
_LAUNCHER_VALUED = (
    "--with --with-editable --with-requirements --extra --group --only-group --package --python -p --project "
    "--directory --env-file -e --env -C"
)
EXECUTING = frozenset({"-exec", "-execdir", "-ok", "-okdir"})

# The options of each whose value is the next word, and the number of its own words after the options.
_WRAPPERS: dict[str, tuple[str, int]] = {
    "env": ("-u --unset -C --chdir", 0),
    "xargs": ("-I -n -P -L -d -a -s -E --max-args --max-procs --replace", 0),
    "timeout": ("-k -s --kill-after --signal", 1),
    "nice": ("-n --adjustment", 0),
    "ionice": ("-c -n -p", 0),
    "stdbuf": ("-i -o -e", 0),
    "time": ("-f -o", 0),
    "exec": ("-a", 0),
    "watch": ("-n --interval", 0),
    "flock": ("-w -E", 1),
    "chroot": ("", 1),
    "strace": ("-e -o -p -s", 0),
    "sudo": ("-u --user -g --group -h --host -p --prompt -C -T -r -t -U -D --chdir -R", 0),
    "caffeinate": ("-t -w", 0),
    "xvfb-run": ("-n --server-num -s --server-args -e --error-file -f --auth-file -p --xauth-protocol -w --wait", 0),
    **dict.fromkeys(("npx", "bunx", "pnpx", "cross-env"), ("-p --package", 0)),
    **dict.fromkeys(("command", "builtin", "nohup", "setsid", "busybox", "toybox", "chronic", "unbuffer"), ("", 0)),
}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=.*", re.DOTALL)
_VALUED_OF_SHELL = re.compile(r"[-+][a-zA-Z]*o|--rcfile|--init-file")


def name_of(words: Sequence[str]) -> str:
    return words[0].rpartition("/")[2] if words else ""


def unwrapped(words: Sequence[str], at: int = 0) -> int:
    """Return the number of words in the assignment or wrapper call that begins at ``at``."""
    if at < len(words) and _ASSIGNMENT.fullmatch(words[at]):
        return 1
    name = words[at].rpartition("/")[2] if at < len(words) else ""
    if name == "command" and words[at + 1 : at + 2] in (["-v"], ["-V"]):  # it only looks the command up
        return 0
    if name in LAUNCHERS:
        end = next((i for i in range(at + 1, len(words) - 1) if words[i] == "run"), len(words)) + 1
        valued, own = _LAUNCHER_VALUED, 0
    elif name in _WRAPPERS:
        end = at + 1
        valued, own = _WRAPPERS[name]
    else:
        return 0
    while end < len(words) and (words[end].startswith("-") or _ASSIGNMENT.fullmatch(words[end])):
        if words[end] == "--":
            end += 1
            break
        end += 2 if words[end] in valued.split() else 1
    end += own
    return end - at if end < len(words) else 0


def program_at(words: Sequence[str]) -> int:
    """Return the index of the program's name, after assignments and wrappers such as ``env``."""
    at = 0
    while count := unwrapped(words, at):
        at += count
    return at


def programs(text: str) -> Iterator[str]:
    """Yield the programs that a shell text starts, including wrappers such as ``env``."""
    for words in (command.plain for command, _ in read(text).every()):
        at = 0
        while at < len(words):
            if not _ASSIGNMENT.fullmatch(words[at]):
                yield words[at]
            at += unwrapped(words, at) or len(words)


def script_of(words: Sequence[str]) -> str | None:
    """Return the shell text that a command such as ``sh -c`` runs, or ``None``."""
    name = name_of(words)
    if name in ("eval", "(("):
        return " ".join(words[1:])
    if name == "env":
        return _after(words, r"-\w*S|--split-string")
    if name in SHELLS:
        return _after(words, r"-\w*c\w*|--command")
    if name in ("flock", "script", "watch"):
        return _after(words, r"-\w*c|--command")
    return None


def _after(words: Sequence[str], option: str) -> str | None:
    for at, word in enumerate(words[1:], start=1):
        if word.startswith("--split-string="):
            return word.partition("=")[2]
        if re.fullmatch(option, word):
            rest = [each for each in words[at + 1 :] if not each.startswith(("-", "+"))]
            return rest[0] if rest else None
    return None


def script_file_at(words: Sequence[str]) -> int:
    """Return the index of the script file or ``-c`` text in a shell's words, or 0."""
    for at in range(1, len(words)):
        if not words[at].startswith(("-", "+")) and not _VALUED_OF_SHELL.fullmatch(words[at - 1]):
            return at
    return 0


def executed(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the start and end index of each command that a ``find`` call executes."""
    if name_of(words) not in ("find", "fd", "gfind"):
        return
    for at, word in enumerate(words):
        if word in EXECUTING:
            end = next((i for i in range(at + 1, len(words)) if words[i] in (";", "+")), len(words))
            yield at + 1, end
