"""No test sees the real home directory, the caller's git settings, an agent's credentials or the network."""

import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

_DROPPED = (
    "HARNESS_",
    "GIT_",
    "ANTHROPIC_",
    "OPENAI_",
    "GEMINI_",
    "CLAUDE",
    "XDG_",
    "PYTEST_ADDOPTS",
    "PYTHONDONTWRITEBYTECODE",  # every start of the harness would take long
    "MAKE",  # an outer make hands its flags to inner ones
    "PYTEST_PLUGINS",
    "CI",  # the program is plain where it is set, and tests look at what people see
    "FORCE_COLOR",
    "COLUMNS",
    "LINES",
)
_NOWHERE = "http://127.0.0.1:9"


def pytest_configure(config: pytest.Config) -> None:
    """Before any test module is read: property tests have their size, and sockets reach only this machine."""
    _set_property_profile()
    _keep_to_loopback()
    _hear_signals()
    _own_temporary_folder(config)


def _own_temporary_folder(config: pytest.Config) -> None:
    """Fixtures of a whole session start pytest too. In the folder of all it would first remove what older runs left."""
    tempfile.gettempdir()  # for pytest itself, which names its folder later
    folder = tempfile.mkdtemp(prefix="agent-harness-tests-")
    os.environ["TMPDIR"] = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def _hear_signals() -> None:
    """Under ``nohup`` or behind ``&`` signals are ignored, and every program that a test starts would inherit that."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test marked ``kept`` the variants that it does not name are ``exhaustive``: they go the way of one it names.

    Which ones these are does not depend on what else was asked for.
    """
    found: dict[str, set[str]] = {}
    named: dict[str, set[str]] = {}
    for item in items:
        kept, variant = item.get_closest_marker("kept"), getattr(item, "callspec", None)
        if kept is None or variant is None:
            continue
        test = item.nodeid.partition("[")[0]
        found.setdefault(test, set()).add(variant.id)
        named[test] = {*kept.args}
        if variant.id not in kept.args:
            item.add_marker(pytest.mark.exhaustive)
    if not any("::" in word for word in config.args):
        for test, names in named.items():
            if unknown := names - found[test]:
                raise pytest.UsageError(f"{test} keeps variants that it does not have: {sorted(unknown)}")


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("home")
    temporary = tmp_path_factory.mktemp("tmp")
    for name in [n for n in os.environ if n.startswith(_DROPPED)]:
        monkeypatch.delenv(name)
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Test Person\n\temail = person@localhost\n[init]\n\tdefaultBranch = main\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / ".cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / ".local/state"))
    monkeypatch.setenv("TMPDIR", str(temporary))  # state goes there when the home cannot be written
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("HARNESS_VERIFICATION__TRUST", "fast")  # two runs less a verdict, where it is about others
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, _NOWHERE)
    monkeypatch.setenv("no_proxy", "localhost,127.0.0.1,::1")
    yield home


def _set_property_profile() -> None:
    """`small`, the same examples every time; `thorough`, fresh ones, as many as HARNESS_PROPERTY_EXAMPLES says."""
    examples = int(os.environ.get("HARNESS_PROPERTY_EXAMPLES") or 0)
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    settings.register_profile("small", max_examples=25, derandomize=True, deadline=None, suppress_health_check=slow)
    settings.register_profile(
        "thorough", max_examples=examples or 1000, deadline=None, print_blob=True, suppress_health_check=slow
    )
    settings.load_profile("thorough" if examples else "small")


def _keep_to_loopback() -> None:
    """Sockets of this process connect to this machine only, and names of other machines are not looked up."""
    connect, connect_ex, look_up = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def checked(address: Any) -> None:
        host = address[0] if isinstance(address, tuple) and address else None
        if isinstance(host, str) and not _is_here(host):
            raise RuntimeError(f"a test reached for the network: {address!r}")

    def guarded_connect(self: socket.socket, address: Any) -> None:
        checked(address)
        return connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        checked(address)
        return connect_ex(self, address)

    def guarded_look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        checked((host,))
        return look_up(host, *args, **kwargs)

    for name, guarded in (("connect", guarded_connect), ("connect_ex", guarded_connect_ex)):
        setattr(socket.socket, name, guarded)
    socket.getaddrinfo = guarded_look_up


def _is_here(host: str) -> bool:
    return host in {"", "localhost", "::1", "0.0.0.0", "::", socket.gethostname()} or host.startswith("127.")
