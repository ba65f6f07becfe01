"""Names and stubs of the test files of new features, in the language and at the place of the project's other tests."""

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from itertools import chain, count
from pathlib import PurePosixPath

from agent_harness.errors import UsageError
from agent_harness.kernel.git import Git
from agent_harness.protocols.features.config import commands
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import FeatureList
from agent_harness.verification.runner_config import is_test_file

_SCRIPTS = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
_RUNNERS = {
    "pytest": ((".py",), "tests/test_feature.py"),
    "go": ((".go",), "feature_test.go"),
    "cargo": ((".rs",), "tests/feature.rs"),
    **dict.fromkeys(("node", "tsx", "npm", "pnpm", "yarn"), (_SCRIPTS, "test/feature.test.mjs")),
    **dict.fromkeys(("vitest", "jest", "mocha"), (_SCRIPTS, "test/feature.test.js")),
}
"""For the name of each test runner, the suffixes of its test files, and the usual place of such a file."""

_NAME = re.compile(r"(test[-_])?.+?((?:[._-](?:test|spec))?\.\w+)")
_PLATFORM = re.compile(r"_(linux|windows|darwin|unix|android|ios|js|wasm|arm|arm64|amd64|386)$")  # Go leaves it out
_IMPORTED = re.compile(r"""(?m)^(import\b|const\b).*["'](node:test|vitest)["']""")


class NewTestFiles:
    def __init__(self, document: FeatureList, runner: str = "pytest", tests: Sequence[str] = ()) -> None:
        known = [f.test_path for f in document.features if f.test_file]
        self._known = {*known, *tests}  # the tests of an existing file may pass already
        suffixes, usual = _RUNNERS.get(runner, (None, None))
        fits = [each for each in tests if suffixes is None or each.endswith(suffixes)]
        places = Counter(os.path.dirname(each) for each in known or fits or filter(None, [usual])).most_common(1)
        self._folder = places[0][0] if places else None
        named = [each for each in (*known, *fits) if is_test_file(each)]
        beside = [each for each in named if os.path.dirname(each) == self._folder] or named
        shapes = Counter(_shape(each) for each in beside or filter(None, [usual])).most_common(1)
        self._before, self._after = shapes[0][0] if shapes else ("", "")

    @classmethod
    def of(cls, project: Project, document: FeatureList) -> "NewTestFiles":
        return cls(document, commands.runner_of(str(project.config.testing.full)), project_tests(project.git))

    def new(self, text: str) -> str:
        """Return an unused test file path. Raise ``UsageError`` if the project's tests are not known."""
        if self._folder is None or not self._after:
            raise UsageError(
                "The harness does not know where this project has its tests, so the feature needs a test file name",
                hint=f"harness add-feature {shlex.quote(text)} --test-file FILE",
            )
        stem = "_".join(re.findall(r"[a-z0-9]+", text.lower()))[:40].strip("_") or "feature"
        if self._after.endswith(".go"):
            stem = _PLATFORM.sub(r"\g<0>_too", stem)
        names = (f"{self._before}{each}{self._after}" for each in chain([stem], (f"{stem}_{n}" for n in count(2))))
        found = next(path for each in names if (path := os.path.join(self._folder, each)) not in self._known)
        self._known.add(found)
        return found


def _shape(path: str) -> tuple[str, str]:
    found = _NAME.fullmatch(os.path.basename(path))
    return (found[1] or "", found[2]) if found else ("", "")


def project_tests(git: Git) -> list[str]:
    """Return the test files in HEAD."""
    return [path for path in git.text("ls-tree", "-r", "--name-only", "-z", "HEAD").split("\0") if is_test_file(path)]


# -- stubs -------------------------------------------------------------------------------------------------------------

_PYTHON = 'import pytest\n\n\ndef test_{name}():\n    pytest.fail("Not implemented")\n'
_RUST = '#[test]\nfn test_{name}() {{\n    panic!("Not implemented");\n}}\n'
_GO = 'package {package}\n\nimport "testing"\n\nfunc {name}(t *testing.T) {{\n\tt.Fatal("Not implemented")\n}}\n'
_SCRIPT = "{imports}{test}({text}, () => {{\n  throw new Error('Not implemented');\n}});\n"


def stub(project: Project, file: str, description: str) -> str | None:
    """Return a failing test for ``file`` in the language of its suffix, or None for an unknown language."""
    path = PurePosixPath(file)
    name = re.sub(r"\W", "_", path.name.partition(".")[0].removeprefix("test_"))
    if path.suffix == ".py":
        return _PYTHON.format(name=name)
    if path.suffix == ".rs":
        return _RUST.format(name=name)
    if path.suffix == ".go":
        return _GO.format(package=_package(project.git, path.parent), name=commands.name_of_tests(file))
    return _script_stub(project, path, description) if path.suffix in _SCRIPTS else None


def _package(git: Git, folder: PurePosixPath) -> str:
    names = git.text("ls-tree", "--name-only", "-z", "HEAD", f"{folder}/").split("\0")
    sources = sorted((each for each in names if each.endswith(".go")), key=is_test_file, reverse=True)
    found = (re.search(rb"(?m)^package\s+(\w+)", git.show("HEAD", each) or b"") for each in sources)
    return next((each[1].decode() for each in found if each), re.sub(r"\W", "_", folder.name) or "main")


def _script_stub(project: Project, path: PurePosixPath, description: str) -> str:
    git, text = project.git, json.dumps(description)
    others = [each for each in project_tests(git) if each.endswith(_SCRIPTS)]
    beside = [each for each in others if PurePosixPath(each).parent == path.parent] or others
    contents = [(git.show("HEAD", each) or b"").decode("utf-8", "replace") for each in beside]
    found = Counter((each[1], each[2]) for text in contents if (each := _IMPORTED.search(text))).most_common(1)
    how, module = found[0][0] if found else ("", "node:test")
    runs_node = commands.runner_of(str(project.config.testing.full)) in ("node", "tsx")
    if not found and (contents or not runs_node):
        return _SCRIPT.format(imports="", test="it", text=text)  # the runner defines it
    if path.suffix in (".mjs", ".mts"):
        how = "import"
    elif not how and not re.search(rb'"type"\s*:\s*"module"', git.show("HEAD", "package.json") or b""):
        how = "const"
    line = "const {{ test }} = require('{}');\n\n" if how == "const" else "import {{ test }} from '{}';\n\n"
    return _SCRIPT.format(imports=line.format(module), test="test", text=text)
