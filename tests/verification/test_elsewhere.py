"""A check of which only the exit status is known, once more as a person runs it, on real commits."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_harness.kernel.process.sandbox import AUTO, INTERFACE, OPEN, SandboxSettings, can_lay
from agent_harness.verification.command.runner import CommandCheck, CommandRunner
from agent_harness.verification.judge import judge_command
from agent_harness.verification.verdict import FAST, Verdict

from .sample import JudgedProject

Make = Callable[..., JudgedProject]

CHECK = 'set -e\n# asks twice\n[ "$(sh prog 3)" = 6 ]\n[ "$(sh prog 21)" = 42 ]\n'


def judged(make_repo: Make, prog: str, **options: object) -> Verdict:
    repo = make_repo({"README.md": "demo\n", "check.sh": CHECK}, resolved=False)
    check = CommandCheck(command="sh check.sh", timeout_seconds=60.0, **options)  # type: ignore[arg-type]
    return judge_command(repo.client, check, base=repo.base, candidate=repo.commit({"prog": prog}))


def only_where(condition: str) -> str:
    return f'if {condition}; then echo $((2 * $1)); else echo "$1"; fi\n'


def codes(verdict: Verdict) -> list[str]:
    return [finding.code for finding in verdict.findings]


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ('[ -n "$CI" ]', "fails when a user runs it"),
        ("echo $PWD | grep -q agent-harness", "fails in another folder"),
        ("! grep -q ref: .git/HEAD", "fails in another folder"),
    ],
)
def test_work_that_is_right_only_where_it_is_judged(make_repo: Make, condition: str, told: str) -> None:
    verdict = judged(make_repo, only_where(condition))

    assert (verdict.accepted, codes(verdict)) == (False, ["answers_differ"])
    assert told in verdict.reasons[0].message
    assert judged(make_repo, only_where(condition), trust=FAST).accepted


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("! [ -e ~/.known ]", "fails with the user's home folder"),
        (
            "git diff --quiet $(git rev-list HEAD | tail -1) -- check.sh",  # the check is the one that was committed
            "fails when only comments in its files are changed",
        ),
    ],
)
def test_what_may_have_an_honest_reason_is_no_proof(
    make_repo: Make, condition: str, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".known").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    verdict = judged(make_repo, only_where(condition))

    assert (verdict.accepted, codes(verdict), verdict.noticed) == (True, [], False)
    assert told in verdict.not_asked


def test_honest_work_passes_there_too(make_repo: Make) -> None:
    verdict = judged(make_repo, 'git log -1 > "$(mktemp)" && echo $((2 * $1))\n')

    assert (verdict.accepted, codes(verdict), verdict.noticed) == (True, [], True)


def test_a_check_that_sees_the_persons_home_changes_nothing_in_it(
    make_repo: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    for name in ("mine", ".cache/demo/mine"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("kept")
    monkeypatch.setenv("HOME", str(home))
    verdict = judged(make_repo, "rm -f ~/mine ~/.cache/demo/mine; echo x > ~/new; echo $((2 * $1))\n")

    assert verdict.accepted
    assert [name for name in ("mine", ".cache/demo/mine", "new") if (home / name).exists()] == [
        "mine",
        ".cache/demo/mine",
    ]


needs_namespaces = pytest.mark.skipif(not can_lay(AUTO), reason="needs namespaces")
MAKEFILE = "check:\n\t@$(MAKE) -s inner\ninner:\n\t@sh check.sh\n"


@needs_namespaces
def test_work_that_is_right_only_without_another_network(make_repo: Make) -> None:
    verdict = judged(make_repo, only_where("[ $(wc -l < /proc/net/route) -le 1 ]"))

    assert codes(verdict) == ["answers_differ"]
    assert "fails when a user runs it" in verdict.reasons[0].message


@needs_namespaces
def test_work_that_is_wrong_only_in_the_folder_of_the_project(make_repo: Make, tmp_path: Path) -> None:
    verdict = judged(make_repo, only_where(f'[ "$PWD" != {tmp_path}/project ]'))

    assert codes(verdict) == ["answers_differ"]


@needs_namespaces
def test_what_is_lent_is_there_at_the_path_of_the_project(make_repo: Make) -> None:
    files = {"check.sh": CHECK, ".gitignore": "node_modules/\n", "node_modules/a/two": "2"}
    repo = make_repo(files, resolved=False)
    (repo.root / "node_modules/a").mkdir(parents=True, exist_ok=True)
    (repo.root / "node_modules/a/two").write_text("2")
    prog = f"echo x > node_modules/.cache; echo $(($(cat {repo.root}/node_modules/a/two) * $1))\n"
    check = CommandCheck(command="sh check.sh", timeout_seconds=60.0)
    verdict = judge_command(repo.client, check, base=repo.base, candidate=repo.commit({"prog": prog}))

    assert (verdict.accepted, verdict.noticed, verdict.not_asked) == (True, True, "")


def test_a_check_that_names_the_project_by_its_path_finds_what_is_in_no_commit_there(make_repo: Make) -> None:
    repo = make_repo({"check.sh": CHECK, ".gitignore": "limit\n"}, resolved=False)
    (repo.root / "limit").write_text("100")
    check = CommandCheck(command=f"sh check.sh && test -s {repo.root}/limit", timeout_seconds=60.0)
    verdict = judge_command(repo.client, check, base=repo.base, candidate=repo.commit({"prog": "echo $((2 * $1))\n"}))

    assert (verdict.accepted, verdict.noticed, verdict.not_asked) == (True, True, "")


@pytest.mark.parametrize(
    ("condition", "files", "found", "told"),
    [
        ("true", {}, [], ""),
        ("true", {"Makefile": f"SHELL := /bin/bash\n{MAKEFILE}\t@[[ -n $$MAKELEVEL ]]\n"}, [], ""),
        ('[ -n "$MAKELEVEL" ]', {}, ["answers_differ"], ""),
        (
            '[ -n "$MAKELEVEL" ]',
            {"README.md": "Needs MAKELEVEL\n"},
            [],
            "when it cannot detect which program started it",
        ),
    ],
)
def test_work_that_is_right_only_where_make_has_started_it(
    make_repo: Make, condition: str, files: dict[str, str], found: list[str], told: str
) -> None:
    repo = make_repo({"Makefile": MAKEFILE, "check.sh": CHECK, **files}, resolved=False)
    check = CommandCheck(command="make -s check", timeout_seconds=60.0)
    candidate = repo.commit({"prog": only_where(condition)})
    verdict = judge_command(repo.client, check, base=repo.base, candidate=candidate)

    assert codes(verdict) == found
    assert told in verdict.not_asked
    assert verdict.noticed == (not told)


@pytest.mark.skipif(not shutil.which("npm"), reason="needs npm")
def test_work_that_is_right_only_where_npm_has_started_it(make_repo: Make) -> None:
    test = 'import { d } from "./lib.mjs"; import { equal } from "node:assert"; equal(d(3), 6); equal(d(4), 8);\n'
    package = '{"type": "module", "scripts": {"test": "node --test a.test.mjs"}}'
    repo = make_repo({"package.json": package, "a.test.mjs": test}, resolved=False)
    check = CommandCheck(command="npm test", timeout_seconds=60.0)
    mark = 'process.env[["npm", "lifecycle", "event"].join("_")]'
    candidate = repo.commit({"lib.mjs": f"export const d = (x) => ({mark} ? 2 * x : 0);\n"})
    verdict = judge_command(repo.client, check, base=repo.base, candidate=candidate)

    assert codes(verdict) == ["answers_differ"]


UNITTEST = """\
import unittest
from pathlib import Path
from unittest import mock
import work

class TestWork(unittest.IsolatedAsyncioTestCase):
    def test_double(self):
        for number, double in ((3, 6), (21, 42)):
            with self.subTest(number), mock.patch("work.SPARE", 2):
                self.assertEqual(work.double(number), double)

    async def test_log(self):
        with self.assertLogs(level="INFO"), self.assertRaises(unittest.SkipTest):
            work.logging.info("said")
            self.skipTest("caught")
"""
SCRIPT = """\
import subprocess, sys
from pathlib import Path
import work
assert (Path(*sys.argv).parent / "check.py").exists()
assert Path(sys.executable).exists()
used = subprocess.run([sys.executable, "work.py"], capture_output=True, text=True).stdout
assert used == "usage: work.py\\n"
assert work.double(3) == 6
assert work.double(21) == 42
"""
WORK = """\
import logging, os, sys
SPARE = 1

def double(number):
    return 2 * number if {condition} else number

if __name__ == "__main__":
    print("usage:", os.path.basename(sys.argv[0]))
"""
ONE_LINER = 'python3 -c "import work; assert work.double(3) == 6; assert work.double(21) == 42"'


@pytest.mark.parametrize(
    ("command", "condition", "found"),
    [
        ("python3 -m unittest -q test_work.py", '"unittest" in sys.modules', ["answers_differ"]),
        ("python3 -m unittest -q test_work.py", "sys.argv", []),
        ("python3 check.py", '"check" in sys.argv[0]', ["answers_differ"]),
        ("python3 check.py", "sys.argv", []),
        (ONE_LINER, 'sys.orig_argv[1] == "-c"', ["answers_differ"]),
        (ONE_LINER, "sys.argv", []),
        (ONE_LINER, "os.path.getmtime(__file__) > __import__('time').time() - 3600", ["answers_differ"]),
    ],
)
def test_work_that_knows_which_program_asks(make_repo: Make, command: str, condition: str, found: list[str]) -> None:
    repo = make_repo({"test_work.py": UNITTEST, "check.py": SCRIPT}, resolved=False)
    check = CommandCheck(command=command, timeout_seconds=60.0)
    candidate = repo.commit({"work.py": WORK.format(condition=condition)})
    verdict = judge_command(repo.client, check, base=repo.base, candidate=candidate)

    assert (codes(verdict), verdict.noticed, verdict.not_asked) == (found, True, "")


@needs_namespaces
@pytest.mark.parametrize(("settings", "network"), [(SandboxSettings(network=OPEN), OPEN), (AUTO, INTERFACE)])
def test_only_a_person_opens_the_network(make_repo: Make, settings: SandboxSettings, network: str) -> None:
    repo = make_repo({"README.md": "demo\n"}, resolved=False)
    runner = CommandRunner(repo.client, CommandCheck(command="true", sandbox=settings), base=repo.base)
    with runner.place(repo.base, neutral=True) as checkout:
        run = runner.run_plainly(checkout, "readlink /proc/self/ns/net", 60.0, at_home=False)

    assert (run.output.strip() == os.readlink("/proc/self/ns/net")) == (network == OPEN)


CALLS = "from work import call\n\n\ndef test_call():\n    assert call({}) == 3\n"


@pytest.mark.parametrize(("given", "told"), [("lambda: 2", "0 of 1 calls were replayed"), ("2", "")])
def test_calls_that_cannot_be_made_again_are_only_checked(make_repo: Make, given: str, told: str) -> None:
    repo = make_repo({"test_work.py": CALLS.format(given)}, resolved=False)
    check = CommandCheck(command="python3 -m pytest -q", timeout_seconds=60.0)
    work = "def call(given):\n    return 1 + (given() if callable(given) else given)\n"
    verdict = judge_command(repo.client, check, base=repo.base, candidate=repo.commit({"work.py": work}))

    assert (verdict.accepted, verdict.noticed, verdict.not_asked) == (True, not told, told), verdict
