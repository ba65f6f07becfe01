"""Whether a changed file only says more than before: tests and assertions that came, and none that went.

Contents in, a reason in a few words or ``None`` out. Comments and layout never count.
"""

import ast
import difflib
import re
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from agent_harness.verification import sources
from agent_harness.verification.command.named_files import package_scripts

__all__ = ["changed_package", "changed_script", "weakened_test"]

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_COMMENTS = {
    ".js": "//",
    ".ts": "//",
    ".mjs": "//",
    ".cjs": "//",
    ".go": "//",
    ".rs": "//",
    ".java": "//",
    ".php": "//",
}
_LEAVING_OUT = re.compile(
    r"\b(x(it|test|describe)|f(it|describe)|todo|exit|return|process|Skip|SkipNow|ignore|Ignore|Disabled|pending)\b"
    r"|\.(skip|only|todo|skipIf|runIf)\b|@(skip|disabled)|t\.Skip|/\*|#if\b|=begin|__END__"
)
_RUNNER_MEMBERS = ("jest", "vitest", "mocha", "ava", "type", "nyc", "c8")
_SHOWN = 60


def changed_script(path: str, before: bytes, after: bytes) -> str | None:
    """Where a script that proves something is another one now: ``line 3: 'exit 1' is now 'exit 0'``."""
    if path.endswith(".py") and sources.same(before, after):
        return None
    old, new = _lines(path, before), _lines(path, after)
    return None if [text for _, text in old] == [text for _, text in new] else _first_difference(old, new)


def weakened_test(path: str, before: bytes, after: bytes) -> str | None:
    """What a test file, or what tests stand on, no longer says; additions are free."""
    if PurePosixPath(path).suffix == ".py":
        return _weakened_python(before, after)
    old, new = _lines(path, before), _lines(path, after)
    matcher = difflib.SequenceMatcher(None, [text for _, text in old], [text for _, text in new], autojunk=False)
    for kind, start, end, into, until in matcher.get_opcodes():
        if kind in ("delete", "replace"):
            gone = old[start]
            return f"line {gone[0]} '{gone[1][:_SHOWN]}' is gone or changed"
        if kind == "insert" and (
            line := next((new[at] for at in range(into, until) if _LEAVING_OUT.search(new[at][1])), None)
        ):
            return f"the new line {line[0]} '{line[1][:_SHOWN]}' may leave tests out"
        del end
    return None


def changed_package(names: Sequence[str]) -> Callable[[str, bytes, bytes], str | None]:
    """A rule for package.json: these scripts, and what configures the test runners in it, stay as they were."""

    def rule(_: str, before: bytes, after: bytes) -> str | None:
        old, new = package_scripts(before), package_scripts(after)
        hooks = [f"{side}{name}" for name in names for side in ("pre", "post")]
        different = [name for name in (*names, *hooks) if old.get(name) != new.get(name)]
        if different:
            now = new.get(different[0])
            return f"its script {different[0]} is " + (f"now '{now[:_SHOWN]}'" if now else "gone")
        members = [name for name in _RUNNER_MEMBERS if _member(before, name) != _member(after, name)]
        return f"it sets {', '.join(members)}" if members else None

    return rule


def _member(content: bytes, name: str) -> object:
    import json

    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return "unreadable"
    return document.get(name) if isinstance(document, dict) else None


def _lines(path: str, content: bytes) -> list[tuple[int, str]]:
    """Lines that say something, with their numbers; the first line of a script names its interpreter."""
    sign = _COMMENTS.get(PurePosixPath(path).suffix, "#")
    text = content.decode("utf-8", "surrogateescape").splitlines()
    numbered = ((number, line.strip()) for number, line in enumerate(text, 1))
    return [
        (number, line) for number, line in numbered if line and (not line.startswith(sign) or line.startswith("#!"))
    ]


def _first_difference(old: Sequence[tuple[int, str]], new: Sequence[tuple[int, str]]) -> str:
    for (number, was), (_, now) in zip(old, new, strict=False):
        if was != now:
            return f"line {number}: '{was[:_SHOWN]}' is now '{now[:_SHOWN]}'"
    if len(old) > len(new):
        return f"line {old[len(new)][0]}: '{old[len(new)][1][:_SHOWN]}' is gone"
    return f"line {new[len(old)][0]}: '{new[len(old)][1][:_SHOWN]}' is new"


# ---- Python --------------------------------------------------------------------------------------------------------


def _weakened_python(before: bytes, after: bytes) -> str | None:
    old, new = sources.parse(before), sources.parse(after)
    if old is None:
        return None if before.strip() == after.strip() else "it could not be read before, and is another one now"
    if new is None:
        return "it can no longer be read"
    known, now = _functions(old.body, ""), _functions(new.body, "")
    names = [n for n in sources.changed(old, new) if not (n in known and n in now and _has_grown(known[n], now[n]))]
    return f"{', '.join(list(dict.fromkeys(names))[:5])} changed or went" if names else None


def _functions(body: Sequence[ast.stmt], inside: str) -> dict[str, _Function]:
    """Functions by their name, the last of those that share one."""
    found: dict[str, _Function] = {}
    for statement in body:
        if isinstance(statement, _Function):
            found[inside + statement.name] = statement
        elif isinstance(statement, ast.ClassDef):
            found |= _functions(statement.body, f"{inside}{statement.name}::")
    return found


def _has_grown(before: _Function, after: _Function) -> bool:
    """Whether a function got assertions and nothing else, which bind no name that was used before."""
    if _head(before) != _head(after):
        return False
    used = {node.id for statement in before.body for node in ast.walk(statement) if isinstance(node, ast.Name)}
    rest = [ast.dump(statement) for statement in before.body]
    for statement in after.body:
        if rest and ast.dump(statement) == rest[0]:
            rest.pop(0)
        elif not _asserts(statement) or sources.bound(statement) & used:
            return False
    return not rest


def _head(function: _Function) -> list[str]:
    parts = (function.args, *function.decorator_list, *([function.returns] if function.returns else []))
    return [type(function).__name__, *(ast.dump(part) for part in parts)]


def _asserts(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assert):
        return True
    if sources.is_text(statement):
        return True
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and sources.dotted(call.func).split(".")[-1].lower().startswith("assert")
