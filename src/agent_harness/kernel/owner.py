"""Process identity (pid, start time, boot, host and user), and checks that a process is still alive.

A pid alone proves nothing, because pids are reused. A process counts as dead only on proof. Either the pid does not
exist, or it belongs to a process that started at another time or in another boot. Source: ``tasklist.md`` 9.3.

On Linux, the data comes from ``/proc``. On other systems, psutil gives the start time as wall-clock time. This time
also identifies the boot, so the boot id may be empty."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Literal

_PROC = "/proc"
_PLACES = ("HARNESS_PROJECT_DIR", "HARNESS_STATE_ROOT")  # the agent's folder
HOME_REPOSITORY = "HARNESS_HOME_REPOSITORY"
"""Environment variable with the project's path. The harness sets it for an agent in a workspace of a parallel run."""
_MOST_ANCESTORS = 64
_READ_BYTES = 1 << 14
_FIRST_PID_NAMESPACE = "pid:[4026531836]"  # a constant of the Linux kernel


class Owner:
    """Identity of one process, unique across hosts and boots."""

    __slots__ = ("boot_id", "host", "pid", "start_time", "uid")

    def __init__(self, pid: int, start_time: str, boot_id: str, host: str, uid: int) -> None:
        self.pid = pid
        self.start_time = start_time
        self.boot_id = boot_id
        self.host = host
        self.uid = uid

    def as_record(self) -> dict[str, object]:
        return {
            "pid": self.pid,
            "start_time": self.start_time,
            "boot_id": self.boot_id,
            "host": self.host,
            "uid": self.uid,
        }

    @classmethod
    def from_record(cls, record: object) -> Owner | None:
        """Return the identity in a JSON record, or ``None`` if a member is missing or invalid."""
        if not isinstance(record, dict):
            return None
        pid, uid = record.get("pid"), record.get("uid")
        if type(pid) is not int or type(uid) is not int or not 0 < pid < 1 << 31 or not 0 <= uid < 1 << 32:
            return None
        texts = [record.get(name) for name in ("start_time", "boot_id", "host")]
        start_time, boot_id, host = [text if isinstance(text, str) else None for text in texts]
        if start_time is None or boot_id is None or host is None:
            return None
        return cls(pid, start_time, boot_id, host, uid)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Owner) and self.as_record() == other.as_record()

    def __hash__(self) -> int:
        return hash((self.pid, self.start_time, self.boot_id, self.host))

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    def __repr__(self) -> str:
        return f"Owner(pid={self.pid}, start_time={self.start_time!r}, host={self.host!r})"


def current() -> Owner:
    own = of(os.getpid())
    return own or Owner(os.getpid(), "", _boot_id(), _host(), os.getuid())


def of(pid: int) -> Owner | None:
    """Return the identity of the live process with this pid, or ``None``."""
    if not exists(pid):
        return None
    start_time, uid = _look(pid)
    return Owner(pid, start_time, _boot_id(), _host(), uid)


def exists(pid: int) -> bool:
    """Return True if a process with this pid is running and is not a zombie."""
    if not 0 < pid < 1 << 31:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    fields = stat_fields(pid)
    return not (fields[0] in ("Z", "X", "x") if fields else _is_zombie_elsewhere(pid))


def state(owner: Owner) -> Literal["alive", "dead", "unknown"]:
    """Return the state of a process. The state is ``dead`` only with proof, such as a missing pid."""
    if owner.host != _host():
        # on another host: no proof is possible here
        return "unknown"
    boot, _, space = owner.boot_id.partition("/")
    here_boot, _, here_space = _boot_id().partition("/")
    if boot and here_boot and boot != here_boot:
        return "dead"
    if space != here_space:
        return "unknown"
    if not exists(owner.pid):
        return "dead"
    started = _look(owner.pid)[0]
    return "dead" if started and owner.start_time and started != owner.start_time else "alive"


def processes_tagged(name: str, value: str) -> list[int]:
    """Return the pids of this user's processes that started with ``name=value`` in their environment."""
    wanted = os.fsencode(f"{name}={value}")
    if not os.path.isdir(f"{_PROC}/self"):
        import psutil

        found = []
        for process in psutil.process_iter():
            try:
                if process.uids().effective == os.geteuid() and process.environ().get(name) == value:
                    found.append(process.pid)
            except (psutil.Error, OSError):
                continue
        return sorted(found)
    pids = (entry for entry in os.listdir(_PROC) if entry.isdecimal())
    return sorted(int(pid) for pid in pids if _is_tagged(pid, wanted))


def refuse_agents(root: str | os.PathLike[str] | None, command: str) -> None:
    """Raise ``Refused`` if an agent that works on ``root`` (None: any project) started this process."""
    place = os.path.realpath(root) if root is not None else None
    for each in environments():
        places = [each[name] for name in _PLACES if each.get(name)]
        home = each.get(HOME_REPOSITORY)
        if home and place and os.path.commonpath((os.path.realpath(home), place)) == os.path.realpath(home):
            places.append(place)
        here = place is None or any(os.path.realpath(there) == place for there in places)
        if each.get("HARNESS_RUN_ID") and here:
            from agent_harness.errors import Refused

            raise Refused(
                f"{command} is a decision for the user: agents may not run this command",
                hint=f"write in the progress log what the user should decide; the user then runs: {command}",
            )


def _is_tagged(pid: str, wanted: bytes) -> bool:
    try:
        if os.stat(f"{_PROC}/{pid}").st_uid != os.geteuid():  # reading a foreign process may block
            return False
        found = _read(f"{_PROC}/{pid}/environ")
    except OSError:
        return False
    return wanted in found and wanted in found.split(b"\0")


def _look(pid: int) -> tuple[str, int]:
    fields = stat_fields(pid)
    if fields is None:
        return _look_elsewhere(pid)
    try:
        return fields[19], os.stat(f"{_PROC}/{pid}").st_uid
    except OSError:
        return fields[19], os.getuid()


def parent_of(pid: int) -> int | None:
    fields = stat_fields(pid)
    return int(fields[1]) if fields else None


def environments() -> Iterator[Mapping[str, str]]:
    """Yield the environment of this process, then the initial environment of each ancestor."""
    yield os.environ
    # the ancestors show who started a command, even if it removed its own variables
    above: int | None = os.getppid()
    for _ in range(_MOST_ANCESTORS):
        if not above or above <= 1:
            return
        try:
            rows = _read(f"{_PROC}/{above}/environ").split(b"\0")
        except OSError:
            rows = list[bytes]()
        pairs = (os.fsdecode(each).partition("=") for each in rows)
        yield {name: value for name, _, value in pairs}
        above = parent_of(above)


def stat_fields(pid: int) -> list[str] | None:
    """Return the fields of ``/proc/PID/stat`` after the command name, or ``None`` if the file cannot be read."""
    try:
        text = _read(f"{_PROC}/{pid}/stat").decode("ascii", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return fields if len(fields) > 19 else None


def _boot_id() -> str:
    try:
        boot = _read(f"{_PROC}/sys/kernel/random/boot_id").decode("ascii", "replace").strip()
        space = os.readlink(f"{_PROC}/self/ns/pid")
    except OSError:
        return ""
    return boot if space == _FIRST_PID_NAMESPACE else f"{boot}/{space}"


def _host() -> str:
    return os.uname().nodename


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = os.read(descriptor, _READ_BYTES)
        while part := os.read(descriptor, _READ_BYTES) if found else b"":
            found += part
        return found
    finally:
        os.close(descriptor)


def _look_elsewhere(pid: int) -> tuple[str, int]:
    if os.path.isdir(f"{_PROC}/self"):
        return "", os.getuid()  # hidden from this user; psutil reads the same folder
    import psutil

    try:
        process = psutil.Process(pid)
        return repr(process.create_time()), process.uids().real
    except psutil.Error:
        return "", os.getuid()


def _is_zombie_elsewhere(pid: int) -> bool:
    if os.path.isdir(f"{_PROC}/self"):
        return False
    import psutil

    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
