"""What every engine has to do, as checks that its author's own tests run.

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_engine(check, tmp_path):
        check(MyEngineUnderTest(tmp_path))

An ``EngineUnderTest`` makes engines on one project and brings about what goes wrong around them; a check that needs a
failure which the engine does not know (``NotImplementedError``) is skipped by its caller. Source: ``scale.md`` 11.
"""

import json
import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import psutil

from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel.engine import UNKNOWN, Engine
from agent_harness.parallel.items import ATTEMPT, RESULT, WorkOrder
from agent_harness.parallel.ledger import project_id

__all__ = ["CHECKS", "EngineUnderTest", "check_engine"]

EXECUTOR = "agent_harness.testing.engine_hands:carry_out"
PATIENCE_SECONDS = 120.0
WORKSPACES = 8
"""In which many orders are carried out, one after the other in each."""


class EngineUnderTest(Protocol):
    """One kind of engine, with what surrounds it."""

    folder: Path
    """Where checks may write; its ``project`` is a repository with one commit."""

    def engine(self) -> Engine:
        """A new engine on the same surroundings, as another process of the home side would make it."""
        ...

    def kill_worker(self) -> None:
        """Kills whatever carries orders out, and lets others be there."""
        ...

    def many(self) -> int:
        """How many empty orders are a lot."""
        ...


class _Bench:
    """One engine that is open, and its orders."""

    def __init__(self, under: EngineUnderTest, engine: Engine) -> None:
        self.folder = under.folder
        self.engine = engine
        self.ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.git = Git(under.folder / "project")
        self.begun = under.folder / "begun"
        engine.open(self.ended)

    def order(self, name: str, fence: int = 1, *, workspace: str | None = None, **papers: object) -> WorkOrder:
        return WorkOrder(
            id=f"run/{name}/{fence}",
            kind=ATTEMPT,
            item=name,
            name=name,
            fence=fence,
            project=project_id(str(self.folder / "parallel")),
            workspace=str(self.folder / "parallel/places" / (workspace or f"w{abs(hash(name)) % 10_000}")),
            home=str(self.git.top()),
            base=str(self.git.head()),
            branch="refs/heads/main",
            executor=EXECUTOR,
            own=(),
            set_up={"sandbox": None, "command": None, "key": [], "minutes": 1.0, "teardown": None},
            papers={"append": str(self.begun), "file": f"{name}.txt", "content": name, **papers},
        )

    def at(self, order: WorkOrder) -> str:
        return str(self.folder / "parallel/orders" / order.id.replace("/", "."))

    def submit(self, *orders: WorkOrder) -> None:
        (self.folder / "parallel" / "places").mkdir(parents=True, exist_ok=True)
        for order in orders:
            self.engine.submit(order, self.at(order), {})

    def wait(self, *orders: WorkOrder) -> list[JsonObject]:
        """The results of these, each of which is reported once; an empty one for an order that is lost."""
        left = {order.id for order in orders}
        until = time.monotonic() + PATIENCE_SECONDS + len(orders)
        while left and time.monotonic() < until:
            try:
                left.remove(self.ended.get(timeout=1.0))
            except queue.Empty:
                continue
        assert not left, f"never reported: {sorted(left)[:5]}"
        return [self.result(order) for order in orders]

    def result(self, order: WorkOrder) -> JsonObject:
        path = Path(self.at(order), RESULT)
        return json.loads(path.read_text()) if path.exists() else {}

    def begun_times(self, order: WorkOrder) -> int:
        return self.begun.read_text().splitlines().count(order.id) if self.begun.exists() else 0

    def until_begun(self, *orders: WorkOrder) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while not all(map(self.begun_times, orders)):
            assert time.monotonic() < until, "it never began"
            time.sleep(0.05)


@contextmanager
def _open(under: EngineUnderTest) -> Iterator[_Bench]:
    engine = under.engine()
    try:
        bench = _Bench(under, engine)
        assert bench.engine.known([]) == {}
        yield bench
    finally:
        engine.close()


def e1_submitted_twice_is_carried_out_once(under: EngineUnderTest) -> None:
    """E1: one run, one report; the candidate is a commit of the project on the order's base."""
    with _open(under) as bench:
        order = bench.order("one", seconds=1.0)
        bench.submit(order, order)
        (result,) = bench.wait(order)
        assert (result["status"], result["id"], result["fence"]) == ("accepted", order.id, 1), result
        assert bench.begun_times(order) == 1
        assert bench.git.show(str(result["commit"]), "one.txt") == b"one"
        assert bench.git.commit_of(order.refs.candidate("one", 1)) == result["commit"]
        assert bench.ended.empty()


def e2_a_home_that_begins_anew_finds_its_order(under: EngineUnderTest) -> None:
    """E2: what was submitted by an engine that is gone is either known and reported, or unknown and to be lost."""
    with _open(under) as bench:
        order = bench.order("two", seconds=3.0)
        bench.submit(order)
        bench.until_begun(order)
        if bench.engine.is_local:
            bench.wait(order)
    with _open(under) as bench:
        if bench.engine.known([order]) == {order.id: UNKNOWN}:
            assert bench.engine.is_local, "orders elsewhere go on without their home"
            assert bench.result(order)["status"] == "accepted"
            return
        bench.submit(order)
        (result,) = bench.wait(order)
        assert result["status"] == "accepted"
        assert bench.begun_times(order) == 1


def e3_a_killed_worker_is_noticed(under: EngineUnderTest) -> None:
    """E3: the order is begun by others, or reported without a result; never twice at once."""
    with _open(under) as bench:
        order = bench.order("three", seconds=4.0)
        bench.submit(order)
        bench.until_begun(order)
        under.kill_worker()
        (result,) = bench.wait(order)
        assert result == {} if bench.engine.is_local else result["status"] == "accepted", result
        assert bench.begun_times(order) == (1 if bench.engine.is_local else 2)


def e5_a_recalled_order_ends_and_reports(under: EngineUnderTest) -> None:
    """E5: long before it would have; what it has written is in the project's rescues, or nothing of it was."""
    with _open(under) as bench:
        order = bench.order("five", seconds=600.0)
        bench.submit(order)
        bench.until_begun(order)
        bench.engine.recall(order.id, "a person wants it")
        (result,) = bench.wait(order)
        assert result.get("status") != "accepted"


def e9_many_empty_orders_end_once_each(under: EngineUnderTest) -> None:
    """E9: all are reported, each once, and have a result."""
    with _open(under) as bench:
        orders = [bench.order(f"n{n}", workspace=f"w{n % WORKSPACES}") for n in range(under.many())]
        for at in range(0, len(orders), WORKSPACES):
            some = orders[at : at + WORKSPACES]
            bench.submit(*some)
            assert [each.get("status") for each in bench.wait(*some)] == ["accepted"] * len(some)
        assert bench.ended.empty()
        assert sorted(bench.begun.read_text().split()) == sorted(order.id for order in orders)


def e11_long_logs_come_home(under: EngineUnderTest) -> None:
    """E11: 20 MB of them."""
    with _open(under) as bench:
        order = bench.order("eleven", log_bytes=20 << 20)
        bench.submit(order)
        (result,) = bench.wait(order)
        log = Path(str(result["logs"]), "long.txt")
        assert log.is_relative_to(bench.at(order))
        assert log.stat().st_size == 20 << 20


def e14_closing_leaves_no_process(under: EngineUnderTest) -> None:
    """E14: the home side has as many children as before."""
    before = {each.pid for each in psutil.Process().children(recursive=True)}
    with _open(under) as bench:
        order = bench.order("fourteen")
        bench.submit(order)
        bench.wait(order)
    until = time.monotonic() + 10.0
    while extra := {each.pid for each in psutil.Process().children(recursive=True)} - before:
        assert time.monotonic() < until, extra
        time.sleep(0.1)


CHECKS: tuple[Callable[[EngineUnderTest], None], ...] = (
    e1_submitted_twice_is_carried_out_once,
    e2_a_home_that_begins_anew_finds_its_order,
    e3_a_killed_worker_is_noticed,
    e5_a_recalled_order_ends_and_reports,
    e9_many_empty_orders_end_once_each,
    e11_long_logs_come_home,
    e14_closing_leaves_no_process,
)
"""Each takes what it needs of the engine under test; the failures of a server are tests of that engine."""


def check_engine(make: Callable[[], EngineUnderTest]) -> None:
    """All checks, one after the other, each on surroundings of its own. ``AssertionError`` names what does not hold."""
    for check in CHECKS:
        check(make())
