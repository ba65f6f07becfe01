"""Records calls of the functions under work while they are tested, and makes the same calls again.

Standard library only, Python 3.8 and later: the plugin beside it imports this file, and a copy of it, as a program of
another name, makes the calls where no runner is. A call is kept as text: what goes in can be evaluated again, what
comes out is only compared. Nothing outside of the process is changed by a call that is made again: what would write,
start or send something is refused, and the call then counts for nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import sys
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any

_CALLS_LIMIT, _CALLS_OF_ONE, _EVENTS_LIMIT = 200, 40, 500_000
_TEXT_LIMIT, _DEPTH_LIMIT = 4000, 20
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_STANDARD = frozenset({"datetime", "decimal", "fractions", "uuid"})  # modules whose values say in a text what they are
_NAMES = {"nan": float("nan"), "inf": float("inf")}
_EFFECTS = (
    *("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown"),
    *(
        "os.utime",
        "os.kill",
        "os.killpg",
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.system",
    ),
    *("os.setxattr", "os.removexattr", "os.startfile", "os.lockf", "fcntl.", "shutil.", "subprocess.", "socket."),
    *("ctypes.", "sqlite3.", "smtplib.", "ftplib.", "imaplib.", "poplib.", "telnetlib.", "urllib.", "http."),
    *("webbrowser.", "signal.", "pty.", "tempfile.", "mmap.", "syslog.", "builtins.input"),
)
_ON_FILES = {  # how many names an event begins with, and where the open folders begin to which they are relative
    "open": (1, 0),
    "tempfile.mkstemp": (1, 0),
    "tempfile.mkdtemp": (1, 0),
    "os.truncate": (1, 0),
    "os.remove": (1, 1),
    "os.rmdir": (1, 1),
    "os.mkdir": (1, 2),
    "os.chmod": (1, 2),
    "os.utime": (1, 3),
    "os.rename": (2, 2),
    "os.link": (2, 2),
    "os.symlink": (2, 2),
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class _TooMuch(Exception):
    """A value that is not kept."""


def text_of(value: object, *, answer: bool, depth: int = 0) -> str:
    """A value as text. Of an ``answer`` no order counts that has no meaning, and of an odd object its type."""
    kind = type(value)
    if kind in _PLAIN:
        text = repr(value)
    elif depth > _DEPTH_LIMIT:
        raise _TooMuch
    elif kind in (list, tuple):
        parts = [text_of(each, answer=answer, depth=depth + 1) for each in value]  # type: ignore[attr-defined]
        inner = ", ".join(parts)
        text = f"[{inner}]" if kind is list else f"({inner},)" if len(parts) == 1 else f"({inner})"
    elif kind in (set, frozenset):
        parts = [text_of(each, answer=answer, depth=depth + 1) for each in value]  # type: ignore[attr-defined]
        text = f"{kind.__name__}([{', '.join(sorted(parts))}])"
    elif kind is dict:
        rows = [
            f"{text_of(key, answer=answer, depth=depth + 1)}: {text_of(each, answer=answer, depth=depth + 1)}"
            for key, each in value.items()  # type: ignore[attr-defined]
        ]
        text = f"{{{', '.join(sorted(rows) if answer else rows)}}}"
    elif answer:
        text = _of_object(value, depth)
    else:
        raise _TooMuch
    if len(text) > _TEXT_LIMIT:
        raise _TooMuch
    return text


def _of_object(value: object, depth: int) -> str:
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if kind.__module__ in _STANDARD:
        return f"{name}({str(value)!r})"
    fields = getattr(kind, "__dataclass_fields__", None) or (
        getattr(kind, "_fields", None) if isinstance(value, tuple) else None
    )
    if fields:
        parts = [f"{field}={text_of(getattr(value, field), answer=True, depth=depth + 1)}" for field in fields]
        return f"{name}({', '.join(parts)})"
    return f"{name}.{value.name}" if isinstance(getattr(kind, "__members__", None), dict) else f"<{name}>"  # type: ignore[attr-defined]


class Recorder:
    """Keeps calls of these functions, by file and first line: the outermost ones, with plain values."""

    def __init__(self, watched: dict[str, dict[str, str]]) -> None:
        self._watched = watched
        self._names: dict[int, str | None] = {}
        self._codes: list[CodeType] = []  # kept, so that none of their ids is used again
        self._open: tuple[FrameType, str, str, tuple[Any, ...], dict[str, Any]] | None = None
        self._calls: dict[tuple[str, str, str], str | None] = {}
        self._of_one: dict[str, int] = {}
        self._events = 0

    @property
    def calls(self) -> list[list[str]]:
        """Module, function, arguments and answer of each call that always gave the same one."""
        return [[*key, answer] for key, answer in self._calls.items() if answer is not None]

    def start(self) -> None:
        self._open = None
        if sys.getprofile() is None and self._events < _EVENTS_LIMIT:
            sys.setprofile(self._heard)

    def stop(self) -> None:
        if sys.getprofile() == self._heard:
            sys.setprofile(None)

    def _heard(self, frame: FrameType, event: str, value: object) -> None:
        self._events += 1
        if event == "call" and self._open is None:
            try:
                self._called(frame)
            except Exception:  # a value that cannot be looked at is none of ours
                self._open = None
        elif event == "return" and self._open is not None and self._open[0] is frame:
            with contextlib.suppress(Exception):
                self._returned(frame, value)
            self._open = None
        if self._events >= _EVENTS_LIMIT:
            sys.setprofile(None)

    def _called(self, frame: FrameType) -> None:
        code = frame.f_code
        if id(code) not in self._names:
            found = self._watched.get(os.path.realpath(code.co_filename), {}).get(str(code.co_firstlineno))
            self._names[id(code)] = None if code.co_flags & 0x2A0 else found  # neither generators nor coroutines
            self._codes.append(code)
        name = self._names[id(code)]
        if name is None or len(self._calls) >= _CALLS_LIMIT or self._of_one.get(name, 0) >= _CALLS_OF_ONE:
            return
        local, names = frame.f_locals, code.co_varnames
        count, keywords = code.co_argcount, code.co_kwonlyargcount
        given = tuple(local[each] for each in names[:count])
        named = {each: local[each] for each in names[count : count + keywords]}
        if code.co_flags & 0x04:
            given += tuple(local[names[count + keywords]])
        if code.co_flags & 0x08:
            named.update(local[names[count + keywords + bool(code.co_flags & 0x04)]])
        self._open = (frame, name, text_of([list(given), named], answer=False), given, named)

    def _returned(self, frame: FrameType, value: object) -> None:
        import dis

        if self._open is None:
            return
        _, name, arguments, given, named = self._open
        if text_of([list(given), named], answer=False) != arguments:
            return  # it changes what it is given
        is_return = dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN")
        answer = text_of(value, answer=True) if is_return else "raises"
        key = (str(frame.f_globals["__name__"]), name, arguments)
        if key in self._calls and self._calls[key] != answer:
            self._calls[key] = None
        elif key not in self._calls:
            self._calls[key] = answer
            self._of_one[name] = self._of_one.get(name, 0) + 1


class Again:
    """Makes calls again; ``answers`` has a text for each, or ``None`` where it says nothing.

    From the first call on the process may write below its folder and its temporary one alone, and start or send
    nothing; that stays so until its end.
    """

    def __init__(self, *places: str) -> None:
        self._below = tuple(os.path.realpath(place) + os.sep for place in places)
        self._is_guarded = self._had_effect = False
        if hasattr(sys, "addaudithook"):
            sys.addaudithook(self._refuse)

    def answers(self, calls: list[list[str]], call: Callable[..., Any]) -> list[str | None]:
        if not hasattr(sys, "addaudithook"):
            return [None] * len(calls)
        found = [self._found(module, name) for module, name, _ in calls]
        self._is_guarded = True
        return [self._answer(function, row[2], call) for function, row in zip(found, calls)]  # noqa: B905  Python 3.8

    def _found(self, module: str, name: str) -> Any:
        try:
            function: Any = importlib.import_module(module)
            for part in name.split("."):
                function = getattr(function, part)
        except BaseException:
            return None
        return function

    def _refuse(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._is_guarded:
            return
        writes = event == "open" and (set(str(arguments[1] or "")) & set("wxa+") or int(arguments[2] or 0) & _WRITING)
        if (writes or event.startswith(_EFFECTS)) and not self._is_inside(event, arguments):
            self._had_effect = True
            raise PermissionError(event)

    def _is_inside(self, event: str, arguments: tuple[Any, ...]) -> bool:
        """Whether a change of files concerns only folders that are thrown away."""
        if event not in _ON_FILES:
            return False
        names, folders = _ON_FILES[event]
        is_relative = any(each != -1 for each in arguments[folders:] if folders)
        return not is_relative and all(self._is_below(each) for each in arguments[:names])

    def _is_below(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        return name == os.devnull or (os.path.realpath(name) + os.sep).startswith(self._below)

    def _answer(self, function: Any, text: str, call: Callable[..., Any]) -> str | None:
        self._had_effect = False
        try:
            given, named = eval(text, dict(_NAMES))  # noqa: S307  in a process of the work itself
            value = call(function, given, named)
            answer = text_of(value, answer=True)
        except _TooMuch:
            return None
        except BaseException as error:
            is_ours = self._is_of_project(error) and not isinstance(error, (RecursionError, MemoryError))
            answer = f"raises {type(error).__name__}" if is_ours else ""
        return None if function is None or self._had_effect or not answer else answer

    def _is_of_project(self, error: BaseException) -> bool:
        """Whether code of the project raised it: a framework that was not set up says so by itself."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        return trace is not None and os.path.realpath(trace.tb_frame.f_code.co_filename).startswith(self._below[0])


def main() -> None:
    """Calls what ``job.json`` beside this program lists; answers go to ``answers.json``."""
    place = os.path.dirname(os.path.realpath(__file__))
    with open(os.path.join(place, "job.json"), encoding="utf-8") as file:
        job = json.load(file)
    sys.dont_write_bytecode = True
    below = os.path.realpath(os.getcwd())
    sys.path[:] = [*(os.path.normpath(os.path.join(below, each)) for each in job["paths"]), *sys.path[1:]]
    for path in job["first"]:
        with contextlib.suppress(BaseException):
            if path.endswith(".py"):
                spec = importlib.util.spec_from_file_location("conftest", path)
                spec.loader.exec_module(importlib.util.module_from_spec(spec))  # type: ignore[union-attr]
            else:
                importlib.import_module(path)
    tempfile.tempdir = os.path.join(place, "tmp")
    with open(os.path.join(place, "answers.json"), "w", encoding="utf-8") as target:
        again = Again(below, tempfile.tempdir)
        answers = again.answers(job["calls"], lambda function, given, named: function(*given, **named))
        json.dump(answers, target)
        target.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
