"""All views agree on state, cost, verdict and next step of every item. F-REC-7."""

import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_harness.cli import main
from agent_harness.testing import CommandResult, run_in_process
from agent_harness.testing.feature_list_project import FeatureListProject, module_work
from agent_harness.testing.long_task_project import LongTaskProject, book, book_checkpoint
from agent_harness.testing.repo import Repo
from agent_harness.testing.task_list_project import TaskListProject, task

from .terminal import until
from .truth import Views

Seen = tuple[Views, dict[str, str]]
"""What every view says, and the state that each item must have."""
Situation = Callable[[Path], AbstractContextManager[Seen]]
"""Comes to it in a folder, by real runs of scripted agents."""

# ---- a task list

USES = 'echo \'{"type": "usage", "input_tokens": 5, "output_tokens": 5, "cost_usd": 0.25}\''
WORKS = f"{USES}; touch $HARNESS_TASK_ID"
LIES = f'{USES}; echo "All tests pass"'


class Listed(TaskListProject):
    """Two tasks, each proven by a file of its name, of which the second waits for the first."""

    @classmethod
    def at(cls, root: Path, **first: Any) -> "Listed":
        rows = [task(name, validation={"command": f"test -f {name}"}) for name in ("a", "b")]
        made = cls(root / "list", rows[0] | first, rows[1] | {"depends_on": ["a"]}, git=True)
        made.repo.ignore("begun", "go").commit("Ignore")
        return made

    @property
    def waiting(self) -> str:
        """Agent that has begun, and continues when it may."""
        here = shlex.quote(str(self.root.parent))  # an agent in a workspace changes nothing of the project
        wait = f"touch {here}/begun; while [ ! -e {here}/go ]; do sleep 0.05; done"
        return self.agent(f"{USES}; {wait}; touch $HARNESS_TASK_ID")

    @contextmanager
    def at_work(self, *words: str) -> "Iterator[subprocess.Popen[str]]":
        """Start a run whose agent runs until the block ends."""
        with self.start("run", "--agent", self.waiting, *words) as run:
            until(lambda: (self.root.parent / "begun").exists() or run.poll() is not None)
            yield run
            (self.root.parent / "go").touch()

    def ran(self, agent: str, *words: str) -> CommandResult:
        return self.harness("run", "--agent", self.agent(agent), *words)

    def views(self) -> Views:
        return Views(self.root, self.harness)


@contextmanager
def list_fresh(root: Path) -> Iterator[Seen]:
    yield Listed.at(root).views(), {"a": "open", "b": "open"}


@contextmanager
def list_proven(root: Path) -> Iterator[Seen]:
    listed = Listed.at(root)
    listed.ran(WORKS)
    yield listed.views(), {"a": "proven", "b": "proven"}


@contextmanager
def list_caught(root: Path) -> Iterator[Seen]:
    listed = Listed.at(root)
    listed.ran(LIES, "--max-tasks", "1")
    yield listed.views(), {"a": "failed", "b": "open"}


@contextmanager
def list_given_up(root: Path) -> Iterator[Seen]:
    listed = Listed.at(root, max_attempts=1)
    listed.ran(LIES)
    yield listed.views(), {"a": "failed", "b": "blocked"}


@contextmanager
def list_halted(root: Path) -> Iterator[Seen]:
    listed = Listed.at(root, validation={"command": None})
    listed.ran(WORKS)
    yield listed.views(), {"a": "open", "b": "open"}


@contextmanager
def list_paused(root: Path) -> Iterator[Seen]:
    listed = Listed.at(root)
    listed.harness("pause")
    yield listed.views(), {"a": "open", "b": "open"}


@contextmanager
def list_set_failed(root: Path) -> Iterator[Seen]:
    listed = Listed.at(root)
    assert listed.harness("task", "set", "a", "status=failed").code == 0
    yield listed.views(), {"a": "failed", "b": "open"}


@contextmanager
def list_set_completed(root: Path) -> Iterator[Seen]:
    listed = Listed.at(root)
    assert listed.harness("add", "c", "--validate", "true").code == 0  # from now on it is known what is proven
    listed.edit("a", status="completed")
    yield listed.views(), {"a": "unproven", "b": "open", "task-001": "open"}


@contextmanager
def list_undone(root: Path) -> Iterator[Seen]:
    listed = Listed.at(root)
    listed.ran(WORKS, "--max-tasks", "1")
    assert listed.harness("undo", "a", "--yes").code == 0
    yield listed.views(), {"a": "open", "b": "open"}


@contextmanager
def list_at_work(root: Path, *words: str) -> Iterator[Seen]:
    listed = Listed.at(root)
    with listed.at_work(*words):
        yield listed.views(), {"a": "working", "b": "open"}


@contextmanager
def list_killed(root: Path, *words: str) -> Iterator[Seen]:
    listed = Listed.at(root)
    with listed.at_work(*words) as run:
        run.kill()
        run.wait()
        yield listed.views(), {"a": "working", "b": "open"}


@contextmanager
def list_of_workers(root: Path) -> Iterator[Seen]:
    listed = Listed.at(root)
    listed.ran(WORKS, "--workers", "2")
    yield listed.views(), {"a": "proven", "b": "proven"}


def list_of_workers_at_work(root: Path) -> AbstractContextManager[Seen]:
    return list_at_work(root, "--workers", "2")


def list_of_workers_killed(root: Path) -> AbstractContextManager[Seen]:
    return list_killed(root, "--workers", "2")


# ---- a feature project

PAID = {"usage": {"input_tokens": 5, "output_tokens": 5, "cost_usd": 0.25}}


class Shop(FeatureListProject):
    """Two features, of which the second waits for the first."""

    @classmethod
    def at(cls, root: Path, settings: str = "") -> "Shop":
        return cls.of_modules(root / "shop", "ham", "egg", settings=settings, members={"egg": {"depends_on": [1]}})

    def told(self, *words: str) -> CommandResult:
        return run_in_process(main.main, "harness", *words, cwd=self.root)

    def views(self) -> Views:
        return Views(self.root, self.told)


def works(number: int, name: str) -> dict[str, Any]:
    return {"when": {"feature": number}, "do": [PAID, *module_work(number, name)]}


BOTH = [works(1, "ham"), works(2, "egg")]
LIE = [{"do": [PAID, {"say": "All tests pass"}, {"claim": [1]}]}]


@contextmanager
def shop_fresh(root: Path) -> Iterator[Seen]:
    yield Shop.at(root).views(), {"1": "open", "2": "open"}


@contextmanager
def shop_proven(root: Path) -> Iterator[Seen]:
    shop = Shop.at(root)
    for each in BOTH:
        shop.run([each])
    yield shop.views(), {"1": "proven", "2": "proven"}


@contextmanager
def shop_caught(root: Path) -> Iterator[Seen]:
    shop = Shop.at(root)
    shop.run(LIE)
    yield shop.views(), {"1": "needs you", "2": "open"}


@contextmanager
def shop_paused(root: Path) -> Iterator[Seen]:
    shop = Shop.at(root)
    shop.told("pause")
    yield shop.views(), {"1": "open", "2": "open"}


@contextmanager
def shop_in_hands(root: Path) -> Iterator[Seen]:
    shop = Shop.at(root)
    shop.told("handoff")
    yield shop.views(), {"1": "open", "2": "open"}


@contextmanager
def shop_skipped(root: Path) -> Iterator[Seen]:
    shop = Shop.at(root)
    shop.told("skip", "--feature", "1", "--reason", "later")
    yield shop.views(), {"1": "skipped", "2": "open"}


@contextmanager
def shop_overruled(root: Path) -> Iterator[Seen]:
    shop = Shop.at(root)
    shop.run(LIE)
    ran = shop.told("override", "--feature", "1", "--passes", "true", "--yes")
    assert ran.code == 0, ran
    yield shop.views(), {"1": "proven", "2": "open"}


@contextmanager
def shop_undone(root: Path) -> Iterator[Seen]:
    shop = Shop.at(root)
    shop.run(BOTH[:1])
    assert shop.told("undo", "1", "--yes").code == 0
    yield shop.views(), {"1": "open", "2": "open"}


def waiting(shop: Shop) -> list[dict[str, Any]]:
    wait = f"touch {shop.base}/begun; while [ ! -e {shop.base}/go ]; do sleep 0.05; done"
    return [{"when": {"feature": 1}, "do": [PAID, {"run": wait}, *module_work(1, "ham")]}]


@contextmanager
def shop_at_work(root: Path, *words: str) -> Iterator[Seen]:
    shop = Shop.at(root)
    run = shop.start("run", *words, agent=waiting(shop))
    try:
        shop.wait_until((shop.base / "begun").exists, "begun")
        yield shop.views(), {"1": "working", "2": "open"}
    finally:
        (shop.base / "go").touch()
        run.wait()


@contextmanager
def shop_killed(root: Path, *words: str) -> Iterator[Seen]:
    shop = Shop.at(root)
    run = shop.start("run", *words, agent=waiting(shop))
    shop.wait_until((shop.base / "begun").exists, "begun")
    run.kill()
    run.wait()
    (shop.base / "go").touch()
    yield shop.views(), {"1": "working", "2": "open"}


@contextmanager
def shop_of_workers(root: Path) -> Iterator[Seen]:
    shop = Shop.at(root)
    shop.harness("run", "--workers", "2", agent=BOTH)
    yield shop.views(), {"1": "proven", "2": "proven"}


def shop_of_workers_at_work(root: Path) -> AbstractContextManager[Seen]:
    return shop_at_work(root, "--workers", "2")


def shop_of_workers_killed(root: Path) -> AbstractContextManager[Seen]:
    return shop_killed(root, "--workers", "2")


# ---- a long task

BUILT = {"id": "built", "description": "It is built.", "metric": "command", "target": "cat artifacts/built"}
SAYS_DONE = (
    f"{shlex.quote(sys.executable)} -c \"import json; p = 'checkpoint.json'; d = json.load(open(p)); "
    "d['status'] = 'done'; json.dump(d, open(p, 'w'))\""
)


class Book(LongTaskProject):
    """A task that a command proves."""

    @classmethod
    def at(cls, root: Path) -> "Book":
        made = cls.of_book(root / "book")
        made.task = book(successCriteria=[BUILT], context={"repoPath": "."})
        Repo(made.root, user_settings=True).stage("task.json").commit("Begin", stage=False)
        return made

    def works(self, command: str) -> None:
        self.run(f"cd {shlex.quote(str(self.root))}; {command}", code=None)

    def told(self, *words: str) -> CommandResult:
        return run_in_process(main.main, "harness", *words, cwd=self.root)

    def views(self) -> Views:
        return Views(self.root, self.told, self.lth)


@contextmanager
def book_fresh(root: Path) -> Iterator[Seen]:
    yield Book.at(root).views(), {"book": "open"}


@contextmanager
def book_proven(root: Path) -> Iterator[Seen]:
    made = Book.at(root)
    made.works(f"echo bricks > artifacts/built; {SAYS_DONE}")
    yield made.views(), {"book": "proven"}


@contextmanager
def book_caught(root: Path) -> Iterator[Seen]:
    made = Book.at(root)
    made.works(SAYS_DONE)
    yield made.views(), {"book": "open"}


@contextmanager
def book_asks(root: Path) -> Iterator[Seen]:
    made = Book.at(root)
    made.checkpoint = book_checkpoint(status="needs-human", nextStep="Which title?")
    yield made.views(), {"book": "needs you"}


@contextmanager
def book_killed(root: Path) -> Iterator[Seen]:
    made = Book.at(root)
    folder = shlex.quote(str(made.root))
    wait = f"cd {folder}; touch begun; while [ ! -e go ]; do sleep 0.05; done"
    run = made.start("run", "--worker", "local-command", "--command", wait)
    until((made.root / "begun").exists)
    run.kill()
    run.communicate()
    (made.root / "go").touch()
    yield made.views(), {"book": "working"}


SITUATIONS: tuple[Situation, ...] = (
    list_fresh,
    list_caught,
    list_set_failed,
    shop_fresh,
    book_fresh,
    book_asks,
)
LONGER: tuple[Situation, ...] = (
    list_proven,
    list_given_up,
    list_halted,
    list_paused,
    list_set_completed,
    list_undone,
    list_at_work,
    list_killed,
    list_of_workers,
    list_of_workers_at_work,
    list_of_workers_killed,
    shop_proven,
    shop_caught,
    shop_paused,
    shop_in_hands,
    shop_skipped,
    shop_overruled,
    shop_undone,
    shop_at_work,
    shop_killed,
    shop_of_workers,
    shop_of_workers_at_work,
    shop_of_workers_killed,
    book_proven,
    book_caught,
    book_killed,
)


def judged(tmp_path: Path, situation: Situation) -> None:
    with situation(tmp_path) as (views, expected):
        found = views.contradictions()
        assert found == [], "\n" + "\n".join(found)
        assert views.states()["why"] == expected


def named(situation: Situation) -> str:
    return getattr(situation, "__name__", "?")


@pytest.mark.parametrize("situation", SITUATIONS, ids=named)
def test_every_face_says_the_same(tmp_path: Path, situation: Situation) -> None:
    """F-REC-8."""
    judged(tmp_path, situation)


@pytest.mark.kept(
    "list_given_up",
    "list_halted",
    "list_killed",
    "list_of_workers_at_work",
    "shop_paused",
    "shop_overruled",
    "book_killed",
)
@pytest.mark.scenario
@pytest.mark.parametrize("situation", LONGER, ids=named)
def test_every_face_says_the_same_after_a_run(tmp_path: Path, situation: Situation) -> None:
    """F-REC-8: during a run, after it was killed, and after a person's decision."""
    judged(tmp_path, situation)


def test_what_a_person_has_set_to_failed_is_failed_and_tried_again(tmp_path: Path) -> None:
    """F-REC-8: the state is shown as the person set it, with the next step."""
    with list_set_failed(tmp_path) as (views, _):
        told = views.why["a"]
        assert (told["state"], told["next"]) == ("failed", "harness run")
        assert "the next run retries it" in told["reason"]
        assert views.costs["left"] == 2
