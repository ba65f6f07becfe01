"""Comparison of two versions of a file that affects the verdict.
The file is a test given with an item, or a command uses the file, as a script or makefile. The result says in a few
words how the new version weakens the check, or is ``None``. Comments, layout and line endings are ignored."""

import difflib
import re
from collections.abc import Collection, Sequence
from pathlib import PurePosixPath

from agent_harness.verification import sources
from agent_harness.verification.changes import FileChange
from agent_harness.verification.command.makefile import weakened
from agent_harness.verification.command.named_files import AbsentFile, Named, package_scripts
from agent_harness.verification.runner_config import package_members

_SLASHES = frozenset({".js", ".ts", ".mjs", ".cjs", ".go", ".rs", ".java", ".php"})  # comments of these begin with them
_LEAVING_OUT = re.compile(
    r"\b(x(it|test|describe)|f(it|describe)|todo|exit|return|process|Skip|SkipNow|ignore|Ignore|Disabled|pending)\b"
    r"|\.(skip|only|todo|skipIf|runIf)\b|@(skip|disabled)|t\.Skip|/\*|#if\b|=begin|__END__"
)
_IMPORT = re.compile(
    r"(?P<begin>(?:import|const|let|var)\s*)\{(?P<names>[\w\s,]*)\}(?P<source>\s*(?:from|=\s*require\()\s*['\"][^'\"]*['\"]\)?;?)"
)
_SHOWN = 60
Line = tuple[int, str]


def bent(change: FileChange, named: Named, asked: str = "") -> str | None:
    """Return the reason to refuse a change to a file that commands load, or None if the change is allowed."""
    if change.status == "A":
        found = (each for each in named.absent if each.matches(change.path))
        return next(filter(None, (_comes(change, each, is_named(change.path, asked)) for each in found)), None)
    if change.path not in named.files:
        return None
    return _obviously(change) or _bent(change.path, change.before or b"", change.after or b"", named)


def _bent(path: str, before: bytes, after: bytes, named: Named) -> str | None:
    if path in named.makefiles:
        others = named.beside.get(path, "")
        return weakened(f"{_text(before)}\n{others}", f"{_text(after)}\n{others}", named.makefiles[path])
    if path in named.packages:
        return _package(before, after, named.packages[path])
    if path.endswith(".py") and sources.same(before, after):
        return None
    old, new = _lines(path, before), _lines(path, after)
    return None if [text for _, text in old] == [text for _, text in new] else _first_difference(old, new)


def weaker_test(change: FileChange, *, alone: bool) -> str | None:
    """Return how a change weakens a test or support file, or None if it weakens nothing."""
    if why := _obviously(change):
        return why
    if change.path.endswith(".py"):
        return _weaker_python(change.before or b"", change.after or b"", alone=alone)
    old, new = (_lines(change.path, content or b"") for content in (change.before, change.after))
    matcher = difflib.SequenceMatcher(None, [text for _, text in old], [text for _, text in new], autojunk=False)
    for kind, start, end, into, until in matcher.get_opcodes():
        pairs = zip(old[start:end], new[into:until], strict=False)
        if kind == "replace" and end - start == until - into and all(_only_imports(*each, old) for each in pairs):
            continue
        if kind in ("delete", "replace"):
            return f"line {old[start][0]} '{old[start][1][:_SHOWN]}' was removed or changed"
        leaving = (each for each in new[into:until] if kind == "insert" and _LEAVING_OUT.search(each[1]))
        if line := next(leaving, None):
            return f"the new line {line[0]} '{line[1][:_SHOWN]}' may skip tests"
    return None


def _only_imports(one: Line, other: Line, lines: Sequence[Line]) -> bool:
    """Return True if a line of JavaScript imports further names, which the older file does not use."""
    old, new = _IMPORT.fullmatch(one[1]), _IMPORT.fullmatch(other[1])
    if not old or not new or old["begin"] != new["begin"] or old["source"] != new["source"]:
        return False
    names, more = (set(re.findall(r"\w+", each["names"])) for each in (old, new))
    words = {word for _, text in lines for word in re.findall(r"\w+", text)}
    return names <= more and words.isdisjoint(more - names)


def _weaker_python(before: bytes, after: bytes, *, alone: bool) -> str | None:
    old, new = sources.parse(before), sources.parse(after)
    if old is None:
        return None if before.strip() == after.strip() else "it could not be parsed before, and has changed"
    if new is None:
        return "it can no longer be read"
    if gone := sources.changed(sources.begun(old, new), new):
        return f"{', '.join(list(dict.fromkeys(gone))[:5])} changed or was removed"
    acting = (sources.acting_on_older if alone else sources.automatic_fixtures)(old, new)
    return f"an addition affects existing tests: {acting[0]}" if acting else None


def is_named(path: str, text: str) -> bool:
    return bool(re.search(rf"(?<![\w-]){re.escape(PurePosixPath(path).name)}(?![\w-])", text))


def _comes(change: FileChange, absent: AbsentFile, is_asked: bool) -> str | None:
    if absent.instead_of:
        return f"it is read instead of {absent.instead_of}"
    if change.link or change.after is None:
        return "it cannot be compared"
    if absent.goals is not None:
        text = f"{absent.beside}\n{_text(change.after)}"
        why = weakened(absent.beside, text, absent.goals, sets_values=is_asked)
        return f"a makefile includes it, and {why}" if why else None
    return "a script runs it if it exists" if _lines(change.path, change.after) else None


def _obviously(change: FileChange) -> str | None:
    if change.status == "D":
        return "it was deleted"
    if change.link:
        return "it is now a symbolic link"
    return "it has changed and is too large to compare" if None in (change.before, change.after) else None


def _package(before: bytes, after: bytes, names: Collection[str]) -> str | None:
    old, new = package_scripts(before), package_scripts(after)
    hooks = [f"{side}{name}" for name in sorted(names) for side in ("pre", "post")]
    for_tests = [name for name in old if "test" in name]
    different = [name for name in (*sorted(names), *hooks, *for_tests) if old.get(name) != new.get(name)]
    if different:
        now = new.get(different[0])
        return f"its script {different[0]} is " + (f"now '{now[:_SHOWN]}'" if now else "gone")
    members = package_members(before, after)
    return f"it sets {', '.join(members)}" if members else None


def _text(content: bytes) -> str:
    # git may convert the line endings of a commit
    return content.replace(b"\r\n", b"\n").decode("utf-8", "surrogateescape")


def _lines(path: str, content: bytes) -> list[Line]:
    sign = "//" if PurePosixPath(path).suffix in _SLASHES else "#"
    numbered = ((number, line.strip()) for number, line in enumerate(_text(content).splitlines(), 1))
    return [each for each in numbered if each[1] and (not each[1].startswith(sign) or each[1].startswith("#!"))]


def _first_difference(old: Sequence[Line], new: Sequence[Line]) -> str:
    for (number, was), (_, now) in zip(old, new, strict=False):
        if was != now:
            return f"line {number}: '{was[:_SHOWN]}' is now '{now[:_SHOWN]}'"
    if len(old) > len(new):
        return f"line {old[len(new)][0]}: '{old[len(new)][1][:_SHOWN]}' is gone"
    return f"line {new[len(old)][0]}: '{new[len(old)][1][:_SHOWN]}' is new"
