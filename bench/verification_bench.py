"""How long a whole verification takes, as a multiple of one bare run of the same suite.

The suite waits most of its time, as real suites do. A verification runs the rules, the feature's own tests, the whole
suite, the same tests on the code before, and a linter; each in a fresh checkout. With ``trust: normal`` it also asks
sabotaged twins, and makes calls of the work again outside of tests. Three quick tests show the other end: there the
price is how often a test runner is started.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import timing

from agent_harness.kernel.git import Git
from agent_harness.verification.judge import judge
from agent_harness.verification.protected_files import SessionClaim
from agent_harness.verification.runner.environment import resolve
from agent_harness.verification.verdict import Strictness

TESTS, SECONDS, ROUNDS = 300, 20.0, 2
FILES = 30
SUITE = f"{sys.executable} -m pytest tests -q"
OWN = "tests/test_new.py"


def measure(tests: int = TESTS, seconds: float = SECONDS, rounds: int = ROUNDS) -> Mapping[str, float]:
    """The ratio over rounds in which the bare run and the verification take turns."""
    with tempfile.TemporaryDirectory() as folder:
        env = timing.environment(Path(folder))
        os.environ |= {"XDG_CACHE_HOME": str(Path(folder) / "cache")}
        root = Path(folder) / "project"
        base, candidate = _project(root, env, tests=tests, seconds=seconds)
        bare = judged = fast = 0.0
        for _ in range(rounds):
            began = time.perf_counter()
            subprocess.run(SUITE.split(), cwd=root, env=env, capture_output=True, check=True)
            between = time.perf_counter()
            _verify(root, base, candidate, tests)
            after = time.perf_counter()
            _verify(root, base, candidate, tests, Strictness(mutants=False, replay=False))
            bare += between - began
            judged += after - between
            fast += time.perf_counter() - after
    return {"verification": judged / bare, "verification-fast": fast / bare}


def quick() -> Mapping[str, float]:
    """The same of three quick tests."""
    return {f"{name}-quick": ratio for name, ratio in measure(tests=3, seconds=0.03, rounds=6).items()}


def _verify(root: Path, base: str, candidate: str, tests: int, options: Strictness | None = None) -> None:
    proof = f"{sys.executable} -m pytest {OWN} -q"
    lint = f"{sys.executable} -m compileall -q src"
    claim = SessionClaim(
        base=base,
        candidate=candidate,
        proof=proof,
        suite=SUITE,
        lint=lint,
        test_files=[OWN],
        protected=[f"tests/test_{number}.py" for number in range(min(FILES, tests))],
        baseline=[f"tests/test_{n % FILES}.py::test_{n // FILES}" for n in range(tests)],
    )
    verdict = judge(Git(root), claim, environment=resolve(root, [SUITE, lint]), options=options)
    if not verdict.accepted or verdict.findings:
        raise SystemExit(f"the verification did not go as planned: {verdict.findings}")


def _project(root: Path, env: Mapping[str, str], *, tests: int, seconds: float) -> tuple[str, str]:
    """Commits of a project before and after one honest feature."""
    for number in range(min(FILES, tests)):
        mine = range(number, tests, FILES)
        body = "".join(
            f"def test_{at}():\n    time.sleep({seconds / tests})\n    assert add(1, 2) == 3\n\n\n"
            for at, _ in enumerate(mine)
        )
        _write(root / f"tests/test_{number}.py", f"import time\n\nfrom calc import add\n\n\n{body}")
    _write(root / "pytest.ini", "[pytest]\npythonpath = src\n")
    _write(root / "src/calc.py", "def add(a, b):\n    return a + b\n")
    base = _commit(root, env, init=True)
    _write(root / "src/calc.py", "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n")
    _write(root / OWN, "from calc import sub\n\n\ndef test_sub():\n    assert sub(3, 2) == 1\n")
    return base, _commit(root, env)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _commit(root: Path, env: Mapping[str, str], *, init: bool = False) -> str:
    who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    for words in ([["init", "-q"]] if init else []) + [["add", "-A"], [*who, "commit", "-q", "-m", "work"]]:
        subprocess.run(["git", *words], cwd=root, env=env, check=True)
    told = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, env=env, capture_output=True, text=True, check=True)
    return told.stdout.strip()
