"""Requests of people to a parallel run: their effects, as values, and the files that carry them."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from agent_harness.errors import Busy, UsageError
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel import decision, plan, requests
from agent_harness.parallel.items import ACCEPTED, PARTIAL, OpenItem
from agent_harness.parallel.plan import RunPlan
from agent_harness.parallel.requests import Mailbox

from .simulated import Simulated, World
from .test_plan import batched, begun, ended, ordered, ready

VERBS = (requests.SCALE, requests.RECALL, *requests.OF_QUEUE)


class Asked(Simulated):
    """Run that gets requests between its steps; held items are released in the end."""

    def end_first(self) -> None:
        verb = self.choose.choice(VERBS)
        args = {"item": self.choose.choice(["w1", "i1", "i2", "i5"]), "workers": self.choose.randint(1, 4)}
        self.ask(verb, args)
        super().end_first()

    def ask(self, verb: str, args: JsonObject) -> None:
        try:
            kind, members = requests.granted(self.plan, verb, args)
        except (UsageError, Busy):
            return
        self.note(kind, **members)

    def run(self) -> "Simulated":
        super().run()
        while self.plan.held:
            self.ask(requests.RELEASE, {"item": next(iter(self.plan.held))})
            super().run()
        return self


@given(seed=some.integers(0, 10_000), data=some.data())
def test_whatever_is_asked_folding_stays_the_same_and_everything_lands_once(seed: int, data: some.DataObject) -> None:
    """SC-5."""
    done = Asked(World(size=8, workers=3, seed=seed, deaths=0.05)).run()
    assert sorted(done.landed) == sorted({f"i{n}" for n in range(8)})
    at = data.draw(some.integers(0, len(done.events)))
    part = plan.fold(done.events[:at])
    for event in done.events[at:]:
        part.apply(event)
    assert part == plan.fold(done.events) == done.plan


def asked(found: RunPlan, verb: str, **args: object) -> JsonObject:
    kind, members = requests.granted(found, verb, args)
    event = {"type": kind, **members}
    found.apply(event)
    return event


def combined(found: RunPlan) -> tuple[str, ...]:
    """Return the batch that would be combined now."""
    steps = decision.decide(found, decision.Facts(items=[], slots=0, checking=False, may_begin=True))
    return steps[0].items if steps and isinstance(steps[0], decision.CombineCandidates) else ()


def test_what_is_held_does_not_land_until_it_is_released_also_in_the_next_run() -> None:
    found = ready("a", "b")
    assert "harness queue release a" in requests.told(asked(found, "hold", item="a"))
    assert combined(found) == ("b",)
    after = RunPlan()
    known = {"run": "s", "branch": "main", "head": "h", "workers": 1, "batch_max": 8, "mends": 2}
    after.apply({"type": "run", **known, "carried": found.carried()})
    assert combined(after) == ("b",)
    asked(after, "release", item="a")
    assert combined(after) == ("a", "b")
    working = ordered(begun())
    asked(working, "hold", item="a")
    assert combined(ended(working, ACCEPTED)) == ()


def test_what_is_first_lands_first_and_what_is_dropped_is_open() -> None:
    found = ready("a", "b", "c")
    asked(found, "first", item="#c")
    assert combined(found) == ("c", "a", "b")
    event = asked(found, "drop", item="a")
    assert (event["commit"], found.work("a").state, found.queue) == ("c-a", plan.OPEN, ["c", "b"])


def test_what_is_to_land_first_does_so_in_the_next_run_too() -> None:
    """The run is over, and a person reorders the rest of its merge queue."""
    found = ready("a", "b", "c")
    asked(found, "first", item="c")
    after = RunPlan()
    known = {"run": "s", "branch": "main", "head": "h", "workers": 1, "batch_max": 8, "mends": 2}
    after.apply({"type": "run", **known, "carried": found.carried()})
    assert combined(after) == ("c", "a", "b")


def test_a_recalled_attempt_is_not_counted_one_that_was_accepted_is() -> None:
    found = ordered(begun())
    asked(found, "recall", item="w1")
    assert ended(found, PARTIAL).attempts == 0
    found = ordered(begun())
    asked(found, "recall", item="a")
    assert ended(found, ACCEPTED).attempts == 1


def test_the_number_of_workers_outlives_a_coordinator_until_the_command_says_another() -> None:
    found = begun(workers=2)
    asked(found, "scale", workers=5)
    run = {"type": "run", "run": "r", "branch": "main", "head": "h", "batch_max": 8, "mends": 2}
    found.apply({**run, "workers": 2})
    assert found.workers == 5
    found.apply({**run, "workers": 3})
    assert found.workers == 3


def test_slots_beyond_the_number_are_not_missed() -> None:
    found = begun(workers=2)
    found.apply({"type": "slot_shut", "slot": "w2", "tail": "no"})
    asked(found, "scale", workers=1)
    assert found.shut_slots == []
    facts = decision.Facts(items=[OpenItem(id="a", name="a")], slots=1, checking=False, may_begin=True)
    assert [type(each) for each in decision.decide(found, facts)] == [decision.StartAttempt]


@pytest.mark.parametrize(
    ("verb", "args", "says"),
    [
        ("scale", {"workers": 0}, "between 1 and 256"),
        ("scale", {"workers": "many"}, "between 1 and 256"),
        ("recall", {"item": "w7"}, r"nothing named w7 is running; known: w1 \(abc\)\."),
        ("recall", {"item": "abd"}, "Did you mean 'abc'"),
        ("hold", {"item": "x"}, "nothing named x waits to be merged; known: abc"),
        ("drop", {"item": "abc"}, "nothing waits to be merged"),
        ("release", {"item": "abc"}, "nothing is held"),
        ("paint", {}, "Unknown request to a parallel run: paint"),
    ],
)
def test_what_cannot_be_names_what_can(verb: str, args: JsonObject, says: str) -> None:
    with pytest.raises(UsageError, match=says) as error:
        requests.granted(ordered(begun(), "abc"), verb, args)
    assert str(error.value.hint).startswith("harness ")


@pytest.mark.parametrize("verb", ["hold", "drop", "first"])
def test_what_is_being_verified_is_not_taken_away(verb: str) -> None:
    with pytest.raises(Busy, match="being verified"):
        requests.granted(batched(ready("a"), "a"), verb, {"item": "a"})


# ---- the mailbox -----------------------------------------------------------------------------------------------------


def test_a_request_is_taken_answered_and_gone(tmp_path: Path) -> None:
    box, said = Mailbox(str(tmp_path)), list[str]()
    assert list(box.taken(said.append)) == []
    request = box.post("scale", {"workers": 2})
    (found,) = box.taken(said.append)
    assert (found["id"], found["verb"], found["args"]) == (request, "scale", {"workers": 2})
    assert not box.withdraw(request)
    assert [each["id"] for each in box.taken(said.append)] == [request]  # a coordinator that died in between
    assert box.answered(request) is None
    box.answer(request, {"ok": True})
    assert box.answered(request) == {"id": request, "ok": True}
    assert os.listdir(tmp_path / "mailbox") == []
    assert said == []
    request = box.post("scale", {"workers": 2})
    assert box.withdraw(request)
    assert list(box.taken(said.append)) == []


def test_what_is_no_request_is_named_once_and_left_alone(tmp_path: Path) -> None:
    box, said = Mailbox(str(tmp_path)), list[str]()
    request = box.post("scale", {"workers": 2})
    folder = tmp_path / "mailbox"
    name = "{:024x}.json".format
    (folder / name(1)).symlink_to(folder / f"{request}.json")
    os.mkfifo(folder / name(2))
    (folder / name(3)).write_text("[" + "1," * 5_000_000)
    (folder / name(4)).write_text("no JSON")
    (folder / name(5)).write_text('{"id": "another", "verb": "scale", "args": {}}')
    (folder / "notes.txt").write_text("mine")
    assert [each["id"] for each in box.taken(said.append)] == [request]
    assert [each["id"] for each in box.taken(said.append)] == [request]
    assert sorted(os.path.basename(line.split()[0]) for line in said) == [*map(name, range(1, 6)), "notes.txt"]
    assert len(os.listdir(folder)) == 7


def test_a_request_of_somebody_who_died_is_forgotten(tmp_path: Path) -> None:
    box = Mailbox(str(tmp_path))
    if (pid := os.fork()) == 0:
        box.post("scale", {"workers": 2})
        os._exit(0)
    os.waitpid(pid, 0)
    assert len(os.listdir(tmp_path / "mailbox")) == 1
    assert list(box.taken(print)) == []
    assert os.listdir(tmp_path / "mailbox") == []
