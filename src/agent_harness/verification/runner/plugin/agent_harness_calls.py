"""Recorder of the calls that tests make to functions in changed files. The module can also repeat the calls later. It
uses only the standard library of Python 3.8 or later. The pytest plugin imports the module. A copy repeats the calls in
a process without a test runner. Arguments are stored as text that can be evaluated. Results are only compared."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import sys
import tempfile
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any

_CALLS_LIMIT, _CALLS_OF_ONE, _EVENTS_LIMIT = 200, 40, 500_000
_TEXT_LIMIT, _DEPTH_LIMIT, _PARTS_LIMIT = 4000, 20, 3000
_MADE_LIMIT, _SINCE_LIMIT = 2000, 30  # objects, and calls of the methods of one
_FLOWS = 0x2A0  # flags of the code of generators and coroutines
_TEST_FOLDERS = frozenset({"tests", "test", "__tests__", "spec", "specs"})
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_STANDARD = frozenset({"datetime", "decimal", "fractions", "uuid"})  # modules whose values say in a text what they are
_NAMES = {"nan": float("nan"), "inf": float("inf")}
_EFFECTS = (
    *("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown"),
    *("os.utime", "os.kill", "os.killpg", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn"),
    *("os.system", "os.setxattr", "os.removexattr", "os.startfile", "os.lockf", "fcntl.", "shutil.", "subprocess."),
    *("socket.", "ctypes.", "sqlite3.", "smtplib.", "ftplib.", "imaplib.", "poplib.", "telnetlib.", "urllib.", "http."),
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


class _TooMuch(Exception): ...


class TracedProject:
    """Project whose classes are traced. The classes of its tests are not traced."""

    def __init__(self, below: str) -> None:
        self._below = os.path.realpath(below) + os.sep
        self._known: dict[type, bool] = {}

    def owns(self, kind: type) -> bool:
        if kind not in self._known:
            self._known[kind] = self._is_of_work(kind)
        return self._known[kind]

    def _is_of_work(self, kind: type) -> bool:
        found: Any = sys.modules.get(kind.__module__)
        path = os.path.realpath(getattr(found, "__file__", None) or os.sep)
        if not path.startswith(self._below):
            return False
        *folders, name = path[len(self._below) :].split(os.sep)
        if _TEST_FOLDERS.intersection(folders) or name.startswith(("test_", "conftest.")) or name.endswith("_test.py"):
            return False
        for part in kind.__qualname__.split("."):
            found = getattr(found, part, None)
        return found is kind and not issubclass(kind, (BaseException, type))

    def has_state(self, value: object) -> bool:
        return self.owns(type(value)) and not isinstance(value, tuple) and not _is_enum(type(value))


def _is_enum(kind: type) -> bool:
    return isinstance(getattr(kind, "__members__", None), dict) or hasattr(kind, "_member_map_")


class Texts:
    def __init__(self, project: TracedProject) -> None:
        self._project = project
        self._inside: list[int] = []  # objects whose text is being made
        self._left = 0
        self.parts = 0  # that were looked at in all

    def answer(self, value: object) -> str:
        self._inside.clear()
        self._left = _PARTS_LIMIT
        return self._text(value, self._object)

    def given(self, value: object, made: Callable[[object], str]) -> str:
        self._left = _PARTS_LIMIT
        return self._text(value, made, keeps_order=True)

    def state(self, value: object) -> str:
        """Return an object's attributes as text. Run no code of the object."""
        self._inside, self._left = [id(value)], _PARTS_LIMIT
        return self._attributes(value, 0)

    def told(self, value: object, first: object, *, is_making: bool = False) -> str:
        if is_making:
            return self.state(first)
        return f"{self.answer(value)} on {self.state(first)}" if self._project.has_state(first) else self.answer(value)

    def _text(self, value: object, of_object: Callable[..., str], depth: int = 0, *, keeps_order: bool = False) -> str:
        kind = type(value)
        self._left -= 1
        self.parts += 1
        if depth > _DEPTH_LIMIT or self._left < 0:
            raise _TooMuch

        def part(each: object) -> str:
            return self._text(each, of_object, depth + 1, keeps_order=keeps_order)

        if kind in _PLAIN:
            text = repr(value)
        elif kind in (list, tuple):
            parts = [part(each) for each in value]  # type: ignore[attr-defined]
            inner = ", ".join(parts)
            text = f"[{inner}]" if kind is list else f"({inner},)" if len(parts) == 1 else f"({inner})"
        elif kind in (set, frozenset):
            text = f"{kind.__name__}([{', '.join(sorted(part(each) for each in value))}])"  # type: ignore[attr-defined]
        elif kind is dict:
            rows = [f"{part(key)}: {part(each)}" for key, each in value.items()]  # type: ignore[attr-defined]
            text = f"{{{', '.join(rows if keeps_order else sorted(rows))}}}"
        else:
            text = of_object(value) if keeps_order else of_object(value, depth)
        if len(text) > _TEXT_LIMIT:
            raise _TooMuch
        return text

    def _object(self, value: object, depth: int) -> str:
        kind = type(value)
        name = f"{kind.__module__}.{kind.__qualname__}"
        if kind.__module__ in _STANDARD:
            return f"{name}({str(value)!r})"
        if _is_enum(kind):
            return f"{name}.{value.name}"  # type: ignore[attr-defined]
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return f"{name}{self._text(tuple(value), self._object, depth + 1)}"
        if not hasattr(kind, "__dataclass_fields__") or id(value) in self._inside:
            return f"<{name}>" if self._project.owns(kind) else "<object>"  # such as a stream, which a runner replaces
        self._inside.append(id(value))
        text = self._attributes(value, depth)
        self._inside.remove(id(value))
        return text

    def _attributes(self, value: object, depth: int) -> str:
        kind = type(value)
        held: dict[str, object] = {}
        for name in (name for each in kind.__mro__ for name in _slots(each)):
            with contextlib.suppress(AttributeError):  # it was not set yet
                held[name] = object.__getattribute__(value, name)
        with contextlib.suppress(AttributeError):
            held.update(object.__getattribute__(value, "__dict__"))
        parts = [f"{name}={self._text(held[name], self._object, depth + 1)}" for name in sorted(held)]
        return f"{kind.__module__}.{kind.__qualname__}({', '.join(parts)})"


def _slots(kind: type) -> list[str]:
    found = kind.__dict__.get("__slots__", ())
    names = [found] if isinstance(found, str) else list(found)
    private = f"_{kind.__name__.lstrip('_')}"
    return [
        f"{private}{name}" if name.startswith("__") and not name.endswith("__") else name
        for name in names
        if name not in ("__dict__", "__weakref__")
    ]


class _Made:
    """Record of an object's creation: the constructor call and all method calls after it."""

    __slots__ = ("kind", "since", "state", "text")

    def __init__(self, kind: type, text: str, state: str) -> None:
        self.kind, self.text, self.state = kind, text, state
        self.since: list[str] = []


class _Open:
    __slots__ = ("arguments", "frame", "given", "is_making", "name", "named", "owner", "rest")

    def __init__(self, frame: FrameType, name: str | None, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.frame, self.name, self.given, self.named = frame, name, given, named
        self.is_making = False
        self.owner: Any = None  # the object that is the first of what is given
        self.arguments = self.rest = ""  # all, and those behind the owner


class Recorder:
    """Recorder of calls to the functions in ``watched``. It does not record nested calls."""

    # An object is created again by repeating its constructor call and the method calls since then.

    def __init__(self, watched: dict[str, dict[str, str]], below: str) -> None:
        self._watched = watched
        self._names: dict[int, str | None] = {}
        self._codes: list[CodeType] = []  # kept, so that none of their ids is used again
        self._project = TracedProject(below)
        self._texts = Texts(self._project)
        self._open: _Open | None = None
        self._making: dict[int, tuple[FrameType, str]] = {}  # by the id of an object
        self._made: dict[int, _Made] = {}
        self._calls: dict[tuple[str, str, str], str | None] = {}
        self._of_one: dict[str, int] = {}
        self._flowing: dict[int, str] = {}  # generators and coroutines, by the id of their code
        self._flows: dict[tuple[str, str], str] = {}
        self.unkept = 0  # calls whose arguments cannot be made again
        self._events = 0
        self._records = True

    @property
    def calls(self) -> list[list[str]]:
        return [[*key, answer] for key, answer in self._calls.items() if answer is not None]

    @property
    def flows(self) -> list[list[str]]:
        return [[*key, "", answer] for key, answer in self._flows.items()]

    @property
    def _spent(self) -> int:
        """Cost of the recording so far, in processed events and value parts."""
        return self._events + self._texts.parts

    def start(self, *, records: bool = True) -> None:
        self._open, self._records = None, records
        if sys.getprofile() is None and self._spent < _EVENTS_LIMIT:
            sys.setprofile(self._heard)

    def stop(self) -> None:
        self._making.clear()
        if sys.getprofile() == self._heard:
            sys.setprofile(None)

    def _heard(self, frame: FrameType, event: str, value: object) -> None:
        self._events += 1
        if event == "call":
            try:
                if frame.f_code.co_name == "__init__":
                    self._begins(frame)
                if self._open is None:
                    self._called(frame)
            except Exception:  # a value that cannot be looked at is none of ours
                self._open = None
        elif event == "return":
            with contextlib.suppress(Exception):
                if frame.f_code.co_name == "__init__":
                    self._ends(frame)
                if frame.f_code.co_flags & _FLOWS and self._records:
                    self._flowed(frame, value)
            opened = self._open
            if opened is not None and opened.frame is frame:
                self._open = None
                with contextlib.suppress(Exception):
                    self._returned(opened, value)
        if self._spent >= _EVENTS_LIMIT:
            self._made.clear()
            sys.setprofile(None)

    def _flowed(self, frame: FrameType, value: object) -> None:
        """Record the first value that a generator yields, or the result of a coroutine."""
        import dis

        code = frame.f_code
        if id(code) not in self._flowing:
            names = self._watched.get(os.path.realpath(code.co_filename), {})
            self._flowing[id(code)] = names.get(str(code.co_firstlineno), "")
            self._codes.append(code)
        key = str(frame.f_globals["__name__"]), self._flowing[id(code)]
        wanted = "RETURN" if code.co_flags & 0x80 else "YIELD"
        if key[1] and key not in self._flows and dis.opname[code.co_code[frame.f_lasti]].startswith(wanted):
            self._flows[key] = self._texts.answer(value)

    # ---- objects

    def _begins(self, frame: FrameType) -> None:
        new = _first(frame)
        if id(new) in self._making or not self._project.has_state(new) or len(self._made) > _MADE_LIMIT:
            return
        self._made.pop(id(new), None)
        given, named = _arguments(frame)
        self._making[id(new)] = frame, self._given([list(given[1:]), named])

    def _ends(self, frame: FrameType) -> None:
        new = _first(frame)
        begun, arguments = self._making.get(id(new), (None, ""))
        if begun is frame:
            del self._making[id(new)]
            if _is_return(frame):
                self._keep(new, arguments)

    def _keep(self, new: object, arguments: str) -> None:
        kind = type(new)
        text = f"{kind.__module__!r}, {kind.__qualname__!r}, {arguments}"
        self._made[id(new)] = _Made(kind, text, self._texts.state(new))

    def _known(self, value: object) -> _Made | None:
        found = self._made.get(id(value))
        if found is None or found.kind is not type(value) or found.state != self._texts.state(value):
            return None
        return found

    def _given(self, value: object) -> str:
        return self._texts.given(value, self._expression)

    def _expression(self, value: Any) -> str:
        """Return an expression that creates an equal object. Raise ``_TooMuch`` if there is none."""
        kind, found = type(value), self._known(value)
        if not self._project.owns(kind):
            raise _TooMuch
        if _is_enum(kind):
            return f"_member({kind.__module__!r}, {kind.__qualname__!r}, {value.name!r})"
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return f"_made({kind.__module__!r}, {kind.__qualname__!r}, [{self._given(list(value))}, {{}}], [])"
        is_bare = kind.__init__ is object.__init__ and kind.__new__ is object.__new__
        if found is None and is_bare and self._texts.state(value).endswith("()"):
            self._keep(value, "[[], {}]")
            found = self._made[id(value)]
        if found is None:
            raise _TooMuch
        return f"_made({found.text}, [{', '.join(found.since)}])"

    # ---- calls

    def _called(self, frame: FrameType) -> None:
        code = frame.f_code
        if id(code) not in self._names:
            found = self._watched.get(os.path.realpath(code.co_filename), {}).get(str(code.co_firstlineno))
            self._names[id(code)] = None if code.co_flags & _FLOWS else found
            self._codes.append(code)
        name = self._names[id(code)] if self._records else None
        if name is not None and (len(self._calls) >= _CALLS_LIMIT or self._of_one.get(name, 0) >= _CALLS_OF_ONE):
            name = None
        if name is None and not self._is_of_known(frame):
            return
        given, named = _arguments(frame)
        opened = _Open(frame, name, given, named)
        first = given[0] if given else None
        if code.co_name == "__init__" and id(first) in self._making:
            opened.is_making, opened.given, opened.name = True, given[1:], name and name[: -len(".__init__")]
        elif isinstance(first, type) and isinstance(_attribute(first, code.co_name), classmethod):
            if f"{first.__qualname__}.{code.co_name}" != name:
                return
            opened.given = given[1:]  # a class method is found bound to its class
        self.unkept += name is not None  # until its arguments are known
        if opened.given and self._project.has_state(opened.given[0]):
            opened.owner, opened.rest = opened.given[0], self._given([list(opened.given[1:]), named])
        opened.arguments = self._given([list(opened.given), named])
        self.unkept -= name is not None
        self._open = opened

    def _is_of_known(self, frame: FrameType) -> bool:
        code = frame.f_code
        is_method = code.co_varnames[:1] == ("self",) and not code.co_flags & _FLOWS
        first = _first(frame) if self._made and is_method else None
        found = _attribute(type(first), code.co_name) if id(first) in self._made else None
        return getattr(found, "__code__", None) is code and self._known(first) is not None

    def _returned(self, opened: _Open, value: object) -> None:
        owner, is_return = opened.owner, _is_return(opened.frame)
        rest = opened.given if owner is None else opened.given[1:]
        before = opened.arguments if owner is None else opened.rest
        if self._given([list(rest), opened.named]) != before:
            self._made.pop(id(owner), None)
            return  # it changes what it is given
        if opened.name is not None:
            made = _first(opened.frame) if opened.is_making else owner
            self._note(opened, self._texts.told(value, made, is_making=opened.is_making) if is_return else "raises")
        known = self._made.get(id(owner))
        if owner is not None and known is not None and known.state != (state := self._texts.state(owner)):
            name = opened.frame.f_code.co_name
            is_method = getattr(_attribute(type(owner), name), "__code__", None) is opened.frame.f_code
            if is_method and is_return and len(known.since) < _SINCE_LIMIT:
                known.since.append(f"({name!r}, {opened.rest})")
                known.state = state
            else:
                del self._made[id(owner)]

    def _note(self, opened: _Open, answer: str) -> None:
        key = (str(opened.frame.f_globals["__name__"]), str(opened.name), opened.arguments)
        if key in self._calls and self._calls[key] != answer:
            self._calls[key] = None
        elif key not in self._calls:
            self._calls[key] = answer
            self._of_one[key[1]] = self._of_one.get(key[1], 0) + 1


def _first(frame: FrameType) -> Any:
    return frame.f_locals.get(frame.f_code.co_varnames[0]) if frame.f_code.co_argcount else None


def _arguments(frame: FrameType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and keyword arguments of a call that has just begun."""
    code, local = frame.f_code, frame.f_locals
    names, count, keywords = code.co_varnames, code.co_argcount, code.co_kwonlyargcount
    given = tuple(local[each] for each in names[:count])
    named = {each: local[each] for each in names[count : count + keywords]}
    if code.co_flags & 0x04:
        given += tuple(local[names[count + keywords]])
    if code.co_flags & 0x08:
        named.update(local[names[count + keywords + bool(code.co_flags & 0x04)]])
    return given, named


def _is_return(frame: FrameType) -> bool:
    import dis

    return dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN")


def _attribute(kind: type, name: str) -> object:
    return next((each.__dict__[name] for each in kind.__mro__ if name in each.__dict__), None)


class Again:
    """Helper that repeats recorded calls and returns their results."""

    # After the first call, the process cannot write outside its folders, start programs or send data.

    def __init__(self, *places: str) -> None:
        self._below = tuple(os.path.realpath(place) + os.sep for place in places)
        self._project = TracedProject(places[0])
        self._texts = Texts(self._project)
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
        if isinstance(function, property):
            return function.fget
        return getattr(function, "func", None) if type(function).__name__ == "cached_property" else function

    def _refuse(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._is_guarded:
            return
        writes = event == "open" and (set(str(arguments[1] or "")) & set("wxa+") or int(arguments[2] or 0) & _WRITING)
        if (writes or event.startswith(_EFFECTS)) and not self._is_inside(event, arguments):
            self._had_effect = True
            raise PermissionError(event)

    def _is_inside(self, event: str, arguments: tuple[Any, ...]) -> bool:
        """Return True if a file operation affects only folders that the harness deletes later."""
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
            names = {**_NAMES, "_made": partial(self._made, call), "_member": self._member}
            given, named = eval(text, names)  # noqa: S307  in a process of the work itself
            value = call(function, given, named)
            is_making = isinstance(function, type) and self._project.has_state(value)
            first = value if is_making else given[0] if given else None
            answer = self._texts.told(value, first, is_making=is_making)
        except _TooMuch:
            return None
        except BaseException as error:
            is_ours = self._is_of_project(error) and not isinstance(error, (RecursionError, MemoryError))
            answer = f"raises {type(error).__name__}" if is_ours else ""
        return None if function is None or self._had_effect or not answer else answer

    def _made(
        self, call: Callable[..., Any], module: str, name: str, arguments: list[Any], since: list[tuple[str, list[Any]]]
    ) -> Any:
        value = call(self._found(module, name), *arguments)
        for method, given in since:
            call(getattr(value, method), *given)
        return value

    def _member(self, module: str, name: str, member: str) -> Any:
        return self._found(module, name)[member]

    def _is_of_project(self, error: BaseException) -> bool:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        return trace is not None and os.path.realpath(trace.tb_frame.f_code.co_filename).startswith(self._below[0])


def main() -> None:
    """Make the calls that ``job.json`` lists, and write the results to ``answers.json``."""
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
