"""Pytest plugin that reports which tests run, while they run.
The harness loads the plugin with ``-p`` into a project's pytest. The plugin uses only the standard library and pytest,
on Python 3.7 or later. Its folder contains nothing else, so that no harness module becomes importable. The plugin
writes one JSON array per line, ``[pid, kind, ...]``, to a named pipe. The harness reads the pipe immediately, so a
report cannot be changed later. Code in the same process can still report false results (``docs/verification.md``)."""

from __future__ import annotations

import argparse
import json
import linecache
import os
import pathlib
import sys
import tempfile
import unittest

import agent_harness_calls
import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

_SETTINGS: dict[str, Any] = json.loads(os.environ.get("AGENT_HARNESS_WITNESS", "{}"))
_ADDRESS = _SETTINGS.pop("address", None)
_PID = os.getpid()
_JUDGING = (
    *("pytest_runtest_makereport", "pytest_runtest_logreport", "pytest_runtest_protocol", "pytest_runtest_call"),
    *("pytest_pyfunc_call", "pytest_report_teststatus", "pytest_collection_modifyitems", "pytest_sessionfinish"),
)
_RUNS_NOTHING = ("version", "help", "collectonly", "showfixtures", "show_fixtures_per_test", "markers", "cacheshow")
_DECIDING = ("assert", "fail", "_fail", "run", "_call", "skip", "subTest")  # methods of unittest's TestCase

_functions: dict[tuple[str, ...], object] = {}
_hooks: list[object] = []  # implementations of hooks that were there before tests were collected
_raised: set[tuple[str, str]] = set()
_marks: dict[str, tuple[str, ...]] = {}  # what speaks of skipping in the source, by the id of a test
_told: dict[str, list[Any]] = {"patched": [], "foreign": [], "opened": []}
_opened: set[tuple[str, str]] = set()
_OPENED_LIMIT = 5000
_ROOT = _SETTINGS.get("root") or os.getcwd()
_recorder = agent_harness_calls.Recorder(_SETTINGS["watched"], _ROOT) if "watched" in _SETTINGS else None
_environ = dict(os.environ)

if _ADDRESS:  # neither the tests' own processes nor a pytest inside a test learn the address
    os.environ["AGENT_HARNESS_WITNESS"] = json.dumps(_SETTINGS)
    os.environ.pop("PYTEST_ADDOPTS", None)


def _say(*record: object) -> None:
    # forked children and xdist workers write nothing
    if not _ADDRESS or os.getpid() != _PID or "silent" in _SETTINGS:
        return
    line = (json.dumps([_PID, *record]) + "\n").encode()
    try:
        pipe = os.open(_ADDRESS, os.O_WRONLY | os.O_NONBLOCK)
        os.set_blocking(pipe, True)
    except OSError:
        return
    try:
        while line:
            line = line[os.write(pipe, line) :]
    except OSError:
        pass
    finally:
        os.close(pipe)


def _runner_functions() -> dict[tuple[str, ...], object]:
    """Return the functions and methods of pytest, pluggy and unittest's TestCase, by name."""
    found: dict[tuple[str, ...], object] = {}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in ("pytest", "_pytest", "pluggy"):
            continue
        for key, value in list(vars(module).items()):
            if callable(value):
                found[name, key] = value
            if isinstance(value, type) and value.__module__ == name:
                _add_methods(found, value, name, key)
    _add_methods(found, unittest.TestCase, "unittest", "TestCase")
    return {key: value for key, value in found.items() if key[0] != "unittest" or key[2].startswith(_DECIDING)}


def _add_methods(found: dict[tuple[str, ...], object], owner: type, *names: str) -> None:
    for key, value in list(vars(owner).items()):
        if callable(value) or isinstance(value, (classmethod, staticmethod, property)):
            found[(*names, key)] = value


def _judging_hooks(config: pytest.Config) -> list[Any]:
    return [found for name in _JUDGING for found in getattr(config.hook, name).get_hookimpls()]


def _late(config: pytest.Config) -> list[str]:
    """Return the hooks outside conftests that were registered during the tests and can change test outcomes."""
    found: list[str] = []
    for one in _judging_hooks(config):
        code = getattr(one.function, "__code__", None)
        file = getattr(code, "co_filename", "")
        if not any(one is known for known in _hooks) and pathlib.Path(file).name != "conftest.py":
            found.append(f"a hook came with the tests ({one.plugin_name})")
    return found


def _foreign() -> list[str]:
    """Return the modules that were imported from the agent's folder instead of the checkout."""
    project = _SETTINGS.get("project")
    if not project:
        return []
    kept = tuple(path + os.sep for path in _SETTINGS.get("keep", []))
    found: list[str] = []
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if not isinstance(path, str):
            continue
        for place in (path, os.path.realpath(path)):
            if place.startswith(project + os.sep) and not place.startswith(kept):
                found.append(f"{name} ({path})")
                break
    return found


def _note_opened(event: str, arguments: tuple[Any, ...]) -> None:
    """Record a checkout file that was opened, and the code that opened it."""
    if event not in ("open", "sqlite3.connect") or len(_opened) >= _OPENED_LIMIT:
        return
    if not isinstance(arguments[0], (str, bytes)):
        return
    path, below = os.fsdecode(arguments[0]), _SETTINGS["reads_below"] + os.sep
    if path.endswith(".py") or "__pycache__" in path or set(str(arguments[1:2])) & set("wxa"):
        return
    if path.startswith("/") and not path.startswith(below):
        return
    try:
        path = os.path.abspath(path)
    except OSError:  # the folder is gone
        return
    if not path.startswith(below):
        return
    frame = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith(below):
        frame = frame.f_back
    if frame is not None:
        _opened.add((path[len(below) :], frame.f_code.co_filename[len(below) :]))


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Record the test runner's functions before code of the project runs."""
    # not ``tryfirst``: pytest replaces some of its own functions in such a hook
    if any(getattr(early_config.known_args_namespace, name, None) for name in _RUNS_NOTHING):
        _SETTINGS["silent"] = True
    _functions.update(_runner_functions())
    if "reads_below" in _SETTINGS and hasattr(sys, "addaudithook"):
        sys.addaudithook(_note_opened)
    takes_options = bool(early_config.pluginmanager.hasplugin("junitxml"))
    _say("start", pytest.__version__, sys.executable, takes_options)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    _hooks.extend(_judging_hooks(session.config))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = _SETTINGS.get("select")
    if not wanted:
        return
    ids = set(json.loads(pathlib.Path(wanted).read_text(encoding="utf-8")))
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        file, colons, name = item.nodeid.partition("::")
        without_parameters = file + colons + name.partition("[")[0]
        (kept if item.nodeid in ids or without_parameters in ids else dropped).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=dropped)


def pytest_collection_finish(session: pytest.Session) -> None:
    _say("collected", len(session.items))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(ids: list[str]) -> None:
    _say("collected", len(ids))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _say("result", report.nodeid, "collect", "failed")


def pytest_runtest_logstart(nodeid: str) -> None:
    _say("test", nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[object]) -> None:
    """Record that a test raised an exception. Other hooks could hide the exception later."""
    if call.excinfo is not None:
        _raised.add((item.nodeid, call.when))
    _marks[item.nodeid] = (
        *(name for name in ("skip", "skipif", "xfail") if item.get_closest_marker(name)),
        *("skip" for name in ("obj", "cls") if getattr(getattr(item, name, None), "__unittest_skip__", False)),
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.outcome == "passed" and (report.nodeid, report.when) in _raised:
        _told["patched"].append(f"{report.nodeid} raised and was reported as passed")
    _raised.discard((report.nodeid, report.when))
    if report.nodeid in _marks:
        vars(report)["agent_harness_marks"] = list(
            _marks[report.nodeid]
        )  # a worker of xdist hands it on with the report
    if report.outcome == "skipped" and not _may_skip(report):
        _say("gave up", report.nodeid)
    crash = getattr(report.longrepr, "reprcrash", None) if report.failed else None
    asserted = str(getattr(crash, "message", "")).startswith(("assert", "AssertionError", "Failed"))
    line = linecache.getline(str(crash.path), crash.lineno) if crash is not None else ""
    _say("result", report.nodeid, report.when, report.outcome, asserted, line.lstrip().startswith("assert"))


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    """Trace objects that fixtures create, because tests may call their methods."""
    if _recorder is not None:
        _recorder.start(records=False)
    yield
    if _recorder is not None:
        _recorder.stop()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    if _recorder is not None:
        _recorder.start()
    yield
    if _recorder is not None:
        _recorder.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Repeat the recorded calls inside one test, and skip the project's tests."""
    if "again" not in _SETTINGS or not session.items:
        return
    calls = json.loads(pathlib.Path(_SETTINGS["again"]).read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    source = "def test_answers(function, given, named):\n    return function(*given, **named)\n"
    exec(compile(source, str(session.items[0].fspath), "exec"), names)  # noqa: S102
    os.environ["PYTEST_CURRENT_TEST"] = f"{session.items[0].nodeid} (call)"
    tempfile.tempdir = tempfile.mkdtemp()  # what is brought back below the folder of all is not a place to write to
    again = agent_harness_calls.Again(_ROOT, tempfile.tempdir, str(_ADDRESS))
    sys.setprofile(lambda *_: None)  # as while the calls were recorded
    answers = again.answers(calls, names["test_answers"])
    sys.setprofile(None)
    for at in range(0, len(answers), 100):
        _say("answers", answers[at : at + 100])
    os._exit(0)  # nothing may be written any more


def _around() -> dict[str, Any]:
    """Return the facts needed to repeat the calls: import paths, program name and environment variables."""
    below = os.path.realpath(_ROOT)
    places = [os.path.realpath(path or below) for path in sys.path]
    inside = [os.path.relpath(path, below) for path in places if (path + os.sep).startswith(below + os.sep)]
    new = {name: text for name, text in os.environ.items() if _environ.get(name) != text and len(text) < 1000}
    program = argparse.ArgumentParser().prog
    return {
        "paths": inside,
        "program": program,
        "variables": {name: text for name, text in new.items() if not name.startswith("PYTEST_")},
    }


def _may_skip(report: pytest.TestReport) -> bool:
    marks: list[str] = getattr(report, "agent_harness_marks", [])
    return "xfail" in marks if hasattr(report, "wasxfail") else report.when == "setup" and len(marks) > 0


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    now = _runner_functions()
    _told["patched"] += [".".join(key) for key, value in _functions.items() if now.get(key) is not value]
    _told["patched"] += _late(session.config)
    _told["foreign"] += _foreign()
    _told["opened"] += sorted(_opened)
    if _recorder is not None:
        calls = _recorder.calls
        for at in range(0, len(calls), 20):
            _say("calls", calls[at : at + 20])
        _say("flows", _recorder.flows[:100])
        _say("unkept", _recorder.unkept)
        _say("around", _around())
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["agent_harness_recorder"] = _told
    for at in range(0, len(_told["opened"]), 1000):
        _say("opened", _told["opened"][at : at + 1000])
    _say("finish", int(exitstatus), _told["patched"][:20], sorted(set(_told["foreign"]))[:20])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    for key, values in (getattr(node, "workeroutput", None) or {}).get("agent_harness_recorder", {}).items():
        _told[key] += values
