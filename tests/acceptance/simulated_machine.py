"""A machine for the simulation: commands of the harness as forked processes, under a virtual clock, with faults.

    with Machine(folder) as machine:
        ran = machine.run("harness", "run", "--agent", "sim:SEED", cwd=project, fault={"kind": "kill", "point": 17})

As a program it is the server: it loads the harness once and forks a child for each command, which is a real process
with real files and a real SIGKILL. A *point* is a step that others can see: a file opened for writing, a rename, a
removal, a folder made, a program started; they are counted by an audit hook, in the child's own process, and before
each of them a fault may happen. Only what the harness stands on is replaced, and only in the child: the clock and
``sleep``, and ``os.write`` on a disk that is full.

    kill    SIGKILL before that point
    torn    the first write of bytes after that point ends in its middle, and SIGKILL with it
    full    the disk takes no byte from that point on, for so many ``writes``
    jump    the clock on the wall jumps by so many ``seconds`` at that point; the monotonic one does not

With ``awake`` the machine goes down, by SIGKILL, once the command has slept for so many seconds.
"""

import contextlib
import errno
import json
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, Self

WATCHED = frozenset(
    {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "subprocess.Popen"}
)
LAYOUT = struct.Struct("ddq")  # seconds that the wall and the monotonic clock are ahead, points so far
REAL_SLEEP = 0.25  # shorter waits are for other processes, and pass as they are
LIMIT_SECONDS = 120.0


class Clock:
    """The machine's clock, in memory that all its processes share."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, LAYOUT.size)
        self.awake = float("inf")  # seconds of sleep before the machine goes down
        self._time, self._monotonic, self._sleep = time.time, time.monotonic, time.sleep

    def _add(self, wall: float = 0.0, monotonic: float = 0.0, points: int = 0) -> None:
        found = LAYOUT.unpack_from(self._memory)
        LAYOUT.pack_into(self._memory, 0, found[0] + wall, found[1] + monotonic, found[2] + points)

    @property
    def points(self) -> int:
        return LAYOUT.unpack_from(self._memory)[2]

    def begin(self) -> None:
        self._add(points=-self.points)

    def point(self) -> int:
        self._add(points=1)
        return self.points

    def time(self) -> float:
        return self._time() + LAYOUT.unpack_from(self._memory)[0]

    def monotonic(self) -> float:
        return self._monotonic() + LAYOUT.unpack_from(self._memory)[1]

    def sleep(self, seconds: float) -> None:
        if seconds < REAL_SLEEP:
            self._sleep(seconds)
            return
        self._add(seconds, seconds)
        self.awake -= seconds
        if self.awake < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def jump(self, seconds: float) -> None:
        self._add(seconds)

    def take_over(self) -> None:
        """Stands in for the module ``time``."""
        time.time, time.monotonic = self.time, self.monotonic
        time.sleep = self.sleep  # type: ignore[assignment]
        time.time_ns = lambda: int(self.time() * 1e9)

    def install(self) -> None:
        """Makes the harness in this process live by this clock."""
        from agent_harness.kernel import clock
        from agent_harness.protocols.tasklist.store import TaskStore
        from agent_harness.supervision import dispatch

        clock.datetime = _Datetime(self)  # type: ignore[assignment,misc]  # whoever took `now` early asks it, too
        TaskStore.now = lambda store: store._now or clock.now()  # type: ignore[method-assign]
        dispatch.LOOK_SECONDS = 20.0


CLOCK = Clock()
if __name__ == "__main__":
    CLOCK.take_over()  # before the harness is loaded, which may keep functions of `time`

from agent_harness.agents import events  # noqa: E402
from agent_harness.agents.base import Agent, Brief, Turn  # noqa: E402
from agent_harness.errors import ToolMissing  # noqa: E402


@dataclass(frozen=True)
class Ran:
    """Result of a command; ``code`` is negative for a signal."""

    code: int
    out: str
    points: int
    now: float  # of the virtual clock on the wall, at its end
    seconds: float  # that it really took

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL

    @property
    def json(self) -> Any:
        return json.loads(self.out[self.out.index("{") :])


class Machine:
    """The server's client: one machine with one clock, on which commands run one after the other, or at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = time.time()
        self._count = 0

    def __enter__(self) -> Self:
        self._server = subprocess.Popen(
            [sys.executable, "-P", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.folder,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin and self._server.stdout
        self._server.stdin.close()
        self._server.wait(timeout=30)
        self._server.stdout.close()

    def run(
        self, *words: str, cwd: Path, fault: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
    ) -> Ran:
        """Runs one command to its end."""
        [ran] = self.at_once([words], cwd=cwd, fault=fault, environ=environ)
        return ran

    def at_once(
        self,
        commands: list[tuple[str, ...]],
        *,
        cwd: Path,
        fault: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> list[Ran]:
        """Runs commands side by side; the fault is the first one's."""
        self._count += 1
        outs = [self.folder / f"out-{self._count}-{number}" for number in range(len(commands))]
        asked = {
            "commands": [{"words": words, "out": str(out)} for words, out in zip(commands, outs, strict=True)],
            "cwd": str(cwd),
            "env": {**os.environ, **(environ or {})},
            "fault": dict(fault or {}),
        }
        assert self._server.stdin and self._server.stdout
        began = time.monotonic()
        print(json.dumps(asked), file=self._server.stdin, flush=True)
        told = json.loads(self._server.stdout.readline())
        self.now = told["now"]
        took = time.monotonic() - began
        ended = zip(told["codes"], outs, strict=True)
        return [Ran(code, out.read_text(errors="replace"), told["points"], self.now, took) for code, out in ended]

    def wait(self, seconds: float) -> None:
        """Nothing runs for so long."""
        assert self._server.stdin and self._server.stdout
        print(json.dumps({"wait": seconds}), file=self._server.stdin, flush=True)
        self.now = json.loads(self._server.stdout.readline())["now"]


# ---- the server ------------------------------------------------------------------------------------------------------


class _Datetime:
    """Part of the class ``datetime`` that ``kernel.clock`` uses."""

    def __init__(self, machine: Clock) -> None:
        self._machine = machine
        self.fromtimestamp, self.fromisoformat = datetime.fromtimestamp, datetime.fromisoformat

    def now(self, zone: tzinfo) -> datetime:
        return datetime.fromtimestamp(self._machine.time(), zone)


class Faults:
    """Faults in a child at its points."""

    def __init__(self, clock: Clock, fault: Mapping[str, Any]) -> None:
        self._clock = clock
        self._fault = fault
        self._write = os.write
        self._due = False
        self._left = int(fault.get("writes", 10**9))

    def install(self) -> None:
        self._clock.awake = self._fault.get("awake", self._clock.awake)
        sys.addaudithook(self._hear)
        if self._fault.get("kind") in ("torn", "full"):
            import _io

            os.write = self._written
            self._buffered = _io.BufferedWriter
            os.fdopen = self._opened(os.fdopen)

    def _opened(self, fdopen: Any) -> Any:
        """Files that are written through Python's buffer reach the same faults: without a buffer, by ``os.write``."""

        def opened(descriptor: int, mode: str = "r", *rest: Any, **words: Any) -> Any:
            found = fdopen(descriptor, mode, *rest, **words)
            return _Through(found) if mode == "wb" else found

        return opened

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            flags = args[2]
            if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return
        elif event not in WATCHED:
            return
        if os.getpid() != PID[0] or self._clock.point() != self._fault.get("point"):
            return
        kind = self._fault["kind"]
        if kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "jump":
            self._clock.jump(self._fault["seconds"])
        self._due = True

    def _written(self, descriptor: int, content: Any) -> int:
        if self._due and descriptor > 2 and len(content) > 1:
            if self._fault["kind"] == "torn":
                self._write(descriptor, bytes(content)[: len(content) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            if self._left > 0:
                self._left -= 1
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._write(descriptor, content)


class _Through:
    """A file without a buffer of its own."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, content: Any) -> int:
        left = memoryview(content).cast("B")
        while left:
            left = left[os.write(self._file.fileno(), left) :]
        return len(content)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


PID = [0]


def serve() -> None:
    """Answers requests until the end of the input."""
    load()
    for line in sys.stdin:
        asked = json.loads(line)
        told: dict[str, Any] = {}
        if "wait" in asked:
            CLOCK._add(asked["wait"], asked["wait"])
        else:
            CLOCK.begin()
            running = [start(asked, each, first=not number) for number, each in enumerate(asked["commands"])]
            told["codes"] = [ended(pid) for pid in running]
            told["points"] = CLOCK.points
        print(json.dumps({**told, "now": CLOCK.time()}), flush=True)


def load() -> None:
    """Loads what commands would load, once."""
    import importlib
    import pkgutil

    import agent_harness

    left_out = ("selftest", "demo", "plugin", "agents", "testing", "mcp_server")
    for found in pkgutil.walk_packages(agent_harness.__path__, "agent_harness."):
        if found.name.split(".")[1] not in left_out and not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    sys.modules["simulated_machine"] = sys.modules["__main__"]
    from agent_harness.agents import registry

    registry.KINDS["sim"] = "simulated_machine:SimAgent"  # type: ignore[index]


def start(asked: Mapping[str, Any], command: Mapping[str, Any], *, first: bool) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        PID[0] = os.getpid()
        os.setsid()
        out = os.open(command["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for wanted, descriptor in enumerate((nothing, out, out)):
            os.dup2(descriptor, wanted)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = sys.__stdout__ = os.fdopen(1, "w", buffering=1, closefd=False)  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, closefd=False)  # type: ignore[misc]
        os.environ.clear()
        os.environ.update(asked["env"])
        os.chdir(asked["cwd"])
        sys.argv = list(command["words"])
        CLOCK.install()
        if first:
            Faults(CLOCK, asked["fault"]).install()
        if sys.argv[0] == "lth":
            from agent_harness.cli.lth import main
        else:
            from agent_harness.cli.main import main
        code = main()
        sys.stdout.flush()
        os._exit(code or 0)
    except SystemExit as ended_by:
        sys.stdout.flush()
        os._exit(ended_by.code if isinstance(ended_by.code, int) else 1)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(99)


def ended(pid: int) -> int:
    """Waits for a child, and for what git does on behalf of it; a child that hangs is a failure of the simulation."""
    until = CLOCK._monotonic() + LIMIT_SECONDS
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            break
        if CLOCK._monotonic() > until:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return 98
        CLOCK._sleep(0.002)
    while CLOCK._monotonic() < until and _gits_of(pid):
        CLOCK._sleep(0.005)
    return os.waitstatus_to_exitcode(status)


def _gits_of(session: int) -> bool:
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):
                text = Path("/proc", name, "stat").read_text()
                word, _, rest = text.partition("(")[2].rpartition(")")
                if word.startswith("git") and rest.split()[3] == str(session) and rest.split()[0] != "Z":
                    return True
    return False


# ---- the agent -------------------------------------------------------------------------------------------------------


class SimAgent(Agent):
    """An agent in the harness's own process, of which each start goes as the seed in its SPEC says.

    ``sim:FOLDER:SEED:KIND*WEIGHT,...``; in the folder it keeps who was started when, and how that went.
    """

    name = "sim"

    def __init__(self, folder: Path, seed: int, weights: Mapping[str, int]) -> None:
        self.folder, self.seed, self.weights = folder, seed, weights

    @classmethod
    def from_words(cls, text: str) -> "SimAgent":
        folder, seed, told = text.split(":")
        return cls(Path(folder), int(seed), weights_in(told))

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any], root: Path | None) -> "SimAgent":
        return cls.from_words(str(settings["spec"]))

    def start(self, brief: Brief) -> Turn:
        path = self.folder / "starts"
        number = len(path.read_text().splitlines()) if path.exists() else 0
        chosen = random.Random(f"{self.seed}-{number}")
        [kind] = chosen.choices([*self.weights], [*self.weights.values()])
        seconds = {"limit": chosen.choice((60, 3600)), "window": 5 * 3600}.get(kind, 0)
        with path.open("a") as file:
            file.write(json.dumps({"item": brief.task_id, "kind": kind, "at": time.time(), "wait": seconds}) + "\n")
        if kind == "killer":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "gone":
            raise ToolMissing("the agent's program is gone", hint="install it")
        if kind in ("honest", "half"):
            (brief.cwd / f"work-{brief.task_id}.txt").write_text("done\n" if kind == "honest" else "half\n")
        return SimTurn(kind, seconds)


def weights_in(told: str) -> dict[str, int]:
    """Kinds of turns, and how often each is taken: ``honest*4,hang*1``."""
    return {kind: int(weight) for kind, weight in (each.split("*") for each in told.split(","))}


class SimTurn(Turn):
    """Turn of such a start, as the harness hears it."""

    def __init__(self, kind: str, seconds: int) -> None:
        self.kind = kind
        used = events.Usage(input_tokens=100, output_tokens=10, cost_usd=0.001)
        limited = events.RateLimited(message="usage limit", retry_after_seconds=seconds)
        rest: dict[str, list[events.Event]] = {
            "hang": [],
            "network": [events.Finished(ok=False, message="connect: Connection refused")],
            "error": [used, events.Finished(ok=False, message="it broke")],
        }
        refused: list[events.Event] = [limited, events.Finished(ok=False, message="usage limit")]
        left = refused if seconds else rest.get(kind, [used, events.Finished()])
        self._events: list[events.Event] = [events.Text("at work"), *left]

    def next_event(self, timeout_seconds: float) -> events.Event | None:
        if self._events:
            return self._events.pop(0)
        time.sleep(max(timeout_seconds, REAL_SLEEP))
        return None

    @property
    def ended(self) -> bool:
        return self.kind != "hang" and not self._events

    def stop(self, grace_seconds: float = 5.0) -> None:
        self.kind = "stopped"
        self._events.clear()


if __name__ == "__main__":
    serve()
