"""Frozen values without ``dataclasses``: made, compared, changed and listed in the same way."""

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from agent_harness.session import values


@values.dataclass(frozen=True, kw_only=True, slots=True)
class Slotted:
    """Words."""

    name: str
    count: int = 0
    more: Mapping[str, int] = values.field(default_factory=dict)

    @property
    def shown(self) -> str:
        return f"{self.name} {self.count}"


@values.dataclass(frozen=True, kw_only=True)
class Plain:
    name: str
    parts: tuple[str, ...] = ()


KINDS: list[tuple[type, dict[str, Any]]] = [
    (Slotted, {"name": "a", "count": 3}),
    (Plain, {"name": "a", "parts": ("x",)}),
]


@pytest.mark.parametrize(("kind", "given"), KINDS)
def test_they_are_as_those_of_dataclasses(kind: type, given: dict[str, Any]) -> None:
    one, other = kind(**given), kind(**given)
    assert (one == other, one is other, one != kind(name="b"), one == "a") == (True, False, True, False)
    assert [each.name for each in values.fields(one)] == [each.name for each in dataclasses.fields(one)]
    for replace in (values.replace, dataclasses.replace):
        changed = replace(one, name="c")
        assert (changed.name, one.name, type(changed)) == ("c", "a", kind)
    assert {"name": "a", **given}.items() <= dataclasses.asdict(one).items()
    assert copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one
    assert repr(one).startswith(f"{kind.__qualname__}(name='a'")
    for act in (lambda: setattr(one, "name", "z"), lambda: delattr(one, "name")):
        with pytest.raises(AttributeError, match="cannot be changed"):
            act()
    with pytest.raises(TypeError, match="name"):
        kind()
    with pytest.raises(TypeError, match="nonsense"):
        kind(name="a", nonsense=1)


def test_defaults_are_made_anew_and_slots_are_slots() -> None:
    one, other = Slotted(name="a"), Slotted(name="a")  # type: ignore[call-arg]
    assert one.more is not other.more
    assert one.shown == "a 0"
    assert Slotted.__doc__ == "Words."
    assert not hasattr(one, "__dict__")
    assert hash(Plain(name="a")) == hash(Plain(name="a"))  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="frozen"):
        values.dataclass(frozen=False, kw_only=True)


def test_what_tells_of_a_project_loads_no_dataclasses() -> None:
    """F-STORY-4: ``dataclasses`` loads fifteen modules that are not used here."""
    code = "import sys, agent_harness.views.costs, agent_harness.protocols.tasklist.reader; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"dataclasses", "inspect", "typing"} & {*loaded}
