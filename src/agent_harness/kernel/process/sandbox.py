"""Access rights of agents and checks, enforced by the best available sandbox: namespaces, bubblewrap or Landlock.

A check is the harness's own run of a project's command. It can write to its checkout, to temporary files that are
removed afterwards, and to build tool caches. Its network is a private loopback. An agent can write wherever its user
may, except for protected files. These files affect the verdict or run with other rights. They are the harness and its
state, installed programs and packages, git's user settings, and shell start files. Agents and checks have resource
limits (``limits.py``), even without a sandbox. For the threat model and its gaps, see docs/security.md.

The environment variable ``HARNESS_SANDBOX`` overrides the project's settings. Its value is ``off``, ``auto``,
``required``, or one of ``KINDS``, which is then required."""

import os
import re
import shutil
import site
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from agent_harness.errors import ConfigurationError, HarnessError, Refused
from agent_harness.kernel import files, owner, trusted_state
from agent_harness.kernel.process import command, limits
from agent_harness.kernel.process.launch_spec import Sandbox

KINDS = ("namespaces", "bubblewrap", "landlock")
"""Kinds of sandbox, the best kind first."""

MODES = ("auto", "off", "required")
VARIABLE = "HARNESS_SANDBOX"
OPEN, LOOPBACK, INTERFACE = "open", "loopback", "interface"
_PACKAGE = Path(__file__).parents[2]
_OF_SETTINGS = (  # variables that name folders of settings and state, and those of the starting shell
    *("XDG_", "CARGO_HOME", "GRADLE_USER_HOME", "npm_config_", "NPM_CONFIG_", "PIP_CONFIG_FILE", "GOENV"),
    *("HOME", "PWD", "OLDPWD", "TMPDIR"),
)
_MOST_HIDDEN = 500  # entries of one folder
_PROBE_SECONDS = 20.0
_TRIED_AT = {"probe": 1}  # raised when the probe changes
_SYSTEM = ("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot", "/opt", "/nix", "/snap")
_IN_MEMORY = "/dev/shm"  # noqa: S108
_KERNEL_SWITCHES = ("/proc/sys", "/proc/sysrq-trigger", "/sys")  # switches that root could change
_OF_USER = (  # below the home folder: run, or read by programs that run, in the user's name
    *(".ssh", ".gitconfig", ".local/bin", "bin", ".config/systemd", ".local/share/systemd", ".config/autostart"),
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".config/fish", ".config/environment.d"),
    *(".pam_environment", ".xprofile", ".xsessionrc", ".tmux.conf", ".config/tmux", ".config/agent-harness"),
)
_CACHES = (  # below the home folder: caches of build tools
    *(".npm", ".yarn", ".pnpm-store", ".local/share/pnpm", ".bun", ".deno", ".node-gyp", ".electron-gyp"),
    *(".cargo", ".rustup", "go", ".gradle", ".m2", ".ivy2", ".sbt", ".coursier", ".konan", ".android"),
    *(".nuget", ".dotnet", ".local/share/NuGet", ".bundle", ".gem", ".composer", ".mix", ".hex", ".stack", ".cabal"),
    *(".ghcup", ".pub-cache", ".julia", ".ccache", ".local/share/virtualenv", ".local/share/uv", ".pyenv/shims"),
)
_CACHE_VARIABLES = (
    *("CARGO_HOME", "GOPATH", "GOCACHE", "GOMODCACHE", "GRADLE_USER_HOME", "NUGET_PACKAGES", "npm_config_cache"),
    *("NPM_CONFIG_CACHE", "PIP_CACHE_DIR", "UV_CACHE_DIR", "HF_HOME", "PLAYWRIGHT_BROWSERS_PATH", "CCACHE_DIR"),
    *("YARN_CACHE_FOLDER", "COMPOSER_HOME", "BUNDLE_PATH", "JULIA_DEPOT_PATH", "PRE_COMMIT_HOME"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSettings:
    mode: str = "auto"
    writable: tuple[str, ...] = ()  # further folders and files that agents and checks may change; ``~`` is the home
    network: str = LOOPBACK  # of checks
    memory: int | None = None  # limit of each in bytes; 0: none; None: the default
    processes: int | None = None  # the same, threads counted
    free_disk: int | None = None  # bytes that each must leave on the disks that it writes to


AUTO = SandboxSettings()


LEAST_MEMORY = 64 << 20  # a limit below is a mistake: no interpreter lives in it


def settings_from(given: object, *, network: str = LOOPBACK) -> SandboxSettings:
    """Return the sandbox settings in the value of ``sandbox:``. Invalid values are ignored."""
    found = given if isinstance(given, Mapping) else {"mode": given}
    mode, wished, writable = (found.get(name) for name in ("mode", "network", "writable"))
    return SandboxSettings(
        mode="off" if mode is False else mode if isinstance(mode, str) and mode in MODES else "auto",
        writable=tuple(path for path in writable if isinstance(path, str)) if isinstance(writable, list) else (),
        network=wished if wished in (OPEN, LOOPBACK) else network,
        memory=_amount(limits.bytes_from, found.get("memory"), least=LEAST_MEMORY),
        processes=_amount(limits.count_from, found.get("processes")),
        free_disk=_amount(limits.bytes_from, found.get("free_disk")),
    )


def _amount(read: Callable[..., int], given: object, **terms: int) -> int | None:
    try:
        return None if given is None else read(given, **terms)
    except ValueError:
        return None


def limits_from(settings: SandboxSettings, folders: Iterable[str] = ()) -> limits.Limits:
    memory, processes, free_disk = settings.memory, settings.processes, settings.free_disk
    return limits.Limits(
        memory=limits.bytes_from(limits.MEMORY) if memory is None else memory,
        processes=limits.usual_processes() if processes is None else processes,
        free_disk=limits.bytes_from(limits.FREE_DISK) if free_disk is None else free_disk,
        folders=tuple(folders),
    )


def told(settings: SandboxSettings = AUTO) -> str:
    """Return a description of the sandbox and its network, which a check's record contains."""
    kind, allowed = kind_for(settings), limits_from(settings)
    watched = limits.held() and allowed.memory and allowed.processes
    without = "" if watched else ", no limit of memory and processes"
    if kind is None:
        return f"none{without}"
    return f"{kind.partition(':')[0]}, network {OPEN if kind == 'landlock' else settings.network}{without}"


def kind_for(settings: SandboxSettings) -> str | None:
    """Return the kind of sandbox that the settings select on this machine, or ``None`` for no sandbox."""
    asked = os.environ.get(VARIABLE, "").strip().lower() or settings.mode
    if asked not in (*MODES, *KINDS):
        raise ConfigurationError(
            f"{VARIABLE} is {asked!r}, which is not a known value",
            hint=f"use one of: {', '.join((*MODES, *KINDS))}; or unset it",
        )
    if asked == "off":
        return None
    if asked in KINDS:
        kind = _kind(asked)
        # only a kind that passed a practical test
        kind = kind if kind and _holds(kind) else None
    else:
        kind = found()
    if kind is None and asked != "auto":
        raise Refused(
            f"a sandbox is required ({asked}), but none works on this machine",
            hint="harness doctor  # shows the reason; `sandbox: auto` uses no sandbox if none works",
        )
    return kind


def can_lay(settings: SandboxSettings) -> bool:
    """Return True if one check can use both Landlock and mount namespaces."""
    return kind_for(settings) == "namespaces" and _holds("landlock")


def covers(kind: str | None) -> str:
    """Return one line for the user about the protection that a kind of sandbox gives."""
    match (kind or "none").partition(":")[0]:
        case "namespaces" | "bubblewrap":
            return (
                "agents cannot change the harness, its state, installed programs and git's user settings; "
                "checks can write only to their checkout and have only a private loopback network"
            )
        case "landlock":
            return (
                "agents and checks can write only to allowed paths, and agents cannot add files at the top of the "
                "home folder; the network of checks is open"
            )
    return "agents and checks have all rights of this user; changes to state, settings and programs are only detected"


# ---- access of a command


def of_check(
    own: Iterable[str | os.PathLike[str]],
    *,
    temporary: str | os.PathLike[str],
    settings: SandboxSettings = AUTO,
    environ: Mapping[str, str] = os.environ,
    reads: Iterable[str | os.PathLike[str]] = (),
    names: Iterable[str] = (),
    namespaces: bool = True,
    network: str = OPEN,
    of_home: Sequence[str] | None = None,
    at_home: bool = False,
    laid: dict[str, tuple[str, str]] | None = None,
) -> tuple[Sandbox, str]:
    """Return the sandbox of one check, and the path of its temporary folder inside the sandbox."""
    kind = kind_for(settings)
    has_own_network = kind == "namespaces" and network != OPEN
    if kind and not namespaces and (has_own_network or network == OPEN) and sys.platform == "linux":
        kind = "landlock" if _holds("landlock") else kind
    places, scratch = [os.path.realpath(path) for path in own], os.path.realpath(temporary)
    allowed = limits_from(settings, (scratch, *places))
    if kind is None:
        return _unconfined(allowed), os.fspath(temporary)
    kept = [*places, *_further(settings)]
    home = environ.get("HOME") or os.path.expanduser("~")
    closed = (home, *reads, *_protected((), environ), *_checkouts(kind, environ))
    caches = _caches(environ)
    if at_home:
        known = {os.path.realpath(path) for path in of_home or () if os.path.lexists(path)} - {*_checkouts("", environ)}
        caches = [path for path in known if any(path != place and _is_in(path, place) for place in caches)]
    rules = {os.path.realpath(path): ("ro", "") for path in closed}
    rules |= dict.fromkeys(caches, ("rw", ""))
    rules |= dict.fromkeys(filter(os.path.isdir, (os.path.join(cache, "bin") for cache in caches)), ("ro", ""))
    rules |= dict.fromkeys((*kept, scratch), ("rw", ""))
    if kind == "landlock":
        rules |= dict.fromkeys(("/proc", "/dev", *_shared_temporary()), ("rw", ""))
        rules = _allowed(rules) | (laid or {})
        return _made(kind, "ro", network if has_own_network else OPEN, rules, allowed), scratch
    rules |= _machine()
    texts = [*names, *(value for name, value in environ.items() if name != "TMPDIR")]
    if of_home is not None and not at_home and not any(_is_in(os.path.realpath(home), path) for path in kept):
        spoken = [*names, *(value for name, value in environ.items() if not name.startswith(_OF_SETTINGS))]
        named = [word for text in spoken for word in re.split(r"[\s:;,'\"=()]+", text) if word.startswith(f"{home}/")]
        search = environ.get("PATH", "").split(os.pathsep)
        wanted = [*kept, *reads, *of_home, *named, *search, scratch, str(_PACKAGE), sys.prefix, sys.base_prefix]
        real = dict.fromkeys(os.path.realpath(each) for each in wanted if os.path.lexists(each))
        rules |= _hidden(os.path.realpath(home), list(real))
    needed = [*rules, *kept, sys.prefix, *_paths_in(texts)]
    hidden = [place for place in _outermost(_shared_temporary()) if place not in needed]
    if not any(_is_in(path, _IN_MEMORY) for path in (*needed, *hidden)):
        rules[_IN_MEMORY] = ("empty", str(allowed.memory // 2) if allowed.memory else "")
    for place in hidden:
        if _is_in(scratch, place):
            rules.pop(scratch, None)
        rules |= _laid_over(place, scratch, needed, rules)
    inside = next((place for place in hidden if _is_in(os.path.realpath(tempfile.gettempdir()), place)), None)
    return _made(kind, "ro", settings.network, rules, allowed), inside or (hidden[0] if hidden else scratch)


def _hidden(folder: str, wanted: Sequence[str], depth: int = 0) -> dict[str, tuple[str, str]]:
    rules: dict[str, tuple[str, str]] = {}
    given = tuple(f"{each}/" for each in wanted)
    try:
        entries = list(os.scandir(folder))[:_MOST_HIDDEN]
    except OSError:
        return rules
    for entry in entries:
        if entry.is_symlink() or f"{entry.path}/".startswith(given):
            continue
        is_folder = entry.is_dir()
        if is_folder and any(each.startswith(f"{entry.path}/") for each in wanted):
            rules |= _hidden(entry.path, wanted, depth + 1) if depth or entry.name.startswith(".") else {}
        elif is_folder and (depth or entry.name.startswith(".") or entry.name == "node_modules"):
            rules[entry.path] = ("empty", "1m")
        elif entry.is_file():
            rules[entry.path] = ("ro", os.devnull)
    return rules


def _laid_over(
    place: str, scratch: str, needed: Iterable[str], rules: Mapping[str, tuple[str, str]]
) -> dict[str, tuple[str, str]]:
    below = [path for path in needed if _is_in(path, place) and path != scratch]
    entries = {os.path.join(place, path[len(place) :].strip("/").partition("/")[0]) for path in below}
    laid = {place: ("rw", scratch)}
    for entry in entries:
        if not os.path.lexists(entry):
            continue
        here = os.path.join(scratch, os.path.basename(entry))
        if os.path.isdir(entry):
            os.makedirs(here, exist_ok=True)
        else:
            Path(here).touch()
        laid[entry] = (rules[entry][0] if entry in rules else "rw", entry)
    return laid


def _paths_in(texts: Iterable[str]) -> list[str]:
    places = "|".join(re.escape(place) for place in _temporary_places())
    found = (match for text in texts for match in re.findall(rf"(?:{places})/+[^\s:;,'\"()/]+", text))
    return [os.path.realpath(path) for path in found]


def _outermost(places: Sequence[str]) -> list[str]:
    return [place for place in places if not any(_is_in(place, other) for other in places if other != place)]


def _unconfined(allowed: limits.Limits) -> Sandbox:
    return Sandbox(kind="none", base="rw", network=OPEN, rules=(), limits=allowed)


def of_agent(
    places: Iterable[str | os.PathLike[str]],
    *,
    settings: SandboxSettings = AUTO,
    installs: bool = False,
    reads: Iterable[str | os.PathLike[str]] = (),
) -> Sandbox:
    """Return the sandbox of an agent that works in ``places``."""
    kind = kind_for(settings)
    own = [os.path.realpath(path) for path in places]
    allowed = limits_from(settings, own)
    if kind is None:
        return _unconfined(allowed)
    checkouts = _checkouts(kind, os.environ)
    # only existing paths can be protected
    _make_missing(os.environ, checkouts, own)
    closed = (*_protected(own, os.environ, installs=installs), *checkouts, *(os.path.realpath(path) for path in reads))
    rules = dict.fromkeys(closed, ("ro", ""))
    rules |= dict.fromkeys((*own, *_further(settings)), ("rw", ""))
    rules |= dict.fromkeys(_of_harness_within(own), ("ro", ""))
    if kind == "landlock":
        rules = _allowed({"/": ("rw", ""), **rules})
        return _made(kind, "ro", OPEN, rules, allowed)
    return _made(kind, "rw", OPEN, _machine(root_only=True) | rules, allowed)


def left_open(places: Iterable[str | os.PathLike[str]], *, settings: SandboxSettings = AUTO) -> Callable[[str], bool]:
    """Return a function that tells whether an agent in ``places`` may write to a path."""
    if kind_for(settings) is None:
        return lambda path: True
    own = [os.path.realpath(path) for path in places]
    opened = [*own, *_further(settings)]
    closed = _protected(own, os.environ)

    def is_open(path: str) -> bool:
        real = os.path.realpath(path)
        return any(_is_in(real, each) for each in opened) or not any(_is_in(real, each) for each in closed)

    return is_open


def _made(
    kind: str,
    base: str,
    network: str,
    rules: Mapping[str, tuple[str, str]],
    allowed: limits.Limits = limits.NO_LIMITS,
) -> Sandbox:
    ordered = sorted(rules.items(), key=lambda rule: rule[0].count("/") if rule[0] != "/" else 0)
    laid = tuple((mode, path, source) for path, (mode, source) in ordered)
    return Sandbox(kind=kind, base=base, network=network, rules=laid, limits=allowed)


def _machine(*, root_only: bool = False) -> dict[str, tuple[str, str]]:
    rules = {} if root_only else dict.fromkeys(("/proc", "/dev"), ("rw", ""))
    if os.geteuid() == 0:
        rules |= dict.fromkeys(_KERNEL_SWITCHES, ("ro", ""))
    return rules


def _temporary_places() -> list[str]:
    places = (os.environ.get("TMPDIR") or "/tmp", "/tmp", "/var/tmp")  # noqa: S108
    return [place for place in places if os.path.isdir(place)]


def _shared_temporary() -> list[str]:
    return list(dict.fromkeys(map(os.path.realpath, _temporary_places())))


def _further(settings: SandboxSettings) -> list[str]:
    given = (os.path.expanduser(path) for path in settings.writable)
    return [os.path.realpath(path) for path in given if os.path.isabs(path)]


def _caches(environ: Mapping[str, str]) -> list[str]:
    home = environ.get("HOME") or os.path.expanduser("~")
    places = [environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")]
    places += [os.path.join(home, name) for name in _CACHES]
    places += [environ[name] for name in _CACHE_VARIABLES if environ.get(name)]
    return [os.path.realpath(place) for place in places if os.path.isabs(place) and os.path.isdir(place)]


def _checkouts(kind: str, environ: Mapping[str, str]) -> list[str]:
    if kind == "landlock":
        # a Landlock rule for this folder would protect the whole cache
        return []
    home = environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return [os.path.realpath(os.path.join(home, "agent-harness"))]


def _protected(own: Sequence[str], environ: Mapping[str, str], *, installs: bool = False) -> list[str]:
    home, git = _home_and_git(environ)
    of_user = [os.path.join(home, name) for name in _OF_USER]
    search = [place for place in environ.get("PATH", "").split(os.pathsep) if os.path.isabs(place)]
    packages = [sys.prefix, sys.base_prefix, *([site.getusersitepackages()] if site.ENABLE_USER_SITE else ())]
    programs = [] if installs else [*_SYSTEM, *search, *packages]
    named = [*programs, str(_PACKAGE), git, *of_user, trusted_state.usual_base()]
    real = dict.fromkeys(os.path.realpath(path) for path in named if os.path.lexists(path))
    kept_open = {"/", os.path.realpath(home), *_shared_temporary()}
    return [path for path in real if path not in kept_open and not any(_is_in(path, place) for place in own)]


def _of_harness_within(own: Sequence[str]) -> list[str]:
    """Return the harness's installed package folder if the project contains this folder, else an empty list."""
    inside = _PACKAGE.parent.name in ("site-packages", "dist-packages")
    return [str(_PACKAGE)] if inside and any(_is_in(os.path.realpath(_PACKAGE), place) for place in own) else []


def _home_and_git(environ: Mapping[str, str]) -> tuple[str, str]:
    home = environ.get("HOME") or os.path.expanduser("~")
    return home, os.path.join(environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "git")


def _make_missing(environ: Mapping[str, str], checkouts: Sequence[str], own: Sequence[str]) -> None:
    # only an existing path can be protected
    home, git = _home_and_git(environ)
    state = os.path.realpath(trusted_state.usual_base())
    used = os.path.isabs(trusted_state.usual_base()) and not any(_is_in(state, place) for place in own)
    for folder in (git, os.path.join(home, ".local/bin"), *((state,) if used else ()), *checkouts):
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError:  # then an agent can make none either
            continue
    try:
        os.close(os.open(os.path.join(home, ".gitconfig"), os.O_CREAT | os.O_RDONLY, 0o644))
    except OSError:
        return


def _is_in(path: str, place: str) -> bool:
    return path == place or path.startswith(os.path.join(place, ""))


def _allowed(rules: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    # Landlock only allows: a folder with a read-only part is replaced by its writable entries
    closed = [path for path, (mode, _) in rules.items() if mode == "ro"]
    opened = [path for path, (mode, _) in rules.items() if mode == "rw"]
    return {path: ("rw", "") for place in opened for path in _open_parts(place, closed)}


def _open_parts(place: str, closed: Sequence[str]) -> Iterator[str]:
    if place in closed:
        return
    below = [path for path in closed if _is_in(path, place)]
    if not below:
        yield place
        return
    try:
        entries = [entry.path for entry in os.scandir(place) if not entry.is_symlink()]
    except OSError:
        return
    for path in entries:
        yield from _open_parts(path, below)


# ---- kinds that the system has


def found() -> str | None:
    """Return the best kind of sandbox on this machine, or ``None`` if no sandbox works."""
    return _found(_machine_as_it_is())


@cache
def _found(machine: str) -> str | None:
    noted = _noted()
    if noted.get("machine") == machine and noted.get("kind") in (None, *(_kind(name) for name in KINDS)):
        return noted["kind"]
    kinds = (_kind(name) for name in KINDS)
    kind = next((kind for kind in kinds if kind and _holds(kind)), None)
    folder = trusted_state.of_user("sandbox")
    if folder:
        try:
            files.write_json(os.path.join(folder, "tried.json"), {"machine": machine, "kind": kind})
        except (OSError, HarnessError):
            return kind
    return kind


def _noted() -> dict[str, Any]:
    folder = trusted_state.of_user("sandbox", make=False)
    try:
        return files.read_json(os.path.join(folder, "tried.json")) if folder else {}
    except (OSError, HarnessError):
        return {}


def _machine_as_it_is() -> str:
    # all that the test of a sandbox depends on
    spaces = [_link(f"/proc/self/ns/{name}") for name in ("user", "mnt", "pid")]
    bwrap = shutil.which("bwrap") or ""
    stamp = os.stat(bwrap).st_mtime_ns if bwrap else 0
    facts = (owner.current().boot_id, os.geteuid(), *spaces, bwrap, stamp, os.uname().release, _TRIED_AT["probe"])
    return " ".join(map(str, facts))


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _kind(name: str) -> str | None:
    if sys.platform != "linux":
        return None
    if name != "bubblewrap":
        return name
    program = shutil.which("bwrap")
    return f"{name}:{os.path.realpath(program)}" if program else None


_TRY = """
echo x > open/a || exit 1
(echo x > closed/b) 2>/dev/null && exit 2
(echo x > open/closed/c) 2>/dev/null && exit 3
umount open/closed 2>/dev/null && exit 4
mount -o remount,bind,rw open/closed 2>/dev/null; (echo x > open/closed/c) 2>/dev/null && exit 5
exit 0"""


@cache
def _holds(kind: str) -> bool:
    """Return True if this kind of sandbox passes a practical test of its write rules."""
    with tempfile.TemporaryDirectory(prefix="harness-try-") as folder:
        top = os.path.realpath(folder)
        for name in ("open/closed", "closed"):
            Path(top, name).mkdir(parents=True)
        rules = {f"{top}/open": ("rw", ""), f"{top}/open/closed": ("ro", "")}
        if _is_in(top, "/dev"):  # open to all; a person's temporary files may be in memory
            rules[top] = ("ro", "")
        network = OPEN if kind == "landlock" else LOOPBACK
        made = _made(kind, "ro", network, _allowed(rules) if kind == "landlock" else _machine() | rules)
        if kind == "landlock":
            made = replace(made, rules=(("rw", f"{top}/open/a", ""), *made.rules))
            Path(top, "open/a").touch()
        try:
            done = command.run(
                _TRY,
                cwd=top,
                env={"PATH": os.environ.get("PATH", os.defpath)},
                timeout_seconds=_PROBE_SECONDS,
                sandbox=made,
            )
        except HarnessError:
            return False
        return done.exit_code == 0
