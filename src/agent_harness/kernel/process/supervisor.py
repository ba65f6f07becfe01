"""The supervisor: a tiny process between the harness and one command. No process of the command outlives the harness.

``python -S -E -I supervisor.py CONTROL STATUS REPORT`` starts it, with the numbers of three inherited descriptors. Its
standard streams are the command's. ``kernel/process/client.py`` is the other side.

CONTROL  first the launch order: its length (8 bytes, big endian), then fields separated by NUL: ``stay`` or nothing,
         folder, program, and three lists, each preceded by its length: arguments, sandbox terms, limits; the rest is
         the environment. Then lines, each with a number of seconds: send SIGTERM to the command now, SIGKILL after
         that time. End of file means that the harness has died: all processes are killed immediately.
STATUS   lines: ``started PID`` before the command runs; ``limit NAME SIZE FOUND`` if the command exceeded a limit;
         ``exited CODE`` (negative if killed by a signal); ``ended``.
REPORT   written by the new process itself: ``STEP ERRNO`` if it cannot become the command; otherwise just closed.

The command leads a separate session and dies with the supervisor (PDEATHSIG). The supervisor is a child subreaper:
orphans of the command, including daemons, become its children and are ended after the command. Only SIGKILL ends a
supervisor. Only modules that load fast are imported, because the start-up time delays every command."""

import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterable

    from agent_harness.kernel.process.resource_watch import ResourceWatch
else:
    try:  # `signal` loads `enum`, which takes longer than all the rest
        import _signal as signal
    except ImportError:  # another interpreter
        import signal

SETTLE_SECONDS = 0.1  # for remaining processes to end by themselves (a pipe's reader finishes its last lines)
REST_SECONDS = 0.3  # between TERM and KILL for those that still run
KILL_SECONDS = 5.0  # a process that survives KILL so long hangs in the kernel or belongs to another user
FIRST_LOOK_SECONDS = 0.05  # until the first check of resources; a shorter command costs nothing
_PDEATHSIG, _CHILD_SUBREAPER, _NO_NEW_PRIVS = 1, 36, 38  # prctl(2)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # of Landlock
_MOVES = 1 << 13  # from one folder to another: each layer of rules denies that unless it allows it in so many words
_ENDED_FIRST = 500  # of oom_score_adj: before all that does not take half of the machine
_SIGNALS = 1 << 1  # the scope of signals


def main(control: int, status: int, report: int) -> None:
    """Start the command that ``control`` describes. Return after every process of the command has exited."""
    for descriptor in (control, status, report):
        os.set_inheritable(descriptor, False)
    head = _read_exactly(control, 8)
    order = None if head is None else _read_exactly(control, int.from_bytes(head, "big"))
    if order is not None:  # else the harness died before the message was complete
        Keeper(control, status).keep(Order(order), report)


def _read_exactly(descriptor: int, length: int) -> bytes | None:
    parts = []
    while length:
        part = os.read(descriptor, min(length, 1 << 20))
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


class Order:
    """Launch message from the harness, with the command and its settings."""

    __slots__ = ("environment", "folder", "limits", "program", "stays", "terms", "words", "wrapped")

    def __init__(self, text: bytes) -> None:
        stays, self.folder, self.program, *rest = text.split(b"\0")
        # background processes run until the harness ends them or dies
        self.stays = bool(stays)
        self.words, rest = _listed(rest)
        self.terms, rest = _listed(rest)
        self.limits, rest = _listed(rest)
        # the child runs the command in other namespaces, and only the command gets SIGTERM
        self.wrapped = bool(self.terms) and self.terms[0].startswith(b"bubblewrap:")
        self.environment = {name: value for name, _, value in (entry.partition(b"=") for entry in rest)}


def _listed(fields: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    end = 1 + int(fields[0])
    return fields[1:end], fields[end:]


class Keeper:
    """Supervisor that waits until one command and all its descendants have exited."""

    __slots__ = (
        *("control", "gone", "hurry", "kill_at", "pid", "poller", "reaped", "status", "stopping", "wake", "wrapped"),
        *("limits", "before", "look_at", "scoped", "watch"),
    )

    def __init__(self, control: int, status: int) -> None:
        self.control = control
        self.status = status
        self.pid = 0
        self.reaped = False  # the command's number may be another's now, its group's not yet
        self.gone = False  # and its group's too
        self.kill_at: float | None = None
        self.stopping = False  # the command must end, at the harness's request or after its death
        self.hurry = False  # no more grace
        self.wrapped = False
        self.scoped = False  # a signal to everybody reaches only the command and its descendants
        self.limits: list[bytes] = []
        self.look_at: float | None = None  # time of the next check of resources
        self.watch: ResourceWatch | None = None
        self.before: tuple[int, ...] = (-1,)  # before there was a command: tasks, and room on each disk
        self.wake, waker = os.pipe()
        # A byte arrives when a child ends; every other signal that can be ignored is ignored
        os.set_blocking(self.wake, False)
        os.set_blocking(waker, False)
        _reset_signals(signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        self.poller = select.poll()
        self.poller.register(self.wake, select.POLLIN)
        self.poller.register(control, select.POLLIN)
        self._watch_harness()

    def keep(self, order: Order, report: int) -> None:
        prctl = find_prctl()
        prctl(_CHILD_SUBREAPER, 1)
        self.wrapped = order.wrapped
        self.scoped = can_be_scoped(order) and keep_signals_inside(prctl, moves=order.terms[0] == b"landlock")
        self.limits = order.limits
        self._launch(order, prctl, report)
        code = self._await_command()
        if code and self.watch and not self.stopping:
            self._tell(self.watch.look_back())
        self._say(f"exited {code}")
        while order.stays and not self.stopping:
            self._rest()
            self._wait(self.look_at)
            self._look()
        self._let_rest_end()
        self._kill_rest()
        self._say("ended")

    def _watch_harness(self) -> None:
        # a forked process may keep the control pipe open after the harness's death
        try:
            self.poller.register(os.pidfd_open(os.getppid()), select.POLLIN)
        except (AttributeError, OSError):
            return

    def _launch(self, order: Order, prctl: "Callable[..., object]", report: int) -> None:
        if self.limits:
            self.before = (tasks_of_machine() if sees_own_pids() else -1, *map(free_bytes, self.limits[3:]))
        gate, opener = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(opener)
            become(order, prctl, gate, report)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):  # only the command holds its pipes, so that their ends are seen
            os.dup2(null, descriptor, inheritable=False)
        os.close(report)
        self._say(f"started {self.pid}")
        os.write(opener, b"!")
        if self.limits:
            self.look_at = time.monotonic() + FIRST_LOOK_SECONDS
            come_first()
        for descriptor in (null, gate, opener):
            os.close(descriptor)

    def _await_command(self) -> int:
        while (code := self._reap()) is None:
            self._wait(min((each for each in (self.kill_at, self.look_at) if each is not None), default=None))
            self._look()
            if self.kill_at is not None and time.monotonic() >= self.kill_at:
                self.kill_at = None
                self._signal_group(signal.SIGKILL)
        return code

    def _look(self) -> None:
        if self.look_at is None or time.monotonic() < self.look_at:
            return
        if self.watch is None:
            self.watch = watched(self.limits, self.before, self._signal_everybody)
        if self._tell(self.watch.look()):
            self.look_at = None
            self.hurry = self.stopping = True
            self._signal_everybody(signal.SIGKILL)
        else:
            self.look_at = time.monotonic() + self.watch.rest

    def _tell(self, passed: str) -> bool:
        if passed:
            self._say(f"limit {passed}")
        return bool(passed)

    def _signal_everybody(self, number: int) -> None:
        self._signal_group(number)
        if self.scoped:
            _signal_each([-1], number)

    def _reap(self) -> int | None:
        if not hasattr(os, "waitid"):  # macOS
            pid, wait_status = os.waitpid(self.pid, os.WNOHANG)
            self.reaped = pid == self.pid
            return os.waitstatus_to_exitcode(wait_status) if self.reaped else None
        # the dead command stays a zombie, so that its pid is not reused
        while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if found.si_pid == self.pid:
                return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
            os.waitpid(found.si_pid, 0)
        return None

    def _let_rest_end(self) -> None:
        if not self.stopping:
            self._wait_for_rest(SETTLE_SECONDS)
        rest = self._rest()
        if rest and not self.hurry:
            self._signal_group(signal.SIGTERM)
            self._signal_group(signal.SIGCONT)
            _signal_each(rest, signal.SIGTERM)
            _signal_each(rest, signal.SIGCONT)
            self._wait_for_rest(REST_SECONDS)

    def _wait_for_rest(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self.hurry and time.monotonic() < until and self._rest():
            self._wait(until)

    def _rest(self) -> list[int]:
        """Return the pids of the live children other than the command."""
        return [pid for pid in children() if pid != self.pid and not _reaped(pid)]

    def _kill_rest(self) -> None:
        until = time.monotonic() + KILL_SECONDS
        self._signal_everybody(signal.SIGKILL)
        self.gone = True
        while _any_child_left() and time.monotonic() < until:
            self._signal_everybody(signal.SIGKILL)
            # no pid can have been reused: only this process reaps its children
            _signal_each(children(), signal.SIGKILL)
            self._wait(time.monotonic() + 0.02)

    def _wait(self, until: float | None) -> None:
        milliseconds = None if until is None else max(0.0, until - time.monotonic()) * 1000
        for descriptor, _ in self.poller.poll(milliseconds):
            if descriptor == self.wake:
                os.read(self.wake, 4096)
            elif descriptor == self.control:
                self._listen()
            else:
                self._lose_harness(descriptor)

    def _listen(self) -> None:
        words = os.read(self.control, 4096).split()
        if not words:
            self._lose_harness(self.control)
            return
        grace = min(float(word) for word in words)
        moment = time.monotonic() + grace
        self.kill_at = moment if self.kill_at is None else min(self.kill_at, moment)
        self.hurry = self.hurry or grace <= 0
        self.stopping = True
        self._signal_group(signal.SIGTERM)
        self._signal_group(signal.SIGCONT)

    def _lose_harness(self, descriptor: int) -> None:
        self.poller.unregister(descriptor)
        self.hurry = self.stopping = True
        self.kill_at = time.monotonic()

    def _signal_group(self, number: int) -> None:
        """Send a signal to the command and its process group."""
        # the pid no longer belongs to the command
        if self.gone:
            return
        if self.wrapped and number != signal.SIGKILL:
            for group in children_of(self.pid):  # the first process of its namespaces leads the command's session
                _signal_group_of(group, number)
            return
        for send in (os.killpg,) if self.reaped else (os.kill, os.killpg):
            try:
                send(self.pid, number)
            except OSError:
                continue

    def _say(self, line: str) -> None:
        try:
            os.write(self.status, line.encode() + b"\n")
        except OSError:
            return


def become(order: Order, prctl: "Callable[..., object]", gate: int, report: int) -> None:
    """Turn the new process into the command, and never return."""
    step = "start"
    lifeline = os.getppid()
    try:
        os.setsid()
        prctl(_PDEATHSIG, int(signal.SIGKILL))
        if not os.read(gate, 1):  # the lifeline is dead already
            os._exit(127)
        _reset_signals(signal.SIG_DFL)
        program, words = order.program, order.words
        if order.limits:
            be_ended_first()
            limit_processes(int(order.limits[1]))
        if order.terms:
            step = "sandbox"
            program, words = confined(order)
            prctl(_PDEATHSIG, int(signal.SIGKILL))  # changed credentials have taken it back
            if os.getppid() != lifeline:
                os._exit(127)
        step = "folder"
        os.chdir(order.folder)
        step = "program"
        os.execve(program, words, order.environment)  # noqa: S606
    except OSError as error:
        # the step that failed
        os.write(report, f"{step} {error.errno}".encode())
    finally:
        os._exit(127)


def come_first() -> None:
    """Raise this process's priority if possible, so that a busy command cannot delay the supervisor."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except (AttributeError, OSError):
        return


def be_ended_first() -> None:
    """Make the kernel kill this process and its descendants before the harness if memory runs out."""
    try:
        with open("/proc/self/oom_score_adj", "r+b", buffering=0) as score:
            if int(score.read()) < _ENDED_FIRST:
                score.write(b"%d" % _ENDED_FIRST)
    except (OSError, ValueError):  # another system
        return


def limit_processes(count: int) -> None:
    """Limit the number of processes of this user."""
    if not count or not os.geteuid() or not sees_own_pids():
        return
    try:
        import resource

        # the resource watch may be too slow
        most = tasks_of_machine() + 2 * count
        _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    except (ImportError, OSError, ValueError):  # another system
        return


def tasks_of_machine() -> int:
    """Return the number of all processes and threads on this machine, or -1 if the number is unknown."""
    try:
        descriptor = os.open("/proc/loadavg", os.O_RDONLY)
    except OSError:
        return -1
    try:
        return int(os.read(descriptor, 256).split()[3].partition(b"/")[2])
    except (OSError, IndexError, ValueError):
        return -1
    finally:
        os.close(descriptor)


def confined(order: Order) -> "tuple[bytes, list[bytes]]":
    """Enter the sandbox that ``order`` describes. Return the program to start next and the program's arguments."""
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from confinement import confine  # pyrefly: ignore[missing-import]  # this program stands alone

    return confine(order.terms, order.folder, order.program, order.words)


def free_bytes(path: bytes) -> int:
    """Return the free bytes on the disk of a folder, or -1 if the number is unknown."""
    try:
        found = os.statvfs(path)
    except OSError:
        return -1
    return found.f_bavail * found.f_frsize


def watched(
    limits: "list[bytes]", before: "tuple[int, ...]", signal_everybody: "Callable[[int], object]"
) -> "ResourceWatch":
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    # imported only now, which saves time for short commands
    from resource_watch import ResourceWatch  # pyrefly: ignore[missing-import]  # this program stands alone

    return ResourceWatch(limits, before, tasks_of_machine, free_bytes, signal_everybody)


def can_be_scoped(order: Order) -> bool:
    # Landlock cannot keep signals inside if there are mount rules
    return bool(order.terms) and not order.wrapped and not (order.terms[0] == b"landlock" and any(order.terms[5::3]))


def keep_signals_inside(prctl: "Callable[..., object]", *, moves: bool) -> bool:
    """Restrict this process and the command to signals for their own descendants. Return True on success."""
    call = find_function("syscall")
    parent = os.getppid()
    try:
        os.kill(parent, 0)
    except OSError:
        return False
    # no new privileges from here on: only for sandboxed commands
    prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    wanted = b"".join(each.to_bytes(8, sys.byteorder) for each in (_MOVES if moves else 0, 0, _SIGNALS))
    rules = call(_CREATE_RULESET, wanted, len(wanted), 0)
    if not isinstance(rules, int) or rules < 0:
        return False
    if moves:
        top = os.open("/", os.O_PATH | os.O_CLOEXEC)
        call(_ADD_RULE, rules, 1, _MOVES.to_bytes(8, sys.byteorder) + top.to_bytes(4, sys.byteorder), 0)
        os.close(top)
    call(_RESTRICT_SELF, rules, 0)
    os.close(rules)
    try:
        os.kill(parent, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def find_prctl() -> "Callable[..., object]":
    return find_function("prctl")


def find_function(name: str) -> "Callable[..., object]":
    """Return a function of the C library. For a missing function, return a stand-in that returns -1."""
    try:
        from _ctypes import FUNCFLAG_CDECL, CFuncPtr, _SimpleCData, dlopen, dlsym

        class Int(_SimpleCData):  # type: ignore[implicit-any-type-argument]
            _type_ = "i"

        class Function(CFuncPtr):
            _flags_ = FUNCFLAG_CDECL
            _restype_ = Int

        return Function(dlsym(dlopen(None, 0), name))  # type: ignore[bad-argument-type]
    except (ImportError, OSError):
        return lambda *_: -1


def children() -> list[int]:
    """Return the pids of this process's children, including zombies."""
    return children_of(os.getpid())


def children_of(pid: int) -> list[int]:
    """Return the pids of a process's children, or an empty list on systems without /proc."""
    if not sees_own_pids():
        return []
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as listing:
            return [int(word) for word in listing.read().split()]
    except OSError:
        return children_by_scan(pid)


def children_by_scan(parent: int) -> list[int]:
    """Return the pids of a process's children, found by a search of all processes."""
    return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if parent_of(pid) == parent]


def sees_own_pids() -> bool:
    """Return True if /proc belongs to this process's own pid namespace."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def parent_of(pid: int) -> int | None:
    """Return the pid of a process's parent, or ``None`` if the parent is unknown."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as record:
            return int(record.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return None


def _signal_each(pids: "Iterable[int]", number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:  # another user's (sudo)
            continue


def _signal_group_of(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except OSError:  # it leads no group yet
        return


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _any_child_left() -> bool:
    """Reap all dead children of this process. Return False if no child is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _reset_signals(disposition: int) -> None:
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, disposition)
        except (OSError, ValueError):  # KILL, STOP and the two that the C library keeps
            continue
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
    os._exit(0)
