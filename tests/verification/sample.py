"""A small real project in a real repository, judged by real runs of pytest."""

import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from agent_harness.kernel.git import Git
from agent_harness.testing.repo import Repo
from agent_harness.verification.judge import judge
from agent_harness.verification.protected_files import SessionClaim
from agent_harness.verification.runner.environment import RunEnvironment, resolve
from agent_harness.verification.verdict import Strictness, Verdict

PYTEST = f"{sys.executable} -m pytest --disable-plugin-autoload"  # whose plugins are most of its start
SUITE = f"{PYTEST} tests/ -v"
ADD, SUB = "tests/e2e/test_add.py", "tests/e2e/test_sub.py"
ADD_IDS = (f"{ADD}::test_one", f"{ADD}::test_two")
STUB = 'import pytest\n\n\ndef test_stub():\n    pytest.fail("Not implemented")\n'
ADD_TEST = (
    "import calc\n\n\ndef test_one():\n    assert calc.add(1, 2) == 3\n\n\n"
    "def test_two():\n    assert calc.add(-1, 1) == 0\n"
)
SUB_TEST = "import calc\n\n\ndef test_sub():\n    assert calc.sub(3, 2) == 1\n"
ADD_CODE = "def add(a, b):\n    return a + b\n"
SUB_CODE = ADD_CODE + "\n\ndef sub(a, b):\n    return a - b\n"
INI = "[pytest]\npythonpath = src\n"
FILES = {
    ".gitignore": "__pycache__/\n.venv/\nnode_modules/\nbuild/\n",
    "pytest.ini": INI,
    "src/calc.py": ADD_CODE,
    ADD: ADD_TEST,
    SUB: STUB,
    "tests/e2e/test_mul.py": STUB,
}
HONEST: Mapping[str, str | None] = {"src/calc.py": SUB_CODE, SUB: SUB_TEST}


class JudgedProject:
    """A project with feature add verified, and sub assigned."""

    environment: RunEnvironment  # once it was resolved

    def __init__(self, root: Path, files: Mapping[str, str | bytes | None] | None = None) -> None:
        """A repository in which these files are committed as ``base``; without them there is none yet."""
        self.root = root
        texts = {path: text for path, text in (files or {}).items() if isinstance(text, str)}
        self.base = ""
        if files is not None:
            Repo.with_files(root, texts)
            self.base = self.repo.head if texts == files else self.commit(files)

    @property
    def repo(self) -> Repo:
        """The repository of ``root``, with the settings of the person who runs the tests."""
        return Repo(self.root, user_settings=True, init=False)

    def sh(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(words, cwd=self.root, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout.strip()

    def git(self, *words: str) -> str:
        return self.repo.git(*words)

    @property
    def client(self) -> Git:
        return Git(self.root)

    def put(self, files: Mapping[str, str | bytes | None]) -> None:
        """Writes files; ``None`` removes one."""
        for path, text in files.items():
            place = self.root / path
            if text is None:
                place.unlink()
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text.encode() if isinstance(text, str) else text)  # executable if it was

    def commit(self, files: Mapping[str, str | bytes | None] | None = None, *, force: Iterable[str] = ()) -> str:
        """Commits everything after writing these files, ignored ones where they are named; the new HEAD."""
        self.put(files or {})
        self.repo.stage()
        for path in force:
            self.git("add", "-f", path)
        return self.repo.commit("work", stage=False).head

    def resolve(self, *commands: str, **settings: Any) -> RunEnvironment:
        self.environment = resolve(self.root, commands or [SUITE], **settings)
        return self.environment

    def judge(
        self,
        candidate: str | Mapping[str, str | bytes | None],
        *,
        test_files: Collection[str] = (SUB,),
        protected: Collection[str] = (ADD,),
        baseline: Collection[str] = ADD_IDS,
        proof: str | None = f"{PYTEST} {SUB} -v",
        suite: str | None = SUITE,
        **settings: Any,
    ) -> Verdict:
        """The verdict on a commit, or on a commit of these files on top of the present folder."""
        commit = candidate if isinstance(candidate, str) else self.commit(candidate)
        settings.setdefault("options", Strictness(replay=False))  # two starts of Python
        terms = {name: settings.pop(name) for name in ("options", "on_step", "stop") if name in settings}
        claim = SessionClaim(
            base=self.base,
            candidate=commit,
            proof=proof,
            suite=suite,
            test_files=test_files,
            protected=protected,
            baseline=baseline,
            **settings,
        )
        return judge(self.client, claim, environment=self.environment, **terms)


def codes(verdict: Verdict) -> list[str]:
    """Return the codes of the findings that rejected a candidate."""
    return [finding.code for finding in verdict.reasons]
