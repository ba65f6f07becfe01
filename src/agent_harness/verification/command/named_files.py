"""Search for the files that a check command mentions or loads. The agent's work must not weaken these files. The search
reads the files of the base commit, so that an agent cannot choose which files are protected. A script or test runner
whose exit status is the result is protected. A program is part of the work if the command compares its output (``python
calc.py | grep 3``) or leaves it running (``node server.js &``). So are files that ``grep`` and ``test`` read. Scripts
that set up an environment are protected, but not the programs that they start."""

import ast
import glob
import json
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice, pairwise, product, takewhile
from pathlib import PurePosixPath

from agent_harness.kernel.shell.reader import ShellCommand, read
from agent_harness.kernel.shell.wrappers import SHELLS, executed, name_of, script_file_at, script_of, unwrapped
from agent_harness.verification import sources
from agent_harness.verification.changes import Tree
from agent_harness.verification.check import PYTHON
from agent_harness.verification.command.makefile import DEFAULT_GOAL, Makefile
from agent_harness.verification.command.script_place import placed
from agent_harness.verification.runner_config import TEST_FOLDERS, is_test_file

__all__ = ["EVERYTHING", "EXPECTED", "JUDGE_NAME", "AbsentFile", "Named", "joined", "named_by"]

EVERYTHING = ""  # among the tests: whatever the runner finds
_MOST_FILES = 200  # scripts that are read for further names
_MOST_WAYS = 50  # files that a pattern or a loop stands for
_SHELLS = SHELLS | {".", "source"}
_INTERPRETERS = re.compile(
    r"(python|pypy)[0-9.]*$|node(js)?$|ruby$|perl$|php$|Rscript$|lua[0-9.]*$|julia$|ts-node$|tsx$|bun$|deno$|groovy$"
)
_MODULE, _CODE = re.compile(r"-[A-Za-z]*m$"), re.compile(r"-[A-Za-z]*c$")
_RUNNERS = frozenset(
    {
        "pytest",
        "py.test",
        "unittest",
        "nose2",
        "nosetests",
        "trial",
        "stestr",
        "behave",
        "robot",
        "tox",
        "nox",
        "doctest",
    }
    | {"jest", "vitest", "mocha", "ava", "karma", "playwright", "cypress", "tap", "jasmine", "qunit", "nyc", "c8"}
    | {"rspec", "phpunit", "pest", "bats", "ctest", "shellspec", "busted", "minitest", "gotestsum", "prove"}
)
_SHORT_NAMES = {"test": ("t", "tst")}  # of npm
_OF_NPM = frozenset({"-w", "--workspace", "--prefix", "-C"})  # with a value
_VERBS = frozenset({"run", "watch", "related", "bench"})  # of vitest
_OF_MODULES = frozenset({"unittest", "nose2", "nosetests", "trial"})
"""Test runners whose arguments are module names."""
_BY_PATTERN = frozenset({"-p", "--pattern"})
_TESTING_VERBS = frozenset({"test", "tests", "check", "verify", "t", "nextest", "ci"})
_BUILD_TOOLS = frozenset(
    {"go", "cargo", "mvn", "mvnw", "gradle", "gradlew", "dotnet", "swift", "mix", "rake", "deno", "bun", "sbt", "lein"}
    | {"stack", "cabal", "dune", "zig", "bazel", "flutter", "dart", "rails", "composer", "meson", "ninja"}
    | {"django-admin"}
)
_PACKAGE_MANAGERS = frozenset({"npm", "pnpm", "yarn", "bun"})
_RUN_BY_NAME: Mapping[str, tuple[str, ...]] = {
    "tox": ("tox.ini", "setup.cfg", "pyproject.toml"),
    "nox": ("noxfile.py",),
    "just": ("justfile", "Justfile", ".justfile"),
    "invoke": ("tasks.py",),
    "inv": ("tasks.py",),
    "rake": ("Rakefile",),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "pre-commit": (".pre-commit-config.yaml",),
    "ruff": ("ruff.toml", ".ruff.toml"),
    "flake8": (".flake8",),
    "mypy": ("mypy.ini", ".mypy.ini"),
    "pylint": (".pylintrc", "pylintrc"),
    "pyright": ("pyrightconfig.json",),
    "eslint": (".eslintrc", ".eslintrc.js", ".eslintrc.cjs", ".eslintrc.json", ".eslintrc.yml", "eslint.config.js"),
    "tsc": ("tsconfig.json",),
}
_SETTINGS_FROM = frozenset({"-c", "--config", "--config-file", "--rcfile", "--settings", "-f", "--file", "--makefile"})
_COMPARING = frozenset({"diff", "cmp", "comm"})
EXPECTED = re.compile(r"expect|golden|snapshot|reference|fixture|baseline|approved", re.IGNORECASE)
JUDGE_NAME = re.compile(r"(^|[/_.-])(checks?|verify|validate|tests?|lint|ci|assert|spec|selftest)([/_.-]|$)")
_SHEBANG = re.compile(rb"#!.*\b(sh|bash|dash|zsh|ksh|ash)\b")
_RUNS_TESTS = re.compile(rb"\b(pytest|unittest|nose2?)\b")
_ASSIGNED = re.compile(r"(\w+)=([^$`]*)")
_USED = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_ALL_WORDS = re.compile(r"""(?<=[^\s{;&|(] )(?:"\$[@*]"|\$[@*])""")  # what a script hands on to a command
_PATTERN = re.compile(r"[*?\[]")
_TOOL_FOLDERS = TEST_FOLDERS | {"scripts", "script", "tools", "tool", "ci", ".ci", ".github", "bin", "hack", "checks"}
"""Programs here, and modules in the same folder, judge the work and are not part of it."""
_REQUIRED = re.compile(rb"""(?:require\(|import\(|from|import)\s*['"](\.{1,2}/[^'"]+)['"]""")
_MODULE_ENDS = ("", ".js", ".cjs", ".mjs", ".ts", ".json", "/index.js")
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")  # make reads the first that is there
_IS_PROGRAM = re.compile(r"\.(?:sql|sh|py|pl|rb|js|jq|awk)$")
_ASKING = frozenset({"[", "[[", "test"})
_IS_THERE = frozenset({"-e", "-f", "-r", "-s", "-x"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentFile:
    """Missing file that a command would read or run if it existed."""

    pattern: str
    instead_of: str = ""  # the file whose place it takes
    goals: frozenset[str] | None = None  # of the makefiles that would include it
    beside: str = ""  # their text

    def matches(self, path: str) -> bool:
        return path.count("/") == self.pattern.count("/") and fnmatchcase(path, self.pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Files that affect the verdict on a candidate. Their paths are relative to the project."""

    scripts: frozenset[str] = frozenset()  # scripts, expected output, settings: no change is free
    makefiles: Mapping[str, frozenset[str]] = field(default_factory=dict)  # path -> goals; empty: the first
    beside: Mapping[str, str] = field(default_factory=dict)  # path of a makefile -> the text of those read with it
    packages: Mapping[str, frozenset[str]] = field(default_factory=dict)  # path of a package.json -> names of scripts
    tests: frozenset[str] = frozenset()  # files and folders that a test runner is given; EVERYTHING
    outside: frozenset[str] = frozenset()  # scripts by an absolute path, or that the tree does not have
    absent: frozenset[AbsentFile] = frozenset()  # that may come
    python: bool = False
    texts: tuple[str, ...] = ()  # the command, and the text of every script that it leads to

    @property
    def files(self) -> frozenset[str]:
        return self.scripts | self.makefiles.keys() | self.packages.keys()

    def loads(self, path: str) -> bool:
        """Return True if the commands load this file, or would load it if somebody created it."""
        return path in self.files or any(each.matches(path) for each in self.absent)


@dataclass(slots=True)
class _Names:
    tree: Tree
    sets_up: bool = False  # what its scripts start is the work
    scripts: set[str] = field(default_factory=set)
    makefiles: dict[str, set[str]] = field(default_factory=dict)
    beside: dict[str, str] = field(default_factory=dict)
    values: dict[str, list[str]] = field(default_factory=dict)  # what plain variables and loops of shells stand for
    listed: list[str] = field(default_factory=list)  # what `find` has found, for `xargs`
    packages: dict[str, set[str]] = field(default_factory=dict)
    tests: set[str] = field(default_factory=set)
    outside: set[str] = field(default_factory=set)
    looked_for: set[str] = field(default_factory=set)  # paths of which a script asks whether they are there
    absent: set[AbsentFile] = field(default_factory=set)
    python: bool = False
    texts: list[str] = field(default_factory=list)
    free: list[str] = field(default_factory=list)  # programs of the work, each time that their output is compared

    def is_folder(self, path: str) -> bool:
        return any(each.startswith(f"{path}/") for each in self.tree.paths)


def named_by(command: str, tree: Tree, *, sets_up: bool = False) -> Named:
    """Return the files that ``command`` mentions or loads, directly or through scripts and makefiles."""
    found = _Names(tree, sets_up)
    _read(found, command, "")
    return joined([found])


def joined(all_named: "Sequence[Named | _Names]") -> Named:
    makefiles: dict[str, frozenset[str]] = {}
    packages: dict[str, frozenset[str]] = {}
    for each in all_named:
        makefiles |= {path: makefiles.get(path, frozenset()) | goals for path, goals in each.makefiles.items()}
        packages |= {path: packages.get(path, frozenset()) | names for path, names in each.packages.items()}
    return Named(
        scripts=frozenset().union(*(each.scripts for each in all_named)),
        makefiles=makefiles,
        beside={path: text for each in all_named for path, text in each.beside.items()},
        packages=packages,
        tests=frozenset().union(*(each.tests for each in all_named)),
        outside=frozenset().union(*(each.outside for each in all_named)),
        absent=frozenset().union(*(each.absent for each in all_named)),
        python=any(each.python for each in all_named),
        texts=tuple(text for each in all_named for text in each.texts),
    )


def _read(found: _Names, text: str, folder: str) -> None:
    if len(found.texts) >= _MOST_FILES:
        return
    starts_work = found.sets_up and bool(found.texts)
    found.texts.append(text)
    _list(found, read(text).commands, folder, filtered=starts_work)


def _list(found: _Names, commands: Sequence[ShellCommand], folder: str, *, filtered: bool) -> None:
    """Add the files that shell commands use. If ``filtered`` is True, another program reads the commands' output."""
    waits = any(each.name == "wait" for each in commands)
    folders = [folder]  # one for each open subshell
    free, piped = 0, False
    for command in commands:
        free = free if piped else len(found.free)
        piped = command.after in ("|", "|&")
        for sign in command.before:
            if sign == "(":
                folders.append(folders[-1])
            elif sign == ")" and len(folders) > 1:
                folders.pop()
        for inner in command.substitutes():
            _list(found, inner, folders[-1], filtered=True)
        alone = piped or (command.after == "&" and not waits)
        judges = len(found.free) > free  # what the work prints goes through this command
        folders[-1] = _simple(found, command, folders[-1], filtered=(filtered or alone) and not judges)


def _simple(found: _Names, command: ShellCommand, folder: str, *, filtered: bool) -> str:
    """Add the files that one command uses, and return the folder of the next command."""
    given = command.plain
    for word in given:
        if assigned := _ASSIGNED.fullmatch(word):
            found.values[assigned[1]] = [assigned[2]]
        else:
            break
    if given[:1] == ["for"] and given[2:3] == ["in"]:
        found.values[given[1]] = [each for word in given[3:] for each in _files(found, word, folder)]
        return folder
    for words in map(_without_wrappers, _ways(found, given, folder)):
        if words[:1] == ["cd"]:
            folder = _joined(folder, words[1] if len(words) > 1 else ".") or ""
        for each in _started(found, words, folder) if words and words[0] != "cd" else ():
            _command(found, each, folder, filtered=filtered)
        _read_in(found, [target.text for sign, target in command.redirects if sign == "<"], folder)
        is_shell = name_of(words) in SHELLS and not script_file_at(words)
        if command.document and (is_shell or command.after == "|" or any(">" in sign for sign, _ in command.redirects)):
            _read(found, command.document.text, folder)
    return folder


def _ways(found: _Names, words: Sequence[str], folder: str) -> Iterator[list[str]]:
    """Yield a copy of the words for each combination of values of their loop variables."""
    used = dict.fromkeys(a or b for word in words for a, b in _USED.findall(word))
    names = [name for name in used if found.values.get(name)]
    for values in islice(product(*(found.values[name] for name in names)), _MOST_WAYS):
        known = dict(zip(names, values, strict=True))
        plain = (_USED.sub(lambda m, known=known: known.get(m[1] or m[2], m[0]), word) for word in words)
        yield [each for word in plain for each in _files(found, word, folder)]


def _files(found: _Names, word: str, folder: str) -> list[str]:
    if not _PATTERN.search(word) or "/" not in word + folder:
        return [word]
    wanted = _joined(folder, word)
    depth = wanted.count("/")
    matching = (path for path in sorted(found.tree.paths) if path.count("/") == depth and fnmatchcase(path, wanted))
    return [posixpath.relpath(path, folder or ".") for path in islice(matching, _MOST_WAYS)] or [word]


def _without_wrappers(words: Sequence[str]) -> list[str]:
    """Return a command's words without leading wrappers such as ``timeout 60``."""
    rest = list(words)
    while name_of(rest) != "xargs" and (count := unwrapped(rest)):
        rest = rest[count:]
    return rest


def _command(found: _Names, words: Sequence[str], folder: str, *, filtered: bool) -> None:
    name, rest = PurePosixPath(words[0]).name or words[0], words[1:]
    program = name.removesuffix(".exe")
    if program in _SHELLS or script_of(words) is not None:
        _shell(found, words, folder, filtered=filtered)
    elif program in ("make", "gmake", "remake"):
        _make(found, rest, folder)
    elif program in _PACKAGE_MANAGERS:
        _package(found, program, rest, folder)
    elif program == "coverage" and "run" in rest:
        _interpreted(found, "python", rest[rest.index("run") + 1 :], folder, filtered=filtered)
    elif program in _RUNNERS or (program in _BUILD_TOOLS and _TESTING_VERBS & {*rest}):
        _runner(found, program, rest, folder)
        if "/" in words[0] and _resolved(found, words[0], folder):  # a script that starts a tool, such as ./gradlew
            _script(found, words[0], folder, filtered=False)
    elif _INTERPRETERS.match(program):
        _interpreted(found, program, rest, folder, filtered=filtered)
    elif "/" in words[0] or words[0].endswith((".sh", ".bash")):
        _script(found, words[0], folder, filtered=filtered, handed=rest)
        _handed_on(found, rest, folder, filtered=filtered)
    _looked_at(found, program, rest, folder)
    _by_name(found, program, rest, folder)


def _looked_at(found: _Names, program: str, rest: Sequence[str], folder: str) -> None:
    if program == "cat":
        _read_in(found, rest, folder)
    if program in _COMPARING:
        found.scripts.update(path for path in _paths(found, rest, folder) if EXPECTED.search(path))
    if program in _ASKING:
        after = (_joined(folder, then) for word, then in pairwise(rest) if word in _IS_THERE)
        found.looked_for.update(filter(None, after))


def _read_in(found: _Names, words: Sequence[str], folder: str) -> None:
    found.scripts.update(p for p in _paths(found, words, folder) if JUDGE_NAME.search(p) and _IS_PROGRAM.search(p))


def _started(found: _Names, words: Sequence[str], folder: str) -> list[list[str]]:
    """Return the commands that ``find`` or ``xargs`` starts. For any other program, return the command itself."""
    program, *rest = words
    if program not in ("find", "xargs"):
        return [list(words)]
    if program == "xargs":
        inner = _without_wrappers(words[unwrapped(words) or len(words) :])
        handed = "{}" in inner
        return [[path if word == "{}" else word for word in inner] + [path] * (not handed) for path in found.listed]
    roots = [_joined(folder, each) for each in takewhile(lambda word: not word.startswith(("-", "(", "!")), rest)] or [
        folder
    ]
    names = [rest[at + 1] for at, word in enumerate(rest[:-1]) if word in ("-name", "-iname", "-path", "-wholename")]
    below = (
        p for p in sorted(found.tree.paths) if any(not root or p == root or p.startswith(f"{root}/") for root in roots)
    )
    wanted = (p for p in below if all(fnmatchcase(p.rpartition("/")[2], n) or fnmatchcase(p, n) for n in names))
    found.listed = [posixpath.relpath(path, folder or ".") for path in islice(wanted, _MOST_WAYS)] if names else []
    started = [_without_wrappers(words[start:end]) for start, end in executed(words)]
    return [[path if word == "{}" else word for word in inner] for inner in started for path in found.listed]


def _shell(found: _Names, words: Sequence[str], folder: str, *, filtered: bool) -> None:
    """Add the files that a shell command such as ``sh X`` or ``eval TEXT`` uses."""
    script, at = script_of(words), script_file_at(words)
    if script is not None:
        _read(found, script, folder)
    if name_of(words) in _SHELLS and at and words[at] != script:
        _script(found, words[at], folder, filtered=filtered, handed=words[at + 1 :])
        _handed_on(found, words[at + 1 :], folder, filtered=filtered)


def _handed_on(found: _Names, words: Sequence[str], folder: str, *, filtered: bool) -> None:
    """Add the test files among the arguments of a script, because the script probably runs these tests."""
    given = {path for word in words if not word.startswith("-") for path in _test_paths(found, word, folder)}
    if not filtered:
        found.tests.update(each for each in given if is_test_file(each) or TEST_FOLDERS & {*each.split("/")})


def _script(
    found: _Names, word: str, folder: str, *, filtered: bool, shell: bool | None = None, handed: Sequence[str] = ()
) -> None:
    """Add a script that a command runs. For a shell script, also add the files that the script uses."""
    if word.startswith("/"):
        found.outside.add(word)
        return
    path = _resolved(found, word, folder)
    if path is None:
        found.outside.update({word} if "/" in word or "." in word else ())
        if (place := _joined(folder, word)) in found.looked_for:
            found.absent.add(AbsentFile(pattern=glob.escape(place)))
        return
    content = found.tree.read(path) or b""
    is_shell = shell is not False and (
        path.endswith((".sh", ".bash")) or bool(_SHEBANG.match(content)) or content[:2] != b"#!"
    )
    if filtered and not JUDGE_NAME.search(path) and not (is_shell and _runs_tests(found, path, content, folder)):
        found.free.append(path)
        return
    if path in found.scripts:
        return
    found.scripts.update({path, *({_joined(folder, word)} & found.tree.links.keys())})
    if is_shell and b"\0" not in content:
        outer, found.values = found.values, dict(found.values)
        text = placed(content.decode("utf-8", "replace"), folder=folder, script=path)
        _read(found, _ALL_WORDS.sub(shlex.join(handed).replace("\\", r"\\"), text) if handed else text, folder)
        found.values = outer
    else:
        _stands_on(found, path, content, folder)
    if not is_shell and _RUNS_TESTS.search(content):
        found.python = True
        found.tests.add(EVERYTHING)


def _runs_tests(found: _Names, path: str, content: bytes, folder: str) -> bool:
    if path in found.free or found.sets_up:
        return found.sets_up
    inside = _Names(found.tree, free=[*found.free, path])
    text = placed(content.decode("utf-8", "replace"), folder=folder, script=path)
    _list(inside, read(text).commands, folder, filtered=True)
    return bool(inside.scripts or inside.tests or inside.makefiles or inside.packages)


def _stands_on(found: _Names, path: str, content: bytes, folder: str) -> None:
    """Add the modules and files that a script in a tool folder uses."""
    here, _, name = path.rpartition("/")
    if not _TOOL_FOLDERS & {*here.split("/")}:
        return
    if tree := sources.parse(content) if name.endswith(".py") or b"python" in content[:40] else None:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                modules = [alias.name for alias in node.names]
                if isinstance(node, ast.ImportFrom):
                    modules = [node.module or "", *(f"{node.module or ''}.{each}".strip(".") for each in modules)]
                for each in modules:
                    _beside(found, posixpath.join(here, *each.split(".")), (".py", "/__init__.py"))
                    _beside(found, posixpath.join(posixpath.dirname(here), *each.split(".")), (".py",), within=here)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
                word = _resolved(found, node.value, folder) or _resolved(found, node.value, here)
                if word and (word.endswith((".sh", ".bash")) or EXPECTED.search(word)):
                    _script(found, posixpath.relpath(word, folder or "."), folder, filtered=False)
    for each in _REQUIRED.findall(content) if tree is None else ():
        _beside(
            found, posixpath.normpath(posixpath.join(here, each.decode("utf-8", "replace"))), _MODULE_ENDS, within=here
        )


def _beside(found: _Names, stem: str, ends: Sequence[str], *, within: str = "") -> None:
    for path in (f"{stem}{end}" for end in ends):
        if path in found.tree.paths and path not in found.scripts and path.startswith(f"{within}/" if within else ""):
            found.scripts.add(path)
            _stands_on(found, path, found.tree.read(path) or b"", "")


def _interpreted(found: _Names, program: str, rest: Sequence[str], folder: str, *, filtered: bool) -> None:
    is_python = bool(PYTHON.match(program))
    found.python = found.python or is_python
    if "--test" in rest and not is_python:
        _runner(found, program, rest, folder)
    for at, word in enumerate(rest):
        if is_python and _MODULE.match(word) and at + 1 < len(rest):
            _module(found, rest[at + 1], rest[at + 2 :], folder, filtered=filtered)
            return
        if _CODE.match(word) if is_python else word in ("-e", "-p", "--eval", "--print"):
            return
        path = None if word.startswith("-") or word in ("run", "exec") else _resolved(found, word, folder)
        if path is None:
            continue
        if is_test_file(path):
            found.tests.add(path)
        else:
            _script(found, word, folder, filtered=filtered, shell=False)
            _handed_on(found, rest[at + 1 :], folder, filtered=filtered)
        if _TESTING_VERBS & {*rest[at + 1 :]}:  # manage.py test
            found.tests.add(EVERYTHING)
        return


def _module(found: _Names, module: str, rest: Sequence[str], folder: str, *, filtered: bool) -> None:
    if module in _RUNNERS:
        _runner(found, module, rest, folder)
        return
    if module == "coverage" and "run" in rest:
        _interpreted(found, "python", rest[rest.index("run") + 1 :], folder, filtered=filtered)
        return
    stem = module.replace(".", "/")
    for word in (f"{stem}.py", f"{stem}/__main__.py"):
        if _resolved(found, word, folder):
            _script(found, word, folder, filtered=filtered, shell=False)


def _runner(found: _Names, program: str, rest: Sequence[str], folder: str) -> None:
    """Add the test paths among a test runner's arguments. Without such paths, add the whole folder."""
    found.python = found.python or program in ("pytest", "py.test", "unittest", "nose2", "nosetests", "tox", "nox")
    given: set[str] = set()
    patterns: list[str] = []
    before = ""
    for word in rest:
        name, _, value = word.partition("=")
        if before in _SETTINGS_FROM or (name in _SETTINGS_FROM and value):
            found.scripts.update(_paths(found, [value or word], folder))
        elif program == "unittest" and _BY_PATTERN & {before, name}:
            patterns.append(value or word)
        elif not word.startswith("-"):
            named = {*_test_paths(found, word, folder, modules=program in _OF_MODULES)}
            given |= named or _matching(found, program, before, word)
        before = word
    given = given or {_joined(folder, ".") or EVERYTHING}
    by_pattern = (path for path in found.tree.paths if any(fnmatchcase(path.rpartition("/")[2], p) for p in patterns))
    other_names = (path for path in by_pattern if not is_test_file(path))
    below = (p for p in other_names if any(place == EVERYTHING or p.startswith(f"{place}/") for place in given))
    found.tests.update(given, [*below])


def _test_paths(found: _Names, word: str, folder: str, *, modules: bool = False) -> Iterator[str]:
    """Yield the test file or folder that a path, node id or dotted name means."""
    file = word.partition("::")[0].rstrip("/")
    path = _resolved(found, file, folder)
    if path:
        yield path
        return
    joined = _joined(folder, file.removesuffix("/..."))
    if joined == EVERYTHING and file in (".", "./...", "./"):
        yield EVERYTHING
    elif joined and found.is_folder(joined):
        yield joined
    elif ("." in file or modules) and "/" not in file:
        parts = file.split(".")
        stems = ("/".join(parts[:end]) for end in range(len(parts), 0, -1))
        yield from list(filter(None, (_resolved(found, f"{stem}.py", folder) for stem in stems)))[:1]


def _matching(found: _Names, program: str, before: str, word: str) -> set[str]:
    chooses = program in ("jest", "vitest") and before not in ("-t", "--testNamePattern") and word not in _VERBS
    return {path for path in found.tree.paths if word in path and is_test_file(path)} if chooses else set()


def _make(found: _Names, rest: Sequence[str], folder: str) -> None:
    goals: list[str] = []
    files: list[str] = []
    before = ""
    for word in rest:
        if before in ("-C", "--directory") or word.startswith("--directory="):
            folder = _joined(folder, word.removeprefix("--directory=")) or ""
        elif before in ("-f", "--file", "--makefile"):
            files.append(word)
        elif word.startswith("-C") and len(word) > 2:
            folder = _joined(folder, word[2:]) or ""
        elif not word.startswith("-") and "=" not in word and before not in ("-j", "-l", "-o", "-W", "-I"):
            goals.append(word)
        before = word
    names = files or list(_MAKEFILES)
    name = next((name for name in names if _resolved(found, name, folder)), "")
    path = _resolved(found, name, folder)
    if path is None or {*(goals or [DEFAULT_GOAL])} <= found.makefiles.get(path, set()):
        return
    for place in (_joined(folder, each) for each in ([] if files else names[: names.index(name)])):
        found.absent.add(AbsentFile(pattern=glob.escape(place), instead_of=path))
    _made_by(found, path, goals, folder)


def _made_by(found: _Names, path: str, goals: Sequence[str], folder: str) -> None:
    texts = _included(found, path, folder)
    makefile = Makefile.parse("\n".join(texts.values()))
    fresh = {*(goals or [DEFAULT_GOAL, *makefile.first_goal()])} - found.makefiles.get(path, set())
    reached = {target for rule in makefile.reached(fresh) for target in rule.targets}
    for each in texts:
        found.makefiles.setdefault(each, set()).update(fresh, reached)
        found.beside[each] = "\n".join(text for other, text in texts.items() if other != each)
    for word, optional in makefile.includes():
        pattern = _joined(folder, word)
        if "$" not in word and pattern not in found.tree.paths and (optional or _PATTERN.search(word)):
            known = frozenset(found.makefiles[path])
            found.absent.add(AbsentFile(pattern=pattern, goals=known, beside="\n".join(texts.values())))
    for text in makefile.recipes(fresh):
        _read(found, text, folder)


def _included(found: _Names, path: str, folder: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    queue = [path]
    while queue and len(texts) < _MOST_FILES:
        each = queue.pop(0)
        if each in texts:
            continue
        texts[each] = (found.tree.read(each) or b"").decode("utf-8", "replace")
        words = [
            word
            for name, _ in Makefile.parse("\n".join(texts.values())).includes()
            for word in _files(found, name, folder)
        ]
        queue += _paths(found, words, folder)
    return texts


def _package(found: _Names, program: str, rest: Sequence[str], folder: str) -> None:
    """Add the files that a package manager command such as ``npm test`` uses."""
    if rest and (rest[0] in _RUNNERS or (program == "bun" and rest[0] == "test")):
        _runner(found, rest[0], rest[1:], folder)
    before = ""
    for word in rest:
        if before in ("--prefix", "-C", "--cwd", "--dir"):
            folder = _joined(folder, word) or ""
        before = word
    path = _resolved(found, "package.json", folder)
    scripts = package_scripts(found.tree.read(path)) if path else {}
    wanted = {"test" if word in _SHORT_NAMES["test"] else word for word in rest} & scripts.keys()
    if path is None or not wanted:
        return
    known = found.packages.setdefault(path, set())
    for name in sorted(wanted):
        for each in (f"pre{name}", name, f"post{name}"):
            if each in scripts and each not in known:
                known.add(each)
                handed = shlex.join(_behind(program, name, rest)) if each == name else ""
                _read(found, f"{scripts[each]} {handed}".rstrip(), folder)


def _behind(program: str, name: str, rest: Sequence[str]) -> list[str]:
    begin = next((at + 1 for at, word in enumerate(rest) if word in (name, *_SHORT_NAMES.get(name, ()))), len(rest))
    end = rest.index("--") if "--" in rest else len(rest)
    # npm passes no options that precede ``--``
    own = [
        word
        for before, word in pairwise(("", *rest[begin:end]))
        if program != "npm" or not (word.startswith("-") or before in _OF_NPM)
    ]
    return [*own, *rest[max(begin, end + 1) :]]


def package_scripts(content: bytes | None) -> dict[str, str]:
    try:
        document = json.loads(content or b"{}")
    except (ValueError, RecursionError):
        return {}
    scripts = document.get("scripts") if isinstance(document, dict) else None
    return {k: v for k, v in scripts.items() if isinstance(v, str)} if isinstance(scripts, dict) else {}


def _by_name(found: _Names, program: str, rest: Sequence[str], folder: str) -> None:
    given = [rest[at + 1] for at, word in enumerate(rest[:-1]) if word in _SETTINGS_FROM]
    names = [*_RUN_BY_NAME.get(program, ()), *(given if program in _RUN_BY_NAME else ())]
    # settings that several programs share do not count
    shared = {"setup.cfg", "pyproject.toml"}
    for path in filter(None, (_resolved(found, name, folder) for name in names)):
        if PurePosixPath(path).name not in shared:
            found.scripts.add(path)
    if program in ("just", "nox", "invoke", "inv", "rake", "task", "tox"):
        found.tests.add(EVERYTHING)


def _paths(found: _Names, words: Sequence[str], folder: str) -> list[str]:
    return [path for word in words if (path := _resolved(found, word, folder))]


def _resolved(found: _Names, word: str, folder: str) -> str | None:
    path = _joined(folder, word)
    seen: set[str] = set()
    while path in found.tree.links and path not in seen:
        seen.add(path)
        path = found.tree.links[path]
    return path if path in found.tree.paths else None


def _joined(folder: str, word: str) -> str:
    path = posixpath.normpath(posixpath.join(folder, word)) if word else ""
    return "" if path == "." else path
