"""Recognition of test files and test runner settings, and rules that tell which changes to settings are harmless.
The rules also find new files that would hide a module of the interpreter, test runner or project. A module that existed
before is not reported. Each rule compares a file's content in the base commit and in the candidate, and returns a
reason or ``None``. ``guard.py`` uses the rules. (C54)"""

import configparser
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Collection
from fnmatch import fnmatch
from pathlib import PurePath, PurePosixPath
from typing import Any

from agent_harness.verification.changes import CandidateChanges, FileChange

TEST_FOLDERS = frozenset({"tests", "test", "__tests__", "spec", "specs", "t"})
_TEST_NAMES = (
    *(
        "test_*.py",
        "*_test.py",
        "*.test.[jt]s*",
        "*.test.[cm][jt]s",
        "*.spec.[jt]s*",
        "*.spec.[cm][jt]s",
        "*_test.go",
        "*_spec.rb",
    ),
    *("*[-_]test.[cm][jt]s", "*[-_]test.[jt]s", "*[-_]test.[jt]sx", "*[-_]spec.[jt]s", "*[-_]spec.[jt]sx", "*_test.rb"),
    *("*.t", "test-*.js", "test-*.[cm]js"),
    *("*Test.java", "*Tests.java", "*TestCase.java", "Test[A-Z]*.java", "*IT.java", "*Test.kt", "*Tests.kt"),
    *("*Spec.kt", "*Spec.groovy", "*Test.php", "*Tests.cs"),
)
JS_SUFFIXES = frozenset({".js", ".cjs", ".mjs", ".jsx", ".ts", ".cts", ".mts", ".tsx"})
_INI_FILES = frozenset({"pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg"})
_TOML_FILES = frozenset({"pytest.toml", ".pytest.toml", "pyproject.toml"})
_OWN_FILES = frozenset({"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"})  # being there is enough
SETTINGS_FILES = sorted(_INI_FILES | _TOML_FILES)
_INI_SECTIONS = ("pytest", "tool:pytest")
_OTHER_RUNNERS = (
    *("jest.config.*", "vitest.config.*", "vitest.workspace.*", "karma.conf.*", ".mocharc.*", "ava.config.*"),
    *("playwright.config.*", "cypress.config.*", ".rspec", "phpunit.xml*"),
    *(".noderc", ".proverc", ".taprc", "build.rs", "go.work", "rust-toolchain*"),
    *(
        "vite.config.*",
        ".env.test*",
        "bunfig.toml",
        "babel.config.*",
        ".babelrc*",
        ".swcrc",
        ".yarnrc*",
        ".pnpmfile.cjs",
    ),
    *("junit-platform.properties", "gradle.properties", "maven.config", "jvm.config"),
)
_ENCODING = b"working-tree-encoding"
_ENTRIES = ("imports", "exports", "main", "module", "browser", "type")
_NPM_SETS = re.compile(
    rb"(?m)^\s*[\"']?(node-options|script-shell|shell|ignore-scripts|prefix|globalconfig)[\"']?(?:\[\])?\s*=(.*)$"
)
"""npm settings that determine which program a package script runs, or how the program is run."""
_PACKAGE_MEMBERS = ("jest", "vitest", "mocha", "ava", "nyc", "c8", "babel", "overrides", "workspaces", *_ENTRIES)
_JAVA_FILES = ("pom.xml", "build.gradle", "build.gradle.kts")
_DEPENDENCIES = re.compile(rb"(?s)<dependencies>.*?</dependencies>|\bdependencies\s*\{[^{}]*\}|\s+")
_CARGO_TABLES = ("lib", "test", "profile", "patch", "replace", "workspace")
HARMLESS = frozenset(  # options that name things or change what is printed, not what is run
    {"markers", "asyncio_mode", "asyncio_default_fixture_loop_scope", "asyncio_default_test_loop_scope"}
    | {"log_cli", "log_cli_level", "log_level", "log_format", "log_date_format", "console_output_style"}
)
_STRICT_SWITCHES = frozenset({"xfail_strict", "strict_xfail", "strict_markers", "strict_config"})
_ON = frozenset({"true", "1", "yes", "on"})
_STRICT_OPTION = re.compile(r"--strict-(markers|config)")
_IGNORE_FILTER = re.compile(r"ignore(:|$)")
_ERROR_FILTER = re.compile(r"error(:[^:]*(:\w*(:[\w.]*)?)?)?")  # a category with a dot would be imported
_RUNNER_MODULES = frozenset(
    {"pytest", "_pytest", "py", "pluggy", "iniconfig", "xdist", "execnet", "pytest_timeout", "agent_harness_recorder"}
    | {"agent_harness_calls"}
)
_START_MODULES = frozenset({"sitecustomize", "usercustomize"})
_MODULE_SUFFIXES = frozenset({".py", ".pyc", ".so", ".pyd"})


def is_test_file(path: str) -> bool:
    pure = PurePosixPath(path)
    is_rust = pure.suffix == ".rs" and (pure.parent.name == "tests" or pure.stem.endswith("tests"))
    return is_rust or "__tests__" in pure.parts or any(fnmatch(pure.name, pattern) for pattern in _TEST_NAMES)


def in_test_folder(path: str) -> bool:
    return not TEST_FOLDERS.isdisjoint(PurePosixPath(path).parts[:-1])


def is_conftest(path: str) -> bool:
    return PurePosixPath(path).name.lower() == "conftest.py"


def is_runner_config(path: str) -> bool:
    """Return True if a file may set which tests run or which results count as passed."""
    name = PurePosixPath(path).name.lower()
    return (
        name in _INI_FILES
        or name in (".gitattributes", ".npmrc")
        or name in _TOML_FILES
        or name in ("package.json", "cargo.toml", *_JAVA_FILES)
        or PurePosixPath(path).parent.name == ".cargo"
        or any(fnmatch(name, pattern) for pattern in _OTHER_RUNNERS)
    )


def harm(path: str, before: bytes | None, after: bytes | None) -> str | None:
    """Return the reason to refuse a change to test runner settings, or None if the change is allowed."""
    name = PurePosixPath(path).name.lower()
    if name in _OWN_FILES and (before is None) != (after is None):
        return "it decides which settings file pytest uses"
    if name in _INI_FILES or name in _TOML_FILES:
        old, new = settings(path, before), settings(path, after)
        if new is None or old is None:
            return None if old == new else "it cannot be read"
        changed = {key for key in {*old, *new} if old.get(key) != new.get(key)} - HARMLESS
        keys = sorted(key for key in changed if not (old and _only_stricter(key, old.get(key), new.get(key))))
        return f"it sets {', '.join(keys)}" if keys else None
    if name == ".gitattributes":  # a checkout in another encoding is another text
        return "it sets an encoding" if _ENCODING in (after or b"") and _ENCODING not in (before or b"") else None
    if name not in (".npmrc", "package.json"):
        rule = _set_by_cargo if name == "cargo.toml" else _set_by_java if name in _JAVA_FILES else None
        return rule(before, after) if rule else "it configures a test runner"
    old, new = (_set_by_npm(text) if name == ".npmrc" else _package(text) for text in (before, after))
    members = {*old, *new} if name == ".npmrc" else ("scripts",)
    keys = sorted(key for key in members if old.get(key) != new.get(key))
    keys += package_members(before, after) if name == "package.json" else []
    return f"it sets {', '.join(keys)}" if keys else None


def _set_by_cargo(before: bytes | None, after: bytes | None) -> str | None:
    try:
        old, new = (tomllib.loads((each or b"").decode()) for each in (before, after))
        was, now = old.get("package", {}), new.get("package", {})
        parts = [(key, old.get(key), new.get(key)) for key in _CARGO_TABLES]
        parts += [(f"package.{key}", was.get(key), now.get(key)) for key in ("autotests", "build", "edition")]
    except (ValueError, RecursionError, AttributeError):
        return "it cannot be read"
    keys = [key for key, one, other in parts if one != other and before is not None]
    for name in ("dev-dependencies", "target"):  # the tests would be built with features that the work is not
        rows = re.findall(r"\{[^{}]*\}", str(new.get(name))) if new.get(name) != old.get(name) else []
        keys += [name] if any("'path':" in row and "'features':" in row for row in rows) else []
    return f"it sets {', '.join(keys)}" if keys else None


def _set_by_java(before: bytes | None, after: bytes | None) -> str | None:
    old, new = (_DEPENDENCIES.sub(b"", text or b"") for text in (before, after))
    return "it sets more than dependencies" if before is not None and old != new else None


def package_members(before: bytes | None, after: bytes | None) -> list[str]:
    """Return the changed members of ``package.json`` that decide which code or which tests run."""
    old, new = _package(before), _package(after)
    return [
        key for key in _PACKAGE_MEMBERS if str(old.get(key)) != str(_without_plain(key, old.get(key), new.get(key)))
    ]


def _without_plain(key: str, old: Any, new: Any) -> Any:
    """Return the new value without added entries that are the same file for everybody."""
    if old is None and key in ("exports", "main", "type") and isinstance(new, str):
        return None
    if key not in ("exports", "imports") or not isinstance(new, dict) or not isinstance(old or {}, dict):
        return new
    plain = {name for name in new if name not in (old or {}) and name[:1] in (".", "#") and isinstance(new[name], str)}
    kept = {name: value for name, value in new.items() if name not in plain}
    return kept if kept or old is not None else None


def _set_by_npm(text: bytes | None) -> dict[str, str]:
    return {key.decode(): value.decode("utf-8", "replace") for key, value in _NPM_SETS.findall(text or b"")}


def _only_stricter(key: str, before: object, after: object) -> bool:
    """Return True if the option's new value can only let more tests fail."""
    if key in _STRICT_SWITCHES:
        return str(after).lower() in _ON
    old, new = _entries(key, before), _entries(key, after)
    if key == "filterwarnings":
        old = [entry for entry in old if entry in new or not _IGNORE_FILTER.match(entry)]  # nothing ignores more
        rest = iter(new)  # the order of the old ones counts; an error anywhere between them only adds failures
        kept, pattern = all(entry in rest for entry in old), _ERROR_FILTER
    elif key == "addopts":  # in front or behind: between two words an option could become the value of another one
        kept, pattern = any(new[at : at + len(old)] == old for at in range(len(new))), _STRICT_OPTION
    else:
        return False
    return kept and all(pattern.fullmatch(entry) for entry in (Counter(new) - Counter(old)).elements())


def _entries(key: str, value: object) -> list[str]:
    if isinstance(value, list):
        return [str(each) for each in value]
    text = value if isinstance(value, str) else ""
    return text.split() if key == "addopts" else [line.strip() for line in text.splitlines() if line.strip()]


def decides(path: PurePath | str, content: bytes | None) -> bool:
    name = PurePath(path).name.lower()
    return content is not None and (name in _OWN_FILES or settings(name, content) != {})


def settings(path: str, content: bytes | None) -> dict[str, Any] | None:
    """Return the pytest options in a file, or None if the file is unreadable."""
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
        return dict.fromkeys((*_PACKAGE_MEMBERS, "scripts"), "unreadable")
    if not isinstance(document, dict):
        return {}
    scripts = document.get("scripts")
    tests = {k: v for k, v in scripts.items() if "test" in k} if isinstance(scripts, dict) else {}
    return {**document, "scripts": tests}


def in_modules(change: FileChange) -> str | None:
    """Return why a changed file takes the place of an installed package of Node, or None if it does not."""
    inside = change.status != "D" and "node_modules" in PurePosixPath(change.path).parts
    return "it takes the place of an installed package" if inside else None


def shadows(change: FileChange, changes: CandidateChanges, roots: Collection[str]) -> str | None:
    """Return why a changed file hides a module or runs at start-up, or None if it does neither."""
    pure = PurePosixPath(change.path)
    if change.status != "D" and (why := _started_from(pure, change.after)):
        return why if change.status == "A" or _started_from(pure, change.before or b"\0") is None else None
    return _takes_place(pure, change, changes, roots) if change.status == "A" else None


def _takes_place(
    pure: PurePosixPath, change: FileChange, changes: CandidateChanges, roots: Collection[str]
) -> str | None:
    folder, module = _top_module(pure, link=change.link)
    if not module or _was_there(folder, module, changes.before):
        return None
    if module in _RUNNER_MODULES and _is_import_root(folder, roots, changes):
        return f"it replaces {module}, which runs the tests"
    if module in sys.stdlib_module_names and _is_import_root(folder, roots, changes):
        return f"it replaces the standard library module {module}"
    mutant = next((root for root in roots if root != folder and _was_there(root, module, changes.before)), None)
    if mutant is not None and _is_import_root(folder, roots, changes):
        return f"it replaces {module} in {mutant or 'the top folder'}"
    return None


def _started_from(pure: PurePosixPath, content: bytes | None) -> str | None:
    if pure.name.split(".")[0].lower() in _START_MODULES and pure.suffix in _MODULE_SUFFIXES:
        return "the interpreter runs it when it starts"
    if pure.suffix == ".pth" and (content is None or b"\0" not in content):
        return "the interpreter reads it when it starts"
    in_metadata = any(part.endswith((".egg-info", ".dist-info")) for part in pure.parts[:-1])
    if pure.name == "entry_points.txt" and in_metadata and b"pytest11" in (b"pytest11" if content is None else content):
        return "it makes pytest load a plugin"
    return None


def _top_module(pure: PurePosixPath, *, link: bool) -> tuple[str, str]:
    name, suffix = pure.name.split(".")[0], pure.suffix
    if pure.name == "__init__.py":
        return _folder(pure.parent), pure.parent.name
    if suffix in _MODULE_SUFFIXES or (link and not suffix):
        return _folder(pure), name
    return "", ""


def _folder(pure: PurePosixPath) -> str:
    return "" if str(pure.parent) == "." else str(pure.parent)


def _was_there(folder: str, module: str, before: Collection[str]) -> bool:
    stem = f"{folder}/{module}" if folder else module
    return f"{stem}.py" in before or f"{stem}/__init__.py" in before


def _is_import_root(folder: str, roots: Collection[str], changes: CandidateChanges) -> bool:
    """Return True if the folder is on the import path, or pytest adds it to that path."""
    if folder in roots:
        return True
    paths = changes.before | changes.after
    if f"{folder}/__init__.py" in paths:
        return False
    inside = [path for path in paths if path.startswith(folder + "/")]
    return any(_basedir(path, paths) == folder for path in inside if is_test_file(path) or is_conftest(path))


def _basedir(path: str, paths: Collection[str]) -> str:
    folder = PurePosixPath(path).parent
    while str(folder) != "." and f"{folder}/__init__.py" in paths:
        folder = folder.parent
    return "" if str(folder) == "." else str(folder)
