"""Files that are tests or steer a test runner, and which changes to the latter cannot bend a result.

Rules for ``guard.py``: base and candidate content in, a reason or ``None`` out (C54).
"""

import configparser
import json
import tomllib
from fnmatch import fnmatch
from pathlib import PurePath, PurePosixPath
from typing import Any

_TEST_NAMES = (
    "test_*.py",
    "*_test.py",
    "*.test.[cm]?[jt]s*",
    "*.test.[jt]s*",
    "*.spec.[jt]s*",
    "*_test.go",
    "*_spec.rb",
)
_INI_FILES = frozenset({"pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg"})
_TOML_FILES = frozenset({"pytest.toml", ".pytest.toml", "pyproject.toml"})
_OWN_FILES = frozenset({"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"})  # being there is enough
SETTINGS_FILES = sorted(_INI_FILES | _TOML_FILES)
_INI_SECTIONS = ("pytest", "tool:pytest")
_OTHER_RUNNERS = (
    *("jest.config.*", "vitest.config.*", "vitest.workspace.*", "karma.conf.*", ".mocharc.*", "ava.config.*"),
    *("playwright.config.*", "cypress.config.*", ".rspec", "phpunit.xml*"),
)
_ENCODING = b"working-tree-encoding"
_PACKAGE_MEMBERS = ("scripts", "jest", "vitest", "mocha", "ava")
HARMLESS = frozenset(  # options that name things or change what is printed, not what is run
    {"markers", "asyncio_mode", "asyncio_default_fixture_loop_scope", "asyncio_default_test_loop_scope"}
    | {"log_cli", "log_cli_level", "log_level", "log_format", "log_date_format", "console_output_style"}
)


def is_test_file(path: str) -> bool:
    """A file that test runners collect by its name, or that lies in ``__tests__``."""
    pure = PurePosixPath(path)
    return any(fnmatch(pure.name, pattern) for pattern in _TEST_NAMES) or "__tests__" in pure.parts


def is_conftest(path: str) -> bool:
    """A ``conftest.py`` at any depth; case does not matter on some file systems."""
    return PurePosixPath(path).name.lower() == "conftest.py"


def is_runner_config(path: str) -> bool:
    """A file whose content can change which tests run and what counts as passed."""
    name = PurePosixPath(path).name.lower()
    return (
        name in _INI_FILES
        or name == ".gitattributes"
        or name in _TOML_FILES
        or name == "package.json"
        or any(fnmatch(name, pattern) for pattern in _OTHER_RUNNERS)
    )


def harm(path: str, before: bytes | None, after: bytes | None) -> str | None:
    """Why this change of a runner's configuration is not accepted, or ``None``; ``None`` content is no file."""
    name = PurePosixPath(path).name.lower()
    if name in _OWN_FILES and (before is None) != (after is None):
        return "it decides alone which settings count"
    if name in _INI_FILES or name in _TOML_FILES:
        old, new = settings(path, before), settings(path, after)
        if new is None or old is None:
            return None if old == new else "it cannot be read"
        keys = sorted(key for key in {*old, *new} if old.get(key) != new.get(key) and key not in HARMLESS)
        return f"it sets {', '.join(keys)}" if keys else None
    if name == ".gitattributes":  # a checkout in another encoding is another text
        return "it sets an encoding" if _ENCODING in (after or b"") and _ENCODING not in (before or b"") else None
    if name == "package.json":
        old, new = _package(before), _package(after)
        keys = sorted(key for key in _PACKAGE_MEMBERS if old.get(key) != new.get(key))
        return f"it sets {', '.join(keys)}" if keys else None
    return "it steers a test runner"


def decides(path: PurePath | str, content: bytes | None) -> bool:
    """True for a file that pytest takes as its settings, and then looks no further."""
    name = PurePath(path).name.lower()
    return content is not None and (name in _OWN_FILES or settings(name, content) != {})


def settings(path: str, content: bytes | None) -> dict[str, Any] | None:
    """The options for pytest in a file; ``None`` when it cannot be read, empty when it has none."""
    if content is None:
        return {}
    name = PurePosixPath(path).name.lower()
    try:
        text = content.decode()
        return _toml_settings(name, text) if name in _TOML_FILES else _ini_settings(text)
    except (ValueError, configparser.Error, RecursionError):
        return None


def _toml_settings(name: str, text: str) -> dict[str, Any]:
    document = tomllib.loads(text)
    tool = document.get("tool") if name == "pyproject.toml" else None
    table = tool.get("pytest") if isinstance(tool, dict) else document.get("pytest")
    if not isinstance(table, dict):
        return {}
    old_style = table.get("ini_options")
    own = {key: value for key, value in table.items() if key != "ini_options"}
    return {**own, **(old_style if isinstance(old_style, dict) else {})}


def _ini_settings(text: str) -> dict[str, Any]:
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(text)
    return {
        key: value for section in _INI_SECTIONS if parser.has_section(section) for key, value in parser.items(section)
    }


def _package(content: bytes | None) -> dict[str, Any]:
    try:
        document = json.loads(content or b"{}")
    except (ValueError, RecursionError):
        return dict.fromkeys(_PACKAGE_MEMBERS, "unreadable")
    if not isinstance(document, dict):
        return {}
    scripts = document.get("scripts")
    tests = {k: v for k, v in scripts.items() if "test" in k} if isinstance(scripts, dict) else {}
    return {**document, "scripts": tests}
