"""Immutable value classes that load fast. They replace ``dataclasses``, which imports fifteen modules.

    if TYPE_CHECKING:
        from dataclasses import dataclass, field, fields, replace
    else:
        from agent_harness.session.values import dataclass, field, fields, replace

Modules use these classes if a command that must start fast loads the modules. Values are created with keyword
arguments, and are equal if their members are equal. The functions ``replace``, ``fields`` and ``asdict`` of
``dataclasses`` also accept these values. A value class has no base class.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["dataclass", "field", "fields", "replace"]

_REQUIRED = object()


class _MadeAnew:
    __slots__ = ("factory",)

    def __init__(self, factory: Callable[[], Any]) -> None:
        self.factory = factory


class ValueMember:
    __slots__ = ("default", "name", "type")

    def __init__(self, name: str, type_: str, default: Any) -> None:
        self.name = name
        self.type = type_
        self.default = default


def field(*, default_factory: Callable[[], Any]) -> Any:
    return _MadeAnew(default_factory)


def dataclass(*, frozen: bool, kw_only: bool, slots: bool = False) -> Callable[[type], type]:
    """Return a decorator that makes a class a value class."""
    if not (frozen and kw_only):
        raise ValueError("a value class needs frozen=True and kw_only=True")
    return _with_slots if slots else _completed


def fields(value: Any) -> tuple[ValueMember, ...]:
    """Return the members of a value or of a value class."""
    return value.__members__


def replace(value: Any, /, **changes: Any) -> Any:
    known = {each.name: getattr(value, each.name) for each in value.__members__}
    return type(value)(**(known | changes))


def _with_slots(cls: type) -> type:
    names = tuple(cls.__annotations__)
    taken = {*names, "__dict__", "__weakref__"}
    space = {name: value for name, value in vars(cls).items() if name not in taken}
    made = _completed(cls, type(cls)(cls.__name__, cls.__bases__, {**space, "__slots__": names}))
    made.__qualname__ = cls.__qualname__
    return made


def _completed(cls: type, made: Any = None) -> Any:
    """Return ``made`` with the members of ``cls`` and the methods of a value class."""
    made = made or cls
    members = tuple(ValueMember(name, of, vars(cls).get(name, _REQUIRED)) for name, of in cls.__annotations__.items())
    names = [each.name for each in members]

    def key(self: Any) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in names)

    def equal(self: Any, other: object) -> Any:
        return key(self) == key(other) if type(other) is type(self) else NotImplemented

    def reduced(self: Any) -> Any:
        return _again, (type(self), {each.name: getattr(self, each.name) for each in members})

    given: dict[str, Any] = {
        "__members__": members,
        "__init__": _init(made, members),
        "__eq__": equal,
        "__hash__": lambda self: hash(key(self)),
        "__repr__": _shown,
        "__setattr__": _refused,
        "__delattr__": _refused,
        "__reduce__": reduced,
        "__dataclass_fields__": _Twin(),
    }
    for name, what in given.items():
        setattr(made, name, what)
    return made


def _init(made: type, members: tuple[ValueMember, ...]) -> Any:
    defaults = {each.name: each.default for each in members if each.default is not _REQUIRED}
    factories = {name: each.factory for name, each in defaults.items() if isinstance(each, _MadeAnew)}
    setters = [(each.name, vars(made)[each.name].__set__) for each in members] if "__slots__" in vars(made) else ()
    names, count = {each.name for each in members}, len(members)

    # a closure: compiling source text takes longer
    def init(self: Any, **given: Any) -> None:
        known = {**defaults, **given}
        if len(known) != count or known.keys() != names:
            wrong = sorted(known.keys() ^ names)
            raise TypeError(f"{made.__name__}() has missing or unknown members: {', '.join(wrong)}")
        for name, factory in factories.items():
            if name not in given:
                known[name] = factory()
        if setters:
            for name, put in setters:
                put(self, known[name])
        else:
            self.__dict__.update(known)

    return init


def _shown(self: Any) -> str:
    told = (f"{each.name}={getattr(self, each.name)!r}" for each in self.__members__)
    return f"{type(self).__qualname__}({', '.join(told)})"


def _refused(self: Any, name: str, *_: object) -> None:
    raise AttributeError(f"{type(self).__name__} is a value object: its attribute {name!r} cannot be changed")


def _again(cls: type, members: dict[str, Any]) -> Any:
    return cls(**members)


class _Twin:
    """Descriptor for ``__dataclass_fields__``, which the module ``dataclasses`` reads."""

    def __get__(self, _instance: object, owner: type) -> Any:
        import dataclasses

        listed: list[Any] = []
        for each in owner.__members__:  # type: ignore[attr-defined]
            if isinstance(each.default, _MadeAnew):
                listed.append((each.name, each.type, dataclasses.field(default_factory=each.default.factory)))
            elif each.default is _REQUIRED:
                listed.append((each.name, each.type))
            else:
                listed.append((each.name, each.type, dataclasses.field(default=each.default)))
        twin = dataclasses.make_dataclass(owner.__name__, listed, kw_only=True)
        found = vars(twin)["__dataclass_fields__"]
        owner.__dataclass_fields__ = found  # type: ignore[attr-defined]
        return found
