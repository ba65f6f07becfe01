"""Sandbox of the calling process: the last step of ``supervisor.become`` before the command starts.

This module uses only the standard library, like the supervisor. ``kernel/process/sandbox.py`` writes the terms: a kind,
the mode of the whole disk, the network, and rules from the top of the disk downwards. Any failure is an ``OSError``,
and the command is not started half confined.

namespaces   A user namespace, a mount namespace and, for a private loopback, a network namespace. For root, a second
             user namespace locks the mounts of the first (mount_namespaces(7)).
bubblewrap   The same and a pid namespace, made by ``bwrap``, if only this program may create namespaces.
landlock     Writes only to listed paths, a network namespace for a separate network, and a mount namespace if a rule
             has a source to mount over its path. A read-only path inside a writable path is not possible.

The network is ``open``, ``loopback`` or ``interface``, which is a loopback plus an interface that leads nowhere. If the
kernel has Landlock scopes (6.12), signals cannot reach processes outside the sandbox."""

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Rule = tuple[bytes, bytes, bytes]

NEWNS, NEWUSER, NEWNET = 0x00020000, 0x10000000, 0x40000000
_BIND, _REC, _SLAVE, _NOSUID, _NODEV = 4096, 16384, 1 << 19, 2, 4
_RECURSIVE, _READ_ONLY = 0x8000, 1
_HERE = -100  # AT_FDCWD
_MOUNT_SETATTR, _CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 442, 444, 445, 446
_NO_NEW_PRIVS = 38
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_WRITES = _WRITE_FILE | sum(1 << bit for bit in range(4, 14)) | _TRUNCATE
_SCOPE_SIGNAL = 1 << 1
_ALLOW_LIST_ABI, _SCOPE_ABI = 3, 6
_SIZES = ((6, 24), (4, 16), (1, 8))  # of the ruleset's attributes, by the least ABI that knows them
_DROPPED_CAPABILITIES = (
    *("SYS_ADMIN", "SYS_PTRACE", "SYS_MODULE", "SYS_RAWIO", "SYS_BOOT", "SYS_TIME", "SYSLOG", "MKNOD"),
    *("NET_ADMIN", "MAC_ADMIN", "MAC_OVERRIDE", "BPF", "PERFMON", "DAC_READ_SEARCH", "CHECKPOINT_RESTORE"),
)
_libc: "Any" = ctypes.CDLL(None, use_errno=True)


def confine(
    terms: "Sequence[bytes]", folder: bytes, program: bytes, words: "list[bytes]"
) -> "tuple[bytes, list[bytes]]":
    """Confine this process permanently. Return the program to start next and the program's arguments."""
    kind, base, network, *rest = terms
    rules: list[Rule] = [(rest[at], rest[at + 1], rest[at + 2]) for at in range(0, len(rest) - 2, 3)]
    if kind.startswith(b"bubblewrap:"):
        words = _wrapped(terms, rules, folder, [program, *words[1:]])
        return words[0], words
    if kind == b"namespaces":
        _prepare(rules, network, mounts=True, read_only=base == b"ro")
        if not os.geteuid():
            _enter(NEWUSER | NEWNS)
    elif kind == b"landlock":
        laid = [rule for rule in rules if rule[2]]
        _prepare(laid, network, mounts=bool(laid), read_only=False)
    _check(_libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
    allowed = [path for mode, path, _ in rules if mode == b"rw"] if kind == b"landlock" else None
    _restrict(allowed)
    return program, words


def landlock_abi() -> int:
    """Return the kernel's Landlock version, or 0 if the kernel has no Landlock."""
    return max(0, _libc.syscall(_CREATE_RULESET, None, 0, 1))


# ---- namespaces


def _prepare(rules: "Sequence[Rule]", network: bytes, *, mounts: bool, read_only: bool) -> None:
    own = (NEWNS if mounts else 0) | (NEWNET if network != b"open" else 0)
    if own and (os.geteuid() or _libc.unshare(own)):  # root of the machine needs no user namespace for that
        _enter(NEWUSER | own)
    if mounts:
        _check(_libc.mount(None, b"/", None, _REC | _SLAVE, None))
    if read_only:
        _protect(b"/", read_only=True)
    for mode, path, source in [_opened(rule) for rule in rules]:  # all of them before one hides another
        _lay(mode, path, source)
    _raise(network)


def _enter(flags: int) -> None:
    own = [b"%d %d 1" % (number, number) for number in (os.geteuid(), os.getegid())]
    if os.geteuid():
        _check(_libc.unshare(flags))
        _map_own(own)
        return
    # root keeps all user ids: a helper outside the namespaces maps them
    users = [_ranges(b"/proc/self/uid_map"), _ranges(b"/proc/self/gid_map")]
    pid = os.getpid()
    wait, go = os.pipe()
    helper = os.fork()
    if not helper:
        mapped = False
        try:
            os.close(go)
            if os.read(wait, 1):
                for name, text in zip((b"uid_map", b"gid_map"), users, strict=True):
                    _write(b"/proc/%d/%s" % (pid, name), text)
                mapped = True
        finally:
            os._exit(0 if mapped else 1)
    os.close(wait)
    failed = _libc.unshare(flags)
    error = ctypes.get_errno()
    if not failed:
        os.write(go, b"!")
    os.close(go)
    _, status = os.waitpid(helper, 0)
    if failed:
        raise OSError(error, os.strerror(error))
    if status:
        _map_own(own)


def _map_own(own: "list[bytes]") -> None:
    _write(b"/proc/self/setgroups", b"deny")
    _write(b"/proc/self/uid_map", own[0])
    _write(b"/proc/self/gid_map", own[1])


def _ranges(path: bytes) -> bytes:
    with open(path, "rb") as listing:
        found = [line.split() for line in listing]
    return b"\n".join(b"%s %s %s" % (first, first, count) for first, _, count in found)


def _write(path: bytes, text: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text)
    finally:
        os.close(descriptor)


def _opened(rule: "Rule") -> "Rule":
    mode, path, source = rule
    if mode == b"empty":
        return rule
    return mode, path, b"/proc/self/fd/%d" % os.open(source, os.O_PATH) if source else path


def _lay(mode: bytes, path: bytes, source: bytes) -> None:
    if not os.path.lexists(path):
        return
    if mode == b"empty":
        _check(_libc.mount(b"tmpfs", path, b"tmpfs", _NOSUID | _NODEV, b"mode=1777,size=" + (source or b"50%")))
        return
    if _libc.mount(source, path, None, _BIND | _REC, None):
        if ctypes.get_errno() == 13:  # EACCES: who cannot even look at it writes nothing there
            return
        _check(-1)
    _protect(path, read_only=mode == b"ro")


def _protect(path: bytes, *, read_only: bool) -> None:
    sets, clears = (_READ_ONLY, 0) if read_only else (0, _READ_ONLY)
    attributes = (ctypes.c_uint64 * 4)(sets, clears, 0, 0)
    if _libc.syscall(_MOUNT_SETATTR, _HERE, path, _RECURSIVE, attributes, 32):
        if read_only:
            _check(-1)
        # a mount that cannot become writable stays as it is
        _libc.syscall(_MOUNT_SETATTR, _HERE, path, 0, attributes, 32)


def _raise(network: bytes) -> None:
    if network == b"open":
        return
    import _socket
    import fcntl

    request = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    name, up = b"eth0".ljust(16, b"\0"), (1).to_bytes(2, "little").ljust(24, b"\0")
    fcntl.ioctl(request.fileno(), 0x8914, b"lo".ljust(16, b"\0") + up)
    any_, own, mask, above = (
        _socket.AF_INET.to_bytes(2, "little") + bytes((0, 0, *each)) + bytes(8)
        for each in ((0, 0, 0, 0), (10, 0, 2, 15), (255, 255, 255, 0), (10, 0, 2, 2))
    )
    route = bytes(8) + any_ + above + any_ + (3).to_bytes(2, "little") + bytes(62)
    try:
        if network == b"interface":
            for asked, words in (
                (0x89A0, name),  # SIOCBRADDBR: make a bridge, which needs no device
                (0x8916, name + own + bytes(8)),  # SIOCSIFADDR
                (0x891C, name + mask + bytes(8)),  # SIOCSIFNETMASK
                (0x8914, name + up),  # SIOCSIFFLAGS
                (0x890B, route),  # SIOCADDRT: the default route
            ):
                fcntl.ioctl(request.fileno(), asked, words)
    # a bridge is missing in some kernels
    except OSError:
        pass
    finally:
        request.close()


# ---- landlock


def _restrict(allowed: "list[bytes] | None") -> None:
    version = landlock_abi()
    if allowed is not None and version < _ALLOW_LIST_ABI:
        raise OSError(38, os.strerror(38))
    scopes = _SCOPE_SIGNAL if version >= _SCOPE_ABI else 0
    if allowed is None and not scopes:
        return
    size = next(size for least, size in _SIZES if version >= least)
    wanted = (ctypes.c_uint64 * 3)(_WRITES if allowed is not None else 0, 0, scopes)
    rules = _check(_libc.syscall(_CREATE_RULESET, wanted, size, 0))
    for path in allowed or ():
        _allow(rules, path, _WRITES if os.path.isdir(path) else _WRITE_FILE | _TRUNCATE)
    _check(_libc.syscall(_RESTRICT_SELF, rules, 0))
    os.close(rules)


def _allow(rules: int, path: bytes, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # gone, or never there
        return
    rule = rights.to_bytes(8, "little") + place.to_bytes(4, "little")
    try:
        _check(_libc.syscall(_ADD_RULE, rules, 1, rule, 0))
    finally:
        os.close(place)


# ---- bubblewrap


def _wrapped(terms: "Sequence[bytes]", rules: "Sequence[Rule]", folder: bytes, command: "list[bytes]") -> "list[bytes]":
    kind, base, network = terms[:3]
    options = [b"--die-with-parent", b"--new-session", b"--unshare-pid"]
    options += [b"--unshare-net"] if network == b"loopback" else []
    options += [b"--ro-bind" if base == b"ro" else b"--dev-bind", b"/", b"/", b"--dev-bind", b"/dev", b"/dev"]
    options += [b"--proc", b"/proc"]
    for mode, path, source in rules:
        if path not in (b"/proc", b"/dev"):
            bind = {b"ro": b"--ro-bind-try", b"rw": b"--bind-try"}.get(mode)
            options += [bind, source or path, path] if bind else [b"--tmpfs", path]
    if not os.geteuid():
        options += [word for name in _DROPPED_CAPABILITIES for word in (b"--cap-drop", b"CAP_" + name.encode())]
    return [kind.partition(b":")[2], *options, b"--chdir", folder, b"--", *command]


def _check(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
