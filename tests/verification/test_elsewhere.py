"""A check of which only the exit status is known, once more as a person runs it, on real commits."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_harness.kernel.process.sandbox import of_check
from agent_harness.verification.command.runner import CommandCheck
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
        ('[ -n "$CI" ]', "fails as a person would run it"),
        ("echo $PWD | grep -q agent-harness", "fails in another one"),
        ("! grep -q ref: .git/HEAD", "fails in another one"),
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
        ("! [ -e ~/.known ]", "fails with the person's home folder"),
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


def test_a_check_in_a_persons_place_reaches_no_other_network(make_repo: Make) -> None:
    if of_check([], temporary=".")[0].kind != "namespaces":
        pytest.skip("needs namespaces")
    confined, _ = of_check([], temporary=".", namespaces=False, network="loopback")

    assert confined.network == "loopback"
